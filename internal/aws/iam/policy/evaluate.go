package policy

import "strings"

// Request is one action of one principal on one resource.
type Request struct {
	Action    string // eks:DescribeCluster
	Resource  string // ARN, or "*" for an action without one
	Principal Principal
	Keys      Keys // the condition keys of the request and of the principal
}

// Source is a policy as it takes part in a decision.
type Source struct {
	*Document
	ARN  string // of a managed policy
	Name string // for the simulator: "user_alice_inline"; of a managed policy its name
	Type string // for the simulator: "user", "group", "role", "aws-managed", "user-managed" or "resource"
}

// Policies are all that speak about one request.
type Policies struct {
	Identity []Source // inline and managed, of the user, its groups, or the role
	Boundary []Source // the permissions boundary: none, or one
	Session  []Source // given to AssumeRole or GetFederationToken; any one of them may allow
	// HasSession is set when session policies bind, even if there are none left to read.
	HasSession bool

	Resource        []Source // attached to the resource; a role's trust policy
	ResourceAccount string   // owner of the resource; empty when it is the caller's
	// ResourceMust is set where nothing works without the resource's own consent even within the account: trust policies, key policies.
	ResourceMust bool
	// Trust is set when Resource is a role's trust policy; the reasons then call it so.
	Trust bool
}

// Verdict is the outcome of an evaluation.
type Verdict string

const (
	Allowed      Verdict = "allowed"
	ExplicitDeny Verdict = "explicitDeny"
	ImplicitDeny Verdict = "implicitDeny"
)

// Decision is a verdict with what led to it.
type Decision struct {
	Verdict Verdict
	// Statement and Policy made the decision: the deny, or an allow. Nil after an implicit deny, and for a root user.
	Statement *Statement
	Policy    *Source
	kind      policyKind // that denied
	action    string
}

// Allowed says whether the action may be done.
func (d Decision) Allowed() bool { return d.Verdict == Allowed }

type policyKind int

const (
	identityBased policyKind = iota
	permissionsBoundary
	sessionPolicy
	resourceBased
	roleTrust
)

// Reason is how AWS explains a refusal, ready to follow "is not authorized to perform: <action> on resource: <ARN>".
// https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html
func (d Decision) Reason() string {
	switch d.Verdict {
	case ExplicitDeny:
		reason := "with an explicit deny in " + [...]string{
			"an identity-based policy", "a permissions boundary", "a session policy", "a resource-based policy", "the role trust policy",
		}[d.kind]
		if d.Policy != nil && d.Policy.ARN != "" {
			reason += ": " + d.Policy.ARN
		}
		return reason
	case ImplicitDeny:
		return "because no " + [...]string{
			"identity-based policy", "permissions boundary", "session policy", "resource-based policy", "role trust policy",
		}[d.kind] + " allows the " + d.action + " action"
	}
	return ""
}

// ask is a request in the form that statements compare with.
type ask struct {
	*Request
	service, name string // of the action, lower case
}

func newAsk(r *Request) ask {
	service, name, _ := strings.Cut(strings.ToLower(r.Action), ":")
	return ask{r, service, name}
}

