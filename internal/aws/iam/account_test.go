package iam_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	coracleiam "github.com/coracle-eks/coracle/internal/aws/iam"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
)

func TestListsHavePages(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, c := t.Context(), a.IAM(a.Root)
	var want []string
	for i := range 7 {
		name := fmt.Sprintf("Role%d", i)
		path := "/a/"
		if i%2 == 1 {
			path = "/b/"
		}
		want = append(want, name)
		awstest.Must[*iam.CreateRoleOutput](t)(c.CreateRole(ctx, &iam.CreateRoleInput{RoleName: &name, Path: &path,
			AssumeRolePolicyDocument: aws.String(trustEKS)}))
	}
	var got []string
	pages := iam.NewListRolesPaginator(c, &iam.ListRolesInput{MaxItems: aws.Int32(3)})
	for pages.HasMorePages() {
		out := awstest.Must[*iam.ListRolesOutput](t)(pages.NextPage(ctx))
		if len(out.Roles) > 3 || out.IsTruncated != (out.Marker != nil) {
			t.Errorf("a page of %d, truncated %v", len(out.Roles), out.IsTruncated)
		}
		for _, r := range out.Roles {
			got = append(got, *r.RoleName)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if below := awstest.Must[*iam.ListRolesOutput](t)(c.ListRoles(ctx,
		&iam.ListRolesInput{PathPrefix: aws.String("/b/")})).Roles; len(below) != 3 {
		t.Errorf("below /b/ are %d roles, want 3", len(below))
	}
	var policies []string
	all := iam.NewListPoliciesPaginator(c, &iam.ListPoliciesInput{Scope: types.PolicyScopeTypeAws,
		MaxItems: aws.Int32(10)})
	for all.HasMorePages() {
		for _, p := range awstest.Must[*iam.ListPoliciesOutput](t)(all.NextPage(ctx)).Policies {
			policies = append(policies, *p.PolicyName)
		}
	}
	if !slices.Contains(policies, "AmazonEKSClusterPolicy") ||
		len(slices.Compact(slices.Sorted(slices.Values(policies)))) != len(policies) {
		t.Errorf("policies of AWS: %v", policies)
	}
}

func TestAccountsDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, p := t.Context(), aws.String
	other := a.NewAccount(t, iamtest.Other)
	awstest.Must[*iam.CreateUserOutput](t)(a.IAM(a.Root).CreateUser(ctx, &iam.CreateUserInput{UserName: p("alice")}))
	if users := awstest.Must[*iam.ListUsersOutput](t)(a.IAM(other).ListUsers(ctx, &iam.ListUsersInput{})).Users; len(
		users) != 0 {
		t.Errorf("the other account sees %v", users)
	}
	awstest.Must[*iam.CreateUserOutput](t)(a.IAM(other).CreateUser(ctx, &iam.CreateUserInput{UserName: p("alice")}))
	awstest.Must[*iam.CreateAccountAliasOutput](t)(a.IAM(a.Root).CreateAccountAlias(ctx,
		&iam.CreateAccountAliasInput{AccountAlias: p("boats")}))
	if _, err := a.IAM(other).CreateAccountAlias(ctx,
		&iam.CreateAccountAliasInput{AccountAlias: p("boats")}); awstest.Code(err) != "EntityAlreadyExists" {
		t.Errorf("the same alias: %v", err)
	}
	if again := a.NewAccount(t, iamtest.Other); again != other {
		t.Error("a second start makes another root access key")
	}
	if ids := awstest.Must[[]string](t)(coracleiam.Accounts(ctx, a.Store)); !slices.Equal(ids,
		[]string{iamtest.Account, iamtest.Other}) {
		t.Errorf("accounts: %v", ids)
	}
	for _, id := range []string{"", "1234", "11112222333x"} {
		if _, err := coracleiam.Bootstrap(ctx, a.Store, id); err == nil {
			t.Errorf("the account %q is made", id)
		}
	}
}

func TestSummaryAndDetails(t *testing.T) {
	t.Parallel()
	a := furnish(t)
	ctx, c := t.Context(), a.IAM(a.Root)
	summary := awstest.Must[*iam.GetAccountSummaryOutput](t)(
		c.GetAccountSummary(ctx, &iam.GetAccountSummaryInput{}),
	).SummaryMap
	for key, want := range map[string]int32{"Users": 2, "Groups": 1, "Roles": 3, "Policies": 1,
		"PolicyVersionsInUse": 5, "InstanceProfiles": 1, "Providers": 1, "AccountAccessKeysPresent": 1,
		"AccessKeysPerUserQuota": 2} {
		if summary[key] != want {
			t.Errorf("%s: %d, want %d", key, summary[key], want)
		}
	}
	var users, groups, roles, policies int
	pages := iam.NewGetAccountAuthorizationDetailsPaginator(c,
		&iam.GetAccountAuthorizationDetailsInput{MaxItems: aws.Int32(2)})
	for pages.HasMorePages() {
		out := awstest.Must[*iam.GetAccountAuthorizationDetailsOutput](t)(pages.NextPage(ctx))
		if out.UserDetailList == nil || out.GroupDetailList == nil || out.RoleDetailList == nil || out.Policies == nil {
			t.Errorf("a page lacks one of its lists: %+v", out)
		}
		users, groups, roles, policies = users+len(out.UserDetailList), groups+len(out.GroupDetailList), roles+
			len(out.RoleDetailList), policies+len(out.Policies)
	}
	if users != 2 || groups != 1 || roles != 3 || policies != 2 { // the policy of the account, and AWS's of EKS's role
		t.Errorf("%d users, %d groups, %d roles, %d policies", users, groups, roles, policies)
	}
}
