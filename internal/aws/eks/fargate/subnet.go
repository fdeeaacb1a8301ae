package fargate

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// privateSubnets returns the subnets of a new profile: those of the request, which all have to be private and in the
// cluster's VPC, or without any the private ones of the cluster.
func (s *Service) privateSubnets(
	ctx context.Context, f exception.About, c record.Cluster, wanted []string,
) ([]string, error) {
	ids := wanted
	if len(ids) == 0 {
		ids = c.SubnetIDs
	}
	var private, strangers []string
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			return nil, f.InvalidParameter("Subnet %s is specified more than once", id)
		}
		row, err := s.subnets.Get(ctx, record.EC2Key(c.Account, c.Region, id))
		if errors.Is(err, store.ErrNotFound) && len(wanted) == 0 {
			continue // deleted since it was given to the cluster
		} else if errors.Is(err, store.ErrNotFound) {
			return nil, f.EC2Failure(ctx, "The subnet ID '%s' does not exist", id)
		} else if err != nil {
			return nil, err
		}
		if row.Value.VPCID != c.VPCID {
			strangers = append(strangers, id)
			continue
		}
		public, err := s.isPublic(ctx, row.Value)
		if err != nil {
			return nil, err
		}
		switch {
		case !public:
			private = append(private, id)
		case len(wanted) > 0:
			return nil, f.InvalidParameter("Subnet %s provided in Fargate Profile is not a private subnet", id)
		}
	}
	switch {
	case strangers != nil:
		return nil, f.InvalidParameter(
			"Subnet(s) %s are not in the VPC of the cluster, %s", exception.List(strangers), c.VPCID,
		)
	case private == nil:
		return nil, f.InvalidParameter(
			"Fargate Profile requires at least one private subnet, but no subnet of cluster %s is private: specify "+
				"subnets without a direct route to an internet gateway",
			c.Name,
		)
	}
	return private, nil
}

// isPublic reports whether a subnet has a direct route to an internet gateway.
func (s *Service) isPublic(ctx context.Context, subnet record.Subnet) (bool, error) {
	id := subnet.RouteTableID
	if id == "" {
		vpc, err := s.vpcs.Get(ctx, record.EC2Key(subnet.Account, subnet.Region, subnet.VPCID))
		if err != nil {
			return false, err
		}
		id = vpc.Value.MainRouteTableID
	}
	table, err := s.routeTables.Get(ctx, record.EC2Key(subnet.Account, subnet.Region, id))
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return slices.ContainsFunc(
		table.Value.Routes, func(r record.Route) bool { return strings.HasPrefix(r.Target, "igw-") },
	), err
}
