package stack_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/eventually"
)

// logGroups is a template of log groups: each of the IDs depends on the one before.
func logGroups(days int, ids ...string) string {
	var resources []string
	for i, id := range ids {
		depends := ""
		if i > 0 {
			depends = fmt.Sprintf(`"DependsOn":[%q],`, ids[i-1])
		}
		resources = append(resources, fmt.Sprintf(`%q:{"Type":"AWS::Logs::LogGroup",%s"Properties":{"RetentionInDays":%d}}`,
			id, depends, days))
	}
	return `{"Resources":{` + strings.Join(resources, ",") + `}}`
}

func TestALifeOfAStack(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	const body = `{"Description":"two networks",
		"Parameters":{"Cidr":{"Type":"String"},"Secret":{"Type":"String","NoEcho":true}},
		"Resources":{
			"Vpc":{"Type":"AWS::EC2::VPC","Properties":{"CidrBlock":{"Ref":"Cidr"}}},
			"Group":{"Type":"AWS::Logs::LogGroup","Properties":{"LogGroupName":{"Fn::Sub":"/vpc/${Vpc}"},"RetentionInDays":7}}},
		"Outputs":{"Vpc":{"Value":{"Ref":"Vpc"},"Export":{"Name":"the-vpc"}},
			"Arn":{"Value":{"Fn::GetAtt":["Group","Arn"]},"Description":"of the group"}}}`
	parameters := func(cidr string) []types.Parameter {
		return []types.Parameter{{ParameterKey: aws.String("Cidr"), ParameterValue: &cidr},
			{ParameterKey: aws.String("Secret"), ParameterValue: aws.String("hush")}}
	}
	id := w.create("net", body, func(in *cloudformation.CreateStackInput) {
		in.Parameters = parameters("10.0.0.0/16")
		in.Tags = []types.Tag{{Key: aws.String("team"), Value: aws.String("a")}}
	})
	s := w.await(id, types.StackStatusCreateComplete)
	vpc, group := w.all()["Vpc"][0], w.all()["Group"][0]
	outputs := map[string]string{}
	for _, o := range s.Outputs {
		outputs[*o.OutputKey] = *o.OutputValue
	}
	if outputs["Vpc"] != vpc || outputs["Arn"] != "arn:thing:"+group || *s.Description != "two networks" {
		t.Errorf("the stack is %+v with %v", s, outputs)
	}
	for _, p := range s.Parameters {
		if *p.ParameterKey == "Secret" && *p.ParameterValue != "****" {
			t.Errorf("the secret is shown: %s", *p.ParameterValue)
		}
	}
	row, err := w.cloud.things.Get(t.Context(), group)
	if err != nil || row.Value.Properties["LogGroupName"] != "/vpc/"+vpc || row.Value.Tags["team"] != "a" ||
		row.Value.Tags["aws:cloudformation:stack-id"] != id || row.Value.Tags["aws:cloudformation:stack-name"] != "net" ||
		row.Value.Tags["aws:cloudformation:logical-id"] != "Group" {
		t.Errorf("the group is %+v, %v", row.Value, err)
	}
	want := []string{"net CREATE_IN_PROGRESS User Initiated", "Vpc CREATE_IN_PROGRESS",
		"Vpc CREATE_IN_PROGRESS Resource creation Initiated", "Vpc CREATE_COMPLETE", "Group CREATE_IN_PROGRESS",
		"Group CREATE_IN_PROGRESS Resource creation Initiated", "Group CREATE_COMPLETE", "net CREATE_COMPLETE"}
	if got := w.events("net"); !slices.Equal(got, want) {
		t.Errorf("the events are\n%s", strings.Join(got, "\n"))
	}

	// An update replaces the network, and so the group that is named after it.
	w.update("net", body, func(in *cloudformation.UpdateStackInput) { in.Parameters = parameters("10.1.0.0/16") })
	s = w.await("net", types.StackStatusUpdateComplete)
	if got := w.counts(); got != "Group:1 Vpc:1" || w.all()["Vpc"][0] == vpc || w.all()["Group"][0] == group {
		t.Errorf("after the update there are %s", got)
	}
	if s.LastUpdatedTime == nil || *s.Tags[0].Key != "team" {
		t.Errorf("the stack is %+v", s)
	}
	exports := awstest.Must[*cloudformation.ListExportsOutput](t)(w.ListExports(t.Context(),
		&cloudformation.ListExportsInput{}))
	if len(exports.Exports) != 1 || *exports.Exports[0].Value != w.all()["Vpc"][0] {
		t.Errorf("the exports are %+v", exports.Exports)
	}
	_, err = w.UpdateStack(t.Context(), &cloudformation.UpdateStackInput{StackName: aws.String("net"),
		UsePreviousTemplate: aws.Bool(true), Parameters: []types.Parameter{
			{ParameterKey: aws.String("Cidr"), UsePreviousValue: aws.Bool(true)},
			{ParameterKey: aws.String("Secret"), UsePreviousValue: aws.Bool(true)}}})
	if _, message, _ := awstest.Failure(err); message != "No updates are to be performed." {
		t.Errorf("an update of nothing: %v", err)
	}

	// Tags of the stack reach its resources.
	w.update("net", body, func(in *cloudformation.UpdateStackInput) {
		in.Parameters = parameters("10.1.0.0/16")
		in.Tags = []types.Tag{{Key: aws.String("team"), Value: aws.String("b")}}
	})
	w.await("net", types.StackStatusUpdateComplete)
	row, err = w.cloud.things.Get(t.Context(), w.all()["Vpc"][0])
	if err != nil || row.Value.Tags["team"] != "b" {
		t.Errorf("the network is %+v, %v", row.Value, err)
	}

	w.delete("net")
	w.await(id, types.StackStatusDeleteComplete)
	if got := w.counts(); got != "" {
		t.Errorf("after the deletion there are %s", got)
	}
	_, err = w.DescribeStacks(t.Context(), &cloudformation.DescribeStacksInput{StackName: aws.String("net")})
	if _, message, _ := awstest.Failure(err); message != "Stack with id net does not exist" {
		t.Errorf("a deleted stack by its name: %v", err)
	}
	w.create("net", logGroups(1, "A"))
	w.await("net", types.StackStatusCreateComplete)
}

func TestACreationThatFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode types.OnFailure
		want types.StackStatus
		left string
	}{
		{types.OnFailureRollback, types.StackStatusRollbackComplete, ""},
		{types.OnFailureDoNothing, types.StackStatusCreateFailed, "A:1"},
		{types.OnFailureDelete, types.StackStatusDeleteComplete, ""},
	} {
		t.Run(string(c.mode), func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			w.fault("B", fault{Create: "you may not"})
			id := w.create("s", logGroups(1, "A", "B", "C"), func(in *cloudformation.CreateStackInput) {
				in.OnFailure = c.mode
			})
			w.await(id, c.want)
			if got := w.counts(); got != c.left {
				t.Errorf("there are %q, want %q", got, c.left)
			}
			if !w.has(id, `B CREATE_FAILED Resource handler returned message: "you may not" (RequestToken: `) ||
				!w.has(id, "The following resource(s) failed to create: [B].") || w.has(id, "C CREATE_IN_PROGRESS") {
				t.Errorf("the events are\n%s", strings.Join(w.events(id), "\n"))
			}
		})
	}
}

func TestAnUpdateThatFailsIsRolledBack(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.create("s", `{"Resources":{
		"Changed":{"Type":"AWS::Logs::LogGroup","Properties":{"RetentionInDays":1}},
		"Replaced":{"Type":"AWS::EC2::VPC","Properties":{"CidrBlock":"10.0.0.0/16"}},
		"Removed":{"Type":"AWS::Logs::LogGroup"},
		"Bad":{"Type":"AWS::Logs::LogGroup","Properties":{"RetentionInDays":1}}}}`)
	w.await("s", types.StackStatusCreateComplete)
	before := w.all()
	w.fault("Bad", fault{Update: "30"})
	w.update("s", `{"Resources":{
		"Changed":{"Type":"AWS::Logs::LogGroup","Properties":{"RetentionInDays":7}},
		"Replaced":{"Type":"AWS::EC2::VPC","Properties":{"CidrBlock":"10.1.0.0/16"}},
		"New":{"Type":"AWS::Logs::LogGroup"},
		"Bad":{"Type":"AWS::Logs::LogGroup","Properties":{"RetentionInDays":30},"DependsOn":["Changed","Replaced","New"]}}}`)
	w.await("s", types.StackStatusUpdateRollbackComplete)
	got := w.counts()
	if got != "Bad:1 Changed:1 Removed:1 Replaced:1" || w.all()["Replaced"][0] != before["Replaced"][0] {
		t.Errorf("there are %s\n%s", got, strings.Join(w.events("s"), "\n"))
	}
	row, err := w.cloud.things.Get(t.Context(), before["Changed"][0])
	if err != nil || fmt.Sprint(row.Value.Properties["RetentionInDays"]) != "1" {
		t.Errorf("the changed group is %+v, %v", row.Value, err)
	}
	for _, event := range []string{"Bad UPDATE_FAILED", "s UPDATE_ROLLBACK_IN_PROGRESS The following resource(s) failed " +
		"to update: [Bad].", "Replaced UPDATE_IN_PROGRESS Requested update requires the creation of a new physical " +
		"resource; hence creating one.", "s UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS", "New DELETE_COMPLETE"} {
		if !w.has("s", event) {
			t.Errorf("there is no event %q in\n%s", event, strings.Join(w.events("s"), "\n"))
		}
	}
	// The stack is as before: the same template changes nothing.
	_, err = w.UpdateStack(t.Context(), &cloudformation.UpdateStackInput{StackName: aws.String("s"),
		UsePreviousTemplate: aws.Bool(true)})
	if _, message, _ := awstest.Failure(err); message != "No updates are to be performed." {
		t.Errorf("an update to what there was: %v", err)
	}
}

