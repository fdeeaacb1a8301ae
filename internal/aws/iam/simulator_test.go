package iam_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
)

func TestSimulators(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, c, p := t.Context(), a.IAM(a.Root), aws.String
	a.NewUser(
		t,
		"alice",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:::b/*","Condition":{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}},{"Effect":"Deny","Action":"s3:DeleteObject","Resource":"*"}]}`,
	)
	address := []types.ContextEntry{{ContextKeyName: p("aws:SourceIp"), ContextKeyType: types.ContextKeyTypeEnumIp,
		ContextKeyValues: []string{"10.1.1.1"}}}
	out := awstest.Must[*iam.SimulatePrincipalPolicyOutput](t)(
		c.SimulatePrincipalPolicy(ctx, &iam.SimulatePrincipalPolicyInput{
			PolicySourceArn: p("arn:aws:iam::111122223333:user/alice"), ActionNames: []string{"s3:GetObject",
				"s3:DeleteObject", "s3:CreateBucket"}, ResourceArns: []string{"arn:aws:s3:::b/x"}, ContextEntries: address,
		}),
	)
	for i, want := range []types.PolicyEvaluationDecisionType{"allowed", "explicitDeny", "allowed"} {
		r := out.EvaluationResults[i]
		if r.EvalDecision != want || len(r.MatchedStatements) != 1 ||
			*r.MatchedStatements[0].SourcePolicyId != "user_alice_inline" {
			t.Errorf("%s: %s %+v", *r.EvalActionName, r.EvalDecision, r.MatchedStatements)
		}
	}
	missing := awstest.Must[*iam.SimulatePrincipalPolicyOutput](t)(c.SimulatePrincipalPolicy(ctx,
		&iam.SimulatePrincipalPolicyInput{
			PolicySourceArn: p("arn:aws:iam::111122223333:user/alice"), ActionNames: []string{"s3:GetObject"},
			ResourceArns: []string{"arn:aws:s3:::b/x"},
		})).EvaluationResults[0]
	if missing.EvalDecision != "implicitDeny" || !slices.Equal(missing.MissingContextValues, []string{"aws:SourceIp"}) {
		t.Errorf("without the address: %s, missing %v", missing.EvalDecision, missing.MissingContextValues)
	}

	custom := awstest.Must[*iam.SimulateCustomPolicyOutput](t)(c.SimulateCustomPolicy(ctx, &iam.SimulateCustomPolicyInput{
		PolicyInputList: []string{allowAll}, PermissionsBoundaryPolicyInputList: []string{strings.Replace(allowAll,
			`"Action":"*"`, `"Action":"eks:*"`, 1)},
		ActionNames: []string{"eks:ListClusters", "iam:ListUsers"},
	})).EvaluationResults
	if custom[0].EvalDecision != "allowed" ||
		!custom[0].PermissionsBoundaryDecisionDetail.AllowedByPermissionsBoundary ||
		custom[1].EvalDecision != "implicitDeny" ||
		custom[1].PermissionsBoundaryDecisionDetail.AllowedByPermissionsBoundary {
		t.Errorf("within a boundary: %+v", custom)
	}
	if id := *custom[0].MatchedStatements[0].SourcePolicyId; id != "PolicyInputList.1" {
		t.Errorf("the statement is of %s", id)
	}

	const resource = `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::444455556666:user/bob"},"Action":"s3:GetObject","Resource":"*"}}`
	across := awstest.Must[*iam.SimulateCustomPolicyOutput](t)(c.SimulateCustomPolicy(ctx, &iam.SimulateCustomPolicyInput{
		PolicyInputList: []string{allowAll}, ResourcePolicy: p(resource),
		CallerArn:   p("arn:aws:iam::444455556666:user/bob"),
		ActionNames: []string{"s3:GetObject", "s3:PutObject"}, ResourceArns: []string{"arn:aws:s3:::b/x"},
	})).EvaluationResults
	if across[0].EvalDecision != "allowed" || across[1].EvalDecision != "implicitDeny" {
		t.Errorf("across accounts: %s, %s", across[0].EvalDecision, across[1].EvalDecision)
	}
	keys := awstest.Must[*iam.GetContextKeysForPrincipalPolicyOutput](t)(c.GetContextKeysForPrincipalPolicy(ctx,
		&iam.GetContextKeysForPrincipalPolicyInput{
			PolicySourceArn: p("arn:aws:iam::111122223333:user/alice")})).ContextKeyNames
	if !slices.Equal(keys, []string{"aws:SourceIp"}) {
		t.Errorf("alice's policies read %v", keys)
	}
}

// TestSimulatorsBoundTheirWork shows that a simulation is cut off by its own size, not by its client's patience.
func TestSimulatorsBoundTheirWork(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	c := a.IAM(a.Root)
	var resources, arns []string
	for range 150 {
		resources = append(resources, `"arn:aws:s3:::*`+strings.Repeat("a", 690)+`b"`)
	}
	policy := `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"*","Resource":[` +
		strings.Join(resources, ",") + `]}}`
	for range 60 {
		arns = append(arns, "arn:aws:s3:::"+strings.Repeat("a", 2000))
	}
	simulate := func(ctx context.Context, actions int, policies ...string) (*iam.SimulateCustomPolicyOutput, error) {
		return c.SimulateCustomPolicy(ctx, &iam.SimulateCustomPolicyInput{
			PolicyInputList: policies, ActionNames: slices.Repeat([]string{"s3:GetObject"}, actions),
			ResourceArns: arns, MaxItems: aws.Int32(1000),
		})
	}
	if out := awstest.Must[*iam.SimulateCustomPolicyOutput](t)(simulate(t.Context(), 1, policy)); len(
		out.EvaluationResults) != len(arns) {
		t.Errorf("%d results, want %d", len(out.EvaluationResults), len(arns))
	}
	for name, test := range map[string]struct {
		actions  int
		policies []string
		want     string
	}{
		"many policies": {16, slices.Repeat([]string{policy}, 4), "too much work"},
		"many actions":  {500, []string{allowAll}, "at most 10000"},
	} {
		_, err := simulate(t.Context(), test.actions, test.policies...)
		if awstest.Code(err) != "InvalidInput" || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAnswersOfSimulatorsAreBounded simulates policies of thousands of statements, each of which matches every action.
func TestAnswersOfSimulatorsAreBounded(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	c := a.IAM(a.Root)
	const statement = `{"Effect":"Allow","Action":"*","Resource":"*"}`
	policy := `{"Version":"2012-10-17","Statement":[` + strings.Repeat(statement+",", 2_500) + statement + `]}`
	var actions []string
	for i := range 100 {
		actions = append(actions, fmt.Sprintf("a:b%d", i))
	}
	in := &iam.SimulateCustomPolicyInput{PolicyInputList: []string{policy}, ActionNames: actions,
		MaxItems: aws.Int32(1000)}
	var simulated []string
	pages := 0
	for {
		out := awstest.Must[*iam.SimulateCustomPolicyOutput](t)(c.SimulateCustomPolicy(t.Context(), in))
		statements := 0
		for _, r := range out.EvaluationResults {
			simulated = append(simulated, *r.EvalActionName)
			statements += len(r.MatchedStatements)
		}
		if statements > 20_000 {
			t.Fatalf("an answer of %d statements", statements)
		}
		pages++
		if !out.IsTruncated {
			break
		}
		in.Marker = out.Marker
	}
	if pages < 2 || !slices.Equal(simulated, actions) {
		t.Errorf("on %d pages: %v", pages, simulated)
	}
	for name, test := range map[string]struct {
		policies int
		want     string
	}{
		"more statements than an answer has room for": {7, "a:b0 on * matches more than 8192 statements"},
		"more policies than are read":                 {9, "a request can have at most 1048576"},
	} {
		_, err := c.SimulateCustomPolicy(t.Context(), &iam.SimulateCustomPolicyInput{
			PolicyInputList: slices.Repeat([]string{policy}, test.policies), ActionNames: actions[:1]})
		if awstest.Code(err) != "InvalidInput" || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
