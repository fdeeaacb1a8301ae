package endpoint

import (
	"context"
	"net"
)

// Listen listens in the network namespace with that path, as [net.Listen] does, also on addresses that it does not have
// yet.
func Listen(ctx context.Context, namespace, network, address string) (l net.Listener, err error) {
	err = runInNamespace(namespace, func() error {
		l, err = listening.Listen(ctx, network, address)
		return err
	})
	return l, err
}

// ListenPacket does for Listen what [net.ListenPacket] does for [net.Listen].
func ListenPacket(ctx context.Context, namespace, network, address string) (p net.PacketConn, err error) {
	err = runInNamespace(namespace, func() error {
		p, err = listening.ListenPacket(ctx, network, address)
		return err
	})
	return p, err
}
