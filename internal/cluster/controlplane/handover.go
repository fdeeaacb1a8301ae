package controlplane

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/process"
)

// An API server is replaced without an outage. The new one listens on the port of the old one
// (SO_REUSEPORT), and a filter in the kernel decides which of the two a new connection goes to:
//
//  1. To the old one, while the new one starts. Only our probe, which has an address of its own,
//     is sent to the new one.
//  2. At the moment at which the new one begins to serve, to the new one: the first to connect
//     are its own loopback clients, and one of them would give up for good if the old one got it.
//     The new one's log tells the moment some milliseconds before.
//  3. When the new one has connected to itself, a tenth of a second later, to the old one again,
//     while the new one fills its caches.
//  4. When the probe finds it ready, to the new one; and the old one finishes what it has.
//
// Should the moment be missed, which a busy machine may do, the new one is started once more, and
// sent all connections from the instant at which it listens: they wait until it serves.
//
// As long as both run they are two API servers of one highly available cluster, which Kubernetes
// supports for neighbouring minor versions. Where the kernel does not let us install the filter,
// connections are spread over both while the new one starts, and some are refused.

// runAPIServer makes spec the cluster's only API server. It returns once that is ready and any
// other is gone; when it does not get ready within timeout, the other still serves.
func (c *Controller) runAPIServer(ctx context.Context, p plane, spec process.Spec, timeout time.Duration) error {
	others := slices.DeleteFunc(c.o.Host.List(apiServers(p.cluster.ID)), func(s process.Status) bool { return s.Name == spec.Name })
	if len(others) > 0 {
		return c.handOver(ctx, p, spec, others, timeout)
	}
	was, err := c.o.Host.Ensure(ctx, spec)
	if err != nil || was.Running && c.clock.Since(was.Started) > settled {
		return err // or it has run for long: nothing to wait for
	}
	crashAPIServerStarted.Here()
	config, client, err := c.bootstrapClient(p)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return c.await(ctx, spec.Name, timeout, func(ctx context.Context) error {
		_, err := get(ctx, client, config.Host+"/readyz")
		return err
	})
}

// settled is how long an API server must have run for it to be taken as ready without asking.
const settled = time.Minute

func (c *Controller) handOver(ctx context.Context, p plane, spec process.Spec, others []process.Status, timeout time.Duration) error {
	config, _, err := c.bootstrapClient(p)
	if err != nil {
		return err
	}
	// The one that has run for longest is the one that serves: the old one, or the wanted one
	// itself when the other is a new version that did not work.
	if serving := c.running(p); len(serving) > 0 {
		c.direct(p, serving[0].Name, spec.Name)
		if serving[0].Name != spec.Name && c.pid(spec.Name) != 0 && !c.readyNow(ctx, config, p, spec.Name) {
			// A daemon that is dead by now started it. Nobody was there to help it to its own
			// connections, so it starts anew.
			if err := c.o.Host.Stop(ctx, spec.Name); err != nil {
				return err
			}
		}
	}
	log := newTail(spec.Log)
	if _, err := c.o.Host.Ensure(ctx, spec); err != nil {
		return err
	}
	crashHandoverStarted.Here()
	helping, enough := context.WithCancel(ctx)
	var help sync.WaitGroup
	if serving := c.running(p); len(serving) == 2 && serving[0].Name != spec.Name {
		help.Go(func() { c.letConnectToItself(helping, p, spec.Name, serving[0].Name, log) })
	}
	err = c.await(ctx, spec.Name, timeout, func(ctx context.Context) error { return c.probe(ctx, config, p, spec.Name) })
	enough()
	help.Wait()
	if err != nil {
		return err
	}
	crashHandoverReady.Here()
	c.direct(p, spec.Name, spec.Name)
	for _, old := range others {
		c.log.Info("the new API server is ready; stopping the old one", "cluster", p.cluster.Name, "new", spec.Name, "old", old.Name)
		if err := c.o.Host.Stop(ctx, old.Name); err != nil {
			return err
		}
	}
	c.unsteer(p)
	crashHandoverDone.Here()
	return nil
}

func (c *Controller) readyNow(ctx context.Context, config *rest.Config, p plane, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return c.probe(ctx, config, p, name) == nil
}

