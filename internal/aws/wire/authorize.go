package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// Target is one thing that a request wants to do to one resource.
type Target struct {
	Action   string // iam:PassRole
	Resource string // ARN, or "*"
	// Named is what the caller called the resource, where they may not learn its ARN (optional). Denials show it.
	Named string `json:",omitempty"`
	// condition keys of this request beside the global ones, such as "iam:PassedToService"
	Conditions map[string][]string
	// Unread reports whether the request may have a condition key that is not in Conditions because its value is not
	// known here (nil: it has none). Policies that deny by such a key refuse the request.
	Unread func(key string) bool `json:"-"`

	// Owner is the account of the resource, when it may be another than the caller's; empty means theirs. Nobody
	// reaches the resource of another account but by Policy, the policy attached to the resource (JSON; empty for
	// none).
	Owner  string
	Policy string
	// PolicyMust is set where nobody, not even the owner, reaches the resource without the consent of Policy or of a
	// grant: keys of KMS.
	PolicyMust bool
	// PolicyIDs are the unique IDs of the users and roles that Policy names by their ARNs. A principal of such an ARN
	// and another ID has only the name of the one that the policy means.
	PolicyIDs map[string]string
	// Grantees are the principals (unique IDs, or ARNs) to whom the resource's owner has granted Action beside Policy,
	// whatever their account.
	Grantees []string
}

// Authorizer decides whether a caller may do all of targets. It returns nil, or a [*Denied] for the first target that
// is refused; any other error is an internal failure and refuses too. The global condition keys that wire knows
// (aws:SourceIp, aws:UserAgent, aws:CurrentTime, aws:EpochTime, aws:SecureTransport, aws:RequestedRegion) are the
// [GlobalConditions] of ctx, which hide what a target has under their names: no service can put others in their place.
// The keys of the principal are the authorizer's.
type Authorizer interface {
	Authorize(ctx context.Context, caller Caller, targets []Target) error
}

// Denied reports that policies do not allow an action. It is rendered as AccessDenied, AccessDeniedException or
// UnauthorizedOperation.
type Denied struct {
	Action   string
	Resource string
	// Reason ends the message, in AWS's words: "because no identity-based policy allows the eks:DescribeCluster action",
	// "with an explicit deny in an identity-based policy".
	Reason string
	// Encoded is what sts:DecodeAuthorizationMessage decodes; empty for services whose errors do not have it.
	Encoded string
}

func (d *Denied) Error() string {
	return fmt.Sprintf("not authorized to perform: %s on resource: %s %s", d.Action, d.Resource, d.Reason)
}

// message returns the text that AWS shows to a caller who is denied.
func (d *Denied) message(caller Caller) string {
	m := fmt.Sprintf("User: %s is not authorized to perform: %s on resource: %s", caller.ARN, d.Action, d.Resource)
	if d.Reason != "" {
		m += " " + d.Reason
	}
	if d.Encoded != "" {
		m += " Encoded authorization failure message: " + d.Encoded
	}
	return m
}

// Authorize asks whether the caller in ctx may do target as well: the check inside an operation, such as iam:PassRole
// in CreateCluster. The error is a [*Denied] that the handler returns as it is.
func Authorize(ctx context.Context, targets ...Target) error {
	c := callFrom(ctx)
	if c.authorize == nil {
		return errors.New("wire.Authorize: the context carries no authorizer; it was not made by a Mux")
	}
	return c.decide(ctx, c.authorize, targets)
}

// maxTargets limits the resources that one request may act on. AWS's limits of lists are 1,000 and less, and what a
// member of one concerns may be two or three targets; a Logs Insights query with SOURCE reads up to 10,000 log groups.
const maxTargets = 10_000

// decide asks the authorizer, unless a request names so many things that it would take the memory of others: it does so
// before anybody knows whether its caller may do any of them.
func (c *call) decide(ctx context.Context, authorizer Authorizer, targets []Target) error {
	if len(targets) > maxTargets {
		code := "ValidationError"
		if c.service != nil {
			code = cmp.Or(c.service.invalid, "InvalidParameterValue")
		}
		return Errorf(code, "The request concerns %d resources, and may concern %d: make several requests.",
			len(targets), maxTargets)
	}
	return authorizer.Authorize(ctx, c.caller, targets)
}
