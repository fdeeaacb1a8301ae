package stack_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
	"github.com/coracle-eks/coracle/internal/eventually"
)

// child is the template of a nested stack: a network, and a group that is named after it. bad has no place in it unless
// it is text.
func child(bad string) string {
	body := `{"Parameters":{"Cidr":{"Type":"String"},"Days":{"Type":"Number","Default":1}},"Resources":{
		"Vpc":{"Type":"AWS::EC2::VPC","Properties":{"CidrBlock":{"Ref":"Cidr"}}},
		"Inner":{"Type":"AWS::Logs::LogGroup","DependsOn":"Vpc","Properties":{"RetentionInDays":{"Ref":"Days"}}}` + bad + `},
		"Outputs":{"Id":{"Value":{"Ref":"Vpc"}}}}`
	return "data:application/json;base64," + base64.StdEncoding.EncodeToString([]byte(body))
}

// parent is the template of a stack with a nested one, which Outer is named after.
func parent(cidr string, days int, more string) string {
	return fmt.Sprintf(`{"Resources":{
		"Net":{"Type":"AWS::CloudFormation::Stack","Properties":{"TemplateURL":%q,
			"Parameters":{"Cidr":%q,"Days":%d},"Tags":[{"Key":"layer","Value":"network"}]}},
		"Outer":{"Type":"AWS::Logs::LogGroup","Properties":{"RetentionInDays":%d,
			"LogGroupName":{"Fn::Sub":"/vpc/${Net.Outputs.Id}"}}}%s}}`, child(""), cidr, days, days, more)
}

func TestNestedStacks(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	id := w.create("top", parent("10.0.0.0/16", 1, ""), func(in *cloudformation.CreateStackInput) {
		in.Tags = []types.Tag{{Key: aws.String("team"), Value: aws.String("a")}}
	})
	w.await("top", types.StackStatusCreateComplete)
	w.wantCounts("Inner:1 Outer:1 Vpc:1")
	net := w.physical("top", "Net")
	s := w.describe(net)
	if aws.ToString(s.ParentId) != id || aws.ToString(s.RootId) != id || !strings.HasPrefix(*s.StackName, "top-Net-") {
		t.Errorf("the nested stack is %+v", s)
	}
	vpc := w.all()["Vpc"][0]
	row, err := w.cloud.things.Get(t.Context(), vpc)
	if err != nil || row.Value.Tags["team"] != "a" || row.Value.Tags["layer"] != "network" ||
		row.Value.Tags["aws:cloudformation:stack-id"] != net {
		t.Errorf("the network is %+v, %v", row.Value, err)
	}

	// A parameter replaces the network in the nested stack, and so what the one above has named after it.
	w.update("top", parent("10.1.0.0/16", 7, ""))
	w.await("top", types.StackStatusUpdateComplete)
	eventually.True(t, "the nested stack is cleaned up", func() bool { return w.counts() == "Inner:1 Outer:1 Vpc:1" })
	if w.physical("top", "Net") != net || w.all()["Vpc"][0] == vpc {
		t.Errorf("the network was %s and is %s", vpc, w.all()["Vpc"][0])
	}
	row, err = w.cloud.things.Get(t.Context(), w.all()["Outer"][0])
	if err != nil || row.Value.Properties["LogGroupName"] != "/vpc/"+w.all()["Vpc"][0] {
		t.Errorf("the outer group is %+v, %v", row.Value, err)
	}

	// The nested stack is updated again at once, although it may still be cleaning up; so is it when all goes.
	w.update("top", parent("10.2.0.0/16", 7, ""))
	w.await("top", types.StackStatusUpdateComplete)
	w.delete("top")
	w.await(id, types.StackStatusDeleteComplete)
	w.wantCounts("")
	if got := w.describe(net).StackStatus; got != types.StackStatusDeleteComplete {
		t.Errorf("the nested stack is %s", got)
	}
}

