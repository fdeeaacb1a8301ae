package logshipper

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/componentlog"
	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/record"
)

func TestEachTypeHasItsStreams(t *testing.T) {
	f := newFixture(t, api, audits, authenticator, controllerManager, scheduler)
	f.append("kube-apiserver.log",
		"I1121 10:36:40.123456    4242 a.go:1] one\nI1121 10:36:41.000000    4242 a.go:1] two\n\npanic: at the disco\n")
	f.append(auditFile, `{"kind":"Event","stageTimestamp":"2026-11-21T10:36:42.654321Z","annotations":{"a":"b"}}`+"\n")
	f.append("authenticator.log", `time="2026-11-21T10:36:43Z" level=info msg=hello`+"\n")
	f.append("kube-controller-manager.log", "W1121 10:36:44.5\n")
	f.append("aws-cloud-controller-manager.log", "cloud\n")
	f.append("kube-scheduler.log", "schedule\n")
	f.append("somebody.log", "else\n")
	f.run()
	f.expect("kube-apiserver", "I1121 10:36:40.123456    4242 a.go:1] one", "I1121 10:36:41.000000    4242 a.go:1] two",
		"panic: at the disco")
	f.expect("kube-apiserver-audit",
		`{"kind":"Event","stageTimestamp":"2026-11-21T10:36:42.654321Z","annotations":{"a":"b"}}`)
	f.expect("authenticator", `time="2026-11-21T10:36:43Z" level=info msg=hello`)
	f.expect("kube-controller-manager", "W1121 10:36:44.5")
	f.expect("cloud-controller-manager", "cloud")
	f.expect("kube-scheduler", "schedule")
	rows, err := record.LogStreams(f.store).List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if !strings.HasSuffix(r.Value.Name, "-0123456789abcdef0123456789abcdef") {
			t.Errorf("stream %s", r.Value.Name)
		}
	}
	if len(rows) != 6 {
		t.Errorf("%d streams", len(rows))
	}
	if at := f.shipped("kube-apiserver-audit")[0].Timestamp; at != time.Date(2026, 11, 21, 10, 36, 42, 654e6,
		time.UTC).UnixMilli() {
		t.Errorf("an audit event of %v", time.UnixMilli(at))
	}
	if at := f.shipped("authenticator")[0].Timestamp; at != time.Date(2026, 11, 21, 10, 36, 43, 0,
		time.UTC).UnixMilli() {
		t.Errorf("an authenticator line of %v", time.UnixMilli(at))
	}
}

func TestALineWaitsForItsEnd(t *testing.T) {
	f := newFixture(t, scheduler)
	f.append("kube-scheduler.log", "one\ntw")
	f.run()
	f.expect("kube-scheduler", "one")
	f.stop()
	f.append("kube-scheduler.log", "o")
	f.run()
	f.append("kube-scheduler.log", "\nthree")
	f.expect("kube-scheduler", "one", "two")
	if err := f.controller().Drain(t.Context(), record.Cluster{Account: account, Region: region, Name: cluster,
		ID: id}); err != nil {
		t.Fatal(err)
	}
	f.expect("kube-scheduler", "one", "two", "three")
}

func TestSwitching(t *testing.T) {
	f := newFixture(t)
	f.append("kube-scheduler.log", "before\n")
	f.append(auditFile, "before\n")
	f.run()
	f.change() // what was there is known to have been off
	f.change(audits)
	f.append("kube-scheduler.log", "other\n")
	f.append(auditFile, "one\n")
	f.expect("kube-apiserver-audit", "one")
	f.append(auditFile, "two\n")
	f.change(scheduler)
	f.append(auditFile, "off\n")
	f.append("kube-scheduler.log", "three\n")
	f.expect("kube-scheduler", "three")
	f.expect("kube-apiserver-audit", "one", "two")
	f.stop()
	f.append(auditFile, "off\n")
	f.run()
	f.change(audits, scheduler)
	f.append(auditFile, "four\n")
	f.append("kube-scheduler.log", "five\n")
	f.expect("kube-apiserver-audit", "one", "two", "four")
	f.expect("kube-scheduler", "three", "five")
}

func TestLongLinesAreSplitBetweenCharacters(t *testing.T) {
	f := newFixture(t, scheduler)
	long := "x" + strings.Repeat("ä", componentlog.MaxMessage)
	f.append("kube-scheduler.log", long+"\n"+strings.Repeat("y", componentlog.MaxMessage)+"\nend\n")
	f.run()
	eventually.True(f, "the end", func() bool { return slices.Contains(f.messages("kube-scheduler"), "end") })
	got := f.messages("kube-scheduler")
	if len(got) != 5 || got[0]+got[1]+got[2] != long || len(got[3]) != componentlog.MaxMessage {
		t.Errorf("%d events", len(got))
	}
	for _, m := range got {
		if len(m) > componentlog.MaxMessage || strings.ToValidUTF8(m, "") != m {
			t.Errorf("an event of %d bytes", len(m))
		}
	}
}

