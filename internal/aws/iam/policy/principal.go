package policy

import (
	"regexp"
	"slices"
	"strings"
)

// PrincipalType is the type of a Principal: the value of aws:PrincipalType.
type PrincipalType string

// The types of principals.
const (
	Account       PrincipalType = "Account" // the root user
	User          PrincipalType = "User"
	AssumedRole   PrincipalType = "AssumedRole"
	FederatedUser PrincipalType = "FederatedUser"
	Service       PrincipalType = "Service"     // an AWS service itself, such as eks.amazonaws.com
	WebIdentity   PrincipalType = "WebIdentity" // the bearer of an OIDC token, before it has assumed a role
	Anonymous     PrincipalType = "Anonymous"
)

// Principal is the caller that makes a request.
type Principal struct {
	Type    PrincipalType
	Account string // of Account, User, AssumedRole and FederatedUser
	ARN     string // of the caller: user, root, or arn:aws:sts::111122223333:assumed-role/Name/session
	IAMARN  string // the user or role that the caller's policies hang on; not the ARN of AssumedRole, FederatedUser
	ID      string // AIDA..., AROA... without the session, as a policy names a principal that is gone
	Name    string // of Service: "eks.amazonaws.com"; of WebIdentity: the ARN of the provider
}

// isSession reports whether the caller is a session of a role or user, whom policies may name instead.
func (who *Principal) isSession() bool {
	return who.Type == AssumedRole || who.Type == FederatedUser
}

// principals is the Principal or NotPrincipal of a statement.
type principals struct {
	anyone    bool
	aws       []string // ARNs and unique ids
	accounts  []string
	services  []string
	federated []string
	canonical []string
}

// grant is the closeness with which a statement names a caller. It decides what else must agree within one account.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic_policy-eval-basics-single-account.html
type grant int

const (
	noGrant      grant = iota
	accountGrant       // the caller's account: the identity-based policies must allow as well
	roleGrant          // the role or user whose session it is: the boundary and the session policies still bind
	directGrant        // the caller: nothing else need allow
)

var (
	principalARN = regexp.MustCompile(
		`^arn:aws[a-z-]*:(iam|sts)::\d{12}:(root|user/.+|role/.+|assumed-role/[^/]+/.+|federated-user/.+)$`)
	principalID = regexp.MustCompile(`^A(IDA|ROA)[A-Z0-9]{10,}$`)
	rootARN     = regexp.MustCompile(`^arn:aws[a-z-]*:iam::(\d{12}):root$`)
	serviceName = regexp.MustCompile(`^[a-z0-9.-]+\.(amazonaws\.com(\.cn)?|amazon\.com|aws\.internal|aws\.com)$`)
)

func (d *Document) readPrincipals(kind Kind, field member) (*principals, error) {
	if kind == Identity {
		return nil, malformed("Policy document should not specify a principal.")
	}
	if kind == Trust && field.name == "NotPrincipal" {
		return nil, malformed("Has prohibited field NotPrincipal")
	}
	p := &principals{}
	types, ok := field.value.(members)
	if !ok {
		if text, isText := field.value.(string); isText && text == "*" {
			p.anyone = true
			return p, nil
		}
		return nil, malformed("Invalid principal in policy: %s", excerpt(d.Text[field.start:field.end]))
	}
	if len(types) == 0 {
		return nil, malformed("Missing required field Principal cannot be empty!")
	}
	for _, t := range types {
		names, err := d.strings(t)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			return nil, malformed("Missing required field Principal cannot be empty!")
		}
		for _, name := range names {
			if !p.addPrincipal(t.name, name) {
				return nil, malformed("Invalid principal in policy: %q:%q", strings.ToUpper(t.name), name)
			}
		}
	}
	return p, nil
}

