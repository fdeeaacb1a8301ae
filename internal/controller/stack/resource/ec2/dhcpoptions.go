package ec2

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

var dhcpOptionSets = kind[types.DhcpOptions]{
	resource: types.ResourceTypeDhcpOptions,
	list: func(ctx context.Context, c *ec2.Client, ids []string, filters []types.Filter) ([]types.DhcpOptions, error) {
		out, err := c.DescribeDhcpOptions(ctx, &ec2.DescribeDhcpOptionsInput{DhcpOptionsIds: ids, Filters: filters})
		if err != nil {
			return nil, err
		}
		return out.DhcpOptions, nil
	},
	id: func(o *types.DhcpOptions) *string { return o.DhcpOptionsId },
}

// dhcpNames are the names that EC2 has for the properties of DHCP options.
var dhcpNames = []struct{ property, option string }{
	{"DomainName", "domain-name"}, {"DomainNameServers", "domain-name-servers"}, {"NtpServers", "ntp-servers"},
	{"NetbiosNameServers", "netbios-name-servers"}, {"NetbiosNodeType", "netbios-node-type"},
	{"Ipv6AddressPreferredLeaseTime", "ipv6-address-preferred-lease-time"},
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-dhcpoptions.html
var dhcpOptions = resource.Type{
	Tagged: true,
	Handler: resource.Handle(resource.Table[*ec2.Client, types.DhcpOptions]{
		Client: client,
		Create: resource.Create((*ec2.Client).CreateDhcpOptions, resource.Members{
			"DomainName": resource.Left, "DomainNameServers": resource.Left, "NtpServers": resource.Left,
			"NetbiosNameServers": resource.Left, "NetbiosNodeType": resource.Left,
			"Ipv6AddressPreferredLeaseTime": resource.Left,
		},
			func(out *ec2.CreateDhcpOptionsOutput) *string { return out.DhcpOptions.DhcpOptionsId },
			func(r *resource.Request, in *ec2.CreateDhcpOptionsInput) error {
				for _, name := range dhcpNames {
					if values := r.Texts(name.property); len(values) > 0 {
						in.DhcpConfigurations = append(in.DhcpConfigurations,
							types.NewDhcpConfiguration{Key: &name.option, Values: values})
					}
				}
				in.TagSpecifications = dhcpOptionSets.tags(r)
				return nil
			}),
		Find:      dhcpOptionSets.find,
		Describe:  dhcpOptionSets.describe,
		Configure: []resource.Step[*ec2.Client]{retag},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			_, err := c.DeleteDhcpOptions(ctx, &ec2.DeleteDhcpOptionsInput{DhcpOptionsId: &r.PhysicalID})
			return err
		},
		Attributes: func(r *resource.Request, _ *types.DhcpOptions) map[string]any {
			return map[string]any{"DhcpOptionsId": r.PhysicalID}
		},
		Properties: func(_ context.Context, _ *ec2.Client, _ *resource.Request, o *types.DhcpOptions) (
			map[string]any, error) {
			properties := map[string]any{}
			for _, configuration := range o.DhcpConfigurations {
				for _, name := range dhcpNames {
					if name.option != aws.ToString(configuration.Key) {
						continue
					}
					var values []any
					for _, value := range configuration.Values {
						values = append(values, aws.ToString(value.Value))
					}
					switch {
					case strings.HasSuffix(name.property, "Servers"):
						properties[name.property] = values
					case name.property == "DomainName" && len(values) == 1:
						properties[name.property] = values[0]
					case len(values) == 1:
						properties[name.property] = json.Number(resource.Text(values[0]))
					}
				}
			}
			return encode(properties, nil, o.Tags, nil), nil
		},
	}),
}

// standardOptions stand for the DHCP options that a VPC without others has.
const standardOptions = "default"

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-vpcdhcpoptionsassociation.html
var vpcDHCPOptionsAssociation = resource.Type{
	Handler: resource.Note(resource.Table[*ec2.Client, types.Vpc]{
		Client: client,
		// Create is repeatable: it sets one attribute of the VPC.
		Create: func(ctx context.Context, c *ec2.Client, r *resource.Request) (string, error) {
			_, err := resource.Call(ctx, c, r, (*ec2.Client).AssociateDhcpOptions, nil)
			if err != nil {
				return "", err
			}
			return r.Text("DhcpOptionsId") + "|" + r.Text("VpcId"), nil
		},
		Find: func(ctx context.Context, c *ec2.Client, r *resource.Request) (string, error) {
			called := *r
			called.PhysicalID = r.Text("DhcpOptionsId") + "|" + r.Text("VpcId")
			_, err := describeOptionsOf(ctx, c, &called)
			return called.PhysicalID, err
		},
		Describe: describeOptionsOf,
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			v, err := describeOptionsOf(ctx, c, r)
			if err != nil {
				return err
			}
			_, err = c.AssociateDhcpOptions(ctx, &ec2.AssociateDhcpOptionsInput{VpcId: v.VpcId,
				DhcpOptionsId: new(standardOptions)})
			return err
		},
	}),
}

// describeOptionsOf returns the VPC of an association, if it has the DHCP options.
func describeOptionsOf(ctx context.Context, c *ec2.Client, r *resource.Request) (*types.Vpc, error) {
	options, vpcID, _ := strings.Cut(r.PhysicalID, "|")
	v, err := vpcs.get(ctx, c, vpcID)
	if err != nil {
		return nil, err
	}
	if aws.ToString(v.DhcpOptionsId) != options {
		return nil, resource.ErrNotFound
	}
	return v, nil
}
