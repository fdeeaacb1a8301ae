//go:build linux

package loopdevice

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/durable"
)

// A udev of the host looks at each new block device as root, and acts on what it finds: it makes links by label and
// UUID, activates volume groups of LVM, assembles arrays of md, and registers parts of Btrfs and bcache. What is on a
// disk was written by a machine. So udev is told to look at no disk, before the first is attached.

// UdevRule tells udev to look at no disk of a machine: at no loop device with a size limit as that of tag, from 2^62 to
// 2^63, and at none without a file, which has nothing yet (kernels before 6.3 tell of a device before it has its
// limit). Others of the host stay as they are. The rules of udev itself heed the first variable, those of LVM, bcache
// and md the second, those of Btrfs, md and systemd the third, and udisks the last.
const UdevRule = `# Written by coracle: machines write what is on these devices, and the host must not act on it.
SUBSYSTEM!="block", GOTO="coracle_end"
KERNEL!="loop[0-9]*", GOTO="coracle_end"
ENV{DEVTYPE}=="disk", TEST!="loop/sizelimit", GOTO="coracle_disk"
ATTRS{loop/sizelimit}=="` + tagPattern + `", GOTO="coracle_disk"
GOTO="coracle_end"
LABEL="coracle_disk"
ENV{UDEV_DISABLE_PERSISTENT_STORAGE_RULES_FLAG}="1"
ENV{DM_UDEV_DISABLE_OTHER_RULES_FLAG}="1"
ENV{SYSTEMD_READY}="0"
ENV{UDISKS_IGNORE}="1"
OPTIONS:="nowatch"
LABEL="coracle_end"
`

// tagPattern matches the decimal digits of tags, as udev matches.
const tagPattern = "[4-9]??????????????????"

// udevRuleFile is the name of the file with the rule. Rules are read in the order of their names.
const udevRuleFile = "00-coracle.rules"

// udev is that of the host, if it has one.
type udev struct {
	run, etc string // its directories: "/run/udev", "/etc/udev"
	reload   func(context.Context) error

	mu       sync.Mutex
	reloaded bool // since the rule was written
}

var hostUdev = &udev{run: "/run/udev", etc: "/etc/udev", reload: reloadUdev}

// ErrUdev is the error of Attach where the host's udev would look at the disk.
var ErrUdev = errors.New("the host's udev would act on what machines write to their volumes")

// guard returns once a udev of the host has the rule. The error is ErrUdev where it cannot.
func (u *udev) guard() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, err := os.Lstat(u.run); errors.Is(err, fs.ErrNotExist) {
		return nil // there is none
	}
	file := filepath.Join(u.run, "rules.d", udevRuleFile)
	if now, err := os.ReadFile(file); err != nil || string(now) != UdevRule {
		u.reloaded = false
		err := os.MkdirAll(filepath.Dir(file), 0o755) // open to others, like all of udev
		if err == nil {
			err = durable.WriteFile(file, []byte(UdevRule), 0o644) // open to others, like its directory
		}
		if err != nil && u.isRunning() {
			return fmt.Errorf("%w: write a rule for it: %w", ErrUdev, err)
		}
	}
	if u.reloaded || !u.isRunning() { // one that starts reads the rule
		return nil
	}
	if err := u.checkHidden(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), reloadPatience)
	defer cancel()
	if err := u.reload(ctx); err != nil {
		return fmt.Errorf("%w: make it read %s: %w", ErrUdev, file, err)
	}
	u.reloaded = true
	return nil
}

// isRunning reports whether a udev listens, or may: only an answer of the kernel that nobody does counts as that.
func (u *udev) isRunning() bool {
	for network, name := range map[string]string{"unixpacket": "control", "unix": "io.systemd.Udev"} {
		c, err := net.DialTimeout(network, filepath.Join(u.run, name), time.Second)
		if err == nil {
			_ = c.Close() // nothing was sent
			return true
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ECONNREFUSED) {
			return true
		}
	}
	return false
}

// checkHidden returns an error when a file of the administrator stands in place of the rule.
func (u *udev) checkHidden() error {
	file := filepath.Join(u.etc, "rules.d", udevRuleFile)
	if text, err := os.ReadFile(file); errors.Is(err, fs.ErrNotExist) || err == nil && string(text) == UdevRule {
		return nil
	}
	return fmt.Errorf("%w: %s hides the rule that keeps it from that", ErrUdev, file)
}

// reloadPatience is the time that a udev may take to read its rules.
const reloadPatience = 10 * time.Second

func reloadUdev(ctx context.Context) error {
	path, err := findUdevadm()
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, path, "control", "--reload").CombinedOutput()
	if err != nil {
		return fmt.Errorf("udevadm control --reload: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

func findUdevadm() (string, error) {
	for _, name := range []string{"udevadm", "/usr/bin/udevadm", "/bin/udevadm", "/usr/sbin/udevadm", "/sbin/udevadm"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no udevadm: install the package udev, or systemd-udev")
}

// CheckUdev returns why no disk can be attached beside the host's udev; nil where it can, or where none runs.
func CheckUdev() error {
	if !hostUdev.isRunning() {
		return nil
	}
	if _, err := findUdevadm(); err != nil {
		return fmt.Errorf("%w: %w", ErrUdev, err)
	}
	return hostUdev.checkHidden()
}

// SeesUdev reports whether this process sees the directory of a udev. In a container it does not see the host's.
func SeesUdev() bool {
	_, err := os.Lstat(hostUdev.run)
	return err == nil
}
