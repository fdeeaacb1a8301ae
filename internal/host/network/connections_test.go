//go:build linux

package network

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/testenv"
)

// TestConnectionsToTheInternetAreBounded sends from public addresses through the rules of a host, in namespaces of
// their own.
func TestConnectionsToTheInternetAreBounded(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	const sent = 4000 // from each address, all to other ports
	for _, c := range []struct {
		name          string
		bounds        connectionBounds
		first, second [2]int // the least and the most connections of the first address, and of two
		all           [2]int // and of twenty
	}{
		{"rate of an address", connectionBounds{list: sent, rate: sent, burst: 40 * sent, rateOf: 1, most: 100},
			[2]int{100, 1000}, [2]int{200, 2000}, [2]int{2000, 20000}},
		{"rate of all", connectionBounds{list: sent, rate: 1, burst: 100, rateOf: sent, most: 4 * sent},
			[2]int{100, 1000}, [2]int{100, 1000}, [2]int{100, 2000}},
		{"connections of an address", connectionBounds{list: 10, rate: sent, burst: 40 * sent, rateOf: sent,
			most: 4 * sent}, [2]int{640, 640}, [2]int{1280, 1280}, [2]int{9000, 10 * totalLists}},
		{"a kernel that cannot bound them", connectionBounds{}, [2]int{sent, 2 * sent}, [2]int{2 * sent, 3 * sent},
			[2]int{10 * sent, 22 * sent}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			owner := fmt.Sprintf("%016x", rand.Uint64())
			dir := t.TempDir()
			public := netip.MustParsePrefix("198.18.8.0/21")
			var spaces []*namespace
			for _, name := range []string{"host", "vpcs"} {
				path := filepath.Join(dir, name)
				if _, err := makeNamespace(path); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { removeNamespace(path); removeNamespace(dir) })
				s, err := openHandle(path)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(s.close)
				spaces = append(spaces, s)
			}
			host, vpcs := spaces[0], spaces[1]
			attrs := netlink.NewLinkAttrs()
			attrs.Name = HostLink(owner)
			up := func(s *namespace, name, address string) int {
				t.Helper()
				link, err := s.LinkByName(name)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.AddrAdd(link, &netlink.Addr{IPNet: toIPNet(netip.MustParsePrefix(address))}); err != nil {
					t.Fatal(err)
				}
				if err := s.LinkSetUp(link); err != nil {
					t.Fatal(err)
				}
				return link.Attrs().Index
			}
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(host.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: vpcs.netlinkFD()}))
			attrs.Name = "eth1"
			must(host.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth1", PeerNamespace: vpcs.netlinkFD()}))
			must(host.applySysctl(map[string]string{"ipv4/ip_forward": "1"}))
			up(host, HostLink(owner), "198.18.8.2/21")
			out := up(host, "eth1", "192.88.99.1/24")
			up(vpcs, "eth1", "192.88.98.1/24") // nobody who answers
			must(host.NeighSet(&netlink.Neigh{
				LinkIndex: out, Family: netlink.FAMILY_V4, State: netlink.NUD_PERMANENT,
				IP: net.IPv4(192, 88, 99, 7), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 7},
			}))
			index := up(vpcs, "eth0", "198.18.9.1/21")
			for n := 2; n <= 20; n++ {
				up(vpcs, "eth0", fmt.Sprintf("198.18.9.%d/21", n))
			}
			must(
				vpcs.RouteAdd(
					&netlink.Route{
						LinkIndex: index,
						Dst:       toIPNet(netip.MustParsePrefix("0.0.0.0/0")),
						Gw:        net.IPv4(198, 18, 8, 2),
					},
				),
			)
			apply := func() {
				t.Helper()
				file, err := os.Open(filepath.Join(dir, "host"))
				must(err)
				defer file.Close()
				must(hostRules(owner, public, nil, c.bounds).apply(file, &applied{has: map[string]appliedState{}}))
			}
			send := func(from string) (connections int) {
				t.Helper()
				must(In(filepath.Join(dir, "vpcs"), func() error {
					socket, err := net.ListenPacket("udp4", from)
					if err != nil {
						return err
					}
					defer socket.Close()
					for i := range sent {
						far := netip.AddrPortFrom(netip.MustParseAddr("192.88.99.7"), uint16(i+1))
						if _, err := socket.WriteTo([]byte("x"), net.UDPAddrFromAddrPort(far)); err != nil {
							return err
						}
					}
					return nil
				}))
				must(In(filepath.Join(dir, "host"), func() error {
					text, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_count")
					if err == nil {
						connections, err = strconv.Atoi(strings.TrimSpace(string(text)))
					}
					return err
				}))
				return connections
			}
			apply()
			if n := send("198.18.9.1:4096"); n < c.first[0] || n > c.first[1] {
				t.Errorf("one address has %d connections, want %v", n, c.first)
			}
			apply() // does not forget those
			if n := send("198.18.9.1:4097"); n < c.first[0] || n > c.first[1] {
				t.Errorf("one address has %d connections after the rules were written again, want %v", n, c.first)
			}
			if n := send("198.18.9.2:4096"); n < c.second[0] || n > c.second[1] {
				t.Errorf("two addresses have %d connections, want %v", n, c.second)
			}
			n := 0
			for i := 3; i <= 20; i++ {
				n = send(fmt.Sprintf("198.18.9.%d:4096", i))
			}
			if n < c.all[0] || n > c.all[1] {
				t.Errorf("twenty addresses have %d connections, want %v", n, c.all)
			}
		})
	}
}

