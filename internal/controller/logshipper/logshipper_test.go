package logshipper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/componentlog"
	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

const (
	account = "111122223333"
	region  = "eu-west-1"
	cluster = "c"
	id      = "0123456789ABCDEF0123456789ABCDEF"
)

// fixture is a cluster whose components are the test, and the controller that ships their logs.
type fixture struct {
	*testing.T
	store  *store.Store
	events *memory
	dir    string // of the logs
	root   string
	log    *journal
	stop   func()
	free   func(string) (int64, error) // of the disk; nil: its own
}

func newFixture(t *testing.T, types ...ekstypes.LogType) *fixture {
	t.Helper()
	t.Parallel()
	f := &fixture{T: t, store: storetest.New(t), events: &memory{marks: map[string][]byte{}}, root: t.TempDir(),
		log: &journal{}}
	f.dir = filepath.Join(f.root, id, "log")
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f.create(types...)
	return f
}

func (f *fixture) create(types ...ekstypes.LogType) {
	f.Helper()
	c := record.Cluster{Account: account, Region: region, Name: cluster, ID: id, LoggingTypes: types}
	if _, err := record.Clusters(f.store).Create(f.Context(), c.Key(), c); err != nil {
		f.Fatal(err)
	}
}

// run starts the controller; it goes with the test, or with a call of f.stop.
func (f *fixture) run() {
	f.Helper()
	c := f.controller()
	ctx, cancel := context.WithCancel(f.Context())
	done := make(chan error, 1)
	go func() { done <- reconcile.Run(ctx, c.log, c.Controller()) }()
	f.stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-done, c.Close()); err != nil {
			f.Error(err)
		}
	})
	f.Cleanup(f.stop)
}

func (f *fixture) controller() *Controller {
	f.Helper()
	c := New(Options{
		Store: f.store, Events: f.events, Dir: f.root, Gather: 5 * time.Millisecond,
		Logs: func(account, region string) Logs { return logs{f.store, account, region} },
		Log:  slog.New(slog.NewTextHandler(io.MultiWriter(f.log, f.Output()), nil)),
	})
	if f.free != nil {
		c.free = f.free
	}
	return c
}

// change changes the cluster's logging, and returns once the update has ended.
func (f *fixture) change(types ...ekstypes.LogType) {
	f.Helper()
	f.ended(f.ask(types...))
}

// ask changes the cluster as UpdateClusterConfig does, and returns the key of the update.
func (f *fixture) ask(types ...ekstypes.LogType) string {
	f.Helper()
	row, err := record.Clusters(f.store).Copy(f.Context(), record.ClusterKey(account, region, cluster))
	if err != nil {
		f.Fatal(err)
	}
	u := record.Update{ID: fmt.Sprint(row.Revision), Cluster: cluster, ClusterID: id,
		Type: ekstypes.UpdateTypeLoggingUpdate, Status: ekstypes.UpdateStatusInProgress}
	row.Value.LoggingTypes, row.Value.LastUpdateID = types, u.ID
	key := record.UpdateKey(account, region, cluster, u.ID)
	if err := f.store.Txn(f.Context(), record.Clusters(f.store).UpdateOp(row), record.Updates(f.store).CreateOp(key,
		u)); err != nil {
		f.Fatal(err)
	}
	return key
}

func (f *fixture) ended(update string) {
	f.Helper()
	eventually.True(f, "the update to end", func() bool {
		row, err := record.Updates(f.store).Get(f.Context(), update)
		return err == nil && row.Value.Status == ekstypes.UpdateStatusSuccessful
	})
}

