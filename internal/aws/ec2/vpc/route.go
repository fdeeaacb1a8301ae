package vpc

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// localTarget is the target of the routes inside a VPC.
const localTarget = "local"

func (s *Service) viewRoute(sc resource.Scope, vpcID string, r record.Route) types.Route {
	v := types.Route{Origin: r.Origin, State: types.RouteStateActive}
	switch {
	case strings.HasPrefix(r.Destination, resource.PrefixListNaming.Prefix):
		v.DestinationPrefixListId = aws.String(r.Destination)
	case strings.Contains(r.Destination, ":"):
		v.DestinationIpv6CidrBlock = aws.String(r.Destination)
	default:
		v.DestinationCidrBlock = aws.String(r.Destination)
	}
	target, there := aws.String(r.Target), true
	switch {
	case strings.HasPrefix(r.Target, s.NATGateways.Prefix):
		v.NatGatewayId = target
		_, err := s.NATGateways.GetRecord(sc, target)
		there = err == nil
	case strings.HasPrefix(r.Target, s.NetworkInterfaces.Prefix):
		v.NetworkInterfaceId = target
		ni, err := s.NetworkInterfaces.GetRecord(sc, target)
		there = err == nil && ni.Attachment != nil
		if id := ni.ShownInstanceID(); err == nil && id != "" {
			v.InstanceId, v.InstanceOwnerId = aws.String(id), aws.String(ni.Attachment.InstanceOwnerID)
		}
	case strings.HasPrefix(r.Target, s.EgressOnlyInternetGateways.Prefix):
		v.EgressOnlyInternetGatewayId = target
		_, err := s.EgressOnlyInternetGateways.GetRecord(sc, target)
		there = err == nil
	default:
		v.GatewayId = target
		if strings.HasPrefix(r.Target, s.InternetGateways.Prefix) {
			g, err := s.InternetGateways.GetRecord(sc, target)
			there = err == nil && g.VPCID == vpcID
		}
	}
	if !there {
		v.State = types.RouteStateBlackhole
	}
	return v
}

// routeRequest is the common part of the requests about one route.
type routeRequest struct {
	table                  *string
	cidr, ipv6, prefixList *string
	targets                routeTargets
}

// routeTargets are the targets that a request may name; those which coracle does not have are named to be refused.
type routeTargets struct {
	gateway, egressOnly, nat, networkInterface, instance, endpoint *string
	peering, transit, carrier, localGateway, coreNetwork, odb      *string
}

// destination returns the route's destination in canonical form.
func (q routeRequest) destination(sc resource.Scope) (string, error) {
	given := 0
	for _, d := range []*string{q.cidr, q.ipv6, q.prefixList} {
		if d != nil {
			given++
		}
	}
	switch {
	case given != 1:
		return "", wire.Errorf("InvalidParameterCombination",
			"Exactly one of destinationCidrBlock, destinationIpv6CidrBlock and destinationPrefixListId must be "+
				"specified.")
	case q.cidr != nil:
		block, err := ipv4Block(*q.cidr, "destinationCidrBlock")
		return block.String(), err
	case q.ipv6 != nil:
		block, err := netip.ParsePrefix(*q.ipv6)
		if err != nil || !block.Addr().Is6() {
			return "", resource.InvalidValue(*q.ipv6, "destinationIpv6CidrBlock", "This is not a valid IPv6 CIDR block.")
		}
		return block.Masked().String(), nil
	}
	list, err := sc.PrefixList(*q.prefixList)
	return list.ID, err
}

