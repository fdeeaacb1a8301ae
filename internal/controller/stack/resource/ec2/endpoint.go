package ec2

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

var endpoints = kind[types.VpcEndpoint]{
	resource: types.ResourceTypeVpcEndpoint,
	list: func(ctx context.Context, c *ec2.Client, ids []string, filters []types.Filter) ([]types.VpcEndpoint, error) {
		out, err := c.DescribeVpcEndpoints(ctx, &ec2.DescribeVpcEndpointsInput{VpcEndpointIds: ids, Filters: filters})
		if err != nil {
			return nil, err
		}
		return out.VpcEndpoints, nil
	},
	id: func(e *types.VpcEndpoint) *string { return e.VpcEndpointId },
	gone: func(e *types.VpcEndpoint) bool {
		return isState(e, types.StateDeleted) || isState(e, types.StateDeleting)
	},
}

// isState reports whether an endpoint is in a state. EC2 writes the states in lower case, the SDK in upper case.
func isState(e *types.VpcEndpoint, state types.State) bool {
	return strings.EqualFold(string(e.State), string(state))
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-vpcendpoint.html
var vpcEndpoint = resource.Type{
	Tagged:  true,
	Refused: []string{"DnsOptions", "ResourceConfigurationArn", "ServiceNetworkArn"},
	Handler: resource.Handle(resource.Table[*ec2.Client, types.VpcEndpoint]{
		Client: client,
		Create: resource.Create((*ec2.Client).CreateVpcEndpoint, nil,
			func(out *ec2.CreateVpcEndpointOutput) *string { return out.VpcEndpoint.VpcEndpointId },
			func(r *resource.Request, in *ec2.CreateVpcEndpointInput) error {
				if in.VpcEndpointType == types.VpcEndpointTypeInterface && in.PrivateDnsEnabled == nil {
					in.PrivateDnsEnabled = new(false) // the default of CloudFormation; that of EC2 is true
				}
				in.TagSpecifications = endpoints.tags(r)
				return nil
			}),
		Find: endpoints.find,
		Describe: func(ctx context.Context, c *ec2.Client, r *resource.Request) (*types.VpcEndpoint, error) {
			return only(endpoints.list(ctx, c, []string{r.PhysicalID}, nil))
		},
		State: func(e *types.VpcEndpoint) (resource.State, error) {
			switch {
			case isState(e, types.StatePending):
				return resource.Creating, nil
			case isState(e, types.StateDeleting):
				return resource.Deleting, nil
			case isState(e, types.StateDeleted):
				return resource.Gone, nil
			case isState(e, types.StateFailed), isState(e, types.StateRejected), isState(e, types.StateExpired):
				return resource.Creating, resource.Errorf(resource.NotStabilized, "VPC endpoint %s is in state %s",
					aws.ToString(e.VpcEndpointId), e.State)
			}
			return resource.Ready, nil
		},
		Configure: []resource.Step[*ec2.Client]{
			{Properties: []string{"IpAddressType", "PolicyDocument", "PrivateDnsEnabled", "RouteTableIds",
				"SecurityGroupIds", "SubnetIds"}, Update: true, Run: modifyEndpoint},
			retag,
		},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			out, err := c.DeleteVpcEndpoints(ctx, &ec2.DeleteVpcEndpointsInput{VpcEndpointIds: []string{r.PhysicalID}})
			if err != nil {
				return err
			}
			for _, failed := range out.Unsuccessful {
				if failed.Error != nil {
					return resource.ItemError(aws.ToString(failed.Error.Code), aws.ToString(failed.Error.Message))
				}
			}
			return nil
		},
		Slow: true,
		Attributes: func(_ *resource.Request, e *types.VpcEndpoint) map[string]any {
			var names []string
			for _, entry := range e.DnsEntries {
				names = append(names, aws.ToString(entry.HostedZoneId)+":"+aws.ToString(entry.DnsName))
			}
			return map[string]any{
				"Id": aws.ToString(e.VpcEndpointId), "DnsEntries": anyList(names),
				"NetworkInterfaceIds": anyList(e.NetworkInterfaceIds),
				"CreationTimestamp":   aws.ToTime(e.CreationTimestamp).UTC().Format(time.RFC3339),
			}
		},
		Properties: func(_ context.Context, _ *ec2.Client, _ *resource.Request, e *types.VpcEndpoint) (
			map[string]any, error) {
			var groups any
			if ids := groupIDs(e); len(ids) > 0 {
				groups = anyList(ids)
			}
			return encode(e, nil, e.Tags, map[string]any{"SecurityGroupIds": groups}), nil
		},
	}),
}

func groupIDs(e *types.VpcEndpoint) []string {
	var ids []string
	for _, g := range e.Groups {
		ids = append(ids, aws.ToString(g.GroupId))
	}
	return ids
}

// modifyEndpoint makes an endpoint what the properties say.
func modifyEndpoint(ctx context.Context, c *ec2.Client, r *resource.Request) error {
	e, err := endpoints.describe(ctx, c, r)
	if err != nil {
		return err
	}
	in := &ec2.ModifyVpcEndpointInput{VpcEndpointId: &r.PhysicalID}
	if r.Changed("RouteTableIds") {
		in.AddRouteTableIds, in.RemoveRouteTableIds = listChanges(e.RouteTableIds, r.Texts("RouteTableIds"))
	}
	if r.Changed("SubnetIds") {
		in.AddSubnetIds, in.RemoveSubnetIds = listChanges(e.SubnetIds, r.Texts("SubnetIds"))
	}
	if r.Changed("SecurityGroupIds") {
		in.AddSecurityGroupIds, in.RemoveSecurityGroupIds = listChanges(groupIDs(e), r.Texts("SecurityGroupIds"))
	}
	if r.Changed("PolicyDocument") {
		if in.PolicyDocument = r.Pointer("PolicyDocument"); in.PolicyDocument == nil {
			in.ResetPolicy = new(true)
		}
	}
	if r.Changed("PrivateDnsEnabled") && e.VpcEndpointType == types.VpcEndpointTypeInterface {
		in.PrivateDnsEnabled = flag(r, "PrivateDnsEnabled", false).Value
	}
	if r.Changed("IpAddressType") {
		in.IpAddressType = types.IpAddressType(r.Text("IpAddressType"))
	}
	_, err = c.ModifyVpcEndpoint(ctx, in)
	return err
}

// listChanges returns what is to be added to a list, and removed from it.
func listChanges(live, wanted []string) (added, removed []string) {
	for _, id := range wanted {
		if !slices.Contains(live, id) {
			added = append(added, id)
		}
	}
	for _, id := range live {
		if !slices.Contains(wanted, id) {
			removed = append(removed, id)
		}
	}
	return added, removed
}
