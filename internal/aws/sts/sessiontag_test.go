package sts_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
)

func TestChainsTagsAndSourceIdentity(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, c, p := t.Context(), a.IAM(a.Root), aws.String
	open := trust(`{"AWS":"111122223333"}`, `["sts:AssumeRole","sts:TagSession","sts:SetSourceIdentity"]`)
	first, second := a.NewRole(t, "first", open), a.NewRole(t, "second", open)
	for _, role := range []string{"first", "second"} {
		awstest.Must[*iam.PutRolePolicyOutput](t)(c.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: &role,
			PolicyName: p("all"), PolicyDocument: p(`{"Version":"2012-10-17","Statement":[
			{"Effect":"Allow","Action":["sts:*"],"Resource":"*"},{"Effect":"Allow","Action":"iam:List*","Resource":"*","Condition":{"StringEquals":{"aws:PrincipalTag/team":"blue","aws:SourceIdentity":"ada"}}}]}`)}))
	}
	out := awstest.Must[*sts.AssumeRoleOutput](t)(a.STS(a.Root).AssumeRole(ctx, &sts.AssumeRoleInput{
		RoleArn: &first, RoleSessionName: p("one"), Tags: []types.Tag{{Key: p("team"), Value: p("blue")}},
		TransitiveTagKeys: []string{"team"}, SourceIdentity: p("ada"),
	}))
	chained := awstest.Must[*sts.AssumeRoleOutput](t)(a.STS(credentials(out.Credentials)).AssumeRole(ctx,
		&sts.AssumeRoleInput{RoleArn: &second, RoleSessionName: p("two")}))
	awstest.Must[*iam.ListUsersOutput](t)(a.IAM(credentials(chained.Credentials)).ListUsers(ctx, &iam.ListUsersInput{}))
	if chained.SourceIdentity == nil || *chained.SourceIdentity != "ada" {
		t.Errorf("the source identity was lost: %v", chained.SourceIdentity)
	}
	awstest.Must[*iam.UpdateRoleOutput](t)(c.UpdateRole(ctx, &iam.UpdateRoleInput{RoleName: p("second"),
		MaxSessionDuration: aws.Int32(43200)}))
	for name, test := range map[string]struct {
		in   sts.AssumeRoleInput
		code string
	}{
		"longer than an hour":     {sts.AssumeRoleInput{DurationSeconds: aws.Int32(7200)}, "ValidationError"},
		"another source identity": {sts.AssumeRoleInput{SourceIdentity: p("eve")}, "AccessDenied"},
		"over a transitive tag": {sts.AssumeRoleInput{Tags: []types.Tag{{Key: p("Team"), Value: p("red")}}},
			"InvalidParameterValue"},
		"transitive without tag": {sts.AssumeRoleInput{TransitiveTagKeys: []string{"x"}}, "InvalidParameterValue"},
	} {
		test.in.RoleArn, test.in.RoleSessionName = &second, p("two")
		if _, err := a.STS(credentials(out.Credentials)).AssumeRole(ctx, &test.in); awstest.Code(err) != test.code {
			t.Errorf("%s: %v, want %s", name, err, test.code)
		}
	}
}

// The id of somebody's access key is no session token, also when the key is in use.
// TestSessionTagsReplaceRoleTags shows that a policy never sees the role's tag beside the session's of the same key.
func TestSessionTagsReplaceRoleTags(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, c, p := t.Context(), a.IAM(a.Root), aws.String
	arn := a.NewRole(t, "app", trust(`{"AWS":"111122223333"}`, `["sts:AssumeRole","sts:TagSession"]`))
	awstest.Must[*iam.TagRoleOutput](t)(c.TagRole(ctx, &iam.TagRoleInput{RoleName: p("app"),
		Tags: []iamtypes.Tag{{Key: p("Dept"), Value: p("finance")}}}))
	for _, spelling := range []string{"Dept", "dept", "DEPT"} {
		awstest.Must[*iam.PutRolePolicyOutput](t)(c.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: p("app"),
			PolicyName: p("list"), PolicyDocument: p(
				`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"iam:ListUsers","Resource":"*","Condition":{"StringEquals":{"aws:PrincipalTag/` + spelling + `":"finance"}}}}`,
			)}))
		for value, want := range map[string]string{"finance": "<nil>", "guests": "AccessDenied"} {
			out := awstest.Must[*sts.AssumeRoleOutput](t)(a.STS(a.Root).AssumeRole(ctx, &sts.AssumeRoleInput{
				RoleArn: &arn, RoleSessionName: p("one"), Tags: []types.Tag{{Key: p("dept"), Value: &value}},
			}))
			if _, err := a.IAM(credentials(out.Credentials)).ListUsers(ctx, &iam.ListUsersInput{}); awstest.Code(err) != want {
				t.Errorf("aws:PrincipalTag/%s with the session tag dept=%s: %v, want %q", spelling, value, err, want)
			}
		}
	}
}

// Tags that a session inherits are tags of the next one, whose role must allow that. Without them it need not.
func TestInheritedTagsNeedTagSession(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, p := t.Context(), aws.String
	first := a.NewRole(t, "first", trust(`{"AWS":"111122223333"}`, `["sts:AssumeRole","sts:TagSession"]`))
	second := a.NewRole(t, "second", trust(`{"AWS":"111122223333"}`, `"sts:AssumeRole"`))
	awstest.Must[*iam.PutRolePolicyOutput](t)(a.IAM(a.Root).PutRolePolicy(ctx, &iam.PutRolePolicyInput{
		RoleName: p("first"), PolicyName: p("all"),
		PolicyDocument: p(
			`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"sts:AssumeRole","Resource":"*"}}`),
	}))
	for name, test := range map[string]struct {
		transitive []string
		denied     bool
	}{"transitive": {[]string{"team"}, true}, "not transitive": {nil, false}} {
		one := awstest.Must[*sts.AssumeRoleOutput](t)(a.STS(a.Root).AssumeRole(ctx, &sts.AssumeRoleInput{
			RoleArn: &first, RoleSessionName: p("one"), Tags: []types.Tag{{Key: p("team"), Value: p("blue")}},
			TransitiveTagKeys: test.transitive,
		}))
		_, err := a.STS(credentials(one.Credentials)).AssumeRole(ctx, &sts.AssumeRoleInput{
			RoleArn: &second, RoleSessionName: p("two"),
		})
		if denied := awstest.Code(err) == "AccessDenied"; denied != test.denied || !denied && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
