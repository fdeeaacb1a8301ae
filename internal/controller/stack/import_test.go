package stack_test

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
)

// importing returns a change set that imports a network.
func importing(stack, set, body, vpc string) *cloudformation.CreateChangeSetInput {
	return &cloudformation.CreateChangeSetInput{StackName: &stack, ChangeSetName: &set, TemplateBody: &body,
		ChangeSetType: types.ChangeSetTypeImport, ResourcesToImport: []types.ResourceToImport{{
			LogicalResourceId: aws.String("Vpc"), ResourceType: aws.String("AWS::EC2::VPC"),
			ResourceIdentifier: map[string]string{"VpcId": vpc}}}}
}

const imported = `"Vpc":{"Type":"AWS::EC2::VPC","DeletionPolicy":"Retain","Properties":{"CidrBlock":"10.0.0.0/16"%s}}`

// Resources that exist become part of a stack as they are: of a new one, and of one that has others.
func TestImports(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	for _, id := range []string{"vpc-1", "vpc-2"} {
		if _, err := w.cloud.things.Create(ctx, id, thing{Type: "AWS::EC2::VPC", LogicalID: id,
			Properties: map[string]any{"CidrBlock": "10.0.0.0/16"}}); err != nil {
			t.Fatal(err)
		}
	}
	run := func(in *cloudformation.CreateChangeSetInput, want types.StackStatus) {
		t.Helper()
		set := awstest.Must[*cloudformation.CreateChangeSetOutput](t)(w.CreateChangeSet(ctx, in))
		shown := awstest.Must[*cloudformation.DescribeChangeSetOutput](t)(w.DescribeChangeSet(ctx,
			&cloudformation.DescribeChangeSetInput{ChangeSetName: set.Id}))
		if len(shown.Changes) != 1 || shown.Changes[0].ResourceChange.Action != types.ChangeActionImport {
			t.Errorf("the change set has %+v", shown.Changes)
		}
		if _, err := w.ExecuteChangeSet(ctx, &cloudformation.ExecuteChangeSetInput{ChangeSetName: set.Id}); err != nil {
			t.Fatal(err)
		}
		w.await(*in.StackName, want)
	}
	vpc := fmt.Sprintf(imported, "")
	run(importing("new", "i", `{"Resources":{`+vpc+`},"Outputs":{"Arn":{"Value":{"Fn::GetAtt":["Vpc","VpcId"]}}}}`,
		"vpc-1"), types.StackStatusImportComplete)
	w.wantCounts("vpc-1:1 vpc-2:1")
	if got := outputs(w.describe("new"))["Arn"]; got != "vpc-1" || w.physical("new", "Vpc") != "vpc-1" {
		t.Errorf("the network is %s, and an output %s", w.physical("new", "Vpc"), got)
	}
	w.wantEvents("new", "Vpc IMPORT_IN_PROGRESS Resource import started.", "Vpc IMPORT_COMPLETE", "new IMPORT_COMPLETE")

	const group = `"Group":{"Type":"AWS::Logs::LogGroup"}`
	w.create("old", `{"Resources":{`+group+`}}`)
	w.await("old", types.StackStatusCreateComplete)
	run(importing("old", "i", `{"Resources":{`+group+`,`+vpc+`}}`, "vpc-2"), types.StackStatusImportComplete)
	w.update("old", `{"Resources":{`+group+`,`+fmt.Sprintf(imported, `,"EnableDnsHostnames":true`)+`}}`)
	w.await("old", types.StackStatusUpdateComplete)
	row, err := w.cloud.things.Get(ctx, "vpc-2")
	if err != nil || row.Value.Properties["EnableDnsHostnames"] != true {
		t.Errorf("the network is %+v, %v", row.Value, err)
	}
	id := *w.describe("old").StackId
	w.delete("old")
	w.await(id, types.StackStatusDeleteComplete)
	w.wantCounts("vpc-1:1 vpc-2:1")
}

func TestAnImportOfNothing(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	const group = `"Group":{"Type":"AWS::Logs::LogGroup","Properties":{"RetentionInDays":%d}}`
	body := func(days int, more string) string {
		return `{"Resources":{` + fmt.Sprintf(group, days) + more + `}}`
	}
	vpc := "," + fmt.Sprintf(imported, "")
	w.create("s", body(1, ""))
	w.await("s", types.StackStatusCreateComplete)
	for name, in := range map[string]*cloudformation.CreateChangeSetInput{
		"another change":    importing("s", "i", body(7, vpc), "vpc-1"),
		"nothing new":       importing("s", "i", body(1, ""), "vpc-1"),
		"no policy":         importing("s", "i", body(1, `,"Vpc":{"Type":"AWS::EC2::VPC"}`), "vpc-1"),
		"no identifier":     importing("s", "i", body(1, vpc), ""),
		"one more resource": importing("s", "i", body(1, vpc+`,"New":{"Type":"AWS::Logs::LogGroup"}`), "vpc-1"),
	} {
		_, err := w.CreateChangeSet(ctx, in)
		if awstest.Code(err) != "ValidationError" {
			t.Errorf("%s: %v", name, err)
		}
	}
	set := awstest.Must[*cloudformation.CreateChangeSetOutput](t)(w.CreateChangeSet(ctx,
		importing("s", "i", body(1, vpc), "vpc-none")))
	if _, err := w.ExecuteChangeSet(ctx, &cloudformation.ExecuteChangeSetInput{ChangeSetName: set.Id}); err != nil {
		t.Fatal(err)
	}
	w.await("s", types.StackStatusImportRollbackComplete)
	w.wantEvents("s", "Resource of type 'AWS::EC2::VPC' with identifier 'vpc-none' was not found.")
	w.wantCounts("Group:1")
	if got := w.physical("s", "Vpc"); got != "" {
		t.Errorf("the stack has %s", got)
	}
	w.update("s", body(7, ""))
	w.await("s", types.StackStatusUpdateComplete)
}
