package ec2

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// addresses are elastic IP addresses. Their physical IDs, which Ref returns, are the addresses themselves.
var addresses = kind[types.Address]{
	resource: types.ResourceTypeElasticIp,
	list: func(ctx context.Context, c *ec2.Client, ips []string, filters []types.Filter) ([]types.Address, error) {
		out, err := c.DescribeAddresses(ctx, &ec2.DescribeAddressesInput{PublicIps: ips, Filters: filters})
		if err != nil {
			return nil, err
		}
		return out.Addresses, nil
	},
	id: func(a *types.Address) *string { return a.PublicIp },
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-eip.html
var elasticAddress = resource.Type{
	Tagged:  true,
	Refused: []string{"Address", "IpamPoolId", "TransferAddress"},
	Handler: resource.Handle(resource.Table[*ec2.Client, types.Address]{
		Client: client,
		Create: resource.Create((*ec2.Client).AllocateAddress, nil,
			func(out *ec2.AllocateAddressOutput) *string { return out.PublicIp },
			func(r *resource.Request, in *ec2.AllocateAddressInput) error {
				in.TagSpecifications = addresses.tags(r)
				return nil
			}),
		Find:     addresses.find,
		Describe: addresses.describe,
		Configure: []resource.Step[*ec2.Client]{
			{Properties: []string{"InstanceId"}, Run: associateInstance},
			{Properties: []string{"Tags"}, Tags: true, Run: func(ctx context.Context, c *ec2.Client,
				r *resource.Request) error {
				a, err := addresses.describe(ctx, c, r)
				if err != nil {
					return err
				}
				return changeTags(ctx, c, r, aws.ToString(a.AllocationId))
			}},
		},
		Replace: []string{"PublicIpv4Pool"},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			a, err := addresses.describe(ctx, c, r)
			if err != nil {
				return err
			}
			if r.Text("InstanceId") != "" && a.AssociationId != nil {
				if _, err := c.DisassociateAddress(ctx,
					&ec2.DisassociateAddressInput{AssociationId: a.AssociationId}); err != nil && !resource.IsNotFound(err) {
					return err
				}
			}
			_, err = c.ReleaseAddress(ctx, &ec2.ReleaseAddressInput{AllocationId: a.AllocationId})
			return err
		},
		Attributes: func(_ *resource.Request, a *types.Address) map[string]any {
			return map[string]any{"AllocationId": aws.ToString(a.AllocationId), "PublicIp": aws.ToString(a.PublicIp)}
		},
		Properties: func(_ context.Context, _ *ec2.Client, _ *resource.Request, a *types.Address) (map[string]any, error) {
			return encode(a, nil, a.Tags, nil), nil
		},
	}),
}

// associateInstance points an address at the instance of its property, or at none.
func associateInstance(ctx context.Context, c *ec2.Client, r *resource.Request) error {
	a, err := addresses.describe(ctx, c, r)
	if err != nil {
		return err
	}
	wanted := r.Text("InstanceId")
	switch {
	case aws.ToString(a.InstanceId) == wanted:
		return nil
	case wanted == "":
		_, err = c.DisassociateAddress(ctx, &ec2.DisassociateAddressInput{AssociationId: a.AssociationId})
		return err
	}
	_, err = c.AssociateAddress(ctx, &ec2.AssociateAddressInput{AllocationId: a.AllocationId, InstanceId: &wanted,
		AllowReassociation: new(true)})
	return err
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-eipassociation.html
var elasticAddressAssociation = resource.Type{
	Handler: resource.Note(resource.Table[*ec2.Client, types.Address]{
		Client: client,
		Create: resource.Create((*ec2.Client).AssociateAddress, resource.Members{"EIP": "PublicIp"},
			func(out *ec2.AssociateAddressOutput) *string { return out.AssociationId }),
		Find: func(ctx context.Context, c *ec2.Client, r *resource.Request) (string, error) {
			by := filter("allocation-id", r.Text("AllocationId"))
			if ip := r.Text("EIP"); ip != "" {
				by = filter("public-ip", ip)
			}
			a, err := only(addresses.list(ctx, c, nil, []types.Filter{by}))
			if err != nil {
				return "", err
			}
			instance, networkInterface := r.Text("InstanceId"), r.Text("NetworkInterfaceId")
			if a.AssociationId == nil || instance != "" && instance != aws.ToString(a.InstanceId) ||
				networkInterface != "" && networkInterface != aws.ToString(a.NetworkInterfaceId) {
				return "", resource.ErrNotFound
			}
			return *a.AssociationId, nil
		},
		Describe: func(ctx context.Context, c *ec2.Client, r *resource.Request) (*types.Address, error) {
			return only(addresses.list(ctx, c, nil, []types.Filter{filter("association-id", r.PhysicalID)}))
		},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			_, err := c.DisassociateAddress(ctx, &ec2.DisassociateAddressInput{AssociationId: &r.PhysicalID})
			return err
		},
		Attributes: func(r *resource.Request, _ *types.Address) map[string]any {
			return map[string]any{"Id": r.PhysicalID}
		},
		Members: resource.Members{"EIP": "PublicIp"},
	}),
}
