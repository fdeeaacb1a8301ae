package vpc

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

func (s *Service) newRouteTableView() resource.View[record.RouteTable, types.RouteTable] {
	type v = types.RouteTable
	association := func(member func(types.RouteTableAssociation) *string) func(v) []string {
		return func(x v) []string { return resource.CollectValues(x.Associations, member) }
	}
	route := func(member func(types.Route) *string) func(v) []string {
		return func(x v) []string { return resource.CollectValues(x.Routes, member) }
	}
	return resource.View[record.RouteTable, v]{
		Kind:    s.RouteTables,
		Show:    s.viewRouteTable,
		ShowAll: s.routeTableViewer,
		Tagged:  func(x v) []types.Tag { return x.Tags },
		Filters: resource.Filters[v]{
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
				return resource.BoolFilter(func(bool) *bool { return &main })(main)
			},
			"owner-id":       resource.StringFilter(func(x v) *string { return x.OwnerId }),
			"route-table-id": resource.StringFilter(func(x v) *string { return x.RouteTableId }),
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
			"vpc-id": resource.StringFilter(func(x v) *string { return x.VpcId }),
		},
	}
}

func (s *Service) viewRouteTable(sc resource.Scope, r record.RouteTable) types.RouteTable {
	return s.routeTableViewer(sc)(r)
}

// routeTableViewer lists what is associated with route tables, and returns how a route table looks.
func (s *Service) routeTableViewer(sc resource.Scope) func(record.RouteTable) types.RouteTable {
	subnets := resource.GroupBy(resource.MustRead(s.Subnets.List(sc, nil)),
		func(sub record.Subnet) string { return sub.RouteTableID })
	gateways := resource.GroupBy(resource.MustRead(s.InternetGateways.List(sc, nil)),
		func(g record.InternetGateway) string { return g.RouteTableID })
	return func(r record.RouteTable) types.RouteTable {
		return s.showRouteTable(sc, r, subnets[r.ID], gateways[r.ID])
	}
}

func (s *Service) showRouteTable(sc resource.Scope, r record.RouteTable, subnets []record.Subnet,
	gateways []record.InternetGateway) types.RouteTable {
	v := types.RouteTable{
		Associations: []types.RouteTableAssociation{}, OwnerId: aws.String(r.Account),
		PropagatingVgws: []types.PropagatingVgw{},
		RouteTableId:    aws.String(r.ID), Routes: []types.Route{}, Tags: s.ListTagSet(sc, r.ID),
		VpcId: aws.String(r.VPCID),
	}
	vpc, err := s.VPCs.GetRecord(sc, &r.VPCID)
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
	for _, sub := range subnets {
		associate(sub.RouteTableAssociationID, false, aws.String(sub.ID), nil)
	}
	for _, g := range gateways {
		associate(g.RouteTableAssociationID, false, nil, aws.String(g.ID))
	}
	for _, a := range slices.Concat(vpc.CIDRs, vpc.IPv6CIDRs) {
		if !slices.ContainsFunc(r.Routes, func(own record.Route) bool { return own.Destination == a.CIDR }) {
			v.Routes = append(v.Routes, s.viewRoute(sc, r.VPCID, record.Route{Destination: a.CIDR, Target: localTarget,
				Origin: types.RouteOriginCreateRouteTable}))
		}
	}
	for _, own := range r.Routes {
		v.Routes = append(v.Routes, s.viewRoute(sc, r.VPCID, own))
	}
	return v
}

// routeTableHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) routeTableHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(
			s.CreateRouteTable,
			resource.Creating[ec2.CreateRouteTableInput](s.Records, types.ResourceTypeRouteTable),
		),
		wire.Handle(s.DescribeRouteTables, resource.OnRegion),
		wire.Handle(s.DeleteRouteTable, resource.Touching[ec2.DeleteRouteTableInput](s.Records)),
		wire.Handle(s.AssociateRouteTable, resource.Touching[ec2.AssociateRouteTableInput](s.Records)),
		wire.Handle(s.DisassociateRouteTable, resource.Touching[ec2.DisassociateRouteTableInput](s.Records)),
		wire.Handle(s.ReplaceRouteTableAssociation, resource.Touching[ec2.ReplaceRouteTableAssociationInput](s.Records)),
	}
}

// CreateRouteTable makes a route table with the local routes.
func (s *Service) CreateRouteTable(ctx context.Context, in *ec2.CreateRouteTableInput) (
	*ec2.CreateRouteTableOutput, error) {
	out, err := s.routeTableView.Create(ctx, resource.Creation{DryRun: in.DryRun, Tags: in.TagSpecifications,
		Token: in.ClientToken, Request: in}, func(c *resource.Change, id string) error {
		vpc, err := c.HoldVPC(in.VpcId)
		if err != nil {
			return err
		}
		inVPC := func(r record.RouteTable) bool { return r.VPCID == vpc.ID }
		if err := s.RouteTables.CheckQuota(c.Scope, resource.MaxRouteTablesPerVPC, inVPC, "RouteTableLimitExceeded",
			"route tables"); err != nil {
			return err
		}
		s.RouteTables.CreateRecord(c, record.RouteTable{EC2Resource: c.NewResource(id, in.ClientToken), VPCID: vpc.ID})
		return nil
	})
	return &ec2.CreateRouteTableOutput{RouteTable: out, ClientToken: in.ClientToken}, err
}

