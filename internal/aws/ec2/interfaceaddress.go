package ec2

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// addressing is what a request wants of one address family.
type addressing struct {
	addresses, prefixes         []string
	addressCount, prefixesCount *int32
}

// assignAddresses books what is wanted out of a subnet's block for a network interface.
func (c *change) assignAddresses(interfaceID, subnetID, cidr string, want addressing) (addresses, prefixes []string,
	err error) {
	n, m := aws.ToInt32(want.addressCount), aws.ToInt32(want.prefixesCount)
	switch {
	case len(want.addresses)+len(want.prefixes) > 0 || n != 0 || m != 0:
		if cidr == "" {
			return nil, nil, invalid("The subnet '%s' has no IPv6 CIDR block.", subnetID)
		}
	default:
		return nil, nil, nil
	}
	if n < 0 || n > maxAddressesPerCall {
		return nil, nil, invalidValue(n, "addressCount", fmt.Sprintf("Expecting a value between 1 and %d.",
			maxAddressesPerCall))
	}
	if m < 0 || m > maxAddressesPerCall {
		return nil, nil, invalidValue(m, "prefixCount", fmt.Sprintf("Expecting a value between 1 and %d.",
			maxAddressesPerCall))
	}
	subnet := netip.MustParsePrefix(cidr)
	for _, a := range want.addresses {
		ip, err := netip.ParseAddr(a)
		switch {
		case err != nil:
			return nil, nil, invalid("invalid value for parameter address: %s", a)
		case !subnet.Contains(ip):
			return nil, nil, invalid("Address does not fall within the subnet's address range")
		case reserved(subnet, ip):
			return nil, nil, invalid("Address is in subnet's reserved address range")
		}
		if err := c.takeAddress(subnetID, ip, interfaceID); err != nil {
			return nil, nil, err
		}
		addresses = append(addresses, ip.String())
	}
	for _, p := range want.prefixes {
		prefix, err := netip.ParsePrefix(p)
		if err != nil || prefix != bookingBlock(prefix.Addr()) || !delegable(subnet, prefix) {
			return nil, nil, invalid("The prefix %s cannot be delegated from the subnet's block %s.", p, cidr)
		}
		if err := c.takePrefix(subnetID, prefix, interfaceID); err != nil {
			return nil, nil, err
		}
		prefixes = append(prefixes, prefix.String())
	}
	for range n {
		a, err := c.pickAddress(subnetID, cidr, interfaceID)
		if err != nil {
			return nil, nil, err
		}
		addresses = append(addresses, a)
	}
	for range m {
		p, err := c.pickPrefix(subnetID, cidr, interfaceID)
		if err != nil {
			return nil, nil, err
		}
		prefixes = append(prefixes, p)
	}
	return addresses, prefixes, nil
}

// maxAddressesPerCall keeps a transaction within what etcd takes (128 operations); the largest instance has 50
// addresses on an interface.
const maxAddressesPerCall = 50

// wantedAddresses reads the IPv4 addresses that a request wants; primary is empty when it may be any.
func wantedAddresses(in *ec2.CreateNetworkInterfaceInput) (primary string, secondary addressing, err error) {
	primary = aws.ToString(in.PrivateIpAddress)
	for _, a := range in.PrivateIpAddresses {
		switch {
		case !aws.ToBool(a.Primary):
			secondary.addresses = append(secondary.addresses, aws.ToString(a.PrivateIpAddress))
		case primary != "" && primary != aws.ToString(a.PrivateIpAddress):
			return "", secondary, wire.Errorf("InvalidParameterCombination",
				"Only one primary private IP address can be specified.")
		default:
			primary = aws.ToString(a.PrivateIpAddress)
		}
	}
	for _, p := range in.Ipv4Prefixes {
		secondary.prefixes = append(secondary.prefixes, aws.ToString(p.Ipv4Prefix))
	}
	secondary.addressCount, secondary.prefixesCount = in.SecondaryPrivateIpAddressCount, in.Ipv4PrefixCount
	return primary, secondary, exclusive(secondary)
}

// exclusive refuses both a list and a count.
func exclusive(want addressing) error {
	if len(want.addresses) > 0 && want.addressCount != nil || len(want.prefixes) > 0 && want.prefixesCount != nil {
		return wire.Errorf("InvalidParameterCombination",
			"Only one of a list and a count of addresses or prefixes may be specified.")
	}
	return nil
}