func TestAStackIsDeletedWhileItIsCreated(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.fault("B", fault{Forever: true})
	id := w.create("s", logGroups(1, "A", "B", "C"))
	eventually.True(t, "B is being created", func() bool { return w.counts() == "A:1 B:1" })
	w.delete("s")
	w.await(id, types.StackStatusDeleteComplete)
	if got := w.counts(); got != "" {
		t.Errorf("there are %s", got)
	}
}

func TestDeletionsThatFail(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	id := w.create("s", logGroups(1, "A", "B", "C"))
	w.await("s", types.StackStatusCreateComplete)
	w.fault("B", fault{Delete: "you may not"})
	w.fault("C", fault{Busy: 2})
	w.delete("s")
	s := w.await(id, types.StackStatusDeleteFailed)
	if got := w.counts(); got != "A:1 B:1" || *s.StackStatusReason != "The following resource(s) failed to delete: [B]. " {
		t.Errorf("there are %s: %s", got, *s.StackStatusReason)
	}
	_, err := w.DeleteStack(t.Context(), &cloudformation.DeleteStackInput{StackName: aws.String("s"),
		RetainResources: []string{"B"}})
	if err != nil {
		t.Fatal(err)
	}
	w.await(id, types.StackStatusDeleteComplete)
	if got := w.counts(); got != "B:1" || !w.has(id, "B DELETE_SKIPPED") {
		t.Errorf("there are %s", got)
	}
}

func TestDeletionPolicies(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	id := w.create("s", `{"Resources":{
		"Kept":{"Type":"AWS::Logs::LogGroup","DeletionPolicy":"Retain"},
		"Except":{"Type":"AWS::Logs::LogGroup","DeletionPolicy":"RetainExceptOnCreate"},
		"Vpc":{"Type":"AWS::EC2::VPC","UpdateReplacePolicy":"Retain","Properties":{"CidrBlock":"10.0.0.0/16"}}}}`)
	w.await("s", types.StackStatusCreateComplete)
	w.update("s", `{"Resources":{
		"Kept":{"Type":"AWS::Logs::LogGroup","DeletionPolicy":"Retain"},
		"Except":{"Type":"AWS::Logs::LogGroup","DeletionPolicy":"RetainExceptOnCreate"},
		"Vpc":{"Type":"AWS::EC2::VPC","UpdateReplacePolicy":"Retain","Properties":{"CidrBlock":"10.1.0.0/16"}}}}`)
	w.await("s", types.StackStatusUpdateComplete)
	if got := w.counts(); got != "Except:1 Kept:1 Vpc:2" {
		t.Errorf("after the update there are %s", got)
	}
	w.delete("s")
	w.await(id, types.StackStatusDeleteComplete)
	if got := w.counts(); got != "Except:1 Kept:1 Vpc:1" {
		t.Errorf("after the deletion there are %s", got)
	}
}

func TestAnUpdateIsCanceled(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.create("s", logGroups(1, "A"))
	w.await("s", types.StackStatusCreateComplete)
	w.fault("B", fault{Forever: true})
	w.update("s", logGroups(7, "A", "B"))
	eventually.True(t, "B is being created", func() bool { return strings.Contains(w.counts(), "B:1") })
	if _, err := w.CancelUpdateStack(t.Context(), &cloudformation.CancelUpdateStackInput{
		StackName: aws.String("s")}); err != nil {
		t.Fatal(err)
	}
	w.await("s", types.StackStatusUpdateRollbackComplete)
	if got := w.counts(); got != "A:1" || !w.has("s", "s UPDATE_ROLLBACK_IN_PROGRESS User Initiated") {
		t.Errorf("there are %s\n%s", got, strings.Join(w.events("s"), "\n"))
	}
}

func TestARollbackThatFailsIsContinued(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.create("s", logGroups(1, "A", "B"))
	w.await("s", types.StackStatusCreateComplete)
	w.fault("A", fault{Update: "1"}) // it cannot be set back
	w.fault("B", fault{Update: "7"})
	w.update("s", logGroups(7, "A", "B"))
	w.await("s", types.StackStatusUpdateRollbackFailed)
	w.fault("A", fault{})
	if _, err := w.ContinueUpdateRollback(t.Context(), &cloudformation.ContinueUpdateRollbackInput{
		StackName: aws.String("s")}); err != nil {
		t.Fatal(err)
	}
	w.await("s", types.StackStatusUpdateRollbackComplete)
	row, err := w.cloud.things.Get(t.Context(), w.all()["A"][0])
	if err != nil || fmt.Sprint(row.Value.Properties["RetentionInDays"]) != "1" {
		t.Errorf("A is %+v, %v", row.Value, err)
	}
}

