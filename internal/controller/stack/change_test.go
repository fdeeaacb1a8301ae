package stack_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// Change sets show each property once, however much of it differs, and are refused when they are too large all the
// same.
func TestChangeSetsOfManyChanges(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	w.types["AWS::EC2::SecurityGroup"] = resource.Type{Handler: newCloud(w.Store, "AWS::EC2::SecurityGroup")}
	group := func(protocol int) *string {
		return aws.String(`{"Resources":{"G":{"Type":"AWS::EC2::SecurityGroup","Properties":{"GroupDescription":"g",
			"SecurityGroupIngress":[` + strings.TrimSuffix(strings.Repeat(fmt.Sprintf(`{"IpProtocol":"%d"},`, protocol), 5000),
			",") + `]}}}}`)
	}
	w.create("s", *group(1))
	w.await("s", types.StackStatusCreateComplete)
	set := awstest.Must[*cloudformation.CreateChangeSetOutput](t)(w.CreateChangeSet(ctx,
		&cloudformation.CreateChangeSetInput{StackName: aws.String("s"), ChangeSetName: aws.String("many"),
			TemplateBody: group(2)}))
	shown := awstest.Must[*cloudformation.DescribeChangeSetOutput](t)(w.DescribeChangeSet(ctx,
		&cloudformation.DescribeChangeSetInput{ChangeSetName: set.Id, IncludePropertyValues: aws.Bool(true)}))
	if len(shown.Changes) != 1 || len(shown.Changes[0].ResourceChange.Details) != 1 {
		t.Fatalf("the change set has %d changes, the first one with %d details", len(shown.Changes),
			len(shown.Changes[0].ResourceChange.Details))
	}
	target := shown.Changes[0].ResourceChange.Details[0].Target
	for want, got := range map[string]string{
		"SecurityGroupIngress": *target.Name, "/Properties/SecurityGroupIngress": *target.Path,
		`[{"IpProtocol":"1"},{"IpProtocol":"1"}`: *target.BeforeValue,
		`[{"IpProtocol":"2"},{"IpProtocol":"2"}`: *target.AfterValue,
	} {
		if !strings.HasPrefix(got, want) {
			t.Errorf("the detail has %.100s, want %s", got, want)
		}
	}

	// A character becomes seven bytes of JSON within JSON.
	large := `{"Parameters":{"P":{"Type":"String"}},"Resources":{`
	for i := range 10 {
		large += fmt.Sprintf(`"P%d":{"Type":"AWS::SSM::Parameter","Properties":{"Type":"String","Value":{"Fn::Sub":"%s"}}},`,
			i, strings.Repeat("${P}", 60))
	}
	_, err := w.CreateChangeSet(ctx, &cloudformation.CreateChangeSetInput{StackName: aws.String("s"),
		ChangeSetName: aws.String("large"), TemplateBody: aws.String(strings.TrimSuffix(large, ",") + "}}"),
		Parameters: []types.Parameter{{ParameterKey: aws.String("P"),
			ParameterValue: aws.String(strings.Repeat("<", 4096))}}})
	if awstest.Code(err) != "ValidationError" || !strings.Contains(err.Error(), "The change set has too many changes") {
		t.Errorf("a change set that is too large: %v", err)
	}
}
