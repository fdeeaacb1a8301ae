//go:build linux

// Package containerdevice gives containers the devices that their specification names. It stands before runc, in
// machines with a user namespace.
//
// There nobody makes device files, and runc mounts those of the machine. It takes for the device of a container what
// has the container's name for it in the machine: nothing, or another device. A device whose name differs, as that of
// a raw block volume does, becomes a mount of the file that the machine has for this device: its owner and its mode,
// which root in the container may change, are those of the machine's file.
package containerdevice

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Bind changes the configuration of a container that is to be created from a bundle, where it is necessary.
func Bind(bundle string) error {
	mapped, err := inUserNamespace()
	if err != nil || !mapped {
		return err
	}
	return bind(bundle, "/")
}

// inUserNamespace reports whether this process is in another user namespace than the host's.
func inUserNamespace() (bool, error) {
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false, err
	}
	return strings.Join(strings.Fields(string(text)), " ") != "0 0 4294967295", nil
}

// device is the part of a device in an OCI runtime configuration that says which it is.
type device struct {
	Path  string `json:"path"`
	Type  string `json:"type"`
	Major int64  `json:"major"`
	Minor int64  `json:"minor"`
}

type mount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Source      string   `json:"source"`
	Options     []string `json:"options"`
}

// bind makes mounts of the devices whose files have other names below root, which is that of the machine.
func bind(bundle, root string) error {
	file := filepath.Join(bundle, "config.json")
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var all, linux map[string]json.RawMessage
	if err := json.Unmarshal(content, &all); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := unmarshal(all["linux"], &linux); err != nil {
		return fmt.Errorf("%s: linux: %w", file, err)
	}
	var devices, mounts []json.RawMessage
	left := []json.RawMessage{}
	if err := unmarshal(linux["devices"], &devices); err != nil {
		return fmt.Errorf("%s: linux.devices: %w", file, err)
	}
	if err := unmarshal(all["mounts"], &mounts); err != nil {
		return fmt.Errorf("%s: mounts: %w", file, err)
	}
	for _, raw := range devices {
		var d device
		if err := json.Unmarshal(raw, &d); err != nil {
			return fmt.Errorf("%s: linux.devices: %w", file, err)
		}
		if d.isAt(filepath.Join(root, d.Path)) || d.Type == "p" {
			left = append(left, raw)
			continue
		}
		source, err := d.find(filepath.Join(root, "dev"))
		if err != nil {
			return err
		}
		m, err := json.Marshal(mount{Destination: d.Path, Type: "bind", Source: source,
			Options: []string{"bind", "nosuid", "noexec"}})
		if err != nil {
			return err
		}
		mounts = append(mounts, m)
	}
	if len(left) == len(devices) {
		return nil
	}
	for _, part := range []struct {
		in    map[string]json.RawMessage
		key   string
		value any
	}{{linux, "devices", left}, {all, "linux", linux}, {all, "mounts", mounts}} {
		if part.in[part.key], err = json.Marshal(part.value); err != nil {
			return err
		}
	}
	if content, err = json.Marshal(all); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o600)
}

// unmarshal reads a part that may be missing.
func unmarshal(raw json.RawMessage, to any) error {
	if raw == nil {
		return nil
	}
	return json.Unmarshal(raw, to)
}

// isAt reports whether a file is the device. Of links runc mounts what they lead to.
func (d device) isAt(path string) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && d.is(&st)
}

func (d device) is(st *unix.Stat_t) bool {
	format := map[string]uint32{"b": unix.S_IFBLK, "c": unix.S_IFCHR, "u": unix.S_IFCHR}[d.Type]
	return format != 0 && st.Mode&unix.S_IFMT == format && int64(unix.Major(st.Rdev)) == d.Major &&
		int64(unix.Minor(st.Rdev)) == d.Minor
}

// find returns the file of the device in a directory of devices.
func (d device) find(dir string) (found string, err error) {
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && e.Type()&fs.ModeDevice == 0 {
			return nil // it has just gone, or is none
		}
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if unix.Lstat(path, &st) == nil && d.is(&st) {
			found = path
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("look for the device %s %d:%d of the container: %w", d.Type, d.Major, d.Minor, err)
	}
	if found == "" {
		return "", fmt.Errorf("the machine has no device %s %d:%d, which the container is to have as %s", d.Type, d.Major,
			d.Minor, d.Path)
	}
	return found, nil
}
