package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// maxSteps bounds the work of authorizing a request. The policies that a principal can have, compared with a thousand
// resources, take less.
const maxSteps = 1 << 28

// budgetKey is of the budget that decisions in a context share.
type budgetKey struct{}

// ShareBudget returns a context whose decisions have the budget of one request together: for who decides about several
// targets one after the other, because the answers mean different things.
func ShareBudget(ctx context.Context) context.Context {
	return context.WithValue(ctx, budgetKey{}, policy.NewBudget(ctx, maxSteps))
}

// budgetOf returns the budget for a decision.
func budgetOf(ctx context.Context) *policy.Budget {
	if shared, ok := ctx.Value(budgetKey{}).(*policy.Budget); ok {
		return shared
	}
	return policy.NewBudget(ctx, maxSteps)
}

// Authorize implements wire.Authorizer.
func (i *Identity) Authorize(ctx context.Context, caller wire.Caller, targets []wire.Target) error {
	if err := checkSession(ctx, caller); err != nil {
		return err
	}
	p, err := i.principalOf(caller)
	if err != nil {
		return err
	}
	budget, global := budgetOf(ctx), policy.Context(wire.GlobalConditions(ctx))
	for _, t := range targets {
		policies := &p.policies
		if t.Policy != "" || t.Owner != "" || t.PolicyMust || len(t.Grantees) > 0 {
			if policies, err = withResource(p.policies, t); err != nil {
				return err
			}
		}
		request := p.request(t, global, budget)
		renameUnlessMeant(request, t.PolicyIDs)
		d := policy.Evaluate(request, policies)
		if err := context.Cause(ctx); d.Err != nil && err != nil {
			return err
		}
		if !d.Allowed() {
			i.recordDenial(ctx, caller.Account, caller.ARN, t, d)
			encoded, err := i.encodeDenial(ctx, caller, t, d)
			if err != nil {
				return err
			}
			return &wire.Denied{Action: t.Action, Resource: cmp.Or(t.Named, t.Resource), Reason: d.Reason(), Encoded: encoded}
		}
	}
	i.Used(ctx, caller)
	return nil
}

// AuthorizeAnonymous decides about a target by the policy of its resource alone, for somebody without an identity. It
// returns nil or a *wire.Denied, as Authorize does.
func (i *Identity) AuthorizeAnonymous(ctx context.Context, t wire.Target) error {
	policies, err := withResource(policy.Policies{}, t)
	if err != nil {
		return err
	}
	d := policy.Evaluate(&policy.Request{
		Action: t.Action, Resource: t.Resource, Principal: policy.Principal{Type: policy.Anonymous},
		Keys: policy.Layers{policy.Context(wire.GlobalConditions(ctx)), policy.Context(t.Conditions)}, Unread: t.Unread,
		Budget: budgetOf(ctx),
	}, policies)
	if err := context.Cause(ctx); d.Err != nil && err != nil {
		return err
	}
	if d.Allowed() {
		return nil
	}
	return &wire.Denied{Action: t.Action, Resource: cmp.Or(t.Named, t.Resource), Reason: d.Reason()}
}

// checkSession refuses what no policy can allow to the credentials of GetSessionToken and GetFederationToken: all of
// IAM, because nobody has an MFA device here, and all of STS but AssumeRole and GetCallerIdentity. A service that acts
// on behalf of a caller with an access key may do what they may.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/id_credentials_sts-comparison.html
func checkSession(ctx context.Context, caller wire.Caller) error {
	session := SessionOf(caller)
	if session == nil || session.Role != "" || session.LongTerm {
		return nil
	}
	switch service, operation := wire.OperationFrom(ctx); service {
	case wire.IAM:
		return wire.ErrUnknownAccessKey
	case wire.STS:
		return &wire.Error{Code: "AccessDenied", Message: "Cannot call " + operation + " with session credentials",
			Status: http.StatusForbidden}
	}
	return nil
}

// withResource adds what the target's resource says itself.
func withResource(policies policy.Policies, t wire.Target) (*policy.Policies, error) {
	policies.ResourceAccount, policies.ResourceMust, policies.Grantees = t.Owner, t.PolicyMust, t.Grantees
	if t.Policy != "" {
		document, err := policy.Compile(policy.Resource, t.Policy)
		if err != nil {
			return nil, fmt.Errorf("the policy of %s: %w", t.Resource, err)
		}
		policies.Resource = []policy.Source{{Document: document}}
	}
	return &policies, nil
}

// request returns the policy request about a target. The values of the principal have precedence over those of the
// request, and those over what a service says of the target.
func (p *principal) request(t wire.Target, global policy.Context, budget *policy.Budget) *policy.Request {
	return &policy.Request{
		Action: t.Action, Resource: t.Resource, Principal: p.Principal,
		Keys: policy.Layers{p.keys, global, policy.Context(t.Conditions)}, Unread: t.Unread, Budget: budget,
	}
}

