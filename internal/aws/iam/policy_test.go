package iam_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
)

func TestGroupsGiveTheirPolicies(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, c, p := t.Context(), a.IAM(a.Root), aws.String
	alice := a.IAM(a.NewUser(t, "alice", ""))
	awstest.Must[*iam.CreateGroupOutput](t)(c.CreateGroup(ctx, &iam.CreateGroupInput{GroupName: p("devs")}))
	awstest.Must[*iam.AttachGroupPolicyOutput](t)(
		c.AttachGroupPolicy(ctx, &iam.AttachGroupPolicyInput{GroupName: p("devs"),
			PolicyArn: p("arn:aws:iam::aws:policy/IAMReadOnlyAccess")}),
	)
	if _, err := alice.ListUsers(ctx, &iam.ListUsersInput{}); awstest.Code(err) != "AccessDenied" {
		t.Errorf("before: %v", err)
	}
	awstest.Must[*iam.AddUserToGroupOutput](t)(c.AddUserToGroup(ctx, &iam.AddUserToGroupInput{GroupName: p("devs"),
		UserName: p("alice")}))
	awstest.Must[*iam.ListUsersOutput](t)(alice.ListUsers(ctx, &iam.ListUsersInput{}))
	awstest.Must[*iam.UpdateGroupOutput](t)(c.UpdateGroup(ctx, &iam.UpdateGroupInput{GroupName: p("devs"),
		NewGroupName: p("crew")}))
	if groups := awstest.Must[*iam.ListGroupsForUserOutput](t)(alice.ListGroupsForUser(ctx,
		&iam.ListGroupsForUserInput{UserName: p("alice")})).Groups; len(groups) != 1 || *groups[0].GroupName != "crew" {
		t.Errorf("alice is in %v", groups)
	}
	if members := awstest.Must[*iam.GetGroupOutput](t)(c.GetGroup(ctx,
		&iam.GetGroupInput{GroupName: p("crew")})).Users; len(members) != 1 {
		t.Errorf("in crew: %v", members)
	}
	awstest.Must[*iam.RemoveUserFromGroupOutput](t)(c.RemoveUserFromGroup(ctx,
		&iam.RemoveUserFromGroupInput{GroupName: p("crew"), UserName: p("alice")}))
	if _, err := alice.ListUsers(ctx, &iam.ListUsersInput{}); awstest.Code(err) != "AccessDenied" {
		t.Errorf("after: %v", err)
	}
}

func TestPolicyVersionsAndBoundaries(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, c, p := t.Context(), a.IAM(a.Root), aws.String
	alice := a.IAM(a.NewUser(t, "alice", allowAll))
	arn := *awstest.Must[*iam.CreatePolicyOutput](t)(c.CreatePolicy(ctx, &iam.CreatePolicyInput{PolicyName: p("limit"),
		PolicyDocument: p(strings.Replace(allowAll, `"Action":"*"`, `"Action":"s3:*"`, 1))})).Policy.Arn
	awstest.Must[*iam.PutUserPermissionsBoundaryOutput](t)(c.PutUserPermissionsBoundary(ctx,
		&iam.PutUserPermissionsBoundaryInput{UserName: p("alice"), PermissionsBoundary: &arn}))
	if _, err := alice.ListUsers(ctx, &iam.ListUsersInput{}); err == nil || !strings.Contains(err.Error(),
		"because no permissions boundary allows the iam:ListUsers action") {
		t.Errorf("within the boundary: %v", err)
	}
	if got := awstest.Must[*iam.GetPolicyOutput](t)(c.GetPolicy(ctx,
		&iam.GetPolicyInput{PolicyArn: &arn})).Policy; *got.PermissionsBoundaryUsageCount != 1 ||
		*got.AttachmentCount != 0 {
		t.Errorf("used as boundary by %d, attached to %d", *got.PermissionsBoundaryUsageCount, *got.AttachmentCount)
	}
	v := awstest.Must[*iam.CreatePolicyVersionOutput](t)(c.CreatePolicyVersion(ctx,
		&iam.CreatePolicyVersionInput{PolicyArn: &arn, PolicyDocument: p(allowAll), SetAsDefault: true})).PolicyVersion
	if *v.VersionId != "v2" || !v.IsDefaultVersion {
		t.Errorf("created %+v", v)
	}
	awstest.Must[*iam.ListUsersOutput](t)(alice.ListUsers(ctx, &iam.ListUsersInput{}))
	awstest.Must[*iam.SetDefaultPolicyVersionOutput](t)(c.SetDefaultPolicyVersion(ctx,
		&iam.SetDefaultPolicyVersionInput{PolicyArn: &arn, VersionId: p("v1")}))
	if _, err := alice.ListUsers(ctx, &iam.ListUsersInput{}); awstest.Code(err) != "AccessDenied" {
		t.Errorf("back at v1: %v", err)
	}
	awstest.Must[*iam.DeletePolicyVersionOutput](t)(
		c.DeletePolicyVersion(ctx, &iam.DeletePolicyVersionInput{PolicyArn: &arn,
			VersionId: p("v2")}),
	)
	if got := awstest.Must[*iam.CreatePolicyVersionOutput](t)(c.CreatePolicyVersion(ctx,
		&iam.CreatePolicyVersionInput{PolicyArn: &arn,
			PolicyDocument: p(allowAll)})).PolicyVersion; *got.VersionId != "v3" {
		t.Errorf("a version's number came back: %s", *got.VersionId)
	}
	if _, err := c.DeletePolicy(ctx, &iam.DeletePolicyInput{PolicyArn: &arn}); awstest.Code(err) != "DeleteConflict" {
		t.Errorf("delete a boundary in use: %v", err)
	}
	entities := awstest.Must[*iam.ListEntitiesForPolicyOutput](t)(c.ListEntitiesForPolicy(ctx,
		&iam.ListEntitiesForPolicyInput{PolicyArn: &arn}))
	if len(entities.PolicyUsers) != 1 || *entities.PolicyUsers[0].UserName != "alice" {
		t.Errorf("entities: %+v", entities.PolicyUsers)
	}
}