// routeTarget returns the target that a request names for a route of a VPC. The target must exist and belong to the
// VPC.
func routeTarget(c *resource.Change, tableID, vpcID string, t routeTargets) (string, error) {
	given := slices.DeleteFunc([]*string{t.gateway, t.egressOnly, t.nat, t.networkInterface, t.instance, t.endpoint,
		t.peering, t.transit, t.carrier, t.localGateway, t.coreNetwork, t.odb},
		func(p *string) bool { return p == nil })
	if len(given) != 1 {
		return "", wire.Errorf("InvalidParameterCombination",
			"The request must contain exactly one of gatewayId, natGatewayId, networkInterfaceId, "+
				"egressOnlyInternetGatewayId, instanceId and vpcEndpointId.")
	}
	id, s := *given[0], c.Records
	var owner string
	switch {
	case t.gateway != nil && strings.HasPrefix(id, s.InternetGateways.Prefix):
		gateway, err := s.InternetGateways.GetRecord(c.Scope, &id)
		if err != nil {
			return "", err
		}
		owner = gateway.VPCID
	case t.gateway != nil:
		return "", wire.Errorf("InvalidGatewayID.NotFound", "The gateway ID '%s' does not exist", id)
	case t.egressOnly != nil:
		gateway, err := s.EgressOnlyInternetGateways.GetRecord(c.Scope, &id)
		if err != nil {
			return "", err
		}
		owner = gateway.VPCID
	case t.nat != nil:
		nat, err := s.NATGateways.GetRecord(c.Scope, &id)
		if err != nil {
			return "", wire.Errorf("InvalidNatGatewayID.NotFound", "The natGateway ID '%s' does not exist", id)
		}
		owner = nat.VPCID
	case t.networkInterface != nil:
		ni, err := s.NetworkInterfaces.GetRecord(c.Scope, &id)
		if err != nil {
			return "", err
		}
		owner = ni.VPCID
	case t.instance != nil:
		ni, err := s.OnlyInterface(c.Scope, &id)
		if err != nil {
			return "", err
		}
		through, err := s.NetworkInterfaces.GetRecord(c.Scope, ni)
		if err != nil {
			return "", err
		}
		id, owner = through.ID, through.VPCID
	case t.endpoint != nil:
		return "", wire.Errorf("RouteNotSupported",
			"Route table contains unsupported route target: %s. VPC Endpoints of this type cannot be used as route "+
				"targets.", id)
	case t.peering != nil:
		return "", wire.Errorf("InvalidVpcPeeringConnectionID.NotFound",
			"The vpcPeeringConnection ID '%s' does not exist", id)
	case t.transit != nil:
		return "", wire.Errorf("InvalidTransitGatewayID.NotFound", "The transitGateway ID '%s' does not exist", id)
	default:
		return "", wire.Errorf("InvalidGatewayID.NotFound", "The gateway ID '%s' does not exist", id)
	}
	if owner != vpcID {
		return "", wire.Errorf("InvalidParameterValue",
			"route table %s and network gateway %s belong to different networks", tableID, id)
	}
	return id, nil
}

// editRoute changes the routes of a table; edit gets the destination, the index of its route or -1, and the VPC.
func editRoute(c *resource.Change, q routeRequest, edit func(r *record.RouteTable, vpc record.VPC, destination string,
	i int) error) error {
	return c.RouteTables.UpdateRecord(c, aws.ToString(q.table), func(r *record.RouteTable) error {
		destination, err := q.destination(c.Scope)
		if err != nil {
			return err
		}
		vpc, err := c.VPCs.GetRecord(c.Scope, &r.VPCID)
		if err != nil {
			return err
		}
		return edit(r, vpc, destination,
			slices.IndexFunc(r.Routes, func(own record.Route) bool { return own.Destination == destination }))
	})
}

// matchVPCBlocks reports whether a destination is one of the VPC's own blocks, and whether it lies within one.
func matchVPCBlocks(vpc record.VPC, destination string) (own, inside bool) {
	block, err := netip.ParsePrefix(destination)
	if err != nil {
		return false, false
	}
	for _, a := range slices.Concat(vpc.CIDRs, vpc.IPv6CIDRs) {
		own = own || a.CIDR == destination
	}
	return own, containsBlock(slices.Concat(vpc.CIDRs, vpc.IPv6CIDRs), block)
}

// insideOnly refuses a route within the VPC to anything but a network interface.
func insideOnly(inside bool, destination, target string) error {
	if inside && !strings.HasPrefix(target, "eni-") {
		return resource.Invalid(
			"The destination CIDR block %s is equal to or more specific than one of this VPC's CIDR blocks. This "+
				"route can target only an interface or an instance.", destination)
	}
	return nil
}

// routeHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) routeHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateRoute, resource.Touching[ec2.CreateRouteInput](s.Records)),
		wire.Handle(s.ReplaceRoute, resource.Touching[ec2.ReplaceRouteInput](s.Records)),
		wire.Handle(s.DeleteRoute, resource.Touching[ec2.DeleteRouteInput](s.Records)),
	}
}