// DescribeRouteTables lists route tables.
func (s *Service) DescribeRouteTables(ctx context.Context, in *ec2.DescribeRouteTablesInput) (
	*ec2.DescribeRouteTablesOutput, error) {
	found, next, err := s.routeTableView.Describe(
		ctx,
		resource.Query{Operation: "DescribeRouteTables", DryRun: in.DryRun, IDs: in.RouteTableIds, Filters: in.Filters,
			Max:   in.MaxResults,
			Token: in.NextToken},
	)
	return &ec2.DescribeRouteTablesOutput{RouteTables: found, NextToken: next}, err
}

// DeleteRouteTable deletes a route table that no subnet or gateway uses and that is not the main one.
func (s *Service) DeleteRouteTable(ctx context.Context, in *ec2.DeleteRouteTableInput) (
	*ec2.DeleteRouteTableOutput, error) {
	return &ec2.DeleteRouteTableOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		table, err := s.RouteTables.DeleteRecord(c, aws.ToString(in.RouteTableId))
		if err != nil {
			return err
		}
		if err := c.RequireUnchanged(table.VPCID); err != nil {
			return err
		}
		if len(s.viewRouteTable(c.Scope, table).Associations) > 0 {
			return resource.DependencyViolation("routeTable", table.ID)
		}
		endpoints, err := s.VPCEndpoints.List(c.Scope,
			func(r record.VPCEndpoint) bool { return slices.Contains(r.RouteTableIDs, table.ID) })
		if err != nil {
			return err
		}
		for _, e := range endpoints {
			if err := s.VPCEndpoints.UpdateRecord(c, e.ID, func(r *record.VPCEndpoint) error {
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
	id := resource.NewID("rtbassoc-")
	err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		table, err := s.RouteTables.GetRecord(c.Scope, in.RouteTableId)
		if err != nil {
			return err
		}
		if err := s.RouteTables.Require(c, table.ID); err != nil {
			return err
		}
		c.TouchVPC(table.VPCID)
		switch {
		case in.SubnetId != nil:
			return s.Subnets.UpdateRecord(c, *in.SubnetId, func(r *record.Subnet) error {
				if err := associable(table, r.VPCID, "subnet", r.ID, r.RouteTableAssociationID); err != nil {
					return err
				}
				r.RouteTableID, r.RouteTableAssociationID = table.ID, id
				return nil
			})
		case in.GatewayId != nil:
			return s.InternetGateways.UpdateRecord(c, *in.GatewayId, func(r *record.InternetGateway) error {
				if err := associable(table, r.VPCID, "gateway", r.ID, r.RouteTableAssociationID); err != nil {
					return err
				}
				r.RouteTableID, r.RouteTableAssociationID = table.ID, id
				return nil
			})
		}
		return resource.MissingParameter("subnetId")
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
func editAssociation(c *resource.Change, id string, to func(vpcID string, main bool) (table, association string,
	err error)) error {
	if id == "" {
		return resource.MissingParameter("associationId")
	}
	s := c.Records
	if found, err := s.Subnets.List(c.Scope,
		func(r record.Subnet) bool { return r.RouteTableAssociationID == id }); err != nil {
		return err
	} else if len(found) > 0 {
		return s.Subnets.UpdateRecord(c, found[0].ID, func(r *record.Subnet) (err error) {
			if r.RouteTableAssociationID != id {
				return missingAssociation(id)
			}
			r.RouteTableID, r.RouteTableAssociationID, err = to(r.VPCID, false)
			return err
		})
	}
	if found, err := s.InternetGateways.List(c.Scope,
		func(r record.InternetGateway) bool { return r.RouteTableAssociationID == id }); err != nil {
		return err
	} else if len(found) > 0 {
		return s.InternetGateways.UpdateRecord(c, found[0].ID, func(r *record.InternetGateway) (err error) {
			r.RouteTableID, r.RouteTableAssociationID, err = to(r.VPCID, false)
			return err
		})
	}
	found, err := s.VPCs.List(c.Scope, func(r record.VPC) bool { return r.MainRouteTableAssociationID == id })
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return missingAssociation(id)
	}
	return s.VPCs.UpdateRecord(c, found[0].ID, func(r *record.VPC) (err error) {
		r.MainRouteTableID, r.MainRouteTableAssociationID, err = to(r.ID, true)
		return err
	})
}

// DisassociateRouteTable makes a subnet use the main route table again.
func (s *Service) DisassociateRouteTable(ctx context.Context, in *ec2.DisassociateRouteTableInput) (
	*ec2.DisassociateRouteTableOutput, error) {
	id := aws.ToString(in.AssociationId)
	return &ec2.DisassociateRouteTableOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		return editAssociation(c, id, func(_ string, main bool) (string, string, error) {
			if main {
				return "", "", resource.Invalid("cannot disassociate the main route table association %s", id)
			}
			return "", "", nil
		})
	})
}

// ReplaceRouteTableAssociation makes a subnet or gateway use another route table, or another table the main one.
func (s *Service) ReplaceRouteTableAssociation(ctx context.Context, in *ec2.ReplaceRouteTableAssociationInput) (
	*ec2.ReplaceRouteTableAssociationOutput, error) {
	id := resource.NewID("rtbassoc-")
	err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		table, err := s.RouteTables.GetRecord(c.Scope, in.RouteTableId)
		if err != nil {
			return err
		}
		if err := s.RouteTables.Require(c, table.ID); err != nil {
			return err
		}
		c.TouchVPC(table.VPCID)
		return editAssociation(c, aws.ToString(in.AssociationId), func(vpcID string, _ bool) (string, string, error) {
			return table.ID, id, associable(table, vpcID, "network", vpcID, "")
		})
	})
	return &ec2.ReplaceRouteTableAssociationOutput{NewAssociationId: aws.String(id),
		AssociationState: &types.RouteTableAssociationState{State: types.RouteTableAssociationStateCodeAssociated}}, err
}
