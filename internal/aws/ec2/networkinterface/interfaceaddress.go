package networkinterface

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/instancetype"
	"github.com/coracle-eks/coracle/internal/record"
)

// Addressing is the part of a request about one address family.
type Addressing struct {
	Addresses, Prefixes       []string
	AddressCount, PrefixCount *int32
}

// assignAddresses books what is wanted out of a subnet's block for a network interface.
func assignAddresses(
	c *resource.Change, interfaceID, subnetID, cidr string, want Addressing,
) (addresses, prefixes []string, err error) {
	n, m := aws.ToInt32(want.AddressCount), aws.ToInt32(want.PrefixCount)
	switch {
	case len(want.Addresses)+len(want.Prefixes) > 0 || n != 0 || m != 0:
		if cidr == "" {
			return nil, nil, resource.Invalid("The subnet '%s' has no IPv6 CIDR block.", subnetID)
		}
	default:
		return nil, nil, nil
	}
	if n < 0 || n > maxAddressesPerCall {
		return nil, nil, resource.InvalidValue(n, "addressCount", fmt.Sprintf("Expecting a value between 1 and %d.",
			maxAddressesPerCall))
	}
	if m < 0 || m > maxAddressesPerCall {
		return nil, nil, resource.InvalidValue(m, "prefixCount", fmt.Sprintf("Expecting a value between 1 and %d.",
			maxAddressesPerCall))
	}
	subnet := netip.MustParsePrefix(cidr)
	for _, a := range want.Addresses {
		ip, err := netip.ParseAddr(a)
		switch {
		case err != nil:
			return nil, nil, resource.Invalid("invalid value for parameter address: %s", a)
		case !subnet.Contains(ip):
			return nil, nil, resource.Invalid("Address does not fall within the subnet's address range")
		case reserved(subnet, ip):
			return nil, nil, resource.Invalid("Address is in subnet's reserved address range")
		}
		if err := takeAddress(c, subnetID, ip, interfaceID); err != nil {
			return nil, nil, err
		}
		addresses = append(addresses, ip.String())
	}
	for _, p := range want.Prefixes {
		prefix, err := netip.ParsePrefix(p)
		if err != nil || prefix != bookingBlock(prefix.Addr()) || !delegable(subnet, prefix) {
			return nil, nil, resource.Invalid("The prefix %s cannot be delegated from the subnet's block %s.", p, cidr)
		}
		if err := takePrefix(c, subnetID, prefix, interfaceID); err != nil {
			return nil, nil, err
		}
		prefixes = append(prefixes, prefix.String())
	}
	for range n {
		a, err := pickAddress(c, subnetID, cidr, interfaceID)
		if err != nil {
			return nil, nil, err
		}
		addresses = append(addresses, a)
	}
	for range m {
		p, err := pickPrefix(c, subnetID, cidr, interfaceID)
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

// RequestedAddresses reads the IPv4 addresses that a request wants; primary is empty when it may be any.
func RequestedAddresses(in *ec2.CreateNetworkInterfaceInput) (primary string, secondary Addressing, err error) {
	primary = aws.ToString(in.PrivateIpAddress)
	for _, a := range in.PrivateIpAddresses {
		switch {
		case !aws.ToBool(a.Primary):
			secondary.Addresses = append(secondary.Addresses, aws.ToString(a.PrivateIpAddress))
		case primary != "" && primary != aws.ToString(a.PrivateIpAddress):
			return "", secondary, wire.Errorf("InvalidParameterCombination",
				"Only one primary private IP address can be specified.")
		default:
			primary = aws.ToString(a.PrivateIpAddress)
		}
	}
	for _, p := range in.Ipv4Prefixes {
		secondary.Prefixes = append(secondary.Prefixes, aws.ToString(p.Ipv4Prefix))
	}
	secondary.AddressCount, secondary.PrefixCount = in.SecondaryPrivateIpAddressCount, in.Ipv4PrefixCount
	return primary, secondary, CheckExclusive(secondary)
}

// CheckExclusive refuses both a list and a count.
func CheckExclusive(want Addressing) error {
	if len(want.Addresses) > 0 && want.AddressCount != nil || len(want.Prefixes) > 0 && want.PrefixCount != nil {
		return wire.Errorf("InvalidParameterCombination",
			"Only one of a list and a count of addresses or prefixes may be specified.")
	}
	return nil
}

// AssignIPv4 adds the IPv4 addresses and prefixes that are wanted to an interface.
func AssignIPv4(c *resource.Change, ni *record.NetworkInterface, subnet record.Subnet, want Addressing) error {
	ips, prefixes, err := assignAddresses(c, ni.ID, subnet.ID, subnet.CIDR, want)
	ni.PrivateIPs, ni.IPv4Prefixes = append(ni.PrivateIPs, ips...), append(ni.IPv4Prefixes, prefixes...)
	return cmp.Or(err, checkMaxAddresses(ni.PrivateIPs, ni.IPv4Prefixes))
}

// maxAddresses returns the maximum number of addresses of a family that the network interfaces of any instance type
// have. No interface has more, attached or not: what is done for each pair of addresses depends on it.
var maxAddresses = sync.OnceValue(func() (most int) {
	for _, t := range instancetype.All() {
		most = max(most, t.IPv4PerENI, t.IPv6PerENI)
	}
	return most
})

func checkMaxAddresses(addresses, prefixes []string) error {
	if len(addresses)+len(prefixes) > maxAddresses() {
		return AddressLimitExceeded()
	}
	return nil
}

// AssignIPv6 adds the IPv6 addresses and prefixes that are wanted to an interface.
func AssignIPv6(c *resource.Change, ni *record.NetworkInterface, subnet record.Subnet, want Addressing) error {
	var cidr string
	if subnet.IPv6 != nil {
		cidr = subnet.IPv6.CIDR
	}
	ips, prefixes, err := assignAddresses(c, ni.ID, subnet.ID, cidr, want)
	ni.IPv6IPs, ni.IPv6Prefixes = append(ni.IPv6IPs, ips...), append(ni.IPv6Prefixes, prefixes...)
	return cmp.Or(err, checkMaxAddresses(ni.IPv6IPs, ni.IPv6Prefixes))
}

// interfaceAddressHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) interfaceAddressHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.AssignPrivateIpAddresses, resource.Touching[ec2.AssignPrivateIpAddressesInput](s.Records)),
		wire.Handle(s.UnassignPrivateIpAddresses, resource.Touching[ec2.UnassignPrivateIpAddressesInput](s.Records)),
		wire.Handle(s.AssignIpv6Addresses, resource.Touching[ec2.AssignIpv6AddressesInput](s.Records)),
		wire.Handle(s.UnassignIpv6Addresses, resource.Touching[ec2.UnassignIpv6AddressesInput](s.Records)),
	}
}

