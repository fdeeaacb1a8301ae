//go:build linux

package launch

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// enterNetwork takes the calling thread, and what it forks, into the network namespace of the instance.
func enterNetwork(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("enter the network namespace: %w", err)
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the network namespace %s: %w", path, err)
	}
	return nil
}

// resetNetwork leaves of a network namespace what a host has after a boot. The namespace outlives the machine, because
// its interfaces belong to the instance, not to the boot: what the kubelet, the CNI and kube-proxy did in it has to go.
// eth0 stays as the network configured it, in the place of DHCP; further interfaces are found down and without
// addresses.
//
// It lists what root of an earlier boot has left there, which may be any number of links, addresses and routes. So it
// is for the second stage, whose memory is the machine's own.
func resetNetwork() error {
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	for _, link := range links {
		name := link.Attrs().Name
		switch {
		case name == "lo":
			err = netlink.LinkSetUp(link)
		case name == "eth0":
		case strings.HasPrefix(name, "eth"):
			if err = netlink.LinkSetDown(link); err == nil {
				err = removeAddresses(link)
			}
		default:
			err = netlink.LinkDel(link)
		}
		// Deleting one end of a pair deletes the other; what the kernel itself put here (tunl0) cannot be deleted.
		var gone netlink.LinkNotFoundError
		if err != nil && !errors.As(err, &gone) && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := removeRules(); err != nil {
		return err
	}
	if err := removeRoutes(); err != nil {
		return err
	}
	nft, err := nftables.New()
	if err != nil {
		return err
	}
	nft.FlushRuleset()
	if err := nft.Flush(); err != nil {
		return fmt.Errorf("flush the packet filter: %w", err)
	}
	return nil
}

func removeAddresses(link netlink.Link) error {
	addresses, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	for i := range addresses {
		if err := netlink.AddrDel(link, &addresses[i]); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return err
		}
	}
	return nil
}

// removeRules removes all but the kernel's own three routing rules.
func removeRules() error {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		rules, err := netlink.RuleList(family)
		if errors.Is(err, unix.EAFNOSUPPORT) {
			continue
		}
		if err != nil {
			return err
		}
		for i := range rules {
			r := &rules[i]
			if r.Priority == 0 || r.Priority == -1 || r.Priority == 32766 || r.Priority == 32767 {
				continue
			}
			r.Family = family
			if err := netlink.RuleDel(r); err != nil && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("routing rule %d: %w", r.Priority, err)
			}
		}
	}
	return nil
}

// removeRoutes removes what is in other tables than the kernel's own, such as those that the CNI keeps for each
// interface.
func removeRoutes() error {
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_UNSPEC},
		netlink.RT_FILTER_TABLE)
	if err != nil {
		return err
	}
	for i := range routes {
		switch r := &routes[i]; r.Table {
		case unix.RT_TABLE_MAIN, unix.RT_TABLE_LOCAL, unix.RT_TABLE_DEFAULT, unix.RT_TABLE_UNSPEC:
		default:
			if err := netlink.RouteDel(r); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("route %s: %w", r, err)
			}
		}
	}
	return nil
}
