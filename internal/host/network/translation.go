//go:build linux

package network

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"sync"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// staleTranslations returns the public addresses that the router translates now, but is not to translate to the same
// private address any more, and the addresses of load balancers that have gone.
func (r *router) staleTranslations() (stale map[netip.Addr]bool, err error) {
	conn, err := nftables.New(nftables.WithNetNSFd(int(r.file.Fd())))
	if err != nil {
		return nil, err
	}
	table := &nftables.Table{Name: tableName, Family: nftables.TableFamilyINet}
	now, err := conn.GetSetByName(table, "public-addresses")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read public addresses: %w", err)
	}
	elements, err := conn.GetSetElements(now)
	if err != nil {
		return nil, fmt.Errorf("read public addresses: %w", err)
	}
	stale = map[netip.Addr]bool{}
	for _, e := range elements {
		private, ok1 := netip.AddrFromSlice(e.Key)
		public, ok2 := netip.AddrFromSlice(e.Val)
		if ok1 && ok2 && r.public[private] != public {
			stale[public] = true
		}
	}
	return stale, r.addStaleBalancers(conn, table, stale)
}

// dumping is held while the connections of a VPC are in memory, so that those of one VPC are at a time.
var dumping sync.Mutex

// forgetTranslations ends the connections of public addresses that moved: they would go on with the old address.
func (r *router) forgetTranslations(stale map[netip.Addr]bool) error {
	if len(stale) == 0 {
		return nil
	}
	handle, err := netlink.NewHandleAt(netns.NsHandle(r.file.Fd()), unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer handle.Close()
	// It reads all connections of the VPC, some 100 MB if they are as many as the kernel lets a namespace have.
	dumping.Lock()
	defer dumping.Unlock()
	if _, err := handle.ConntrackDeleteFilters(netlink.ConntrackTable, netlink.FAMILY_V4,
		translated(stale)); err != nil {
		return fmt.Errorf("end connections of addresses that moved: %w", err)
	}
	return nil
}

// translated matches connections that were translated from or to one of the addresses.
type translated map[netip.Addr]bool

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (t translated) MatchConntrackFlow(f *netlink.ConntrackFlow) bool {
	to, _ := netip.AddrFromSlice(f.Forward.DstIP)
	as, _ := netip.AddrFromSlice(f.Reverse.DstIP)
	return t[to.Unmap()] || t[as.Unmap()]
}

// natRules make a namespace a NAT gateway: what it forwards leaves with its own address, and what nobody inside asked
// for is dropped.
func (s *namespace) natRules() error {
	r := &ruleset{name: tableName}
	c := r.addChain("input", &hook{kind: nftables.ChainTypeFilter, at: nftables.ChainHookInput,
		priority: *nftables.ChainPriorityFilter, drop: true})
	c.addRule(matchInputLink("lo"), accept())
	c = r.addChain("source", &hook{kind: nftables.ChainTypeNAT, at: nftables.ChainHookPostrouting,
		priority: *nftables.ChainPriorityNATSource})
	c.addRule(matchOutputLink("eth0"), matchIPv4(), masquerade())
	return r.apply(s.file, &applied{has: map[string]appliedState{}})
}
