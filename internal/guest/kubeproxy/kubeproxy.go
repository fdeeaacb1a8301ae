//go:build linux

package kubeproxy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// Program is the path of the real kube-proxy in its image.
const Program = "/usr/libexec/kubernetes/kube-proxy"

// buckets is the size of the table as everybody may read it: in a user namespace, the second of sizes is the host's
// root's alone.
const buckets = "/proc/sys/net/netfilter/nf_conntrack_buckets"

// sizes are the files that kube-proxy writes: the most connections, and the buckets of their table.
var sizes = []string{"/proc/sys/net/netfilter/nf_conntrack_max", "/sys/module/nf_conntrack/parameters/hashsize"}

// Main replaces this process by the real kube-proxy; it returns an exit status when it cannot.
func Main(args []string) int {
	runtime.LockOSThread()
	host, err := canSetConntrack()
	for _, name := range sizes {
		if err == nil && !host {
			err = private(name)
		}
	}
	if err != nil {
		// Without the right to mount, kube-proxy itself says what it cannot set.
		fmt.Fprintln(os.Stderr, "kube-proxy: keep the size of the connection tracking table apart from the host's:",
			err)
	}
	err = unix.Exec(Program, append([]string{"kube-proxy"}, args...), os.Environ())
	fmt.Fprintf(os.Stderr, "kube-proxy: run %s: %v\n", Program, err)
	return 1
}

// private puts a file with the same content over name.
func private(name string) error {
	content, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrPermission) {
		content, err = os.ReadFile(buckets)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("/run", "kube-proxy-")
	if errors.Is(err, fs.ErrNotExist) {
		dir, err = os.MkdirTemp("/", ".kube-proxy-")
	}
	if err != nil {
		return err
	}
	// The mount holds the file; its name is not needed.
	defer os.RemoveAll(dir)
	copied := filepath.Join(dir, filepath.Base(name))
	if err := os.WriteFile(copied, content, 0o644); err != nil {
		return err
	}
	return unix.Mount(copied, name, "", unix.MS_BIND, "")
}

// canSetConntrack reports whether the connection tracking table's size can be set from here: the kernel makes the file
// read-only for everybody in all network namespaces but the first.
func canSetConntrack() (bool, error) {
	var stat unix.Stat_t
	err := unix.Stat(sizes[0], &stat)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil // no connection tracking to set anything of
	}
	return stat.Mode&0o222 != 0, err
}
