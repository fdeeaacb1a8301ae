//go:build linux

package disks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/loopdevice"
)

// mountFlags are those of mount(2) that the host knows; the kernel ignores MS_SILENT and the old magic number.
const mountFlags = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_SYNCHRONOUS |
	unix.MS_REMOUNT | unix.MS_MANDLOCK | unix.MS_DIRSYNC | unix.MS_NOATIME | unix.MS_NODIRATIME | unix.MS_SILENT |
	unix.MS_RELATIME | unix.MS_STRICTATIME | unix.MS_LAZYTIME

// where are the parts of a thread that a mount is about.
type where struct {
	root, cwd, mounts *os.File
	target            *os.File
}

func (w *where) close() {
	for _, f := range []*os.File{w.root, w.cwd, w.mounts, w.target} {
		f.Close() // of a nil file is an error and nothing else
	}
}

// lookup opens them, once: what the thread does from then on changes nothing.
func (c *caller) lookup(target string) (_ *where, err error) {
	w := &where{}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	proc := fmt.Sprintf("/proc/%d/", c.n.pid)
	if w.root, err = openPath(unix.AT_FDCWD, proc+"root", 0); err != nil {
		return nil, err
	}
	if w.cwd, err = openPath(unix.AT_FDCWD, proc+"cwd", 0); err != nil {
		return nil, err
	}
	if w.mounts, err = os.Open(proc + "ns/mnt"); err != nil {
		return nil, err
	}
	if !c.waits() {
		return nil, unix.ENOENT
	}
	w.target, err = w.open(target)
	return w, err
}

// open looks a path up as the thread would.
func (w *where) open(path string) (*os.File, error) {
	if strings.HasPrefix(path, "/") {
		return openPath(int(w.root.Fd()), path, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_MAGICLINKS)
	}
	return openPath(int(w.cwd.Fd()), path, beneath&^unix.RESOLVE_NO_SYMLINKS)
}

// mount mounts the file system of a disk, or changes how one is mounted.
func (s *Server) mount(c *caller) error {
	flags := c.n.args[3]
	if flags&0xffff0000 == unix.MS_MGC_VAL {
		flags &^= unix.MS_MGC_MSK
	}
	kind, err := c.text(c.n.args[2], 64)
	if err == nil && flags&unix.MS_REMOUNT == 0 && s.isRemote(kind) {
		return s.mountRemote(c, kind, flags)
	}
	if err != nil || flags&unix.MS_REMOUNT == 0 && served[kind] == "" {
		return errContinue
	}
	target, err := c.text(c.n.args[1], unix.PathMax)
	if err != nil {
		return err
	}
	options, err := c.text(c.n.args[4], os.Getpagesize())
	if err != nil {
		return err
	}
	source, err := c.text(c.n.args[0], unix.PathMax)
	if err != nil {
		return err
	}
	w, err := c.lookup(target)
	if err != nil {
		if flags&unix.MS_REMOUNT != 0 {
			return errContinue
		}
		return err
	}
	defer w.close()
	if may, err := s.mayMount(w.mounts); err != nil || !may {
		return errContinue
	}
	o := order{Flags: flags, Type: served[kind], Source: source}
	var device *os.File
	if flags&unix.MS_REMOUNT != 0 {
		o.Loop = fileSystemOf(w.target, 0)
		if o.Type = typeOf(w.target); o.Type == "" {
			return errContinue
		}
	} else {
		if device, err = w.open(source); err != nil {
			return err
		}
		defer device.Close()
		o.Loop = diskOf(device)
	}
	disk, release, ok := s.hold(o.Loop)
	if !ok {
		return errContinue // which the kernel refuses
	}
	defer release()
	if flags&^mountFlags != 0 {
		return unix.EINVAL
	}
	if o.Options, err = filterOptions(o.Type, options); err != nil {
		fmt.Fprintf(os.Stderr, "coracle-node launch: mount %s: %v\n", disk.VolumeID, err)
		return unix.EINVAL
	}
	if device != nil {
		if err := mayOpen(device); err != nil {
			return err
		}
	}
	if flags&unix.MS_REMOUNT == 0 && (!filepath.IsAbs(source) || filepath.Clean(source) == "/") {
		return unix.EINVAL
	}
	o.Name = s.name(disk)
	if err := s.awaitStart(c); err != nil {
		return err
	}
	s.mounting <- struct{}{}
	defer func() { <-s.mounting }()
	return s.runHelper(o, w)
}

