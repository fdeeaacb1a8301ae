//go:build linux

package nfs

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// dial connects from a network namespace.
func dial(namespace *os.File, server netip.AddrPort, deadline time.Time) (net.Conn, error) {
	family, address := unix.AF_INET, unix.Sockaddr(nil)
	if at := server.Addr(); at.Is4() {
		address = &unix.SockaddrInet4{Port: int(server.Port()), Addr: at.As4()}
	} else {
		family, address = unix.AF_INET6, &unix.SockaddrInet6{Port: int(server.Port()), Addr: at.As16()}
	}
	return connect(namespace, family, address, deadline)
}

// socketIn makes a socket in a network namespace, in which it stays.
func socketIn(namespace *os.File, family int) (fd int, err error) {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends in the namespace
		err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		}
		done <- err
	}()
	if err := <-done; err != nil {
		return -1, fmt.Errorf("make a socket in the network namespace of the caller: %w", err)
	}
	return fd, nil
}

func connect(namespace *os.File, family int, address unix.Sockaddr, deadline time.Time) (net.Conn, error) {
	fd, err := socketIn(namespace, family)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "mount target")
	defer f.Close()
	if err := unix.Connect(fd, address); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return nil, err
	}
	if err := awaitConnection(fd, deadline); err != nil {
		return nil, err
	}
	return net.FileConn(f)
}

// awaitConnection returns when a socket is connected.
func awaitConnection(fd int, deadline time.Time) error {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return unix.ETIMEDOUT
		}
		n, err := unix.Poll(poll, int(left.Milliseconds())+1)
		if errors.Is(err, unix.EINTR) || err == nil && n == 0 {
			continue
		}
		if err != nil {
			return err
		}
		value, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if err != nil {
			return err
		}
		if value != 0 {
			return unix.Errno(value)
		}
		return nil
	}
}
