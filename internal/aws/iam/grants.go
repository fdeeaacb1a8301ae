package iam

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/aws/iam/managed"
	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// kind implements what users, groups and roles have in common: a name, and attached policies.
type kind[T any] struct {
	store.Table[T]
	name        string // "user"
	title       string // "User": in quotas and messages
	key         func(account, name string) string
	nameOf      func(*T) string
	grants      func(*T) *record.Grants
	boundary    func(*T) *string // nil for a group
	tags        func(*T) *map[string]string
	inlineLimit int            // characters of all inline policies together
	protect     func(*T) error // refuses changes of what only AWS may change
}

// The quotas of AWS. Those that can be raised stand at their default.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
const (
	maxUserInline      = 2048
	maxGroupInline     = 5120
	maxRoleInline      = 10240
	maxAttached        = 10
	maxTrust           = 2048
	maxManaged         = 6144
	maxVersions        = 5
	maxAccessKeys      = 2
	maxGroupsPerUser   = 10
	maxUsers           = 5000
	maxGroups          = 300
	maxRoles           = 1000
	maxPolicies        = 1500
	maxProfiles        = 1000
	maxProviders       = 100
	maxClientIDs       = 100
	maxThumbprints     = 5
	defaultMaxSession  = 3600
	minMaxSession      = 3600
	maxMaxSession      = 43200
	maxMembersToRename = 100
)

// findEntity returns an entity of the caller's account by its exact name.
func (k kind[T]) findEntity(ctx context.Context, name *string) (store.Row[T], error) {
	return k.findInAccount(ctx, account(ctx), aws.ToString(name))
}

func (k kind[T]) findInAccount(ctx context.Context, account, name string) (store.Row[T], error) {
	row, err := k.Get(ctx, k.key(account, name))
	if errors.Is(err, store.ErrNotFound) || err == nil && k.nameOf(&row.Value) != name {
		return row, noSuchEntity("The %s with name %s cannot be found.", k.name, name)
	}
	return row, err
}

// updateEntity edits an entity.
func (k kind[T]) updateEntity(ctx context.Context, name *string, edit func(*T) error) (store.Row[T], error) {
	row, err := k.findEntity(ctx, name)
	if err != nil {
		return row, err
	}
	row, err = k.Modify(ctx, row.Key, func(v *T) error {
		if err := k.protected(v); err != nil {
			return err
		}
		return edit(v)
	})
	if errors.Is(err, store.ErrNotFound) {
		err = noSuchEntity("The %s with name %s cannot be found.", k.name, *name)
	}
	return row, err
}

func (k kind[T]) protected(v *T) error {
	if k.protect == nil {
		return nil
	}
	return k.protect(v)
}

// listAll lists the entities of the caller's account below a path.
func (k kind[T]) listAll(ctx context.Context) ([]T, error) {
	rows, err := k.List(ctx, store.Prefix(account(ctx)))
	values := make([]T, len(rows))
	for i, row := range rows {
		values[i] = row.Value
	}
	return values, err
}

func (k kind[T]) sortKey(v T) string { return strings.ToLower(k.nameOf(&v)) }

// putInline adds or replaces an inline policy.
func (k kind[T]) putInline(ctx context.Context, name, policyName, document *string) error {
	if _, err := k.findEntity(ctx, name); err != nil {
		return err
	}
	if _, err := parsePolicy(policy.Identity, *document); err != nil {
		return err
	}
	_, err := k.updateEntity(ctx, name, func(v *T) error {
		g := k.grants(v)
		if g.Inline == nil {
			g.Inline = map[string]string{}
		}
		g.Inline[*policyName] = *document
		size := 0
		for _, text := range g.Inline {
			size += policy.Size(text)
		}
		if size > k.inlineLimit {
			return limitExceeded("Maximum policy size of %d bytes exceeded for %s %s", k.inlineLimit, k.name, *name)
		}
		return nil
	})
	return err
}

func (k kind[T]) getInline(ctx context.Context, name, policyName *string) (document *string, err error) {
	row, err := k.findEntity(ctx, name)
	if err != nil {
		return nil, err
	}
	text, ok := k.grants(&row.Value).Inline[*policyName]
	if !ok {
		return nil, noSuchEntity("The %s policy with name %s cannot be found.", k.name, *policyName)
	}
	return escapeDocument(text), nil
}

