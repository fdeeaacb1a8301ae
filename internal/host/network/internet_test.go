//go:build linux

package network

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// somewhere creates a network beyond the host: a namespace behind a link of the host, as the real internet is behind
// eth0.
func (w *fixture) somewhere() (path string, hostEnd, neighbor, farEnd netip.Addr) {
	w.Helper()
	path = filepath.Join(w.TempDir(), "somewhere")
	if _, err := makeNamespace(path); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { removeNamespace(path); removeNamespace(filepath.Dir(path)) })
	s, err := openHandle(path)
	if err != nil {
		w.Fatal(err)
	}
	defer s.close()
	name := fmt.Sprintf("cortest%08x", rand.Uint32())
	fourth := byte(rand.IntN(64) * 4)
	hostEnd, neighbor = netip.AddrFrom4([4]byte{192, 88, 99, fourth + 1}), netip.AddrFrom4([4]byte{192, 88, 99,
		fourth + 2})
	// behind the neighbor, as the internet is behind the gateway
	farEnd = netip.AddrFrom4([4]byte{198, 51, 100, fourth + 2})
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = name, 1400 // as of many links in clouds and tunnels
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: s.netlinkFD(),
		PeerMTU: 1500}); err != nil {
		w.Fatal(err)
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { netlink.LinkDel(link) })
	inner, err := s.LinkByName("eth0")
	if err != nil {
		w.Fatal(err)
	}
	for _, err := range []error{
		netlink.AddrAdd(link, &netlink.Addr{IPNet: toIPNet(netip.PrefixFrom(hostEnd, 30))}), netlink.LinkSetUp(link),
		s.AddrAdd(inner, &netlink.Addr{IPNet: toIPNet(netip.PrefixFrom(neighbor, 30))}), s.LinkSetUp(inner),
		s.localAddresses([]netip.Addr{farEnd}),
		netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: toIPNet(hostPrefix(farEnd)),
			Gw: neighbor.AsSlice()}),
		// What the network does to the link of a default route.
		setSysctl(map[string]string{"ipv4/conf/" + name + "/forwarding": "1"}),
		// It has a way to the public addresses: nobody is kept out by accident.
		s.RouteAdd(&netlink.Route{LinkIndex: inner.Attrs().Index, Dst: toIPNet(benchmark), Gw: hostEnd.AsSlice()}),
	} {
		if err != nil {
			w.Fatal(err)
		}
	}
	return path, hostEnd, neighbor, farEnd
}

func TestTheInternetBeyondTheHost(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	_, client, server := w.pair() // the server has a public address
	w.whole(client, server)
	path, hostEnd, neighbor, far := w.somewhere()
	if _, err := w.reconcileInternet(t.Context(), InternetNamespace); err != nil { // the next pass sees the new link
		t.Fatal(err)
	}
	l, err := Listen(t.Context(), path, "tcp", netip.AddrPortFrom(far, 80).String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go answer(l)
	seen, err := w.call(instanceOf(server), "", netip.AddrPortFrom(far, 80).String())
	if err != nil || seen != hostEnd.String() {
		t.Errorf("with a public address: seen as %q, %v; want the host's %s", seen, err, hostEnd)
	}
	w.reaches(instanceOf(client), netip.AddrPortFrom(far, 80).String(), false)
	t.Run("large packets find their way through small links", func(t *testing.T) {
		sink, err := Listen(t.Context(), path, "tcp", netip.AddrPortFrom(far, 81).String())
		if err != nil {
			t.Fatal(err)
		}
		defer sink.Close()
		const size = 4 << 20
		got := make(chan error, 1)
		go func() {
			c, err := sink.Accept()
			if err == nil {
				c.SetDeadline(time.Now().Add(eventually.Limit))
				_, err = io.CopyN(io.Discard, c, size)
				c.Close()
			}
			got <- err
		}()
		ctx, cancel := context.WithTimeout(t.Context(), eventually.Limit)
		defer cancel()
		c, err := w.Dial(ctx, instanceOf(server), "tcp", netip.AddrPortFrom(far, 81).String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.CopyN(c, zeros{}, size); err != nil {
			t.Error(err)
		}
		if err := <-got; err != nil {
			t.Error(err)
		}
	})
	w.serve(instanceOf(server), "10.0.1.11:82")
	if _, err := callFrom(t.Context(), path, "", w.publicAddress(1)+":82", false); err == nil {
		t.Error("the host's neighbors get in")
	}
	t.Run("neighbors on the host's links are out of reach, whatever their addresses", func(t *testing.T) {
		l, err := Listen(t.Context(), path, "tcp", netip.AddrPortFrom(neighbor, 80).String())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go answer(l)
		w.reaches(instanceOf(server), netip.AddrPortFrom(neighbor, 80).String(), false)
	})
	t.Run("private networks of the host are out of reach", func(t *testing.T) {
		w.reaches(instanceOf(server), "10.255.255.53:53", false)
	})
	t.Run("the metadata of clouds is out of reach", func(t *testing.T) {
		s, err := openHandle(w.Namespace(InternetNamespace))
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		for _, address := range []string{"169.254.169.254", "168.63.129.16"} {
			if routes, err := s.RouteGet(net.ParseIP(address)); err == nil {
				t.Errorf("there is a way to %s: %v", address, routes)
			}
		}
	})
}

func TestForwardingIsSwitchedOffAgain(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	owner := fmt.Sprintf("%016x", rand.Uint64())
	name := fmt.Sprintf("cortest%08x", rand.Uint32())
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	link := &netlink.Veth{LinkAttrs: attrs, PeerName: name[:14] + "p"}
	if err := netlink.LinkAdd(link); err != nil {
		t.Fatal(err)
	}
	defer netlink.LinkDel(link)
	path := "/proc/sys/net/ipv4/conf/" + name + "/forwarding"
	if err := os.MkdirAll(runDirectory(owner), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := noteForwarding(owner, name); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Remove(owner); err != nil {
		t.Fatal(err)
	}
	if on, err := os.ReadFile(path); err != nil || string(on) != "0\n" {
		t.Errorf("forwarding is %q, %v", on, err)
	}
}

// zeros is a reader without end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }
