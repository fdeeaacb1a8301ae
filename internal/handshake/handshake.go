// Package handshake begins TLS with those whom users choose or anybody is: it bounds what they send for it.
//
// What crypto/tls takes for a message of a handshake becomes many times its size in memory, which stays until the
// handshake has ended: 60 KB of a client 765 KB, and certificates of 256 KB of a server 3 MB, for as long as the
// connection is open.
package handshake

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// How much a client and a server send until the end of their handshake, in bytes. A client with post-quantum keys sends
// some 2 KB, a server with a long chain of certificates some 10 KB.
const (
	MostOfClient = 16 << 10
	MostOfServer = 32 << 10
)

// ErrLong is the error of a handshake in which the other side sends more than it may.
var ErrLong = errors.New("the other side sends too much for a TLS handshake")

// Conn is a connection that reads a bounded number of bytes until [Conn.End].
type Conn struct {
	net.Conn
	left  atomic.Int64
	ended atomic.Bool
}

// Bound returns a connection that reads so many bytes until it is told that the handshake has ended.
func Bound(c net.Conn, most int64) *Conn {
	b := &Conn{Conn: c}
	b.left.Store(most)
	return b
}

// End says that the handshake has ended.
func (c *Conn) End() { c.ended.Store(true) }

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	if c.ended.Load() {
		return c.Conn.Read(b)
	}
	left := c.left.Load()
	if left <= 0 {
		return 0, ErrLong
	}
	n, err := c.Conn.Read(b[:min(int64(len(b)), left)])
	c.left.Add(-int64(n))
	return n, err
}

// Client begins TLS with a server, which has so long for it. It closes the connection if that fails.
func Client(ctx context.Context, c net.Conn, config *tls.Config, most time.Duration) (*tls.Conn, error) {
	bounded := Bound(c, MostOfServer)
	return begin(ctx, tls.Client(bounded, config), bounded, most)
}

// Server begins TLS with a client, which has so long for it. It closes the connection if that fails.
func Server(ctx context.Context, c net.Conn, config *tls.Config, most time.Duration) (*tls.Conn, error) {
	bounded := Bound(c, MostOfClient)
	return begin(ctx, tls.Server(bounded, config), bounded, most)
}

func begin(ctx context.Context, secure *tls.Conn, bounded *Conn, most time.Duration) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if err := secure.HandshakeContext(ctx); err != nil {
		bounded.Conn.Close()
		return nil, err
	}
	bounded.End()
	return secure, nil
}

// Dial connects, as the DialContext of an [http.Transport] does.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// Dialer returns what connects and begins TLS, for the DialTLSContext of an [http.Transport]. It offers the protocols
// of the configuration.
func Dialer(dial Dial, config *tls.Config, most time.Duration) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		named := config.Clone()
		if named == nil {
			named = new(tls.Config)
		}
		if named.ServerName == "" {
			if named.ServerName, _, err = net.SplitHostPort(address); err != nil {
				c.Close()
				return nil, err
			}
		}
		return Client(ctx, c, named, most)
	}
}
