package vpc

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// noDHCPOptions is the id that stands for no options at all.
const noDHCPOptions = "default"

func (s *Service) newDHCPOptionsView() resource.View[record.DHCPOptions, types.DhcpOptions] {
	type v = types.DhcpOptions
	return resource.View[record.DHCPOptions, v]{
		Kind:   s.DHCPOptions,
		Show:   s.viewDHCPOptions,
		Tagged: func(x v) []types.Tag { return x.Tags },
		Filters: resource.Filters[v]{
			"dhcp-options-id": resource.StringFilter(func(x v) *string { return x.DhcpOptionsId }),
			"key": func(x v) []string {
				return resource.CollectValues(x.DhcpConfigurations, func(o types.DhcpConfiguration) *string { return o.Key })
			},
			"value": func(x v) []string {
				var all []string
				for _, o := range x.DhcpConfigurations {
					all = append(all, resource.CollectValues(o.Values,
						func(a types.AttributeValue) *string { return a.Value })...)
				}
				return all
			},
			"owner-id": resource.StringFilter(func(x v) *string { return x.OwnerId }),
		},
	}
}

func (s *Service) viewDHCPOptions(sc resource.Scope, r record.DHCPOptions) types.DhcpOptions {
	v := types.DhcpOptions{
		DhcpConfigurations: []types.DhcpConfiguration{}, DhcpOptionsId: aws.String(r.ID),
		OwnerId: aws.String(r.Account), Tags: s.ListTagSet(sc, r.ID),
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
func claimDHCPOptions(c *resource.Change, id string) error {
	if id == noDHCPOptions {
		return nil
	}
	return c.DHCPOptions.ClaimRecord(c, id)
}

// firstDHCPOptions claims the options of a new VPC: the default ones of the region, or none when their owner deleted
// them.
func firstDHCPOptions(c *resource.Change, region record.EC2Region) (string, error) {
	err := claimDHCPOptions(c, region.DefaultDHCPOptionsID)
	var refused *wire.Error
	if errors.As(err, &refused) && refused.Code == c.DHCPOptions.NotFound {
		return noDHCPOptions, nil
	}
	return region.DefaultDHCPOptionsID, err
}

// dhcpLimits is the maximum number of values of each DHCP option.
// https://docs.aws.amazon.com/vpc/latest/userguide/DHCPOptionSet.html
var dhcpLimits = map[string]int{
	"domain-name": 1, "domain-name-servers": 4, "ntp-servers": 4, "netbios-name-servers": 4, "netbios-node-type": 1,
	"ipv6-address-preferred-lease-time": 1,
}

// dhcpOptionsHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) dhcpOptionsHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(
			s.CreateDhcpOptions,
			resource.Creating[ec2.CreateDhcpOptionsInput](s.Records, types.ResourceTypeDhcpOptions),
		),
		wire.Handle(s.DescribeDhcpOptions, resource.OnRegion),
		wire.Handle(s.AssociateDhcpOptions, resource.Touching[ec2.AssociateDhcpOptionsInput](s.Records)),
		wire.Handle(s.DeleteDhcpOptions, resource.Touching[ec2.DeleteDhcpOptionsInput](s.Records)),
	}
}

// CreateDhcpOptions makes a set of DHCP options.
func (s *Service) CreateDhcpOptions(ctx context.Context, in *ec2.CreateDhcpOptionsInput) (
	*ec2.CreateDhcpOptionsOutput, error) {
	out, err := s.dhcpOptionsView.Create(ctx, resource.Creation{DryRun: in.DryRun, Tags: in.TagSpecifications},
		func(c *resource.Change, id string) error {
			if len(in.DhcpConfigurations) == 0 {
				return resource.MissingParameter("dhcpConfiguration")
			}
			options := record.DHCPOptions{EC2Resource: c.NewResource(id, nil), Options: map[string][]string{}}
			for _, o := range in.DhcpConfigurations {
				key := aws.ToString(o.Key)
				limit, known := dhcpLimits[key]
				if !known {
					return resource.InvalidValue(key, "dhcpOption", "Unknown DHCP option.")
				}
				if len(o.Values) == 0 || len(o.Values) > limit {
					return resource.Invalid("The DHCP option %s takes 1 to %d values.", key, limit)
				}
				if key == "domain-name-servers" || key == "ntp-servers" || key == "netbios-name-servers" {
					for _, value := range o.Values {
						if _, err := netip.ParseAddr(value); err != nil && value != "AmazonProvidedDNS" {
							return resource.Invalid("Invalid value '%s' for DHCP option %s. Not a valid IP address.", value, key)
						}
					}
				}
				options.Options[key] = o.Values
			}
			s.DHCPOptions.CreateRecord(c, options)
			return nil
		})
	return &ec2.CreateDhcpOptionsOutput{DhcpOptions: out}, err
}

// DescribeDhcpOptions lists sets of DHCP options.
func (s *Service) DescribeDhcpOptions(ctx context.Context, in *ec2.DescribeDhcpOptionsInput) (
	*ec2.DescribeDhcpOptionsOutput, error) {
	found, next, err := s.dhcpOptionsView.Describe(
		ctx,
		resource.Query{Operation: "DescribeDhcpOptions", DryRun: in.DryRun, IDs: in.DhcpOptionsIds, Filters: in.Filters,
			Max:   in.MaxResults,
			Token: in.NextToken},
	)
	return &ec2.DescribeDhcpOptionsOutput{DhcpOptions: found, NextToken: next}, err
}

// AssociateDhcpOptions gives a VPC another set of DHCP options, or none.
func (s *Service) AssociateDhcpOptions(ctx context.Context, in *ec2.AssociateDhcpOptionsInput) (
	*ec2.AssociateDhcpOptionsOutput, error) {
	return &ec2.AssociateDhcpOptionsOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		id := aws.ToString(in.DhcpOptionsId)
		if err := claimDHCPOptions(c, id); err != nil {
			return err
		}
		return s.VPCs.UpdateRecord(c, aws.ToString(in.VpcId), func(r *record.VPC) error {
			r.DHCPOptionsID = id
			return nil
		})
	})
}

// DeleteDhcpOptions deletes a set of DHCP options that no VPC uses.
func (s *Service) DeleteDhcpOptions(ctx context.Context, in *ec2.DeleteDhcpOptionsInput) (
	*ec2.DeleteDhcpOptionsOutput, error) {
	return &ec2.DeleteDhcpOptionsOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		id := aws.ToString(in.DhcpOptionsId)
		// The row that is deleted is read before the VPCs, whose association would have written it.
		if _, err := s.DHCPOptions.DeleteRecord(c, id); err != nil {
			return err
		}
		if used, err := s.VPCs.HasMatch(c.Scope, func(r record.VPC) bool { return r.DHCPOptionsID == id }); err != nil {
			return err
		} else if used {
			return wire.Errorf("DependencyViolation", "The dhcpOptions '%s' has dependencies and cannot be deleted.",
				id)
		}
		return nil
	})
}
