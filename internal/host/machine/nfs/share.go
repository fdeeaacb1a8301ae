//go:build linux

package nfs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/machine/disks"
	"github.com/coracle-eks/coracle/internal/host/machine/squash"
	"github.com/coracle-eks/coracle/internal/host/mountgrant"
)

// Share is the argument that makes "coracle-node launch" mount one file system.
const Share = "share"

// order is what such a process is to do.
type order struct {
	Grant   mountgrant.Grant
	Path    string // below the root of the access point, or of the file system
	Source  string // as the machine has named it
	Flags   uint64
	FirstID uint32 // root of the machine, on the host
	// Files are the numbers of descriptors: of the target, the mount namespace, the user namespace, and of cgroups.
	Target, Mounts, Users int
	Groups                []int
}

// result is what it says.
type result struct {
	Errno unix.Errno `json:",omitempty"`
	Error string     `json:",omitempty"`
}

// ShareMain is the program "coracle-node launch share", which mounts one file system as the first line of its standard
// input says, and serves it as long as it is mounted where it is no bind mount. It returns the exit status.
func ShareMain() int {
	var o order
	line, err := readLine(os.Stdin)
	if err == nil {
		err = json.Unmarshal(line, &o)
	}
	if err == nil {
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // and never unlocked: what is changed for it is for this mount
			done <- o.run()
		}()
		err = <-done
	}
	var r result
	if err != nil {
		r.Error = err.Error()
		_ = errors.As(err, &r.Errno) // otherwise it is 0
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return 1
	}
	return 0
}

// readLine reads a line and nothing after it.
func readLine(r io.Reader) ([]byte, error) {
	var line []byte
	for one := make([]byte, 1); len(line) < 1<<20; {
		if _, err := io.ReadFull(r, one); err != nil {
			return nil, err
		}
		if one[0] == '\n' {
			return line, nil
		}
		line = append(line, one[0])
	}
	return nil, errors.New("the line is too long")
}

// run mounts the file system, and does not return when it serves one. The calling thread is of no other use.
func (o order) run() error {
	for _, fd := range o.Groups {
		// From here on the memory of this process is the machine's, and the kernel opens what the machine may open.
		if _, err := unix.Write(fd, []byte("0")); err != nil {
			return fmt.Errorf("enter the machine's cgroup: %w", err)
		}
		unix.Close(fd)
	}
	for _, fd := range []int{o.Target, o.Mounts, o.Users} {
		unix.CloseOnExec(fd)
	}
	// Mounts of the host are not to appear in the machine with later ones, nor its own here.
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := o.checkUsers(); err != nil {
		return err
	}
	dir, err := o.openDir()
	if err != nil {
		return err
	}
	if !o.restricted() {
		return o.bind(dir)
	}
	return o.serve(dir)
}

// restricted reports whether the client may do less than the machine's users may with files of theirs.
func (o order) restricted() bool { return o.user() != nil || o.Grant.ReadOnly || o.Grant.SquashRoot }

func (o order) user() *mountgrant.User {
	if o.Grant.AccessPoint == nil {
		return nil
	}
	return o.Grant.AccessPoint.User
}

// checkUsers refuses the two highest IDs. The last one stands for none: to system calls it says that nothing is to
// change. The other owns what is being deleted (package squash).
func (o order) checkUsers() error {
	var ids []uint32
	if u := o.user(); u != nil {
		ids = append(u.Groups[:len(u.Groups):len(u.Groups)], u.UID, u.GID)
	}
	if a := o.Grant.AccessPoint; a != nil && a.Creation != nil {
		ids = append(ids, a.Creation.UID, a.Creation.GID)
	}
	if at := slices.IndexFunc(ids, func(id uint32) bool { return id >= math.MaxUint32-1 }); at >= 0 {
		return fmt.Errorf("access point %s: %d is no ID of a user or a group: %w", o.Grant.AccessPoint.ID, ids[at],
			unix.EINVAL)
	}
	return nil
}

// openDir opens the directory to mount, by the rights of the client.
func (o order) openDir() (dir int, err error) {
	root, err := unix.Open(o.Grant.Root, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open the file system %s: %w", o.Grant.FileSystemID, err)
	}
	if a := o.Grant.AccessPoint; a != nil {
		at, err := openAccessPoint(root, *a)
		if err != nil {
			return -1, fmt.Errorf("open the root directory %s of the access point %s: %w", a.Path, a.ID, err)
		}
		root = at
	}
	if o.Path == "/" {
		return root, nil
	}
	who := mountgrant.User{}
	switch {
	case o.user() != nil:
		who = *o.user()
	case o.Grant.SquashRoot:
		who = mountgrant.User{UID: nobody, GID: nobody}
	}
	err = runAs(who, func() error {
		dir, err = openIn(root, o.Path)
		return err
	})
	if err != nil {
		return -1, fmt.Errorf("open the directory %.200q: %w", o.Path, err)
	}
	return dir, nil
}

const nobody = 65534