func (p *principals) addPrincipal(kind, name string) bool {
	switch kind {
	case "AWS":
		root := rootARN.FindStringSubmatch(name)
		switch {
		case name == "*":
			p.anyone = true
		case accountID.MatchString(name):
			p.accounts = append(p.accounts, name)
		case root != nil:
			p.accounts = append(p.accounts, root[1])
		case principalARN.MatchString(name) && !strings.ContainsAny(name, "*?"), principalID.MatchString(name):
			p.aws = append(p.aws, name)
		default:
			return false
		}
	case "Service":
		if !serviceName.MatchString(name) {
			return false
		}
		p.services = append(p.services, name)
	case "Federated":
		p.federated = append(p.federated, name)
	case "CanonicalUser":
		p.canonical = append(p.canonical, name)
	default:
		return false
	}
	return true
}

// count returns the number of names; a statement of an identity-based policy has none.
func (p *principals) count() int {
	if p == nil {
		return 0
	}
	return len(p.accounts) + len(p.aws) + len(p.services) + len(p.federated) + len(p.canonical)
}

// matchPrincipal returns how closely a statement of that effect names the caller.
func (p *principals) matchPrincipal(who *Principal, effect Effect) grant {
	switch who.Type {
	case Service:
		if slices.Contains(p.services, who.Name) {
			return directGrant
		}
	case WebIdentity:
		if slices.Contains(p.federated, who.Name) {
			return directGrant
		}
	default:
		if slices.Contains(p.aws, who.ARN) {
			return directGrant
		}
		if who.isSession() && (slices.Contains(p.aws, who.IAMARN) || slices.Contains(p.aws, who.ID)) {
			return roleGrant
		}
		if who.ID != "" && slices.Contains(p.aws, who.ID) {
			return directGrant
		}
	}
	switch {
	// AWS lets no one assume a role by token who does not name the provider; to deny it to all, "*" is enough.
	case p.anyone && (who.Type != WebIdentity || effect == Deny):
		return directGrant
	case who.Account != "" && slices.Contains(p.accounts, who.Account):
		if who.Type == Account {
			return directGrant
		}
		return accountGrant
	}
	return noGrant
}

// matchGrantees returns how closely grants name the caller.
func matchGrantees(grantees []string, who *Principal) grant {
	if len(grantees) == 0 {
		return noGrant
	}
	p := &principals{}
	for _, name := range grantees {
		p.addPrincipal("AWS", name)
	}
	p.anyone = false // a grant names its grantee
	return p.matchPrincipal(who, Allow)
}

// exempts reports whether a NotPrincipal excludes the caller. A Deny excludes only a caller whose every name is listed:
// its account, its role or user, and its session. An Allow excludes a caller of whom any name is listed.
func (p *principals) exempts(who *Principal, effect Effect) bool {
	if p.anyone {
		return true
	}
	var names []bool
	switch who.Type {
	case Service:
		names = []bool{slices.Contains(p.services, who.Name)}
	case WebIdentity:
		names = []bool{slices.Contains(p.federated, who.Name)}
	case Anonymous:
		names = []bool{false}
	default:
		names = append(names, slices.Contains(p.accounts, who.Account))
		if who.Type != Account {
			names = append(names, slices.Contains(p.aws, who.ARN))
		}
		if who.IAMARN != who.ARN && who.isSession() {
			names = append(names, slices.Contains(p.aws, who.IAMARN) || slices.Contains(p.aws, who.ID))
		}
	}
	if effect == Deny {
		return !slices.Contains(names, false)
	}
	return slices.Contains(names, true)
}

// PrincipalNames lists the principals of type "AWS", "Service" or "Federated" that the statement names, as written; "*"
// is not among them.
func (s *Statement) PrincipalNames(kind string) []string {
	types, ok := s.principal.value.(members)
	if !ok {
		return nil
	}
	var names []string
	for _, t := range types {
		if t.name != kind {
			continue
		}
		list, ok := t.value.(elements)
		if !ok {
			list = elements{t.node}
		}
		for _, n := range list {
			if name, ok := n.value.(string); ok && name != "*" {
				names = append(names, name)
			}
		}
	}
	return names
}