func (k kind[T]) deleteInline(ctx context.Context, name, policyName *string) error {
	_, err := k.updateEntity(ctx, name, func(v *T) error {
		g := k.grants(v)
		if _, ok := g.Inline[*policyName]; !ok {
			return noSuchEntity("The %s policy with name %s cannot be found.", k.name, *policyName)
		}
		delete(g.Inline, *policyName)
		return nil
	})
	return err
}

func (k kind[T]) listInline(ctx context.Context, name *string, max *int32, marker *string) (
	[]string, *string, bool, error) {
	row, err := k.findEntity(ctx, name)
	if err != nil {
		return nil, nil, false, err
	}
	return paginate(ctx, slices.Sorted(maps.Keys(k.grants(&row.Value).Inline)), max, marker,
		func(s string) string { return s })
}

func (k kind[T]) listAttached(ctx context.Context, name, prefix *string, max *int32,
	marker *string) ([]types.AttachedPolicy, *string, bool, error) {
	row, err := k.findEntity(ctx, name)
	if err != nil {
		return nil, nil, false, err
	}
	var list []types.AttachedPolicy
	for _, a := range attached(*k.grants(&row.Value)) {
		if _, path := cutPolicyARN(*a.PolicyArn); isInPath(path, prefix) {
			list = append(list, a)
		}
	}
	return paginate(ctx, list, max, marker, func(a types.AttachedPolicy) string {
		return *a.PolicyName + " " +
			*a.PolicyArn
	})
}

// attached lists managed policies by name.
func attached(g record.Grants) []types.AttachedPolicy {
	list := make([]types.AttachedPolicy, 0, len(g.Attached))
	for _, arn := range g.Attached {
		name, _ := cutPolicyARN(arn)
		list = append(list, types.AttachedPolicy{PolicyArn: aws.String(arn), PolicyName: aws.String(name)})
	}
	slices.SortFunc(list, func(a, b types.AttachedPolicy) int {
		return strings.Compare(*a.PolicyName+" "+*a.PolicyArn, *b.PolicyName+" "+*b.PolicyArn)
	})
	return list
}

func inlinePolicies(g record.Grants) []types.PolicyDetail {
	list := make([]types.PolicyDetail, 0, len(g.Inline))
	for _, name := range slices.Sorted(maps.Keys(g.Inline)) {
		list = append(list, types.PolicyDetail{PolicyName: aws.String(name),
			PolicyDocument: escapeDocument(g.Inline[name])})
	}
	return list
}

// attachPolicy hangs a managed policy on an entity. The policy's row is written too, so that it cannot be deleted
// meanwhile.
func attachPolicy[T any](ctx context.Context, s *Service, k kind[T], name, arn *string) error {
	return s.retryWrite(ctx, func() ([]store.Op, error) {
		row, err := k.findEntity(ctx, name)
		if err != nil {
			return nil, err
		}
		if err := k.protected(&row.Value); err != nil {
			return nil, err
		}
		ops, err := s.holdPolicy(ctx, *arn)
		if err != nil {
			return nil, err
		}
		if slices.Contains(k.grants(&row.Value).Attached, *arn) {
			return nil, nil
		}
		if row, err = k.Copy(ctx, row.Key); err != nil {
			return nil, err
		}
		g := k.grants(&row.Value)
		if len(g.Attached) >= maxAttached {
			return nil, limitExceeded("Cannot exceed quota for PoliciesPer%s: %d", k.title, maxAttached)
		}
		g.Attached = append(g.Attached, *arn)
		return append(ops, k.UpdateOp(row)), nil
	})
}

func detachPolicy[T any](ctx context.Context, k kind[T], name, arn *string) error {
	_, err := k.updateEntity(ctx, name, func(v *T) error {
		g := k.grants(v)
		i := slices.Index(g.Attached, *arn)
		if i < 0 {
			return noSuchEntity("Policy %s was not found.", *arn)
		}
		g.Attached = slices.Delete(g.Attached, i, i+1)
		return nil
	})
	return err
}

// setBoundary makes a managed policy the permissions boundary.
func setBoundary[T any](ctx context.Context, s *Service, k kind[T], name, arn *string) error {
	return s.retryWrite(ctx, func() ([]store.Op, error) {
		row, err := k.findEntity(ctx, name)
		if err != nil {
			return nil, err
		}
		if err := k.protected(&row.Value); err != nil {
			return nil, err
		}
		ops, err := s.holdPolicy(ctx, *arn)
		if err != nil {
			return nil, err
		}
		*k.boundary(&row.Value) = *arn // row.Value is our copy of the struct; nothing that it points at changes
		return append(ops, k.UpdateOp(row)), nil
	})
}

