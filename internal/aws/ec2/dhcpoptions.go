package ec2

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// noDHCPOptions is the id that stands for no options at all.
const noDHCPOptions = "default"

func (s *Service) dhcpOptionsKind() kind[record.DHCPOptions, types.DhcpOptions] {
	type v = types.DhcpOptions
	return kind[record.DHCPOptions, v]{
		naming: naming{
			resource: types.ResourceTypeDhcpOptions, prefix: "dopt-", noun: "dhcpOption ID", param: "dhcpOptionsId",
			notFound: "InvalidDhcpOptionID.NotFound", malformed: "InvalidDhcpOptionsId.Malformed",
		},
		table:  record.DHCPOptionsTable(s.store),
		view:   s.viewDHCPOptions,
		tagged: func(x v) []types.Tag { return x.Tags },
		filters: filters[v]{
			"dhcp-options-id": stringFilter(func(x v) *string { return x.DhcpOptionsId }),
			"key": func(x v) []string {
				return collectValues(x.DhcpConfigurations, func(o types.DhcpConfiguration) *string { return o.Key })
			},
			"value": func(x v) []string {
				var all []string
				for _, o := range x.DhcpConfigurations {
					all = append(all, collectValues(o.Values,
						func(a types.AttributeValue) *string { return a.Value })...)
				}
				return all
			},
			"owner-id": stringFilter(func(x v) *string { return x.OwnerId }),
		},
	}
}

func (s *Service) viewDHCPOptions(in scope, r record.DHCPOptions) types.DhcpOptions {
	v := types.DhcpOptions{
		DhcpConfigurations: []types.DhcpConfiguration{}, DhcpOptionsId: aws.String(r.ID),
		OwnerId: aws.String(r.Account), Tags: s.listTagSet(in, r.ID),
	}
	for _, key := range slices.Sorted(maps.Keys(r.Options)) {
		option := types.DhcpConfiguration{Key: aws.String(key)}
		for _, value := range r.Options[key] {
			option.Values = append(option.Values, types.AttributeValue{Value: aws.String(value)})
		}
		v.DhcpConfigurations = append(v.DhcpConfigurations, option)
	}
	return v
}

// claimDHCPOptions makes sure that options which a VPC is to use stay.
func (c *change) claimDHCPOptions(id string) error {
	if id == noDHCPOptions {
		return nil
	}
	return c.s.dhcpOptions.claimRecord(c, id)
}

// firstDHCPOptions are the options of a new VPC, claimed: the default ones of the region, or none when their owner
// deleted them.
func (c *change) firstDHCPOptions(region record.EC2Region) (string, error) {
	err := c.claimDHCPOptions(region.DefaultDHCPOptionsID)
	var refused *wire.Error
	if errors.As(err, &refused) && refused.Code == c.s.dhcpOptions.notFound {
		return noDHCPOptions, nil
	}
	return region.DefaultDHCPOptionsID, err
}

// dhcpLimits is how many values each DHCP option may have.
// https://docs.aws.amazon.com/vpc/latest/userguide/DHCPOptionSet.html
var dhcpLimits = map[string]int{
	"domain-name": 1, "domain-name-servers": 4, "ntp-servers": 4, "netbios-name-servers": 4, "netbios-node-type": 1,
	"ipv6-address-preferred-lease-time": 1,
}

// dhcpOptionsHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) dhcpOptionsHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateDhcpOptions, creating[ec2.CreateDhcpOptionsInput](s, types.ResourceTypeDhcpOptions)),
		wire.Handle(s.DescribeDhcpOptions, onRegion),
		wire.Handle(s.AssociateDhcpOptions, touching[ec2.AssociateDhcpOptionsInput](s)),
		wire.Handle(s.DeleteDhcpOptions, touching[ec2.DeleteDhcpOptionsInput](s)),
	}
}

// CreateDhcpOptions makes a set of DHCP options.
func (s *Service) CreateDhcpOptions(ctx context.Context, in *ec2.CreateDhcpOptionsInput) (*ec2.CreateDhcpOptionsOutput,
	error) {
	out, err := createResource(ctx, s, s.dhcpOptions, creation{dryRun: in.DryRun, tags: in.TagSpecifications},
		func(c *change, id string) error {
			if len(in.DhcpConfigurations) == 0 {
				return missing("dhcpConfiguration")
			}
			options := record.DHCPOptions{EC2Resource: c.identity(id, nil), Options: map[string][]string{}}
			for _, o := range in.DhcpConfigurations {
				key := aws.ToString(o.Key)
				limit, known := dhcpLimits[key]
				if !known {
					return invalidValue(key, "dhcpOption", "Unknown DHCP option.")
				}
				if len(o.Values) == 0 || len(o.Values) > limit {
					return invalid("The DHCP option %s takes 1 to %d values.", key, limit)
				}
				if key == "domain-name-servers" || key == "ntp-servers" || key == "netbios-name-servers" {
					for _, value := range o.Values {
						if _, err := netip.ParseAddr(value); err != nil && value != "AmazonProvidedDNS" {
							return invalid("Invalid value '%s' for DHCP option %s. Not a valid IP address.", value, key)
						}
					}
				}
				options.Options[key] = o.Values
			}
			s.dhcpOptions.createRecord(c, options)
			return nil
		})
	return &ec2.CreateDhcpOptionsOutput{DhcpOptions: out}, err
}

// DescribeDhcpOptions lists sets of DHCP options.
func (s *Service) DescribeDhcpOptions(ctx context.Context, in *ec2.DescribeDhcpOptionsInput) (
	*ec2.DescribeDhcpOptionsOutput, error) {
	found, next, err := describe(ctx, s, s.dhcpOptions, query{in.DryRun, in.DhcpOptionsIds, in.Filters, in.MaxResults,
		in.NextToken})
	return &ec2.DescribeDhcpOptionsOutput{DhcpOptions: found, NextToken: next}, err
}

// AssociateDhcpOptions gives a VPC another set of DHCP options, or none.
func (s *Service) AssociateDhcpOptions(ctx context.Context, in *ec2.AssociateDhcpOptionsInput) (
	*ec2.AssociateDhcpOptionsOutput, error) {
	return &ec2.AssociateDhcpOptionsOutput{}, s.applyChange(ctx, in.DryRun, func(c *change) error {
		id := aws.ToString(in.DhcpOptionsId)
		if err := c.claimDHCPOptions(id); err != nil {
			return err
		}
		return s.vpcs.updateRecord(c, aws.ToString(in.VpcId), func(r *record.VPC) error {
			r.DHCPOptionsID = id
			return nil
		})
	})
}

// DeleteDhcpOptions deletes a set of DHCP options that no VPC uses.
func (s *Service) DeleteDhcpOptions(ctx context.Context, in *ec2.DeleteDhcpOptionsInput) (*ec2.DeleteDhcpOptionsOutput,
	error) {
	return &ec2.DeleteDhcpOptionsOutput{}, s.applyChange(ctx, in.DryRun, func(c *change) error {
		id := aws.ToString(in.DhcpOptionsId)
		// The row that is deleted is read before the VPCs, whose association would have written it.
		if _, err := s.dhcpOptions.deleteRecord(c, id); err != nil {
			return err
		}
		if used, err := s.vpcs.hasMatch(c.scope, func(r record.VPC) bool { return r.DHCPOptionsID == id }); err != nil {
			return err
		} else if used {
			return wire.Errorf("DependencyViolation", "The dhcpOptions '%s' has dependencies and cannot be deleted.",
				id)
		}
		return nil
	})
}
