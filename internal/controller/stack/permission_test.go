package stack_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	ssmservice "github.com/coracle-eks/coracle/internal/aws/ssm"
	"github.com/coracle-eks/coracle/internal/controller/stack"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// userHandler makes IAM users, as a client of IAM.
type userHandler struct{}

func (userHandler) Create(ctx context.Context, r *resource.Request) (resource.Result, error) {
	if _, err := iam.NewFromConfig(r.Config).CreateUser(ctx, &iam.CreateUserInput{UserName: &r.Name}); err != nil {
		return resource.Result{}, err
	}
	return resource.Result{PhysicalID: r.Name}, nil
}

func (userHandler) Update(_ context.Context, r *resource.Request) (resource.Result, error) {
	return resource.Result{PhysicalID: r.PhysicalID}, nil
}

func (userHandler) Delete(ctx context.Context, r *resource.Request) (resource.Result, error) {
	_, err := iam.NewFromConfig(r.Config).DeleteUser(ctx, &iam.DeleteUserInput{UserName: &r.Name})
	if resource.IsNotFound(err) {
		err = nil
	}
	return resource.Result{PhysicalID: r.Name}, err
}

func (userHandler) Read(context.Context, *resource.Request) (properties, attributes map[string]any, err error) {
	return nil, nil, resource.ErrNotFound
}