// A nested stack has the capabilities that its parent was given.
func TestCapabilitiesOfNestedStacks(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.types["AWS::IAM::User"] = resource.Type{Handler: userHandler{}, NameLimit: 64}
	body := fmt.Sprintf(`{"Resources":{"Net":{"Type":"AWS::CloudFormation::Stack","Properties":{"TemplateURL":%q,
		"Parameters":{"Cidr":"10.0.0.0/16"}}}}}`, child(`,"U":{"Type":"AWS::IAM::User"}`))
	w.create("without", body)
	w.await("without", types.StackStatusRollbackComplete)
	w.wantEvents("without", "Requires capabilities : [CAPABILITY_IAM]")
	w.create("with", body, func(in *cloudformation.CreateStackInput) {
		in.Capabilities = []types.Capability{types.CapabilityCapabilityIam}
	})
	w.await("with", types.StackStatusCreateComplete)
}

// A nested stack has resources of the types that were allowed for its parent, no others.
func TestTypesOfNestedStacks(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	body := fmt.Sprintf(`{"Resources":{"Net":{"Type":"AWS::CloudFormation::Stack","Properties":{"TemplateURL":%q,
		"Parameters":{"Cidr":"10.0.0.0/16"}}}}}`, child(""))
	for name, allowed := range map[string][]string{"without": nil, "with": {"AWS::EC2::VPC", "AWS::Logs::*"}} {
		id := w.create(name, body, func(in *cloudformation.CreateStackInput) {
			in.ResourceTypes = append(allowed, "AWS::CloudFormation::Stack")
		})
		if allowed == nil {
			w.await(id, types.StackStatusRollbackComplete)
			w.wantEvents(id, "is not allowed by parameter ResourceTypes")
		} else {
			w.await(id, types.StackStatusCreateComplete)
		}
	}
}

func TestANestedStackThatCannotBeCreated(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.fault("Bad", fault{Create: "you may not"})
	body := fmt.Sprintf(`{"Resources":{"First":{"Type":"AWS::Logs::LogGroup"},
		"Net":{"Type":"AWS::CloudFormation::Stack","DependsOn":"First","Properties":{"TemplateURL":%q,
			"Parameters":{"Cidr":"10.0.0.0/16"}}}}}`, child(`,"Bad":{"Type":"AWS::Logs::LogGroup","DependsOn":"Inner"}`))
	id := w.create("top", body)
	w.await(id, types.StackStatusRollbackComplete)
	w.wantCounts("")
	w.wantEvents(id, "was not successfully created: The following resource(s) failed to create: [Bad].",
		"top ROLLBACK_IN_PROGRESS The following resource(s) failed to create: [Net].", "Net DELETE_COMPLETE")
	all := awstest.Must[*cloudformation.ListStacksOutput](t)(w.ListStacks(t.Context(), &cloudformation.ListStacksInput{}))
	for _, s := range all.StackSummaries {
		if s.ParentId != nil && s.StackStatus != types.StackStatusDeleteComplete {
			t.Errorf("the nested stack is %s", s.StackStatus)
		}
	}

	body = `{"Resources":{"Net":{"Type":"AWS::CloudFormation::Stack","Properties":{"TemplateURL":"https://s3/x"}}}}`
	id = w.create("elsewhere", body)
	w.await(id, types.StackStatusRollbackComplete)
	w.wantEvents(id, "coracle has no Amazon S3")
}

