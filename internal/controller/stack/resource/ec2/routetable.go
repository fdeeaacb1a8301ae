package ec2

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

var routeTables = kind[types.RouteTable]{
	resource: types.ResourceTypeRouteTable,
	list: func(ctx context.Context, c *ec2.Client, ids []string, filters []types.Filter) ([]types.RouteTable, error) {
		out, err := c.DescribeRouteTables(ctx, &ec2.DescribeRouteTablesInput{RouteTableIds: ids, Filters: filters})
		if err != nil {
			return nil, err
		}
		return out.RouteTables, nil
	},
	id: func(t *types.RouteTable) *string { return t.RouteTableId },
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-routetable.html
var routeTable = resource.Type{
	Tagged: true,
	Handler: resource.Handle(resource.Table[*ec2.Client, types.RouteTable]{
		Client: client,
		Create: resource.Create((*ec2.Client).CreateRouteTable, nil,
			func(out *ec2.CreateRouteTableOutput) *string { return out.RouteTable.RouteTableId },
			func(r *resource.Request, in *ec2.CreateRouteTableInput) error {
				in.TagSpecifications = routeTables.tags(r)
				return nil
			}),
		Find:      routeTables.find,
		Describe:  routeTables.describe,
		Configure: []resource.Step[*ec2.Client]{retag},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			_, err := c.DeleteRouteTable(ctx, &ec2.DeleteRouteTableInput{RouteTableId: &r.PhysicalID})
			return err
		},
		Attributes: func(_ *resource.Request, t *types.RouteTable) map[string]any {
			return map[string]any{"RouteTableId": aws.ToString(t.RouteTableId)}
		},
		Properties: func(_ context.Context, _ *ec2.Client, _ *resource.Request, t *types.RouteTable) (map[string]any, error) {
			return encode(map[string]any{"VpcId": aws.ToString(t.VpcId)}, nil, t.Tags, nil), nil
		},
	}),
}

// routeTargets are the properties that name the target of a route.
var routeTargets = []string{"CarrierGatewayId", "CoreNetworkArn", "EgressOnlyInternetGatewayId", "GatewayId",
	"InstanceId",
	"LocalGatewayId", "NatGatewayId", "NetworkInterfaceId", "OdbNetworkArn", "TransitGatewayId", "VpcEndpointId",
	"VpcPeeringConnectionId"}

// routeID returns the physical ID of the route of a request: its table and its destination.
func routeID(r *resource.Request) string {
	return r.Text("RouteTableId") + "|" + r.Text("DestinationCidrBlock") + r.Text("DestinationIpv6CidrBlock") +
		r.Text("DestinationPrefixListId")
}

// destination returns the destination of the route with a physical ID in the form of EC2's requests.
func destination(id string) (table string, four, six, list *string) {
	table, block, _ := strings.Cut(id, "|")
	switch {
	case strings.HasPrefix(block, "pl-"):
		return table, nil, nil, &block
	case strings.Contains(block, ":"):
		return table, nil, &block, nil
	}
	return table, &block, nil, nil
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-route.html
var route = resource.Type{
	Handler: resource.Claim(resource.Table[*ec2.Client, types.Route]{
		Client: client,
		Create: func(ctx context.Context, c *ec2.Client, r *resource.Request) (string, error) {
			_, err := resource.Call(ctx, c, r, (*ec2.Client).CreateRoute, nil)
			if err != nil {
				return "", err
			}
			return routeID(r), nil
		},
		Find: func(ctx context.Context, c *ec2.Client, r *resource.Request) (string, error) {
			called := *r
			called.PhysicalID = routeID(r)
			live, err := describeRoute(ctx, c, &called)
			if err != nil {
				return "", err
			}
			if !hasTarget(r, live) {
				return "", resource.ErrNotFound
			}
			return called.PhysicalID, nil
		},
		Describe: describeRoute,
		Configure: []resource.Step[*ec2.Client]{{Properties: routeTargets, Update: true,
			Run: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
				_, err := resource.Call(ctx, c, r, (*ec2.Client).ReplaceRoute, nil)
				return err
			}}},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			table, four, six, list := destination(r.PhysicalID)
			_, err := c.DeleteRoute(ctx, &ec2.DeleteRouteInput{RouteTableId: &table, DestinationCidrBlock: four,
				DestinationIpv6CidrBlock: six, DestinationPrefixListId: list})
			return err
		},
		Attributes: func(r *resource.Request, _ *types.Route) map[string]any {
			_, block, _ := strings.Cut(r.PhysicalID, "|")
			return map[string]any{"CidrBlock": block}
		},
		Properties: func(_ context.Context, _ *ec2.Client, r *resource.Request, live *types.Route) (map[string]any, error) {
			table, _, _, _ := destination(r.PhysicalID)
			properties := encode(live, nil, nil, map[string]any{"RouteTableId": table})
			if properties["NetworkInterfaceId"] != nil && r.Text("InstanceId") == "" {
				delete(properties, "InstanceId") // EC2 names the instance of a network interface, too
			}
			return properties, nil
		},
	}, func(r *resource.Request) (string, bool) { return routeID(r), false }),
}

