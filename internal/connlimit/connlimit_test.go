package connlimit

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// echo answers what each connection sends, until it ends.
func echo(t *testing.T, perSource, total int) (*Listener, string) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := New(inner, Limits{Share: t.Name(), PerSource: perSource, Total: total})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	t.Cleanup(func() { l.Close(); <-ended })
	return l, inner.Addr().String()
}

// dial connects from a loopback address and reports whether it is answered.
func dial(t *testing.T, from, to string) (net.Conn, bool) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := dialer.DialContext(t.Context(), "tcp", to)
	if errors.Is(err, syscall.ECONNRESET) {
		return nil, false
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(eventually.Limit)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("x")); err != nil {
		return c, false
	}
	_, err = io.ReadFull(c, make([]byte, 1))
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
	return c, err == nil
}

func TestConnectionsOfASourceAreBounded(t *testing.T) {
	t.Parallel()
	l, at := echo(t, 2, 3)
	first, ok := dial(t, "127.0.0.1", at)
	if !ok {
		t.Fatal("the first connection is refused")
	}
	if _, ok := dial(t, "127.0.0.1", at); !ok {
		t.Fatal("the second connection is refused")
	}
	if _, ok := dial(t, "127.0.0.1", at); ok {
		t.Error("one source has three connections, two are allowed")
	}
	if _, ok := dial(t, "127.0.0.2", at); ok {
		t.Error("another address of the loopback counts as another source")
	}
	// Sources that are not on this host.
	if !l.acquireSlot(netip.MustParseAddr("10.0.0.2")) {
		t.Error("another source is refused, too")
	}
	if l.acquireSlot(netip.MustParseAddr("10.0.0.3")) {
		t.Error("there are four connections, three are allowed")
	}
	first.Close()
	eventually.Nil(t, "a connection that ended makes room for another", func() error {
		c, ok := dial(t, "127.0.0.3", at)
		if !ok {
			return errors.New("refused")
		}
		return c.Close()
	})
	eventually.Nil(t, "no connection that ended is counted", func() error {
		if n := connections(l, loopback); n > 1 {
			return fmt.Errorf("the first source has %d", n)
		}
		return nil
	})
}

// connections returns how many a source has in the share of a listener.
func connections(l *Listener, from netip.Addr) int {
	l.shared.mu.Lock()
	defer l.shared.mu.Unlock()
	return l.shared.sources[source{l.limits.Share, from}]
}

func TestSources(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"10.0.0.1": "10.0.0.1", "::ffff:10.0.0.1": "10.0.0.1", "127.0.0.1": "127.0.0.1", "127.255.0.9": "127.0.0.1",
		"::ffff:127.0.0.2": "127.0.0.1",
		"::1":              "127.0.0.1", "fd00::1": "fd00::1", "169.254.169.254": "169.254.169.254",
	} {
		if got := sourceOf(netip.MustParseAddr(address)); got != netip.MustParseAddr(want) {
			t.Errorf("%s counts for %s, want %s", address, got, want)
		}
	}
}