// A nested stack that cannot be updated rolls itself back, and then the stack above.
func TestANestedStackThatCannotBeUpdated(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.create("top", parent("10.0.0.0/16", 1, ""))
	w.await("top", types.StackStatusCreateComplete)
	vpc := w.all()["Vpc"][0]
	w.fault("Inner", fault{Update: "7"})
	w.update("top", parent("10.1.0.0/16", 7, ""))
	w.await("top", types.StackStatusUpdateRollbackComplete)
	w.wantEvents("top", "was not successfully updated: The following resource(s) failed to update: [Inner].",
		"top UPDATE_ROLLBACK_IN_PROGRESS The following resource(s) failed to update: [Net].")
	if got := w.describe(w.physical("top", "Net")).StackStatus; got != types.StackStatusUpdateRollbackComplete {
		t.Errorf("the nested stack is %s", got)
	}
	w.wantCounts("Inner:1 Outer:1 Vpc:1")
	if now := w.all()["Vpc"][0]; now != vpc {
		t.Errorf("the network was %s and is %s", vpc, now)
	}
	w.fault("Inner", fault{})
	w.update("top", parent("10.0.0.0/16", 7, ""))
	w.await("top", types.StackStatusUpdateComplete)
}

// What fails above rolls back the nested stack, which was updated, and one that is being updated.
func TestAStackAboveThatCannotBeUpdated(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.create("top", parent("10.0.0.0/16", 1, ""))
	w.await("top", types.StackStatusCreateComplete)
	w.fault("Bad", fault{Create: "you may not"})
	w.update("top", parent("10.0.0.0/16", 7, `,"Bad":{"Type":"AWS::Logs::LogGroup","DependsOn":"Net"}`))
	w.await("top", types.StackStatusUpdateRollbackComplete)
	row, err := w.cloud.things.Get(t.Context(), w.all()["Inner"][0])
	if err != nil || fmt.Sprint(row.Value.Properties["RetentionInDays"]) != "1" {
		t.Errorf("the inner group is %+v, %v", row.Value, err)
	}

	w.fault("Slow", fault{Forever: true})
	slow := strings.Replace(parent("10.0.0.0/16", 7, ""), child(""),
		child(`,"Slow":{"Type":"AWS::Logs::LogGroup","DependsOn":"Inner"}`), 1)
	w.update("top", slow)
	eventually.True(t, "Slow is being created", func() bool { return strings.Contains(w.counts(), "Slow:1") })
	if _, err := w.CancelUpdateStack(t.Context(), &cloudformation.CancelUpdateStackInput{
		StackName: aws.String("top")}); err != nil {
		t.Fatal(err)
	}
	w.await("top", types.StackStatusUpdateRollbackComplete)
	eventually.True(t, "the nested stack is cleaned up", func() bool { return w.counts() == "Inner:1 Outer:1 Vpc:1" })
	row, err = w.cloud.things.Get(t.Context(), w.all()["Inner"][0])
	if err != nil || fmt.Sprint(row.Value.Properties["RetentionInDays"]) != "1" {
		t.Errorf("the inner group is %+v, %v", row.Value, err)
	}
}

// A rollback that failed in a nested stack is continued there, too.
func TestTheRollbackOfANestedStackIsContinued(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	body := func(cidr string, bad string) string {
		return fmt.Sprintf(`{"Resources":{"Net":{"Type":"AWS::CloudFormation::Stack","Properties":{"TemplateURL":%q,
			"Parameters":{"Cidr":"10.0.0.0/16","Days":%s}}}}}`, child(bad), cidr)
	}
	w.create("top", body("1", ""))
	w.await("top", types.StackStatusCreateComplete)
	w.fault("Inner", fault{Update: "1"}) // it cannot be set back
	w.fault("Bad", fault{Create: "you may not"})
	w.update("top", body("7", `,"Bad":{"Type":"AWS::Logs::LogGroup","DependsOn":"Inner"}`))
	w.await("top", types.StackStatusUpdateRollbackFailed)
	w.fault("Inner", fault{})
	if _, err := w.ContinueUpdateRollback(t.Context(), &cloudformation.ContinueUpdateRollbackInput{
		StackName: aws.String("top")}); err != nil {
		t.Fatal(err)
	}
	w.await("top", types.StackStatusUpdateRollbackComplete)
	if got := w.describe(w.physical("top", "Net")).StackStatus; got != types.StackStatusUpdateRollbackComplete {
		t.Errorf("the nested stack is %s", got)
	}
	w.wantCounts("Inner:1 Vpc:1")
}
