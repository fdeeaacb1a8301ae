package escalation

import (
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

var iamPaths = []path{
	{
		name: "iam: CreatePolicyVersion of one's own policy", needs: []statement{allow("iam:Get*", "iam:List*")},
		stops: []statement{allow("iam:CreatePolicyVersion").on(ownARN)},
		try:   func(w *fixture) error { return writeVersion(w, ownARN) },
	},
	{
		name:  "iam: CreatePolicyVersion of a policy beside the allowed one",
		given: func(w *fixture) { w.policy("other", everybody) },
		needs: []statement{allow("iam:CreatePolicyVersion").on(prefix + "policy/other")},
		stops: []statement{allow("iam:CreatePolicyVersion").on(ownARN)},
		try:   func(w *fixture) error { return writeVersion(w, ownARN) },
	},
	{
		name:  "iam: SetDefaultPolicyVersion to a version that allows everything",
		needs: []statement{allow("iam:CreatePolicyVersion")},
		stops: []statement{allow("iam:SetDefaultPolicyVersion").on(ownARN)},
		try: func(w *fixture) error {
			return failed(w.me.iam.SetDefaultPolicyVersion(w.t.Context(), &iam.SetDefaultPolicyVersionInput{
				PolicyArn: p(ownARN), VersionId: p("v2"),
			}))
		},
	},
	{
		name: "iam: AttachUserPolicy to oneself", needs: []statement{allow("iam:AttachUserPolicy").except(mallory)},
		stops: []statement{allow("iam:AttachUserPolicy").on(mallory)}, try: attachAdmin,
	},
	{
		name:  "iam: AttachUserPolicy of a policy beside the allowed one",
		needs: []statement{allow("iam:AttachUserPolicy").when("ArnEquals", "iam:PolicyARN", readOnly)},
		stops: []statement{allow("iam:AttachUserPolicy").when("ArnEquals", "iam:PolicyARN", adminOf)}, try: attachAdmin,
	},
	{
		name:  "iam: AttachGroupPolicy to one's own group",
		needs: []statement{allow("iam:AttachGroupPolicy").on(prefix + "group/admins")},
		stops: []statement{allow("iam:AttachGroupPolicy").on(prefix + "group/crew")},
		try: func(w *fixture) error {
			return failed(w.me.iam.AttachGroupPolicy(w.t.Context(), &iam.AttachGroupPolicyInput{
				GroupName: p("crew"), PolicyArn: p(adminOf),
			}))
		},
	},
	{
		name:  "iam: AttachRolePolicy to a role that one may use",
		needs: []statement{allow("iam:AttachRolePolicy").on(adminARN)},
		stops: []statement{allow("iam:AttachRolePolicy").on(weakARN)},
		try: func(w *fixture) error {
			return failed(w.me.iam.AttachRolePolicy(w.t.Context(), &iam.AttachRolePolicyInput{
				RoleName: p("weak"), PolicyArn: p(adminOf),
			}))
		},
	},
	{
		name: "iam: PutUserPolicy for oneself", needs: []statement{allow("iam:PutUserPolicy").on(bossARN),
			allow("iam:AttachUserPolicy")},
		stops: []statement{allow("iam:PutUserPolicy").on(mallory)},
		try: func(w *fixture) error {
			return failed(w.me.iam.PutUserPolicy(w.t.Context(), &iam.PutUserPolicyInput{
				UserName: p("mallory"), PolicyName: p("x"), PolicyDocument: p(everybody),
			}))
		},
	},
	{
		name:  "iam: PutGroupPolicy of one's own group",
		needs: []statement{allow("iam:PutGroupPolicy").on(prefix + "group/admins")},
		stops: []statement{allow("iam:PutGroupPolicy").on(prefix + "group/crew")},
		try: func(w *fixture) error {
			return failed(w.me.iam.PutGroupPolicy(w.t.Context(), &iam.PutGroupPolicyInput{
				GroupName: p("crew"), PolicyName: p("x"), PolicyDocument: p(everybody),
			}))
		},
	},
	{
		name:  "iam: PutRolePolicy of a role that one may use",
		needs: []statement{allow("iam:PutRolePolicy").on(adminARN)},
		stops: []statement{allow("iam:PutRolePolicy").on(weakARN)},
		try: func(w *fixture) error {
			return failed(w.me.iam.PutRolePolicy(w.t.Context(), &iam.PutRolePolicyInput{
				RoleName: p("weak"), PolicyName: p("x"), PolicyDocument: p(everybody),
			}))
		},
	},
	{
		name:  "iam: AddUserToGroup of the administrators",
		needs: []statement{allow("iam:AddUserToGroup").on(prefix + "group/crew")},
		stops: []statement{allow("iam:AddUserToGroup").on(prefix + "group/admins")},
		try: func(w *fixture) error {
			return failed(w.me.iam.AddUserToGroup(w.t.Context(), &iam.AddUserToGroupInput{
				GroupName: p("admins"), UserName: p("mallory"),
			}))
		},
	},
	{
		name: "iam: UpdateAssumeRolePolicy, then AssumeRole", needs: []statement{allow("sts:AssumeRole")},
		stops: []statement{allow("iam:UpdateAssumeRolePolicy").on(adminARN)},
		try: func(w *fixture) error {
			return errors.Join(trustMe(w, "admin"), failed(w.me.sts.AssumeRole(w.t.Context(), assuming("admin"))))
		},
	},
	{
		name: "iam: UpdateAssumeRolePolicy of a role with a path, by its name alone",
		given: func(w *fixture) {
			w.do(w.root.iam.CreateRole(w.t.Context(), &iam.CreateRoleInput{
				RoleName: p("deep"), Path: p("/bosses/"), AssumeRolePolicyDocument: p(toMe()),
			}))
		},
		needs: []statement{allow("iam:UpdateAssumeRolePolicy").on(prefix + "role/deep")},
		stops: []statement{allow("iam:UpdateAssumeRolePolicy").on(prefix + "role/bosses/deep")},
		try:   func(w *fixture) error { return trustMe(w, "deep") },
	},
	{
		name: "iam: CreateAccessKey for another user", needs: []statement{allow("iam:CreateAccessKey").on(mallory)},
		stops: []statement{allow("iam:CreateAccessKey").on(bossARN)},
		try: func(w *fixture) error {
			return failed(w.me.iam.CreateAccessKey(w.t.Context(), &iam.CreateAccessKeyInput{UserName: p("boss")}))
		},
	},
	{
		name: "iam: UpdateAccessKey of another user's inactive key",
		given: func(w *fixture) {
			key, err := w.root.iam.CreateAccessKey(w.t.Context(), &iam.CreateAccessKeyInput{UserName: p("boss")})
			w.do(nil, err)
			w.id = *key.AccessKey.AccessKeyId
			w.do(w.root.iam.UpdateAccessKey(w.t.Context(), &iam.UpdateAccessKeyInput{
				UserName: p("boss"), AccessKeyId: &w.id, Status: iamtypes.StatusTypeInactive,
			}))
		},
		needs: []statement{allow("iam:UpdateAccessKey").on(mallory)},
		stops: []statement{allow("iam:UpdateAccessKey").on(bossARN)},
		try: func(w *fixture) error {
			return failed(w.me.iam.UpdateAccessKey(w.t.Context(), &iam.UpdateAccessKeyInput{
				UserName: p("boss"), AccessKeyId: &w.id, Status: iamtypes.StatusTypeActive,
			}))
		},
	},
	{
		name: "iam: beyond one's permissions boundary", given: bounded(document(allow("iam:Get*"))),
		needs: []statement{allow("iam:*")},
		open: func(w *fixture) {
			w.do(w.root.iam.DeleteUserPermissionsBoundary(w.t.Context(), &iam.DeleteUserPermissionsBoundaryInput{
				UserName: p("mallory"),
			}))
		},
		try: attachAdmin,
	},
	{
		name: "iam: DeleteUserPermissionsBoundary of one's own", given: bounded(document(allow("iam:*"))),
		needs: []statement{allow("iam:DeleteUserPermissionsBoundary").on(bossARN)},
		stops: []statement{allow("iam:DeleteUserPermissionsBoundary").on(mallory)},
		try: func(w *fixture) error {
			return failed(w.me.iam.DeleteUserPermissionsBoundary(w.t.Context(), &iam.DeleteUserPermissionsBoundaryInput{
				UserName: p("mallory"),
			}))
		},
	},
	{
		name: "iam: PutUserPermissionsBoundary with a wider one", given: bounded(document(allow("iam:*"))),
		needs: []statement{
			allow("iam:PutUserPermissionsBoundary").when("ArnEquals", "iam:PermissionsBoundary", readOnly),
		},
		stops: []statement{
			allow("iam:PutUserPermissionsBoundary").when("ArnEquals", "iam:PermissionsBoundary", adminOf),
		},
		try: func(w *fixture) error {
			return failed(w.me.iam.PutUserPermissionsBoundary(w.t.Context(), &iam.PutUserPermissionsBoundaryInput{
				UserName: p("mallory"), PermissionsBoundary: p(adminOf),
			}))
		},
	},
	{
		name: "iam: CreatePolicyVersion of one's permissions boundary", given: bounded(document(allow("iam:*"))),
		needs: []statement{allow("iam:CreatePolicyVersion").except(prefix + "policy/bounds")},
		stops: []statement{allow("iam:CreatePolicyVersion").on(prefix + "policy/bounds")},
		try:   func(w *fixture) error { return writeVersion(w, prefix+"policy/bounds") },
	},
	{
		name: "iam: DeleteRolePermissionsBoundary", given: boundedRole, needs: []statement{allow("iam:PutRolePolicy")},
		stops: []statement{allow("iam:DeleteRolePermissionsBoundary").on(weakARN)},
		try: func(w *fixture) error {
			return failed(w.me.iam.DeleteRolePermissionsBoundary(w.t.Context(), &iam.DeleteRolePermissionsBoundaryInput{
				RoleName: p("weak"),
			}))
		},
	},
	{
		name: "iam: PutRolePermissionsBoundary with a wider one", given: boundedRole,
		needs: []statement{
			allow("iam:PutRolePermissionsBoundary").when("ArnEquals", "iam:PermissionsBoundary", readOnly),
		},
		stops: []statement{
			allow("iam:PutRolePermissionsBoundary").when("ArnEquals", "iam:PermissionsBoundary", adminOf),
		},
		try: func(w *fixture) error {
			return failed(w.me.iam.PutRolePermissionsBoundary(w.t.Context(), &iam.PutRolePermissionsBoundaryInput{
				RoleName: p("weak"), PermissionsBoundary: p(adminOf),
			}))
		},
	},
	{
		name:  "iam: CreateRole without the boundary that is demanded",
		needs: []statement{allow("iam:CreateRole").when("ArnEquals", "iam:PermissionsBoundary", readOnly)},
		stops: []statement{allow("iam:CreateRole")},
		try: func(w *fixture) error {
			return failed(w.me.iam.CreateRole(w.t.Context(), &iam.CreateRoleInput{
				RoleName: p("free"), AssumeRolePolicyDocument: p(toMe()),
			}))
		},
	},
	{
		name:  "iam: CreateUser without the boundary that is demanded",
		needs: []statement{allow("iam:CreateUser").when("ArnEquals", "iam:PermissionsBoundary", readOnly)},
		stops: []statement{allow("iam:CreateUser")},
		try: func(w *fixture) error {
			return failed(w.me.iam.CreateUser(w.t.Context(), &iam.CreateUserInput{UserName: p("free")}))
		},
	},
	{
		name: "iam: PutRolePolicy of a role without the boundary that is demanded",
		needs: []statement{
			allow("iam:PutRolePolicy").when("ArnEquals", "iam:PermissionsBoundary", readOnly),
		}, open: boundedRole,
		try: func(w *fixture) error {
			return failed(w.me.iam.PutRolePolicy(w.t.Context(), &iam.PutRolePolicyInput{
				RoleName: p("weak"), PolicyName: p("x"), PolicyDocument: p(everybody),
			}))
		},
	},
	{
		name: "iam: DeleteUserPolicy of a denial", given: deniedInline,
		needs: []statement{allow("iam:AttachUserPolicy")},
		stops: []statement{allow("iam:DeleteUserPolicy").on(mallory)},
		try: func(w *fixture) error {
			if _, err := w.me.iam.DeleteUserPolicy(w.t.Context(), &iam.DeleteUserPolicyInput{
				UserName: p("mallory"), PolicyName: p("denial"),
			}); err != nil {
				return err
			}
			return attachAdmin(w)
		},
	},
	{
		name: "iam: an explicit denial stops what is allowed", needs: []statement{allow("*")},
		hinders: []statement{deny("iam:AttachUserPolicy")}, try: attachAdmin,
	},
	{
		name: "iam: DetachUserPolicy of a denial", given: deniedAttached,
		needs: []statement{allow("iam:AttachUserPolicy")},
		stops: []statement{allow("iam:DetachUserPolicy").on(mallory)},
		try: func(w *fixture) error {
			if _, err := w.me.iam.DetachUserPolicy(w.t.Context(), &iam.DetachUserPolicyInput{
				UserName: p("mallory"), PolicyArn: p(prefix + "policy/denial"),
			}); err != nil {
				return err
			}
			return attachAdmin(w)
		},
	},
	{
		name: "iam: RemoveUserFromGroup whose policy denies", given: deniedByGroup,
		needs: []statement{allow("iam:AttachUserPolicy")},
		stops: []statement{allow("iam:RemoveUserFromGroup").on(prefix + "group/crew")},
		try: func(w *fixture) error {
			if _, err := w.me.iam.RemoveUserFromGroup(w.t.Context(), &iam.RemoveUserFromGroupInput{
				GroupName: p("crew"), UserName: p("mallory"),
			}); err != nil {
				return err
			}
			return attachAdmin(w)
		},
	},
	{
		name: "iam: DeleteGroupPolicy that denies", given: deniedByGroup,
		needs: []statement{allow("iam:AttachUserPolicy")},
		stops: []statement{allow("iam:DeleteGroupPolicy").on(prefix + "group/crew")},
		try: func(w *fixture) error {
			if _, err := w.me.iam.DeleteGroupPolicy(w.t.Context(), &iam.DeleteGroupPolicyInput{
				GroupName: p("crew"), PolicyName: p("denial"),
			}); err != nil {
				return err
			}
			return attachAdmin(w)
		},
	},
	{
		name: "iam: CreateRole with tags, without TagRole", needs: []statement{allow("iam:CreateRole")},
		stops: []statement{allow("iam:TagRole")},
		try: func(w *fixture) error {
			return failed(w.me.iam.CreateRole(w.t.Context(), &iam.CreateRoleInput{
				RoleName: p("mine"), AssumeRolePolicyDocument: p(toMe()), Tags: mine,
			}))
		},
	},
	{
		name: "iam: CreateUser with tags, without TagUser", needs: []statement{allow("iam:CreateUser")},
		stops: []statement{allow("iam:TagUser")},
		try: func(w *fixture) error {
			return failed(w.me.iam.CreateUser(w.t.Context(), &iam.CreateUserInput{
				UserName: p("mine"), Tags: mine,
			}))
		},
	},
	{
		name: "iam: CreatePolicy with tags, without TagPolicy", needs: []statement{allow("iam:CreatePolicy")},
		stops: []statement{allow("iam:TagPolicy")},
		try: func(w *fixture) error {
			return failed(w.me.iam.CreatePolicy(w.t.Context(), &iam.CreatePolicyInput{
				PolicyName: p("mine"), PolicyDocument: p(document(allow("ec2:DescribeInstances"))), Tags: mine,
			}))
		},
	},
	{
		name:  "iam: CreateInstanceProfile with tags, without TagInstanceProfile",
		needs: []statement{allow("iam:CreateInstanceProfile")},
		stops: []statement{allow("iam:TagInstanceProfile")},
		try: func(w *fixture) error {
			return failed(w.me.iam.CreateInstanceProfile(w.t.Context(), &iam.CreateInstanceProfileInput{
				InstanceProfileName: p("mine"), Tags: mine,
			}))
		},
	},
	{
		name:  "iam: CreateOpenIDConnectProvider with tags, without TagOpenIDConnectProvider",
		needs: []statement{allow("iam:CreateOpenIDConnectProvider")},
		stops: []statement{allow("iam:TagOpenIDConnectProvider")},
		try: func(w *fixture) error {
			return failed(w.me.iam.CreateOpenIDConnectProvider(w.t.Context(), &iam.CreateOpenIDConnectProviderInput{
				Url: p("https://oidc.example.com"), Tags: mine,
				ThumbprintList: []string{"0123456789012345678901234567890123456789"},
			}))
		},
	},
	{
		name: "iam: TagRole, then what its tag allows", needs: []statement{onlyMine("iam:PutRolePolicy")},
		stops: []statement{allow("iam:TagRole").on(adminARN)},
		try: func(w *fixture) error {
			if _, err := w.me.iam.TagRole(w.t.Context(), &iam.TagRoleInput{RoleName: p("admin"),
				Tags: mine}); err != nil {
				return err
			}
			return failed(w.me.iam.PutRolePolicy(w.t.Context(), &iam.PutRolePolicyInput{
				RoleName: p("admin"), PolicyName: p("x"), PolicyDocument: p(everybody),
			}))
		},
	},
	{
		name:  "iam: TagUser oneself, then what one's tag allows",
		needs: []statement{allow("iam:AttachUserPolicy").when("StringEquals", "aws:PrincipalTag/team", "crew")},
		stops: []statement{allow("iam:TagUser").on(mallory)},
		try: func(w *fixture) error {
			if _, err := w.me.iam.TagUser(w.t.Context(), &iam.TagUserInput{UserName: p("mallory"),
				Tags: mine}); err != nil {
				return err
			}
			return attachAdmin(w)
		},
	},
	{
		name:  "iam: TagUser with a value that is not allowed",
		needs: []statement{allow("iam:TagUser").when("StringEquals", "aws:RequestTag/team", "guests")},
		stops: []statement{allow("iam:TagUser").when("StringEquals", "aws:RequestTag/team", "crew")},
		try: func(w *fixture) error {
			return failed(w.me.iam.TagUser(w.t.Context(), &iam.TagUserInput{UserName: p("mallory"), Tags: mine}))
		},
	},
	{
		name:  "iam: UpdateUser to a path whose users may do more",
		needs: []statement{allow("iam:UpdateUser").on(mallory)},
		stops: []statement{allow("iam:UpdateUser").on(prefix + "user/bosses/*")},
		try: func(w *fixture) error {
			return failed(
				w.me.iam.UpdateUser(
					w.t.Context(),
					&iam.UpdateUserInput{UserName: p("mallory"), NewPath: p("/bosses/")},
				),
			)
		},
	},
	{
		name:  "iam: UpdateGroup to a name that may be changed",
		needs: []statement{allow("iam:UpdateGroup").on(prefix + "group/admins")},
		stops: []statement{allow("iam:UpdateGroup").on(prefix + "group/crew/admins")},
		try: func(w *fixture) error {
			return failed(
				w.me.iam.UpdateGroup(
					w.t.Context(),
					&iam.UpdateGroupInput{GroupName: p("admins"), NewPath: p("/crew/")},
				),
			)
		},
	},
	{
		name:  "iam: AddRoleToInstanceProfile without PassRole",
		needs: []statement{allow("iam:AddRoleToInstanceProfile")},
		stops: []statement{allow("iam:PassRole").on(adminARN)}, try: fillProfile,
	},
	{
		name:  "iam: AddRoleToInstanceProfile with PassRole of another role",
		needs: []statement{allow("iam:AddRoleToInstanceProfile"), allow("iam:PassRole").on(weakARN)},
		stops: []statement{allow("iam:PassRole").on(adminARN)}, try: fillProfile,
	},
	{
		name: "iam: AddRoleToInstanceProfile with PassRole to another service",
		needs: []statement{
			allow(
				"iam:AddRoleToInstanceProfile",
			), allow("iam:PassRole").when("StringEquals", "iam:PassedToService", "eks.amazonaws.com"),
		},
		stops: []statement{
			allow("iam:PassRole").when("StringEquals", "iam:PassedToService", "ec2.amazonaws.com"),
		}, try: fillProfile,
	},
	{
		name:  "iam: AddRoleToInstanceProfile of a profile that one may not change",
		needs: []statement{allow("iam:PassRole")},
		stops: []statement{
			allow("iam:AddRoleToInstanceProfile").on(prefix + "instance-profile/empty-profile"),
		}, try: fillProfile,
	},
	{
		name:  "iam: RemoveRoleFromInstanceProfile, to put another there",
		needs: []statement{allow("iam:AddRoleToInstanceProfile", "iam:PassRole")},
		stops: []statement{allow("iam:RemoveRoleFromInstanceProfile").on(prefix + "instance-profile/weak-profile")},
		try: func(w *fixture) error {
			if _, err := w.me.iam.RemoveRoleFromInstanceProfile(w.t.Context(), &iam.RemoveRoleFromInstanceProfileInput{
				InstanceProfileName: p("weak-profile"), RoleName: p("weak"),
			}); err != nil {
				return err
			}
			return failed(w.me.iam.AddRoleToInstanceProfile(w.t.Context(), &iam.AddRoleToInstanceProfileInput{
				InstanceProfileName: p("weak-profile"), RoleName: p("admin"),
			}))
		},
	},
	{
		name: "iam: CreateServiceLinkedRole of a service beside the allowed one",
		needs: []statement{
			allow("iam:CreateServiceLinkedRole").when("StringEquals", "iam:AWSServiceName", "spot.amazonaws.com"),
		},
		stops: []statement{
			allow("iam:CreateServiceLinkedRole").when("StringEquals", "iam:AWSServiceName", "autoscaling.amazonaws.com"),
		},
		try: func(w *fixture) error {
			return failed(w.me.iam.CreateServiceLinkedRole(w.t.Context(), &iam.CreateServiceLinkedRoleInput{
				AWSServiceName: p("autoscaling.amazonaws.com"),
			}))
		},
	},
	{
		name: "iam: CreateOpenIDConnectProvider", needs: []statement{allow("iam:UpdateAssumeRolePolicy")},
		stops: []statement{allow("iam:CreateOpenIDConnectProvider").on(prefix + "oidc-provider/evil.example.com/id")},
		try:   func(w *fixture) error { return createProvider(w, "https://evil.example.com/id") },
	},
	{
		name:    "iam: CreateOpenIDConnectProvider that is denied, with its port",
		needs:   []statement{allow("iam:CreateOpenIDConnectProvider")},
		hinders: []statement{deny("iam:CreateOpenIDConnectProvider").on(prefix + "oidc-provider/evil.example.com/id")},
		try:     func(w *fixture) error { return createProvider(w, "https://evil.example.com:443/id/") },
	},
	{
		name: "iam: AddClientIDToOpenIDConnectProvider",
		given: func(w *fixture) {
			w.do(w.root.iam.CreateOpenIDConnectProvider(w.t.Context(), &iam.CreateOpenIDConnectProviderInput{
				Url: p("https://ci.example.com"), ClientIDList: []string{"sts.amazonaws.com"},
			}))
		},
		stops: []statement{allow("iam:AddClientIDToOpenIDConnectProvider").on(prefix + "oidc-provider/ci.example.com")},
		try: func(w *fixture) error {
			in := &iam.AddClientIDToOpenIDConnectProviderInput{
				OpenIDConnectProviderArn: p(prefix + "oidc-provider/ci.example.com"), ClientID: p("evil"),
			}
			return failed(w.me.iam.AddClientIDToOpenIDConnectProvider(w.t.Context(), in))
		},
	},
	{
		name:  "iam: GetAccountAuthorizationDetails, with permission for single users",
		needs: []statement{allow("iam:GetUser", "iam:List*")},
		stops: []statement{allow("iam:GetAccountAuthorizationDetails")},
		try: func(w *fixture) error {
			return failed(
				w.me.iam.GetAccountAuthorizationDetails(w.t.Context(), &iam.GetAccountAuthorizationDetailsInput{}),
			)
		},
	},
	{
		name:  "iam: CreateAccessKey with the session of a role that may not",
		given: func(w *fixture) { w.role("free", toMe(), document(allow("iam:CreateAccessKey").on(mallory))) },
		open: func(w *fixture) {
			w.do(w.root.iam.PutRolePolicy(w.t.Context(), &iam.PutRolePolicyInput{
				RoleName: p("free"), PolicyName: p("may"), PolicyDocument: p(document(allow("iam:CreateAccessKey").on(bossARN))),
			}))
		},
		needs: []statement{allow("iam:CreateAccessKey")}, // which the session has not
		try: func(w *fixture) error {
			out, err := w.me.sts.AssumeRole(w.t.Context(), &sts.AssumeRoleInput{
				RoleArn: aws.String(prefix + "role/free"), RoleSessionName: p("session"),
			})
			if err != nil {
				return err
			}
			return failed(
				w.with(out.Credentials).iam.CreateAccessKey(
					w.t.Context(),
					&iam.CreateAccessKeyInput{UserName: p("boss")},
				),
			)
		},
	},
}
