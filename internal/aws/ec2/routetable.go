package ec2

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

func (s *Service) routeTableKind() kind[record.RouteTable, types.RouteTable] {
	type v = types.RouteTable
	association := func(member func(types.RouteTableAssociation) *string) func(v) []string {
		return func(x v) []string { return collectValues(x.Associations, member) }
	}
	route := func(member func(types.Route) *string) func(v) []string {
		return func(x v) []string { return collectValues(x.Routes, member) }
	}
	return kind[record.RouteTable, v]{
		naming: naming{
			resource: types.ResourceTypeRouteTable, prefix: "rtb-", noun: "routeTable ID", param: "routeTableId",
			notFound: "InvalidRouteTableID.NotFound", malformed: "InvalidRouteTableId.Malformed",
		},
		table:  record.RouteTables(s.store),
		view:   s.viewRouteTable,
		tagged: func(x v) []types.Tag { return x.Tags },
		vpc:    func(r record.RouteTable) string { return r.VPCID },
		filters: filters[v]{
			"association.gateway-id": association(
				func(a types.RouteTableAssociation) *string { return a.GatewayId }),
			"association.route-table-association-id": association(
				func(a types.RouteTableAssociation) *string { return a.RouteTableAssociationId }),
			"association.route-table-id": association(
				func(a types.RouteTableAssociation) *string { return a.RouteTableId }),
			"association.subnet-id": association(
				func(a types.RouteTableAssociation) *string { return a.SubnetId }),
			"association.main": func(x v) []string {
				// A table without associations is not main either.
				main := slices.ContainsFunc(x.Associations,
					func(a types.RouteTableAssociation) bool { return aws.ToBool(a.Main) })
				return boolFilter(func(bool) *bool { return &main })(main)
			},
			"owner-id":       stringFilter(func(x v) *string { return x.OwnerId }),
			"route-table-id": stringFilter(func(x v) *string { return x.RouteTableId }),
			"route.destination-cidr-block": route(
				func(r types.Route) *string { return r.DestinationCidrBlock }),
			"route.destination-ipv6-cidr-block": route(
				func(r types.Route) *string { return r.DestinationIpv6CidrBlock }),
			"route.destination-prefix-list-id": route(
				func(r types.Route) *string { return r.DestinationPrefixListId }),
			"route.egress-only-internet-gateway-id": route(
				func(r types.Route) *string { return r.EgressOnlyInternetGatewayId }),
			"route.gateway-id":         route(func(r types.Route) *string { return r.GatewayId }),
			"route.instance-id":        route(func(r types.Route) *string { return r.InstanceId }),
			"route.nat-gateway-id":     route(func(r types.Route) *string { return r.NatGatewayId }),
			"route.transit-gateway-id": route(func(r types.Route) *string { return r.TransitGatewayId }),
			"route.origin":             route(func(r types.Route) *string { return (*string)(&r.Origin) }),
			"route.state":              route(func(r types.Route) *string { return (*string)(&r.State) }),
			"route.vpc-peering-connection-id": route(
				func(r types.Route) *string { return r.VpcPeeringConnectionId }),
			"vpc-id": stringFilter(func(x v) *string { return x.VpcId }),
		},
	}
}

func (s *Service) viewRouteTable(in scope, r record.RouteTable) types.RouteTable {
	v := types.RouteTable{
		Associations: []types.RouteTableAssociation{}, OwnerId: aws.String(r.Account),
		PropagatingVgws: []types.PropagatingVgw{},
		RouteTableId:    aws.String(r.ID), Routes: []types.Route{}, Tags: s.listTagSet(in, r.ID),
		VpcId: aws.String(r.VPCID),
	}
	vpc, err := s.vpcs.getRecord(in, &r.VPCID)
	if err != nil {
		return v // deleted with its VPC a moment ago
	}
	associate := func(id string, main bool, subnet, gateway *string) {
		v.Associations = append(v.Associations, types.RouteTableAssociation{
			AssociationState: &types.RouteTableAssociationState{State: types.RouteTableAssociationStateCodeAssociated},
			Main:             aws.Bool(main), RouteTableAssociationId: aws.String(id), RouteTableId: aws.String(r.ID),
			SubnetId: subnet, GatewayId: gateway,
		})
	}
	if vpc.MainRouteTableID == r.ID {
		associate(vpc.MainRouteTableAssociationID, true, nil, nil)
	}
	for _, sub := range mustRead(s.subnets.list(in, func(sub record.Subnet) bool { return sub.RouteTableID == r.ID })) {
		associate(sub.RouteTableAssociationID, false, aws.String(sub.ID), nil)
	}
	for _, g := range mustRead(s.igws.list(in, func(g record.InternetGateway) bool { return g.RouteTableID == r.ID })) {
		associate(g.RouteTableAssociationID, false, nil, aws.String(g.ID))
	}
	for _, a := range slices.Concat(vpc.CIDRs, vpc.IPv6CIDRs) {
		if !slices.ContainsFunc(r.Routes, func(own record.Route) bool { return own.Destination == a.CIDR }) {
			v.Routes = append(v.Routes, s.viewRoute(in, r.VPCID, record.Route{Destination: a.CIDR, Target: localTarget,
				Origin: types.RouteOriginCreateRouteTable}))
		}
	}
	for _, own := range r.Routes {
		v.Routes = append(v.Routes, s.viewRoute(in, r.VPCID, own))
	}
	return v
}

// routeTableHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) routeTableHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateRouteTable, creating[ec2.CreateRouteTableInput](s, types.ResourceTypeRouteTable)),
		wire.Handle(s.DescribeRouteTables, onRegion),
		wire.Handle(s.DeleteRouteTable, touching[ec2.DeleteRouteTableInput](s)),
		wire.Handle(s.AssociateRouteTable, touching[ec2.AssociateRouteTableInput](s)),
		wire.Handle(s.DisassociateRouteTable, touching[ec2.DisassociateRouteTableInput](s)),
		wire.Handle(s.ReplaceRouteTableAssociation, touching[ec2.ReplaceRouteTableAssociationInput](s)),
	}
}

// CreateRouteTable makes a route table with the local routes.
func (s *Service) CreateRouteTable(ctx context.Context, in *ec2.CreateRouteTableInput) (*ec2.CreateRouteTableOutput,
	error) {
	out, err := createResource(ctx, s, s.routeTables, creation{dryRun: in.DryRun, tags: in.TagSpecifications,
		token: in.ClientToken, request: in}, func(c *change, id string) error {
		vpc, err := c.holdVPC(in.VpcId)
		if err != nil {
			return err
		}
		inVPC := func(r record.RouteTable) bool { return r.VPCID == vpc.ID }
		if err := s.routeTables.checkQuota(c.scope, maxRouteTablesPerVPC, inVPC, "RouteTableLimitExceeded",
			"route tables"); err != nil {
			return err
		}
		s.routeTables.createRecord(c, record.RouteTable{EC2Resource: c.identity(id, in.ClientToken), VPCID: vpc.ID})
		return nil
	})
	return &ec2.CreateRouteTableOutput{RouteTable: out, ClientToken: in.ClientToken}, err
}

// DescribeRouteTables lists route tables.
func (s *Service) DescribeRouteTables(ctx context.Context, in *ec2.DescribeRouteTablesInput) (
	*ec2.DescribeRouteTablesOutput, error) {
	found, next, err := describe(ctx, s, s.routeTables, query{in.DryRun, in.RouteTableIds, in.Filters, in.MaxResults,
		in.NextToken})
	return &ec2.DescribeRouteTablesOutput{RouteTables: found, NextToken: next}, err
}