// CreateRoute adds a route.
func (s *Service) CreateRoute(ctx context.Context, in *ec2.CreateRouteInput) (*ec2.CreateRouteOutput, error) {
	err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		q := routeRequest{in.RouteTableId, in.DestinationCidrBlock, in.DestinationIpv6CidrBlock,
			in.DestinationPrefixListId, routeTargets{
				in.GatewayId, in.EgressOnlyInternetGatewayId, in.NatGatewayId, in.NetworkInterfaceId, in.InstanceId,
				in.VpcEndpointId,
				in.VpcPeeringConnectionId, in.TransitGatewayId, in.CarrierGatewayId, in.LocalGatewayId,
				in.CoreNetworkArn,
				in.OdbNetworkArn,
			}}
		return editRoute(c, q, func(r *record.RouteTable, vpc record.VPC, destination string, i int) error {
			target, err := routeTarget(c, r.ID, vpc.ID, q.targets)
			if err != nil {
				return err
			}
			if block, err := netip.ParsePrefix(destination); err == nil && block.Addr().Is4In6() {
				return resource.InvalidValue(destination, "destinationIpv6CidrBlock",
					"IPv4 addresses in the form of IPv6 cannot be routed.")
			}
			own, inside := matchVPCBlocks(vpc, destination)
			if i >= 0 || own {
				return wire.Errorf("RouteAlreadyExists", "The route identified by %s already exists.", destination)
			}
			if err := insideOnly(inside, destination, target); err != nil {
				return err
			}
			if len(r.Routes) >= resource.MaxRoutesPerTable {
				return wire.Errorf("RouteLimitExceeded", "The maximum number of routes has been reached.")
			}
			r.Routes = append(r.Routes, record.Route{Destination: destination, Target: target,
				Origin: types.RouteOriginCreateRoute})
			return nil
		})
	})
	return &ec2.CreateRouteOutput{Return: aws.Bool(err == nil)}, err
}

// ReplaceRoute gives a route another target. The local routes can point at an interface, and back.
func (s *Service) ReplaceRoute(ctx context.Context, in *ec2.ReplaceRouteInput) (*ec2.ReplaceRouteOutput, error) {
	return &ec2.ReplaceRouteOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		q := routeRequest{in.RouteTableId, in.DestinationCidrBlock, in.DestinationIpv6CidrBlock,
			in.DestinationPrefixListId, routeTargets{
				in.GatewayId, in.EgressOnlyInternetGatewayId, in.NatGatewayId, in.NetworkInterfaceId, in.InstanceId,
				in.VpcEndpointId,
				in.VpcPeeringConnectionId, in.TransitGatewayId, in.CarrierGatewayId, in.LocalGatewayId,
				in.CoreNetworkArn,
				in.OdbNetworkArn,
			}}
		return editRoute(c, q, func(r *record.RouteTable, vpc record.VPC, destination string, i int) error {
			own, inside := matchVPCBlocks(vpc, destination)
			if aws.ToBool(in.LocalTarget) && own {
				r.Routes = slices.DeleteFunc(r.Routes,
					func(route record.Route) bool { return route.Destination == destination })
				return nil
			}
			target, err := routeTarget(c, r.ID, vpc.ID, q.targets)
			if err != nil {
				return err
			}
			if err := insideOnly(inside, destination, target); err != nil {
				return err
			}
			switch {
			case i >= 0:
				r.Routes[i].Target = target
			case own:
				r.Routes = append(r.Routes, record.Route{Destination: destination, Target: target,
					Origin: types.RouteOriginCreateRouteTable})
			default:
				return wire.Errorf("InvalidParameterValue",
					"There is no route defined for '%s' in the route table. Use CreateRoute instead.", destination)
			}
			return nil
		})
	})
}

// DeleteRoute removes a route.
func (s *Service) DeleteRoute(ctx context.Context, in *ec2.DeleteRouteInput) (*ec2.DeleteRouteOutput, error) {
	return &ec2.DeleteRouteOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		q := routeRequest{table: in.RouteTableId, cidr: in.DestinationCidrBlock, ipv6: in.DestinationIpv6CidrBlock,
			prefixList: in.DestinationPrefixListId}
		return editRoute(c, q, func(r *record.RouteTable, vpc record.VPC, destination string, i int) error {
			if own, _ := matchVPCBlocks(vpc, destination); own {
				return resource.Invalid("cannot remove local route %s in route table %s", destination, r.ID)
			}
			if i < 0 {
				return wire.Errorf("InvalidRoute.NotFound", "no route with destination-cidr-block %s in route table %s",
					destination, r.ID)
			}
			if strings.HasPrefix(r.Routes[i].Target, s.VPCEndpoints.Prefix) {
				return resource.Invalid("cannot remove VPC endpoint route %s in route table %s", destination, r.ID)
			}
			r.Routes = slices.Delete(r.Routes, i, i+1)
			return nil
		})
	})
}
