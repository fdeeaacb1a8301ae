//go:build linux

package confine

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// refusal are system calls that machines do not have.
type refusal struct {
	calls []uint32
	// when narrows it to calls with such an argument, and also to those with such another one; zero: all.
	when, also condition
	// errno is the error that a caller gets; 0: EPERM.
	errno unix.Errno
	// only narrows it to some machines; nil: all.
	only func(Options) bool
}

// condition is met by a call whose argument has one of the values, in the bits of the mask, and none of the exceptions;
// with others, by one whose argument has none of the values.
type condition struct {
	argument uint32
	mask     uint32
	values   []uint32
	except   []uint32
	others   bool
}

// families are those of the sockets of nodes and their pods: AF_PACKET is how dhclient, tcpdump and load balancers of
// layer 2 see packets. The default profile of containers has them, too.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK, unix.AF_PACKET}

func hostsUsers(o Options) bool { return !o.UserNamespace }

// refusals are about what has no namespaces: who may do it does it to the host, and to every other machine.
var refusals = append([]refusal{
	// The kernel itself.
	{calls: []uint32{unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE}},
	{calls: []uint32{unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD}},
	{calls: []uint32{unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME}},
	{calls: []uint32{unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT}},
	{calls: []uint32{unix.SYS_SYSLOG}}, // its log, with what all machines did

	// Files of the host beyond what is mounted.
	{calls: []uint32{unix.SYS_OPEN_BY_HANDLE_AT}},
	// An event of fanotify on a file system comes with an open file, whoever opens it: those of the host are on the
	// same one.
	{calls: []uint32{unix.SYS_FANOTIFY_INIT}},
	{calls: []uint32{unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD}},
	// Remounting a file system (and not a mount of it) makes it read-only for the host as well.
	{calls: []uint32{unix.SYS_MOUNT}, only: hostsUsers,
		when: condition{argument: 3, mask: unix.MS_REMOUNT | unix.MS_BIND, values: []uint32{unix.MS_REMOUNT}}},
	{calls: []uint32{unix.SYS_FSPICK}, only: hostsUsers},
	{calls: []uint32{unix.SYS_FSCONFIG}, only: hostsUsers,
		when: condition{argument: 1, mask: all, values: []uint32{unix.FSCONFIG_CMD_RECONFIGURE}}},
	// Requests to a file system as a whole: freeze it, shut it down, resize it, open any of its files. The exceptions
	// are about the file itself: its flags and project, where it is on the disk, and sharing its blocks with another.
	{calls: []uint32{unix.SYS_IOCTL}, only: hostsUsers,
		when: condition{argument: 1, mask: ioctlType, values: []uint32{'X' << 8, 0x94 << 8, 'f' << 8}, except: []uint32{
			fsGetXattr, fsSetXattr, unix.FS_IOC_GETFLAGS, unix.FS_IOC_SETFLAGS, fiemap,
			unix.FICLONE, unix.FICLONERANGE, unix.FIDEDUPERANGE,
		}}},
	// Btrfs makes subvolumes and snapshots for whoever owns a directory: of a file system of the host, whose directories
	// a machine has, that are copies of the whole, or what the host cannot remove. Machines mount no Btrfs of their own.
	{calls: []uint32{unix.SYS_IOCTL},
		when: condition{argument: 1, mask: ioctlType, values: []uint32{0x94 << 8}, except: []uint32{
			unix.FICLONE, unix.FICLONERANGE, unix.FIDEDUPERANGE,
		}}},
	// From a mount namespace to the next, up to that of the host: kernels before 6.19 ask for no more than
	// CAP_SYS_ADMIN.
	{calls: []uint32{unix.SYS_IOCTL}, when: condition{
		argument: 1, mask: ioctlType | ioctlNumber, values: []uint32{nextMountNamespace, previousMountNamespace},
	}},

	// What exposes or changes the whole host.
	{calls: []uint32{unix.SYS_PERF_EVENT_OPEN, unix.SYS_LOOKUP_DCOOKIE}},

	// Families of sockets beyond these. The kernel loads their modules for anybody, and many were written without
	// namespaces (AF_VSOCK, AF_QIPCRTR, AF_RDS lead to the host or to other machines), or take memory that no cgroup is
	// charged for (AF_KEY, AF_ALG, AF_CAN, the rings of AF_XDP).
	{calls: []uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR}, errno: unix.EAFNOSUPPORT,
		when: condition{argument: 0, mask: all, values: families, others: true}},
	// So it is with protocols of theirs: SCTP, DCCP, L2TP, and SMC by its number.
	{calls: []uint32{unix.SYS_SOCKET}, errno: unix.EPROTONOSUPPORT,
		when: condition{argument: 0, mask: all, values: []uint32{unix.AF_INET, unix.AF_INET6}},
		also: condition{argument: 2, mask: all, values: []uint32{unix.IPPROTO_SCTP, unix.IPPROTO_DCCP, unix.IPPROTO_L2TP,
			smc}}},
	// The first two are what these types of sockets have without a protocol.
	{calls: []uint32{unix.SYS_SOCKET}, errno: unix.EPROTONOSUPPORT,
		when: condition{argument: 0, mask: all, values: []uint32{unix.AF_INET, unix.AF_INET6}},
		also: condition{argument: 1, mask: socketType, values: []uint32{unix.SOCK_SEQPACKET, unix.SOCK_DCCP}}},

	// Memory of the kernel that no cgroup is charged for. The quota of keys is for each user ID, of which a machine has
	// 65,536; nothing bounds the states of IPsec, which NETLINK_XFRM makes.
	{calls: []uint32{unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL}, errno: unix.ENOSYS},
	{calls: []uint32{unix.SYS_IOCTL},
		when: condition{argument: 1, mask: all, values: []uint32{unix.FS_IOC_ADD_ENCRYPTION_KEY}}},
	{calls: []uint32{unix.SYS_SOCKET}, errno: unix.EPROTONOSUPPORT,
		when: condition{argument: 0, mask: all, values: []uint32{unix.AF_NETLINK}},
		also: condition{argument: 2, mask: all, values: []uint32{unix.NETLINK_XFRM}}},

	// Keys typed into a terminal that somebody outside may use.
	{calls: []uint32{unix.SYS_IOCTL},
		when: condition{argument: 1, mask: all, values: []uint32{unix.TIOCSTI, unix.TIOCLINUX}}},
	{calls: []uint32{unix.SYS_BPF}, only: func(o Options) bool { return o.UserNamespace || !o.CgroupV2 }},
	// With cgroup v2 runc loads programs for devices. They cannot be attached to the kernel's functions.
	{calls: []uint32{unix.SYS_BPF}, only: func(o Options) bool { return !o.UserNamespace && o.CgroupV2 },
		when: condition{argument: 0, mask: all, values: []uint32{
			unix.BPF_RAW_TRACEPOINT_OPEN, unix.BPF_LINK_CREATE, unix.BPF_PROG_TEST_RUN,
		}}},

	// Loop devices, which disks of machines are: who may write to one could give it another file, and learn the name of
	// its own.
	{calls: []uint32{unix.SYS_IOCTL},
		when: condition{argument: 1, mask: ioctlType, values: []uint32{'L' << 8}}},

	// Much of the kernel for who attacks it, and nothing that containers count on: their default profile has none of
	// it.
	{calls: []uint32{unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER}},
	{calls: []uint32{unix.SYS_USERFAULTFD}},
}, ofArchitecture...)