func unbound[T any](ctx context.Context, k kind[T], name *string) error {
	_, err := k.updateEntity(ctx, name, func(v *T) error {
		if *k.boundary(v) == "" {
			return noSuchEntity("The %s with name %s has no permissions boundary.", k.name, *name)
		}
		*k.boundary(v) = ""
		return nil
	})
	return err
}

func boundaryOf(arn string) *types.AttachedPermissionsBoundary {
	if arn == "" {
		return nil
	}
	return &types.AttachedPermissionsBoundary{PermissionsBoundaryArn: aws.String(arn),
		PermissionsBoundaryType: types.PermissionsBoundaryAttachmentTypePolicy}
}

func (k kind[T]) tagEntity(ctx context.Context, name *string, add []types.Tag) error {
	_, err := k.updateEntity(ctx, name, func(v *T) (err error) {
		tags := k.tags(v)
		*tags, err = mergeTags(ctx, *tags, add)
		return err
	})
	return err
}

func (k kind[T]) untagEntity(ctx context.Context, name *string, keys []string) error {
	_, err := k.updateEntity(ctx, name, func(v *T) (err error) {
		tags := k.tags(v)
		*tags, err = removeTags(ctx, *tags, keys)
		return err
	})
	return err
}

func (k kind[T]) listTags(ctx context.Context, name *string, max *int32, marker *string) (
	[]types.Tag, *string, bool, error) {
	row, err := k.findEntity(ctx, name)
	if err != nil {
		return nil, nil, false, err
	}
	return paginate(ctx, tagList(*k.tags(&row.Value)), max, marker, tagKey)
}

// emptyGrants refuses the deletion of what still has policies.
func emptyGrants(g record.Grants) error {
	switch {
	case len(g.Attached) > 0:
		return deleteConflict("Cannot delete entity, must detach all policies first.")
	case len(g.Inline) > 0:
		return deleteConflict("Cannot delete entity, must delete policies first.")
	}
	return nil
}

// serviceRolePolicies is the prefix of the ARNs of the policies of service-linked roles.
const serviceRolePolicies = "arn:aws:iam::aws:policy/aws-service-role/"

// holdPolicy checks that a managed policy exists and returns what a transaction needs to keep it so. It writes the row
// as it is: a deletion that read it before then fails, and looks again who uses the policy. The policies of
// service-linked roles are for those alone.
func (s *Service) holdPolicy(ctx context.Context, arn string) ([]store.Op, error) {
	if strings.HasPrefix(arn, serviceRolePolicies) {
		return nil, wire.Errorf("PolicyNotAttachable", "Cannot attach a Service Role Policy to a Customer Role.")
	}
	if _, ok := managed.Get(arn); ok {
		return nil, nil
	}
	row, err := s.customerPolicy(ctx, arn)
	if err != nil {
		return nil, err
	}
	if row.Value.ID == "" {
		return nil, noSuchEntity("Policy %s does not exist or is not attachable.", arn)
	}
	return []store.Op{s.policies.UpdateOp(row)}, nil
}

// customerPolicy returns a policy of the caller's account; the zero row when the ARN is not that of one.
func (s *Service) customerPolicy(ctx context.Context, arn string) (store.Row[record.Policy], error) {
	name, _ := cutPolicyARN(arn)
	row, err := s.policies.Get(ctx, record.PolicyKey(account(ctx), name))
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Value.ARN() != arn {
		return store.Row[record.Policy]{}, nil
	}
	return row, err
}

// cutPolicyARN returns the name and the path in arn:aws:iam::<account>:policy/<path/><name>; the path has its slashes.
func cutPolicyARN(arn string) (name, path string) {
	_, resource, _ := strings.Cut(arn, ":policy/")
	i := strings.LastIndexByte(resource, '/')
	return resource[i+1:], "/" + resource[:i+1]
}

// escapeDocument returns a document as IAM does: URL-encoded as in RFC 3986.
func escapeDocument(document string) *string {
	return aws.String(strings.ReplaceAll(url.QueryEscape(document), "+", "%20"))
}
