package escalation

import (
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
)

// p returns a pointer to text, for a member of a request.
func p(text string) *string { return &text }

// attachAdmin makes mallory an administrator by an attached policy.
func attachAdmin(w *fixture) error {
	return failed(
		w.me.iam.AttachUserPolicy(
			w.t.Context(),
			&iam.AttachUserPolicyInput{UserName: p("mallory"), PolicyArn: p(adminOf)},
		),
	)
}

// writeVersion makes a new default version of a policy.
func writeVersion(w *fixture, arn string) error {
	return failed(w.me.iam.CreatePolicyVersion(w.t.Context(), &iam.CreatePolicyVersionInput{
		PolicyArn: &arn, PolicyDocument: p(everybody), SetAsDefault: true,
	}))
}

// trustMe changes a role's trust policy, as mallory.
func trustMe(w *fixture, role string) error {
	return failed(w.me.iam.UpdateAssumeRolePolicy(w.t.Context(), &iam.UpdateAssumeRolePolicyInput{
		RoleName: &role, PolicyDocument: p(toMe()),
	}))
}

// bounded gives mallory a permissions boundary.
func bounded(text string) func(*fixture) {
	return func(w *fixture) {
		arn := w.policy("bounds", text)
		w.do(w.root.iam.PutUserPermissionsBoundary(w.t.Context(), &iam.PutUserPermissionsBoundaryInput{
			UserName: p("mallory"), PermissionsBoundary: &arn,
		}))
	}
}

// boundedRole gives the role "weak" a permissions boundary.
func boundedRole(w *fixture) {
	w.do(w.root.iam.PutRolePermissionsBoundary(w.t.Context(), &iam.PutRolePermissionsBoundaryInput{
		RoleName: p("weak"), PermissionsBoundary: p(readOnly),
	}))
}

// deniedInline gives mallory an inline policy that denies attaching policies.
func deniedInline(w *fixture) {
	w.do(w.root.iam.PutUserPolicy(w.t.Context(), &iam.PutUserPolicyInput{
		UserName: p("mallory"), PolicyName: p("denial"), PolicyDocument: p(document(deny("iam:AttachUserPolicy"))),
	}))
}

// deniedAttached gives mallory a managed policy that denies attaching policies.
func deniedAttached(w *fixture) {
	arn := w.policy("denial", document(deny("iam:AttachUserPolicy")))
	w.do(
		w.root.iam.AttachUserPolicy(w.t.Context(), &iam.AttachUserPolicyInput{UserName: p("mallory"), PolicyArn: &arn}),
	)
}

// deniedByGroup gives mallory's group a policy that denies attaching policies.
func deniedByGroup(w *fixture) {
	w.do(w.root.iam.PutGroupPolicy(w.t.Context(), &iam.PutGroupPolicyInput{
		GroupName: p("crew"), PolicyName: p("denial"), PolicyDocument: p(document(deny("iam:AttachUserPolicy"))),
	}))
}

// onlyMine allows an action on what has the tag team=crew.
func onlyMine(action string) statement {
	return allow(action).when("StringEquals", "aws:ResourceTag/team", "crew")
}

var mine = []iamtypes.Tag{{Key: p("team"), Value: p("crew")}}

// fillProfile puts the role that may do everything into an empty instance profile.
func fillProfile(w *fixture) error {
	return failed(w.me.iam.AddRoleToInstanceProfile(w.t.Context(), &iam.AddRoleToInstanceProfileInput{
		InstanceProfileName: p("empty-profile"), RoleName: p("admin"),
	}))
}

func createProvider(w *fixture, url string) error {
	return failed(w.me.iam.CreateOpenIDConnectProvider(w.t.Context(), &iam.CreateOpenIDConnectProviderInput{Url: &url}))
}