// notifications are system calls that the host makes for a machine, by the listener of its filter: the kernel lets
// nobody mount the file system of a disk, or resize it, but the host's root.
var notifications = []refusal{
	// A new mount or the change of a file system; what concerns mounts alone is the machine's own.
	{calls: []uint32{unix.SYS_MOUNT}, when: condition{argument: 3, values: []uint32{0},
		mask: unix.MS_BIND | unix.MS_MOVE | unix.MS_SHARED | unix.MS_PRIVATE | unix.MS_SLAVE | unix.MS_UNBINDABLE}},
	// The magic number of old programs has bits of those flags, which the kernel ignores together with it.
	{calls: []uint32{unix.SYS_MOUNT}, when: condition{argument: 3, values: []uint32{unix.MS_MGC_VAL},
		mask: unix.MS_MGC_MSK | unix.MS_BIND | unix.MS_MOVE}},
	{calls: []uint32{unix.SYS_FSOPEN}},
	{calls: []uint32{unix.SYS_IOCTL}, when: condition{argument: 1, mask: all, values: Ioctls}},
}

// Ioctls are requests of ioctl(2) that the host makes for a machine: BLKBSZSET and BLKFLSBUF, without which no XFS is
// made; EXT4_IOC_RESIZE_FS, XFS_IOC_FSGROWFSDATA and FITRIM.
var Ioctls = []uint32{unix.BLKBSZSET, unix.BLKFLSBUF, Ext4Resize, XFSGrow, Trim}

// Requests of ioctl(2) on files.
const (
	Ext4Resize = 0x40086610
	XFSGrow    = 0x4010586e
	Trim       = 0xc0185879
)

// smc is the protocol IPPROTO_SMC of Linux 6.11.
const smc = 256

// Masks of arguments. https://docs.kernel.org/userspace-api/ioctl/ioctl-decoding.html
const (
	all         = 0xffffffff
	ioctlType   = 0xff00
	ioctlNumber = 0xff
	socketType  = 0xf
)

