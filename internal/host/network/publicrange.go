package network

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// benchmark is the range that public addresses come from: half of the one for benchmarks (RFC 2544), which nobody routes, so that an
// address of ours is never somebody's.
var benchmark = netip.MustParsePrefix("198.18.0.0/16")

// claims has a file for each range that was chosen, with its owner in it.
const claims = "/run/coracle/ranges"

// claimTime is for how long a chosen range is its owner's before it has a route.
const claimTime = 2 * time.Minute

// ChoosePublicRange is a /21 of 198.18.0.0/16 that no address and no route of this host uses, and that nobody else has just
// chosen. It is the owner's to keep, until [Remove].
func ChoosePublicRange(owner string) (netip.Prefix, error) {
	if err := os.MkdirAll(claims, 0o755); err != nil {
		return netip.Prefix{}, fmt.Errorf("choose a range for public addresses: %w", err)
	}
	lock, err := os.OpenFile("/run/coracle/lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("choose a range for public addresses: %w", err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return netip.Prefix{}, fmt.Errorf("choose a range for public addresses: lock %s: %w", lock.Name(), err)
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
		if info, err := os.Stat(claim); err == nil {
			holder, err := os.ReadFile(claim)
			if err != nil {
				return netip.Prefix{}, fmt.Errorf("choose a range for public addresses: %w", err)
			}
			if string(holder) != owner && time.Since(info.ModTime()) < claimTime {
				continue
			}
			if err := os.Remove(claim); err != nil {
				return netip.Prefix{}, fmt.Errorf("choose a range for public addresses: %w", err)
			}
		}
		if overlaps(used, candidate) {
			continue
		}
		return candidate, os.WriteFile(claim, []byte(owner), 0o644)
	}
	return netip.Prefix{}, errors.New("choose a range for public addresses: all of " + benchmark.String() + " is in use on this host: `coracle reset` frees the range of a data directory")
}

// unclaim gives back the ranges that an owner has chosen.
func unclaim(owner string) error {
	entries, err := os.ReadDir(claims)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		claim := filepath.Join(claims, e.Name())
		if holder, err := os.ReadFile(claim); err != nil || string(holder) != owner {
			continue // somebody else's, or just given back by him
		}
		if err := os.Remove(claim); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func claimOf(r netip.Prefix) string { return filepath.Join(claims, r.Addr().String()) }

// usedRanges are the parts of the range that this host has addresses or routes in.
func usedRanges() (used []netip.Prefix, err error) {
	routes, err := again(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
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