func (c *change) assignIPv4(ni *record.NetworkInterface, subnet record.Subnet, want addressing) error {
	ips, prefixes, err := c.assignAddresses(ni.ID, subnet.ID, subnet.CIDR, want)
	ni.PrivateIPs, ni.IPv4Prefixes = append(ni.PrivateIPs, ips...), append(ni.IPv4Prefixes, prefixes...)
	return err
}

func (c *change) assignIPv6(ni *record.NetworkInterface, subnet record.Subnet, want addressing) error {
	var cidr string
	if subnet.IPv6 != nil {
		cidr = subnet.IPv6.CIDR
	}
	ips, prefixes, err := c.assignAddresses(ni.ID, subnet.ID, cidr, want)
	ni.IPv6IPs, ni.IPv6Prefixes = append(ni.IPv6IPs, ips...), append(ni.IPv6Prefixes, prefixes...)
	return err
}

// interfaceAddressHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) interfaceAddressHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.AssignPrivateIpAddresses, touching[ec2.AssignPrivateIpAddressesInput](s)),
		wire.Handle(s.UnassignPrivateIpAddresses, touching[ec2.UnassignPrivateIpAddressesInput](s)),
		wire.Handle(s.AssignIpv6Addresses, touching[ec2.AssignIpv6AddressesInput](s)),
		wire.Handle(s.UnassignIpv6Addresses, touching[ec2.UnassignIpv6AddressesInput](s)),
	}
}

// AssignPrivateIpAddresses gives a network interface more IPv4 addresses or prefixes.
func (s *Service) AssignPrivateIpAddresses(ctx context.Context, in *ec2.AssignPrivateIpAddressesInput) (
	*ec2.AssignPrivateIpAddressesOutput, error) {
	out := &ec2.AssignPrivateIpAddressesOutput{NetworkInterfaceId: in.NetworkInterfaceId}
	return out, s.applyChange(ctx, nil, func(c *change) error {
		want := addressing{in.PrivateIpAddresses, in.Ipv4Prefixes, in.SecondaryPrivateIpAddressCount,
			in.Ipv4PrefixCount}
		if err := exclusive(want); err != nil {
			return err
		}
		if len(want.addresses)+len(want.prefixes) == 0 && want.addressCount == nil && want.prefixesCount == nil {
			return missing("secondaryPrivateIpAddressCount")
		}
		return c.editInterface(in.NetworkInterfaceId, func(r *record.NetworkInterface) error {
			subnet, err := s.subnets.getRecord(c.scope, &r.SubnetID)
			if err != nil {
				return err
			}
			if aws.ToBool(in.AllowReassignment) {
				if err := c.takeOver(*r, want.addresses); err != nil {
					return err
				}
			}
			had, prefixes := len(r.PrivateIPs), len(r.IPv4Prefixes)
			if err := c.assignIPv4(r, subnet, want); err != nil {
				return err
			}
			if err := c.fitsHolder(*r); err != nil {
				return err
			}
			out.AssignedPrivateIpAddresses, out.AssignedIpv4Prefixes = []types.AssignedPrivateIpAddress{},
				viewIPv4Prefixes(r.IPv4Prefixes[prefixes:])
			for _, ip := range r.PrivateIPs[had:] {
				out.AssignedPrivateIpAddresses = append(out.AssignedPrivateIpAddresses,
					types.AssignedPrivateIpAddress{PrivateIpAddress: aws.String(ip)})
			}
			return nil
		})
	})
}

// takeOver frees those of the addresses that other interfaces have as secondary ones.
func (c *change) takeOver(to record.NetworkInterface, addresses []string) error {
	for _, a := range addresses {
		ip, err := netip.ParseAddr(a)
		if err != nil {
			return invalid("invalid value for parameter address: %s", a)
		}
		owner := c.findAddressUser(to.SubnetID, ip)
		if owner == "" || owner == to.ID {
			continue
		}
		if err := c.editInterface(&owner, func(r *record.NetworkInterface) error {
			i := slices.Index(r.PrivateIPs, ip.String())
			if i < 1 {
				// as primary address, or in a prefix
				return wire.Errorf("InvalidIPAddress.InUse", "Address %s is in use.", ip)
			}
			r.PrivateIPs = slices.Delete(r.PrivateIPs, i, i+1)
			if err := c.dissociate(r.ID, []string{a}); err != nil {
				return err
			}
			return c.giveBack(r.SubnetID, []string{ip.String()}, nil)
		}); err != nil {
			return err
		}
	}
	return nil
}