// awaitStart waits until a process may be started for a caller.
func (s *Server) awaitStart(c *caller) error {
	_ = s.starts.Wait(context.Background()) // which ends, and asks for no more than there may be
	if !c.waits() {
		return unix.ENOENT // nobody hears it
	}
	return nil
}

// diskOf returns the number of the loop device that a file is; -1 when it is none.
func diskOf(f *os.File) int {
	if loop, ok := loopdevice.Number(f); ok {
		return loop
	}
	return -1
}

// fileSystemOf returns the number of the loop device whose file system a file is on; -1 when it is on none of that
// kind, of any kind with 0.
func fileSystemOf(f *os.File, kind int64) int {
	var st unix.Stat_t
	var fs unix.Statfs_t
	if unix.Fstat(int(f.Fd()), &st) != nil || unix.Major(st.Dev) != loopdevice.Major ||
		unix.Fstatfs(int(f.Fd()), &fs) != nil || kind != 0 && fs.Type != kind {
		return -1
	}
	return int(unix.Minor(st.Dev))
}

// typeOf returns the name of the file system that a file is on, if it is a mount of one that the host mounts.
func typeOf(f *os.File) string {
	var fs unix.Statfs_t
	var st unix.Statx_t
	if unix.Fstatfs(int(f.Fd()), &fs) != nil ||
		unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_TYPE, &st) != nil ||
		st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return ""
	}
	switch fs.Type {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	}
	return ""
}

// mayOpen refuses device nodes where the machine has device files not work.
func mayOpen(device *os.File) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(device.Fd()), &fs); err != nil {
		return err
	}
	if fs.Flags&unix.ST_NODEV != 0 {
		return unix.EACCES
	}
	return nil
}

// order is what a helper is to do.
type order struct {
	Name    loopdevice.Name
	Loop    int
	Type    string
	Source  string
	Flags   uint64
	Options []option
	Stage   string // a directory of the host to mount on, in the helper's mount namespace
	// Files are the numbers of descriptors: of the target, the mount namespace, the user namespace, and of cgroups.
	Target, Mounts, Users int
	Groups                []int
}

// result is what a helper says.
type result struct {
	Errno unix.Errno
	Error string
}

// Helper is the argument that makes "coracle-node launch" a helper.
const Helper = "mount"

// runHelper lets a process of its own mount a disk.
func (s *Server) runHelper(o order, w *where) error {
	group, err := s.group()
	if err != nil {
		return err
	}
	groups, err := group.OpenHelpers()
	defer func() {
		for _, g := range groups {
			g.Close()
		}
	}()
	if err != nil {
		return err
	}
	users, err := s.userNamespace()
	if err != nil {
		return err
	}
	if users == nil {
		return unix.EPERM // the machine has ended
	}
	defer users.Close()
	files := append([]*os.File{w.target, w.mounts, users}, groups...)
	o.Target, o.Mounts, o.Users = 3, 4, 5
	for i := range groups {
		o.Groups = append(o.Groups, 6+i)
	}
	o.Stage = s.o.Dir
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe", "launch", Helper)
	cmd.Args[0] = "coracle-node"
	cmd.Stdin, cmd.ExtraFiles, cmd.Env = bytes.NewReader(data), files, []string{}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("run the helper that mounts: %w", err)
	}
	var r result
	if err := json.Unmarshal(out, &r); err != nil {
		return fmt.Errorf("run the helper that mounts: %w", err)
	}
	if r.Error != "" {
		fmt.Fprintf(os.Stderr, "coracle-node launch: mount %s: %s\n", o.Name.Volume, r.Error)
	}
	if r.Errno != 0 {
		return r.Errno
	}
	if r.Error != "" {
		return unix.EIO
	}
	return nil
}

// ClassicMount is a variable for the environment of a machine's programs: mount(8) changes mounted file systems by
// mount(2) then. It does otherwise where it finds fsopen(2) missing for new mounts alone.
const ClassicMount = "LIBMOUNT_FORCE_MOUNT2=always"

var errOption = errors.New("is no option of mounts of volumes")
