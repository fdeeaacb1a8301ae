//go:build linux

package network

import (
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// checkOwner stands for the owner of what Check makes in a namespace that only it sees.
const checkOwner = "0000000000000000"

// Check reports why this host cannot have VPCs; nil when it can. It makes a network namespace with a link, routing and
// rules, as for a VPC, which ends with it.
func Check() error {
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here, and with it the namespace
		failed <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("make a network namespace: %w", err)
			}
			if err := setSysctl(map[string]string{"ipv4/ip_forward": "1"}); err != nil {
				return fmt.Errorf("forward packets: %w", err)
			}
			attrs := netlink.NewLinkAttrs()
			attrs.Name = HostLink(checkOwner)
			if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: hostSide}); err != nil {
				return fmt.Errorf("make a link: %w", err)
			}
			self, err := os.Open("/proc/thread-self/ns/net")
			if err != nil {
				return err
			}
			defer self.Close()
			public := netip.PrefixFrom(benchmark.Addr(), 21)
			return hostRules(checkOwner, public, nil, connectionBounds{}).apply(self,
				&applied{has: map[string]appliedState{}})
		}()
	}()
	return <-failed
}

// BlockingChain is a chain of the host's firewall that drops what the host forwards for machines.
type BlockingChain struct{ Family, Table, Chain string }

func (c BlockingChain) String() string {
	return fmt.Sprintf("nftables chain %s %s %s", c.Family, c.Table, c.Chain)
}

// Fix returns commands that let the packets of machines through.
func (c BlockingChain) Fix() string {
	if c.Family == "ip" && c.Table == "filter" && c.Chain == "FORWARD" {
		return "iptables -I FORWARD -i cor-+ -j ACCEPT; iptables -I FORWARD -o cor-+ -j ACCEPT"
	}
	to := strings.Join([]string{c.Family, c.Table, c.Chain}, " ")
	return fmt.Sprintf(`nft insert rule %s iifname "cor-*" accept; nft insert rule %[1]s oifname "cor-*" accept`, to)
}

// BlockingChains returns the chains of nftables, those of iptables-nft among them, that drop what the host forwards
// from an owner's machines: by their policy, or by a rule for all packets. It does not see rules of iptables-legacy,
// and takes a table with a rule that accepts packets of the owner's link for one that lets them through.
func BlockingChains(owner string) (all []BlockingChain, err error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("nftables: %w", err)
	}
	for family, name := range map[nftables.TableFamily]string{
		nftables.TableFamilyIPv4: "ip", nftables.TableFamilyINet: "inet"} {
		chains, err := conn.ListChainsOfTableFamily(family)
		if err != nil {
			return nil, fmt.Errorf("list the chains of nftables: %w", err)
		}
		for _, c := range chains {
			if c.Hooknum == nil || *c.Hooknum != *nftables.ChainHookForward || c.Type != nftables.ChainTypeFilter ||
				strings.HasPrefix(c.Table.Name, "coracle-") {
				continue
			}
			rules, err := conn.GetRules(c.Table, c)
			if err != nil {
				return nil, fmt.Errorf("list the rules of %s: %w", c.Name, err)
			}
			if !dropsEverything(c, rules) {
				continue
			}
			open, err := acceptsLink(conn, c.Table, chains, HostLink(owner))
			if err != nil {
				return nil, err
			}
			if !open {
				all = append(all, BlockingChain{name, c.Table.Name, c.Name})
			}
		}
	}
	return all, nil
}

// dropsEverything reports whether a chain drops the packets that none of its rules with conditions are for.
func dropsEverything(c *nftables.Chain, rules []*nftables.Rule) bool {
	for _, r := range rules {
		if verdict, ok := unconditional(r.Exprs); ok {
			return verdict == expr.VerdictDrop
		}
	}
	return c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop
}

// unconditional returns the verdict of a rule for all packets. A rejection drops.
func unconditional(rule []expr.Any) (verdict expr.VerdictKind, ok bool) {
	for _, e := range rule {
		switch e := e.(type) {
		case *expr.Counter, *expr.Log:
		case *expr.Reject:
			return expr.VerdictDrop, true
		case *expr.Target:
			return expr.VerdictDrop, e.Name == "REJECT"
		case *expr.Verdict:
			return e.Kind, e.Kind == expr.VerdictDrop || e.Kind == expr.VerdictAccept
		default:
			return 0, false
		}
	}
	return 0, false
}

// acceptsLink reports whether a rule of a table accepts what comes from a link.
func acceptsLink(conn *nftables.Conn, t *nftables.Table, chains []*nftables.Chain, link string) (bool, error) {
	for _, c := range chains {
		if c.Table.Name != t.Name {
			continue
		}
		rules, err := conn.GetRules(t, c)
		if err != nil {
			return false, fmt.Errorf("list the rules of %s: %w", c.Name, err)
		}
		if slices.ContainsFunc(rules, func(r *nftables.Rule) bool { return acceptsFrom(r.Exprs, link) }) {
			return true, nil
		}
	}
	return false, nil
}

// acceptsFrom reports whether a rule compares the incoming link of a packet with this one, or with a part of its name
// that it begins with, and accepts.
func acceptsFrom(rule []expr.Any, link string) bool {
	var incoming, matches, accepts bool
	for _, e := range rule {
		switch e := e.(type) {
		case *expr.Meta:
			incoming = e.Key == expr.MetaKeyIIFNAME
		case *expr.Cmp:
			// A whole name ends with zeros, the beginning of names does not.
			name, _, whole := strings.Cut(string(e.Data), "\x00")
			matches = matches || incoming && e.Op == expr.CmpOpEq && name != "" &&
				(name == link || !whole && strings.HasPrefix(link, name))
		case *expr.Verdict:
			accepts = e.Kind == expr.VerdictAccept
		}
	}
	return matches && accepts
}
