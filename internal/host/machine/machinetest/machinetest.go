//go:build linux

package machinetest

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/guest/rootfs"
	"github.com/coracle-eks/coracle/internal/host/usernamespace"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// Init is the path of init in the machines of tests.
const Init = "/usr/lib/coracle/coracle-node"

// Main makes the program the init of a machine when it is called as that; otherwise it returns.
//
// The init runs /etc/rc if there is such a file, writes "up" to its console and makes /run/up, and then waits: SIGTERM
// is the power button, SIGUSR1 a reboot from inside, SIGUSR2 a shutdown from inside. With the file /etc/stubborn it
// ignores the power button.
func Main() {
	if len(os.Args) < 2 || os.Args[1] != "init" {
		return
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCHLD)
	if _, err := os.Stat("/etc/rc"); err == nil {
		out, err := exec.Command("/bin/sh", "/etc/rc").CombinedOutput()
		fmt.Printf("rc: %s (%v)\n", out, err)
	}
	if err := os.WriteFile("/run/up", nil, 0o644); err != nil {
		fmt.Println(err)
	}
	fmt.Println("up")
	for s := range signals {
		switch s {
		case syscall.SIGTERM:
			if _, err := os.Stat("/etc/stubborn"); err == nil {
				fmt.Println("stubborn")
				continue
			}
			fmt.Println("down")
			_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
		case syscall.SIGUSR1:
			_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
		case syscall.SIGUSR2:
			_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
		case syscall.SIGCHLD:
			for {
				if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
					break
				}
			}
		}
	}
}

// WriteBaseImage creates a root file system with the programs of the node image.
func WriteBaseImage(dir string) error {
	base, err := Base()
	if err != nil {
		return err
	}
	for _, d := range []string{"etc", "proc", "sys", "dev", "run", "tmp", "root", "var/log", "var/lib/containerd",
		"var/lib/kubelet", "usr/lib/coracle", "usr/local"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, Init), nil, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "etc/machine-id"), nil, 0o644); err != nil {
		return err
	}
	for name, target := range map[string]string{"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib",
		"lib64": "usr/lib64"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return rootfs.LinkBase(dir, base)
}

// Owner returns the mark of a daemon that exists for one test only.
func Owner(t testing.TB) string {
	testenv.NeedsRoot(t)
	var b [8]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Identity returns the identity of an owner's processes.
func Identity(owner string) process.Identity {
	return process.Identity{Owner: owner, Key: []byte("key of " + owner)}
}

// Network makes a network namespace with an eth0, bound to a file, and returns its path. It goes with the test.
func Network(t testing.TB, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := In("", func() error {
		if _, err := netns.New(); err != nil {
			return err
		}
		if err := addLink(); err != nil {
			return err
		}
		return unix.Mount(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), path, "", unix.MS_BIND, "")
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	return path
}

// UserNetwork is like Network, in a user namespace that owns the network; it also returns the first ID of the
// host that the namespace maps. It skips the test where that is not possible.
func UserNetwork(t testing.TB, dir, name string) (path string, userID uint32) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := usernamespace.Check(dir); err != nil {
		t.Skip("user namespaces:", err)
	}
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ranges := (usernamespace.Last - usernamespace.First + 1) / usernamespace.Size
	userID = usernamespace.First + mathrand.Uint32N(ranges)*usernamespace.Size
	if err := usernamespace.Create(userID, unix.CLONE_NEWNET, func(pid int) error {
		return unix.Mount(fmt.Sprintf("/proc/%d/ns/net", pid), path, "", unix.MS_BIND, "")
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	if err := In(path, addLink); err != nil {
		t.Fatal(err)
	}
	return path, userID
}

// addLink makes an eth0, which alone in its namespace need not be the end of a cable.
func addLink() error {
	return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}})
}

// In calls f on a thread of its own, in the network namespace at path if that is not empty.
func In(path string, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here
		if path != "" {
			ns, err := netns.GetFromPath(path)
			if err != nil {
				done <- err
				return
			}
			defer ns.Close()
			if err := netns.Set(ns); err != nil {
				done <- err
				return
			}
		}
		done <- f()
	}()
	return <-done
}
