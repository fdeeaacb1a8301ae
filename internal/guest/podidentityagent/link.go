//go:build linux

package podidentityagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// link is the name of the network interface with the addresses of the agent.
const link = "pod-id-link0"

// initialize gives the node the addresses of the agent. Only those of IPv6 are optional.
func initialize(_ context.Context, log *slog.Logger) error {
	l, err := ensureLink()
	if err != nil {
		return fmt.Errorf("make the network interface %s: %w", link, err)
	}
	for _, address := range []string{IPv4 + "/32", IPv6 + "/128"} {
		a, err := netlink.ParseAddr(address)
		if err != nil {
			return err
		}
		if a.IP.To4() == nil {
			a.Flags = unix.IFA_F_NODAD // nobody else is on the link
		}
		err = netlink.AddrAdd(l, a)
		switch {
		case err == nil || errors.Is(err, unix.EEXIST):
			log.Info("the node has the address", "address", address, "link", link)
		case a.IP.To4() == nil:
			log.Info("the node cannot have the address: pods are served by IPv4 alone", "address", address, "error", err)
		default:
			return fmt.Errorf("add %s to %s: %w", address, link, err)
		}
	}
	return netlink.LinkSetUp(l)
}

// ensureLink returns the network interface, which it makes unless it is there.
func ensureLink() (netlink.Link, error) {
	l, err := netlink.LinkByName(link)
	var missing netlink.LinkNotFoundError
	if err == nil || !errors.As(err, &missing) {
		return l, err
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = link
	err = netlink.LinkAdd(&netlink.Dummy{LinkAttrs: attributes})
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attributes})
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, err
	}
	return netlink.LinkByName(link)
}
