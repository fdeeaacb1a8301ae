package iam_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"
	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const (
	allowAll  = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`
	trustEKS  = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"eks.amazonaws.com"},"Action":"sts:AssumeRole"}]}`
	trustSelf = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"111122223333"},"Action":"sts:AssumeRole"}]}`

	policyARN = "arn:aws:iam::111122223333:policy/full"
	adminARN  = "arn:aws:iam::aws:policy/AdministratorAccess"
	oidcARN   = "arn:aws:iam::111122223333:oidc-provider/oidc.example.com"
)

// furnish makes one of everything: user alice (group devs, key, inline and managed policy), empty user bob, role app in
// a profile, role lone, a policy with five versions, a provider, the role of EKS.
func furnish(t *testing.T) *iamtest.AWS {
	t.Helper()
	a := iamtest.New(t)
	ctx, c := t.Context(), a.IAM(a.Root)
	a.NewUser(t, "alice", allowAll)
	a.NewRole(t, "app", trustEKS)
	a.NewRole(t, "lone", trustSelf)
	steps := []func() error{
		func() error {
			_, err := c.CreateUser(ctx, &iam.CreateUserInput{UserName: aws.String("bob")})
			return err
		},
		func() error {
			_, err := c.CreateAccessKey(ctx, &iam.CreateAccessKeyInput{UserName: aws.String("alice")})
			return err
		},
		func() error {
			_, err := c.CreateGroup(ctx, &iam.CreateGroupInput{GroupName: aws.String("devs")})
			return err
		},
		func() error {
			_, err := c.AddUserToGroup(ctx, &iam.AddUserToGroupInput{GroupName: aws.String("devs"),
				UserName: aws.String("alice")})
			return err
		},
		func() error {
			_, err := c.CreateInstanceProfile(ctx,
				&iam.CreateInstanceProfileInput{InstanceProfileName: aws.String("nodes")})
			return err
		},
		func() error {
			_, err := c.AddRoleToInstanceProfile(ctx,
				&iam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String("nodes"),
					RoleName: aws.String("app")})
			return err
		},
		func() error {
			_, err := c.CreatePolicy(ctx, &iam.CreatePolicyInput{PolicyName: aws.String("full"),
				PolicyDocument: aws.String(allowAll)})
			return err
		},
		func() error {
			_, err := c.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: aws.String("app"),
				PolicyArn: aws.String(policyARN)})
			return err
		},
		func() error {
			_, err := c.CreateOpenIDConnectProvider(ctx,
				&iam.CreateOpenIDConnectProviderInput{Url: aws.String("https://oidc.example.com"),
					ClientIDList: []string{"sts.amazonaws.com"}})
			return err
		},
		func() error {
			_, err := c.CreateServiceLinkedRole(ctx,
				&iam.CreateServiceLinkedRoleInput{AWSServiceName: aws.String("eks.amazonaws.com")})
			return err
		},
	}
	for range 4 {
		steps = append(steps, func() error {
			_, err := c.CreatePolicyVersion(ctx, &iam.CreatePolicyVersionInput{PolicyArn: aws.String(policyARN),
				PolicyDocument: aws.String(allowAll)})
			return err
		})
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", i+1, err)
		}
	}
	return a
}

// snapshot returns every record that a request of IAM or STS could change, as text.
func snapshot(t *testing.T, s *store.Store) string {
	t.Helper()
	var b strings.Builder
	dump(t, &b, record.Accounts(s))
	dump(t, &b, record.AccountAliases(s))
	dump(t, &b, record.Users(s))
	dump(t, &b, record.Groups(s))
	dump(t, &b, record.Roles(s))
	dump(t, &b, record.RoleDeletions(s))
	dump(t, &b, record.AccessKeys(s))
	dump(t, &b, record.Policies(s))
	dump(t, &b, record.InstanceProfiles(s))
	dump(t, &b, record.OIDCProviders(s))
	return b.String()
}

func dump[T any](t *testing.T, b *strings.Builder, table store.Table[T]) {
	rows, err := table.List(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		fmt.Fprintf(b, "%s@%d ", row.Key, row.Revision)
	}
	b.WriteByte('\n')
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	a := furnish(t)
	c, tokens := a.IAM(a.Root), a.STS(a.Root)
	p := aws.String
	big := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::` +
		strings.Repeat("x", 11000) + `"}]}`
	type call = func(context.Context) error
	for _, test := range []struct {
		name   string
		call   call
		code   string
		status int
		says   string
	}{
		{"user exists", do(c.CreateUser, &iam.CreateUserInput{UserName: p("alice")}), "EntityAlreadyExists", 409,
			"User with name alice already exists."},
		{"user exists in other case", do(c.CreateUser, &iam.CreateUserInput{UserName: p("ALICE")}),
			"EntityAlreadyExists", 409, "already exists"},
		{"user name with a space", do(c.CreateUser, &iam.CreateUserInput{UserName: p("a b")}), "ValidationError", 400,
			"regular expression"},
		{"user name too long", do(c.CreateUser, &iam.CreateUserInput{UserName: p(strings.Repeat("a", 65))}),
			"ValidationError", 400, "length less than or equal to 64"},
		{"path without slashes", do(c.CreateUser, &iam.CreateUserInput{UserName: p("x"), Path: p("team")}),
			"ValidationError", 400, "path"},
		{"same tag twice", do(c.CreateUser, &iam.CreateUserInput{UserName: p("x"),
			Tags: []types.Tag{{Key: p("a"), Value: p("1")}, {Key: p("A"), Value: p("2")}}}), "InvalidInput", 400,
			"Duplicate tag keys"},
		{"reserved tag", do(c.TagUser, &iam.TagUserInput{UserName: p("bob"),
			Tags: []types.Tag{{Key: p("aws:x"), Value: p("1")}}}), "InvalidInput", 400, "reserved"},
		{"boundary that does not exist",
			do(c.CreateUser, &iam.CreateUserInput{UserName: p("x"),
				PermissionsBoundary: p("arn:aws:iam::111122223333:policy/none")}), "NoSuchEntity", 404,
			"does not exist or is not attachable"},
		{"no such user", do(c.GetUser, &iam.GetUserInput{UserName: p("carol")}), "NoSuchEntity", 404,
			"The user with name carol cannot be found."},
		{"no such user to delete", do(c.DeleteUser, &iam.DeleteUserInput{UserName: p("carol")}), "NoSuchEntity", 404,
			"carol"},
		{"user with keys", do(c.DeleteUser, &iam.DeleteUserInput{UserName: p("alice")}), "DeleteConflict", 409,
			"must delete access keys first"},
		{"rename onto another", do(c.UpdateUser, &iam.UpdateUserInput{UserName: p("bob"), NewUserName: p("Alice")}),
			"EntityAlreadyExists", 409, "Alice"},
		{"no boundary to delete", do(c.DeleteUserPermissionsBoundary,
			&iam.DeleteUserPermissionsBoundaryInput{UserName: p("bob")}), "NoSuchEntity", 404,
			"no permissions boundary"},
		{"third key", do(c.CreateAccessKey, &iam.CreateAccessKeyInput{UserName: p("alice")}), "LimitExceeded", 409,
			"Cannot exceed quota for AccessKeysPerUser: 2"},
		{"key of no user", do(c.CreateAccessKey, &iam.CreateAccessKeyInput{UserName: p("carol")}), "NoSuchEntity", 404,
			"carol"},
		{"no such key to delete", do(c.DeleteAccessKey, &iam.DeleteAccessKeyInput{UserName: p("alice"),
			AccessKeyId: p("AKIAIOSFODNN7EXAMPLE")}), "NoSuchEntity", 404,
			"The Access Key with id AKIAIOSFODNN7EXAMPLE cannot be found."},
		{"no such key to update", do(c.UpdateAccessKey, &iam.UpdateAccessKeyInput{UserName: p("bob"),
			AccessKeyId: p("AKIAIOSFODNN7EXAMPLE"), Status: types.StatusTypeInactive}), "NoSuchEntity", 404,
			"AKIAIOSFODNN7EXAMPLE"},
		{"key status", do(c.UpdateAccessKey, &iam.UpdateAccessKeyInput{UserName: p("bob"),
			AccessKeyId: p("AKIAIOSFODNN7EXAMPLE"), Status: "Off"}), "ValidationError", 400, "enum value set"},
		{"use of no such key", do(c.GetAccessKeyLastUsed,
			&iam.GetAccessKeyLastUsedInput{AccessKeyId: p("AKIAIOSFODNN7EXAMPLE")}), "NoSuchEntity", 404,
			"AKIAIOSFODNN7EXAMPLE"},

		{"group exists", do(c.CreateGroup, &iam.CreateGroupInput{GroupName: p("Devs")}), "EntityAlreadyExists", 409,
			"Group with name Devs already exists."},
		{"no such group", do(c.GetGroup, &iam.GetGroupInput{GroupName: p("ops")}), "NoSuchEntity", 404,
			"The group with name ops cannot be found."},
		{"group with users", do(c.DeleteGroup, &iam.DeleteGroupInput{GroupName: p("devs")}), "DeleteConflict", 409,
			"must remove users from group first"},
		{"add to no group", do(c.AddUserToGroup, &iam.AddUserToGroupInput{GroupName: p("ops"), UserName: p("bob")}),
			"NoSuchEntity", 404, "ops"},
		{"add no user", do(c.AddUserToGroup, &iam.AddUserToGroupInput{GroupName: p("devs"), UserName: p("carol")}),
			"NoSuchEntity", 404, "carol"},

		{"role exists", do(c.CreateRole, &iam.CreateRoleInput{RoleName: p("APP"),
			AssumeRolePolicyDocument: p(trustEKS)}), "EntityAlreadyExists", 409, "Role with name APP already exists."},
		{"trust is not JSON", do(c.CreateRole, &iam.CreateRoleInput{RoleName: p("x"),
			AssumeRolePolicyDocument: p("{")}), "MalformedPolicyDocument", 400, "This policy contains invalid Json"},
		{"trust without principal", do(c.CreateRole, &iam.CreateRoleInput{RoleName: p("x"),
			AssumeRolePolicyDocument: p(
				`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"sts:AssumeRole"}}`)}),
			"MalformedPolicyDocument", 400, "Missing required field Principal"},
		{"trust with resource", do(c.CreateRole, &iam.CreateRoleInput{RoleName: p("x"),
			AssumeRolePolicyDocument: p(strings.Replace(trustEKS, `"Effect"`, `"Resource":"*","Effect"`, 1))}),
			"MalformedPolicyDocument", 400, "Has prohibited field Resource"},
		{"trust of no such user", do(c.CreateRole, &iam.CreateRoleInput{RoleName: p("x"),
			AssumeRolePolicyDocument: p(strings.Replace(trustSelf, `"111122223333"`,
				`"arn:aws:iam::111122223333:user/carol"`, 1))}), "MalformedPolicyDocument", 400,
			`Invalid principal in policy: "AWS":"arn:aws:iam::111122223333:user/carol"`},
		{"trust of a session of no such role", do(c.CreateRole, &iam.CreateRoleInput{RoleName: p("x"),
			AssumeRolePolicyDocument: p(strings.Replace(trustSelf, `"111122223333"`,
				`"arn:aws:sts::111122223333:assumed-role/carol/s"`, 1))}), "MalformedPolicyDocument", 400,
			`Invalid principal in policy: "AWS":"arn:aws:sts::111122223333:assumed-role/carol/s"`},
		{"trust too long", do(c.UpdateAssumeRolePolicy, &iam.UpdateAssumeRolePolicyInput{RoleName: p("app"),
			PolicyDocument: p(strings.Replace(trustEKS, `"Effect"`, `"Sid":"`+strings.Repeat("x", 2100)+`","Effect"`,
				1))}), "LimitExceeded", 409, "ACLSizePerRole"},
		{"session too long", do(c.CreateRole, &iam.CreateRoleInput{RoleName: p("x"),
			AssumeRolePolicyDocument: p(trustEKS), MaxSessionDuration: aws.Int32(43201)}), "ValidationError", 400,
			"43200"},
		{"session too short", do(c.UpdateRole, &iam.UpdateRoleInput{RoleName: p("app"),
			MaxSessionDuration: aws.Int32(60)}), "ValidationError", 400, "3600"},
		{"path of service-linked roles",
			do(c.CreateRole, &iam.CreateRoleInput{RoleName: p("x"), Path: p("/aws-service-role/x/"),
				AssumeRolePolicyDocument: p(trustEKS)}), "InvalidInput", 400, "reserved"},
		{"no such role", do(c.GetRole, &iam.GetRoleInput{RoleName: p("none")}), "NoSuchEntity", 404,
			"The role with name none cannot be found."},
		{"role in a profile", do(c.DeleteRole, &iam.DeleteRoleInput{RoleName: p("app")}), "DeleteConflict", 409,
			"must remove roles from instance profile first"},
		{"trust of no such role", do(c.UpdateAssumeRolePolicy, &iam.UpdateAssumeRolePolicyInput{RoleName: p("none"),
			PolicyDocument: p(trustEKS)}), "NoSuchEntity", 404, "none"},
		{"inline policy of no role", do(c.PutRolePolicy, &iam.PutRolePolicyInput{RoleName: p("none"),
			PolicyName: p("x"), PolicyDocument: p(allowAll)}), "NoSuchEntity", 404, "none"},
		{"inline policy is not JSON", do(c.PutRolePolicy, &iam.PutRolePolicyInput{RoleName: p("app"),
			PolicyName: p("x"), PolicyDocument: p("no")}), "MalformedPolicyDocument", 400, "Syntax errors in policy"},
		{"inline policy with principal", do(c.PutRolePolicy, &iam.PutRolePolicyInput{RoleName: p("app"),
			PolicyName: p("x"), PolicyDocument: p(trustEKS)}), "MalformedPolicyDocument", 400,
			"should not specify a principal"},
		{"inline policy of a role too long", do(c.PutRolePolicy, &iam.PutRolePolicyInput{RoleName: p("app"),
			PolicyName: p("x"), PolicyDocument: p(big)}), "LimitExceeded", 409,
			"Maximum policy size of 10240 bytes exceeded for role app"},
		{"inline policy of a user too long", do(c.PutUserPolicy, &iam.PutUserPolicyInput{UserName: p("bob"),
			PolicyName: p("x"), PolicyDocument: p(big)}), "LimitExceeded", 409,
			"Maximum policy size of 2048 bytes exceeded for user bob"},
		{"no such inline policy", do(c.GetRolePolicy, &iam.GetRolePolicyInput{RoleName: p("app"), PolicyName: p("x")}),
			"NoSuchEntity", 404, "The role policy with name x cannot be found."},
		{"no such inline policy to delete", do(c.DeleteUserPolicy, &iam.DeleteUserPolicyInput{UserName: p("bob"),
			PolicyName: p("x")}), "NoSuchEntity", 404, "The user policy with name x cannot be found."},
		{"attach what is not", do(c.AttachRolePolicy, &iam.AttachRolePolicyInput{RoleName: p("app"),
			PolicyArn: p("arn:aws:iam::aws:policy/NoSuchPolicy")}), "NoSuchEntity", 404,
			"Policy arn:aws:iam::aws:policy/NoSuchPolicy does not exist or is not attachable."},
		{"attach to no role", do(c.AttachRolePolicy, &iam.AttachRolePolicyInput{RoleName: p("none"),
			PolicyArn: p(adminARN)}), "NoSuchEntity", 404, "none"},
		{"detach what is not attached", do(c.DetachRolePolicy, &iam.DetachRolePolicyInput{RoleName: p("lone"),
			PolicyArn: p(adminARN)}), "NoSuchEntity", 404, "was not found"},

		{"policy exists", do(c.CreatePolicy, &iam.CreatePolicyInput{PolicyName: p("FULL"),
			PolicyDocument: p(allowAll)}), "EntityAlreadyExists", 409,
			"A policy called FULL already exists. Duplicate names are not allowed."},
		{"policy is not JSON", do(c.CreatePolicy, &iam.CreatePolicyInput{PolicyName: p("x"), PolicyDocument: p("[")}),
			"MalformedPolicyDocument", 400, "Syntax errors"},
		{"policy without resource", do(c.CreatePolicy, &iam.CreatePolicyInput{PolicyName: p("x"),
			PolicyDocument: p(`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"*"}}`)}),
			"MalformedPolicyDocument", 400, "Policy statement must contain resources."},
		{"policy too long", do(c.CreatePolicy, &iam.CreatePolicyInput{PolicyName: p("x"), PolicyDocument: p(big)}),
			"LimitExceeded", 409, "Cannot exceed quota for PolicySize: 6144"},
		{"sixth version", do(c.CreatePolicyVersion, &iam.CreatePolicyVersionInput{PolicyArn: p(policyARN),
			PolicyDocument: p(allowAll)}), "LimitExceeded", 409, "up to 5 versions"},
		{"delete the default version", do(c.DeletePolicyVersion, &iam.DeletePolicyVersionInput{PolicyArn: p(policyARN),
			VersionId: p("v1")}), "DeleteConflict", 409, "Cannot delete the default version of a policy."},
		{"no such version", do(c.GetPolicyVersion, &iam.GetPolicyVersionInput{PolicyArn: p(policyARN),
			VersionId: p("v9")}), "NoSuchEntity", 404, "version v9"},
		{"default to no such version", do(c.SetDefaultPolicyVersion,
			&iam.SetDefaultPolicyVersionInput{PolicyArn: p(policyARN), VersionId: p("v9")}), "NoSuchEntity", 404,
			"version v9"},
		{"attached policy", do(c.DeletePolicy, &iam.DeletePolicyInput{PolicyArn: p(policyARN)}), "DeleteConflict", 409,
			"Cannot delete a policy attached to entities."},
		{"no such policy", do(c.GetPolicy, &iam.GetPolicyInput{PolicyArn: p("arn:aws:iam::111122223333:policy/none")}),
			"NoSuchEntity", 404, "was not found"},
		{"policy of AWS", do(c.DeletePolicy, &iam.DeletePolicyInput{PolicyArn: p(adminARN)}), "AccessDenied", 403,
			"managed by AWS"},

		{"profile exists", do(c.CreateInstanceProfile,
			&iam.CreateInstanceProfileInput{InstanceProfileName: p("nodes")}), "EntityAlreadyExists", 409,
			"Instance Profile nodes already exists."},
		{"no such profile", do(c.GetInstanceProfile, &iam.GetInstanceProfileInput{InstanceProfileName: p("none")}),
			"NoSuchEntity", 404, "Instance Profile none cannot be found."},
		{"profile with a role", do(c.DeleteInstanceProfile,
			&iam.DeleteInstanceProfileInput{InstanceProfileName: p("nodes")}), "DeleteConflict", 409,
			"must remove roles"},
		{"second role", do(c.AddRoleToInstanceProfile,
			&iam.AddRoleToInstanceProfileInput{InstanceProfileName: p("nodes"), RoleName: p("lone")}), "LimitExceeded",
			409, "InstanceSessionsPerInstanceProfile: 1"},
		{"remove a role that is not in it", do(c.RemoveRoleFromInstanceProfile,
			&iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: p("nodes"), RoleName: p("lone")}),
			"NoSuchEntity", 404, "lone"},

		{"provider exists", do(c.CreateOpenIDConnectProvider,
			&iam.CreateOpenIDConnectProviderInput{Url: p("https://oidc.example.com/")}), "EntityAlreadyExists", 409,
			"Provider with url https://oidc.example.com/ already exists."},
		{"provider without https", do(c.CreateOpenIDConnectProvider,
			&iam.CreateOpenIDConnectProviderInput{Url: p("http://oidc.example.com")}), "InvalidInput", 400, "https://"},
		{"thumbprint", do(c.UpdateOpenIDConnectProviderThumbprint,
			&iam.UpdateOpenIDConnectProviderThumbprintInput{OpenIDConnectProviderArn: p(oidcARN),
				ThumbprintList: []string{strings.Repeat("z", 40)}}), "InvalidInput", 400, "hexadecimal"},
		{"no such provider", do(c.GetOpenIDConnectProvider,
			&iam.GetOpenIDConnectProviderInput{OpenIDConnectProviderArn: p(oidcARN + "/x")}), "NoSuchEntity", 404,
			"OpenIDConnect Provider not found for arn"},

		{"change a service-linked role",
			do(c.AttachRolePolicy, &iam.AttachRolePolicyInput{RoleName: p("AWSServiceRoleForAmazonEKS"),
				PolicyArn: p(adminARN)}), "UnmodifiableEntity", 400, "only modifiable by AWS"},
		{"delete a service-linked role",
			do(c.DeleteRole, &iam.DeleteRoleInput{RoleName: p("AWSServiceRoleForAmazonEKS")}), "UnmodifiableEntity",
			400, "only modifiable by AWS"},
		{"second service-linked role", do(c.CreateServiceLinkedRole,
			&iam.CreateServiceLinkedRoleInput{AWSServiceName: p("eks.amazonaws.com")}), "InvalidInput", 400,
			"has been taken in this account"},
		{"service-linked role of no service",
			do(c.CreateServiceLinkedRole, &iam.CreateServiceLinkedRoleInput{AWSServiceName: p("none.amazonaws.com")}),
			"InvalidInput", 400, "none.amazonaws.com"},
		{"no such deletion", do(c.GetServiceLinkedRoleDeletionStatus,
			&iam.GetServiceLinkedRoleDeletionStatusInput{DeletionTaskId: p("task/none")}), "NoSuchEntity", 404,
			"task/none"},
		{"an alias like an account ID",
			do(c.CreateAccountAlias, &iam.CreateAccountAliasInput{AccountAlias: p("444455556666")}), "InvalidInput", 400,
			"isn't 12 digits"},
		{"an alias with two dashes", do(c.CreateAccountAlias, &iam.CreateAccountAliasInput{AccountAlias: p("a--b")}),
			"ValidationError", 400, "accountAlias"},
		{"an alias that is a path", do(c.CreateAccountAlias, &iam.CreateAccountAliasInput{
			AccountAlias: p("444455556666/a")}), "ValidationError", 400, "accountAlias"},
		{"no such alias", do(c.DeleteAccountAlias, &iam.DeleteAccountAliasInput{AccountAlias: p("none")}),
			"NoSuchEntity", 404, "none"},
		{"too many items", do(c.ListRoles, &iam.ListRolesInput{MaxItems: aws.Int32(1001)}), "ValidationError", 400,
			"1000"},
		{"marker of nothing", do(c.ListRoles, &iam.ListRolesInput{Marker: p("bogus")}), "ValidationError", 400,
			"bogus"},
		{"simulate no such principal", do(c.SimulatePrincipalPolicy,
			&iam.SimulatePrincipalPolicyInput{PolicySourceArn: p("arn:aws:iam::111122223333:user/carol"),
				ActionNames: []string{"s3:GetObject"}}), "NoSuchEntity", 404, "carol"},
		{"simulate a bad policy", do(c.SimulateCustomPolicy,
			&iam.SimulateCustomPolicyInput{PolicyInputList: []string{"{"}, ActionNames: []string{"s3:GetObject"}}),
			"InvalidInput", 400, "PolicyInputList.1"},

		{"assume no such role", do(tokens.AssumeRole,
			&sts.AssumeRoleInput{RoleArn: p("arn:aws:iam::111122223333:role/none"), RoleSessionName: p("me")}),
			"AccessDenied", 403,
			"not authorized to perform: sts:AssumeRole on resource: arn:aws:iam::111122223333:role/none"},
		{"assume a role that trusts another",
			do(tokens.AssumeRole, &sts.AssumeRoleInput{RoleArn: p("arn:aws:iam::111122223333:role/app"),
				RoleSessionName: p("me")}), "AccessDenied", 403,
			"because no role trust policy allows the sts:AssumeRole action"},
		{"session name too short", do(tokens.AssumeRole,
			&sts.AssumeRoleInput{RoleArn: p("arn:aws:iam::111122223333:role/lone"), RoleSessionName: p("m")}),
			"ValidationError", 400, "roleSessionName"},
		{"session longer than the role's",
			do(tokens.AssumeRole, &sts.AssumeRoleInput{RoleArn: p("arn:aws:iam::111122223333:role/lone"),
				RoleSessionName: p("me"), DurationSeconds: aws.Int32(7200)}), "ValidationError", 400,
			"exceeds the MaxSessionDuration"},
		{"session policy is not JSON", do(tokens.AssumeRole,
			&sts.AssumeRoleInput{RoleArn: p("arn:aws:iam::111122223333:role/lone"), RoleSessionName: p("me"),
				Policy: p("{")}), "MalformedPolicyDocument", 400, "Syntax errors"},
		{"session policy that does not exist",
			do(tokens.AssumeRole, &sts.AssumeRoleInput{RoleArn: p("arn:aws:iam::111122223333:role/lone"),
				RoleSessionName: p("me"),
				PolicyArns:      []ststypes.PolicyDescriptorType{{Arn: p("arn:aws:iam::aws:policy/None")}}}),
			"MalformedPolicyDocument", 400, "does not exist"},
		{"session tags without permission",
			do(tokens.AssumeRole, &sts.AssumeRoleInput{RoleArn: p("arn:aws:iam::111122223333:role/lone"),
				RoleSessionName: p("me"), Tags: []ststypes.Tag{{Key: p("a"), Value: p("b")}}}), "AccessDenied", 403,
			"sts:TagSession"},
		{"one-time code", do(tokens.AssumeRole, &sts.AssumeRoleInput{RoleArn: p("arn:aws:iam::111122223333:role/lone"),
			RoleSessionName: p("me"), SerialNumber: p("arn:aws:iam::111122223333:mfa/x"), TokenCode: p("123456")}),
			"AccessDenied", 403, "MultiFactorAuthentication failed"},
		{"account of no key", do(tokens.GetAccessKeyInfo,
			&sts.GetAccessKeyInfoInput{AccessKeyId: p("0123456789ABCDEF")}), "ValidationError", 400,
			"0123456789ABCDEF"},
		{"token that is none", do(tokens.AssumeRoleWithWebIdentity,
			&sts.AssumeRoleWithWebIdentityInput{RoleArn: p("arn:aws:iam::111122223333:role/lone"),
				RoleSessionName: p("me"), WebIdentityToken: p("bogus")}), "InvalidIdentityToken", 400,
			"not a valid JWT"},
	} {
		t.Run(test.name, func(t *testing.T) { // one after the other: each compares the whole store before and after
			before := snapshot(t, a.Store)
			err := test.call(t.Context())
			var api smithy.APIError
			var response *awshttp.ResponseError
			if !errors.As(err, &api) || !errors.As(err, &response) {
				t.Fatalf("got %v, want %s", err, test.code)
			}
			if api.ErrorCode() != test.code || response.HTTPStatusCode() != test.status ||
				!strings.Contains(api.ErrorMessage(), test.says) {
				t.Errorf("got %s %d %q, want %s %d %q", api.ErrorCode(), response.HTTPStatusCode(), api.ErrorMessage(),
					test.code, test.status, test.says)
			}
			if after := snapshot(t, a.Store); after != before {
				t.Errorf("the refused request changed\n%s to\n%s", before, after)
			}
		})
	}
}

// do returns a function that calls an SDK operation and returns its error alone.
func do[In, Out, Options any](operation func(context.Context, In, ...func(*Options)) (Out, error),
	in In) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := operation(ctx, in)
		if err == nil {
			return errors.New("it was accepted")
		}
		return err
	}
}
