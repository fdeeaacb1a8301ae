package record

import "time"

// ForwardedSession describes the caller of a request on whose behalf a service goes on acting after the request, as
// CloudFormation does while it operates on a stack. AWS calls this a forward access session. It holds no secret.
//
// https://docs.aws.amazon.com/IAM/latest/UserGuide/access_forward_access_sessions.html
type ForwardedSession struct {
	Account string

	// Role or User is the name of the principal whose policies apply, PrincipalID its unique ID. Neither is set for a
	// root user, whose PrincipalID is the account.
	Role        string `json:",omitempty"`
	User        string `json:",omitempty"`
	PrincipalID string
	// Name is that of the session of a role, or of a federated user.
	Name      string `json:",omitempty"`
	Federated bool   `json:",omitempty"`
	// LongTerm is set when the request was signed with an access key of a user or root user, not in a session.
	LongTerm bool `json:",omitempty"`
	// AccessKeyID is that access key, with LongTerm: what is done on behalf of the caller ends with it.
	AccessKeyID string `json:",omitempty"`
	// Issued is the time at which the caller's own session was issued; zero with LongTerm.
	Issued time.Time `json:",omitzero"`

	Policies       []string          `json:",omitempty"` // session policies: documents
	PolicyARNs     []string          `json:",omitempty"` // session policies: managed
	Tags           map[string]string `json:",omitempty"`
	TransitiveTags []string          `json:",omitempty"`
	SourceIdentity string            `json:",omitempty"`
	Provider       string            `json:",omitempty"` // ARN of the OIDC provider whose token the session came from
}
