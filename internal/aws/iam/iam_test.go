package iam_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	coracleiam "github.com/coracle-eks/coracle/internal/aws/iam"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

func TestLifeOfAUser(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, c, p := t.Context(), a.IAM(a.Root), aws.String
	user := awstest.Must[*iam.CreateUserOutput](t)(c.CreateUser(ctx, &iam.CreateUserInput{UserName: p("alice"),
		Path: p("/team/"), Tags: []types.Tag{{Key: p("team"), Value: p("blue")}}})).User
	if *user.Arn != "arn:aws:iam::111122223333:user/team/alice" || !strings.HasPrefix(*user.UserId, "AIDA") ||
		len(*user.UserId) != 21 {
		t.Errorf("created %s %s", *user.Arn, *user.UserId)
	}
	awstest.Must[*iam.PutUserPolicyOutput](t)(c.PutUserPolicy(ctx, &iam.PutUserPolicyInput{UserName: p("alice"),
		PolicyName: p("self"), PolicyDocument: p(
			`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"iam:GetUser","Resource":"arn:aws:iam::*:user/*/${aws:username}","Condition":{"StringEquals":{"aws:PrincipalTag/team":"blue","aws:ResourceTag/team":"blue"}}}}`,
		)}))
	key := awstest.Must[*iam.CreateAccessKeyOutput](t)(c.CreateAccessKey(ctx,
		&iam.CreateAccessKeyInput{UserName: p("alice")})).AccessKey
	alice := a.IAM(aws.Credentials{AccessKeyID: *key.AccessKeyId, SecretAccessKey: *key.SecretAccessKey})

	got := awstest.Must[*iam.GetUserOutput](t)(alice.GetUser(ctx, &iam.GetUserInput{})).User
	if *got.UserId != *user.UserId || len(got.Tags) != 1 {
		t.Errorf("alice sees herself as %+v", got)
	}
	document := awstest.Must[*iam.GetUserPolicyOutput](
		t,
	)(
		c.GetUserPolicy(ctx, &iam.GetUserPolicyInput{UserName: p("alice"),
			PolicyName: p("self")}),
	).PolicyDocument
	if text, err := url.PathUnescape(*document); err != nil || !strings.Contains(text, "iam:GetUser") ||
		strings.Contains(*document, " ") {
		t.Errorf("the document came as %s", *document)
	}
	if used := awstest.Must[*iam.GetAccessKeyLastUsedOutput](t)(c.GetAccessKeyLastUsed(ctx,
		&iam.GetAccessKeyLastUsedInput{AccessKeyId: key.AccessKeyId})); *used.UserName != "alice" ||
		*used.AccessKeyLastUsed.ServiceName != "iam" {
		t.Errorf("last used: %+v", used.AccessKeyLastUsed)
	}

	// The name changes; key and policies stay.
	awstest.Must[*iam.UpdateUserOutput](t)(c.UpdateUser(ctx, &iam.UpdateUserInput{UserName: p("alice"),
		NewUserName: p("alicia")}))
	if got := awstest.Must[*iam.GetUserOutput](t)(alice.GetUser(ctx,
		&iam.GetUserInput{})).User; *got.UserName != "alicia" ||
		*got.UserId != *user.UserId {
		t.Errorf("after the change of name: %s %s", *got.UserName, *got.UserId)
	}

	// An inactive key is nobody's.
	awstest.Must[*iam.UpdateAccessKeyOutput](t)(c.UpdateAccessKey(ctx, &iam.UpdateAccessKeyInput{UserName: p("alicia"),
		AccessKeyId: key.AccessKeyId, Status: types.StatusTypeInactive}))
	if _, err := alice.GetUser(ctx, &iam.GetUserInput{}); awstest.Code(err) != "InvalidClientTokenId" {
		t.Errorf("an inactive key: %v", err)
	}
	awstest.Must[*iam.UpdateAccessKeyOutput](t)(c.UpdateAccessKey(ctx, &iam.UpdateAccessKeyInput{UserName: p("alicia"),
		AccessKeyId: key.AccessKeyId, Status: types.StatusTypeActive}))

	// What the policy no longer allows is refused at the next request.
	awstest.Must[*iam.UntagUserOutput](t)(c.UntagUser(ctx, &iam.UntagUserInput{UserName: p("alicia"),
		TagKeys: []string{"team"}}))
	if _, err := alice.GetUser(ctx, &iam.GetUserInput{}); awstest.Code(err) != "AccessDenied" {
		t.Errorf("without the tag: %v", err)
	}

	awstest.Must[*iam.DeleteAccessKeyOutput](t)(c.DeleteAccessKey(ctx, &iam.DeleteAccessKeyInput{UserName: p("alicia"),
		AccessKeyId: key.AccessKeyId}))
	awstest.Must[*iam.DeleteUserPolicyOutput](t)(c.DeleteUserPolicy(ctx, &iam.DeleteUserPolicyInput{UserName: p("alicia"),
		PolicyName: p("self")}))
	awstest.Must[*iam.DeleteUserOutput](t)(c.DeleteUser(ctx, &iam.DeleteUserInput{UserName: p("alicia")}))
	if _, err := alice.GetUser(ctx, &iam.GetUserInput{}); awstest.Code(err) != "InvalidClientTokenId" {
		t.Errorf("after the deletion: %v", err)
	}
}

