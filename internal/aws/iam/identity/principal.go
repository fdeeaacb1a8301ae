package identity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/aws/iam/managed"
	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// principal is a caller as the policy engine sees them: who they are, their policies compiled, and their condition
// keys. It is good for as long as the rows that it was made from have not changed.
type principal struct {
	policy.Principal
	policies policy.Policies
	keys     policy.Context
	made     []dependency
}

// dependency is a row that a principal was made from; revision 0 is a row that was missing.
type dependency struct {
	now func() int64
	was int64
}

func (p *principal) isFresh() bool {
	for i := range p.made {
		if p.made[i].now() != p.made[i].was {
			return false
		}
	}
	return true
}

// readDependency gets a row and remembers that the principal depends on it. A missing row is the zero value.
func readDependency[T any](ctx context.Context, p *principal, table store.Table[T], key string) (T, error) {
	row, err := table.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return row.Value, err
	}
	p.made = append(p.made, dependency{was: row.Revision, now: func() int64 {
		row, err := table.Get(context.Background(), key) // the principal outlives the request, which it must not keep
		if err != nil {
			return 0
		}
		return row.Revision
	}})
	return row.Value, nil
}

// principalOf compiles what applies to a caller.
func (i *Identity) principalOf(caller wire.Caller) (*principal, error) {
	who, ok := caller.Session.(*bearer)
	if !ok {
		var err error
		if who, err = bearerOf(caller); err != nil {
			return nil, err
		}
	}
	if p := who.compiled.Load(); p != nil && p.isFresh() {
		return p, nil
	}
	p, err := i.compile(context.Background(), who)
	if err != nil {
		return nil, err
	}
	who.compiled.Store(p)
	i.bearers.resize(who)
	return p, nil
}

// bearerOf makes a bearer of a caller who did not come through Lookup: work on someone's behalf, and tests.
func bearerOf(caller wire.Caller) (*bearer, error) {
	arn := caller.PrincipalARN
	if arn == "" {
		arn = caller.ARN
	}
	_, resource, ok := strings.Cut(arn, "arn:aws:iam::"+caller.Account+":")
	kind, _, _ := strings.Cut(resource, "/")
	name := resource[strings.LastIndexByte(resource, '/')+1:]
	who := &bearer{account: caller.Account, caller: caller, id: caller.UserID}
	switch {
	case !ok:
		return nil, fmt.Errorf("the caller %q is not a principal of account %q", arn, caller.Account)
	case kind == "root":
		who.id = caller.Account
	case kind == "user":
		who.user = record.UserKey(caller.Account, name)
	case kind == "role":
		who.role = record.RoleKey(caller.Account, name)
		who.id, _, _ = strings.Cut(caller.UserID, ":")
		who.session = &Session{Account: caller.Account, Role: name, PrincipalID: who.id, Name: caller.SessionName}
	default:
		return nil, fmt.Errorf("the caller %q is neither a user nor a role nor the root user", arn)
	}
	return who, nil
}