// runAs calls f while the calling thread has the rights of a user.
func runAs(u mountgrant.User, f func() error) error {
	if err := setUser(u); err != nil {
		return err
	}
	return errors.Join(f(), setUser(mountgrant.User{}))
}

// setUser makes the calling thread act as a user on files. The capabilities for files go and come with root's ID.
func setUser(u mountgrant.User) error {
	if err := setGroups(u.Groups); err != nil {
		return err
	}
	_, _ = unix.SetfsgidRetGid(int(u.GID))
	_, _ = unix.SetfsuidRetUid(int(u.UID))
	gid, _ := unix.SetfsgidRetGid(-1) // changes nothing
	uid, _ := unix.SetfsuidRetUid(-1)
	if gid != int(u.GID) || uid != int(u.UID) {
		return fmt.Errorf("act as user %d", u.UID)
	}
	return nil
}

// setGroups sets the groups of the calling thread; unix.Setgroups would set those of all threads.
func setGroups(groups []uint32) error {
	var list unsafe.Pointer
	if len(groups) > 0 {
		list = unsafe.Pointer(&groups[0])
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(list), 0); errno != 0 {
		return fmt.Errorf("set groups: %w", errno)
	}
	return nil
}

// bind mounts the directory itself, with the machine's IDs.
func (o order) bind(dir int) error {
	mount, err := unix.OpenTree(dir, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("clone the mount: %w", err)
	}
	defer unix.Close(mount)
	attr := unix.MountAttr{Attr_set: disks.Attributes(o.Flags) | unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(o.Users),
		Attr_clr: unix.MOUNT_ATTR__ATIME | (unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC|
			unix.MOUNT_ATTR_NODIRATIME)&^disks.Attributes(o.Flags)}
	if err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("map the IDs: %w", err)
	}
	return o.attach(mount)
}

// attach attaches a mount in the machine. The calling thread stays in its mount namespace.
func (o order) attach(mount int) error {
	if err := unix.Setns(o.Mounts, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter the machine's mount namespace: %w", err)
	}
	if err := unix.MoveMount(mount, "", o.Target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|
		unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return nil
}

// serve mounts a file system in user space, and becomes the process that serves it.
func (o order) serve(dir int) error {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /dev/fuse, which this host needs for access points with users: %w", err)
	}
	proc, err := unix.Open("/proc", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	program, err := unix.Open("/proc/self/exe", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	mount, err := o.mountFUSE(fd)
	if err != nil {
		return err
	}
	attach, err := o.prepareAttachment(mount)
	if err != nil {
		return err
	}
	serving := squash.Config{Fuse: fd, Root: dir, Proc: proc, FirstID: o.FirstID, SquashRoot: o.Grant.SquashRoot,
		ReadOnly: o.Grant.ReadOnly}
	if u := o.user(); u != nil {
		serving.User = &squash.User{UID: u.UID, GID: u.GID, Groups: u.Groups}
	}
	config, err := json.Marshal(serving)
	if err != nil {
		return err
	}
	if err := confine(dir, o.user()); err != nil {
		return fmt.Errorf("confine the process that serves %s: %w", o.Grant.FileSystemID, err)
	}
	for _, kept := range []int{fd, dir, proc} {
		if _, err := unix.FcntlInt(uintptr(kept), unix.F_SETFD, 0); err != nil {
			return err
		}
	}
	if err := attach(); err != nil {
		return err
	}
	return execute(program, []string{"coracle-node", "launch", squash.Argument, string(config)})
}

// prepareAttachment returns a function that attaches a mount in the machine, on a thread that keeps the rights which
// the calling one has now.
func (o order) prepareAttachment(mount int) (attach func() error, err error) {
	begin, done := make(chan struct{}), make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends in the machine's mount namespace
		err := unix.Unshare(unix.CLONE_FS)
		done <- err
		if _, ok := <-begin; ok && err == nil {
			done <- o.attach(mount)
		}
	}()
	if err := <-done; err != nil {
		close(begin)
		return nil, err
	}
	return func() error {
		begin <- struct{}{}
		return <-done
	}, nil
}

// mountFUSE returns a mount that nobody serves yet.
func (o order) mountFUSE(fd int) (mount int, err error) {
	fs, err := unix.Fsopen("fuse", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsopen fuse: %w", err)
	}
	defer unix.Close(fs)
	source := strings.ToValidUTF8(o.Source, "")
	for _, option := range [][2]string{
		{"source", source[:min(len(source), 255)]}, {"subtype", "efs"}, {"fd", strconv.Itoa(fd)}, {"rootmode", "40000"},
		{"user_id", strconv.Itoa(int(o.FirstID))}, {"group_id", strconv.Itoa(int(o.FirstID))},
	} {
		if err := unix.FsconfigSetString(fs, option[0], option[1]); err != nil {
			return -1, fmt.Errorf("option %s of a file system in user space: %w", option[0], err)
		}
	}
	if err := unix.FsconfigSetFlag(fs, "allow_other"); err != nil {
		return -1, fmt.Errorf("option allow_other of a file system in user space: %w", err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("make a file system in user space: %w", err)
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, int(disks.Attributes(o.Flags)))
}