// letConnectToItself takes steps 2 and 3 for the starting API server, whichever process it is by
// then, until ctx ends.
func (c *Controller) letConnectToItself(ctx context.Context, p plane, starting, serving string, log *tail) {
	const (
		atMost = 10 * time.Second       // until its first connection; beyond that it hangs
		settle = 150 * time.Millisecond // for the others of its clients
	)
	runtime.LockOSThread() // not to miss the moment
	defer runtime.UnlockOSThread()
	ticker := time.NewTicker(500 * time.Microsecond)
	defer ticker.Stop()
	var (
		known           int       // process ID
		toNew           time.Time // since when it is sent connections; zero when it is not
		connected, over bool
	)
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		pid := c.pid(starting)
		if pid == 0 {
			continue
		}
		if pid != known {
			toNew, connected, over = time.Time{}, false, false
			if known != 0 { // the second attempt
				c.direct(p, starting, starting)
				toNew = time.Now()
			}
			known = pid
		}
		for _, line := range log.lines() {
			switch {
			case !strings.Contains(line, " "+strconv.Itoa(pid)+" "): // the old one's
			case toNew.IsZero() && (strings.Contains(line, "Loaded client CA") || strings.Contains(line, "Serving securely on")):
				c.direct(p, starting, starting)
				toNew = time.Now()
			case strings.Contains(line, "unable to refresh the port block"):
				c.log.Info("the new API server did not find itself; starting it once more", "cluster", p.cluster.Name)
				if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
					c.log.Warn("could not end the new API server", "cluster", p.cluster.Name, "error", err)
				}
			}
		}
		if toNew.IsZero() || over {
			continue
		}
		if !connected {
			sockets, err := tcpSockets()
			if err != nil {
				c.log.Warn("connections may be sent to the new API server before it is ready", "cluster", p.cluster.Name, "error", err)
				return
			}
			if connected = connectsToItself(sockets, socketsOf(pid), p.port); connected {
				c.log.Debug("the new API server has connected to itself", "cluster", p.cluster.Name, "after", time.Since(toNew))
				toNew = time.Now()
			}
		}
		if connected && time.Since(toNew) > settle || time.Since(toNew) > atMost {
			c.direct(p, serving, starting)
			over = true
		}
	}
}

// tail reads what is appended to a log.
type tail struct {
	name   string
	offset int64
	rest   string
}

// newTail begins at the log's present end.
func newTail(name string) *tail {
	t := &tail{name: name}
	if info, err := os.Stat(name); err == nil {
		t.offset = info.Size()
	}
	return t
}

// lines are the whole lines that have come since the last call. A log that cannot be read has none.
func (t *tail) lines() []string {
	f, err := os.Open(t.name)
	if err != nil {
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() == t.offset {
		return nil
	} else if info.Size() < t.offset { // rotated
		t.offset = 0
	}
	b, err := io.ReadAll(io.NewSectionReader(f, t.offset, 1<<20))
	if err != nil {
		return nil
	}
	t.offset += int64(len(b))
	all := strings.Split(t.rest+string(b), "\n")
	t.rest = all[len(all)-1]
	return all[:len(all)-1]
}

func (c *Controller) pid(name string) int {
	for _, s := range c.o.Host.List(name) {
		if s.Name == name && s.Running {
			return s.PID
		}
	}
	return 0
}

// direct sends every new connection to the API server everyone, and those from our probe's
// address to the API server probe, which may be about to start.
func (c *Controller) direct(p plane, everyone, probe string) {
	servers := c.running(p)
	// The kernel numbers the sockets in the order in which they began to listen.
	number := func(name string) int {
		if i := slices.IndexFunc(servers, func(s process.Status) bool { return s.Name == name }); i >= 0 {
			return i
		}
		return len(servers)
	}
	if err := filterConnections(servers, p.port, number(everyone), number(probe)); err != nil {
		c.log.Info("new connections are spread over the old and the new API server", "cluster", p.cluster.Name, "because", err)
	}
}

func (c *Controller) unsteer(p plane) {
	socket, err := listener(c.running(p), p.port)
	if err == nil {
		const detach = 68 // SO_DETACH_REUSEPORT_BPF
		err = unix.SetsockoptInt(socket, unix.SOL_SOCKET, detach, 0)
		unix.Close(socket)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		c.log.Debug("could not remove the connection filter of the API server; with one socket left it has no effect", "cluster", p.cluster.Name, "because", err)
	}
}

// running are the cluster's API servers, the one that has run for longest first.
func (c *Controller) running(p plane) []process.Status {
	all := slices.DeleteFunc(c.o.Host.List(apiServers(p.cluster.ID)), func(s process.Status) bool { return !s.Running })
	slices.SortFunc(all, func(a, b process.Status) int { return a.Started.Compare(b.Started) })
	return all
}

// filterConnections makes the kernel give every new connection to the API server with the
// number everyone, but those from our probe's address to the one with the number probe.
func filterConnections(servers []process.Status, port, everyone, probe int) error {
	socket, err := listener(servers, port)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	source := loopback(port, probeHost)
	const networkHeader, sourceAddress = -0x100000, 12 // SKF_NET_OFF, offset in the IPv4 header
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: uint32(0xFFFFFFFF + networkHeader + sourceAddress + 1)},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(source[0])<<24 | uint32(source[1])<<16 | uint32(source[2])<<8 | uint32(source[3]), Jt: 0, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: uint32(probe)},
		{Code: unix.BPF_RET | unix.BPF_K, K: uint32(everyone)},
	}
	f := unix.SockFprog{Len: uint16(len(program)), Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0]))}
	if err := unix.SetsockoptSockFprog(socket, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &f); err != nil {
		return fmt.Errorf("SO_ATTACH_REUSEPORT_CBPF: %w", err)
	}
	return nil
}

// probeHost is the last byte of the address that we probe a starting API server from.
const probeHost = 2

