//go:build linux

package network

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
)

// Remove removes every namespace, link, route and nftables table of an owner, and says which. It needs neither daemon
// nor store, and may be called again after it failed. The owner's directory below /run goes with what processes have
// left there: they must have ended.
func Remove(owner string) (removed []string, err error) {
	if err := validOwner(owner); err != nil {
		return nil, err
	}
	var failures []error
	link := HostLink(owner)
	switch l, err := netlink.LinkByName(link); {
	case errors.As(err, &netlink.LinkNotFoundError{}):
	case err != nil:
		failures = append(failures, fmt.Errorf("find link %s: %w", link, err))
	default:
		if err := netlink.LinkDel(l); err != nil {
			failures = append(failures, fmt.Errorf("remove link %s: %w", link, err))
		} else {
			removed = append(removed, "link "+link)
		}
	}
	entries, err := os.ReadDir(filepath.Join(runDirectory(owner), "netns"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		failures = append(failures, err)
	}
	for _, e := range entries {
		path := NamespacePath(owner, e.Name())
		// What is plugged into a machine goes with the router's end. The rest of what is in there is the guest's.
		var err error
		if isRouter(e.Name()) {
			err = dropLinks(path)
		}
		if err := errors.Join(err, removeNamespace(path)); err != nil {
			failures = append(failures, err)
			continue
		}
		removed = append(removed, "network namespace "+path)
	}
	if gone, err := removeHostTable(owner); err != nil {
		failures = append(failures, err)
	} else if gone {
		removed = append(removed, "nftables table inet "+hostTable(owner))
	}
	if err := restoreForwarding(owner); err != nil {
		failures = append(failures, err)
	}
	if err := unclaim(owner); err != nil {
		failures = append(failures, fmt.Errorf("give back the range of public addresses: %w", err))
	}
	if err := removeNamespace(filepath.Join(runDirectory(owner), "netns")); err != nil {
		failures = append(failures, err)
	}
	if len(failures) == 0 { // nothing is mounted below any more
		if err := os.RemoveAll(runDirectory(owner)); err != nil {
			failures = append(failures, err)
		}
	}
	return removed, errors.Join(failures...)
}

func removeHostTable(owner string) (bool, error) {
	conn, err := nftables.New()
	if err != nil {
		return false, err
	}
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return false, fmt.Errorf("list nftables tables: %w", err)
	}
	for _, t := range tables {
		if t.Name == hostTable(owner) {
			conn.DelTable(t)
			return true, conn.Flush()
		}
	}
	return false, nil
}

// restoreForwarding switches forwarding off again where we switched it on, unless another owner did as well.
func restoreForwarding(owner string) error {
	ours, err := os.ReadFile(forwardingFile(owner))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	others := map[string]bool{}
	files, _ := filepath.Glob(forwardingFile("*"))
	for _, f := range files {
		if f == forwardingFile(owner) {
			continue
		}
		if names, err := os.ReadFile(f); err == nil {
			for _, name := range strings.Fields(string(names)) {
				others[name] = true
			}
		}
	}
	for _, link := range strings.Fields(string(ours)) {
		if others[link] {
			continue
		}
		err := os.WriteFile("/proc/sys/net/ipv4/conf/"+link+"/forwarding", []byte("0"), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("switch forwarding of %s off: %w", link, err)
		}
	}
	return os.Remove(forwardingFile(owner))
}
