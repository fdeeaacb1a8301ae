package networkinterface

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// ipv4Delegation and ipv6Delegation are the sizes of the blocks in which addresses are booked and delegated.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-prefix-eni.html
const (
	ipv4Delegation = 28
	ipv6Delegation = 80
)

// bookingBlock returns the booking block that contains an address.
func bookingBlock(ip netip.Addr) netip.Prefix {
	bits := ipv4Delegation
	if ip.Is6() {
		bits = ipv6Delegation
	}
	p, _ := ip.Prefix(bits) // cannot fail: the size fits the family
	return p
}

// FreeAddresses returns the number of IPv4 addresses of a subnet that nobody uses: all but the five that AWS keeps
// and those
// in use. A delegated prefix uses all of its addresses.
func FreeAddresses(s *resource.Records, sc resource.Scope, subnet record.Subnet) int {
	free := 1<<(32-netip.MustParsePrefix(subnet.CIDR).Bits()) - 5
	for _, row := range resource.MustRead(s.AddressBlocks.List(sc, store.Prefix(sc.Account, sc.Region, subnet.ID))) {
		parts := store.Parts(row.Key)
		if ip, err := netip.ParseAddr(parts[len(parts)-1]); err != nil || ip.Is6() {
			continue
		}
		if row.Value.PrefixOf != "" {
			free -= 1 << (32 - ipv4Delegation)
		}
		free -= len(row.Value.Addresses)
	}
	return free
}

// reserved reports whether AWS keeps an address of a subnet's block: the first four and the last.
// https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html
func reserved(subnet netip.Prefix, ip netip.Addr) bool {
	first := subnet.Addr()
	for range 4 {
		if ip == first {
			return true
		}
		first = first.Next()
	}
	return !subnet.Contains(ip.Next())
}

// booking is a row of address blocks while a change edits it.
type booking = store.Row[record.AddressBlock]

// openBooking opens the booking row of the block that ip lies in. It is written with the change, and deleted when
// empty.
func openBooking(c *resource.Change, subnetID string, ip netip.Addr) (*booking, error) {
	key := record.AddressBlockKey(c.Account, c.Region, subnetID, bookingBlock(ip).Addr().String())
	name := "block/" + key
	if row, ok := c.PlannedRow(name); ok {
		return row.(*booking), nil
	}
	row, err := c.AddressBlocks.Copy(c, key)
	fresh := errors.Is(err, store.ErrNotFound)
	if err != nil && !fresh {
		return nil, err
	}
	row.Key = key
	if row.Value.Addresses == nil {
		row.Value.Addresses = map[string]string{}
	}
	c.AddRow(name, &row, func() store.Op {
		empty := row.Value.PrefixOf == "" && len(row.Value.Addresses) == 0
		switch {
		case fresh && empty:
			return c.AddressBlocks.AbsentOp(key)
		case fresh:
			return c.AddressBlocks.CreateOp(key, row.Value)
		case empty:
			return c.AddressBlocks.DeleteOp(row)
		}
		return c.AddressBlocks.UpdateOp(row)
	})
	return &row, nil
}

// findAddressUser returns the user of an address according to the store and this change; empty when the address is
// free.
func findAddressUser(c *resource.Change, subnetID string, ip netip.Addr) string {
	key := record.AddressBlockKey(c.Account, c.Region, subnetID, bookingBlock(ip).Addr().String())
	var value record.AddressBlock
	if row, ok := c.PlannedRow("block/" + key); ok {
		value = row.(*booking).Value
	} else {
		value = resource.MustRead(c.AddressBlocks.Get(c, key)).Value
	}
	if value.PrefixOf != "" {
		return value.PrefixOf
	}
	return value.Addresses[ip.String()]
}

// takeAddress books an address for a network interface.
func takeAddress(c *resource.Change, subnetID string, ip netip.Addr, interfaceID string) error {
	taken, err := tryAddress(c, subnetID, ip, interfaceID)
	if err == nil && !taken {
		err = wire.Errorf("InvalidIPAddress.InUse", "Address %s is in use.", ip)
	}
	return err
}

// tryAddress books an address, unless it is in use. It decides by the record that the change will write: another call
// may have written it since it was read.
func tryAddress(c *resource.Change, subnetID string, ip netip.Addr, interfaceID string) (taken bool, err error) {
	row, err := openBooking(c, subnetID, ip)
	if err != nil || row.Value.PrefixOf != "" || row.Value.Addresses[ip.String()] != "" {
		return false, err
	}
	row.Value.Addresses[ip.String()] = interfaceID
	return true, nil
}