// probe asks the very API server of that name whether it is ready.
func (c *Controller) probe(ctx context.Context, config *rest.Config, p plane, name string) error {
	pid := c.pid(name)
	if pid == 0 {
		return fmt.Errorf("%s does not run", componentOf(name))
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return err
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: loopback(p.port, probeHost)}}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			raw, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			own := tlsConfig.Clone()
			own.ServerName = "127.0.0.1"
			conn := tls.Client(raw, own)
			if err := conn.HandshakeContext(ctx); err != nil {
				return nil, errors.Join(err, raw.Close())
			}
			// The handshake is over, so the connection has been accepted by one of them.
			if err := servedBy(raw, pid); err != nil {
				return nil, errors.Join(err, raw.Close())
			}
			return conn, nil
		},
	}}
	_, err = get(ctx, client, config.Host+"/readyz")
	return err
}

// servedBy is an error unless the other end of a connection on this machine is held by the process.
func servedBy(conn net.Conn, pid int) error {
	here, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return err
	}
	there, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return err
	}
	sockets, err := tcpSockets()
	if err != nil {
		return err
	}
	for _, s := range sockets {
		if s.local == there && s.remote == here {
			if _, held := socketsOf(pid)[s.inode]; !held {
				return errors.New("another API server took the connection")
			}
			return nil
		}
	}
	return errors.New("the connection is not in /proc/net/tcp")
}

// connectsToItself reports whether a process holds both ends of a connection to the port.
func connectsToItself(sockets []tcpSocket, own map[uint64]int, port int) bool {
	held := map[[2]netip.AddrPort]bool{}
	for _, s := range sockets {
		if _, ok := own[s.inode]; ok {
			held[[2]netip.AddrPort{s.local, s.remote}] = true
		}
	}
	for ends := range held {
		if int(ends[1].Port()) == port && held[[2]netip.AddrPort{ends[1], ends[0]}] {
			return true
		}
	}
	return false
}

// duplicate is a file descriptor of our own for that of another process.
func duplicate(pid, fd int) (int, error) {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0, fmt.Errorf("pidfd_open: %w", err)
	}
	defer unix.Close(pidfd)
	own, err := unix.PidfdGetfd(pidfd, fd, 0)
	if err != nil {
		return 0, fmt.Errorf("pidfd_getfd: %w", err)
	}
	return own, nil
}

// listener is a duplicate of the listening socket of one of the servers.
func listener(servers []process.Status, port int) (int, error) {
	sockets, err := tcpSockets()
	if err != nil {
		return 0, err
	}
	failure := errors.New("no API server listens")
	for _, server := range servers {
		for _, s := range sockets {
			if !s.listens || int(s.local.Port()) != port {
				continue
			}
			fd, held := socketsOf(server.PID)[s.inode]
			if !held {
				continue
			}
			socket, err := duplicate(server.PID, fd)
			if err == nil {
				return socket, nil
			}
			failure = err
		}
	}
	return 0, failure
}

// socketsOf are the file descriptors of a process that are sockets, by the socket's inode. It is
// empty for a process that is gone. Standard input is no socket, so none is 0.
func socketsOf(pid int) map[uint64]int {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	fds := map[uint64]int{}
	for _, e := range entries {
		target, err := os.Readlink(dir + "/" + e.Name())
		if err != nil {
			continue // closed meanwhile
		}
		name, ok := strings.CutPrefix(target, "socket:[")
		if !ok {
			continue
		}
		inode, errInode := strconv.ParseUint(strings.TrimSuffix(name, "]"), 10, 64)
		fd, errFD := strconv.Atoi(e.Name())
		if errInode == nil && errFD == nil {
			fds[inode] = fd
		}
	}
	return fds
}

type tcpSocket struct {
	local, remote netip.AddrPort
	listens       bool
	inode         uint64
}

// tcpSockets are the IPv4 sockets of this network namespace (proc_net_tcp in the kernel's documentation).
func tcpSockets() ([]tcpSocket, error) {
	f, err := os.Open("/proc/net/tcp")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []tcpSocket
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 {
			continue
		}
		local, errLocal := hexAddress(fields[1])
		remote, errRemote := hexAddress(fields[2])
		inode, errInode := strconv.ParseUint(fields[9], 10, 64)
		if errLocal != nil || errRemote != nil || errInode != nil {
			continue // the heading
		}
		const listen = "0A"
		all = append(all, tcpSocket{local: local, remote: remote, listens: fields[3] == listen, inode: inode})
	}
	return all, lines.Err()
}

// hexAddress reads "0100007F:1F90": the address is in the machine's byte order, the port is not.
func hexAddress(s string) (netip.AddrPort, error) {
	address, port, ok := strings.Cut(s, ":")
	if !ok {
		return netip.AddrPort{}, errors.New("no colon")
	}
	a, err := strconv.ParseUint(address, 16, 32)
	if err != nil {
		return netip.AddrPort{}, err
	}
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return netip.AddrPort{}, err
	}
	var b [4]byte
	*(*uint32)(unsafe.Pointer(&b[0])) = uint32(a)
	return netip.AddrPortFrom(netip.AddrFrom4(b), uint16(n)), nil
}
