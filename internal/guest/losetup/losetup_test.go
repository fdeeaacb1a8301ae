//go:build linux

package losetup

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// machine has a disk, and directories for /sys/block and /dev.
type machine struct {
	t      *testing.T
	dir    string
	disk   string
	number int
	name   loopdevice.Name
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	testenv.NeedsRoot(t)
	m := &machine{t: t, dir: t.TempDir()}
	for _, dir := range []string{"block", "dev"} {
		if err := os.Mkdir(filepath.Join(m.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Create(filepath.Join(m.dir, "content"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(1 << 20); err != nil {
		t.Fatal(err)
	}
	var owner [8]byte
	_, _ = rand.Read(owner[:])
	m.name = loopdevice.Name{Owner: hex.EncodeToString(owner[:]), Volume: "vol-1", InstanceID: "i-1"}
	testenv.NeedsLoopDevices(t)
	if m.number, err = loopdevice.Attach(f, m.name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, entry := range m.devices() {
			m.call("-d", filepath.Join(m.dir, "dev", filepath.Base(entry)))
		}
		if _, err := loopdevice.RemoveAll(m.name.Owner); err != nil {
			t.Error(err)
		}
	})
	// Where device files work.
	node, err := os.MkdirTemp("/dev", ".losetup-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(node) })
	m.disk = filepath.Join(node, "disk")
	if err := unix.Mknod(m.disk, unix.S_IFBLK|0o600, int(unix.Mkdev(loopdevice.Major, uint32(m.number)))); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *machine) devices() []string {
	entries, _ := filepath.Glob(filepath.Join(m.dir, "block", "*"))
	return entries
}

// call runs losetup, and returns what it says with its exit status.
func (m *machine) call(args ...string) string {
	var stdout, stderr bytes.Buffer
	status := Command{Block: filepath.Join(m.dir, "block"), Dev: filepath.Join(m.dir, "dev"),
		Lock: filepath.Join(m.dir, "lock"), Stdout: &stdout, Stderr: &stderr}.Run(args)
	return strings.ReplaceAll(fmt.Sprintf("%s%s(%d)", &stdout, &stderr, status), m.dir, "")
}

// released reports whether nobody has the disk open; it is gone then.
func (m *machine) released() bool {
	err := loopdevice.Release(m.number, m.name)
	if err != nil && !errors.Is(err, loopdevice.ErrInUse) {
		m.t.Fatal(err)
	}
	return err == nil
}

// The calls are those of the kubelet: it finds the device in /sys/block.
func TestADiskIsKeptOpen(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	link := filepath.Join(m.dir, "link")
	if err := os.Symlink(m.disk, link); err != nil {
		t.Fatal(err)
	}
	if got := m.call("-f", link); got != "(0)" {
		t.Fatalf("losetup -f says %s", got)
	}
	content, err := os.ReadFile(filepath.Join(m.dir, "block/loop0/loop/backing_file"))
	if err != nil || string(content) != m.disk+"\n" {
		t.Errorf("the file of the device is %q, %v", content, err)
	}
	if target, err := os.Readlink(filepath.Join(m.dir, "dev/loop0")); err != nil || target != m.disk {
		t.Errorf("the device leads to %q, %v", target, err)
	}
	if got := m.call("-f", "--show", m.disk); got != "/dev/loop1\n(0)" {
		t.Errorf("losetup -f --show says %s", got)
	}
	for _, args := range [][]string{{"-j", link}, {"-a"}, nil} {
		got := m.call(args...)
		if lines := strings.Split(got, "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], "/dev/loop0: [") ||
			!strings.HasSuffix(lines[1], " ("+m.disk+")") || lines[2] != "(0)" {
			t.Errorf("losetup %v says %s", args, got)
		}
	}
	if m.released() {
		t.Error("the disk is not held")
	}
	if got := m.call("-d", filepath.Join(m.dir, "dev/loop0"), filepath.Join(m.dir, "dev/loop1")); got != "(0)" {
		t.Errorf("losetup -d says %s", got)
	}
	if left := m.devices(); len(left) > 0 {
		t.Errorf("there are %v", left)
	}
	if _, err := os.Lstat(filepath.Join(m.dir, "dev/loop0")); !os.IsNotExist(err) {
		t.Errorf("the device is there: %v", err)
	}
	if !m.released() {
		t.Error("the disk is held")
	}
}

func TestAHolderThatHasEnded(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	if got := m.call("-f", m.disk); got != "(0)" {
		t.Fatalf("losetup -f says %s", got)
	}
	text, err := os.ReadFile(filepath.Join(m.dir, "block/loop0", holderFile))
	if err != nil {
		t.Fatal(err)
	}
	holder, ok := parseProcess(string(text))
	if !ok {
		t.Fatalf("the holder is %q", text)
	}
	if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", holder.pid)); err != nil ||
		string(name) != "losetup-loop0\x00infinity\x00" {
		t.Errorf("the holder calls itself %q, %v", name, err)
	}
	// Its number may be another's by then.
	other := process{os.Getpid(), "1"}
	if err := other.kill(); err != nil {
		t.Error(err)
	}
	if err := holder.kill(); err != nil {
		t.Error(err)
	}
	if got := m.call("-d", filepath.Join(m.dir, "dev/loop0")); got != "(0)" {
		t.Errorf("losetup -d says %s", got)
	}
}

func TestWhatCannotBeHeld(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	for _, test := range []struct{ args, want string }{
		{"-f /missing", "losetup: lstat /missing: no such file or directory\n(1)"},
		{"-f /content", "losetup: /content: failed to set up loop device: it is not a disk, and this machine has no loop " +
			"devices\n(1)"},
		{"-f /dev/null", "losetup: lstat /dev/null: no such file or directory\n(1)"},
		{"-d /dev/loop7", "losetup: /dev/loop7: detach failed: no such device or address\n(1)"},
		{"-d /block/loop7", "losetup: /block/loop7: detach failed: no such device or address\n(1)"},
		{"-f", usage + "(1)"}, {"--show", usage + "(1)"}, {"-d", usage + "(1)"}, {"-j", usage + "(1)"},
		{"-f -d /content", usage + "(1)"}, {"-d -j /content", usage + "(1)"}, {"-P /content", usage + "(1)"},
		{"/content", usage + "(1)"}, {"-f /content /content", usage + "(1)"},
	} {
		args := strings.Fields(test.args)
		for i, arg := range args {
			if strings.HasPrefix(arg, "/") {
				args[i] = m.dir + arg
			}
		}
		if got := m.call(args...); got != test.want {
			t.Errorf("losetup %s says %s, want %s", test.args, got, test.want)
		}
	}
	if left := m.devices(); len(left) > 0 {
		t.Errorf("there are %v", left)
	}
}
