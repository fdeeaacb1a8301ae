package connlimit

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
)

// echo answers what each connection sends, until it ends.
func echo(t *testing.T, perSource, total int) (*Listener, string) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := New(inner, perSource, total)
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
	if _, ok := dial(t, "127.0.0.2", at); !ok {
		t.Error("another source is refused, too")
	}
	if _, ok := dial(t, "127.0.0.3", at); ok {
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
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sources[first.LocalAddr().(*net.TCPAddr).AddrPort().Addr()] > 1 {
		t.Errorf("the first source has %v", l.sources)
	}
}

// The metadata service sets the hop limit of a connection, and the kernel moves the bytes of others.
func TestConnectionsAreSockets(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := New(inner, 1, 1)
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
	if l.open != 0 || len(l.sources) != 0 {
		t.Errorf("it counts %d connections, of %v", l.open, l.sources)
	}
}
