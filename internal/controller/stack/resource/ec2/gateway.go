package ec2

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

var internetGateways = kind[types.InternetGateway]{
	resource: types.ResourceTypeInternetGateway,
	list: func(ctx context.Context, c *ec2.Client, ids []string, filters []types.Filter) ([]types.InternetGateway, error) {
		out, err := c.DescribeInternetGateways(ctx, &ec2.DescribeInternetGatewaysInput{InternetGatewayIds: ids,
			Filters: filters})
		if err != nil {
			return nil, err
		}
		return out.InternetGateways, nil
	},
	id: func(g *types.InternetGateway) *string { return g.InternetGatewayId },
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-internetgateway.html
var internetGateway = resource.Type{
	Tagged: true,
	Handler: resource.Handle(resource.Table[*ec2.Client, types.InternetGateway]{
		Client: client,
		Create: resource.Create((*ec2.Client).CreateInternetGateway, nil,
			func(out *ec2.CreateInternetGatewayOutput) *string { return out.InternetGateway.InternetGatewayId },
			func(r *resource.Request, in *ec2.CreateInternetGatewayInput) error {
				in.TagSpecifications = internetGateways.tags(r)
				return nil
			}),
		Find:      internetGateways.find,
		Describe:  internetGateways.describe,
		Configure: []resource.Step[*ec2.Client]{retag},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			_, err := c.DeleteInternetGateway(ctx, &ec2.DeleteInternetGatewayInput{InternetGatewayId: &r.PhysicalID})
			return err
		},
		Attributes: func(r *resource.Request, _ *types.InternetGateway) map[string]any {
			return map[string]any{"InternetGatewayId": r.PhysicalID}
		},
		Properties: func(_ context.Context, _ *ec2.Client, _ *resource.Request, g *types.InternetGateway) (
			map[string]any, error) {
			return encode(map[string]any{}, nil, g.Tags, nil), nil
		},
	}),
}

var egressOnlyGateways = kind[types.EgressOnlyInternetGateway]{
	resource: types.ResourceTypeEgressOnlyInternetGateway,
	list: func(ctx context.Context, c *ec2.Client, ids []string, filters []types.Filter) (
		[]types.EgressOnlyInternetGateway, error) {
		out, err := c.DescribeEgressOnlyInternetGateways(ctx, &ec2.DescribeEgressOnlyInternetGatewaysInput{
			EgressOnlyInternetGatewayIds: ids, Filters: filters})
		if err != nil {
			return nil, err
		}
		return out.EgressOnlyInternetGateways, nil
	},
	id: func(g *types.EgressOnlyInternetGateway) *string { return g.EgressOnlyInternetGatewayId },
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-egressonlyinternetgateway.html
var egressOnlyInternetGateway = resource.Type{
	Tagged: true,
	Handler: resource.Handle(resource.Table[*ec2.Client, types.EgressOnlyInternetGateway]{
		Client: client,
		Create: resource.Create((*ec2.Client).CreateEgressOnlyInternetGateway, nil,
			func(out *ec2.CreateEgressOnlyInternetGatewayOutput) *string {
				return out.EgressOnlyInternetGateway.EgressOnlyInternetGatewayId
			},
			func(r *resource.Request, in *ec2.CreateEgressOnlyInternetGatewayInput) error {
				in.TagSpecifications = egressOnlyGateways.tags(r)
				return nil
			}),
		Find:      egressOnlyGateways.find,
		Describe:  egressOnlyGateways.describe,
		Configure: []resource.Step[*ec2.Client]{retag},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			_, err := c.DeleteEgressOnlyInternetGateway(ctx,
				&ec2.DeleteEgressOnlyInternetGatewayInput{EgressOnlyInternetGatewayId: &r.PhysicalID})
			return err
		},
		Attributes: func(r *resource.Request, _ *types.EgressOnlyInternetGateway) map[string]any {
			return map[string]any{"Id": r.PhysicalID}
		},
		Properties: func(_ context.Context, _ *ec2.Client, _ *resource.Request, g *types.EgressOnlyInternetGateway) (
			map[string]any, error) {
			attached := map[string]any{}
			for _, a := range g.Attachments {
				attached["VpcId"] = aws.ToString(a.VpcId)
			}
			return encode(attached, nil, g.Tags, nil), nil
		},
	}),
}