// Evaluate decides. Its order is AWS's: denies first, then what the resource grants directly, then identity, boundary and session.
func Evaluate(r *Request, p *Policies) Decision {
	a := newAsk(r)
	resourceKind := resourceBased
	if p.Trust {
		resourceKind = roleTrust
	}
	for _, in := range [...]struct {
		sources []Source
		kind    policyKind
	}{{p.Identity, identityBased}, {p.Boundary, permissionsBoundary}, {p.Session, sessionPolicy}, {p.Resource, resourceKind}} {
		if s, policy, _ := a.find(in.sources, Deny); s != nil {
			return Decision{Verdict: ExplicitDeny, Statement: s, Policy: policy, kind: in.kind, action: r.Action}
		}
	}

	granted, grantedIn, closeness := a.find(p.Resource, Allow)
	sameAccount := p.ResourceAccount == "" || p.ResourceAccount == r.Principal.Account
	refuse := func(kind policyKind) Decision {
		return Decision{Verdict: ImplicitDeny, kind: kind, action: r.Action}
	}
	allow := func(s *Statement, in *Source) Decision {
		return Decision{Verdict: Allowed, Statement: s, Policy: in, action: r.Action}
	}

	switch r.Principal.Type {
	case Service, WebIdentity, Anonymous: // have no policies of their own
		if closeness == noGrant {
			return refuse(resourceKind)
		}
		return allow(granted, grantedIn)
	}
	if closeness == noGrant && (p.ResourceMust || !sameAccount) {
		// The caller's own policies are the first to look at when they refuse as well.
		if s, _, _ := a.find(p.Identity, Allow); s == nil && r.Principal.Type != Account && !p.ResourceMust {
			return refuse(identityBased)
		}
		return refuse(resourceKind)
	}
	if !sameAccount {
		closeness = noGrant // never enough across accounts: the caller's account must agree
	}
	if closeness == directGrant {
		return allow(granted, grantedIn)
	}
	by, in := granted, grantedIn
	if closeness != roleGrant && r.Principal.Type != Account {
		if by, in, _ = a.find(p.Identity, Allow); by == nil {
			return refuse(identityBased)
		}
	}
	if len(p.Boundary) > 0 && r.Principal.Type != Account {
		if s, _, _ := a.find(p.Boundary, Allow); s == nil {
			return refuse(permissionsBoundary)
		}
	}
	if p.HasSession || len(p.Session) > 0 {
		if s, _, _ := a.find(p.Session, Allow); s == nil {
			return refuse(sessionPolicy)
		}
	}
	return allow(by, in)
}

// find returns the first statement with that effect that matches, or among allows of resource policies the one that names the
// caller most closely.
func (a *ask) find(sources []Source, effect Effect) (found *Statement, in *Source, closeness grant) {
	for i := range sources {
		for _, s := range sources[i].Statements {
			if s.Effect != effect {
				continue
			}
			c := a.matches(s)
			if c <= closeness {
				continue
			}
			found, in, closeness = s, &sources[i], c
			if c == directGrant {
				return found, in, closeness
			}
		}
	}
	return found, in, closeness
}

// matches says whether the statement speaks about the request, and how closely it names the principal. A statement without a
// principal is about whomever its policy hangs on.
func (a *ask) matches(s *Statement) grant {
	if s.actions.match(a.service, a.name) == s.notAction {
		return noGrant
	}
	closeness := directGrant
	if s.principals != nil {
		if s.notPrinc {
			if s.principals.exempts(&a.Principal, s.Effect) {
				return noGrant
			}
		} else if closeness = s.principals.match(&a.Principal); closeness == noGrant {
			return noGrant
		}
	}
	if s.resources != nil && a.matchesResource(s) == s.notRes {
		return noGrant
	}
	for i := range s.conditions {
		if !s.conditions[i].holds(a.Keys) {
			return noGrant
		}
	}
	return closeness
}

func (a *ask) matchesResource(s *Statement) bool {
	for i := range s.resources {
		if s.resources[i].match(a.Resource, a.Keys) {
			return true
		}
	}
	return false
}

// Match is a statement that speaks about a request, for the policy simulator.
type Match struct {
	Policy    *Source
	Statement *Statement
}

// Matches lists every statement of the policies that speaks about the request, whatever its effect.
func Matches(r *Request, sources []Source) []Match {
	a := newAsk(r)
	var all []Match
	for i := range sources {
		for _, s := range sources[i].Statements {
			if a.matches(s) != noGrant {
				all = append(all, Match{&sources[i], s})
			}
		}
	}
	return all
}

// Allows says whether the policies, taken alone, allow the request: what the simulator reports of a permissions boundary.
func Allows(r *Request, sources []Source) bool {
	a := newAsk(r)
	if s, _, _ := a.find(sources, Deny); s != nil {
		return false
	}
	s, _, _ := a.find(sources, Allow)
	return s != nil
}

// MissingKeys lists the condition keys that the policies read and the request does not have.
func MissingKeys(sources []Source, keys Keys) []string {
	var missing []string
	seen := map[string]bool{}
	for _, source := range sources {
		for _, key := range source.keys {
			if _, ok := lookUp(keys, key); !ok && !seen[key] {
				seen[key] = true
				missing = append(missing, key)
			}
		}
	}
	return missing
}