func TestConnectionBoundsLeaveRoomForTheHost(t *testing.T) {
	t.Parallel()
	for _, table := range []uint32{4096, 65536, 262144, 1 << 24} {
		b := boundsOf(table)
		open, closed := b.list*totalLists, b.rate*closedTime+b.burst
		if open+closed > table*4/5 {
			t.Errorf("of %d connections VPCs may have %d open and %d closed ones", table, open, closed)
		}
		if b.rateOf > b.rate/4 || b.most > b.burst/4 || b.list*addressLists > open/4 {
			t.Errorf("of %d connections one address may have more than a quarter of all: %+v", table, b)
		}
	}
}

// Bounds are given up only where the kernel cannot have them, not when it failed once.
func TestBoundsAreGivenUpOnlyWhereTheKernelLacksThem(t *testing.T) {
	t.Parallel()
	transient := fmt.Errorf("nftables: %w", unix.ENOENT)
	for name, c := range map[string]struct {
		apply, probe error // of rules with bounds
		applied      int   // how often rules were applied
		unbounded    bool
		want         error
	}{
		"bounded":                    {nil, nil, 1, false, nil},
		"another error":              {unix.EPERM, nil, 1, false, unix.EPERM},
		"failed, and the kernel can": {transient, nil, 1, false, unix.ENOENT},
		"failed, and the probe, too": {transient, unix.ENOBUFS, 1, false, unix.ENOBUFS},
		"the kernel lacks something": {transient, transient, 2, true, nil},
		"the kernel lacks a module":  {unix.EOPNOTSUPP, unix.EOPNOTSUPP, 2, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := &Network{o: Options{Log: slog.New(slog.DiscardHandler)}}
			var applied []connectionBounds
			err := n.applyBounded(func(b connectionBounds) error {
				applied = append(applied, b)
				if b == (connectionBounds{}) {
					return nil
				}
				return c.apply
			}, func(connectionBounds) error { return c.probe })
			if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if len(applied) != c.applied || n.unbounded.Load() != c.unbounded {
				t.Errorf("rules were applied with %v; unbounded: %v", applied, n.unbounded.Load())
			}
		})
	}
}

// This kernel, which the tests above show to have bounds, says so.
func TestAKernelIsAskedForBounds(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "probe")
	if _, err := makeNamespace(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeNamespace(path); removeNamespace(dir) })
	s, err := openHandle(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	for range 2 {
		if err := boundsOf(connectionTable()).probe(int(s.netlinkFD())); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := nftables.New(nftables.WithNetNSFd(int(s.netlinkFD())))
	if err != nil {
		t.Fatal(err)
	}
	if tables, err := conn.ListTables(); err != nil || len(tables) != 0 {
		t.Errorf("the probe leaves %d tables, %v", len(tables), err)
	}
}
