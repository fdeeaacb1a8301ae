//go:build linux

package loopdevice

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/eventually"
)

// fakeUdev is a udev that counts how often it reads its rules.
type fakeUdev struct {
	udev
	reloads int
	fails   error
}

// newUdev returns one with its directories; it listens until stop is called.
func newUdev(t *testing.T) (u *fakeUdev, stop func()) {
	t.Helper()
	dir := t.TempDir()
	u = &fakeUdev{udev: udev{run: filepath.Join(dir, "run"), etc: filepath.Join(dir, "etc")}}
	u.reload = func(context.Context) error {
		u.reloads++
		return u.fails
	}
	for _, d := range []string{u.run, filepath.Join(u.etc, "rules.d")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: filepath.Join(u.run, "control"), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	t.Cleanup(func() { l.Close() })
	return u, func() { l.Close() }
}

func (u *fakeUdev) file() string { return filepath.Join(u.run, "rules.d", udevRuleFile) }

func (u *fakeUdev) want(t *testing.T, what string, refused bool, reloads int) {
	t.Helper()
	if err := u.guard(); errors.Is(err, ErrUdev) != refused || !refused && err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if u.reloads != reloads {
		t.Errorf("%s: it has read its rules %d times, not %d", what, u.reloads, reloads)
	}
}

// No disk is attached where a udev runs that does not have the rule.
func TestUdevHasTheRuleBeforeADisk(t *testing.T) {
	t.Parallel()
	u, stop := newUdev(t)
	u.fails = errors.New("no luck")
	u.want(t, "it does not read the rule", true, 1)
	u.want(t, "it is asked again", true, 2)
	u.fails = nil
	u.want(t, "it reads the rule", false, 3)
	u.want(t, "it has it", false, 3)
	if text, err := os.ReadFile(u.file()); err != nil || string(text) != UdevRule {
		t.Errorf("the rule is %q, %v", text, err)
	}
	if err := os.Remove(u.file()); err != nil {
		t.Fatal(err)
	}
	u.want(t, "the rule was removed", false, 4)

	own := filepath.Join(u.etc, "rules.d", udevRuleFile)
	if err := errors.Join(os.Remove(u.file()), os.Symlink("/dev/null", own)); err != nil {
		t.Fatal(err)
	}
	u.want(t, "the rule is masked", true, 4)
	if err := errors.Join(os.Remove(own), os.WriteFile(own, []byte(UdevRule), 0o600)); err != nil {
		t.Fatal(err)
	}
	u.want(t, "the administrator has installed it", false, 5)
	stop()
	if err := os.Remove(u.file()); err != nil {
		t.Fatal(err)
	}
	// A child that another test starts may still hold the listener.
	eventually.True(t, "it has ended", func() bool {
		before := u.reloads
		return u.guard() == nil && u.reloads == before
	})
	if _, err := os.Stat(u.file()); err != nil {
		t.Errorf("one that starts has no rule: %v", err)
	}
}

func TestWithoutUdevNothingIsWritten(t *testing.T) {
	t.Parallel()
	u := &fakeUdev{udev: udev{run: filepath.Join(t.TempDir(), "run")}}
	u.want(t, "there is none", false, 0)
	if _, err := os.Stat(u.run); !os.IsNotExist(err) {
		t.Errorf("it has a directory: %v", err)
	}
}

func TestTheRuleIsAboutDisksAlone(t *testing.T) {
	t.Parallel()
	if !strings.Contains(UdevRule, `ATTRS{loop/sizelimit}=="`+tagPattern+`", GOTO="coracle_disk"`) {
		t.Error("the rule does not have the pattern")
	}
	limits := map[string]bool{
		"": false, "0": false, "512": false, strconv.Itoa(1 << 40): false, strconv.Itoa(1 << 61): false,
		strconv.Itoa(1 << 62): true, strconv.Itoa(1<<63 - 1): true, "18446744073709551615": false,
	}
	for i := range 1000 {
		limits[strconv.FormatUint(tag(fmt.Sprint("owner", i), fmt.Sprint("vol-", i)), 10)] = true
	}
	for limit, want := range limits {
		if is, err := path.Match(tagPattern, limit); err != nil || is != want {
			t.Errorf("a limit of %s is that of a disk: %t, %v", limit, is, err)
		}
	}
}

// Who runs Coracle in a container installs the rule by hand.
func TestTheRuleIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/container.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rule, _ := strings.Cut(UdevRule, "\n") // without the comment
	if !strings.Contains(string(page), "```\n"+rule+"```") {
		t.Error("docs/container.md has another rule")
	}
}

// TestUdevLooksAtNoDisk asks the udev of this host, which need not run. Beside the disk there is another loop device
// with the same content.
func TestUdevLooksAtNoDisk(t *testing.T) {
	t.Parallel()
	udevadm, err := findUdevadm()
	if err != nil || !SeesUdev() {
		t.Skip("this host has no udev")
	}
	number, _, _ := newDisk(t)
	other := newOther(t)
	for _, n := range []int{number, other} {
		writeLabel(t, n)
	}
	properties := func(n int) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), udevadm, "test", "--action=change",
			fmt.Sprintf("/sys/block/loop%d", n)).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	if got := properties(other); !strings.Contains(got, "ID_FS_LABEL=BOOT") {
		t.Skipf("this udev finds no label at all: %s", got)
	}
	got := properties(number)
	for _, bad := range []string{"ID_FS_", "by-label", "by-uuid", "LVM", "watching", "DEVLINKS=/dev/disk"} {
		for line := range strings.Lines(got) {
			if strings.Contains(line, bad) && !strings.Contains(line, ".rules") {
				t.Errorf("udev has looked at the disk: %s", line)
			}
		}
	}
	if !strings.Contains(got, "UDISKS_IGNORE=1") || !strings.Contains(got, "SYSTEMD_READY=0") {
		t.Errorf("the rule is not in force: %s", got)
	}
}

// newOther returns a loop device that is no disk.
func newOther(t *testing.T) int {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "other"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(8 << 20); err != nil {
		t.Fatal(err)
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer control.Close()
	number, err := ioctl(control, unix.LOOP_CTL_ADD, ^uintptr(0))
	if err != nil {
		t.Fatal(err)
	}
	device, err := Open(number, unix.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	if err := unix.IoctlLoopConfigure(int(device.Fd()), &unix.LoopConfig{Fd: uint32(f.Fd())}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if device, err := Open(number, unix.O_RDWR); err == nil {
			_, _ = ioctl(device, unix.LOOP_CLR_FD, 0)
			device.Close()
		}
		if control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0); err == nil {
			_ = remove(control, number)
			control.Close()
		}
	})
	return number
}

// writeLabel writes the beginning of an ext2 file system with the label BOOT, as far as blkid reads it.
func writeLabel(t *testing.T, number int) {
	t.Helper()
	f, err := Open(number, unix.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	super := make([]byte, 1024)
	super[0x38], super[0x39] = 0x53, 0xef // magic
	super[0x4c] = 1                       // revision
	super[0x00], super[0x05] = 16, 8      // inodes, blocks
	copy(super[0x68:], "0123456789abcdef")
	copy(super[0x78:], "BOOT")
	if _, err := f.WriteAt(super, 1024); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}
