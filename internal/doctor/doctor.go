// Package doctor looks at a host and says what coracle lacks there, with the command that fixes it.
//
// [Examine] makes every check of [checks] in order; a check looks at one thing, changes nothing,
// and answers with findings.
package doctor

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/host/preflight"
)

// Level is the severity of a finding.
type Level string

// The levels, from good to bad.
const (
	OK   Level = "ok"
	Warn Level = "warn" // something will not work; clusters will
	Fail Level = "FAIL" // clusters will not work
)

// Finding is the result of a check.
type Finding struct {
	Check string
	Level Level
	Text  string
	Fix   string // a command, or what to do; empty when all is well
}

// Host is the subject of the checks.
type Host struct {
	Dir     datadir.Dir
	Listen  string // where the daemon listens or would listen
	Bundles string // the only directory of bundles, if not empty
	Version string // the Kubernetes version that clusters get by default
	// Settings is the error of reading the settings of the data directory, if any.
	Settings error
	// Simulated is set where machines are to be simulated, whatever the host allows.
	Simulated bool
	Ports     map[string]int // ports that the data directory remembers, by what they are for

	// machineProblems tries once what machines need; several checks ask for it. Nil before Examine and Limitations.
	machineProblems func() []preflight.Problem
}

// remember returns h, which then tries only once what machines need.
func (h Host) remember() Host {
	h.machineProblems = sync.OnceValue(func() []preflight.Problem { return preflight.CheckMachines(machinesDir(h)) })
	return h
}

// problems returns why h cannot have machines.
func (h Host) problems() []preflight.Problem {
	if h.machineProblems == nil {
		h = h.remember()
	}
	return h.machineProblems()
}

// machinesDir returns the directory in which a daemon of h has files of machines, or the nearest directory that exists.
func machinesDir(h Host) string {
	if _, err := os.Stat(string(h.Dir)); err != nil {
		return existing(string(h.Dir))
	}
	return string(h.Dir)
}

// Examine makes all checks.
func Examine(ctx context.Context, h Host) []Finding {
	var all []Finding
	h = h.remember()
	for _, c := range checks {
		for _, f := range c.run(ctx, h) {
			f.Check = c.name
			all = append(all, f)
		}
	}
	return all
}

// limiting are the checks of what a daemon that runs may lack. Those of other programs, and of the daemon itself, are
// not among them.
var limiting = []string{"kernel", "machines", "isolation", "firewall", "disk"}

// Limitations returns what will not work with a daemon on a host: the findings that are not good, for those who start
// it.
func Limitations(ctx context.Context, h Host) (all []Finding) {
	h = h.remember()
	for _, c := range checks {
		if !slices.Contains(limiting, c.name) {
			continue
		}
		for _, f := range c.run(ctx, h) {
			if f.Level != OK {
				f.Check = c.name
				all = append(all, f)
			}
		}
	}
	return all
}

// Print writes the findings for a person, and reports whether clusters will work.
func Print(w io.Writer, findings []Finding) (healthy bool, err error) {
	healthy = true
	for _, f := range findings {
		if _, err := fmt.Fprintf(w, "%-4s  %-11s  %s\n", f.Level, f.Check, f.Text); err != nil {
			return false, err
		}
		if f.Fix != "" {
			indented := strings.ReplaceAll(f.Fix, "\n", "\n"+strings.Repeat(" ", 26))
			if _, err := fmt.Fprintf(w, "%19sfix:   %s\n", "", indented); err != nil {
				return false, err
			}
		}
		healthy = healthy && f.Level != Fail
	}
	return healthy, nil
}

func okFinding(format string, args ...any) []Finding {
	return []Finding{{Level: OK, Text: fmt.Sprintf(format, args...)}}
}

func warnFinding(fix, format string, args ...any) []Finding {
	return []Finding{{Level: Warn, Text: fmt.Sprintf(format, args...), Fix: fix}}
}

func failFinding(fix, format string, args ...any) []Finding {
	return []Finding{{Level: Fail, Text: fmt.Sprintf(format, args...), Fix: fix}}
}
