package endpoint

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/miekg/dns"

	"github.com/coracle-eks/coracle/internal/record"
)

// SubnetZone is the range of a subnet with its Availability Zone.
type SubnetZone struct {
	CIDR netip.Prefix
	Zone string
}

// fileSystemDomain returns the domain of the names of EFS file systems.
// https://docs.aws.amazon.com/efs/latest/ug/mounting-fs-mount-cmd-dns-name.html
func fileSystemDomain(region string) string { return "efs." + region + ".amazonaws.com" }

// fileSystemNames are the names of the file systems that have mount targets in a VPC.
type fileSystemNames struct {
	// zonal are the addresses of each name by Availability Zone.
	zonal map[string]map[string][]netip.Addr
	// fixed are the addresses of the names that say an Availability Zone.
	fixed map[string][]netip.Addr
	// subnets are all of the VPC, so that it is known who asks from which Availability Zone.
	subnets []SubnetZone
}

// fileSystems returns the names of file systems, by VPC.
func (t tables) fileSystems(ctx context.Context) (map[string]*fileSystemNames, error) {
	list, err := t.mountTargets.List(ctx, "")
	if err != nil {
		return nil, err
	}
	all := map[string]*fileSystemNames{}
	for _, row := range list {
		m := row.Value
		if !m.Deleted.IsZero() {
			continue
		}
		vpc := record.EC2Key(m.Account, m.Region, m.VPCID)
		names := all[vpc]
		if names == nil {
			names = &fileSystemNames{zonal: map[string]map[string][]netip.Addr{}, fixed: map[string][]netip.Addr{}}
			if names.subnets, err = t.subnetZones(ctx, vpc); err != nil {
				return nil, err
			}
			all[vpc] = names
		}
		var addresses []netip.Addr
		for _, text := range []string{m.IPAddress, m.IPv6Address} {
			if a, err := netip.ParseAddr(text); err == nil {
				addresses = append(addresses, a)
			}
		}
		name := m.FileSystemID + "." + fileSystemDomain(m.Region)
		if names.zonal[name] == nil {
			names.zonal[name] = map[string][]netip.Addr{}
		}
		names.zonal[name][m.AvailabilityZone] = addresses
		names.fixed[m.AvailabilityZone+"."+name] = addresses
	}
	return all, nil
}

// subnetZones returns the ranges of the subnets of a VPC.
func (t tables) subnetZones(ctx context.Context, vpc string) (all []SubnetZone, err error) {
	subnets, err := t.subnetsByVPC.List(ctx, vpc)
	if err != nil {
		return nil, err
	}
	for _, row := range subnets {
		s := row.Value
		cidrs := []string{s.CIDR}
		if s.IPv6 != nil {
			cidrs = append(cidrs, s.IPv6.CIDR)
		}
		for _, cidr := range cidrs {
			p, err := netip.ParsePrefix(cidr)
			if err != nil {
				return nil, fmt.Errorf("range of %s: %w", s.ID, err)
			}
			all = append(all, SubnetZone{CIDR: p.Masked(), Zone: s.AvailabilityZone})
		}
	}
	return all, nil
}

// answerFileSystem answers with the mount target in the Availability Zone of who asks. Somebody outside of all subnets
// gets the address of any.
func answerFileSystem(
	r *Resolver, name string, zones map[string][]netip.Addr, from netip.Addr, q dns.Question,
) *dns.Msg {
	for _, s := range r.Subnets {
		if !s.CIDR.Contains(from) {
			continue
		}
		if all, ok := zones[s.Zone]; ok {
			return addresses(q, recordTTL, all...)
		}
		return missing(name) // as on AWS: the file system is not mounted from other zones by this name
	}
	for _, zone := range slices.Sorted(maps.Keys(zones)) {
		return addresses(q, recordTTL, zones[zone]...)
	}
	return missing(name)
}
