//go:build linux

package confine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/testenv"
)

// asConfined makes the test program run a command as a machine would.
const asConfined = "confined"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == asConfined {
		runtime.LockOSThread()
		if err := Thread(Options{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(100)
		}
		fmt.Fprintln(os.Stderr, unix.Exec(os.Args[2], os.Args[2:], os.Environ()))
		os.Exit(101)
	}
	if len(os.Args) == 2 && os.Args[1] == "try" {
		tryRefused()
	}
	os.Exit(m.Run())
}

var kinds = map[string]Options{
	"host's users":               {},
	"host's users, cgroup v2":    {CgroupV2: true},
	"a user namespace":           {UserNamespace: true},
	"a user namespace,cgroup v2": {UserNamespace: true, CgroupV2: true},
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	const everywhere, hosts, v1, v2 = "", "host's users", "not host's users with v2", "host's users with v2"
	applies := map[string]func(Options) bool{
		everywhere: func(Options) bool { return true },
		hosts:      func(o Options) bool { return !o.UserNamespace },
		v1:         func(o Options) bool { return o.UserNamespace || !o.CgroupV2 },
		v2:         func(o Options) bool { return !o.UserNamespace && o.CgroupV2 },
	}
	type call struct {
		name   string
		number uint32
		args   []uint64
		want   unix.Errno // 0: allowed
		only   string
	}
	const x, btrfs, f = 'X' << 8, 0x94 << 8, 'f' << 8
	calls := []call{
		{"read", unix.SYS_READ, nil, 0, ""},
		{"mount proc", unix.SYS_MOUNT, []uint64{1, 1, 1, unix.MS_NOSUID}, 0, ""},
		{"remount a mount", unix.SYS_MOUNT, []uint64{0, 1, 0, unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY}, 0, ""},
		{"remount a file system", unix.SYS_MOUNT, []uint64{0, 1, 0, unix.MS_REMOUNT | 1}, unix.EPERM, hosts},
		{"remount, magic number", unix.SYS_MOUNT, []uint64{0, 1, 0, 0xc0ed0000 | unix.MS_REMOUNT}, unix.EPERM, hosts},
		{"create a file system", unix.SYS_FSCONFIG, []uint64{3, unix.FSCONFIG_CMD_CREATE}, 0, ""},
		{"reconfigure one", unix.SYS_FSCONFIG, []uint64{3, unix.FSCONFIG_CMD_RECONFIGURE}, unix.EPERM, hosts},
		{"pick one", unix.SYS_FSPICK, nil, unix.EPERM, hosts},
		{"open by handle", unix.SYS_OPEN_BY_HANDLE_AT, nil, unix.EPERM, ""},
		{"watch files of the host", unix.SYS_FANOTIFY_INIT, nil, unix.EPERM, ""},
		{"watch own files", unix.SYS_INOTIFY_INIT1, nil, 0, ""},
		{"freeze", unix.SYS_IOCTL, []uint64{3, 0xc0045877}, unix.EPERM, hosts},
		{"freeze, unseen bit", unix.SYS_IOCTL, []uint64{3, 1<<32 | 0xc0045877}, unix.EPERM, hosts},
		{"trim", unix.SYS_IOCTL, []uint64{3, 0xc0185879}, unix.EPERM, hosts},
		{"shut down", unix.SYS_IOCTL, []uint64{3, 0x8004587d}, unix.EPERM, hosts},
		{"open by handle in xfs", unix.SYS_IOCTL, []uint64{3, x | 107}, unix.EPERM, hosts},
		{"search a tree of btrfs", unix.SYS_IOCTL, []uint64{3, 0xd0000000 | btrfs | 17}, unix.EPERM, ""},
		{"snapshot of btrfs", unix.SYS_IOCTL, []uint64{3, 0x50000000 | btrfs | 23}, unix.EPERM, ""},
		{"flags of a subvolume of btrfs", unix.SYS_IOCTL, []uint64{3, 0x40080000 | btrfs | 26}, unix.EPERM, ""},
		{"resize ext4", unix.SYS_IOCTL, []uint64{3, 0x40080000 | f | 16}, unix.EPERM, hosts},
		{"swap the boot loader of ext4", unix.SYS_IOCTL, []uint64{3, f | 17}, unix.EPERM, hosts},
		{"flags of a file", unix.SYS_IOCTL, []uint64{3, unix.FS_IOC_GETFLAGS}, 0, ""},
		{"project of a file", unix.SYS_IOCTL, []uint64{3, fsGetXattr}, 0, ""},
		{"extents of a file", unix.SYS_IOCTL, []uint64{3, fiemap}, 0, ""},
		{"share blocks", unix.SYS_IOCTL, []uint64{3, unix.FICLONE}, 0, ""},
		{"share some blocks", unix.SYS_IOCTL, []uint64{3, unix.FIDEDUPERANGE}, 0, ""},
		{"terminal's settings", unix.SYS_IOCTL, []uint64{3, unix.TCGETS}, 0, ""},
		{"type into a terminal", unix.SYS_IOCTL, []uint64{3, unix.TIOCSTI}, unix.EPERM, ""},
		{"paste into a console", unix.SYS_IOCTL, []uint64{3, unix.TIOCLINUX}, unix.EPERM, ""},
		{"owner of a namespace", unix.SYS_IOCTL, []uint64{3, unix.NS_GET_USERNS}, 0, ""},
		{"next mount namespace", unix.SYS_IOCTL, []uint64{3, 0x8010b70b}, unix.EPERM, ""},
		{"previous mount namespace", unix.SYS_IOCTL, []uint64{3, 0x8018b70c}, unix.EPERM, ""},
		{"module", unix.SYS_FINIT_MODULE, nil, unix.EPERM, ""},
		{"kernel", unix.SYS_KEXEC_LOAD, nil, unix.EPERM, ""},
		{"clock", unix.SYS_CLOCK_SETTIME, nil, unix.EPERM, ""},
		{"read the clock's settings", unix.SYS_ADJTIMEX, nil, 0, ""},
		{"swap", unix.SYS_SWAPON, nil, unix.EPERM, ""},
		{"kernel log", unix.SYS_SYSLOG, nil, unix.EPERM, ""},
		{"quota", unix.SYS_QUOTACTL, nil, unix.EPERM, ""},
		{"perf", unix.SYS_PERF_EVENT_OPEN, nil, unix.EPERM, ""},
		{"keys", unix.SYS_KEYCTL, nil, unix.ENOSYS, ""},
		{"a new key", unix.SYS_ADD_KEY, nil, unix.ENOSYS, ""},
		{"a key by upcall", unix.SYS_REQUEST_KEY, nil, unix.ENOSYS, ""},
		{"a key of a file system", unix.SYS_IOCTL, []uint64{3, unix.FS_IOC_ADD_ENCRYPTION_KEY}, unix.EPERM, ""},
		{"a key of IPsec", unix.SYS_SOCKET, []uint64{unix.AF_KEY, unix.SOCK_RAW, 2}, unix.EAFNOSUPPORT, ""},
		{"xfrm", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_XFRM},
			unix.EPROTONOSUPPORT, ""},
		{"xfrm, unseen bits", unix.SYS_SOCKET, []uint64{1<<32 | unix.AF_NETLINK, 0, 1<<32 | unix.NETLINK_XFRM},
			unix.EPROTONOSUPPORT, ""},
		{"routes", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, 0, ""},
		{"nftables", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, 0, ""},
		{"TCP", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.NETLINK_XFRM}, 0, ""},
		{"XDP", unix.SYS_SOCKET, []uint64{unix.AF_XDP, unix.SOCK_RAW}, unix.EAFNOSUPPORT, ""},
		{"SCTP", unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, unix.EPROTONOSUPPORT, ""},
		{"SCTP by its type", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_SEQPACKET | unix.SOCK_CLOEXEC, 0},
			unix.EPROTONOSUPPORT, ""},
		{"packets of a local socket", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET, 0}, 0, ""},
		{"UDP", unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP}, 0, ""},
		{"a number of SCTP elsewhere", unix.SYS_SOCKET, []uint64{unix.AF_PACKET, unix.SOCK_RAW, unix.IPPROTO_SCTP}, 0, ""},
		{"packets", unix.SYS_SOCKET, []uint64{unix.AF_PACKET, unix.SOCK_RAW}, 0, ""},
		{"vsock", unix.SYS_SOCKET, []uint64{unix.AF_VSOCK}, unix.EAFNOSUPPORT, ""},
		{"a pair of sockets", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_STREAM}, 0, ""},
		{"a pair of RDS", unix.SYS_SOCKETPAIR, []uint64{unix.AF_RDS}, unix.EAFNOSUPPORT, ""},
		{"socket", unix.SYS_SOCKET, []uint64{unix.AF_INET}, 0, ""},
		{"load a program", unix.SYS_BPF, []uint64{unix.BPF_PROG_LOAD}, unix.EPERM, v1},
		{"attach to a tracepoint", unix.SYS_BPF, []uint64{unix.BPF_RAW_TRACEPOINT_OPEN}, unix.EPERM, ""},
		{"link a program", unix.SYS_BPF, []uint64{unix.BPF_LINK_CREATE}, unix.EPERM, ""},
		{"io_uring", unix.SYS_IO_URING_SETUP, nil, unix.EPERM, ""},
		{"userfaultfd", unix.SYS_USERFAULTFD, nil, unix.EPERM, ""},
		{"new namespaces", unix.SYS_UNSHARE, []uint64{unix.CLONE_NEWNS}, 0, ""},
		{"ptrace", unix.SYS_PTRACE, nil, 0, ""},
		{"reboot", unix.SYS_REBOOT, nil, 0, ""},
	}
	for kind, o := range kinds {
		vm, err := bpf.NewVM(buildFilter(o))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range calls {
			want := c.want
			if !applies[c.only](o) {
				want = 0
			}
			if got := ask(t, vm, architecture, c.number, c.args); got != want {
				t.Errorf("%s in a machine with %s: %v, want %v", c.name, kind, got, want)
			}
		}
		for name, foreign := range map[string][2]uint32{
			"i386": {unix.AUDIT_ARCH_I386, 3},
			"arm":  {unix.AUDIT_ARCH_ARM, 3},
			"x32":  {unix.AUDIT_ARCH_X86_64, 0x40000000},
		} {
			if got := ask(t, vm, foreign[0], foreign[1], nil); got != unix.ENOSYS {
				t.Errorf("a call of %s in a machine with %s: %v, want ENOSYS", name, kind, got)
			}
		}
	}
}

