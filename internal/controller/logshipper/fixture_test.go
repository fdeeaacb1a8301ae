package logshipper

import (
	"context"
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
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/eventually"
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

// journal is the log of a shipper, which tests can read while it is written.
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