// TestListenersShareTheBudgetOfTheirProcess runs more sources than the process has file descriptors.
func TestListenersShareTheBudgetOfTheirProcess(t *testing.T) {
	t.Parallel()
	shared := newBudget(24)
	newShare := func(share string, descriptors int) *Listener {
		inner, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { inner.Close() })
		return newListener(inner, Limits{Share: share, PerSource: 1000, Total: 1000, Descriptors: descriptors}, shared)
	}
	from := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}) }
	first, second := newShare("vpc-1", 0), newShare("vpc-1", 0)
	for range 10 {
		first.acquireSlot(from(1))
		second.acquireSlot(from(1))
	}
	if n := connections(first, from(1)); n != 6 {
		t.Errorf("one source has %d connections of %d on two listeners, a quarter is allowed", n, shared.limit)
	}
	for n := range 40 {
		first.acquireSlot(from(n))
		second.acquireSlot(from(n))
	}
	if n := shared.shares["vpc-1"]; n != 12 {
		t.Errorf("two listeners of one share have %d descriptors of %d, a half is allowed", n, shared.limit)
	}
	// Whoever comes later finds as much free as it may have, however many have filled their shares.
	for _, c := range []struct{ name, descriptors, connections int }{{2, 1, 6}, {3, 3, 1}, {4, 1, 1}} {
		l := newShare(fmt.Sprintf("vpc-%d", c.name), c.descriptors)
		for n := range 40 {
			l.acquireSlot(from(n))
		}
		if l.open != c.connections {
			t.Errorf("share %d has %d connections of %d descriptors, want %d", c.name, l.open, c.descriptors,
				c.connections)
		}
	}
	if shared.used >= shared.limit {
		t.Errorf("nothing is free for the next share: %d descriptors of %d", shared.used, shared.limit)
	}
	for n := range 40 {
		for connections(first, from(n)) > 0 {
			first.releaseSlot(from(n))
		}
	}
	if _, there := shared.shares["vpc-1"]; there {
		t.Errorf("a share without connections counts: %v", shared.shares)
	}
	if _, there := shared.sources[source{"vpc-1", from(1)}]; there {
		t.Error("a source without connections counts")
	}
	if l := newShare("vpc-5", 6); !l.acquireSlot(from(1)) {
		t.Error("connections that ended make no room for another share")
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	if _, ok := Acquire(t.Name(), process().limit); ok {
		t.Error("one share gets all descriptors of the process")
	}
	if release, ok := Acquire(t.Name(), 1); !ok {
		t.Error("a share gets nothing")
	} else {
		release()
	}
	if limit := process().limit; limit <= 0 || uint64(limit) > files.Cur/2 {
		t.Errorf("this process may have %d connections and %d files", limit, files.Cur)
	}
}

// One side that sends, and another that does not read, hold memory of the kernel that counts for nobody.
func TestBuffersOfConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := New(inner, Limits{Share: t.Name(), PerSource: 1, Total: 1})
	defer l.Close()
	out, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if receive, send := testenv.SocketBuffers(t, in); receive+send > perDescriptor {
		t.Errorf("the buffers of a connection that is accepted have %d and %d bytes", receive, send)
	}
	dialer := net.Dialer{Control: BoundBuffers}
	if receive, send := testenv.DialedBuffers(t, dialer.DialContext); receive+send > perDescriptor {
		t.Errorf("the buffers of a connection that is dialed have %d and %d bytes", receive, send)
	}
	for _, c := range []struct {
		files, memory uint64
		want          int
	}{
		{1024, 64 << 30, 512}, {1 << 20, 8 << 30, 8192}, {1 << 20, 0, 1 << 19}, {1 << 20, 4 << 40, 1 << 19},
		{math.MaxUint64, 0, math.MaxInt32 / 2},
	} {
		if got := limitFor(c.files, c.memory); got != c.want {
			t.Errorf("with %d files and %d bytes of memory there may be %d descriptors, want %d", c.files, c.memory, got,
				c.want)
		}
	}
}

// TestRequestsCountForTheirSource has a source with requests on a connection, which are not to take what others of the
// share may have.
func TestRequestsCountForTheirSource(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newListener(inner, Limits{Share: "a", PerSource: 3, Total: 10}, newBudget(100))
	defer l.Close()
	one, other := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	if !l.acquireSlot(one) {
		t.Fatal("a connection is refused")
	}
	var releases []func()
	for range 2 {
		release, ok := l.AcquireRequest(one)
		if !ok {
			t.Fatal("a request is refused")
		}
		releases = append(releases, release)
	}
	if _, ok := l.AcquireRequest(one); ok {
		t.Error("a source has four connections and requests, three are allowed")
	}
	if _, ok := l.AcquireRequest(other); !ok {
		t.Error("another source is refused, too")
	}
	for _, release := range releases {
		release()
	}
	if n := connections(l, one); n != 1 || l.shared.used != 2 {
		t.Errorf("%d of the source count, and %d in all", n, l.shared.used)
	}
}

// The metadata service sets the hop limit of a connection, and the kernel moves the bytes of others.
func TestConnectionsAreSockets(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := New(inner, Limits{Share: t.Name(), PerSource: 1, Total: 1})
	defer l.Close()
	out, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := in.(syscall.Conn); !ok {
		t.Errorf("%T is no socket", in)
	}
	if err := errors.Join(in.Close()); err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
	if n := connections(l, loopback); l.open != 0 || n != 0 {
		t.Errorf("it counts %d connections, %d of the source", l.open, n)
	}
}