// attachmentPrefix begins the physical IDs of attachments of internet gateways, which end with the VPC.
const attachmentPrefix = "IGW|"

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-vpcgatewayattachment.html
var vpcGatewayAttachment = resource.Type{
	Refused: []string{"VpnGatewayId"},
	Handler: resource.Claim(resource.Table[*ec2.Client, types.InternetGateway]{
		Client: client,
		Create: func(ctx context.Context, c *ec2.Client, r *resource.Request) (string, error) {
			if r.Text("InternetGatewayId") == "" {
				return "", resource.Errorf(resource.InvalidRequest,
					"Either 'InternetGatewayId' or 'VpnGatewayId' must be provided")
			}
			_, err := resource.Call(ctx, c, r, (*ec2.Client).AttachInternetGateway, nil)
			if err != nil {
				return "", err
			}
			return attachmentPrefix + r.Text("VpcId"), nil
		},
		Find: func(ctx context.Context, c *ec2.Client, r *resource.Request) (string, error) {
			g, err := attachedGateway(ctx, c, r.Text("VpcId"))
			if err != nil {
				return "", err
			}
			if aws.ToString(g.InternetGatewayId) != r.Text("InternetGatewayId") {
				return "", resource.ErrNotFound
			}
			return attachmentPrefix + r.Text("VpcId"), nil
		},
		Describe: func(ctx context.Context, c *ec2.Client, r *resource.Request) (*types.InternetGateway, error) {
			return attachedGateway(ctx, c, strings.TrimPrefix(r.PhysicalID, attachmentPrefix))
		},
		Configure: []resource.Step[*ec2.Client]{{Properties: []string{"InternetGatewayId"}, Update: true,
			Run: replaceGateway}},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			vpcID := strings.TrimPrefix(r.PhysicalID, attachmentPrefix)
			g, err := attachedGateway(ctx, c, vpcID)
			if err != nil {
				return err
			}
			_, err = c.DetachInternetGateway(ctx, &ec2.DetachInternetGatewayInput{
				InternetGatewayId: g.InternetGatewayId, VpcId: &vpcID})
			return err
		},
		Attributes: func(*resource.Request, *types.InternetGateway) map[string]any {
			return map[string]any{"AttachmentType": strings.TrimSuffix(attachmentPrefix, "|")}
		},
		Properties: func(_ context.Context, _ *ec2.Client, r *resource.Request, g *types.InternetGateway) (
			map[string]any, error) {
			return map[string]any{"InternetGatewayId": aws.ToString(g.InternetGatewayId),
				"VpcId": strings.TrimPrefix(r.PhysicalID, attachmentPrefix)}, nil
		},
	}, func(r *resource.Request) (string, bool) { return attachmentPrefix + r.Text("VpcId"), false }),
}

// attachedGateway returns the internet gateway of a VPC.
func attachedGateway(ctx context.Context, c *ec2.Client, vpcID string) (*types.InternetGateway, error) {
	return only(internetGateways.list(ctx, c, nil, []types.Filter{filter("attachment.vpc-id", vpcID)}))
}

// replaceGateway attaches another internet gateway to the VPC.
func replaceGateway(ctx context.Context, c *ec2.Client, r *resource.Request) error {
	vpcID, wanted := r.Text("VpcId"), r.Text("InternetGatewayId")
	g, err := attachedGateway(ctx, c, vpcID)
	switch {
	case err == nil && aws.ToString(g.InternetGatewayId) == wanted:
		return nil
	case err == nil:
		if _, err := c.DetachInternetGateway(ctx, &ec2.DetachInternetGatewayInput{
			InternetGatewayId: g.InternetGatewayId, VpcId: &vpcID}); err != nil {
			return err
		}
	case !resource.IsNotFound(err):
		return err
	}
	_, err = c.AttachInternetGateway(ctx, &ec2.AttachInternetGatewayInput{InternetGatewayId: &wanted, VpcId: &vpcID})
	return err
}

