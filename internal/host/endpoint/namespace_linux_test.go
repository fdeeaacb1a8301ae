package endpoint

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/testenv"
)

// newNamespace makes a network namespace at path that goes with the test.
func newNamespace(t *testing.T, path string) string {
	t.Helper()
	testenv.NeedsRoot(t)
	if err := os.WriteFile(path, nil, 0o444); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread goes
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			failed <- err
			return
		}
		failed <- unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
	}()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dropNamespace(path) })
	inside(t, path, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	})
	return path
}

func dropNamespace(path string) {
	unix.Unmount(path, unix.MNT_DETACH)
	os.Remove(path)
}

func inside(t *testing.T, namespace string, f func() error) {
	t.Helper()
	if err := runInNamespace(namespace, f); err != nil {
		t.Fatal(err)
	}
}

// wire joins two namespaces by a link with an address at each end.
func wire(t *testing.T, a, b string, addressA, addressB string) {
	t.Helper()
	there, err := os.Open(b)
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	name := func(address string) string {
		return fmt.Sprintf("v%x", netip.MustParsePrefix(address).Addr().As4())
	}
	inside(t, a, func() error {
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: name(addressA)}, PeerName: name(addressB),
			PeerNamespace: netlink.NsFd(int(there.Fd())),
		})
	})
	for ns, address := range map[string]string{a: addressA, b: addressB} {
		inside(t, ns, func() error {
			link, err := netlink.LinkByName(name(address))
			if err != nil {
				return err
			}
			parsed, err := netlink.ParseAddr(address)
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(link, parsed); err != nil {
				return err
			}
			return netlink.LinkSetUp(link)
		})
	}
}

// dial connects from a namespace.
func dial(t *testing.T, namespace string, d net.Dialer, address string) (conn net.Conn, err error) {
	t.Helper()
	err = runInNamespace(namespace, func() error {
		conn, err = d.Dial("tcp", address)
		return err
	})
	if err == nil {
		t.Cleanup(func() { conn.Close() })
	}
	return conn, err
}

// addAddress gives a link of the namespace that the thread is in an address.
func addAddress(link, address string) error {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return err
	}
	a, err := netlink.ParseAddr(address)
	if err != nil {
		return err
	}
	return netlink.AddrAdd(l, a)
}
