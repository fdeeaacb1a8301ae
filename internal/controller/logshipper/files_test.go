package logshipper

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/componentlog"
)

func TestWhatWasWrittenBeforeIsNotShippedEvenWhenTheDaemonWasAway(t *testing.T) {
	f := newFixture(t)
	f.run()
	f.append("kube-scheduler.log", "before\n")
	eventually.True(f, "the first reconcile pass", func() bool { m, _ := f.events.Mark(marks + id); return m != nil })
	f.stop()
	f.append("kube-scheduler.log", "before\n")
	f.append(auditFile, "before\n")
	f.append(auditAside, "before\n")
	update := f.ask(audits, scheduler)
	f.run()
	f.ended(update)
	f.append("kube-scheduler.log", "one\n")
	f.append(auditFile, "two\n")
	f.expect("kube-scheduler", "one")
	f.expect("kube-apiserver-audit", "two")
	eventually.True(f, "the old file to go",
		func() bool { return slices.Equal(f.files(), []string{auditFile, "kube-scheduler.log"}) })
}

func TestRotation(t *testing.T) {
	f := newFixture(t, audits)
	f.append(auditFile, "1\n2\n")
	f.run()
	f.expect("kube-apiserver-audit", "1", "2")
	f.stop()
	f.append(auditFile, "3\n")
	f.rename(auditFile, auditAside)
	f.append(auditFile, "4\n")
	f.rename(auditFile, "kube-apiserver-audit-0a1b2c3d-2026-11-21T11-36-40.123.log")
	f.append(auditFile, "5\n")
	f.append("kube-apiserver-audit-ffffffff.log", "6\n") // of another API server
	f.run()
	f.expect("kube-apiserver-audit", "1", "2", "3", "4", "5", "6")
	eventually.True(f, "shipped files to go", func() bool {
		return slices.Equal(f.files(), []string{auditFile, "kube-apiserver-audit-ffffffff.log"})
	})
	f.append("kube-apiserver-audit-ffffffff.log", "7\n")
	f.expect("kube-apiserver-audit", "1", "2", "3", "4", "5", "6", "7")
	if err := componentlog.RotateOtherAuditLogs(f.dir, "ffffffff", time.Now()); err != nil {
		t.Fatal(err)
	}
	eventually.True(f, "the log of an API server that is gone to go", func() bool {
		return slices.Equal(f.files(), []string{"kube-apiserver-audit-ffffffff.log"})
	})
	if strings.Contains(f.log.String(), "lost") {
		t.Errorf("lines are said to be lost: %s", f.log)
	}
}

func TestLossIsTold(t *testing.T) {
	f := newFixture(t, audits)
	f.append(auditFile, "1\n")
	f.run()
	f.expect("kube-apiserver-audit", "1")
	f.stop()
	if err := os.Remove(filepath.Join(f.dir, auditFile)); err != nil {
		t.Fatal(err)
	}
	f.append(auditFile, "3\n")
	f.run()
	f.expect("kube-apiserver-audit", "1", "3")
	if want := fmt.Sprintf("bytesLost=%d", 50<<20-2); !strings.Contains(f.log.String(), want) {
		t.Errorf("the log does not say %s: %s", want, f.log)
	}
}

func TestTheFilesOfARestoredBackupAreOthers(t *testing.T) {
	f := newFixture(t, scheduler)
	f.append("kube-scheduler.log", "1\n")
	f.run()
	f.expect("kube-scheduler", "1")
	f.stop()
	if err := errors.Join(os.RemoveAll(filepath.Join(f.root, id)), os.MkdirAll(f.dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	f.append("kube-scheduler.log", "2\n")
	f.run()
	f.expect("kube-scheduler", "1", "2")
	if strings.Contains(f.log.String(), "lost") {
		t.Errorf("lines are said to be lost: %s", f.log)
	}
}

func TestACutFileIsShippedFromItsBeginning(t *testing.T) {
	f := newFixture(t, scheduler)
	f.append("kube-scheduler.log", "1 is long enough\n")
	f.run()
	f.expect("kube-scheduler", "1 is long enough")
	f.stop()
	if err := os.Truncate(filepath.Join(f.dir, "kube-scheduler.log"), 0); err != nil {
		t.Fatal(err)
	}
	f.append("kube-scheduler.log", "2\n")
	f.run()
	f.expect("kube-scheduler", "1 is long enough", "2")
}

func TestAFileThatThePowerCutIsNotShippedTwice(t *testing.T) {
	f := newFixture(t, scheduler)
	f.append("kube-scheduler.log", "1\n2\n")
	f.run()
	f.expect("kube-scheduler", "1", "2")
	f.stop()
	if err := os.Truncate(filepath.Join(f.dir, "kube-scheduler.log"), 2); err != nil {
		t.Fatal(err)
	}
	var p offsets
	if err := json.Unmarshal(f.events.marks[marks+id], &p); err != nil {
		t.Fatal(err)
	}
	p.Boot = "another"
	f.events.marks[marks+id] = p.encodeJSON()
	f.run()
	eventually.True(f, "the first reconcile pass", func() bool {
		var p offsets
		m, _ := f.events.Mark(marks + id)
		return json.Unmarshal(m, &p) == nil && p.Boot == bootID
	})
	f.append("kube-scheduler.log", "3\n")
	f.expect("kube-scheduler", "1", "2", "3")
}

func TestTheDiskIsGivenBack(t *testing.T) {
	f := newFixture(t, scheduler)
	line := strings.Repeat("x", 1<<20-1) + "\n"
	for range 25 {
		f.append("kube-scheduler.log", line)
		f.append("kube-apiserver.log", line)
	}
	f.append("kube-scheduler.log", "end\n")
	f.append(auditAside, "not wanted\n")
	f.run()
	for _, name := range []string{"kube-scheduler.log", "kube-apiserver.log"} {
		eventually.True(f, "the disk space of "+name,
			func() bool { return taken(f.T, filepath.Join(f.dir, name)) <= 21<<20 })
	}
	eventually.True(f, "files that nobody wants to go", func() bool { return !slices.Contains(f.files(), auditAside) })
	f.append("kube-scheduler.log", "more\n")
	eventually.True(f, "the end", func() bool {
		got := f.messages("kube-scheduler")
		// Each of the long lines is 25 bytes longer than an event may be.
		return len(got) == 52 && got[50] == "end" && got[51] == "more"
	})
}