var natGateways = kind[types.NatGateway]{
	resource: types.ResourceTypeNatgateway,
	list: func(ctx context.Context, c *ec2.Client, ids []string, filters []types.Filter) ([]types.NatGateway, error) {
		out, err := c.DescribeNatGateways(ctx, &ec2.DescribeNatGatewaysInput{NatGatewayIds: ids, Filter: filters})
		if err != nil {
			return nil, err
		}
		return out.NatGateways, nil
	},
	id: func(g *types.NatGateway) *string { return g.NatGatewayId },
	gone: func(g *types.NatGateway) bool {
		return g.State == types.NatGatewayStateDeleted || g.State == types.NatGatewayStateDeleting
	},
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-natgateway.html
var natGateway = resource.Type{
	Tagged: true,
	Refused: []string{"AvailabilityMode", "AvailabilityZoneAddresses", "MaxDrainDurationSeconds", "SecondaryAllocationIds",
		"VpcId"},
	Handler: resource.Handle(resource.Table[*ec2.Client, types.NatGateway]{
		Client: client,
		Create: resource.Create((*ec2.Client).CreateNatGateway, nil,
			func(out *ec2.CreateNatGatewayOutput) *string { return out.NatGateway.NatGatewayId },
			func(r *resource.Request, in *ec2.CreateNatGatewayInput) error {
				in.TagSpecifications = natGateways.tags(r)
				return nil
			}),
		Find: natGateways.find,
		Describe: func(ctx context.Context, c *ec2.Client, r *resource.Request) (*types.NatGateway, error) {
			return only(natGateways.list(ctx, c, []string{r.PhysicalID}, nil))
		},
		State: func(g *types.NatGateway) (resource.State, error) {
			switch g.State {
			case types.NatGatewayStatePending:
				return resource.Creating, nil
			case types.NatGatewayStateFailed:
				return resource.Creating, resource.Errorf(resource.NotStabilized, "NatGateway %s is in state failed and hence "+
					"failed to stabilize. Detailed failure message: %s", aws.ToString(g.NatGatewayId),
					aws.ToString(g.FailureMessage))
			case types.NatGatewayStateDeleting:
				return resource.Deleting, nil
			case types.NatGatewayStateDeleted:
				return resource.Gone, nil
			}
			return resource.Ready, nil
		},
		Configure: []resource.Step[*ec2.Client]{retag},
		Replace:   []string{"SecondaryPrivateIpAddressCount", "SecondaryPrivateIpAddresses"},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			_, err := c.DeleteNatGateway(ctx, &ec2.DeleteNatGatewayInput{NatGatewayId: &r.PhysicalID})
			return err
		},
		Slow: true,
		Attributes: func(r *resource.Request, g *types.NatGateway) map[string]any {
			attributes := map[string]any{"NatGatewayId": r.PhysicalID}
			for _, a := range g.NatGatewayAddresses {
				if aws.ToBool(a.IsPrimary) {
					attributes["EniId"] = aws.ToString(a.NetworkInterfaceId)
				}
			}
			return attributes
		},
		Properties: func(_ context.Context, _ *ec2.Client, _ *resource.Request, g *types.NatGateway) (map[string]any, error) {
			properties := map[string]any{"SubnetId": aws.ToString(g.SubnetId),
				"ConnectivityType": string(g.ConnectivityType)}
			var secondary []any
			for _, a := range g.NatGatewayAddresses {
				if !aws.ToBool(a.IsPrimary) {
					secondary = append(secondary, aws.ToString(a.PrivateIp))
					continue
				}
				properties["PrivateIpAddress"] = aws.ToString(a.PrivateIp)
				if a.AllocationId != nil {
					properties["AllocationId"] = *a.AllocationId
				}
			}
			if secondary = slices.Clip(secondary); len(secondary) > 0 {
				properties["SecondaryPrivateIpAddresses"] = secondary
			}
			return encode(properties, nil, g.Tags, nil), nil
		},
	}),
}