// AssignPrivateIpAddresses gives a network interface more IPv4 addresses or prefixes.
func (s *Service) AssignPrivateIpAddresses(ctx context.Context, in *ec2.AssignPrivateIpAddressesInput) (
	*ec2.AssignPrivateIpAddressesOutput, error) {
	out := &ec2.AssignPrivateIpAddressesOutput{NetworkInterfaceId: in.NetworkInterfaceId}
	return out, s.ApplyChange(ctx, nil, func(c *resource.Change) error {
		want := Addressing{in.PrivateIpAddresses, in.Ipv4Prefixes, in.SecondaryPrivateIpAddressCount,
			in.Ipv4PrefixCount}
		if err := CheckExclusive(want); err != nil {
			return err
		}
		if len(want.Addresses)+len(want.Prefixes) == 0 && want.AddressCount == nil && want.PrefixCount == nil {
			return resource.MissingParameter("secondaryPrivateIpAddressCount")
		}
		return Edit(c, in.NetworkInterfaceId, func(r *record.NetworkInterface) error {
			subnet, err := s.Subnets.GetRecord(c.Scope, &r.SubnetID)
			if err != nil {
				return err
			}
			if aws.ToBool(in.AllowReassignment) {
				if err := takeOver(c, *r, want.Addresses); err != nil {
					return err
				}
			}
			had, prefixes := len(r.PrivateIPs), len(r.IPv4Prefixes)
			if err := AssignIPv4(c, r, subnet, want); err != nil {
				return err
			}
			if err := fitsHolder(c, *r); err != nil {
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
func takeOver(c *resource.Change, to record.NetworkInterface, addresses []string) error {
	for _, a := range addresses {
		ip, err := netip.ParseAddr(a)
		if err != nil {
			return resource.Invalid("invalid value for parameter address: %s", a)
		}
		owner := findAddressUser(c, to.SubnetID, ip)
		if owner == "" || owner == to.ID {
			continue
		}
		if err := Edit(c, &owner, func(r *record.NetworkInterface) error {
			i := slices.Index(r.PrivateIPs, ip.String())
			if i < 1 {
				// as primary address, or in a prefix
				return wire.Errorf("InvalidIPAddress.InUse", "Address %s is in use.", ip)
			}
			r.PrivateIPs = slices.Delete(r.PrivateIPs, i, i+1)
			if err := dissociate(c, r.ID, []string{a}); err != nil {
				return err
			}
			return giveBack(c, r.SubnetID, []string{ip.String()}, nil)
		}); err != nil {
			return err
		}
	}
	return nil
}

// UnassignPrivateIpAddresses takes secondary IPv4 addresses and prefixes from a network interface.
func (s *Service) UnassignPrivateIpAddresses(ctx context.Context, in *ec2.UnassignPrivateIpAddressesInput) (
	*ec2.UnassignPrivateIpAddressesOutput, error) {
	return &ec2.UnassignPrivateIpAddressesOutput{}, s.ApplyChange(ctx, nil, func(c *resource.Change) error {
		if len(in.PrivateIpAddresses)+len(in.Ipv4Prefixes) == 0 {
			return resource.MissingParameter("privateIpAddress")
		}
		return Edit(c, in.NetworkInterfaceId, func(r *record.NetworkInterface) error {
			if slices.Contains(in.PrivateIpAddresses, r.PrivateIPs[0]) {
				return resource.Invalid("Cannot unassign the primary private IP address %s of network interface '%s'.",
					r.PrivateIPs[0], r.ID)
			}
			if err := dissociate(c, r.ID, in.PrivateIpAddresses); err != nil {
				return err
			}
			return unassign(c, r, &r.PrivateIPs, &r.IPv4Prefixes, in.PrivateIpAddresses, in.Ipv4Prefixes)
		})
	})
}

// unassign takes addresses and prefixes of one family from an interface; it must have them all.
func unassign(c *resource.Change, r *record.NetworkInterface, hasAddresses, hasPrefixes *[]string, addresses,
	prefixes []string) error {
	for _, give := range []struct {
		has   *[]string
		takes []string
	}{{hasAddresses, addresses}, {hasPrefixes, prefixes}} {
		for _, a := range give.takes {
			i := slices.Index(*give.has, a)
			if i < 0 {
				return resource.Invalid("Some of the specified addresses are not assigned to interface %s", r.ID)
			}
			*give.has = slices.Delete(*give.has, i, i+1)
		}
	}
	return giveBack(c, r.SubnetID, addresses, prefixes)
}

// AssignIpv6Addresses gives a network interface IPv6 addresses or prefixes.
func (s *Service) AssignIpv6Addresses(ctx context.Context, in *ec2.AssignIpv6AddressesInput) (
	*ec2.AssignIpv6AddressesOutput, error) {
	out := &ec2.AssignIpv6AddressesOutput{NetworkInterfaceId: in.NetworkInterfaceId}
	return out, s.ApplyChange(ctx, nil, func(c *resource.Change) error {
		want := Addressing{in.Ipv6Addresses, in.Ipv6Prefixes, in.Ipv6AddressCount, in.Ipv6PrefixCount}
		if err := CheckExclusive(want); err != nil {
			return err
		}
		return Edit(c, in.NetworkInterfaceId, func(r *record.NetworkInterface) error {
			subnet, err := s.Subnets.GetRecord(c.Scope, &r.SubnetID)
			if err != nil {
				return err
			}
			// The subnet's IPv6 block must stay: those who take it away hold the VPC.
			if err := s.Subnets.Require(c, subnet.ID); err != nil {
				return err
			}
			c.TouchVPC(r.VPCID)
			had, prefixes := len(r.IPv6IPs), len(r.IPv6Prefixes)
			err = AssignIPv6(c, r, subnet, want)
			out.AssignedIpv6Addresses, out.AssignedIpv6Prefixes = r.IPv6IPs[had:], r.IPv6Prefixes[prefixes:]
			if err == nil {
				err = fitsHolder(c, *r)
			}
			return err
		})
	})
}

// UnassignIpv6Addresses takes IPv6 addresses and prefixes from a network interface.
func (s *Service) UnassignIpv6Addresses(ctx context.Context, in *ec2.UnassignIpv6AddressesInput) (
	*ec2.UnassignIpv6AddressesOutput, error) {
	err := s.ApplyChange(ctx, nil, func(c *resource.Change) error {
		if len(in.Ipv6Addresses)+len(in.Ipv6Prefixes) == 0 {
			return resource.MissingParameter("ipv6Addresses")
		}
		return Edit(c, in.NetworkInterfaceId, func(r *record.NetworkInterface) error {
			return unassign(c, r, &r.IPv6IPs, &r.IPv6Prefixes, in.Ipv6Addresses, in.Ipv6Prefixes)
		})
	})
	return &ec2.UnassignIpv6AddressesOutput{NetworkInterfaceId: in.NetworkInterfaceId,
		UnassignedIpv6Addresses: in.Ipv6Addresses, UnassignedIpv6Prefixes: in.Ipv6Prefixes}, err
}