func TestInstanceProfileNeedsPassRole(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, p := t.Context(), aws.String
	a.NewRole(t, "node", trustEKS)
	awstest.Must[*iam.CreateInstanceProfileOutput](t)(a.IAM(a.Root).CreateInstanceProfile(ctx,
		&iam.CreateInstanceProfileInput{InstanceProfileName: p("nodes")}))
	statement := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"iam:AddRoleToInstanceProfile","Resource":"*"}%s]}`
	without := a.NewUser(t, "without", fmt.Sprintf(statement, ""))
	with := a.NewUser(t, "with", fmt.Sprintf(
		statement,
		`,{"Effect":"Allow","Action":"iam:PassRole","Resource":"arn:aws:iam::*:role/node","Condition":{"StringEquals":{"iam:PassedToService":"ec2.amazonaws.com"}}}`,
	))
	in := &iam.AddRoleToInstanceProfileInput{InstanceProfileName: p("nodes"), RoleName: p("node")}
	if _, err := a.IAM(without).AddRoleToInstanceProfile(ctx, in); err == nil || !strings.Contains(err.Error(),
		"not authorized to perform: iam:PassRole on resource: arn:aws:iam::111122223333:role/node") {
		t.Errorf("without PassRole: %v", err)
	}
	awstest.Must[*iam.AddRoleToInstanceProfileOutput](t)(a.IAM(with).AddRoleToInstanceProfile(ctx, in))
	got := awstest.Must[*iam.GetInstanceProfileOutput](t)(a.IAM(a.Root).GetInstanceProfile(ctx,
		&iam.GetInstanceProfileInput{InstanceProfileName: p("nodes")})).InstanceProfile
	if len(got.Roles) != 1 || *got.Roles[0].RoleName != "node" {
		t.Errorf("the profile holds %v", got.Roles)
	}
}

func TestConditionKeysOfIAM(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, p := t.Context(), aws.String
	a.NewRole(t, "app", trustEKS)
	delegate := a.IAM(a.NewUser(t, "delegate", `{"Version":"2012-10-17","Statement":[
		{"Effect":"Allow","Action":"iam:AttachRolePolicy","Resource":"*","Condition":{"ArnLike":{"iam:PolicyARN":"arn:aws:iam::aws:policy/AmazonEKS*"}}},
		{"Effect":"Allow","Action":"iam:CreateUser","Resource":"*","Condition":{"StringEquals":{"iam:PermissionsBoundary":"arn:aws:iam::aws:policy/ReadOnlyAccess","aws:RequestTag/team":"blue"},"ForAllValues:StringEquals":{"aws:TagKeys":["team"]}}},
		{"Effect":"Allow","Action":"iam:TagUser","Resource":"*"},
		{"Effect":"Allow","Action":"iam:CreateServiceLinkedRole","Resource":"*","Condition":{"StringEquals":{"iam:AWSServiceName":"eks.amazonaws.com"}}}]}`))
	blue, red := []types.Tag{{Key: p("team"), Value: p("blue")}}, []types.Tag{{Key: p("team"), Value: p("red")}}
	boundary := p("arn:aws:iam::aws:policy/ReadOnlyAccess")
	for _, test := range []struct {
		name string
		err  error
		ok   bool
	}{
		{"attach a policy of EKS", second(delegate.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: p("app"),
			PolicyArn: p("arn:aws:iam::aws:policy/AmazonEKSClusterPolicy")})), true},
		{"attach another", second(delegate.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: p("app"),
			PolicyArn: p(adminARN)})), false},
		{"make a user within the boundary",
			second(delegate.CreateUser(ctx, &iam.CreateUserInput{UserName: p("u1"), PermissionsBoundary: boundary,
				Tags: blue})), true},
		{"without the boundary", second(delegate.CreateUser(ctx, &iam.CreateUserInput{UserName: p("u2"), Tags: blue})),
			false},
		{"with another tag", second(delegate.CreateUser(ctx, &iam.CreateUserInput{UserName: p("u3"),
			PermissionsBoundary: boundary, Tags: red})), false},
		{"the role of EKS", second(delegate.CreateServiceLinkedRole(ctx,
			&iam.CreateServiceLinkedRoleInput{AWSServiceName: p("eks.amazonaws.com")})), true},
		{"the role of another", second(delegate.CreateServiceLinkedRole(ctx,
			&iam.CreateServiceLinkedRoleInput{AWSServiceName: p("spot.amazonaws.com")})), false},
	} {
		if test.ok && test.err != nil || !test.ok && awstest.Code(test.err) != "AccessDenied" {
			t.Errorf("%s: %v", test.name, test.err)
		}
	}
}