// TestFamiliesOfSockets goes through all families that a kernel may know: machines have those alone whose use on nodes
// is known.
func TestFamiliesOfSockets(t *testing.T) {
	t.Parallel()
	for kind, o := range kinds {
		vm, err := bpf.NewVM(buildFilter(o))
		if err != nil {
			t.Fatal(err)
		}
		for family := range uint64(unix.AF_MAX + 16) {
			want := unix.EAFNOSUPPORT
			if slices.Contains(families, uint32(family)) {
				want = 0
			}
			for _, call := range []uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR} {
				if got := ask(t, vm, architecture, call, []uint64{family, unix.SOCK_DGRAM, 0}); got != want {
					t.Errorf("family %d in a machine with %s: %v, want %v", family, kind, got, want)
				}
			}
		}
	}
}

// ask returns what a filter answers, 0 when it allows the call.
func ask(t *testing.T, vm *bpf.VM, arch, number uint32, args []uint64) unix.Errno {
	t.Helper()
	data := make([]byte, 64) // struct seccomp_data with the byte order that the machine of package bpf reads
	binary.BigEndian.PutUint32(data[numberAt:], number)
	binary.BigEndian.PutUint32(data[architectureAt:], arch)
	for i, a := range args {
		binary.BigEndian.PutUint32(data[argumentsAt+8*i+lowWord:], uint32(a))
	}
	answer, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	switch uint32(answer) &^ 0xffff {
	case unix.SECCOMP_RET_ALLOW:
		return 0
	case unix.SECCOMP_RET_ERRNO:
		return unix.Errno(answer & 0xffff)
	}
	t.Fatalf("the filter answers %#x", answer)
	return 0
}