// AuthorizeAssume decides whether the caller may act on a role by its trust policy and by their own policies.
func (i *Identity) AuthorizeAssume(ctx context.Context, caller wire.Caller, role record.Role,
	t wire.Target) (policy.Decision, error) {
	p, err := i.principalOf(caller)
	if err != nil {
		return policy.Decision{}, err
	}
	trust, err := policy.Compile(policy.Trust, role.Trust)
	if err != nil {
		return policy.Decision{}, fmt.Errorf("the trust policy of the role %s: %w", role.Name, err)
	}
	policies := p.policies
	policies.Resource, policies.ResourceAccount = []policy.Source{{Document: trust}}, role.Account
	policies.ResourceMust, policies.Trust = true, true
	request := p.request(t, policy.Context(wire.GlobalConditions(ctx)), budgetOf(ctx))
	renameUnlessMeant(request, role.TrustIDs)
	d := policy.Evaluate(request, &policies)
	i.recordDenial(ctx, caller.Account, caller.ARN, t, d)
	return d, nil
}

// renameUnlessMeant takes its ARNs from a principal that only has the name of one which the resource's policy means,
// and which has been deleted since. ids are the unique IDs of those by ARN: a user or a role, or a session of one.
func renameUnlessMeant(request *policy.Request, ids map[string]string) {
	who := &request.Principal
	if id, ok := ids[who.ARN]; ok && id != who.ID {
		who.ARN = who.ID
	}
	if id, ok := ids[who.IAMARN]; ok && id != who.ID {
		who.IAMARN = who.ID
		if who.Type != policy.FederatedUser { // whose own ARN is not made of the user's
			who.ARN = who.ID
		}
	}
}

// Trusts reports whether a role lets an AWS service, such as "eks.amazonaws.com", assume it. It returns
// store.ErrNotFound for a role that does not exist.
func (i *Identity) Trusts(ctx context.Context, roleARN, service string) (bool, error) {
	role, err := i.RoleByARN(ctx, roleARN)
	if err != nil {
		return false, err
	}
	d, err := TrustDecision(ctx, role, policy.Principal{Type: policy.Service, Name: service}, "sts:AssumeRole",
		policy.Context{
			"aws:PrincipalIsAWSService": {"true"}, "aws:PrincipalServiceName": {service},
			"aws:SourceAccount": {role.Account},
		})
	return d.Allowed(), err
}

// AuthorizeTrusted decides by the trust policy of a role whether somebody without policies of their own may act on it:
// the bearer of a token, who is called by its subject, or a service that acts for one.
func (i *Identity) AuthorizeTrusted(ctx context.Context, role record.Role, who policy.Principal, subject, action string,
	keys policy.Keys) (policy.Decision, error) {
	d, err := TrustDecision(ctx, role, who, action, keys)
	if err == nil {
		i.recordDenial(ctx, role.Account, subject, wire.Target{Action: action, Resource: role.ARN()}, d)
	}
	return d, err
}

// TrustDecision evaluates a role's trust policy for a principal without policies of their own: a service, or the bearer
// of a token.
func TrustDecision(
	ctx context.Context, role record.Role, who policy.Principal, action string, keys policy.Keys,
) (policy.Decision, error) {
	trust, err := policy.Compile(policy.Trust, role.Trust)
	if err != nil {
		return policy.Decision{}, fmt.Errorf("the trust policy of the role %s: %w", role.Name, err)
	}
	return policy.Evaluate(&policy.Request{Action: action, Resource: role.ARN(), Principal: who, Keys: keys,
		Budget: budgetOf(ctx)},
		&policy.Policies{
			Resource: []policy.Source{{Document: trust}}, ResourceAccount: role.Account, ResourceMust: true,
			Trust: true,
		}), nil
}

// RoleByARN finds a role, of any account; store.ErrNotFound when the ARN is not exactly that of a role.
func (i *Identity) RoleByARN(ctx context.Context, arn string) (record.Role, error) {
	account, name, ok := cutRoleARN(arn)
	if !ok {
		return record.Role{}, fmt.Errorf("role %q: %w", arn, store.ErrNotFound)
	}
	row, err := i.roles.Get(ctx, record.RoleKey(account, name))
	if err == nil && row.Value.ARN() != arn {
		err = fmt.Errorf("role %q: %w", arn, store.ErrNotFound)
	}
	return row.Value, err
}

// Used records that the caller's access key or role is in use.
func (i *Identity) Used(ctx context.Context, caller wire.Caller) {
	who, ok := caller.Session.(*bearer)
	if !ok || who.user == "" && who.role == "" && who.session != nil {
		return
	}
	id := caller.AccessKeyID
	if who.role != "" {
		id = who.id
	} else if who.session != nil {
		return // GetSessionToken: the key that it was called with is the one in use
	}
	now := i.now()
	if !i.uses.shouldWrite(id, now) {
		return
	}
	region := wire.RegionFrom(ctx)
	var err error
	if who.role != "" {
		_, err = i.roleUses.Put(ctx, store.Key(id), record.RoleUse{RoleID: id, At: now, Region: region})
	} else {
		use := record.AccessKeyUse{At: now, Region: region}
		if service, _ := wire.OperationFrom(ctx); service != nil {
			use.Service = service.SigningName
		}
		_, err = i.keyUses.Put(ctx, record.AccessKeyKey(id), use)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		// The request was allowed all the same; nothing but the date of last use is missing.
		i.log.WarnContext(ctx, "could not note the use of a credential", "id", id, "error", err)
	}
}