// hasTarget reports whether a route has the target of the request.
func hasTarget(r *resource.Request, live *types.Route) bool {
	is := resource.Encode(live, nil)
	for _, target := range routeTargets {
		if wanted := r.Text(target); wanted != "" {
			return resource.Text(is[target]) == wanted
		}
	}
	return false
}

func describeRoute(ctx context.Context, c *ec2.Client, r *resource.Request) (*types.Route, error) {
	table, four, six, list := destination(r.PhysicalID)
	found, err := routeTables.get(ctx, c, table)
	if err != nil {
		return nil, err
	}
	for _, live := range found.Routes {
		if sameDestination(live.DestinationCidrBlock, four) && sameDestination(live.DestinationIpv6CidrBlock, six) &&
			sameDestination(live.DestinationPrefixListId, list) {
			return &live, nil
		}
	}
	return nil, resource.ErrNotFound
}

// sameDestination reports whether two destinations are the same one, or both are none.
func sameDestination(a, b *string) bool {
	return canonicalBlock(aws.ToString(a)) == canonicalBlock(aws.ToString(b))
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-subnetroutetableassociation.html
var subnetRouteTableAssociation = resource.Type{
	Handler: resource.Note(resource.Table[*ec2.Client, types.RouteTableAssociation]{
		Client: client,
		Create: resource.Create((*ec2.Client).AssociateRouteTable, nil,
			func(out *ec2.AssociateRouteTableOutput) *string { return out.AssociationId }),
		Find: func(ctx context.Context, c *ec2.Client, r *resource.Request) (string, error) {
			found, err := associations(ctx, c, filter("association.subnet-id", r.Text("SubnetId")))
			for _, a := range found {
				if aws.ToString(a.SubnetId) == r.Text("SubnetId") && aws.ToString(a.RouteTableId) == r.Text("RouteTableId") {
					return aws.ToString(a.RouteTableAssociationId), nil
				}
			}
			if err == nil {
				err = resource.ErrNotFound
			}
			return "", err
		},
		Describe: func(ctx context.Context, c *ec2.Client, r *resource.Request) (*types.RouteTableAssociation, error) {
			found, err := associations(ctx, c, filter("association.route-table-association-id", r.PhysicalID))
			for _, a := range found {
				if aws.ToString(a.RouteTableAssociationId) == r.PhysicalID {
					return &a, nil
				}
			}
			if err == nil {
				err = resource.ErrNotFound
			}
			return nil, err
		},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			_, err := c.DisassociateRouteTable(ctx, &ec2.DisassociateRouteTableInput{AssociationId: &r.PhysicalID})
			return err
		},
		Attributes: func(r *resource.Request, _ *types.RouteTableAssociation) map[string]any {
			return map[string]any{"Id": r.PhysicalID}
		},
	}),
}

// associations returns the associations of the route tables that a filter names.
func associations(ctx context.Context, c *ec2.Client, by types.Filter) ([]types.RouteTableAssociation, error) {
	tables, err := routeTables.list(ctx, c, nil, []types.Filter{by})
	var all []types.RouteTableAssociation
	for _, t := range tables {
		all = append(all, t.Associations...)
	}
	return all, err
}
