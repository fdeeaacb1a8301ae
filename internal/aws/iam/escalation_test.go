package iam_test

import (
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
)

// Who may change a user or group must be allowed to change what it becomes, too: nobody renames themselves into the
// reach of another's policies.
func TestRenamingNeedsBothNames(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, p, root := t.Context(), aws.String, a.IAM(a.Root)
	awstest.Must[*iam.CreateGroupOutput](t)(root.CreateGroup(ctx, &iam.CreateGroupInput{GroupName: p("crew")}))
	mallory := a.IAM(a.NewUser(t, "mallory", `{"Version":"2012-10-17","Statement":[
		{"Effect":"Allow","Action":"iam:UpdateUser","Resource":["arn:aws:iam::111122223333:user/mallory","arn:aws:iam::111122223333:user/crew/*"]},
		{"Effect":"Allow","Action":"iam:UpdateGroup","Resource":["arn:aws:iam::111122223333:group/crew","arn:aws:iam::111122223333:group/crew/*"]}]}`))
	for _, test := range []struct {
		name string
		err  error
		ok   bool
	}{
		{"another name", second(mallory.UpdateUser(ctx, &iam.UpdateUserInput{UserName: p("mallory"),
			NewUserName: p("admin")})), false},
		{"another path", second(mallory.UpdateUser(ctx, &iam.UpdateUserInput{UserName: p("mallory"),
			NewPath: p("/admins/")})), false},
		{"an allowed path", second(mallory.UpdateUser(ctx, &iam.UpdateUserInput{UserName: p("mallory"),
			NewPath: p("/crew/")})), true},
		{"another name below it", second(mallory.UpdateUser(ctx, &iam.UpdateUserInput{UserName: p("mallory"),
			NewUserName: p("mal")})), true},
		{"another name of a group", second(mallory.UpdateGroup(ctx, &iam.UpdateGroupInput{GroupName: p("crew"),
			NewGroupName: p("admins")})), false},
		{"another path of a group", second(mallory.UpdateGroup(ctx, &iam.UpdateGroupInput{GroupName: p("crew"),
			NewPath: p("/admins/")})), false},
		{"an allowed path of a group", second(mallory.UpdateGroup(ctx, &iam.UpdateGroupInput{GroupName: p("crew"),
			NewPath: p("/crew/")})), true},
	} {
		if test.ok && test.err != nil || !test.ok && awstest.Code(test.err) != "AccessDenied" {
			t.Errorf("%s: %v", test.name, test.err)
		}
	}
}

