package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// within runs f on a thread that is in the network namespace with that path, the host's when it is empty. Sockets that f makes
// stay there. f must not start goroutines that make sockets.
func within(namespace string, f func() error) error {
	if namespace == "" {
		return f()
	}
	there, err := os.Open(namespace)
	if err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	defer there.Close()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		home, err := os.Open("/proc/thread-self/ns/net") // every thread is there when it runs no such f
		if err != nil {
			done <- err
			return
		}
		defer home.Close()
		if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
			runtime.UnlockOSThread()
			done <- fmt.Errorf("enter network namespace %s: %w", namespace, err)
			return
		}
		err = f()
		if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		} // else the thread ends with the goroutine
		done <- err
	}()
	return <-done
}

// identity tells a namespace from another one that has its path later. A namespace in which we have a socket lives on, so
// its number is not used again.
func identity(namespace string) (id [2]uint64, err error) {
	if namespace == "" {
		return id, nil
	}
	var s unix.Stat_t
	if err := unix.Stat(namespace, &s); err != nil {
		return id, fmt.Errorf("network namespace %s: %w", namespace, err)
	}
	return [2]uint64{s.Dev, s.Ino}, nil
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

// Listen listens in the network namespace with that path, as [net.Listen] does, also on addresses that it does not have yet.
func Listen(ctx context.Context, namespace, network, address string) (l net.Listener, err error) {
	err = within(namespace, func() error {
		l, err = listening.Listen(ctx, network, address)
		return err
	})
	return l, err
}

// ListenPacket is to Listen what [net.ListenPacket] is to [net.Listen].
func ListenPacket(ctx context.Context, namespace, network, address string) (p net.PacketConn, err error) {
	err = within(namespace, func() error {
		p, err = listening.ListenPacket(ctx, network, address)
		return err
	})
	return p, err
}
