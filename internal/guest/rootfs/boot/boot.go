// Package boot is what a machine tells its host about its boot: one small file, written inside and read outside.
package boot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Dir is the machine's directory that its host reads; File is the report in it.
const (
	Dir  = "/run/coracle"
	File = "boot.json"
)

// States of a Report.
const (
	Running   = "running"
	Succeeded = "succeeded"
	Failed    = "failed"
)

// Report is how far a boot has come. Writer: init (Initialized, StartedAt, Failed units) and the cloud-init stage (UserData).
type Report struct {
	// StartedAt is when init began; FinishedAt when everything that boots had ended, well or not: zero before.
	StartedAt  time.Time `json:"startedAt"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	// Network says that the machine had its address, host name and metadata: the instance status check.
	Network bool `json:"network"`
	// UserData is running, succeeded or failed; empty while, or when, there is nothing to run.
	UserData string `json:"userData,omitempty"`
	// Failure says what failed, as the console does.
	Failure string `json:"failure,omitempty"`
	// FailedUnits are the units that did not start at boot.
	FailedUnits []string `json:"failedUnits,omitempty"`
}

// Read is the report in dir (the machine's Dir, as seen from where the caller is); a zero Report when nothing was reported yet.
func Read(dir string) (Report, error) {
	var r Report
	data, err := os.ReadFile(filepath.Join(dir, File))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("read boot report %s: %w", filepath.Join(dir, File), err)
	}
	return r, nil
}

// Write replaces the report in dir at once, so that a reader sees the old or the new one.
func Write(dir string, r Report) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	next := filepath.Join(dir, "."+File)
	if err := os.WriteFile(next, data, 0o644); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(dir, File))
}
