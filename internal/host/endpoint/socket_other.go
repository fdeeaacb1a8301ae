//go:build !linux

package endpoint

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

var (
	errNamespaces = errors.New("network namespaces need Linux")
	errFilters    = errors.New("socket filters need Linux")
)

// runInNamespace runs f in the host's network, the only one.
func runInNamespace(namespace string, f func() error) error {
	if namespace != "" {
		return errNamespaces
	}
	return f()
}

// identity returns the identity of the host's network, the only one.
func identity(namespace string) (uint64, error) {
	if namespace != "" {
		return 0, errNamespaces
	}
	return 0, nil
}

var listening net.ListenConfig

// attachSourceFilter returns an error if not all sources are allowed: a forwarder then closes the connections of others
// itself.
func attachSourceFilter(_ *net.TCPListener, allow []netip.Prefix) error {
	if allow == nil {
		return nil
	}
	return errFilters
}

// connectFrom connects from the host's network, the only one.
func connectFrom(ctx context.Context, namespace string, target netip.AddrPort) (conn *net.TCPConn, err error) {
	return conn, runInNamespace(namespace, func() error {
		c, err := dialer.DialContext(ctx, "tcp", target.String())
		if err == nil {
			conn = c.(*net.TCPConn)
		}
		return err
	})
}

// idleTime is not known.
func idleTime(*net.TCPConn) time.Duration { return 0 }
