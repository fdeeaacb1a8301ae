package testenv

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
)

// SocketBuffers returns the sizes in bytes of the buffers that the kernel has for a connection, to receive and to send.
func SocketBuffers(t testing.TB, c net.Conn) (receive, send int) {
	t.Helper()
	socket, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	failed := errors.New("the socket was not asked")
	err = socket.Control(func(fd uintptr) {
		var err1, err2 error
		receive, err1 = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF)
		send, err2 = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF)
		failed = errors.Join(err1, err2)
	})
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	return receive, send
}

// DialedBuffers returns the buffers of a connection that dial makes to a listener of the test.
func DialedBuffers(t testing.TB, dial func(ctx context.Context, network, address string) (net.Conn, error)) (
	receive, send int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return SocketBuffers(t, c)
}