// Requests of ioctl(2): FS_IOC_FSGETXATTR, FS_IOC_FSSETXATTR, FS_IOC_FIEMAP, NS_MNT_GET_NEXT and NS_MNT_GET_PREV, the
// last two without the size of what they write, which grows.
const (
	fsGetXattr             = 0x801c581f
	fsSetXattr             = 0x401c5820
	fiemap                 = 0xc020660b
	nextMountNamespace     = 0xb70b
	previousMountNamespace = 0xb70c
)

// Offsets in the input of a filter, struct seccomp_data. https://man7.org/linux/man-pages/man2/seccomp.2.html
const (
	numberAt       = 0
	architectureAt = 4
	argumentsAt    = 16 // 8 bytes each, of which a filter loads 4
)

// buildFilter returns the program that refuses system calls. There is none for 32-bit programs (i386, x32, arm), which
// EKS's nodes do not have: they would need tables of their own, and the kernel's code for them is one more attack
// surface.
func buildFilter(o Options) []bpf.Instruction {
	refuse := func(e unix.Errno) bpf.Instruction {
		return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(e)}
	}
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: architectureAt, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: architecture, SkipTrue: 1},
		refuse(unix.ENOSYS),
		bpf.LoadAbsolute{Off: numberAt, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: firstForeign, SkipTrue: 1},
		refuse(unix.ENOSYS),
	}
	for _, r := range refusals {
		if r.only != nil && !r.only(o) {
			continue
		}
		if r.errno == 0 {
			r.errno = unix.EPERM
		}
		program = append(program, r.program(refuse(r.errno))...)
	}
	if o.Listener != nil {
		for _, n := range notifications {
			program = append(program, n.program(bpf.RetConstant{Val: unix.SECCOMP_RET_USER_NOTIF})...)
		}
	}
	return append(program, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
}

// program ends with the answer for the calls, and with the number of the call loaded for others.
func (r refusal) program(answer bpf.Instruction) (program []bpf.Instruction) {
	body := []bpf.Instruction{answer}
	for _, c := range []condition{r.also, r.when} {
		if c.mask != 0 {
			body = c.program(body)
		}
	}
	for _, call := range r.calls {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: call, SkipTrue: uint8(len(body))})
		program = append(program, body...)
	}
	return program
}

// program continues with met for a call that meets the condition, and ends with the number of the call loaded for
// others.
func (c condition) program(met []bpf.Instruction) (program []bpf.Instruction) {
	load := bpf.LoadAbsolute{Off: argumentsAt + 8*c.argument + lowWord, Size: 4}
	program = append(program, load)
	tests := len(c.except) + len(c.values) + len(met) // up to the last instruction of met, the mask included
	for i, value := range c.except {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: value, SkipTrue: uint8(tests - i)})
	}
	program = append(program, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: c.mask})
	for i, value := range c.values {
		left := uint8(len(c.values) - 1 - i) // tests that follow
		jump := bpf.JumpIf{Cond: bpf.JumpEqual, Val: value, SkipTrue: left}
		switch {
		case c.others:
			jump.SkipTrue += uint8(len(met))
		case left == 0:
			jump.SkipFalse = uint8(len(met))
		}
		program = append(program, jump)
	}
	program = append(program, met...)
	return append(program, bpf.LoadAbsolute{Off: numberAt, Size: 4})
}

// refuseSystemCalls installs the filter for the calling thread, and all that descends from it.
func refuseSystemCalls(o Options) error {
	raw, err := bpf.Assemble(buildFilter(o))
	if err != nil {
		return fmt.Errorf("assemble the filter of system calls: %w", err)
	}
	instructions := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		instructions[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	program := unix.SockFprog{Len: uint16(len(instructions)), Filter: &instructions[0]}
	// Not by no_new_privs, under which no program in a machine could be setuid: it takes CAP_SYS_ADMIN.
	if o.Listener == nil {
		_, errno := setFilter(0, &program)
		runtime.KeepAlive(instructions)
		if errno != 0 {
			return fmt.Errorf("install the filter of system calls: %w", errno)
		}
		return nil
	}
	// A signal does not interrupt a call that the host has begun to make: it would be made twice.
	const listens = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
	fd, errno := setFilter(listens|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &program)
	if errno == unix.EINVAL { // before Linux 5.19
		fd, errno = setFilter(listens, &program)
	}
	runtime.KeepAlive(instructions)
	if errno == unix.EBUSY { // what has started the daemon listens already, and there can be one only
		o.Listener = nil
		return refuseSystemCalls(o)
	}
	if errno != 0 {
		return fmt.Errorf("install the filter of system calls: %w", errno)
	}
	listener := os.NewFile(fd, "listener")
	defer listener.Close()
	return o.Listener(listener)
}

func setFilter(flags uintptr, program *unix.SockFprog) (uintptr, unix.Errno) {
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags,
		uintptr(unsafe.Pointer(program)))
	return fd, errno
}
