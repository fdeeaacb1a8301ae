package ec2

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

var networkInterfaces = kind[types.NetworkInterface]{
	resource: types.ResourceTypeNetworkInterface,
	list: func(ctx context.Context, c *ec2.Client, ids []string, filters []types.Filter) (
		[]types.NetworkInterface, error) {
		out, err := c.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: ids,
			Filters: filters})
		if err != nil {
			return nil, err
		}
		return out.NetworkInterfaces, nil
	},
	id: func(n *types.NetworkInterface) *string { return n.NetworkInterfaceId },
}

// interfaceMembers are the members of network interfaces that have other names than properties.
var interfaceMembers = resource.Members{"GroupSet": "Groups"}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-networkinterface.html
var networkInterface = resource.Type{
	Tagged:  true,
	Refused: []string{"ConnectionTrackingSpecification", "PublicIpDnsHostnameTypeSpecification"},
	Handler: resource.Handle(resource.Table[*ec2.Client, types.NetworkInterface]{
		Client: client,
		Create: resource.Create((*ec2.Client).CreateNetworkInterface, interfaceMembers,
			func(out *ec2.CreateNetworkInterfaceOutput) *string { return out.NetworkInterface.NetworkInterfaceId },
			func(r *resource.Request, in *ec2.CreateNetworkInterfaceInput) error {
				in.TagSpecifications = networkInterfaces.tags(r)
				return nil
			}),
		Find:     networkInterfaces.find,
		Describe: networkInterfaces.describe,
		State: func(n *types.NetworkInterface) (resource.State, error) {
			if n.Status == "pending" {
				return resource.Creating, nil
			}
			return resource.Ready, nil
		},
		Configure: []resource.Step[*ec2.Client]{
			{Properties: []string{"SourceDestCheck"}, Run: modifyInterface(func(r *resource.Request,
				in *ec2.ModifyNetworkInterfaceAttributeInput) {
				in.SourceDestCheck = flag(r, "SourceDestCheck", true)
			})},
			{Properties: []string{"Description"}, Update: true, Run: modifyInterface(func(r *resource.Request,
				in *ec2.ModifyNetworkInterfaceAttributeInput) {
				in.Description = &types.AttributeValue{Value: new(r.Text("Description"))}
			})},
			{Properties: []string{"GroupSet"}, Update: true, Run: modifyInterface(func(r *resource.Request,
				in *ec2.ModifyNetworkInterfaceAttributeInput) {
				in.Groups = r.Texts("GroupSet")
			})},
			{Properties: []string{"EnablePrimaryIpv6"}, Update: true, Run: modifyInterface(func(r *resource.Request,
				in *ec2.ModifyNetworkInterfaceAttributeInput) {
				in.EnablePrimaryIpv6 = r.Flag("EnablePrimaryIpv6")
			})},
			retag,
		},
		Replace: []string{"Ipv4PrefixCount", "Ipv4Prefixes", "Ipv6AddressCount", "Ipv6Addresses", "Ipv6PrefixCount",
			"Ipv6Prefixes", "PrivateIpAddresses", "SecondaryPrivateIpAddressCount"},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			_, err := c.DeleteNetworkInterface(ctx, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: &r.PhysicalID})
			return err
		},
		Attributes: func(_ *resource.Request, n *types.NetworkInterface) map[string]any {
			secondary := []any{}
			for _, a := range n.PrivateIpAddresses {
				if !aws.ToBool(a.Primary) {
					secondary = append(secondary, aws.ToString(a.PrivateIpAddress))
				}
			}
			attributes := map[string]any{
				"Id": aws.ToString(n.NetworkInterfaceId), "VpcId": aws.ToString(n.VpcId),
				"PrimaryPrivateIpAddress":     aws.ToString(n.PrivateIpAddress),
				"SecondaryPrivateIpAddresses": secondary, "PrimaryIpv6Address": "",
			}
			for _, a := range n.Ipv6Addresses {
				if aws.ToBool(a.IsPrimaryIpv6) {
					attributes["PrimaryIpv6Address"] = aws.ToString(a.Ipv6Address)
				}
			}
			return attributes
		},
		Properties: func(_ context.Context, _ *ec2.Client, _ *resource.Request, n *types.NetworkInterface) (
			map[string]any, error) {
			groups := []any{}
			for _, g := range n.Groups {
				groups = append(groups, aws.ToString(g.GroupId))
			}
			private := []any{}
			for _, a := range n.PrivateIpAddresses {
				private = append(private, map[string]any{"PrivateIpAddress": aws.ToString(a.PrivateIpAddress),
					"Primary": aws.ToBool(a.Primary)})
			}
			return encode(n, nil, n.TagSet, map[string]any{"GroupSet": groups, "PrivateIpAddresses": private}), nil
		},
	}),
}