// A stack acts with the permissions of its caller, or under the role that they may pass.
func TestAStackMayDoWhatItsCallerMay(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.types["AWS::IAM::User"] = resource.Type{Handler: userHandler{}, NameLimit: 64}
	const body = `{"Resources":{"U":{"Type":"AWS::IAM::User"}}}`
	w.NewRole(t, "cfn", `{"Version":"2012-10-17","Statement":{"Effect":"Allow",
		"Principal":{"Service":"cloudformation.amazonaws.com"},"Action":"sts:AssumeRole"}}`)
	w.NewRole(t, "stranger", `{"Version":"2012-10-17","Statement":{"Effect":"Allow",
		"Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}}`)
	role := "arn:aws:iam::" + iamtest.Account + ":role/"
	if _, err := w.IAM(w.Root).PutRolePolicy(t.Context(), &iam.PutRolePolicyInput{RoleName: aws.String("cfn"),
		PolicyName: aws.String("p"), PolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":{"Effect":"Allow",
			"Action":["iam:CreateUser","iam:DeleteUser"],"Resource":"*"}}`)}); err != nil {
		t.Fatal(err)
	}
	const stacks = `{"Effect":"Allow","Action":"cloudformation:*","Resource":"*"}`
	pass := func(name string) string {
		return `{"Effect":"Allow","Action":"iam:PassRole","Resource":"` + role + name + `"}`
	}
	policy := func(statements ...string) string {
		return `{"Version":"2012-10-17","Statement":[` + strings.Join(statements, ",") + `]}`
	}
	for _, c := range []struct {
		name, policy, role string
		code               string // of CreateStack
		want               types.StackStatus
	}{
		{name: "stacks-only", policy: policy(stacks), want: types.StackStatusRollbackComplete},
		{name: "users", policy: policy(stacks, `{"Effect":"Allow","Action":"iam:*","Resource":"*"}`),
			want: types.StackStatusCreateComplete},
		{name: "via", want: types.StackStatusCreateComplete, policy: policy(stacks, `{"Effect":"Allow","Action":"iam:*",
			"Resource":"*","Condition":{"ForAnyValue:StringEquals":{"aws:CalledVia":"cloudformation.amazonaws.com"}}}`)},
		{name: "no-pass", policy: policy(stacks), role: "cfn", code: "AccessDenied"},
		{name: "pass", policy: policy(stacks, pass("cfn")), role: "cfn", want: types.StackStatusCreateComplete},
		{name: "untrusting", policy: policy(stacks, pass("stranger")), role: "stranger", code: "ValidationError"},
		{name: "nothing", policy: policy(pass("cfn")), code: "AccessDenied"},
	} {
		client := w.as(w.NewUser(t, c.name, c.policy))
		in := &cloudformation.CreateStackInput{StackName: aws.String(c.name), TemplateBody: aws.String(body),
			Capabilities: []types.Capability{types.CapabilityCapabilityIam}}
		if c.role != "" {
			in.RoleARN = aws.String(role + c.role)
		}
		_, err := client.CreateStack(t.Context(), in)
		if c.code != "" {
			if awstest.Code(err) != c.code {
				t.Errorf("%s: %v, want %s", c.name, err, c.code)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		w.await(c.name, c.want)
		if c.want == types.StackStatusRollbackComplete && !w.has(c.name, "is not authorized to perform: iam:CreateUser") {
			t.Errorf("%s: the events are\n%s", c.name, strings.Join(w.events(c.name), "\n"))
		}
	}
}

// What a stack makes of a small template counts against the quota of its account, which can still delete it.
func TestStacksKeepTheQuotaOfTheirAccount(t *testing.T) {
	t.Parallel()
	var minutes atomic.Int64
	w := newFixture(t, func(o *store.Options) {
		o.Quota = store.Quota{PerAccount: 400_000, Now: func() time.Time {
			return time.Unix(60*minutes.Add(1), 0) // what is written is history soon
		}}
	})
	var resources []string
	for i := range 30 {
		resources = append(resources, fmt.Sprintf(`"R%d":{"Type":"AWS::Logs::LogGroup","Metadata":[%s{"Ref":"P"}]}`, i,
			strings.Repeat(`{"Ref":"P"},`, 9)))
	}
	body := strings.ReplaceAll(`{"Parameters":{"P":{"Type":"String"}},"Resources":{`+strings.Join(resources, ",")+`}}`,
		`"Metadata":[`, `"Metadata":{"a":[`)
	body = strings.ReplaceAll(body, `{"Ref":"P"}]}`, `{"Ref":"P"}]}}`)
	w.create("big", body, func(in *cloudformation.CreateStackInput) {
		in.Parameters = []types.Parameter{{ParameterKey: aws.String("P"),
			ParameterValue: aws.String(strings.Repeat("x", 4000))}}
		in.OnFailure = types.OnFailureDoNothing
	})
	w.await("big", types.StackStatusCreateFailed)
	if !w.has("big", "CREATE_FAILED Account 111122223333 has reached the quota") {
		t.Errorf("events: %.3000s", strings.Join(w.events("big"), "\n"))
	}
	if n := len(w.all()); n == 0 || n > 12 {
		t.Errorf("a stack of 1.2 MB has %d resources of 40 kB in an account of 400 kB", n)
	}
	id := *w.describe("big").StackId
	w.delete("big")
	w.await(id, types.StackStatusDeleteComplete)
}

// The outputs, exports and drift of a stack count against the quota of its account, as its resources do.
func TestWhatStacksRecordKeepsTheQuotaOfTheirAccount(t *testing.T) {
	t.Parallel()
	const limit = 400_000
	var minutes atomic.Int64
	w := newFixture(t, func(o *store.Options) {
		o.Quota = store.Quota{PerAccount: limit, Now: func() time.Time {
			return time.Unix(60*minutes.Add(1), 0) // what is written is history soon
		}}
	})
	outputs := func(n int, export string) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`"O%d":{"Value":{"Ref":"P"}%s}`, i,
				strings.ReplaceAll(export, "#", fmt.Sprint(i))))
		}
		return `{"Parameters":{"P":{"Type":"String"}},"Resources":{"A":{"Type":"AWS::Logs::LogGroup"}},"Outputs":{` +
			strings.Join(list, ",") + `}}`
	}
	long := func(in *cloudformation.CreateStackInput) {
		in.Parameters = []types.Parameter{{ParameterKey: aws.String("P"),
			ParameterValue: aws.String(strings.Repeat("x", 4000))}}
	}
	exports := func() int {
		return record.StackExports(w.Store).Count("")
	}
	w.create("small", outputs(2, `,"Export":{"Name":"small-#"}`), long)
	w.await("small", types.StackStatusCreateComplete)
	for name, body := range map[string]string{
		"outputs": outputs(120, ""),                            // 480 kB
		"exports": outputs(60, `,"Export":{"Name":"large-#"}`), // 240 kB of outputs, and as much of exports
	} {
		w.create(name, body, long)
		w.await(name, types.StackStatusRollbackComplete)
		if !w.has(name, "has reached the quota") || exports() != 2 {
			t.Errorf("%s: %d exports are left; events: %.3000s", name, exports(), strings.Join(w.events(name), "\n"))
		}
	}

	w.update("small", outputs(60, `,"Export":{"Name":"large-#"}`), func(in *cloudformation.UpdateStackInput) {
		in.Parameters = []types.Parameter{{ParameterKey: aws.String("P"), UsePreviousValue: aws.Bool(true)}}
	})
	w.await("small", types.StackStatusUpdateRollbackComplete)
	for i := range 2 { // what it had is left
		key := record.StackExportKey(iamtest.Account, iamtest.Region, fmt.Sprint("small-", i))
		if _, err := record.StackExports(w.Store).Get(t.Context(), key); err != nil || exports() != 2 {
			t.Errorf("export small-%d after an update that is rolled back, with %d exports: %v", i, exports(), err)
		}
	}

	rows := store.NewTable[string](w.Store, "rows")
	fill := func() {
		t.Helper()
		for size := limit / 8; size > 100; size /= 2 {
			for n := 0; ; n++ {
				_, err := rows.Create(store.Limited(t.Context()), store.Key(iamtest.Account, fmt.Sprint(size), fmt.Sprint(n)),
					strings.Repeat("x", size))
				var full *store.FullError
				if errors.As(err, &full) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	drifting := w.create("drifting", `{"Resources":{"A":{"Type":"AWS::Logs::LogGroup","Properties":{
		"DataProtectionPolicy":{"a":"`+strings.Repeat("n", 30_000)+`"}}}}}`)
	w.await("drifting", types.StackStatusCreateComplete)
	w.halt()
	began := awstest.Must[*cloudformation.DetectStackDriftOutput](t)(w.DetectStackDrift(t.Context(),
		&cloudformation.DetectStackDriftInput{StackName: &drifting}))
	fill()
	w.start()
	eventually.Nil(t, "the detection fails", func() error {
		out, err := w.DescribeStackDriftDetectionStatus(t.Context(), &cloudformation.DescribeStackDriftDetectionStatusInput{
			StackDriftDetectionId: began.StackDriftDetectionId})
		if err == nil && (out.DetectionStatus != types.StackDriftDetectionStatusDetectionFailed ||
			!strings.Contains(aws.ToString(out.DetectionStatusReason), "has reached the quota")) {
			err = fmt.Errorf("it is %s: %s", out.DetectionStatus, aws.ToString(out.DetectionStatusReason))
		}
		return err
	})
}

// A controller that has written much for an account waits, and goes on once that is history.
func TestStacksAreWrittenNoFasterThanTheQuotaAllows(t *testing.T) {
	t.Parallel()
	const limit = 400_000
	var minutes atomic.Int64
	w := newFixture(t, func(o *store.Options) {
		o.Quota = store.Quota{PerAccount: limit, Now: func() time.Time { return time.Unix(60*minutes.Load(), 0) }}
	})
	id := w.create("s", logGroups(1, "A"))
	w.await("s", types.StackStatusCreateComplete)
	w.halt()
	w.delete("s")
	rows, written := store.NewTable[string](w.Store, "rows"), strings.Repeat("x", 4000)
	var full *store.FullError
	for full == nil {
		_, err := rows.Put(store.Paced(t.Context()), store.Key(iamtest.Account, "a"), written)
		if err != nil && !errors.As(err, &full) {
			t.Fatal(err)
		}
	}
	c := stack.New(stack.Options{Store: w.Store, Types: w.types, Config: configure(w.Mux, w.Identity)})
	key := record.StackKey(iamtest.Account, iamtest.Region, id[strings.LastIndexByte(id, '/')+1:])
	// Rows smaller than the one above may still fit: what one pass writes does not.
	for range 100 {
		if _, err := c.Reconcile(t.Context(), key); errors.As(err, &full) && full.Recent {
			minutes.Add(11)
			w.start()
			w.await(id, types.StackStatusDeleteComplete)
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
	t.Error("the controller writes though its account has written too much")
}

// An update takes away tags of a stack, by which policies judge it, for those who may.
func TestUpdatesRemoveTagsOfStacks(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	const body = `{"Resources":{"A":{"Type":"AWS::SSM::Parameter","Properties":{"Type":"String","Value":"v"}}}}`
	tag := func(key string) []types.Tag { return []types.Tag{{Key: &key, Value: aws.String("v")}} }
	w.create("s", body, func(in *cloudformation.CreateStackInput) { in.Tags = tag("team") })
	w.await("s", types.StackStatusCreateComplete)
	const all = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}`
	update := func(name, policy string) (set, update error) {
		me := w.as(w.NewUser(t, name, all+policy+`]}`))
		_, set = me.CreateChangeSet(t.Context(), &cloudformation.CreateChangeSetInput{StackName: aws.String("s"),
			ChangeSetName: aws.String("of-" + name), TemplateBody: aws.String(body), Tags: tag("x")})
		_, update = me.UpdateStack(t.Context(), &cloudformation.UpdateStackInput{StackName: aws.String("s"),
			TemplateBody: aws.String(body), Tags: tag("x")})
		return set, update
	}
	set, err := update("mallory", `,{"Effect":"Deny","Action":"cloudformation:UntagResource","Resource":"*",
		"Condition":{"ForAnyValue:StringEquals":{"aws:TagKeys":"team"}}}`)
	if awstest.Code(set) != "AccessDenied" || awstest.Code(err) != "AccessDenied" {
		t.Errorf("who may not remove a tag of a stack does: %v; %v", set, err)
	}
	if set, err = update("bob", `,{"Effect":"Deny","Action":"cloudformation:UntagResource","Resource":"*",
		"Condition":{"ForAnyValue:StringEquals":{"aws:TagKeys":"x"}}}`); set != nil || err != nil {
		t.Errorf("who may remove a tag of a stack may not: %v; %v", set, err)
	}
	w.await("s", types.StackStatusUpdateComplete)
}

