package access

import (
	"cmp"
	"context"
	"regexp"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/accesspolicy"
	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

const maxAssociations = 20 // access policies of an access entry

// policyHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) policyHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.ListAccessPolicies, wire.OnAll),
		wire.Handle(s.AssociateAccessPolicy, func(
			ctx context.Context, action string, in *eks.AssociateAccessPolicyInput,
		) ([]wire.Target, error) {
			return s.onEntry(ctx, action, in.ClusterName, in.PrincipalArn, func(c resource.Conditions) {
				c.Text("eks:policyArn", aws.ToString(in.PolicyArn))
				if in.AccessScope != nil {
					c.Text("eks:accessScope", string(in.AccessScope.Type))
					c.List("eks:namespaces", in.AccessScope.Namespaces)
				}
			})
		}),
		wire.Handle(s.DisassociateAccessPolicy, func(
			ctx context.Context, action string, in *eks.DisassociateAccessPolicyInput,
		) ([]wire.Target, error) {
			return s.onEntry(ctx, action, in.ClusterName, in.PrincipalArn, func(c resource.Conditions) {
				c.Text("eks:policyArn", aws.ToString(in.PolicyArn))
			})
		}),
		wire.Handle(s.ListAssociatedAccessPolicies, func(
			ctx context.Context, action string, in *eks.ListAssociatedAccessPoliciesInput,
		) ([]wire.Target, error) {
			return s.onEntry(ctx, action, in.ClusterName, in.PrincipalArn)
		}),
	}
}

// ListAccessPolicies lists the access policies that can be associated with access entries.
func (s *Service) ListAccessPolicies(
	ctx context.Context, in *eks.ListAccessPoliciesInput,
) (*eks.ListAccessPoliciesOutput, error) {
	page, next, err := wire.Page(
		ctx, accesspolicy.All(), in.MaxResults, in.NextToken, func(p accesspolicy.Policy) string { return p.Name },
	)
	if err != nil {
		return nil, err
	}
	out := &eks.ListAccessPoliciesOutput{NextToken: next}
	for _, p := range page {
		out.AccessPolicies = append(out.AccessPolicies, types.AccessPolicy{Name: new(p.Name), Arn: new(p.ARN())})
	}
	return out, nil
}

// namespacePattern is a namespace's name, or the beginning of one and a wildcard.
var namespacePattern = regexp.MustCompile(`^(?:\*|[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?|[a-z0-9][a-z0-9-]{0,61}\*)$`)

func checkScope(cluster string, in *types.AccessScope) error {
	if in == nil {
		return exception.InvalidParameter(cluster, "accessScope must be specified")
	}
	switch in.Type {
	case types.AccessScopeTypeCluster:
		if len(in.Namespaces) > 0 {
			return exception.InvalidParameter(
				cluster, "Namespaces can't be specified when the access scope type is cluster",
			)
		}
	case types.AccessScopeTypeNamespace:
		if len(in.Namespaces) == 0 {
			return exception.InvalidParameter(
				cluster, "At least one namespace must be specified when the access scope type is namespace",
			)
		}
	default:
		return exception.InvalidParameter(
			cluster, "Access scope type %s is invalid: it must be one of [cluster, namespace]", in.Type,
		)
	}
	for _, n := range in.Namespaces {
		if !namespacePattern.MatchString(n) {
			return exception.InvalidParameter(
				cluster, "Namespace %s is invalid: it must be the name of a namespace, or the beginning of one followed by *", n,
			)
		}
	}
	return nil
}