func (i *Identity) compile(ctx context.Context, who *bearer) (*principal, error) {
	p := &principal{keys: policy.Context{}}
	p.Principal = policy.Principal{Account: who.account, ARN: who.caller.ARN, IAMARN: who.caller.PrincipalARN,
		ID: who.id}
	tags := map[string]string{}
	switch {
	case who.role != "":
		role, err := readDependency(ctx, p, i.roles, who.role)
		if err != nil {
			return nil, err
		}
		if role.ID == "" || who.id != "" && role.ID != who.id {
			return nil, wire.ErrUnknownAccessKey
		}
		p.Type = policy.AssumedRole
		p.IAMARN, p.ID = role.ARN(), role.ID
		maps.Copy(tags, role.Tags)
		if err := i.addGrants(ctx, p, "role", role.Name, role.Account, role.Grants); err != nil {
			return nil, err
		}
		if err := i.addBoundary(ctx, p, role.Account, role.Boundary); err != nil {
			return nil, err
		}
	case who.user != "":
		user, err := readDependency(ctx, p, i.users, who.user)
		if err != nil {
			return nil, err
		}
		if user.ID == "" || who.id != "" && user.ID != who.id {
			return nil, wire.ErrUnknownAccessKey
		}
		p.Type = policy.User
		p.IAMARN, p.ID = user.ARN(), user.ID
		maps.Copy(tags, user.Tags)
		if err := i.addUser(ctx, p, user); err != nil {
			return nil, err
		}
		p.keys["aws:username"] = []string{user.Name}
	default:
		p.Type = policy.Account
		p.IAMARN, p.ID = "arn:aws:iam::"+who.account+":root", who.account
	}
	if s := who.session; s != nil {
		if err := i.addSession(ctx, p, s); err != nil {
			return nil, err
		}
		// Tag keys are case-insensitive: a session's tag replaces that of the role however both are spelled.
		for key := range s.Tags {
			maps.DeleteFunc(tags, func(k, _ string) bool { return policy.SameKey(k, key) })
		}
		maps.Copy(tags, s.Tags)
	}
	if p.ARN == "" {
		p.ARN = p.IAMARN
	}
	p.keys["aws:PrincipalArn"] = []string{p.IAMARN}
	if p.Type == policy.FederatedUser {
		p.keys["aws:PrincipalArn"] = []string{p.ARN}
	}
	p.keys["aws:PrincipalAccount"] = []string{p.Account}
	p.keys["aws:PrincipalType"] = []string{string(p.Type)}
	p.keys["aws:PrincipalIsAWSService"] = []string{"false"}
	p.keys["aws:ViaAWSService"] = []string{"false"}
	if s := who.session; s != nil && s.Forwarded {
		p.keys["aws:ViaAWSService"] = []string{"true"}
		for _, key := range []string{"aws:CalledVia", "aws:CalledViaFirst", "aws:CalledViaLast"} {
			p.keys[key] = []string{s.Service}
		}
	}
	p.keys["aws:userid"] = []string{who.caller.UserID}
	for key, value := range tags {
		p.keys["aws:PrincipalTag/"+key] = []string{value}
	}
	return p, nil
}

func (i *Identity) addUser(ctx context.Context, p *principal, user record.User) error {
	if err := i.addGrants(ctx, p, "user", user.Name, user.Account, user.Grants); err != nil {
		return err
	}
	for _, name := range user.Groups {
		group, err := readDependency(ctx, p, i.groups, record.GroupKey(user.Account, name))
		if err != nil {
			return err
		}
		if err := i.addGrants(ctx, p, "group", group.Name, user.Account, group.Grants); err != nil {
			return err
		}
	}
	return i.addBoundary(ctx, p, user.Account, user.Boundary)
}

// addGrants adds inline policies by name and then managed ones.
func (i *Identity) addGrants(ctx context.Context, p *principal, kind, owner, account string,
	grants record.Grants) error {
	for _, name := range slices.Sorted(maps.Keys(grants.Inline)) {
		d, err := policy.Compile(policy.Identity, grants.Inline[name])
		if err != nil {
			return fmt.Errorf("the policy %s of the %s %s: %w", name, kind, owner, err)
		}
		p.policies.Identity = append(p.policies.Identity, policy.Source{Document: d, Name: kind + "_" + owner + "_" +
			name, Type: kind})
	}
	for _, arn := range grants.Attached {
		source, ok, err := i.managedPolicy(ctx, p, account, arn)
		if err != nil {
			return err
		}
		if ok {
			p.policies.Identity = append(p.policies.Identity, source)
		}
	}
	return nil
}

func (i *Identity) addBoundary(ctx context.Context, p *principal, account, arn string) error {
	if arn == "" {
		return nil
	}
	source, ok, err := i.managedPolicy(ctx, p, account, arn)
	if err != nil {
		return err
	}
	if !ok {
		source = policy.Source{Document: &policy.Document{}, ARN: arn} // a boundary that is gone allows nothing
	}
	p.policies.Boundary = []policy.Source{source}
	return nil
}

