//go:build linux

package network

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// forwardInBalancers has the kernel forward in the namespaces of Network Load Balancers, by flows whose targets see the
// load balancer's address. A packet comes in and leaves by the network interface of its zone, so security groups and
// routes apply to it as to what the load balancer sends itself.
func (r *router) forwardInBalancers() error {
	var failures []error
	for holder, flows := range r.forwarded {
		if err := r.forwardIn(holder, flows); err != nil {
			failures = append(failures, fmt.Errorf("forward in %s: %w", holder, err))
		}
	}
	return errors.Join(failures...)
}

func (r *router) forwardIn(holder string, flows []flow) error {
	inside, err := openHandle(r.n.Namespace(holder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is not plugged in yet
	}
	if err != nil {
		return err
	}
	defer inside.close()
	if len(flows) == 0 {
		if there, err := hasTable(inside.file); !there || err != nil {
			return err // connections are not tracked for nothing
		}
	}
	tables := map[netip.Addr]int{}
	for _, p := range r.ports {
		link := r.links[p.portName()]
		if p.holder != holder || link == nil || len(flows) == 0 {
			continue
		}
		mac, err := net.ParseMAC(p.eni.MACAddress)
		if err != nil {
			return err
		}
		peer, err := inside.peerOf(link, mac)
		if err != nil {
			return err
		}
		if peer != nil {
			tables[p.primary()] = sourceTable(peer)
		}
	}
	for _, table := range tables {
		if err := inside.byMark(table); err != nil {
			return err
		}
	}
	if len(flows) > 0 {
		if err := inside.applySysctl(map[string]string{
			// Packets of connections that the process has from before go to it, and those that come late to nobody else.
			"-netfilter/nf_conntrack_tcp_loose":      "0",
			"-netfilter/nf_conntrack_tcp_be_liberal": "1",
			// https://docs.aws.amazon.com/elasticloadbalancing/latest/network/update-idle-timeout.html
			"-netfilter/nf_conntrack_tcp_timeout_established": "350",
			// Of the ports with which connections go to a target, one that does not come about has its own back soon.
			"-netfilter/nf_conntrack_tcp_timeout_syn_sent": "10", "-netfilter/nf_conntrack_tcp_timeout_syn_recv": "10",
		}); err != nil {
			return err
		}
	}
	if err := forwardRules(flows, tables).apply(inside.file, &r.n.applied); err != nil {
		return err
	}
	if len(flows) == 0 {
		return nil
	}
	return inside.applySysctl(map[string]string{"ipv4/ip_forward": "1"}) // the rules let nothing pass but flows
}

// hasTable reports whether a namespace has rules of ours.
func hasTable(s *os.File) (bool, error) {
	conn, err := nftables.New(nftables.WithNetNSFd(int(s.Fd())))
	if err != nil {
		return false, fmt.Errorf("nftables: %w", err)
	}
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyINet)
	return slices.ContainsFunc(tables, func(t *nftables.Table) bool { return t.Name == tableName }), err
}

// forwardRules send new connections to the targets of flows, with the address that they came to as their source. The
// mark of a connection is the table by which its packets leave, both ways: that of the network interface.
func forwardRules(flows []flow, tables map[netip.Addr]int) *ruleset {
	r := &ruleset{name: tableName}
	destination := r.addChain("destination", &hook{kind: nftables.ChainTypeNAT, at: nftables.ChainHookPrerouting,
		priority: *nftables.ChainPriorityNATDest})
	targets := map[netip.AddrPort]bool{}
	for i, f := range flows {
		table, plugged := tables[f.at]
		if !plugged {
			continue
		}
		shares := r.addShares(i, f, targets)
		destination.addRule(addressIn(false, hostPrefix(f.at)), protocolIs(f.protocol),
			portsIn(int32(f.port), int32(f.port)), f.taken(), []expr.Any{
				&expr.Immediate{Register: 1, Data: nativeUint32(uint32(table))},
				&expr.Ct{Key: expr.CtKeyMARK, Register: 1, SourceRegister: true},
			}, f.targetExprs(), []expr.Any{dispatch(shares)})
	}
	// The first packet of a connection has its mark once the chain above has seen it.
	r.addChain("mark", &hook{kind: nftables.ChainTypeFilter, at: nftables.ChainHookPrerouting,
		priority: *nftables.ChainPriorityNATDest + 1}).addRule([]expr.Any{
		&expr.Ct{Key: expr.CtKeyMARK, Register: 1},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: 1},
	})
	r.addChain("forward", &hook{kind: nftables.ChainTypeFilter, at: nftables.ChainHookForward,
		priority: *nftables.ChainPriorityFilter, drop: true}).addRule([]expr.Any{
		&expr.Ct{Key: expr.CtKeyMARK, Register: 1}, differs(nativeUint32(0)),
	}, accept())
	source := r.addChain("source", &hook{kind: nftables.ChainTypeNAT, at: nftables.ChainHookPostrouting,
		priority: *nftables.ChainPriorityNATSource})
	for _, at := range slices.SortedFunc(maps.Keys(tables), netip.Addr.Compare) {
		source.addRule([]expr.Any{
			&expr.Ct{Key: expr.CtKeyMARK, Register: 1}, equals(nativeUint32(uint32(tables[at]))),
			&expr.Immediate{Register: 1, Data: at.AsSlice()},
			&expr.NAT{Type: expr.NATTypeSourceNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1},
		})
	}
	return r
}

// byMark sends what is marked with the number of a table by that table.
func (s *namespace) byMark(table int) error {
	rules, err := retryDump(func() ([]netlink.Rule, error) { return s.RuleList(netlink.FAMILY_V4) })
	if err != nil {
		return err
	}
	for _, r := range rules {
		if r.Mark == uint32(table) && r.Table == table {
			return nil
		}
	}
	rule := netlink.NewRule()
	rule.Family, rule.Priority, rule.Mark, rule.Table = netlink.FAMILY_V4, rulePriority, uint32(table), table
	return s.RuleAdd(rule)
}
