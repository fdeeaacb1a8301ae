package policy

import "strings"

// Request is one action of one principal on one resource.
type Request struct {
	Action    string // eks:DescribeCluster
	Resource  string // ARN, or "*" for an action without one
	Principal Principal
	Keys      Keys // the condition keys of the request and of the principal
	// Unread reports whether the request may have a condition key that Keys lacks (nil: it has none). No statement that
	// allows is met by such a key, and one that denies leaves nothing decided.
	Unread func(key string) bool
	// Budget bounds the work of the evaluation; nil for no bound.
	Budget *Budget
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
	// ResourceMust is set where nothing works without the resource's own consent even within the account: trust
	// policies, key policies.
	ResourceMust bool
	// Trust is set when Resource is a role's trust policy; the reasons then call it so.
	Trust bool
	// Grantees are principals to whom the resource has granted the action: ARNs and unique IDs, as a policy names them.
	// Unlike Resource, a grant needs no consent of the grantee's account, unless it is granted to the whole account.
	Grantees []string
}

// Verdict is the outcome of an evaluation.
type Verdict string

// The verdicts. A request that no statement allows or denies is denied implicitly.
const (
	Allowed      Verdict = "allowed"
	ExplicitDeny Verdict = "explicitDeny"
	ImplicitDeny Verdict = "implicitDeny"
)

// Decision is a verdict with what led to it.
type Decision struct {
	Verdict Verdict
	// Statement and Policy made the decision: the deny, or an allow. Nil after an implicit deny, for a root user, and
	// where a grant allows.
	Statement *Statement
	Policy    *Source
	kind      policyKind // that denied
	action    string
	// Err explains why nothing was decided: the request's Budget, or a value that is too long to compare. The verdict is
	// then ImplicitDeny.
	Err error
}

// Allowed reports whether the action is allowed.
func (d Decision) Allowed() bool { return d.Verdict == Allowed }

type policyKind int

const (
	identityBased policyKind = iota
	permissionsBoundary
	sessionPolicy
	resourceBased
	roleTrust
)

// Reason returns AWS's explanation of a refusal, to follow "is not authorized to perform: <action> on resource: <ARN>".
// https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html
func (d Decision) Reason() string {
	if d.Err != nil {
		return "because " + d.Err.Error()
	}
	switch d.Verdict {
	case ExplicitDeny:
		reason := "with an explicit deny in " + [...]string{
			"an identity-based policy", "a permissions boundary", "a session policy", "a resource-based policy",
			"the role trust policy",
		}[d.kind]
		if d.Policy != nil && d.Policy.ARN != "" {
			reason += ": " + d.Policy.ARN
		}
		return reason
	case ImplicitDeny:
		return "because no " + [...]string{
			"identity-based policy", "permissions boundary", "session policy", "resource-based policy",
			"role trust policy",
		}[d.kind] + " allows the " + d.action + " action"
	}
	return ""
}

// evaluator is a request in the form that statements compare with.
type evaluator struct {
	*Request
	service, name string // of the action, lower case
	evaluation    evaluation
}

func newEvaluator(r *Request) evaluator {
	service, name, _ := strings.Cut(strings.ToLower(r.Action), ":")
	return evaluator{r, service, name, evaluation{keys: r.Keys, unread: r.Unread, budget: r.Budget}}
}

// Evaluate decides. Its order is AWS's: denies first, then what the resource grants directly, then identity, boundary
// and session.
func Evaluate(r *Request, p *Policies) Decision {
	a := newEvaluator(r)
	d := a.evaluate(p)
	if a.evaluation.err != nil { // a deny may have been missed
		return Decision{Verdict: ImplicitDeny, action: r.Action, Err: a.evaluation.err}
	}
	return d
}