func (i *Identity) addSession(ctx context.Context, p *principal, s *Session) error {
	if s.Federated {
		p.Type = policy.FederatedUser
		p.ARN = s.sessionARN("")
		delete(p.keys, "aws:username")
		if s.User == "" { // of the root user: all that the session policies allow
			p.IAMARN, p.ID = p.ARN, ""
			all, _ := managed.Get("arn:aws:iam::aws:policy/AdministratorAccess")
			p.policies.Identity = []policy.Source{{Document: all.Compiled()}}
		}
	}
	if !s.Issued.IsZero() {
		p.keys["aws:TokenIssueTime"] = []string{s.Issued.UTC().Format(time.RFC3339)}
		p.keys["aws:MultiFactorAuthPresent"] = []string{"false"}
	}
	if s.Provider != "" {
		p.keys["aws:FederatedProvider"] = []string{s.Provider}
	}
	if s.SourceIdentity != "" {
		p.keys["aws:SourceIdentity"] = []string{s.SourceIdentity}
	}
	p.policies.HasSession = s.limited()
	for n, text := range s.Policies {
		d, err := policy.Compile(policy.Identity, text)
		if err != nil {
			return fmt.Errorf("session policy %d: %w", n+1, err)
		}
		p.policies.Session = append(p.policies.Session, policy.Source{Document: d})
	}
	for _, arn := range s.PolicyARNs {
		source, ok, err := i.managedPolicy(ctx, p, s.Account, arn)
		if err != nil {
			return err
		}
		if ok {
			p.policies.Session = append(p.policies.Session, source)
		}
	}
	return nil
}

// managedPolicy finds a managed policy by its ARN, AWS's or the account's; false when there is none.
func (i *Identity) managedPolicy(ctx context.Context, p *principal, account, arn string) (policy.Source, bool, error) {
	if m, ok := managed.Get(arn); ok {
		return policy.Source{Document: m.Compiled(), ARN: arn, Name: m.Name, Type: "aws-managed"}, true, nil
	}
	row, err := readDependency(ctx, p, i.policies, record.PolicyKey(account, arn[strings.LastIndexByte(arn, '/')+1:]))
	if err != nil || row.ID == "" || row.ARN() != arn {
		return policy.Source{}, false, err
	}
	version, ok := row.Version(row.Default)
	if !ok {
		return policy.Source{}, false, fmt.Errorf("the policy %s has no version %s", arn, row.Default)
	}
	d, err := policy.Compile(policy.Identity, version.Document)
	if err != nil {
		return policy.Source{}, false, fmt.Errorf("the policy %s: %w", arn, err)
	}
	return policy.Source{Document: d, ARN: arn, Name: row.Name, Type: "user-managed"}, true, nil
}

// PoliciesOf collects what a policy simulation needs of a user, group or role of an account: who it is, its policies
// and its condition keys. An ARN that is none of them is store.ErrNotFound.
func (i *Identity) PoliciesOf(ctx context.Context, account, arn string) (
	policy.Principal, policy.Policies, policy.Context, error) {
	missing := fmt.Errorf("principal %q: %w", arn, store.ErrNotFound)
	_, resource, ok := strings.Cut(arn, "arn:aws:iam::"+account+":")
	kind, _, _ := strings.Cut(resource, "/")
	name := resource[strings.LastIndexByte(resource, '/')+1:]
	if ok && kind == "group" {
		row, err := i.groups.Get(ctx, record.GroupKey(account, name))
		if err == nil && row.Value.ARN() != arn {
			err = missing
		}
		if err != nil {
			return policy.Principal{}, policy.Policies{}, nil, err
		}
		p := &principal{}
		err = i.addGrants(ctx, p, "group", name, account, row.Value.Grants)
		return policy.Principal{Type: policy.User, Account: account}, p.policies, policy.Context{}, err
	}
	who, err := bearerOf(wire.Caller{Account: account, ARN: arn})
	if err != nil {
		return policy.Principal{}, policy.Policies{}, nil, missing
	}
	who.session = nil
	p, err := i.compile(ctx, who)
	if errors.Is(err, wire.ErrUnknownAccessKey) || err == nil && p.IAMARN != arn {
		err = missing
	}
	if err != nil {
		return policy.Principal{}, policy.Policies{}, nil, err
	}
	if who.user != "" {
		p.keys["aws:userid"] = []string{p.ID}
	} else {
		delete(p.keys, "aws:userid")
	}
	return p.Principal, p.policies, p.keys, nil
}

// HasManagedPolicy reports whether an account can use a managed policy: one of AWS's or its own.
func (i *Identity) HasManagedPolicy(ctx context.Context, account, arn string) (bool, error) {
	_, ok, err := i.managedPolicy(ctx, &principal{}, account, arn)
	return ok, err
}