// tryRefused makes system calls that do nothing, and prints their errors.
func tryRefused() {
	for _, c := range []struct {
		number   uintptr
		argument uintptr
	}{
		{unix.SYS_INIT_MODULE, 0}, {unix.SYS_FANOTIFY_INIT, ^uintptr(0)}, {unix.SYS_OPEN_BY_HANDLE_AT, ^uintptr(0)},
		{unix.SYS_USERFAULTFD, ^uintptr(0)},
	} {
		_, _, errno := unix.Syscall(c.number, c.argument, 0, 0)
		fmt.Println(errno == unix.EPERM)
	}
	os.Exit(0)
}

func TestAProgramIsConfined(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(os.Args[0], args...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		return string(out)
	}
	if got := run("try"); got != strings.Repeat("false\n", 4) {
		t.Fatalf("without a filter the calls are refused: %s", got)
	}
	if got := run(asConfined, os.Args[0], "try"); got != strings.Repeat("true\n", 4) {
		t.Errorf("refused are %s", got)
	}

	status := run(asConfined, "/bin/cat", "/proc/self/status")
	for _, set := range []string{"CapBnd:", "CapPrm:", "CapEff:", "CapInh:"} {
		_, rest, _ := strings.Cut(status, set)
		has, err := strconv.ParseUint(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]), 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range unneeded {
			if has&(1<<c) != 0 {
				t.Errorf("%s has capability %d", set, c)
			}
		}
		for _, c := range []int{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SYS_PTRACE, unix.CAP_AUDIT_WRITE} {
			if set == "CapEff:" && has&(1<<c) == 0 {
				t.Errorf("%s lacks capability %d", set, c)
			}
		}
	}
	if !strings.Contains(status, "NoNewPrivs:\t0") {
		t.Error("no program in a machine could be setuid")
	}
}

func TestDropped(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here
		before, err := Dropped()
		if err == nil && before {
			err = errors.New("this test runs without capabilities that it should have")
		}
		if err == nil {
			err = DropCapabilities()
		}
		if err == nil { // what is permitted goes with the next program
			var after bool
			if after, err = Dropped(); err == nil && after {
				err = errors.New("capabilities that are still permitted count as dropped")
			}
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestBeginSession(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here
		before, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
		if errors.Is(err, unix.ENOSYS) {
			err = beginSession()
			done <- err
			return
		}
		if err == nil {
			err = beginSession()
		}
		if err == nil {
			var after int
			after, err = unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
			if err == nil && after == before {
				err = errors.New("the thread has the keys of its caller")
			}
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