// modifyInterface returns the run of a step that sets one attribute of a network interface.
func modifyInterface(set func(*resource.Request, *ec2.ModifyNetworkInterfaceAttributeInput)) func(context.Context,
	*ec2.Client, *resource.Request) error {
	return func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
		in := &ec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceId: &r.PhysicalID}
		set(r, in)
		_, err := c.ModifyNetworkInterfaceAttribute(ctx, in)
		return err
	}
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-networkinterfaceattachment.html
var networkInterfaceAttachment = resource.Type{
	Refused: []string{"EnaQueueCount", "EnaSrdSpecification"},
	Handler: resource.Note(resource.Table[*ec2.Client, types.NetworkInterface]{
		Client: client,
		Create: resource.Create((*ec2.Client).AttachNetworkInterface, nil,
			func(out *ec2.AttachNetworkInterfaceOutput) *string { return out.AttachmentId }),
		Find: func(ctx context.Context, c *ec2.Client, r *resource.Request) (string, error) {
			n, err := networkInterfaces.get(ctx, c, r.Text("NetworkInterfaceId"))
			if err != nil {
				return "", err
			}
			if n.Attachment == nil || aws.ToString(n.Attachment.InstanceId) != r.Text("InstanceId") {
				return "", resource.ErrNotFound
			}
			return aws.ToString(n.Attachment.AttachmentId), nil
		},
		Describe: describeAttachment,
		State: func(n *types.NetworkInterface) (resource.State, error) {
			switch n.Attachment.Status {
			case types.AttachmentStatusAttaching:
				return resource.Creating, nil
			case types.AttachmentStatusDetaching:
				return resource.Deleting, nil
			case types.AttachmentStatusDetached:
				return resource.Gone, nil
			}
			return resource.Ready, nil
		},
		// The default of CloudFormation is that the network interface goes with its instance; that of EC2 is that it stays.
		Configure: []resource.Step[*ec2.Client]{{Properties: []string{"DeleteOnTermination", "NetworkInterfaceId"},
			Run: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
				n, err := describeAttachment(ctx, c, r)
				if err != nil {
					return err
				}
				_, err = c.ModifyNetworkInterfaceAttribute(ctx, &ec2.ModifyNetworkInterfaceAttributeInput{
					NetworkInterfaceId: n.NetworkInterfaceId, Attachment: &types.NetworkInterfaceAttachmentChanges{
						AttachmentId: &r.PhysicalID, DeleteOnTermination: flag(r, "DeleteOnTermination", true).Value}})
				return err
			}}},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			_, err := c.DetachNetworkInterface(ctx, &ec2.DetachNetworkInterfaceInput{AttachmentId: &r.PhysicalID,
				Force: new(true)})
			return err
		},
		Slow: true,
		Attributes: func(r *resource.Request, _ *types.NetworkInterface) map[string]any {
			return map[string]any{"AttachmentId": r.PhysicalID}
		},
		Properties: func(_ context.Context, _ *ec2.Client, _ *resource.Request, n *types.NetworkInterface) (
			map[string]any, error) {
			return map[string]any{
				"InstanceId": aws.ToString(n.Attachment.InstanceId), "NetworkInterfaceId": aws.ToString(n.NetworkInterfaceId),
				"DeviceIndex":         json.Number(strconv.Itoa(int(aws.ToInt32(n.Attachment.DeviceIndex)))),
				"DeleteOnTermination": aws.ToBool(n.Attachment.DeleteOnTermination),
			}, nil
		},
	}),
}

// describeAttachment returns the network interface of an attachment.
func describeAttachment(ctx context.Context, c *ec2.Client, r *resource.Request) (*types.NetworkInterface, error) {
	n, err := only(networkInterfaces.list(ctx, c, nil, []types.Filter{filter("attachment.attachment-id", r.PhysicalID)}))
	if err != nil {
		return nil, err
	}
	if n.Attachment == nil {
		return nil, resource.ErrNotFound
	}
	return n, nil
}
