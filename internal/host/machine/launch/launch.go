//go:build linux

package launch

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/durable"
	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
	"github.com/coracle-eks/coracle/internal/host/machine/confine"
	"github.com/coracle-eks/coracle/internal/host/machine/disks"
	"github.com/coracle-eks/coracle/internal/host/machine/nfs"
	"github.com/coracle-eks/coracle/internal/host/machine/squash"
)

// Spec describes a machine. It is read when the machine starts.
type Spec struct {
	InstanceID string
	Owner      string // of the daemon, as in paths of cgroups
	// Boot is the number of starts that were requested for the instance, as record.Instance counts them.
	Boot int
	// Dir is the machine's own directory on the host: its console and Status, and its files where it has no root volume.
	Dir string
	// RootVolume is the volume with its files, which is mounted on RootVolumeDir; empty when they are in Dir.
	RootVolume string `json:",omitempty"`
	// BaseImage is the lower layer of its root file system.
	BaseImage string `json:"Skeleton"` // the key of earlier versions, whose machines still run
	// Mounts are mounted over the root file system, in this order.
	Mounts []Mount
	// Network is the path of its network namespace.
	Network string
	// UserID is the first of the 65536 user and group IDs of the host that the machine has: its root. They are those of
	// the user namespace that owns Network. 0: the machine is in the host's user namespace.
	UserID   uint32 `json:",omitempty"`
	Hostname string
	Size     cgroup.Limits
	Hardware Hardware
	// Init is the command that becomes process 1, as seen inside.
	Init []string
	// Once has the machine run at most once in this Boot: it stays off when its init has ended, however that was.
	Once bool `json:",omitempty"`
}

// Mount is a mount of a file or directory of the host.
type Mount struct {
	Source string // on the host
	Target string // in the machine
	// ReadOnly keeps everybody in the machine from writing to it, root included, whatever it mounts.
	ReadOnly bool
}

// Read reads a file that Write has written.
func Read(name string) (Spec, error) {
	var s Spec
	return s, readJSON(name, &s)
}

// Write writes a file for Read, at once.
func (s Spec) Write(name string) error { return writeJSON(name, s) }

// Files in a machine's Dir.
const (
	SpecFile   = "spec.json"
	StatusFile = "status.json" // a Status; writer: launch
	// LeaseFile is a boot.Lease. Each boot gives the machine a copy of it (boot.HostDir).
	LeaseFile = "dhcp.json"
	// FargateFile and FargateTokenFile are there for the machine of a Fargate pod. Each boot gives its root copies.
	FargateFile      = boot.FargateFile
	FargateTokenFile = boot.FargateTokenFile
	// RunDir is the machine's boot.Dir: the machine writes there, and the host reads it by package guestfile.
	RunDir = "run"
	// RootVolumeDir is where the root volume is mounted, in the machine's mount namespace.
	RootVolumeDir = "disk"
)

// DiskDir returns the directory with the files of the machine in dir.
func DiskDir(dir, rootVolume string) string {
	if rootVolume == "" {
		return dir
	}
	return filepath.Join(dir, RootVolumeDir)
}

// UpperDirs are the directories of the machine's files that have to be there for its root file system.
var UpperDirs = []string{diskDir + "/upper", diskDir + "/work"}

// States of a Status.
const (
	Starting   = "starting"
	Running    = "running"     // init runs
	Failed     = "failed"      // it could not be started: Error says why
	PoweredOff = "powered-off" // from inside, or by the power button
	Crashed    = "crashed"     // init ended in another way
)

// Status is the status of a machine, according to launch.
type Status struct {
	Boot  int // of the Spec
	State string
	Error string    `json:",omitempty"`
	Since time.Time // of State
	// Starts counts how often init was started in this Boot: more than once after crashes and reboots from inside.
	Starts int
}

// hasRun reports whether init has run in this Boot.
func (s Status) hasRun() bool {
	return s.State == Running || s.State == Crashed || s.State == PoweredOff
}

// ReadStatus returns the status of the machine in dir; a zero Status when it never started.
func ReadStatus(dir string) (Status, error) {
	var s Status
	err := readJSON(filepath.Join(dir, StatusFile), &s)
	if errors.Is(err, fs.ErrNotExist) {
		return Status{}, nil
	}
	return s, err
}

func readJSON(name string, v any) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func writeJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(name, append(data, '\n'), 0o600)
}

// Main runs the program "coracle-node launch --spec FILE"; args are those after "launch". It returns the exit status.
func Main(args []string) int {
	if len(args) == 1 && args[0] == second {
		err := runSecondStage() // does not return when it becomes init
		_, _ = io.WriteString(os.NewFile(errorsFD, "errors"), err.Error())
		return 1
	}
	if len(args) == 1 && args[0] == disks.Helper {
		return disks.HelperMain()
	}
	if len(args) == 1 && args[0] == disks.Holder {
		return disks.HolderMain()
	}
	if len(args) == 1 && args[0] == nfs.Share {
		return nfs.ShareMain()
	}
	if len(args) == 2 && args[0] == squash.Argument {
		return squash.Main(args[1])
	}
	flags := flag.NewFlagSet("coracle-node launch", flag.ContinueOnError)
	name := flags.String("spec", "", "the machine's `file`")
	again := flags.Bool("again", false, "for the program itself: it runs with the capabilities that it needs")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *name == "" {
		fmt.Fprintln(os.Stderr, "usage: coracle-node launch --spec FILE")
		return 2
	}
	if err := dropCapabilities(*again); err != nil {
		fmt.Fprintf(os.Stderr, "coracle-node launch: %v\n", err)
		return 1
	}
	spec, err := Read(*name)
	if err == nil {
		err = runFirstStage(spec)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "coracle-node launch: %v\n", err)
		return 1
	}
	return 0
}

// dropCapabilities drops all but the capabilities that a machine may have. Capabilities belong to a thread, and a Go
// program has several: it executes itself, so that all of them begin without. again is true once it has done so.
func dropCapabilities(again bool) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dropped, err := confine.Dropped()
	if err != nil || dropped {
		return err
	}
	if again {
		return errors.New("capabilities that the launch of a machine does not need cannot be dropped")
	}
	if err := confine.DropCapabilities(); err != nil {
		return err
	}
	err = unix.Exec("/proc/self/exe", append(slices.Clone(os.Args), "--again"), os.Environ())
	return fmt.Errorf("execute coracle-node with fewer capabilities: %w", err)
}
