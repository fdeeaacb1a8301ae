//go:build linux

package network

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/rundir"
)

// benchmark is the range that public addresses come from: half of the one for benchmarks (RFC 2544), which nobody
// routes, so that an address of ours never belongs to another host.
var benchmark = netip.MustParsePrefix("198.18.0.0/16")

// claims is the run directory that has a file for each range that was chosen: its owner, and the directory as long as
// which it is the owner's.
const claims = "ranges"

// ChoosePublicRange returns a /21 of 198.18.0.0/16 that no address and no route of this host uses, and that no other
// owner has chosen. It is the owner's as long as dir, the data directory, exists, or until [Remove].
func ChoosePublicRange(ctx context.Context, owner, dir string) (netip.Prefix, error) {
	unlock, err := rundir.Lock(ctx, "lock")
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("choose a range for public addresses: %w", err)
	}
	defer unlock()
	if _, err := rundir.Create(claims); err != nil {
		return netip.Prefix{}, fmt.Errorf("choose a range for public addresses: %w", err)
	}
	used, err := usedRanges()
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("choose a range for public addresses: %w", err)
	}
	first := rand.IntN(32) // so that those who chose before the host booted, and have no route yet, are seldom met
	for i := range 32 {
		third := byte((first + i) % 32 * 8)
		candidate := netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, third, 0}), 21)
		claim := claimOf(candidate)
		if holder, of, err := readClaim(claim); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return netip.Prefix{}, fmt.Errorf("choose a range for public addresses: %w", err)
		} else if _, gone := os.Stat(of); err == nil && holder != owner && !errors.Is(gone, fs.ErrNotExist) {
			continue
		}
		if overlaps(used, candidate) {
			continue
		}
		return candidate, os.WriteFile(claim, []byte(owner+"\n"+dir), 0o600)
	}
	return netip.Prefix{}, errors.New("choose a range for public addresses: all of " + benchmark.String() +
		" is in use on this host: `coracle reset` frees the range of a data directory")
}

// unclaim gives back the ranges that an owner has chosen.
func unclaim(owner string) error {
	entries, err := os.ReadDir(rundir.Path(claims))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		claim := rundir.Path(claims, e.Name())
		if holder, _, err := readClaim(claim); err != nil || holder != owner {
			continue // somebody else's, or just given back by him
		}
		if err := os.Remove(claim); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func readClaim(file string) (owner, dir string, err error) {
	text, err := os.ReadFile(file)
	owner, dir, _ = strings.Cut(string(text), "\n")
	return owner, dir, err
}

func claimOf(r netip.Prefix) string { return rundir.Path(claims, r.Addr().String()) }

// usedRanges returns the parts of the range that this host has addresses or routes in.
func usedRanges() (used []netip.Prefix, err error) {
	routes, err := retryDump(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_UNSPEC},
			netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	for _, r := range routes {
		// A route for more than the whole range, such as the default route, does not use it.
		if p, ok := prefixOf(r.Dst); ok && p.Bits() >= benchmark.Bits() && p.Overlaps(benchmark) {
			used = append(used, p)
		}
	}
	return used, nil
}

func overlaps(used []netip.Prefix, candidate netip.Prefix) bool {
	for _, u := range used {
		if u.Overlaps(candidate) {
			return true
		}
	}
	return false
}