// append writes to a log as its component does.
func (f *fixture) append(name, text string) {
	f.Helper()
	w, err := os.OpenFile(filepath.Join(f.dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = w.WriteString(text)
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) rename(from, to string) {
	f.Helper()
	if err := os.Rename(filepath.Join(f.dir, from), filepath.Join(f.dir, to)); err != nil {
		f.Fatal(err)
	}
}

// expect waits until the messages of a component's stream are these.
func (f *fixture) expect(component string, want ...string) {
	f.Helper()
	var got []string
	defer func() {
		if f.Failed() {
			f.Logf("%s is %q, not %q", component, got, want)
		}
	}()
	eventually.True(f, component+"'s events", func() bool {
		got = f.messages(component)
		return slices.Equal(got, want)
	})
}

func (f *fixture) messages(component string) (all []string) {
	for _, e := range f.shipped(component) {
		all = append(all, e.Message)
	}
	return all
}

func (f *fixture) shipped(component string) (all []events.Event) {
	group, err := record.LogGroups(f.store).Get(f.Context(), record.LogGroupKey(account, region, GroupName(cluster)))
	if err != nil {
		return nil
	}
	stream, err := record.LogStreams(f.store).Get(f.Context(), record.LogStreamKey(group.Value.ID,
		streamName(component, id)))
	if err != nil {
		return nil
	}
	return f.events.of(events.GroupID(group.Value.ID), events.StreamID(stream.Value.ID))
}

func (f *fixture) files() (names []string) {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// journal is what a shipper logs, for readers beside it.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// memory is a store of log events that forgets.
type memory struct {
	mu     sync.Mutex
	events map[events.GroupID][]events.Event
	marks  map[string][]byte
	refuse error
}

func (m *memory) Append(_ context.Context, b events.Batch) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse != nil {
		return 0, m.refuse
	}
	if m.events == nil {
		m.events = map[events.GroupID][]events.Event{}
	}
	m.events[b.Group] = append(m.events[b.Group], b.Events...)
	m.set(b.Marks)
	return 0, nil
}

func (m *memory) set(marks map[string][]byte) {
	for k, v := range marks {
		if v == nil {
			delete(m.marks, k)
		} else {
			m.marks[k] = v
		}
	}
}

func (m *memory) Mark(key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.marks[key], nil
}

func (m *memory) Marks(prefix string) (map[string][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := maps.Clone(m.marks)
	maps.DeleteFunc(all, func(k string, _ []byte) bool { return !strings.HasPrefix(k, prefix) })
	return all, nil
}

func (m *memory) SetMarks(marks map[string][]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse != nil {
		return m.refuse
	}
	m.set(marks)
	return nil
}

func (m *memory) of(g events.GroupID, s events.StreamID) (all []events.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.events[g] {
		if e.Stream == s {
			all = append(all, e)
		}
	}
	return all
}

// logs makes groups and streams.
type logs struct {
	store           *store.Store
	account, region string
}

func (l logs) CreateLogGroup(ctx context.Context, in *cloudwatchlogs.CreateLogGroupInput,
	_ ...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.CreateLogGroupOutput, error) {
	_, err := record.LogGroups(l.store).Create(ctx, record.LogGroupKey(l.account, l.region, *in.LogGroupName),
		record.LogGroup{Account: l.account, Region: l.region, Name: *in.LogGroupName,
			ID: uint64(time.Now().UnixNano())})
	if errors.Is(err, store.ErrExists) {
		err = &logstypes.ResourceAlreadyExistsException{}
	}
	return &cloudwatchlogs.CreateLogGroupOutput{}, err
}

func (l logs) CreateLogStream(ctx context.Context, in *cloudwatchlogs.CreateLogStreamInput,
	_ ...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.CreateLogStreamOutput, error) {
	group, err := record.LogGroups(l.store).Get(ctx, record.LogGroupKey(l.account, l.region, *in.LogGroupName))
	if err != nil {
		return nil, err
	}
	_, err = record.LogStreams(l.store).Create(ctx, record.LogStreamKey(group.Value.ID, *in.LogStreamName),
		record.LogStream{
			Account: group.Value.Account, GroupID: group.Value.ID, Name: *in.LogStreamName,
			ID: uint64(time.Now().UnixNano()),
		})
	if errors.Is(err, store.ErrExists) {
		err = &logstypes.ResourceAlreadyExistsException{}
	}
	return &cloudwatchlogs.CreateLogStreamOutput{}, err
}

const (
	api               = ekstypes.LogTypeApi
	audits            = ekstypes.LogTypeAudit
	authenticator     = ekstypes.LogTypeAuthenticator
	controllerManager = ekstypes.LogTypeControllerManager
	scheduler         = ekstypes.LogTypeScheduler

	auditFile  = "kube-apiserver-audit-0a1b2c3d.log"
	auditAside = "kube-apiserver-audit-0a1b2c3d-2026-11-21T10-36-40.123.log"
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

func TestWhatWasWrittenBeforeIsNotShippedEvenWhenTheDaemonWasAway(t *testing.T) {
	f := newFixture(t)
	f.run()
	f.append("kube-scheduler.log", "before\n")
	eventually.True(f, "the first look", func() bool { m, _ := f.events.Mark(marks + id); return m != nil })
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
	var p place
	if err := json.Unmarshal(f.events.marks[marks+id], &p); err != nil {
		t.Fatal(err)
	}
	p.Boot = "another"
	f.events.marks[marks+id] = p.encodeJSON()
	f.run()
	eventually.True(f, "the first look", func() bool {
		var p place
		m, _ := f.events.Mark(marks + id)
		return json.Unmarshal(m, &p) == nil && p.Boot == bootID
	})
	f.append("kube-scheduler.log", "3\n")
	f.expect("kube-scheduler", "1", "2", "3")
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
		t.Error("the cluster is not looked at")
	}
	w.unwatchDirectory(dir)
	if err := w.close(); err != nil {
		t.Error(err)
	}
}
