// Package boot defines the files that a machine and its host exchange about a boot: a report, which is written inside
// and read outside, and the DHCP lease, which the host gives. The two lie in different directories, so that neither
// side reads or writes where the other one decides what a name leads to.
package boot

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/coracle-eks/coracle/internal/durable"
)

// Directories of a machine, and the files in them.
const (
	Dir  = "/run/coracle" // for the host: File
	File = "boot.json"    // a Report

	HostDir  = "/run/host" // the machine's own copy of what its host has for it
	DHCPFile = "dhcp.json" // a Lease
	DiskFile = "own-disk"  // is there when the files of the machine are on a disk of its own
)

// MaxSize is the size of the longest report that is read, in bytes.
const MaxSize = 64 << 10

// Bounds of the texts in a report: machines write them, and they are kept in the store and shown in terminals.
const (
	maxText  = 2 << 10 // bytes
	maxUnits = 64
)

// States of a Report.
const (
	Running   = "running"
	Succeeded = "succeeded"
	Failed    = "failed"
)

// Report is the progress of a boot. Writer: init (StartedAt, FailedUnits, FailingUnits) and the cloud-init stage
// (UserData).
type Report struct {
	// StartedAt is the time when init began; FinishedAt the time when every part of the boot had ended, successfully or
	// not: zero before.
	StartedAt  time.Time `json:"startedAt"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	// Network reports that the machine had its address, host name and metadata: the instance status check.
	Network bool `json:"network"`
	// UserData is running, succeeded or failed; empty while, or when, there is nothing to run.
	UserData string `json:"userData,omitempty"`
	// Failure describes what failed, as the console does.
	Failure string `json:"failure,omitempty"`
	// FailedUnits are the units that did not start at boot.
	FailedUnits []string `json:"failedUnits,omitempty"`
	// FailingUnits are those that are restarted again and again, now.
	FailingUnits []FailingUnit `json:"failingUnits,omitempty"`
}

// FailingUnit is a unit that does not stay up.
type FailingUnit struct {
	Name  string `json:"name"`  // "kubelet.service"
	Error string `json:"error"` // how it ended, and the last error that it wrote
}

// Parse reads what Write has written, or whatever else a machine has put in its place.
func Parse(data []byte) (Report, error) {
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return Report{}, fmt.Errorf("read a boot report: %w", err)
	}
	switch r.UserData {
	case "", Running, Succeeded, Failed:
	default:
		const states = Running + ", " + Succeeded + " or " + Failed
		return Report{}, fmt.Errorf("read a boot report: user data is %s, not %.40q", states, r.UserData)
	}
	return r.bounded(), nil
}

// bounded cuts texts that are too long, and takes out what a terminal acts on.
func (r Report) bounded() Report {
	r.Failure = printable(r.Failure)
	units := make([]string, 0, min(len(r.FailedUnits), maxUnits))
	for _, unit := range r.FailedUnits[:cap(units)] {
		units = append(units, printable(unit))
	}
	if r.FailedUnits = units; len(units) == 0 {
		r.FailedUnits = nil
	}
	failing := make([]FailingUnit, 0, min(len(r.FailingUnits), maxUnits))
	for _, unit := range r.FailingUnits[:cap(failing)] {
		failing = append(failing, FailingUnit{Name: printable(unit.Name), Error: printable(unit.Error)})
	}
	if r.FailingUnits = failing; len(failing) == 0 {
		r.FailingUnits = nil
	}
	return r
}

func printable(text string) string {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "..."
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

// Write replaces the report in dir at once, so that a reader sees the old or the new one.
func Write(dir string, r Report) error {
	data, err := json.Marshal(r.bounded())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, File), data, 0o644)
}