// AssociateAccessPolicy gives an access entry the permissions of an access policy. Associated again, the policy has the
// new scope.
func (s *Service) AssociateAccessPolicy(
	ctx context.Context, in *eks.AssociateAccessPolicyInput,
) (*eks.AssociateAccessPolicyOutput, error) {
	name := aws.ToString(in.ClusterName)
	if err := checkScope(name, in.AccessScope); err != nil {
		return nil, err
	}
	policy := aws.ToString(in.PolicyArn)
	var made record.AccessPolicyAssociation
	_, _, err := s.changeEntry(ctx, name, aws.ToString(in.PrincipalArn), func(e *record.AccessEntry) error {
		if e.Type != standard && e.Type != ec2Auto {
			return onlyStandard(name)
		}
		if _, ok := accesspolicy.Lookup(policy); !ok {
			return exception.NotFound(name, "The specified policyArn could not be found.")
		}
		now := s.Timestamp()
		made = record.AccessPolicyAssociation{
			PolicyARN:    policy,
			Scope:        in.AccessScope.Type,
			Namespaces:   in.AccessScope.Namespaces,
			AssociatedAt: now,
			ModifiedAt:   now,
		}
		e.ModifiedAt = now
		i, found := slices.BinarySearchFunc(
			e.Policies, policy, func(a record.AccessPolicyAssociation, arn string) int { return cmp.Compare(a.PolicyARN, arn) },
		)
		if found {
			made.AssociatedAt = e.Policies[i].AssociatedAt
			e.Policies[i] = made
			return nil
		}
		if len(e.Policies) >= maxAssociations {
			return exception.LimitExceeded(name, "An access entry can have up to %d access policies", maxAssociations)
		}
		e.Policies = slices.Insert(e.Policies, i, made)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &eks.AssociateAccessPolicyOutput{
		ClusterName:            in.ClusterName,
		PrincipalArn:           in.PrincipalArn,
		AssociatedAccessPolicy: new(describeAssociation(made)),
	}, nil
}

// DisassociateAccessPolicy takes the permissions of an access policy from an access entry.
func (s *Service) DisassociateAccessPolicy(
	ctx context.Context, in *eks.DisassociateAccessPolicyInput,
) (*eks.DisassociateAccessPolicyOutput, error) {
	name := aws.ToString(in.ClusterName)
	_, _, err := s.changeEntry(ctx, name, aws.ToString(in.PrincipalArn), func(e *record.AccessEntry) error {
		before := len(e.Policies)
		e.Policies = slices.DeleteFunc(
			e.Policies,
			func(a record.AccessPolicyAssociation) bool { return a.PolicyARN == aws.ToString(in.PolicyArn) },
		)
		if len(e.Policies) == before {
			return exception.NotFound(
				name,
				"The specified policyArn is not associated with the access entry. You can view the associated access "+
					"policies with 'list-associated-access-policies'.",
			)
		}
		e.ModifiedAt = s.Timestamp()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &eks.DisassociateAccessPolicyOutput{}, nil
}

// ListAssociatedAccessPolicies lists the access policies of an access entry.
func (s *Service) ListAssociatedAccessPolicies(
	ctx context.Context, in *eks.ListAssociatedAccessPoliciesInput,
) (*eks.ListAssociatedAccessPoliciesOutput, error) {
	c, err := s.clusterWithEntries(ctx, aws.ToString(in.ClusterName))
	if err != nil {
		return nil, err
	}
	e, err := s.entry(ctx, c.Value, aws.ToString(in.PrincipalArn))
	if err != nil {
		return nil, err
	}
	page, next, err := wire.Page(
		ctx, e.Value.Policies, in.MaxResults, in.NextToken,
		func(a record.AccessPolicyAssociation) string { return a.PolicyARN },
	)
	if err != nil {
		return nil, err
	}
	out := &eks.ListAssociatedAccessPoliciesOutput{
		ClusterName:              in.ClusterName,
		PrincipalArn:             in.PrincipalArn,
		NextToken:                next,
		AssociatedAccessPolicies: []types.AssociatedAccessPolicy{},
	}
	for _, a := range page {
		out.AssociatedAccessPolicies = append(out.AssociatedAccessPolicies, describeAssociation(a))
	}
	return out, nil
}

func describeAssociation(a record.AccessPolicyAssociation) types.AssociatedAccessPolicy {
	return types.AssociatedAccessPolicy{
		PolicyArn:    new(a.PolicyARN),
		AccessScope:  &types.AccessScope{Type: a.Scope, Namespaces: resource.OrEmpty(a.Namespaces)},
		AssociatedAt: new(a.AssociatedAt),
		ModifiedAt:   new(a.ModifiedAt),
	}
}