func TestGroupsGiveTheirPolicies(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, c, p := t.Context(), a.IAM(a.Root), aws.String
	alice := a.IAM(a.NewUser(t, "alice", ""))
	awstest.Must[*iam.CreateGroupOutput](t)(c.CreateGroup(ctx, &iam.CreateGroupInput{GroupName: p("devs")}))
	awstest.Must[*iam.AttachGroupPolicyOutput](
		t,
	)(
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
	awstest.Must[*iam.DeletePolicyVersionOutput](
		t,
	)(
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

func TestServiceLinkedRoles(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, c, p := t.Context(), a.IAM(a.Root), aws.String
	role := awstest.Must[*iam.CreateServiceLinkedRoleOutput](t)(c.CreateServiceLinkedRole(ctx,
		&iam.CreateServiceLinkedRoleInput{AWSServiceName: p("eks.amazonaws.com")})).Role
	if *role.Arn != "arn:aws:iam::111122223333:role/aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS" {
		t.Errorf("created %s", *role.Arn)
	}
	// The service itself finds it there, and acts under it within its policy.
	if err := coracleiam.NewServiceLinkedRoles(a.Store, nil).Ensure(ctx, iamtest.Account,
		"eks.amazonaws.com"); err != nil {
		t.Error(err)
	}
	creds := awstest.Must[aws.Credentials](
		t,
	)(
		a.Identity.ServiceRoleCredentials(iamtest.Account, "AWSServiceRoleForAmazonEKS",
			"EKS").Retrieve(ctx),
	)
	who := awstest.Must[*sts.GetCallerIdentityOutput](
		t,
	)(
		a.STS(creds).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{}),
	)
	if *who.Arn != "arn:aws:sts::111122223333:assumed-role/AWSServiceRoleForAmazonEKS/EKS" ||
		*who.UserId != *role.RoleId+":EKS" {
		t.Errorf("EKS is %s %s", *who.Arn, *who.UserId)
	}
	if _, err := a.IAM(creds).CreateUser(ctx,
		&iam.CreateUserInput{UserName: p("x")}); awstest.Code(err) != "AccessDenied" {
		t.Errorf("EKS makes users: %v", err)
	}
	awstest.Must[*iam.ListAttachedRolePoliciesOutput](t)(a.IAM(creds).ListAttachedRolePolicies(ctx,
		&iam.ListAttachedRolePoliciesInput{RoleName: role.RoleName}))

	// It is needed as long as there is a cluster.
	clusters := record.Clusters(a.Store)
	row := awstest.Must[store.Row[record.Cluster]](t)(clusters.Create(ctx, record.ClusterKey(iamtest.Account, "us-east-1",
		"ironman-2022"), record.Cluster{Account: iamtest.Account, Region: "us-east-1", Name: "ironman-2022"}))
	deletion := awstest.Must[*iam.DeleteServiceLinkedRoleOutput](t)(c.DeleteServiceLinkedRole(ctx,
		&iam.DeleteServiceLinkedRoleInput{RoleName: role.RoleName}))
	status := awstest.Must[*iam.GetServiceLinkedRoleDeletionStatusOutput](t)(c.GetServiceLinkedRoleDeletionStatus(ctx,
		&iam.GetServiceLinkedRoleDeletionStatusInput{DeletionTaskId: deletion.DeletionTaskId}))
	if status.Status != types.DeletionTaskStatusTypeFailed ||
		status.Reason.RoleUsageList[0].Resources[0] != "arn:aws:eks:us-east-1:111122223333:cluster/ironman-2022" {
		t.Errorf("deletion beside a cluster: %s %+v", status.Status, status.Reason)
	}
	if err := clusters.Delete(ctx, row); err != nil {
		t.Fatal(err)
	}
	deletion = awstest.Must[*iam.DeleteServiceLinkedRoleOutput](t)(c.DeleteServiceLinkedRole(ctx,
		&iam.DeleteServiceLinkedRoleInput{RoleName: role.RoleName}))
	status = awstest.Must[*iam.GetServiceLinkedRoleDeletionStatusOutput](t)(c.GetServiceLinkedRoleDeletionStatus(ctx,
		&iam.GetServiceLinkedRoleDeletionStatusInput{DeletionTaskId: deletion.DeletionTaskId}))
	if status.Status != types.DeletionTaskStatusTypeSucceeded {
		t.Errorf("deletion: %s", status.Status)
	}
	if _, err := a.STS(creds).GetCallerIdentity(ctx,
		&sts.GetCallerIdentityInput{}); awstest.Code(err) != "InvalidClientTokenId" {
		t.Errorf("a session of the deleted role: %v", err)
	}
}

// A service-linked role stays as long as something of its service needs it.
func TestServiceLinkedRolesInUse(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, c := t.Context(), a.IAM(a.Root)
	group := record.Nodegroup{Account: iamtest.Account, Region: "us-east-1", Cluster: "c", Name: "ng", ID: "1-2-3"}
	awstest.Must[store.Row[record.Nodegroup]](t)(record.Nodegroups(a.Store).Create(ctx, group.Key(), group))
	scaling := record.AutoScalingGroup{
		Account: iamtest.Account, Region: "us-east-1", Name: "asg", ID: "4-5-6",
		ServiceLinkedRoleARN: "arn:aws:iam::" + iamtest.Account +
			":role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling",
	}
	awstest.Must[store.Row[record.AutoScalingGroup]](
		t,
	)(
		record.AutoScalingGroups(a.Store).Create(ctx, scaling.Key(), scaling),
	)
	for _, x := range []struct {
		service string
		suffix  *string
		inUse   []string
	}{
		{"eks-nodegroup.amazonaws.com", nil, []string{"arn:aws:eks:us-east-1:111122223333:nodegroup/c/ng/1-2-3"}},
		{"autoscaling.amazonaws.com", nil,
			[]string{"arn:aws:autoscaling:us-east-1:111122223333:autoScalingGroup:4-5-6:autoScalingGroupName/asg"}},
		{"autoscaling.amazonaws.com", aws.String("other"), nil},
		{"eks.amazonaws.com", nil, nil},
	} {
		role := awstest.Must[*iam.CreateServiceLinkedRoleOutput](t)(c.CreateServiceLinkedRole(ctx,
			&iam.CreateServiceLinkedRoleInput{AWSServiceName: &x.service, CustomSuffix: x.suffix})).Role
		deletion := awstest.Must[*iam.DeleteServiceLinkedRoleOutput](t)(c.DeleteServiceLinkedRole(ctx,
			&iam.DeleteServiceLinkedRoleInput{RoleName: role.RoleName}))
		status := awstest.Must[*iam.GetServiceLinkedRoleDeletionStatusOutput](t)(c.GetServiceLinkedRoleDeletionStatus(ctx,
			&iam.GetServiceLinkedRoleDeletionStatusInput{DeletionTaskId: deletion.DeletionTaskId}))
		var inUse []string
		if status.Reason != nil {
			inUse = status.Reason.RoleUsageList[0].Resources
		}
		_, err := c.GetRole(ctx, &iam.GetRoleInput{RoleName: role.RoleName})
		if (status.Status == types.DeletionTaskStatusTypeFailed) != (x.inUse != nil) ||
			(err == nil) != (x.inUse != nil) || !slices.Equal(inUse, x.inUse) {
			t.Errorf("%s: deletion %s because of %v; role: %v", *role.RoleName, status.Status, inUse, err)
		}
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

func second[T any](_ T, err error) error { return err }

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
	out := awstest.Must[*iam.SimulatePrincipalPolicyOutput](
		t,
	)(
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
	summary := awstest.Must[*iam.GetAccountSummaryOutput](
		t,
	)(
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

// eksctl registers the issuer with the port, and then asks for the provider without it.
func TestProviderOfAURLWithPort(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, c, p := t.Context(), a.IAM(a.Root), aws.String
	created := awstest.Must[*iam.CreateOpenIDConnectProviderOutput](t)(c.CreateOpenIDConnectProvider(ctx,
		&iam.CreateOpenIDConnectProviderInput{Url: p("https://oidc.eks.us-east-1.amazonaws.com:443/id/AB12")}))
	want := "arn:aws:iam::" + iamtest.Account + ":oidc-provider/oidc.eks.us-east-1.amazonaws.com/id/AB12"
	if *created.OpenIDConnectProviderArn != want {
		t.Errorf("created %s, want %s", *created.OpenIDConnectProviderArn, want)
	}
	got := awstest.Must[*iam.GetOpenIDConnectProviderOutput](t)(c.GetOpenIDConnectProvider(ctx,
		&iam.GetOpenIDConnectProviderInput{OpenIDConnectProviderArn: p(want)}))
	if *got.Url != "oidc.eks.us-east-1.amazonaws.com/id/AB12" {
		t.Errorf("the URL is %s", *got.Url)
	}
	for url, want := range map[string]string{"https://oidc.eks.us-east-1.amazonaws.com/id/AB12": "EntityAlreadyExists",
		"https://:443": "ValidationError"} {
		if _, err := c.CreateOpenIDConnectProvider(ctx,
			&iam.CreateOpenIDConnectProviderInput{Url: p(url)}); awstest.Code(err) != want {
			t.Errorf("%s: %v, want %s", url, err, want)
		}
	}
}

// The daemon would connect to a provider, so its URL is nothing but the name of a public site.
func TestProviderURLs(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, c := t.Context(), a.IAM(a.Root)
	const (
		invalid = "Invalid Open ID Connect Provider URL"
		refused = "InvalidInput"
	)
	for url, want := range map[string]struct{ code, message string }{
		"example.com":                           {"ValidationError", invalid},
		"https://":                              {"ValidationError", invalid},
		"https:///path":                         {"ValidationError", invalid},
		"http://example.com":                    {refused, invalid + ". The URL must begin with https://."},
		"ftp://example.com":                     {refused, invalid + ". The URL must begin with https://."},
		"https://me@example.com":                {refused, "must not have a query, a fragment or a user"},
		"https://me:secret@example.com":         {refused, "must not have a query, a fragment or a user"},
		"https://example.com?a=b":               {refused, "must not have a query, a fragment or a user"},
		"https://example.com/?":                 {refused, "must not have a query, a fragment or a user"},
		"https://example.com#a":                 {refused, "must not have a query, a fragment or a user"},
		"https://example.com/#":                 {refused, "must not have a query, a fragment or a user"},
		"https://example.com:8443":              {refused, "must not have a port number"},
		"https://example.com:":                  {refused, "must not have a port number"},
		"https://example.com:0443":              {refused, "must not have a port number"},
		"https://127.0.0.1":                     {refused, "must be a public DNS name"},
		"https://127.0.0.1:443/x":               {refused, "must be a public DNS name"},
		"https://127.1":                         {refused, "must be a public DNS name"},
		"https://0x7f.0.0.1":                    {refused, "must be a public DNS name"},
		"https://2130706433":                    {refused, "must be a public DNS name"},
		"https://169.254.169.254/latest":        {refused, "must be a public DNS name"},
		"https://52.1.2.3":                      {refused, "must be a public DNS name"},
		"https://[::1]":                         {refused, "must be a public DNS name"},
		"https://[::ffff:127.0.0.1]:443":        {refused, "must be a public DNS name"},
		"https://localhost":                     {refused, "must be a public DNS name"},
		"https://foo.localhost":                 {refused, "must be a public DNS name"},
		"https://oidc.eks.LocalHost:443/id/x":   {refused, "must be a public DNS name"},
		"https://router":                        {refused, "must be a public DNS name"},
		"https://exa_mple.com":                  {refused, "must be a public DNS name"},
		"https://example..com":                  {refused, "must be a public DNS name"},
		"https://example.com.":                  {refused, "must be a public DNS name"},
		"https://example%2ecom":                 {"ValidationError", invalid},
		"https://token.actions.example-1.com/x": {},
		"https://xn--bcher-kva.example/a/b%20c": {},
	} {
		_, err := c.CreateOpenIDConnectProvider(ctx, &iam.CreateOpenIDConnectProviderInput{Url: &url})
		if want.code == "" && err == nil {
			continue
		}
		if awstest.Code(err) != want.code || !strings.Contains(err.Error(), want.message) {
			t.Errorf("%s: %v, want %s %q", url, err, want.code, want.message)
		}
	}
}

func TestOnlyTwoKeysAtOnce(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, c, p := t.Context(), a.IAM(a.Root), aws.String
	awstest.Must[*iam.CreateUserOutput](t)(c.CreateUser(ctx, &iam.CreateUserInput{UserName: p("alice")}))
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			if _, err := c.CreateAccessKey(ctx, &iam.CreateAccessKeyInput{UserName: p("alice")}); err != nil &&
				awstest.Code(err) != "LimitExceeded" {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if keys := awstest.Must[*iam.ListAccessKeysOutput](t)(c.ListAccessKeys(ctx,
		&iam.ListAccessKeysInput{UserName: p("alice")})).AccessKeyMetadata; len(keys) != 2 {
		t.Errorf("alice has %d keys", len(keys))
	}
}

func TestAttachAndDeleteAtOnce(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, c, p := t.Context(), a.IAM(a.Root), aws.String
	a.NewRole(t, "app", trustEKS)
	for i := range 10 {
		arn := *awstest.Must[*iam.CreatePolicyOutput](t)(c.CreatePolicy(ctx,
			&iam.CreatePolicyInput{PolicyName: p(fmt.Sprint("p", i)), PolicyDocument: p(allowAll)})).Policy.Arn
		var wait sync.WaitGroup
		var attached, removed error
		wait.Go(func() {
			_, attached = c.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: p("app"), PolicyArn: &arn})
		})
		wait.Go(func() { _, removed = c.DeletePolicy(ctx, &iam.DeletePolicyInput{PolicyArn: &arn}) })
		wait.Wait()
		if (attached == nil) == (removed == nil) {
			t.Errorf("attach: %v, delete: %v; exactly one must succeed", attached, removed)
		}
		if attached == nil {
			awstest.Must[*iam.DetachRolePolicyOutput](t)(c.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: p("app"),
				PolicyArn: &arn}))
		}
	}
}

// TestUserWithoutPolicies shows how a user who may do nothing is refused.
func TestUserWithoutPolicies(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, p := t.Context(), aws.String
	nobody := a.IAM(a.NewUser(t, "nobody", ""))
	for name, call := range map[string]error{
		"GetAccountSummary": second(nobody.GetAccountSummary(ctx, &iam.GetAccountSummaryInput{})),
		"CreateUser":        second(nobody.CreateUser(ctx, &iam.CreateUserInput{UserName: p("x")})),
		"CreateRole": second(nobody.CreateRole(ctx, &iam.CreateRoleInput{RoleName: p("x"),
			AssumeRolePolicyDocument: p(trustEKS)})),
		"CreatePolicy": second(nobody.CreatePolicy(ctx, &iam.CreatePolicyInput{PolicyName: p("x"),
			PolicyDocument: p(allowAll)})),
		"ListPolicies": second(nobody.ListPolicies(ctx, &iam.ListPoliciesInput{})),
		"SimulateCustomPolicy": second(nobody.SimulateCustomPolicy(ctx,
			&iam.SimulateCustomPolicyInput{PolicyInputList: []string{allowAll},
				ActionNames: []string{"s3:GetObject"}})),
	} {
		if awstest.Code(call) != "AccessDenied" || !strings.Contains(call.Error(),
			"User: arn:aws:iam::111122223333:user/nobody is not authorized to perform: iam:"+name+" on resource: ") {
			t.Errorf("%s: %v", name, call)
		}
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
