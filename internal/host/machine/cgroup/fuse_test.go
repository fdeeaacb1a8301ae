//go:build linux

package cgroup

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/usernamespace"
)

// asOwnServer makes the test program wait for a file system that it serves itself.
const asOwnServer = "own-server"

// waitForItself enters a group, mounts a FUSE file system, asks it for a file with one thread, and takes the request
// with another, which does not answer.
func waitForItself(group, dir string) error {
	if err := writeFile(group, "cgroup.procs", "0"); err != nil {
		return err
	}
	device, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	user := 0
	if uids, _ := os.ReadFile("/proc/self/uid_map"); strings.Count(string(uids), "\n") > 1 {
		user = 1
	}
	if err := unix.Mount("self", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV,
		fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%[2]d,allow_other", device, user)); err != nil {
		return err
	}
	root, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if user != 0 { // root of a machine can hide the mount
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			return err
		}
	}
	request := make([]byte, 1<<20)
	if _, err := unix.Read(device, request); err != nil {
		return err
	}
	// struct fuse_out_header and struct fuse_init_out; of version 7.31, with pages to write of one kind
	answer := make([]byte, 16+64)
	binary.NativeEndian.PutUint32(answer, uint32(len(answer)))
	copy(answer[8:16], request[8:16])
	binary.NativeEndian.PutUint32(answer[16:], 7)
	binary.NativeEndian.PutUint32(answer[20:], 31)
	binary.NativeEndian.PutUint32(answer[36:], 4096)
	if _, err := unix.Write(device, answer); err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		var st unix.Stat_t
		failed <- unix.Fstatat(root, "file", &st, 0)
	}()
	if _, err := unix.Read(device, request); err != nil {
		return err
	}
	fmt.Println("waiting")
	return <-failed
}

// The kernel lets no signal end the wait for an answer to a request that a server has taken. Who waits for itself would
// wait, and keep its machine, until the host boots.
func TestWhoWaitsForItselfIsRemoved(t *testing.T) {
	t.Parallel()
	const first = usernamespace.First + 11*usernamespace.Size
	for name, attributes := range map[string]*syscall.SysProcAttr{
		"host's users": {Unshareflags: unix.CLONE_NEWNS},
		"own users, hidden mount": {
			Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1},
				{ContainerID: 1, HostID: int(first) + 1, Size: 9}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1},
				{ContainerID: 1, HostID: int(first) + 1, Size: 9}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := hierarchy(t, func(h Hierarchy) bool { return h.V2 || h.hasController("memory") })
			group := filepath.Join(dir, "child")
			if _, err := os.Stat("/dev/fuse"); err != nil {
				t.Skip(err)
			}
			if attributes.Cloneflags != 0 { // given away by its owner
				if err := os.Chown(group, int(first)+5, 0); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command(os.Args[0], asOwnServer, group, t.TempDir())
			cmd.SysProcAttr = attributes
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			lines.Scan()
			said := lines.Text()
			connections := connectionsOf([]string{group})
			if said == "waiting" {
				if err := killGroup(dir); err != nil {
					t.Error(err)
				}
				if mounted := connections.mounted(); len(mounted) == 0 && attributes.Cloneflags == 0 {
					t.Error("no mount is found of the process that waits")
				}
			}
			start := time.Now()
			if err := killAndRemove([]string{dir}, connections); err != nil {
				t.Fatalf("after %v: %v", time.Since(start), err)
			}
			var exit *exec.ExitError
			if err := cmd.Wait(); said != "waiting" || !errors.As(err, &exit) || exit.String() != "signal: killed" {
				t.Errorf("it said %q and ended with %v", said, err)
			}
		})
	}
}

func TestConnectionsOfMachines(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	deep := strings.Repeat("/\\040", 1<<20)
	if err := parseConnections(names, strings.NewReader(`31 30 0:27 / /a rw - tmpfs fuse rw
32 30 0:28 / /b\040- rw - fuse name rw
33 30 0:29 / /c rw shared:1 master:2 - fuse.sshfs fuse rw
34 30 8:1 / /d rw - fuse fuse rw
35 30 0:../.. / /e rw - fuse fuse rw
36 30 0:30 / /f rw - fusectl fuse rw
broken - fuse
37 30 0:37 / `+deep+` rw - fuse fuse rw
38 30 0:38 / /g rw - fuse fuse rw
`)); err != nil {
		t.Error(err)
	}
	if want := map[string]bool{"28": true, "29": true, "37": true, "38": true}; !maps.Equal(names, want) {
		t.Errorf("mounted are %v, want %v", names, want)
	}
	const first = usernamespace.First + 12*usernamespace.Size
	c := connections{owners: []uint32{first}}
	for uid, want := range map[uint32]bool{
		0: false, first - 1: false, first: true, first + usernamespace.Size - 1: true, first + usernamespace.Size: false,
	} {
		if got := c.include(unix.Stat_t{Uid: uid}, "28", nil); got != want {
			t.Errorf("a connection of user %d is the machine's: %v, want %v", uid, got, want)
		}
	}
	if !c.include(unix.Stat_t{}, "28", names) || c.include(unix.Stat_t{}, "27", names) {
		t.Error("a connection is not known by its mount alone")
	}
	dir := t.TempDir()
	if got := connectionsOf([]string{dir, filepath.Join(dir, "gone")}).owners; len(got) != 0 {
		t.Errorf("groups of the host's users have the users %v", got)
	}
}
