package stack_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/eventually"
)

// Bad requests get AWS's errors and change nothing.
func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.create("used", `{"Resources":{"A":{"Type":"AWS::Logs::LogGroup"}},
		"Outputs":{"O":{"Value":"v","Export":{"Name":"exported"}}}}`)
	w.await("used", types.StackStatusCreateComplete)
	w.create("user", `{"Resources":{"A":{"Type":"AWS::Logs::LogGroup","Properties":{
		"LogGroupName":{"Fn::ImportValue":"exported"}}}}}`)
	w.await("user", types.StackStatusCreateComplete)
	w.create("safe", logGroups(1, "A"), func(in *cloudformation.CreateStackInput) {
		in.EnableTerminationProtection = aws.Bool(true)
	})
	w.await("safe", types.StackStatusCreateComplete)
	w.fault("Never", fault{Forever: true})
	w.create("busy", logGroups(1, "Never"))
	w.await("busy", types.StackStatusCreateInProgress)
	eventually.True(t, "Never is being created", func() bool { return strings.Contains(w.counts(), "Never:1") })
	ctx, before := t.Context(), w.counts()
	s, ok := aws.String, logGroups(1, "A")
	type create = cloudformation.CreateStackInput
	type update = cloudformation.UpdateStackInput
	type change = cloudformation.CreateChangeSetInput
	one := func(resource string) string { return `{"Resources":{"A":` + resource + `}}` }
	many := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"R%d":{"Type":"AWS::Logs::LogGroup"}`, i))
		}
		return `{"Resources":{` + strings.Join(all, ",") + `}}`
	}
	parameter := func(declaration string) string {
		return `{"Parameters":{"P":{` + declaration + `}},"Resources":{"A":{"Type":"AWS::Logs::LogGroup"}}}`
	}
	value := func(v string) []types.Parameter {
		return []types.Parameter{{ParameterKey: s("P"), ParameterValue: &v}}
	}
	const validation = "ValidationError"
	for _, c := range []struct {
		name, code, message string
		in                  any
	}{
		{"no name", validation, "stackName", &create{StackName: s("1a"), TemplateBody: &ok}},
		{"a name with a dot", validation, "regular expression pattern", &create{StackName: s("a.b"), TemplateBody: &ok}},
		{"a long name", validation, "128", &create{StackName: s("a" + strings.Repeat("b", 128)), TemplateBody: &ok}},
		{"a stack that exists", "AlreadyExistsException", "Stack [used] already exists", &create{StackName: s("used"),
			TemplateBody: &ok}},
		{"no template", validation, "Either Template URL or Template Body must be specified.", &create{StackName: s("n")}},
		{"a URL", validation, "TemplateURL is not supported", &create{StackName: s("n"), TemplateURL: s("https://x/y")}},
		{"more than 1 MB", validation, "'templateBody' failed to satisfy constraint", &create{StackName: s("n"),
			TemplateBody: s(strings.Repeat(" ", 1<<20) + ok)}},
		{"no JSON", validation, "Template format error", &create{StackName: s("n"), TemplateBody: s("{")}},
		{"no resources", validation, "At least one Resources member", &create{StackName: s("n"), TemplateBody: s(`{}`)}},
		{"too many resources", validation, "500", &create{StackName: s("n"), TemplateBody: s(many(501))}},
		{"an unknown type", validation, "Unrecognized resource types: [AWS::No::Thing]", &create{StackName: s("n"),
			TemplateBody: s(one(`{"Type":"AWS::No::Thing"}`))}},
		{"a type that is not served", validation, "Unrecognized resource types", &create{StackName: s("n"),
			TemplateBody: s(one(`{"Type":"AWS::EC2::Subnet","Properties":{"VpcId":"vpc-1","CidrBlock":"10.0.0.0/24"}}`))}},
		{"an unknown property", validation, "Nope", &create{StackName: s("n"),
			TemplateBody: s(one(`{"Type":"AWS::Logs::LogGroup","Properties":{"Nope":1}}`))}},
		{"a property that is not supported", validation, "not supported by coracle", &create{StackName: s("n"),
			TemplateBody: s(one(`{"Type":"AWS::Logs::LogGroup","Properties":{"BearerTokenAuthenticationEnabled":true}}`))}},
		{"a property of a wrong type", validation, "RetentionInDays", &create{StackName: s("n"),
			TemplateBody: s(one(`{"Type":"AWS::Logs::LogGroup","Properties":{"RetentionInDays":["x"]}}`))}},
		{"a missing property", validation, "Type", &create{StackName: s("n"),
			TemplateBody: s(one(`{"Type":"AWS::SSM::Parameter","Properties":{"Value":"x"}}`))}},
		{"an unresolved reference", validation, "Unresolved resource dependencies [B]", &create{StackName: s("n"),
			TemplateBody: s(one(`{"Type":"AWS::Logs::LogGroup","DependsOn":["B"]}`))}},
		{"a cycle", validation, "Circular dependency between resources: [A, B]", &create{StackName: s("n"),
			TemplateBody: s(`{"Resources":{"A":{"Type":"AWS::Logs::LogGroup","DependsOn":"B"},
				"B":{"Type":"AWS::Logs::LogGroup","DependsOn":"A"}}}`)}},
		{"no capability", "InsufficientCapabilitiesException", "Requires capabilities : [CAPABILITY_IAM]", &create{
			StackName: s("n"), TemplateBody: s(one(`{"Type":"AWS::IAM::AccessKey","Properties":{"UserName":"u"}}`))}},
		{"no named capability", "InsufficientCapabilitiesException", "Requires capabilities : [CAPABILITY_NAMED_IAM]",
			&create{StackName: s("n"), Capabilities: []types.Capability{types.CapabilityCapabilityIam},
				TemplateBody: s(one(`{"Type":"AWS::IAM::User","Properties":{"UserName":"u"}}`))}},
		{"a macro", "InsufficientCapabilitiesException", "CAPABILITY_AUTO_EXPAND", &create{StackName: s("n"),
			TemplateBody: s(`{"Transform":"AWS::Serverless-2016-10-31",` + ok[1:])}},
		{"a missing parameter", validation, "Parameters: [P] must have values", &create{StackName: s("n"),
			TemplateBody: s(parameter(`"Type":"String"`))}},
		{"an unknown parameter", validation, "do not exist in the template", &create{StackName: s("n"), TemplateBody: &ok,
			Parameters: value("x")}},
		{"a value that is not allowed", validation, "must be one of AllowedValues", &create{StackName: s("n"),
			TemplateBody: s(parameter(`"Type":"String","AllowedValues":["a"]`)), Parameters: value("x")}},
		{"a value that is no number", validation, "must be a number", &create{StackName: s("n"),
			TemplateBody: s(parameter(`"Type":"Number"`)), Parameters: value("x")}},
		{"a parameter twice", validation, "Duplicate parameter key", &create{StackName: s("n"),
			TemplateBody: s(parameter(`"Type":"String"`)), Parameters: append(value("x"), value("y")...)}},
		{"a previous value of a new stack", validation, "usePreviousValue", &create{StackName: s("n"),
			TemplateBody: s(parameter(`"Type":"String"`)),
			Parameters:   []types.Parameter{{ParameterKey: s("P"), UsePreviousValue: aws.Bool(true)}}}},
		{"no value", validation, "Either a value", &create{StackName: s("n"),
			TemplateBody: s(parameter(`"Type":"String"`)), Parameters: []types.Parameter{{ParameterKey: s("P")}}}},
		{"both failure modes", validation, "OnFailure and DisableRollback", &create{StackName: s("n"), TemplateBody: &ok,
			OnFailure: types.OnFailureDelete, DisableRollback: aws.Bool(true)}},
		{"a bad stack policy", validation, "Invalid stack policy", &create{StackName: s("n"), TemplateBody: &ok,
			StackPolicyBody: s(`{}`)}},
		{"a stack policy by its URL", validation, "Amazon S3", &create{StackName: s("n"), TemplateBody: &ok,
			StackPolicyURL: s("https://x/y")}},
		{"topics", validation, "Amazon SNS", &create{StackName: s("n"), TemplateBody: &ok,
			NotificationARNs: []string{"arn:aws:sns:us-east-1:111122223333:t"}}},
		{"rollback triggers", validation, "RollbackTriggers", &create{StackName: s("n"), TemplateBody: &ok,
			RollbackConfiguration: &types.RollbackConfiguration{RollbackTriggers: []types.RollbackTrigger{
				{Arn: s("arn:aws:cloudwatch:us-east-1:111122223333:alarm:a"), Type: s("AWS::CloudWatch::Alarm")}}}}},
		{"a reserved tag", validation, "aws:", &create{StackName: s("n"), TemplateBody: &ok,
			Tags: []types.Tag{{Key: s("aws:x"), Value: s("y")}}}},
		{"a type that ResourceTypes lacks", validation, "ResourceTypes", &create{StackName: s("n"), TemplateBody: &ok,
			ResourceTypes: []string{"AWS::EC2::*"}}},
		{"a role that is none", validation, "roleARN", &create{StackName: s("n"), TemplateBody: &ok,
			RoleARN: s("arn:aws:iam::111122223333:user/xyz")}},
		{"a role that does not exist", validation, "is invalid or cannot be assumed", &create{StackName: s("n"),
			TemplateBody: &ok, RoleARN: s("arn:aws:iam::111122223333:role/none")}},
		{"a role of another account", "AccessDenied", "Cross-account", &create{StackName: s("n"), TemplateBody: &ok,
			RoleARN: s("arn:aws:iam::444455556666:role/none")}},
		{"an update of no stack", validation, "Stack with id none does not exist", &update{StackName: s("none"),
			TemplateBody: &ok}},
		{"an update while creating", validation, "is in CREATE_IN_PROGRESS state and can not be updated.", &update{
			StackName: s("busy"), TemplateBody: &ok}},
		{"an update of nothing", validation, "No updates are to be performed.", &update{StackName: s("safe"),
			TemplateBody: &ok}},
		{"two templates", validation, "You cannot specify both", &update{StackName: s("safe"), TemplateBody: &ok,
			UsePreviousTemplate: aws.Bool(true)}},
		{"a deletion of a protected stack", validation,
			"Stack [safe] cannot be deleted while TerminationProtection is enabled",
			&cloudformation.DeleteStackInput{StackName: s("safe")}},
		{"a deletion of an export in use", validation, "Export exported cannot be deleted as it is in use by user",
			&cloudformation.DeleteStackInput{StackName: s("used")}},
		{"retained resources", validation, "DELETE_FAILED", &cloudformation.DeleteStackInput{StackName: s("user"),
			RetainResources: []string{"A"}}},
		{"a forced deletion", validation, "DELETE_FAILED", &cloudformation.DeleteStackInput{StackName: s("user"),
			DeletionMode: types.DeletionModeForceDeleteStack}},
		{"a description of no stack", validation, "Stack with id none does not exist",
			&cloudformation.DescribeStacksInput{StackName: s("none")}},
		{"events of no stack", validation, "Stack [none] does not exist",
			&cloudformation.DescribeStackEventsInput{StackName: s("none")}},
		{"no resource", validation, "Resource X does not exist for stack used",
			&cloudformation.DescribeStackResourceInput{StackName: s("used"), LogicalResourceId: s("X")}},
		{"a bad filter", validation, "enum value set", &cloudformation.ListStacksInput{
			StackStatusFilter: []types.StackStatus{"NOPE"}}},
		{"a bad page token", validation, "", &cloudformation.ListStacksInput{NextToken: s("nope")}},
		{"a cancel of no update", validation, "CancelUpdateStack cannot be called from current stack status",
			&cloudformation.CancelUpdateStackInput{StackName: s("safe")}},
		{"a rollback of no failure", validation, "can not be rolled back",
			&cloudformation.RollbackStackInput{StackName: s("safe")}},
		{"a rollback that is not to be continued", validation, "can not continue rollback",
			&cloudformation.ContinueUpdateRollbackInput{StackName: s("safe")}},
		{"a signal to what does not wait", validation, "can not be signaled", &cloudformation.SignalResourceInput{
			StackName: s("safe"), LogicalResourceId: s("A"), UniqueId: s("1"), Status: types.ResourceSignalStatusSuccess}},
		{"a signal to no resource", validation, "does not exist", &cloudformation.SignalResourceInput{
			StackName: s("safe"), LogicalResourceId: s("X"), UniqueId: s("1"), Status: types.ResourceSignalStatusSuccess}},
		{"imports of no export", validation, "Export 'none' does not exist.", &cloudformation.ListImportsInput{
			ExportName: s("none")}},
		{"a change set of no stack", validation, "Stack [none] does not exist", &change{StackName: s("none"),
			ChangeSetName: s("c"), TemplateBody: &ok}},
		{"a bad name of a change set", validation, "changeSetName", &change{StackName: s("safe"), ChangeSetName: s("1"),
			TemplateBody: &ok}},
		{"a creation of a stack that exists", "AlreadyExistsException", "", &change{StackName: s("safe"),
			ChangeSetName: s("c"), TemplateBody: &ok, ChangeSetType: types.ChangeSetTypeCreate}},
		{"an import of nothing", validation, "ResourcesToImport", &change{StackName: s("safe"), ChangeSetName: s("c"),
			TemplateBody: &ok, ChangeSetType: types.ChangeSetTypeImport}},
		{"no change set", "ChangeSetNotFound", "ChangeSet [c] does not exist", &cloudformation.DescribeChangeSetInput{
			StackName: s("safe"), ChangeSetName: s("c")}},
		{"the execution of no change set", "ChangeSetNotFound", "", &cloudformation.ExecuteChangeSetInput{
			StackName: s("safe"), ChangeSetName: s("c")}},
		{"a change set without its stack", validation, "StackName must be specified",
			&cloudformation.DescribeChangeSetInput{ChangeSetName: s("c")}},
		{"costs", validation, "EstimateTemplateCost is not supported", &cloudformation.EstimateTemplateCostInput{
			TemplateBody: &ok}},
		{"a type that does not exist", "TypeNotFoundException", "", &cloudformation.DescribeTypeInput{
			TypeName: s("AWS::No::Thing"), Type: types.RegistryTypeResource}},
		{"drift of no stack", validation, "does not exist", &cloudformation.DetectStackDriftInput{StackName: s("none")}},
		{"drift while creating", validation, "Drift detection cannot be performed", &cloudformation.DetectStackDriftInput{
			StackName: s("busy")}},
		{"no detection", validation, "does not exist", &cloudformation.DescribeStackDriftDetectionStatusInput{
			StackDriftDetectionId: s("none")}},
	} {
		var err error
		switch in := c.in.(type) {
		case *create:
			_, err = w.CreateStack(ctx, in)
		case *update:
			_, err = w.UpdateStack(ctx, in)
		case *change:
			_, err = w.CreateChangeSet(ctx, in)
		case *cloudformation.DeleteStackInput:
			_, err = w.DeleteStack(ctx, in)
		case *cloudformation.DescribeStacksInput:
			_, err = w.DescribeStacks(ctx, in)
		case *cloudformation.DescribeStackEventsInput:
			_, err = w.DescribeStackEvents(ctx, in)
		case *cloudformation.DescribeStackResourceInput:
			_, err = w.DescribeStackResource(ctx, in)
		case *cloudformation.ListStacksInput:
			_, err = w.ListStacks(ctx, in)
		case *cloudformation.CancelUpdateStackInput:
			_, err = w.CancelUpdateStack(ctx, in)
		case *cloudformation.RollbackStackInput:
			_, err = w.RollbackStack(ctx, in)
		case *cloudformation.ContinueUpdateRollbackInput:
			_, err = w.ContinueUpdateRollback(ctx, in)
		case *cloudformation.SignalResourceInput:
			_, err = w.SignalResource(ctx, in)
		case *cloudformation.ListImportsInput:
			_, err = w.ListImports(ctx, in)
		case *cloudformation.DescribeChangeSetInput:
			_, err = w.DescribeChangeSet(ctx, in)
		case *cloudformation.ExecuteChangeSetInput:
			_, err = w.ExecuteChangeSet(ctx, in)
		case *cloudformation.EstimateTemplateCostInput:
			_, err = w.EstimateTemplateCost(ctx, in)
		case *cloudformation.DescribeTypeInput:
			_, err = w.DescribeType(ctx, in)
		case *cloudformation.DetectStackDriftInput:
			_, err = w.DetectStackDrift(ctx, in)
		case *cloudformation.DescribeStackDriftDetectionStatusInput:
			_, err = w.DescribeStackDriftDetectionStatus(ctx, in)
		default:
			t.Fatalf("%s: %T is not called", c.name, c.in)
		}
		code, message, _ := awstest.Failure(err)
		if code != c.code || !strings.Contains(message, c.message) {
			t.Errorf("%s: %s: %s (%v), want %s with %q", c.name, code, message, err, c.code, c.message)
		}
	}
	if got := w.counts(); got != before {
		t.Errorf("there are %s, and were %s", got, before)
	}
	all := awstest.Must[*cloudformation.DescribeStacksOutput](t)(w.DescribeStacks(ctx,
		&cloudformation.DescribeStacksInput{}))
	if len(all.Stacks) != 4 {
		t.Errorf("%d stacks exist", len(all.Stacks))
	}
}

// A template of 1 MB is accepted in the request.
func TestALargeTemplate(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	body := logGroups(1, "A")
	w.create("large", strings.Repeat(" ", 1<<20-len(body))+body)
	w.await("large", types.StackStatusCreateComplete)
	got := awstest.Must[*cloudformation.GetTemplateOutput](t)(w.GetTemplate(t.Context(),
		&cloudformation.GetTemplateInput{StackName: aws.String("large")}))
	if len(*got.TemplateBody) != 1<<20 {
		t.Errorf("the template has %d bytes", len(*got.TemplateBody))
	}
}

// A change set shows what it does, and does it.
func TestChangeSets(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx, s := t.Context(), aws.String
	out := awstest.Must[*cloudformation.CreateChangeSetOutput](t)(w.CreateChangeSet(ctx,
		&cloudformation.CreateChangeSetInput{StackName: s("s"), ChangeSetName: s("first"),
			ChangeSetType: types.ChangeSetTypeCreate, TemplateBody: s(`{"Resources":{
				"V":{"Type":"AWS::EC2::VPC","Properties":{"CidrBlock":"10.0.0.0/16"}},
				"G":{"Type":"AWS::Logs::LogGroup","Properties":{"LogGroupName":{"Ref":"V"}}}}}`)}))
	if st := w.describe("s").StackStatus; st != types.StackStatusReviewInProgress || w.counts() != "" {
		t.Errorf("the stack is %s with %s", st, w.counts())
	}
	execute := func(id *string) {
		t.Helper()
		if _, err := w.ExecuteChangeSet(ctx, &cloudformation.ExecuteChangeSetInput{ChangeSetName: id}); err != nil {
			t.Fatal(err)
		}
	}
	execute(out.Id)
	w.await("s", types.StackStatusCreateComplete)
	out = awstest.Must[*cloudformation.CreateChangeSetOutput](t)(w.CreateChangeSet(ctx,
		&cloudformation.CreateChangeSetInput{StackName: s("s"), ChangeSetName: s("second"), TemplateBody: s(`{"Resources":{
			"V":{"Type":"AWS::EC2::VPC","Properties":{"CidrBlock":"10.1.0.0/16"}},
			"G":{"Type":"AWS::Logs::LogGroup","Properties":{"LogGroupName":{"Ref":"V"}}},
			"N":{"Type":"AWS::Logs::LogGroup"}}}`),
			Tags: []types.Tag{{Key: s("a"), Value: s("1")}, {Key: s("a"), Value: s("1")}}})) // as eksctl does
	set := awstest.Must[*cloudformation.DescribeChangeSetOutput](t)(w.DescribeChangeSet(ctx,
		&cloudformation.DescribeChangeSetInput{ChangeSetName: out.Id}))
	var got []string
	for _, c := range set.Changes {
		got = append(got, fmt.Sprintf("%s %s %s", c.ResourceChange.Action, *c.ResourceChange.LogicalResourceId,
			c.ResourceChange.Replacement))
	}
	if text := strings.Join(got, ", "); text != "Modify G True, Add N , Modify V True" ||
		set.Status != types.ChangeSetStatusCreateComplete || set.ExecutionStatus != types.ExecutionStatusAvailable {
		t.Errorf("the change set is %s, %s with %s", set.Status, set.ExecutionStatus, text)
	}
	execute(out.Id)
	w.await("s", types.StackStatusUpdateComplete)
	if got := w.counts(); got != "G:1 N:1 V:1" {
		t.Errorf("there are %s", got)
	}
	_, err := w.ExecuteChangeSet(ctx, &cloudformation.ExecuteChangeSetInput{ChangeSetName: out.Id})
	awstest.WantCode(t, err, "InvalidChangeSetStatus")
	out = awstest.Must[*cloudformation.CreateChangeSetOutput](t)(w.CreateChangeSet(ctx,
		&cloudformation.CreateChangeSetInput{StackName: s("s"), ChangeSetName: s("third"),
			UsePreviousTemplate: aws.Bool(true)}))
	set = awstest.Must[*cloudformation.DescribeChangeSetOutput](t)(w.DescribeChangeSet(ctx,
		&cloudformation.DescribeChangeSetInput{ChangeSetName: out.Id}))
	if set.Status != types.ChangeSetStatusFailed || !strings.Contains(aws.ToString(set.StatusReason),
		"The submitted information didn't contain changes") {
		t.Errorf("a change set of nothing is %s: %s", set.Status, aws.ToString(set.StatusReason))
	}
}