// What protects a stack, and what is secret about it, is not for those who may update or see it.
func TestStackPoliciesAndSecrets(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	const secret = "a-secret-value"
	body := func(days string) string {
		return `{"Parameters":{"P":{"Type":"String","NoEcho":true}},"Resources":{
			"A":{"Type":"AWS::SSM::Parameter","Properties":{"Type":"String","Value":{"Fn::Sub":"x${P}"},
				"Description":"` + days + `"}},
			"B":{"Type":"AWS::SSM::Parameter","Properties":{"Type":"String","Value":{"Fn::Base64":{"Ref":"P"}}}}}}`
	}
	parameters := []types.Parameter{{ParameterKey: aws.String("P"), ParameterValue: aws.String(secret)}}
	w.create("s", body("1"), func(in *cloudformation.CreateStackInput) {
		in.Parameters = parameters
		in.StackPolicyBody = aws.String(`{"Statement":{"Effect":"Deny","Action":"Update:*","Principal":"*","Resource":"*"}}`)
	})
	w.await("s", types.StackStatusCreateComplete)
	updater := w.as(w.NewUser(t, "updater", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*",
		"Resource":"*"},{"Effect":"Deny","Action":"cloudformation:SetStackPolicy","Resource":"*"}]}`))
	allow := aws.String(`{"Statement":{"Effect":"Allow","Action":"Update:*","Principal":"*","Resource":"*"}}`)
	for name, in := range map[string]*cloudformation.UpdateStackInput{
		"for the update": {StackPolicyDuringUpdateBody: allow}, "from now on": {StackPolicyBody: allow},
	} {
		in.StackName, in.TemplateBody, in.Parameters = aws.String("s"), aws.String(body("2")), parameters
		if _, err := updater.UpdateStack(ctx, in); awstest.Code(err) != "AccessDenied" {
			t.Errorf("who may not set stack policies sets one %s: %v", name, err)
		}
	}
	set := awstest.Must[*cloudformation.CreateChangeSetOutput](t)(w.CreateChangeSet(ctx,
		&cloudformation.CreateChangeSetInput{StackName: aws.String("s"), ChangeSetName: aws.String("c"),
			TemplateBody: aws.String(body("2")), Parameters: parameters}))
	shown := awstest.Must[*cloudformation.DescribeChangeSetOutput](t)(w.DescribeChangeSet(ctx,
		&cloudformation.DescribeChangeSetInput{ChangeSetName: set.Id, IncludePropertyValues: aws.Bool(true)}))
	events := awstest.Must[*cloudformation.DescribeStackEventsOutput](t)(w.DescribeStackEvents(ctx,
		&cloudformation.DescribeStackEventsInput{StackName: aws.String("s")}))
	drift := awstest.Must[*cloudformation.DetectStackResourceDriftOutput](t)(w.DetectStackResourceDrift(ctx,
		&cloudformation.DetectStackResourceDriftInput{StackName: aws.String("s"), LogicalResourceId: aws.String("A")}))
	for name, what := range map[string]any{"change set": shown, "events": events, "drift": drift} {
		text, err := json.Marshal(what)
		if err != nil {
			t.Fatal(err)
		}
		for _, hidden := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))} {
			if strings.Contains(string(text), hidden) {
				t.Errorf("the %s shows the value of a NoEcho parameter: %s", name, text)
			}
		}
		if !strings.Contains(string(text), `****`) {
			t.Errorf("the %s hides nothing: %s", name, text)
		}
	}
	if rows := awstest.Must[[]store.Row[thing]](t)(w.cloud.things.List(ctx, "")); !slices.ContainsFunc(rows,
		func(r store.Row[thing]) bool { return r.Value.Properties["Value"] == "x"+secret }) {
		t.Errorf("the resource did not get the value: %v", rows)
	}

	// A stack is found by a physical ID for those who may see it.
	physical := w.all()["A"][0]
	blind := w.as(w.NewUser(t, "blind", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*",
		"Resource":"*"},{"Effect":"Deny","Action":"cloudformation:*","Resource":"arn:aws:cloudformation:*:*:stack/s/*"}]}`))
	if _, err := blind.DescribeStackResources(ctx, &cloudformation.DescribeStackResourcesInput{
		PhysicalResourceId: &physical}); awstest.Code(err) != "AccessDenied" {
		t.Errorf("who may not see the stack finds it by a physical ID: %v", err)
	}

	// A wait condition gets the signals of a handle for its URL, not for its name.
	w.create("handle", `{"Resources":{"H":{"Type":"AWS::CloudFormation::WaitConditionHandle"}}}`)
	w.await("handle", types.StackStatusCreateComplete)
	url := awstest.Must[*cloudformation.DescribeStackResourceOutput](t)(w.DescribeStackResource(ctx,
		&cloudformation.DescribeStackResourceInput{StackName: aws.String("handle"), LogicalResourceId: aws.String("H")}))
	known, _, _ := strings.Cut(*url.StackResourceDetail.PhysicalResourceId, "?")
	w.create("spy", `{"Resources":{"W":{"Type":"AWS::CloudFormation::WaitCondition","Properties":{
		"Handle":"`+known+`","Timeout":1,"Count":1}}}}`, func(in *cloudformation.CreateStackInput) {
		in.OnFailure = types.OnFailureDoNothing
	})
	w.await("spy", types.StackStatusCreateFailed)
	if !w.has("spy", "Handle is not a wait condition handle") {
		t.Errorf("events: %q", w.events("spy"))
	}
}

