// Package connlimit bounds how many connections a listener has open, in all and for each source address.
//
// A server that answers machines and pods is one process for all of them. Without a bound, one pod that opens connections and says
// nothing takes the memory and the file descriptors that everybody else needs; timeouts only make it open them again.
package connlimit

import (
	"net"
	"net/netip"
	"sync"
)

// Listener is a [net.Listener] that closes connections at once which are too many. It does not hold them back: the queue of the
// kernel is one for all sources, too.
type Listener struct {
	*net.TCPListener
	perSource, total int

	mu      sync.Mutex
	open    int
	sources map[netip.Addr]int
}

// New limits a listener, which must be one of TCP, to so many connections for each source address, and in all.
func New(l net.Listener, perSource, total int) *Listener {
	return &Listener{TCPListener: l.(*net.TCPListener), perSource: perSource, total: total, sources: map[netip.Addr]int{}}
}

// Accept waits for the next connection that may be.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptTCP()
		if err != nil {
			return nil, err
		}
		source := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		if l.enter(source) {
			return &conn{TCPConn: c, leave: sync.OnceFunc(func() { l.leave(source) })}, nil
		}
		_ = c.SetLinger(0) // a reset: who is refused need not wait
		_ = c.Close()
	}
}

func (l *Listener) enter(source netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.total || l.sources[source] >= l.perSource {
		return false
	}
	l.open++
	l.sources[source]++
	return true
}

func (l *Listener) leave(source netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.sources[source]--; l.sources[source] == 0 {
		delete(l.sources, source)
	}
}

// conn is a connection that is counted until it is closed.
type conn struct {
	*net.TCPConn
	leave func()
}

func (c *conn) Close() error {
	err := c.TCPConn.Close()
	c.leave()
	return err
}
