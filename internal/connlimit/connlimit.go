// Package connlimit bounds how many connections the listeners of this process have open: for each source address, for each
// listener, and in all.
//
// A server that answers machines and pods is one process for all of them. Without a bound, one pod that opens connections and says
// nothing takes the memory and the file descriptors that everybody else needs; timeouts only make it open them again.
//
// The bound of the process is a half of the file descriptors that it may have (RLIMIT_NOFILE). The other half is for files, for
// the daemon's own connections, and for those that it makes on behalf of a connection. One listener gets at most a half of the
// bound, and one source at most a half of that, so that no VPC closes the daemon to the others.
package connlimit

import (
	"math"
	"net"
	"net/netip"
	"sync"
	"syscall"
)

// budget counts the connections of all listeners that share it.
type budget struct {
	limit int

	mu   sync.Mutex
	open int
}

// process returns the budget of this process.
var process = sync.OnceValue(func() *budget {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		files.Cur = 1024 // the least that a Linux gives
	}
	return &budget{limit: int(min(files.Cur, math.MaxInt32)) / 2}
})

func (b *budget) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open >= b.limit {
		return false
	}
	b.open++
	return true
}

func (b *budget) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open--
}

// Listener is a [net.Listener] that closes connections at once which are too many. It does not hold them back: the queue of the
// kernel is one for all sources, too.
type Listener struct {
	*net.TCPListener
	perSource, total int
	shared           *budget

	mu      sync.Mutex
	open    int
	sources map[netip.Addr]int
}

// New limits a listener, which must be one of TCP, to so many connections for each source address, and in all, and to its part of
// what this process may have.
func New(l net.Listener, perSource, total int) *Listener {
	return newListener(l, perSource, total, process())
}

func newListener(l net.Listener, perSource, total int, shared *budget) *Listener {
	total = min(total, max(1, shared.limit/2))
	perSource = min(perSource, max(1, shared.limit/4))
	return &Listener{TCPListener: l.(*net.TCPListener), perSource: perSource, total: total, shared: shared, sources: map[netip.Addr]int{}}
}

// loopback stands for all addresses of the host's loopback: a program there has as many as it likes.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// sourceOf returns the address that a connection counts for.
func sourceOf(remote netip.Addr) netip.Addr {
	remote = remote.Unmap()
	if remote.IsLoopback() {
		return loopback
	}
	return remote
}

// Accept waits for the next connection that may be.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptTCP()
		if err != nil {
			return nil, err
		}
		source := sourceOf(c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr())
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
	if l.open >= l.total || l.sources[source] >= l.perSource || !l.shared.enter() {
		return false
	}
	l.open++
	l.sources[source]++
	return true
}

func (l *Listener) leave(source netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shared.leave()
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
