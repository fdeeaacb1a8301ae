package access

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/principal"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// RoleEntryOp returns what gives a role, in which EKS itself acts in a cluster, an access entry with access policies in
// the scope of the cluster, to be written with what the role is for. An entry that the role has gets the policies that
// it lacks. There is nothing to write when it has all of them.
func (s *Service) RoleEntryOp(
	ctx context.Context, c record.Cluster, role principal.Principal, policies ...string,
) ([]store.Op, error) {
	now := s.Timestamp()
	key := record.AccessEntryKey(c.Account, c.Region, c.Name, role.ARN)
	row, err := s.AccessEntries.Copy(ctx, key)
	exists := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	if !exists || row.Value.ClusterID != c.ID { // there is none, or one that an earlier cluster of that name has left
		_, id, _, err := s.principals.Lookup(ctx, role)
		if err != nil {
			return nil, err
		}
		row.Value = record.AccessEntry{
			ClusterID: c.ID, PrincipalARN: role.ARN, PrincipalID: id, ID: uuid.NewString(), Type: standard,
			Username: defaultUsername(role), CreatedAt: now,
		}
	}
	e := &row.Value
	if e.Type != standard {
		return nil, exception.InvalidParameter(c.Name, "The role %s has an access entry of type %s in cluster %s: "+
			"a capability needs a role without one, or with one of type %s", role.ARN, e.Type, c.Name, standard)
	}
	before := len(e.Policies)
	for _, policy := range policies {
		has := func(a record.AccessPolicyAssociation) bool { return a.PolicyARN == policy }
		if !slices.ContainsFunc(e.Policies, has) {
			e.Policies = append(e.Policies, record.AccessPolicyAssociation{
				PolicyARN: policy, Scope: types.AccessScopeTypeCluster, AssociatedAt: now, ModifiedAt: now,
			})
		}
	}
	if len(e.Policies) == before {
		return nil, nil
	}
	if len(e.Policies) > maxAssociations {
		return nil, exception.LimitExceeded(c.Name, "An access entry can have up to %d access policies", maxAssociations)
	}
	slices.SortFunc(e.Policies, func(a, b record.AccessPolicyAssociation) int {
		return strings.Compare(a.PolicyARN, b.PolicyARN)
	})
	e.ModifiedAt = now
	if exists {
		return []store.Op{s.AccessEntries.UpdateOp(row)}, nil
	}
	return []store.Op{s.AccessEntries.CreateOp(key, *e)}, nil
}