func (a *evaluator) evaluate(p *Policies) Decision {
	r := a.Request
	resourceKind := resourceBased
	if p.Trust {
		resourceKind = roleTrust
	}
	for _, in := range [...]struct {
		sources []Source
		kind    policyKind
	}{{p.Identity, identityBased}, {p.Boundary, permissionsBoundary}, {p.Session, sessionPolicy},
		{p.Resource, resourceKind}} {
		if s, policy, _ := a.findStatement(in.sources, Deny); s != nil {
			return Decision{Verdict: ExplicitDeny, Statement: s, Policy: policy, kind: in.kind, action: r.Action}
		}
	}

	granted, grantedIn, closeness := a.findStatement(p.Resource, Allow)
	sameAccount := p.ResourceAccount == "" || p.ResourceAccount == r.Principal.Account
	if c := matchGrantees(p.Grantees, &r.Principal); c > closeness || c > accountGrant && !sameAccount {
		granted, grantedIn, closeness = nil, nil, c
		sameAccount = sameAccount || c > accountGrant
	}
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
		if s, _, _ := a.findStatement(p.Identity, Allow); s == nil && r.Principal.Type != Account && !p.ResourceMust {
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
		if by, in, _ = a.findStatement(p.Identity, Allow); by == nil {
			return refuse(identityBased)
		}
	}
	if len(p.Boundary) > 0 && r.Principal.Type != Account {
		if s, _, _ := a.findStatement(p.Boundary, Allow); s == nil {
			return refuse(permissionsBoundary)
		}
	}
	if p.HasSession || len(p.Session) > 0 {
		if s, _, _ := a.findStatement(p.Session, Allow); s == nil {
			return refuse(sessionPolicy)
		}
	}
	return allow(by, in)
}

// findStatement returns the first statement with that effect that matches, or among allows of resource policies the one
// that names the caller most closely.
func (a *evaluator) findStatement(sources []Source, effect Effect) (found *Statement, in *Source, closeness grant) {
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

// matches returns whether the statement applies to the request, and how closely it names the principal. A statement
// without a principal applies to every principal that has its policy.
func (a *evaluator) matches(s *Statement) grant {
	if !a.evaluation.tryConsume(statementSteps+s.principals.count()) || s.actions.matchesAction(a.service, a.name,
		&a.evaluation) == s.notAction {
		return noGrant
	}
	closeness := directGrant
	if s.principals != nil {
		if s.notPrinc {
			if s.principals.exempts(&a.Principal, s.Effect) {
				return noGrant
			}
		} else if closeness = s.principals.matchPrincipal(&a.Principal, s.Effect); closeness == noGrant {
			return noGrant
		}
	}
	unread := ""
	if s.resources != nil {
		if !a.evaluation.canCompare("", a.Resource) {
			return noGrant
		}
		matched := a.matchesResource(s)
		if key := a.evaluation.takeVariable(); key != "" && !matched {
			unread = key // one of its patterns might match
		} else if matched == s.notRes {
			return noGrant
		}
	}
	for i := range s.conditions {
		if key := s.conditions[i].key; a.evaluation.isUnread(key) {
			unread = key
			continue
		}
		satisfied := s.conditions[i].isSatisfied(&a.evaluation)
		if key := a.evaluation.takeVariable(); key != "" {
			unread = key
		} else if !satisfied {
			return noGrant
		}
	}
	if unread == "" {
		return closeness
	}
	if s.Effect == Deny && a.evaluation.err == nil {
		a.evaluation.err = &UnreadError{unread}
	}
	return noGrant
}

func (a *evaluator) matchesResource(s *Statement) bool {
	for i := range s.resources {
		if s.resources[i].matches(a.Resource, &a.evaluation) {
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

// Matches lists every statement of the policies that speaks about the request, whatever its effect. The error is as of
// [Decision].
func Matches(r *Request, sources []Source) ([]Match, error) {
	a := newEvaluator(r)
	var all []Match
	for i := range sources {
		for _, s := range sources[i].Statements {
			if a.matches(s) != noGrant {
				all = append(all, Match{&sources[i], s})
			}
		}
	}
	return all, a.evaluation.err
}

// Allows reports whether the policies, taken alone, allow the request: what the simulator reports of a permissions
// boundary. The error is as of [Decision].
func Allows(r *Request, sources []Source) (bool, error) {
	a := newEvaluator(r)
	denied, _, _ := a.findStatement(sources, Deny)
	if denied != nil {
		return false, a.evaluation.err
	}
	allowed, _, _ := a.findStatement(sources, Allow)
	return allowed != nil && a.evaluation.err == nil, a.evaluation.err
}

// MissingKeys lists the condition keys that the policies read and the request does not have. The error is budget's.
func MissingKeys(sources []Source, keys Keys, budget *Budget) ([]string, error) {
	var missing []string
	seen := map[string]bool{}
	e := evaluation{keys: keys, budget: budget}
	for _, source := range sources {
		for _, key := range source.keys {
			if seen[key] || !e.tryConsume(1) {
				continue
			}
			seen[key] = true
			if _, ok := e.lookupKey(key); !ok {
				missing = append(missing, key)
			}
		}
	}
	return missing, e.err
}
