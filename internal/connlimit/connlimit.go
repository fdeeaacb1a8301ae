// Package connlimit bounds how many connections this process has open: for each source address of a tenant, for each
// listener, for each tenant that shares the process, and in all.
//
// A server that answers machines and pods is one process for all of them. Without a bound, one pod that opens
// connections and says nothing takes the memory and the file descriptors that everybody else needs; timeouts only make
// it open them again.
//
// The bound of the process is a half of the file descriptors that it may have (RLIMIT_NOFILE), or as many as have a
// quarter of the host's memory in their buffers, if those are fewer. The other half is for files and for the process's
// own connections. A share is what one tenant has of the bound, such as a VPC or a cluster.
// A share may take no more descriptors than are left free for all others: one share alone gets a half of the bound, two
// get a third each, and the same part always stays free for the next. So no VPC or cluster closes the process to the
// others.
package connlimit

import (
	"errors"
	"math"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"github.com/coracle-eks/coracle/internal/hostmemory"
)

// budget counts the descriptors of all shares, and the connections of their sources.
type budget struct {
	limit int

	mu      sync.Mutex
	used    int
	shares  map[string]int // descriptors in use, by share
	sources map[source]int // connections, on all listeners of a share
}

// source is an address from which connections of a share come.
type source struct {
	share   string
	address netip.Addr
}

func newBudget(limit int) *budget {
	return &budget{limit: limit, shares: map[string]int{}, sources: map[source]int{}}
}

// process returns the budget of this process.
var process = sync.OnceValue(func() *budget {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		files.Cur = 1024 // the least that a Linux gives
	}
	return newBudget(limitFor(files.Cur, hostmemory.Total()))
})

// limitFor returns how many descriptors connections may have in a process with so many files on a host with so much
// memory, 0 if that is unknown.
func limitFor(files, memory uint64) int {
	limit := min(files, math.MaxInt32) / 2
	if memory > 0 {
		limit = min(limit, memory/4/perDescriptor)
	}
	return int(limit)
}

// Buffer is the size in bytes of the buffers of a connection, one for each direction, of which the kernel makes twice
// as much. It is what a connection begins with: left alone, the kernel lets both grow to several MiB, in memory that
// counts for nobody, as long as one side sends and the other does not read.
const Buffer = 64 << 10

// perDescriptor is the memory that a connection takes in its buffers. Two that are joined take no more for each of
// their descriptors, among which are pipes.
const perDescriptor = 2 * 2 * Buffer

// BoundBuffers bounds the buffers of a socket. It is a Control of [net.Dialer], for connections to which those of
// others are joined.
func BoundBuffers(_, _ string, socket syscall.RawConn) error {
	var failed error
	err := socket.Control(func(fd uintptr) {
		for _, option := range []int{syscall.SO_RCVBUF, syscall.SO_SNDBUF} {
			failed = errors.Join(failed, syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, option, Buffer))
		}
	})
	return errors.Join(err, failed)
}

// acquire takes descriptors for a share, unless the share then had more than are free.
func (b *budget) acquire(share string, descriptors int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.take(share, descriptors)
}

// take is acquire, called with mu held.
func (b *budget) take(share string, descriptors int) bool {
	if b.shares[share]+descriptors > b.limit-b.used-descriptors {
		return false
	}
	b.used += descriptors
	b.shares[share] += descriptors
	return true
}

// connect takes the descriptors of a connection of a source, unless that has as many connections as it may.
func (b *budget) connect(from source, descriptors, perSource int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sources[from] >= perSource || !b.take(from.share, descriptors) {
		return false
	}
	b.sources[from]++
	return true
}

func (b *budget) disconnect(from source, descriptors int) {
	b.release(from.share, descriptors)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sources[from]--; b.sources[from] == 0 {
		delete(b.sources, from)
	}
}

func (b *budget) release(share string, descriptors int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= descriptors
	if b.shares[share] -= descriptors; b.shares[share] == 0 {
		delete(b.shares, share)
	}
}

// Acquire takes file descriptors for connections that come from no [Listener], and reports whether the share may have
// them. The caller calls release once, when it has closed them.
func Acquire(share string, descriptors int) (release func(), ok bool) {
	b := process()
	if !b.acquire(share, descriptors) {
		return nil, false
	}
	return func() { b.release(share, descriptors) }, true
}

// Limits are those of a [Listener].
type Limits struct {
	// Share names the tenant that the connections count for. Listeners with the same name share it.
	Share string
	// PerSource bounds the connections of one source address, to all listeners of the share together.
	PerSource int
	// Total bounds the connections to this listener.
	Total int
	// Descriptors is the number of file descriptors that a connection needs, with those opened on its behalf. Zero means
	// one.
	Descriptors int
}

// Listener is a [net.Listener] that closes connections at once which are too many. It does not hold them back: the
// queue of the kernel is one for all sources, too.
type Listener struct {
	*net.TCPListener
	limits Limits
	shared *budget

	mu   sync.Mutex
	open int
}

// New limits a listener, which must be one of TCP, to so many connections, and to its share of what this process may
// have. One source gets at most a quarter of the bound of the process.
func New(l net.Listener, limits Limits) *Listener {
	return newListener(l, limits, process())
}

func newListener(l net.Listener, limits Limits, shared *budget) *Listener {
	limits.Descriptors = max(1, limits.Descriptors)
	limits.PerSource = min(limits.PerSource, max(1, shared.limit/4/limits.Descriptors))
	listener := l.(*net.TCPListener)
	if socket, err := listener.SyscallConn(); err == nil {
		_ = BoundBuffers("", "", socket) // of what is accepted, too; only a closed socket cannot be bounded
	}
	return &Listener{TCPListener: listener, limits: limits, shared: shared}
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
		from := sourceOf(c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr())
		if l.acquireSlot(from) {
			return &Conn{TCPConn: c, leave: sync.OnceFunc(func() { l.releaseSlot(from) })}, nil
		}
		_ = c.SetLinger(0) // a reset: who is refused need not wait
		_ = c.Close()
	}
}

func (l *Listener) acquireSlot(from netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.limits.Total ||
		!l.shared.connect(source{l.limits.Share, from}, l.limits.Descriptors, l.limits.PerSource) {
		return false
	}
	l.open++
	return true
}

func (l *Listener) releaseSlot(from netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shared.disconnect(source{l.limits.Share, from}, l.limits.Descriptors)
	l.open--
}

// AcquireRequest takes the place of a connection for a further request on one of a source, and reports whether the
// source and the share may have it. The caller calls release once, when the request has ended.
func (l *Listener) AcquireRequest(address netip.Addr) (release func(), ok bool) {
	from := source{l.limits.Share, sourceOf(address)}
	if !l.shared.connect(from, 1, l.limits.PerSource) {
		return nil, false
	}
	return func() { l.shared.disconnect(from, 1) }, true
}

// Conn is a connection that is counted until it is closed.
type Conn struct {
	*net.TCPConn
	leave func()
}

// Close closes the connection, which no longer counts.
func (c *Conn) Close() error {
	err := c.TCPConn.Close()
	c.leave()
	return err
}
