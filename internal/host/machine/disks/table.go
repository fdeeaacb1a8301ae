//go:build linux

package disks

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/durable"
)

// Files in a machine's directory.
const (
	TableFile = "disks.json" // a Table; writer: the daemon
	// socketFile is where the launcher listens.
	socketFile = "disks.sock"
)

// Table lists the disks of a machine.
type Table struct {
	Disks []Disk
}

// Disk is a disk that a machine has or is to lose.
type Disk struct {
	VolumeID string
	Device   string // "/dev/xvdaa"
	// Number is that of its NVMe name, from 1: "/dev/nvme1n1".
	Number     int
	Loop       int // the number of the host's loop device
	AttachedAt time.Time
	// Detaching asks for its detachment, Force also where it is mounted.
	Detaching bool `json:",omitempty"`
	Force     bool `json:",omitempty"`
}

// States of a disk.
const (
	Attached = "attached"
	Detached = "detached"
	Busy     = "busy" // it is to be detached, and mounted
	Failed   = "failed"
)

// State is what the launcher has done about a disk of the table.
type State struct {
	VolumeID string
	State    string
	Error    string `json:",omitempty"`
}

// ReadTable returns the table of the machine in dir; an empty one when it has none.
func ReadTable(dir string) (Table, error) {
	var t Table
	data, err := os.ReadFile(filepath.Join(dir, TableFile))
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return t, fmt.Errorf("%s: %w", TableFile, err)
	}
	return t, nil
}

// Write replaces the table of the machine in dir, which has to be there.
func (t Table) Write(dir string) error {
	data, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, TableFile), append(data, '\n'), 0o600)
}

var (
	deviceName = regexp.MustCompile(`^(/dev/)?[A-Za-z][A-Za-z0-9_-]{0,31}$`)
	volumeID   = regexp.MustCompile(`^vol-[0-9a-f]{8,17}$`)
)

// ownNames are those that a machine has in /dev already.
var ownNames = []string{"null", "zero", "full", "random", "urandom", "kmsg", "tty", "fuse", "net", "ptmx", "pts", "fd",
	"stdin", "stdout", "stderr", "core", "console", "shm", "mqueue", "disk"}

// names returns the names of its nodes below /dev.
func (d Disk) names() ([]string, error) {
	if !deviceName.MatchString(d.Device) || !volumeID.MatchString(d.VolumeID) || d.Number < 1 {
		return nil, fmt.Errorf("%s cannot be attached as %q", d.VolumeID, d.Device)
	}
	name, nvme := strings.TrimPrefix(d.Device, "/dev/"), d.nvme()
	for _, own := range ownNames {
		if name == own {
			return nil, fmt.Errorf("the machine has another device named %s", d.Device)
		}
	}
	if name == nvme || strings.HasPrefix(name, "nvme") {
		return []string{nvme}, nil
	}
	return []string{nvme, name}, nil
}

func (d Disk) nvme() string { return fmt.Sprintf("nvme%dn1", d.Number) }

// linkByID returns the name of its symbolic link in /dev/disk/by-id, by which CSI drivers find it.
// https://docs.aws.amazon.com/ebs/latest/userguide/identify-nvme-ebs-device.html
func (d Disk) linkByID() string {
	return "nvme-Amazon_Elastic_Block_Store_vol" + strings.TrimPrefix(d.VolumeID, "vol-")
}