// A role's path may look like a policy's ARN; iam:PolicyARN is a condition key all the same.
func TestPolicyARNIsKnownWhateverThePath(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, p := t.Context(), aws.String
	awstest.Must[*iam.CreateRoleOutput](t)(a.IAM(a.Root).CreateRole(ctx, &iam.CreateRoleInput{RoleName: p("odd"),
		Path: p("/x:policy/"), AssumeRolePolicyDocument: p(trustEKS)}))
	delegate := a.IAM(a.NewUser(t,
		"delegate", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"iam:AttachRolePolicy","Resource":"*",
		"Condition":{"ArnNotEquals":{"iam:PolicyARN":"`+adminARN+`"}}}}`))
	if _, err := delegate.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: p("odd"),
		PolicyArn: p(adminARN)}); awstest.Code(err) != "AccessDenied" {
		t.Errorf("attached AdministratorAccess: %v", err)
	}
}

// What is changed is what was authorized: when another has the name by the time of the write, it is authorized anew.
func TestWhatIsChangedIsWhatWasAuthorized(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, p, root := t.Context(), aws.String, a.IAM(a.Root)
	boundary := "arn:aws:iam::aws:policy/ReadOnlyAccess"
	mallory := a.IAM(a.NewUser(t, "mallory", `{"Version":"2012-10-17","Statement":[
		{"Effect":"Allow","Action":"iam:*","Resource":"*"},
		{"Effect":"Deny","Action":"iam:DeleteRolePermissionsBoundary","Resource":"*","Condition":{"StringEquals":{"iam:PermissionsBoundary":"`+boundary+`"}}},
		{"Effect":"Deny","Action":"iam:*","Resource":"*","Condition":{"StringEquals":{"aws:ResourceTag/team":"admins"}}}]}`))
	tags := []types.Tag{{Key: p("team"), Value: p("admins")}}
	create := func(name string, boundary *string, tags []types.Tag) {
		t.Helper()
		awstest.Must[*iam.CreateRoleOutput](t)(root.CreateRole(ctx, &iam.CreateRoleInput{
			RoleName: &name, PermissionsBoundary: boundary, Tags: tags, AssumeRolePolicyDocument: p(trustEKS),
		}))
	}
	replace := func(name string) {
		t.Helper()
		awstest.Must[*iam.DeleteRoleOutput](t)(root.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: &name}))
		create(name, nil, tags)
	}
	for _, test := range []struct {
		name    string
		before  bool // whether the role exists when the request is authorized
		between func(role string)
		request func(role string) error
		code    string
	}{
		{"a boundary of a role that appears", false, func(role string) { create(role, &boundary, nil) },
			func(role string) error {
				return second(mallory.DeleteRolePermissionsBoundary(ctx,
					&iam.DeleteRolePermissionsBoundaryInput{RoleName: &role}))
			}, "AccessDenied"},
		{"a policy of a role that is made anew", true, replace, func(role string) error {
			return second(mallory.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: &role,
				PolicyArn: p(adminARN)}))
		}, "AccessDenied"},
		{"the trust policy of a role that is made anew", true, replace, func(role string) error {
			return second(mallory.UpdateAssumeRolePolicy(ctx, &iam.UpdateAssumeRolePolicyInput{RoleName: &role,
				PolicyDocument: p(trustEKS)}))
		}, "AccessDenied"},
		{"a role that is tagged", true, func(role string) {
			awstest.Must[*iam.TagRoleOutput](t)(root.TagRole(ctx, &iam.TagRoleInput{RoleName: &role, Tags: tags}))
		}, func(role string) error {
			return second(mallory.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: &role}))
		}, "AccessDenied"},
		{"a role that is tagged otherwise", true, func(role string) {
			awstest.Must[*iam.TagRoleOutput](t)(root.TagRole(ctx, &iam.TagRoleInput{RoleName: &role,
				Tags: []types.Tag{{Key: p("a"), Value: p("b")}}}))
		}, func(role string) error {
			return second(mallory.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: &role,
				PolicyArn: p(adminARN)}))
		}, "<nil>"},
	} {
		role := "r" + strconv.Itoa(len(test.name))
		if test.before {
			create(role, nil, nil)
		}
		a.AfterAuthorization(func() { test.between(role) })
		if err := test.request(role); awstest.Code(err) != test.code {
			t.Errorf("%s: %v, not %q", test.name, err, test.code)
		}
	}
}

// What a request would create is authorized as the request describes it, whatever has its name now: that may be gone a
// moment later. Otherwise who may make bounded users and roles only makes one, and others without a boundary while it
// is being deleted.
func TestWhatIsCreatedIsAuthorizedAsAsked(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, p := t.Context(), aws.String
	boundary := "arn:aws:iam::aws:policy/ReadOnlyAccess"
	bounded := a.IAM(a.NewUser(
		t,
		"bounded",
		`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":["iam:CreateUser","iam:CreateRole"],"Resource":"*",
		"Condition":{"StringEquals":{"iam:PermissionsBoundary":"`+boundary+`"}}}}`,
	))
	tagged := a.IAM(a.NewUser(
		t,
		"tagged",
		`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":["iam:CreateUser","iam:CreateRole","iam:CreateInstanceProfile"],"Resource":"*",
		"Condition":{"StringEquals":{"aws:ResourceTag/team":"crew"}}}}`,
	))
	below := a.IAM(a.NewUser(t,
		"below", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"iam:*","Resource":[
		"arn:aws:iam::111122223333:user/crew/*","arn:aws:iam::111122223333:role/crew/*","arn:aws:iam::111122223333:group/crew/*","arn:aws:iam::111122223333:instance-profile/crew/*"]}}`))
	root, crew, tags := a.IAM(a.Root), p("/crew/"), []types.Tag{{Key: p("team"), Value: p("crew")}}
	awstest.Must[*iam.CreateUserOutput](t)(root.CreateUser(ctx, &iam.CreateUserInput{UserName: p("x"), Path: crew,
		PermissionsBoundary: &boundary, Tags: tags}))
	awstest.Must[*iam.CreateRoleOutput](t)(root.CreateRole(ctx, &iam.CreateRoleInput{RoleName: p("x"), Path: crew,
		PermissionsBoundary: &boundary, Tags: tags, AssumeRolePolicyDocument: p(trustEKS)}))
	awstest.Must[*iam.CreateGroupOutput](t)(root.CreateGroup(ctx, &iam.CreateGroupInput{GroupName: p("x"), Path: crew}))
	awstest.Must[*iam.CreateInstanceProfileOutput](t)(root.CreateInstanceProfile(ctx,
		&iam.CreateInstanceProfileInput{InstanceProfileName: p("x"), Path: crew, Tags: tags}))
	for _, test := range []struct {
		name string
		err  error
	}{
		{"a user without a boundary", second(bounded.CreateUser(ctx, &iam.CreateUserInput{UserName: p("x")}))},
		{"a role without a boundary", second(bounded.CreateRole(ctx, &iam.CreateRoleInput{RoleName: p("x"),
			AssumeRolePolicyDocument: p(trustEKS)}))},
		{"a user without the tag", second(tagged.CreateUser(ctx, &iam.CreateUserInput{UserName: p("x")}))},
		{"a role without the tag", second(tagged.CreateRole(ctx, &iam.CreateRoleInput{RoleName: p("x"),
			AssumeRolePolicyDocument: p(trustEKS)}))},
		{"an instance profile without the tag",
			second(tagged.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: p("x")}))},
		{"a user elsewhere", second(below.CreateUser(ctx, &iam.CreateUserInput{UserName: p("x"),
			Path: p("/admins/")}))},
		{"a role elsewhere", second(below.CreateRole(ctx, &iam.CreateRoleInput{RoleName: p("x"), Path: p("/admins/"),
			AssumeRolePolicyDocument: p(trustEKS)}))},
		{"a group elsewhere", second(below.CreateGroup(ctx, &iam.CreateGroupInput{GroupName: p("x"),
			Path: p("/admins/")}))},
		{"an instance profile elsewhere",
			second(below.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: p("x"),
				Path: p("/admins/")}))},
	} {
		if awstest.Code(test.err) != "AccessDenied" {
			t.Errorf("%s: %v", test.name, test.err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