// Who names a change set by its ID needs permission for its stack, whatever stack they name beside it.
func TestChangeSetsAreAuthorizedOnTheirStack(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	for _, name := range []string{"prod", "dev-1"} {
		w.create(name, logGroups(1, "A"))
		w.await(name, types.StackStatusCreateComplete)
	}
	set := awstest.Must[*cloudformation.CreateChangeSetOutput](t)(w.CreateChangeSet(ctx,
		&cloudformation.CreateChangeSetInput{StackName: aws.String("prod"), ChangeSetName: aws.String("x"),
			TemplateBody: aws.String(logGroups(7, "A"))}))
	dev := w.as(w.NewUser(t, "dev", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"cloudformation:*",
		"Resource":"arn:aws:cloudformation:*:*:stack/dev-*/*"}}`))
	// calls are the operations on change sets; the one that deletes it is the last one.
	calls := func(c *cloudformation.Client, name, stack *string) map[string]error {
		errs := map[string]error{}
		_, errs["DescribeChangeSet"] = c.DescribeChangeSet(ctx, &cloudformation.DescribeChangeSetInput{ChangeSetName: name,
			StackName: stack})
		_, errs["GetTemplate"] = c.GetTemplate(ctx, &cloudformation.GetTemplateInput{ChangeSetName: name, StackName: stack})
		_, errs["ExecuteChangeSet"] = c.ExecuteChangeSet(ctx, &cloudformation.ExecuteChangeSetInput{ChangeSetName: name,
			StackName: stack})
		_, errs["DeleteChangeSet"] = c.DeleteChangeSet(ctx, &cloudformation.DeleteChangeSetInput{ChangeSetName: name,
			StackName: stack})
		return errs
	}
	for _, stack := range []*string{aws.String("dev-1"), aws.String("dev-none"), w.describe("dev-1").StackId, nil} {
		for name, err := range calls(dev, set.Id, stack) {
			if awstest.Code(err) != "AccessDenied" {
				t.Errorf("%s of a change set of another stack with the stack %q: %v", name, aws.ToString(stack), err)
			}
		}
	}
	for name, err := range calls(w.Client, set.Id, aws.String("dev-1")) {
		if awstest.Code(err) != "ChangeSetNotFound" {
			t.Errorf("%s with a stack that does not have the change set: %v", name, err)
		}
	}
	shown := awstest.Must[*cloudformation.DescribeChangeSetOutput](t)(w.DescribeChangeSet(ctx,
		&cloudformation.DescribeChangeSetInput{ChangeSetName: set.Id, StackName: aws.String("prod")}))
	if shown.ExecutionStatus != types.ExecutionStatusAvailable {
		t.Errorf("the change set is %s", shown.ExecutionStatus)
	}
	if _, err := w.ExecuteChangeSet(ctx, &cloudformation.ExecuteChangeSetInput{ChangeSetName: set.Id,
		StackName: w.describe("prod").StackId}); err != nil {
		t.Error(err)
	}
}

// A loop does not make resources of types that the caller does not name, or for which they have not acknowledged what
// is needed.
func TestLoopsMakeOnlyWhatTheirCallerNames(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.types["AWS::IAM::User"] = resource.Type{Handler: userHandler{}, NameLimit: 64}
	body := aws.String(`{"Transform":"AWS::LanguageExtensions","Resources":{"Fn::ForEach::L":["X",["AWS::IAM::User"],
		{"U":{"Type":{"Ref":"X"}}}]}}`)
	w.create("s", logGroups(1, "A"))
	w.await("s", types.StackStatusCreateComplete)
	for _, c := range []struct {
		code, message string
		types         []string
		capabilities  []types.Capability
	}{
		{"InsufficientCapabilitiesException", "CAPABILITY_IAM", nil, nil},
		{"ValidationError", "Resource type AWS::IAM::User is not allowed by parameter ResourceTypes",
			[]string{"AWS::Logs::*"}, []types.Capability{types.CapabilityCapabilityIam}},
	} {
		_, create := w.CreateStack(t.Context(), &cloudformation.CreateStackInput{StackName: aws.String("n"),
			TemplateBody: body, ResourceTypes: c.types, Capabilities: c.capabilities})
		_, update := w.UpdateStack(t.Context(), &cloudformation.UpdateStackInput{StackName: aws.String("s"),
			TemplateBody: body, ResourceTypes: c.types, Capabilities: c.capabilities})
		_, change := w.CreateChangeSet(t.Context(), &cloudformation.CreateChangeSetInput{StackName: aws.String("s"),
			ChangeSetName: aws.String("c"), TemplateBody: body, ResourceTypes: c.types, Capabilities: c.capabilities})
		for name, err := range map[string]error{"CreateStack": create, "UpdateStack": update, "CreateChangeSet": change} {
			if awstest.Code(err) != c.code || !strings.Contains(err.Error(), c.message) {
				t.Errorf("%s: %v, want %s: %s", name, err, c.code, c.message)
			}
		}
	}
}

// What a parameter refers to is what it was when the operation was allowed.
func TestReferencesOfParametersStayAsTheyWereAllowed(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ssmservice.New(ssmservice.Options{Store: w.Store}).Register(w.Mux)
	w.types["AWS::IAM::User"] = resource.Type{Handler: userHandler{}, NameLimit: 64}
	ctx := t.Context()
	client := ssm.New(ssm.Options{Region: iamtest.Region, BaseEndpoint: &w.URL, HTTPClient: w.http,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return w.Root, nil })})
	kind := func(value string) {
		t.Helper()
		if _, err := client.DeleteParameter(ctx, &ssm.DeleteParameterInput{Name: aws.String("kind")}); err != nil &&
			awstest.Code(err) != "ParameterNotFound" {
			t.Fatal(err)
		}
		awstest.Must[*ssm.PutParameterOutput](t)(client.PutParameter(ctx, &ssm.PutParameterInput{Name: aws.String("kind"),
			Value: &value, Type: "String"}))
	}
	const body = `{"Transform":"AWS::LanguageExtensions","Parameters":{"P":{"Type":"CommaDelimitedList"}},"Resources":{
		"Fn::ForEach::L":["X",{"Ref":"P"},{"R":{"Type":{"Ref":"X"}}}]}}`
	revisions := record.StackRevisions(w.Store)
	for name, c := range map[string]struct {
		meanwhile func()
		want      types.StackStatus
	}{
		"another parameter": {func() { kind("AWS::IAM::User") }, types.StackStatusCreateComplete},
		"another record": {func() { // which nothing writes: it shows that the operation checks, too
			rows := awstest.Must[[]store.Row[record.StackRevision]](t)(revisions.List(ctx, ""))
			for _, row := range rows {
				awstest.Must[store.Row[record.StackRevision]](t)(revisions.Modify(ctx, row.Key,
					func(r *record.StackRevision) error {
						if r.Parameters[0].Text == nil || *r.Parameters[0].Text != "AWS::Logs::LogGroup" {
							t.Errorf("the parameter is recorded as %+v", r.Parameters[0])
						}
						r.Parameters[0].Text = aws.String("AWS::IAM::User")
						return nil
					}))
			}
		}, types.StackStatusRollbackComplete},
	} {
		kind("AWS::Logs::LogGroup")
		stack := aws.String(strings.ReplaceAll(name, " ", "-"))
		set := awstest.Must[*cloudformation.CreateChangeSetOutput](t)(w.CreateChangeSet(ctx,
			&cloudformation.CreateChangeSetInput{StackName: stack, ChangeSetName: aws.String("c"),
				ChangeSetType: types.ChangeSetTypeCreate, TemplateBody: aws.String(body),
				ResourceTypes: []string{"AWS::Logs::*"}, Parameters: []types.Parameter{{ParameterKey: aws.String("P"),
					ParameterValue: aws.String("{{resolve:ssm:kind:1}}")}}}))
		c.meanwhile()
		awstest.Must[*cloudformation.ExecuteChangeSetOutput](t)(w.ExecuteChangeSet(ctx,
			&cloudformation.ExecuteChangeSetInput{ChangeSetName: set.Id}))
		w.await(*stack, c.want)
		if c.want != types.StackStatusCreateComplete {
			w.wantEvents(*stack, "did not have resources of type AWS::IAM::User when the operation was requested")
		}
		shown := w.describe(*stack).Parameters[0]
		if *shown.ParameterValue != "{{resolve:ssm:kind:1}}" || shown.ResolvedValue != nil {
			t.Errorf("%s: the parameter is shown as %+v", name, shown)
		}
	}
}
