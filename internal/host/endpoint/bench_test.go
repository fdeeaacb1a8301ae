package endpoint

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"testing"
)

// What the way through the process costs: an answer to a small question on an open connection, a new connection, and a
// MiB.
func BenchmarkForward(b *testing.B) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				io.Copy(conn, conn) //nolint:errcheck
			}()
		}
	}()
	f, err := openForward(Forward{Listen: netip.MustParseAddrPort("127.0.0.1:0"), Target: l.Addr().String()},
		slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer f.done.Wait()
	defer f.close()
	for _, way := range []struct{ name, address string }{{"direct", l.Addr().String()},
		{"forwarded", f.listener.Addr().String()}} {
		open := func() net.Conn {
			conn, err := net.Dial("tcp", way.address)
			if err != nil {
				b.Fatal(err)
			}
			return conn
		}
		exchange := func(conn net.Conn, size int) {
			data := make([]byte, size)
			go conn.Write(data) //nolint:errcheck
			if _, err := io.ReadFull(conn, data); err != nil {
				b.Fatal(err)
			}
		}
		for _, size := range []int{100, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%d-bytes", way.name, size), func(b *testing.B) {
				conn := open()
				defer conn.Close()
				b.SetBytes(int64(size))
				for b.Loop() {
					exchange(conn, size)
				}
			})
		}
		b.Run(way.name+"/connection", func(b *testing.B) {
			for b.Loop() {
				conn := open()
				exchange(conn, 100)
				conn.Close()
			}
		})
	}
}