// takePrefix delegates a whole block to a network interface.
func takePrefix(c *resource.Change, subnetID string, prefix netip.Prefix, interfaceID string) error {
	row, err := openBooking(c, subnetID, prefix.Addr())
	if err != nil {
		return err
	}
	if row.Value.PrefixOf != "" || len(row.Value.Addresses) > 0 {
		return wire.Errorf("InvalidIPAddress.InUse", "Prefix %s is in use.", prefix)
	}
	row.Value.PrefixOf = interfaceID
	return nil
}

// giveBack frees addresses and delegated prefixes of a network interface.
func giveBack(c *resource.Change, subnetID string, addresses []string, prefixes []string) error {
	for _, a := range addresses {
		row, err := openBooking(c, subnetID, netip.MustParseAddr(a))
		if err != nil {
			return err
		}
		delete(row.Value.Addresses, a)
	}
	for _, p := range prefixes {
		row, err := openBooking(c, subnetID, netip.MustParsePrefix(p).Addr())
		if err != nil {
			return err
		}
		row.Value.PrefixOf = ""
	}
	return nil
}

// pickAddress books a free address. The search begins anywhere, so that concurrent calls rarely meet.
func pickAddress(c *resource.Change, subnetID, cidr, interfaceID string) (string, error) {
	subnet := netip.MustParsePrefix(cidr)
	full := wire.Errorf("InsufficientFreeAddressesInSubnet",
		"The specified subnet does not have enough free addresses to satisfy the request.")
	if subnet.Addr().Is6() {
		for range 1000 { // of 2⁶⁴
			ip := addressAt(subnet, rand.Uint64())
			if reserved(subnet, ip) || findAddressUser(c, subnetID, ip) != "" {
				continue
			}
			if taken, err := tryAddress(c, subnetID, ip, interfaceID); taken || err != nil {
				return ip.String(), err
			}
		}
		return "", full
	}
	size := uint64(1) << (32 - subnet.Bits())
	for i, start := uint64(0), rand.Uint64N(size); i < size; i++ {
		ip := addressAt(subnet, (start+i)%size)
		if reserved(subnet, ip) || findAddressUser(c, subnetID, ip) != "" {
			continue
		}
		if taken, err := tryAddress(c, subnetID, ip, interfaceID); taken || err != nil {
			return ip.String(), err
		}
	}
	return "", full
}

// pickPrefix delegates a free block.
func pickPrefix(c *resource.Change, subnetID, cidr, interfaceID string) (string, error) {
	subnet := netip.MustParsePrefix(cidr)
	var width, blocks uint64 // addresses in a block, blocks in the subnet
	if subnet.Addr().Is4() {
		width, blocks = 1<<(32-ipv4Delegation), 1<<(ipv4Delegation-subnet.Bits())
	} else {
		width, blocks = 1<<(128-ipv6Delegation), 1<<(ipv6Delegation-subnet.Bits())
	}
	for i, start := uint64(0), rand.Uint64N(blocks); i < blocks; i++ {
		prefix := bookingBlock(addressAt(subnet, (start+i)%blocks*width))
		if !delegable(subnet, prefix) {
			continue
		}
		key := record.AddressBlockKey(c.Account, c.Region, subnetID, prefix.Addr().String())
		if _, pending := c.PlannedRow("block/" + key); pending {
			continue
		}
		if _, err := c.AddressBlocks.Get(c, key); errors.Is(err, store.ErrNotFound) {
			return prefix.String(), takePrefix(c, subnetID, prefix, interfaceID)
		}
	}
	return "", wire.Errorf("InsufficientCidrBlocks",
		"The specified subnet does not have enough free cidr blocks to satisfy the request.")
}

// delegable reports whether a subnet's block can be delegated whole: no address in it is AWS's own.
func delegable(subnet, prefix netip.Prefix) bool {
	return subnet.Contains(prefix.Addr()) && !reserved(subnet, prefix.Addr()) &&
		subnet.Contains(lastAddress(prefix).Next())
}

// lastAddress returns the last address of a block.
func lastAddress(p netip.Prefix) netip.Addr {
	a := p.Addr().As16()
	bits := p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	for i := bits; i < 128; i++ {
		a[i/8] |= 1 << (7 - i%8)
	}
	ip := netip.AddrFrom16(a)
	if p.Addr().Is4() {
		return ip.Unmap()
	}
	return ip
}

// addressAt returns the n-th address of a subnet.
func addressAt(subnet netip.Prefix, n uint64) netip.Addr {
	if subnet.Addr().Is4() {
		a := subnet.Addr().As4()
		binary.BigEndian.PutUint32(a[:], binary.BigEndian.Uint32(a[:])+uint32(n))
		return netip.AddrFrom4(a)
	}
	a := subnet.Addr().As16()
	binary.BigEndian.PutUint64(a[8:], binary.BigEndian.Uint64(a[8:])+n)
	return netip.AddrFrom16(a)
}
