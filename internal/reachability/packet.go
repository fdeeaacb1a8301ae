package reachability

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/vpcrule"
)

// span is a range of numbers that no rule on the way tells apart, represented by its first.
type span struct{ first, last uint32 }

// port returns the port that stands for the range.
func (s span) port() uint16 { return uint16(s.first) }

// one returns the range of one number.
func one[N ~uint16 | ~uint32](n N) span { return span{uint32(n), uint32(n)} }

// place is an address, or a range of them that no rule on the way tells apart.
type place struct {
	at netip.Addr
	span
}

// only returns the place of one address.
func only(a netip.Addr) place { return place{a, one(number(a))} }

// number returns an IPv4 address as a number.
func number(a netip.Addr) uint32 {
	if !a.Is4() {
		return 0
	}
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

// address returns the IPv4 address with a number.
func address(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, n)))
}

// blockSpan returns the addresses of an IPv4 block.
func blockSpan(p netip.Prefix) span {
	first := number(p.Masked().Addr())
	return span{first, first | uint32(uint64(1)<<(32-p.Bits())-1)}
}

// blocks returns a range of addresses as CIDR blocks.
func (s span) blocks() (all []string) {
	for from := uint64(s.first); from <= uint64(s.last); {
		size := 32
		if from != 0 {
			size = bits.TrailingZeros64(from)
		}
		size = min(size, 32, bits.Len64(uint64(s.last)-from+1)-1)
		all = append(all, netip.PrefixFrom(address(uint32(from)), 32-size).String())
		from += 1 << size
	}
	return all
}

// packet is the header of a packet.
type packet struct {
	protocol    byte
	from, to    place
	sport, port span // source and destination port
}

// reply returns the header of the answer.
func (p packet) reply() packet {
	p.from, p.to, p.sport, p.port = p.to, p.from, p.port, p.sport
	return p
}

// header renders a packet.
func (p packet) header() *ec2types.AnalysisPacketHeader {
	ports := func(s span) []ec2types.PortRange {
		return []ec2types.PortRange{{From: aws.Int32(int32(s.first)), To: aws.Int32(int32(s.last))}}
	}
	return &ec2types.AnalysisPacketHeader{
		Protocol:        aws.String(strconv.Itoa(int(p.protocol))),
		SourceAddresses: p.from.span.blocks(), DestinationAddresses: p.to.span.blocks(),
		SourcePortRanges: ports(p.sport), DestinationPortRanges: ports(p.port),
	}
}

// edges are where the rules that were asked begin to decide otherwise, of one field of packets.
type edges map[uint32]bool

// mark records the range of a rule.
func (e edges) mark(s span) {
	e[s.first] = true
	if s.last != ^uint32(0) {
		e[s.last+1] = true
	}
}

// split cuts ranges at the edges, the largest part first.
func (e edges) split(ranges []span) (parts []span) {
	var at []uint32
	for n := range e {
		at = append(at, n)
	}
	slices.Sort(at)
	for _, r := range ranges {
		first := r.first
		for _, n := range at {
			if n > first && n <= r.last {
				parts = append(parts, span{first, n - 1})
				first = n
			}
		}
		parts = append(parts, span{first, r.last})
	}
	slices.SortStableFunc(parts, func(a, b span) int { return -cmp.Compare(a.last-a.first, b.last-b.first) })
	return parts
}

// reserved are the blocks that no address on the internet has.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("224.0.0.0/3"),
}

// internet returns the addresses of the internet: those that are neither reserved nor the VPC's own.
func (n *Network) internet() []span {
	rest := []span{{0, ^uint32(0)}}
	for _, p := range slices.Concat(reserved, n.blocks) {
		if !p.Addr().Is4() {
			continue
		}
		hole := blockSpan(p)
		var left []span
		for _, r := range rest {
			if hole.last < r.first || hole.first > r.last {
				left = append(left, r)
				continue
			}
			if r.first < hole.first {
				left = append(left, span{r.first, hole.first - 1})
			}
			if r.last > hole.last {
				left = append(left, span{hole.last + 1, r.last})
			}
		}
		rest = left
	}
	return rest
}

// portSpan returns the range of ports that a rule matches.
func portSpan(p vpcrule.Ports) span { return span{uint32(p.From), uint32(p.To)} }