// UnassignPrivateIpAddresses takes secondary IPv4 addresses and prefixes from a network interface.
func (s *Service) UnassignPrivateIpAddresses(ctx context.Context, in *ec2.UnassignPrivateIpAddressesInput) (
	*ec2.UnassignPrivateIpAddressesOutput, error) {
	return &ec2.UnassignPrivateIpAddressesOutput{}, s.applyChange(ctx, nil, func(c *change) error {
		if len(in.PrivateIpAddresses)+len(in.Ipv4Prefixes) == 0 {
			return missing("privateIpAddress")
		}
		return c.editInterface(in.NetworkInterfaceId, func(r *record.NetworkInterface) error {
			if slices.Contains(in.PrivateIpAddresses, r.PrivateIPs[0]) {
				return invalid("Cannot unassign the primary private IP address %s of network interface '%s'.",
					r.PrivateIPs[0], r.ID)
			}
			if err := c.dissociate(r.ID, in.PrivateIpAddresses); err != nil {
				return err
			}
			return c.unassign(r, &r.PrivateIPs, &r.IPv4Prefixes, in.PrivateIpAddresses, in.Ipv4Prefixes)
		})
	})
}

// unassign takes addresses and prefixes of one family from an interface; it must have them all.
func (c *change) unassign(r *record.NetworkInterface, hasAddresses, hasPrefixes *[]string, addresses,
	prefixes []string) error {
	for _, give := range []struct {
		has   *[]string
		takes []string
	}{{hasAddresses, addresses}, {hasPrefixes, prefixes}} {
		for _, a := range give.takes {
			i := slices.Index(*give.has, a)
			if i < 0 {
				return invalid("Some of the specified addresses are not assigned to interface %s", r.ID)
			}
			*give.has = slices.Delete(*give.has, i, i+1)
		}
	}
	return c.giveBack(r.SubnetID, addresses, prefixes)
}

// AssignIpv6Addresses gives a network interface IPv6 addresses or prefixes.
func (s *Service) AssignIpv6Addresses(ctx context.Context, in *ec2.AssignIpv6AddressesInput) (
	*ec2.AssignIpv6AddressesOutput, error) {
	out := &ec2.AssignIpv6AddressesOutput{NetworkInterfaceId: in.NetworkInterfaceId}
	return out, s.applyChange(ctx, nil, func(c *change) error {
		want := addressing{in.Ipv6Addresses, in.Ipv6Prefixes, in.Ipv6AddressCount, in.Ipv6PrefixCount}
		if err := exclusive(want); err != nil {
			return err
		}
		return c.editInterface(in.NetworkInterfaceId, func(r *record.NetworkInterface) error {
			subnet, err := s.subnets.getRecord(c.scope, &r.SubnetID)
			if err != nil {
				return err
			}
			// The subnet's IPv6 block must stay: those who take it away hold the VPC.
			if err := s.subnets.require(c, subnet.ID); err != nil {
				return err
			}
			c.touchVPC(r.VPCID)
			had, prefixes := len(r.IPv6IPs), len(r.IPv6Prefixes)
			err = c.assignIPv6(r, subnet, want)
			out.AssignedIpv6Addresses, out.AssignedIpv6Prefixes = r.IPv6IPs[had:], r.IPv6Prefixes[prefixes:]
			if err == nil {
				err = c.fitsHolder(*r)
			}
			return err
		})
	})
}

// UnassignIpv6Addresses takes IPv6 addresses and prefixes from a network interface.
func (s *Service) UnassignIpv6Addresses(ctx context.Context, in *ec2.UnassignIpv6AddressesInput) (
	*ec2.UnassignIpv6AddressesOutput, error) {
	err := s.applyChange(ctx, nil, func(c *change) error {
		if len(in.Ipv6Addresses)+len(in.Ipv6Prefixes) == 0 {
			return missing("ipv6Addresses")
		}
		return c.editInterface(in.NetworkInterfaceId, func(r *record.NetworkInterface) error {
			return c.unassign(r, &r.IPv6IPs, &r.IPv6Prefixes, in.Ipv6Addresses, in.Ipv6Prefixes)
		})
	})
	return &ec2.UnassignIpv6AddressesOutput{NetworkInterfaceId: in.NetworkInterfaceId,
		UnassignedIpv6Addresses: in.Ipv6Addresses, UnassignedIpv6Prefixes: in.Ipv6Prefixes}, err
}
