//go:build linux

package initd

import (
	"regexp"
	"slices"
	"time"

	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
)

// A service fails again and again when it is restarted as often as failingAfter after less than Options.Stable each. It
// does so no more when it has been up for that time. What it said last is reported again at most every retellEvery.
const (
	failingAfter = 3
	retellEvery  = time.Minute
)

// countLife counts an unrequested exit of the main process, with its exit status. op is held.
func (u *service) countLife(why string) {
	m := u.m
	m.mu.Lock()
	if time.Since(u.began) >= m.o.Stable {
		u.shortLives = 0
	}
	u.shortLives++
	failing := u.shortLives >= failingAfter
	m.mu.Unlock()
	if !failing {
		return
	}
	if said := m.journal.lastText(u.name); said != "" {
		why += ": " + said
	}
	m.reportFailing(u.name, why)
}

// watchStability waits until a service that was restarted is stable, or is stopped.
func (u *service) watchStability(active string) {
	m := u.m
	recovered := func() {
		m.mu.Lock()
		u.shortLives = 0
		m.mu.Unlock()
		m.reportRecovered(u.name)
	}
	m.mu.Lock()
	failing, since := u.shortLives >= failingAfter, u.activeSince
	m.mu.Unlock()
	if !failing {
		return
	}
	switch active {
	case "inactive":
		recovered()
	case "active":
		time.AfterFunc(m.o.Stable, func() {
			m.mu.Lock()
			stable := u.active == "active" && u.activeSince.Equal(since)
			m.mu.Unlock()
			if stable {
				recovered()
			}
		})
	}
}

// reportFailing reports a unit that fails again and again to the host.
func (m *manager) reportFailing(name, why string) {
	m.reportMu.Lock()
	at := slices.IndexFunc(m.bootReport.FailingUnits, func(f boot.FailingUnit) bool { return f.Name == name })
	told := m.reported[name]
	m.reportMu.Unlock()
	if at >= 0 && time.Since(told) < retellEvery {
		return
	}
	m.updateReport(func(r *boot.Report) {
		m.reported[name] = time.Now()
		r.FailingUnits = slices.DeleteFunc(r.FailingUnits, func(f boot.FailingUnit) bool { return f.Name == name })
		r.FailingUnits = append(r.FailingUnits, boot.FailingUnit{Name: name, Error: why})
	})
}

// reportRecovered reports to the host that a unit does not fail any more.
func (m *manager) reportRecovered(name string) {
	m.updateReport(func(r *boot.Report) {
		delete(m.reported, name)
		r.FailingUnits = slices.DeleteFunc(r.FailingUnits, func(f boot.FailingUnit) bool { return f.Name == name })
	})
}

// An error as components of Kubernetes write it (klog), and as containerd does (logrus).
var (
	klogHeader = regexp.MustCompile(`^[EF]\d{4} [\d:.]+ +\d+ \S+\] `)
	logrusLine = regexp.MustCompile(`level=(error|fatal) msg=`)
)

// remember records the last message of a unit, and prefers errors. The journal is locked.
func (j *journal) remember(name string, message []byte) {
	const most = 512 // bytes
	if j.lastLines == nil {
		j.lastLines = map[string]lastLine{}
	}
	line := lastLine{text: string(message[:min(len(message), most)])}
	if header := klogHeader.FindString(line.text); header != "" {
		line = lastLine{line.text[len(header):], true}
	} else if logrusLine.MatchString(line.text) {
		line.isError = true
	}
	if line.isError || !j.lastLines[name].isError {
		j.lastLines[name] = line
	}
}

// lastLine is the last line that a unit wrote, or the last that is an error.
type lastLine struct {
	text    string
	isError bool
}

// lastText returns what a unit said last.
func (j *journal) lastText(name string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lastLines[name].text
}
