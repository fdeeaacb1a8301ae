package endpoint

import (
	"context"
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/network"
)

// within runs f on a thread that is in the network namespace with that path, the host's when it is empty; see [network.In].
func within(namespace string, f func() error) error {
	if namespace == "" {
		return f()
	}
	return network.In(namespace, f)
}

// identity tells a namespace from another one that has its path later. A namespace in which we have a socket lives on, so
// its number is not used again.
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
