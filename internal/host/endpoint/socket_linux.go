package endpoint

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/connlimit"
	"github.com/coracle-eks/coracle/internal/host/network"
)

// runInNamespace runs f on a thread that is in the network namespace with that path, the host's when it is empty; see
// [network.In].
func runInNamespace(namespace string, f func() error) error {
	if namespace == "" {
		return f()
	}
	return network.In(namespace, f)
}

// identity returns a number that distinguishes a namespace from another one that has its path later. A namespace in
// which we have a socket lives on, so its number is not used again.
func identity(namespace string) (uint64, error) {
	if namespace == "" {
		return 0, nil
	}
	return network.Identity(namespace)
}

// listening lets a socket listen on addresses that are not there yet: who configures the namespace may be at work.
var listening = func() net.ListenConfig {
	c := net.ListenConfig{Control: func(network, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			if network == "tcp6" || network == "udp6" {
				failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1)
			} else {
				failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_FREEBIND, 1)
			}
		})
		return errors.Join(err, failed)
	}}
	c.SetMultipathTCP(false) // which knows no socket filters
	return c
}()

// attachSourceFilter makes the kernel drop what sources that are not allowed send to the listener: to them, as to those
// whom a security group refuses, nobody is there.
func attachSourceFilter(l *net.TCPListener, allow []netip.Prefix) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	program, err := program(allow)
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		if allow == nil {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
			if errors.Is(failed, syscall.ENOENT) {
				failed = nil
			}
			return
		}
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	})
	return errors.Join(err, failed)
}

// connectFrom connects from a network namespace. Only the socket is made there: a wait for many targets that do not
// answer must not take as many threads.
func connectFrom(ctx context.Context, namespace string, target netip.AddrPort) (*net.TCPConn, error) {
	if !target.Addr().Is4() {
		return nil, unix.EAFNOSUPPORT
	}
	fd := -1
	err := runInNamespace(namespace, func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "connection to "+target.String()) // which the poller takes, as it does not block
	defer file.Close()                                                // of which net.FileConn makes a copy
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	if err := connlimit.BoundBuffers("tcp4", target.String(), raw); err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := file.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	defer context.AfterFunc(ctx, func() { file.SetDeadline(time.Unix(1, 0)) })() //nolint:errcheck // it may be closed
	begun, failed := false, error(nil)
	err = raw.Write(func(fd uintptr) bool {
		if !begun {
			begun = true
			failed = unix.Connect(int(fd), &unix.SockaddrInet4{Port: int(target.Port()), Addr: target.Addr().As4()})
			return failed != unix.EINPROGRESS //nolint:errorlint // an errno
		}
		errno, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		failed = err
		if err == nil && errno != 0 {
			failed = unix.Errno(errno)
		}
		return true
	})
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// idleTime returns for how long a connection has received and sent nothing.
func idleTime(conn *net.TCPConn) time.Duration {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	var info *unix.TCPInfo
	closed := raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	if closed != nil || err != nil {
		return 0
	}
	return time.Duration(min(info.Last_data_recv, info.Last_data_sent)) * time.Millisecond
}

// program returns a socket filter that passes packets from the IPv4 prefixes.
func program(allow []netip.Prefix) ([]unix.SockFilter, error) {
	const (
		networkHeader = 0xFFF00000 // SKF_NET_OFF: offsets are from the IP header
		sourceAddress = 12
	)
	code := []bpf.Instruction{
		bpf.LoadAbsolute{Off: networkHeader + sourceAddress, Size: 4},
		bpf.StoreScratch{Src: bpf.RegA, N: 0},
	}
	for _, p := range allow {
		if !p.Addr().Is4() {
			continue
		}
		b := p.Masked().Addr().As4()
		network := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
		code = append(code,
			bpf.LoadScratch{Dst: bpf.RegA, N: 0},
			bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: uint32(uint64(0xFFFFFFFF) << (32 - p.Bits()))},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: network, SkipTrue: 1},
			bpf.RetConstant{Val: 0xFFFFFFFF},
		)
	}
	assembled, err := bpf.Assemble(append(code, bpf.RetConstant{Val: 0}))
	if err != nil {
		return nil, err
	}
	var out []unix.SockFilter
	for _, i := range assembled {
		out = append(out, unix.SockFilter{Code: i.Op, Jt: i.Jt, Jf: i.Jf, K: i.K})
	}
	return out, nil
}