func TestADeletedGroupIsMadeAgain(t *testing.T) {
	f := newFixture(t, scheduler)
	f.append("kube-scheduler.log", "1\n")
	f.run()
	f.expect("kube-scheduler", "1")
	groups := record.LogGroups(f.store)
	row, err := groups.Get(t.Context(), record.LogGroupKey(account, region, GroupName(cluster)))
	if err == nil {
		err = groups.Delete(t.Context(), row)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.append("kube-scheduler.log", "2\n")
	f.expect("kube-scheduler", "2")
}

func TestWhatCannotBeStoredIsStoredLater(t *testing.T) {
	f := newFixture(t, scheduler)
	f.events.refuse = errors.New("no space left on device")
	f.append("kube-scheduler.log", "1\n")
	f.run()
	eventually.True(f, "a failure", func() bool { return strings.Contains(f.log.String(), "no space left") })
	f.events.mu.Lock()
	f.events.refuse = nil
	f.events.mu.Unlock()
	f.append("kube-scheduler.log", "2\n")
	f.expect("kube-scheduler", "1", "2")
}

func TestTheLogsOfADeletedClusterAreShippedAndForgotten(t *testing.T) {
	f := newFixture(t, scheduler)
	f.append("kube-scheduler.log", "1\n")
	f.run()
	f.expect("kube-scheduler", "1")
	clusters := record.Clusters(f.store)
	key := record.ClusterKey(account, region, cluster)
	row, err := clusters.Modify(t.Context(), key, func(c *record.Cluster) error { c.Deleting = true; return nil })
	if err != nil {
		t.Fatal(err)
	}
	f.append("kube-scheduler.log", "2\nthe last words")
	c := f.controller()
	defer c.Close()
	f.stop() // the control-plane controller calls the one that runs
	if err := c.Drain(t.Context(), row.Value); err != nil {
		t.Fatal(err)
	}
	f.expect("kube-scheduler", "1", "2", "the last words")
	if err := os.RemoveAll(filepath.Join(f.root, id)); err != nil {
		t.Fatal(err)
	}
	f.run()
	if row, err = clusters.Get(t.Context(), key); err == nil {
		err = clusters.Delete(t.Context(), row)
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually.True(f, "its marks to go", func() bool { m, _ := f.events.Marks(marks); return len(m) == 0 })
	if _, err := os.Stat(filepath.Join(f.root, id)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its directory is there again: %v", err)
	}
	if strings.Contains(f.log.String(), "lost") {
		t.Errorf("lines are said to be lost: %s", f.log)
	}
}

// While log events are not taken in, a cluster's logs must not fill the disk.
func TestLogsThatCannotBeStoredAreGivenUpOnAFullDisk(t *testing.T) {
	f := newFixture(t, scheduler, audits)
	var free atomic.Int64
	free.Store(lossDisk)
	f.free = func(string) (int64, error) { return free.Load(), nil }
	f.events.refuse = events.ErrFull
	line := strings.Repeat("x", 1<<20-1) + "\n"
	for range 25 {
		f.append("kube-scheduler.log", line) // which is shipped
		f.append("kube-apiserver.log", line) // which is not
	}
	f.append(auditAside, "unheard\n")
	f.run()
	size := func(name string) int64 { return taken(f.T, filepath.Join(f.dir, name)) }
	eventually.True(f, "the space of what nobody wants", func() bool { return size("kube-apiserver.log") <= 21<<20 })
	if size("kube-scheduler.log") < 25<<20 || !slices.Contains(f.files(), auditAside) {
		t.Errorf("lines were given up while there was room: %v", f.files())
	}
	free.Store(lossDisk - 1)
	eventually.True(f, "the space of what cannot be stored", func() bool {
		return size("kube-scheduler.log") <= 21<<20 && !slices.Contains(f.files(), auditAside)
	})
	f.events.mu.Lock()
	f.events.refuse = nil
	f.events.mu.Unlock()
	free.Store(10 << 30)
	f.append("kube-scheduler.log", "end\n")
	eventually.True(f, "the end", func() bool {
		got := f.messages("kube-scheduler")
		return len(got) > 0 && got[len(got)-1] == "end" && !strings.ContainsRune(strings.Join(got, ""), 0)
	})
	if said := f.log.String(); !strings.Contains(said, "are lost") || !strings.Contains(said, "bytesLost") {
		t.Errorf("nobody says that lines are lost: %s", said)
	}
}

// With many clusters the kernel has no notifications left for a daemon that starts.
func TestLogsAreShippedWithoutNotifications(t *testing.T) {
	t.Parallel()
	w := &watch{dirs: map[string]watched{}}
	dir := t.TempDir()
	if err := w.watchDirectory("blue", dir, []ekstypes.LogType{ekstypes.LogTypeAudit}); err != nil {
		t.Fatal(err)
	}
	dirty := map[string]bool{}
	if w.noteAll(dirty); !dirty["blue"] {
		t.Error("the cluster is not reconciled")
	}
	w.unwatchDirectory(dir)
	if err := w.close(); err != nil {
		t.Error(err)
	}
}