// DeleteRouteTable deletes a route table that no subnet or gateway uses and that is not the main one.
func (s *Service) DeleteRouteTable(ctx context.Context, in *ec2.DeleteRouteTableInput) (*ec2.DeleteRouteTableOutput,
	error) {
	return &ec2.DeleteRouteTableOutput{}, s.applyChange(ctx, in.DryRun, func(c *change) error {
		table, err := s.routeTables.deleteRecord(c, aws.ToString(in.RouteTableId))
		if err != nil {
			return err
		}
		if err := c.requireUnchanged(table.VPCID); err != nil {
			return err
		}
		if len(s.viewRouteTable(c.scope, table).Associations) > 0 {
			return dependency("routeTable", table.ID)
		}
		endpoints, err := s.endpoints.list(c.scope,
			func(r record.VPCEndpoint) bool { return slices.Contains(r.RouteTableIDs, table.ID) })
		if err != nil {
			return err
		}
		for _, e := range endpoints {
			if err := s.endpoints.updateRecord(c, e.ID, func(r *record.VPCEndpoint) error {
				r.RouteTableIDs = slices.DeleteFunc(r.RouteTableIDs, func(id string) bool { return id == table.ID })
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// AssociateRouteTable makes a subnet use a route table, or an internet gateway for what comes in.
func (s *Service) AssociateRouteTable(ctx context.Context, in *ec2.AssociateRouteTableInput) (
	*ec2.AssociateRouteTableOutput, error) {
	id := newID("rtbassoc-")
	err := s.applyChange(ctx, in.DryRun, func(c *change) error {
		table, err := s.routeTables.getRecord(c.scope, in.RouteTableId)
		if err != nil {
			return err
		}
		if err := s.routeTables.require(c, table.ID); err != nil {
			return err
		}
		c.touchVPC(table.VPCID)
		switch {
		case in.SubnetId != nil:
			return s.subnets.updateRecord(c, *in.SubnetId, func(r *record.Subnet) error {
				if err := associable(table, r.VPCID, "subnet", r.ID, r.RouteTableAssociationID); err != nil {
					return err
				}
				r.RouteTableID, r.RouteTableAssociationID = table.ID, id
				return nil
			})
		case in.GatewayId != nil:
			return s.igws.updateRecord(c, *in.GatewayId, func(r *record.InternetGateway) error {
				if err := associable(table, r.VPCID, "gateway", r.ID, r.RouteTableAssociationID); err != nil {
					return err
				}
				r.RouteTableID, r.RouteTableAssociationID = table.ID, id
				return nil
			})
		}
		return missing("subnetId")
	})
	return &ec2.AssociateRouteTableOutput{AssociationId: aws.String(id),
		AssociationState: &types.RouteTableAssociationState{State: types.RouteTableAssociationStateCodeAssociated}}, err
}

// associable refuses to associate a table with what lies in another VPC or has a table already.
func associable(table record.RouteTable, vpcID, noun, id, existing string) error {
	if vpcID != table.VPCID {
		return wire.Errorf("InvalidParameterValue", "Route table %s and %s %s belong to different networks", table.ID,
			noun, id)
	}
	if existing != "" {
		return wire.Errorf("Resource.AlreadyAssociated",
			"the specified association for route table %s conflicts with an existing association", table.ID)
	}
	return nil
}

func missingAssociation(id string) error {
	return wire.Errorf("InvalidAssociationID.NotFound", "The association ID '%s' does not exist", id)
}

// editAssociation changes what is associated under an id: the main table of a VPC, or that of a subnet or a gateway. to
// gets the table's VPC and whether it is the main association, and returns the new table and association.
func (c *change) editAssociation(id string, to func(vpcID string, main bool) (table, association string,
	err error)) error {
	if id == "" {
		return missing("associationId")
	}
	s := c.s
	if found, err := s.subnets.list(c.scope,
		func(r record.Subnet) bool { return r.RouteTableAssociationID == id }); err != nil {
		return err
	} else if len(found) > 0 {
		return s.subnets.updateRecord(c, found[0].ID, func(r *record.Subnet) (err error) {
			if r.RouteTableAssociationID != id {
				return missingAssociation(id)
			}
			r.RouteTableID, r.RouteTableAssociationID, err = to(r.VPCID, false)
			return err
		})
	}
	if found, err := s.igws.list(c.scope,
		func(r record.InternetGateway) bool { return r.RouteTableAssociationID == id }); err != nil {
		return err
	} else if len(found) > 0 {
		return s.igws.updateRecord(c, found[0].ID, func(r *record.InternetGateway) (err error) {
			r.RouteTableID, r.RouteTableAssociationID, err = to(r.VPCID, false)
			return err
		})
	}
	found, err := s.vpcs.list(c.scope, func(r record.VPC) bool { return r.MainRouteTableAssociationID == id })
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return missingAssociation(id)
	}
	return s.vpcs.updateRecord(c, found[0].ID, func(r *record.VPC) (err error) {
		r.MainRouteTableID, r.MainRouteTableAssociationID, err = to(r.ID, true)
		return err
	})
}

// DisassociateRouteTable makes a subnet use the main route table again.
func (s *Service) DisassociateRouteTable(ctx context.Context, in *ec2.DisassociateRouteTableInput) (
	*ec2.DisassociateRouteTableOutput, error) {
	id := aws.ToString(in.AssociationId)
	return &ec2.DisassociateRouteTableOutput{}, s.applyChange(ctx, in.DryRun, func(c *change) error {
		return c.editAssociation(id, func(_ string, main bool) (string, string, error) {
			if main {
				return "", "", invalid("cannot disassociate the main route table association %s", id)
			}
			return "", "", nil
		})
	})
}

// ReplaceRouteTableAssociation makes a subnet or gateway use another route table, or another table the main one.
func (s *Service) ReplaceRouteTableAssociation(ctx context.Context, in *ec2.ReplaceRouteTableAssociationInput) (
	*ec2.ReplaceRouteTableAssociationOutput, error) {
	id := newID("rtbassoc-")
	err := s.applyChange(ctx, in.DryRun, func(c *change) error {
		table, err := s.routeTables.getRecord(c.scope, in.RouteTableId)
		if err != nil {
			return err
		}
		if err := s.routeTables.require(c, table.ID); err != nil {
			return err
		}
		c.touchVPC(table.VPCID)
		return c.editAssociation(aws.ToString(in.AssociationId), func(vpcID string, _ bool) (string, string, error) {
			return table.ID, id, associable(table, vpcID, "network", vpcID, "")
		})
	})
	return &ec2.ReplaceRouteTableAssociationOutput{NewAssociationId: aws.String(id),
		AssociationState: &types.RouteTableAssociationState{State: types.RouteTableAssociationStateCodeAssociated}}, err
}