func TestFailedUpdatesMayBeLeft(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.create("s", logGroups(1, "A", "B"))
	w.await("s", types.StackStatusCreateComplete)
	w.fault("B", fault{Update: "7"})
	disable := func(in *cloudformation.UpdateStackInput) { in.DisableRollback = aws.Bool(true) }
	w.update("s", logGroups(7, "A", "B"), disable)
	w.await("s", types.StackStatusUpdateFailed)
	w.update("s", logGroups(14, "A", "B"), disable) // from there on
	w.await("s", types.StackStatusUpdateComplete)
	w.fault("B", fault{Update: "30"})
	w.update("s", logGroups(30, "A", "B"), disable)
	w.await("s", types.StackStatusUpdateFailed)
	if _, err := w.RollbackStack(t.Context(), &cloudformation.RollbackStackInput{StackName: aws.String("s")}); err != nil {
		t.Fatal(err)
	}
	w.await("s", types.StackStatusUpdateRollbackComplete)
	for _, id := range []string{"A", "B"} {
		row, err := w.cloud.things.Get(t.Context(), w.all()[id][0])
		if err != nil || fmt.Sprint(row.Value.Properties["RetentionInDays"]) != "14" {
			t.Errorf("%s is %+v, %v", id, row.Value, err)
		}
	}
}

func TestAManyResourceStack(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	var ids, resources []string
	for i := range 200 {
		ids = append(ids, fmt.Sprintf("R%03d", i))
		depends := ""
		if i >= 20 {
			depends = fmt.Sprintf(`"DependsOn":[%q],`, ids[i-20])
		}
		resources = append(resources, fmt.Sprintf(`%q:{"Type":"AWS::Logs::LogGroup",%s"Properties":{"RetentionInDays":1}}`,
			ids[i], depends))
	}
	id := w.create("many", `{"Resources":{`+strings.Join(resources, ",")+`}}`)
	w.await("many", types.StackStatusCreateComplete)
	if n := len(w.all()); n != 200 {
		t.Errorf("%d resources exist", n)
	}
	w.delete("many")
	w.await(id, types.StackStatusDeleteComplete)
	if n := len(w.all()); n != 0 {
		t.Errorf("%d resources are left", n)
	}
}

func TestARollbackSkipsResources(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.create("s", logGroups(1, "A", "B"))
	w.await("s", types.StackStatusCreateComplete)
	w.fault("A", fault{Update: "1"}) // it cannot be set back
	w.fault("B", fault{Update: "7"})
	w.update("s", logGroups(7, "A", "B"))
	w.await("s", types.StackStatusUpdateRollbackFailed)
	_, err := w.ContinueUpdateRollback(t.Context(), &cloudformation.ContinueUpdateRollbackInput{
		StackName: aws.String("s"), ResourcesToSkip: []string{"Nope"}})
	awstest.WantCode(t, err, "ValidationError")
	if _, err := w.ContinueUpdateRollback(t.Context(), &cloudformation.ContinueUpdateRollbackInput{
		StackName: aws.String("s"), ResourcesToSkip: []string{"A"}}); err != nil {
		t.Fatal(err)
	}
	w.await("s", types.StackStatusUpdateRollbackComplete)
	row, err := w.cloud.things.Get(t.Context(), w.all()["A"][0])
	if err != nil || fmt.Sprint(row.Value.Properties["RetentionInDays"]) != "7" {
		t.Errorf("A is %+v, %v", row.Value, err)
	}
	w.fault("B", fault{})
	w.update("s", logGroups(14, "A", "B"))
	w.await("s", types.StackStatusUpdateComplete)
}

func TestAFailedCreationIsRolledBackLater(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.fault("B", fault{Create: "you may not"})
	id := w.create("s", logGroups(1, "A", "B", "C"), func(in *cloudformation.CreateStackInput) {
		in.DisableRollback = aws.Bool(true)
	})
	w.await("s", types.StackStatusCreateFailed)
	if _, err := w.RollbackStack(t.Context(), &cloudformation.RollbackStackInput{StackName: aws.String("s")}); err != nil {
		t.Fatal(err)
	}
	w.await("s", types.StackStatusRollbackComplete)
	w.wantCounts("")
	w.delete("s")
	w.await(id, types.StackStatusDeleteComplete)
}
