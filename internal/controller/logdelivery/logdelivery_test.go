package logdelivery

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	clientv3 "go.etcd.io/etcd/client/v3"
	clocktesting "k8s.io/utils/clock/testing"

	logsservice "github.com/coracle-eks/coracle/internal/aws/logs"
	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/logs/vended"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

const (
	account = "111122223333"
	region  = "eu-west-1"
)

// fixture is a load balancer whose log is delivered.
type fixture struct {
	*testing.T
	store  *store.Store
	events *events.Store
	dir    string
	writer *vended.Writer
	stop   func() // ends the writer, which has written then
	c      *Controller
}

var source = record.LogDeliverySource{Account: account, Region: region, Name: "web", LogType: vended.ApplicationAccess,
	ResourceARN: record.LoadBalancingARN(account, region, "loadbalancer/app/web/1")}

func newFixture(t *testing.T, s *store.Store) *fixture {
	t.Helper()
	f := &fixture{T: t, store: s, dir: t.TempDir()}
	var err error
	if f.events, err = events.Open(t.TempDir(), events.Options{Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.events.Close(); err != nil {
			t.Error(err)
		}
	})
	f.c = f.controller(f.events)
	f.write()
	record.LogDeliverySources(s).Put(t.Context(), source.Key(), source)
	f.admit("*")
	return f
}

// admit sets the resource policy of the account, which lets logs be delivered to log groups.
func (f *fixture) admit(groups string) {
	f.Helper()
	p := record.LogResourcePolicy{Account: account, Region: region, Name: "p", Document: `{"Statement":{"Effect":"Allow",
		"Principal":{"Service":"delivery.logs.amazonaws.com"},"Action":["logs:CreateLogStream","logs:PutLogEvents"],
		"Resource":"arn:aws:logs:` + region + `:` + account + `:log-group:` + groups + `"}}`}
	if _, err := record.LogResourcePolicies(f.store).Put(f.Context(), p.Key(), p); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) controller(e Events) *Controller {
	return New(Options{Store: f.store, Events: e, Streams: logsservice.NewDeliveryStreams(f.store), Dir: f.dir,
		Log: slog.New(slog.NewTextHandler(f.Output(), nil))})
}

// write starts a process that writes logs.
func (f *fixture) write() {
	ctx, cancel := context.WithCancel(context.Background())
	f.writer = vended.NewWriter(slog.New(slog.DiscardHandler))
	f.writer.SetDirectory(f.dir)
	var running sync.WaitGroup
	w := f.writer
	running.Go(func() { w.Run(ctx) })
	f.stop = func() {
		cancel()
		running.Wait()
	}
	f.Cleanup(f.stop)
}

// log writes entries, and returns when they are in files.
func (f *fixture) log(entries ...string) {
	for _, e := range entries {
		f.writer.Add(logOf(source), time.Now(), e)
	}
	f.stop()
	f.write()
}

// deliver creates a log group and a delivery to it.
func (f *fixture) deliver(name string, format logstypes.OutputFormat, fields ...string) record.LogDelivery {
	f.Helper()
	ctx := f.Context()
	group := record.LogGroup{Account: account, Region: region, Name: name, ID: uint64(len(name))}
	destination := record.LogDeliveryDestination{Account: account, Region: region, Name: name, Group: name,
		OutputFormat: format}
	d := record.LogDelivery{Account: account, Region: region, ID: name, Source: source.Name, Destination: name,
		RecordFields: fields, CreatedAt: time.Now().Truncate(time.Millisecond)}
	_, err1 := record.LogGroups(f.store).Put(ctx, record.LogGroupKey(account, region, name), group)
	_, err2 := record.LogDeliveryDestinations(f.store).Put(ctx, destination.Key(), destination)
	_, err3 := record.LogDeliveries(f.store).Put(ctx, d.Key(), d)
	if err := errors.Join(err1, err2, err3); err != nil {
		f.Fatal(err)
	}
	return d
}

func (f *fixture) reconcile() {
	f.Helper()
	for {
		result, err := f.c.Reconcile(f.Context(), source.Key())
		if err != nil {
			f.Fatal(err)
		}
		if result.After != time.Nanosecond {
			return
		}
	}
}

// messages returns what a log group has, in order.
func (f *fixture) messages(group string) (all []string) {
	f.Helper()
	row, err := record.LogGroups(f.store).Get(f.Context(), record.LogGroupKey(account, region, group))
	if err != nil {
		f.Fatal(err)
	}
	for e, err := range f.events.Events(f.Context(), events.GroupID(row.Value.ID), events.Range{To: 1 << 62}) {
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, e.Message)
	}
	return all
}

func TestDeliveries(t *testing.T) {
	t.Parallel()
	f := newFixture(t, storetest.New(t))
	f.deliver("one", logstypes.OutputFormatJson, "type", "elb")
	f.log("http t1 app/web/1", "https t2 app/web/1")
	f.reconcile()
	f.reconcile()
	want := []string{`{"type":"http","elb":"app/web/1"}`, `{"type":"https","elb":"app/web/1"}`}
	if got := f.messages("one"); !slices.Equal(got, want) {
		t.Errorf("delivered are %q, want %q", got, want)
	}
	if got := source.StreamName(); got != "ALB_ACCESS_LOGS_app/web/1" {
		t.Errorf("the stream is %s", got)
	}
	// Another delivery has what comes from now on.
	second := f.deliver("second", logstypes.OutputFormatPlain, "time")
	f.log("h2 t3 app/web/1")
	f.reconcile()
	if got := f.messages("second"); !slices.Equal(got, []string{"t3"}) {
		t.Errorf("delivered to the second are %q", got)
	}
	if got := f.messages("one"); len(got) != 3 {
		t.Errorf("delivered to the first are %q", got)
	}
	// Where the log group was deleted, entries are lost and do not pile up.
	key := record.LogGroupKey(account, region, "second")
	row, err := record.LogGroups(f.store).Get(t.Context(), key)
	if err == nil {
		err = record.LogGroups(f.store).Delete(t.Context(), row)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.log("h2 t4 app/web/1")
	f.reconcile()
	var at [2]vended.Position
	for i, name := range []string{"one", "second"} {
		value, err := f.events.Mark(marks + record.LogDeliveryKey(account, region, name))
		if err == nil {
			err = json.Unmarshal(value, &at[i])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if at[0] != at[1] {
		t.Errorf("the deliveries have come to %+v", at)
	}
	files, err := filepath.Glob(filepath.Join(f.dir, account, "*", "*"))
	if err != nil || len(files) != 1 {
		t.Errorf("left are %v, %v", files, err)
	}

	// What is left of deliveries that are gone is removed.
	if _, err := f.c.clean(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if left, err := vended.Logs(f.dir); err != nil || len(left) != 1 {
		t.Errorf("the logs are %v, %v", left, err)
	}
	for _, name := range []string{"one", second.ID} {
		row, err := record.LogDeliveries(f.store).Get(t.Context(), record.LogDeliveryKey(account, region, name))
		if err == nil {
			err = record.LogDeliveries(f.store).Delete(t.Context(), row)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	f.reconcile()
	if _, err := f.c.clean(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	left, err := vended.Logs(f.dir)
	positions, err2 := f.events.Marks(marks)
	if err != nil || err2 != nil || len(left) > 0 || len(positions) > 0 {
		t.Errorf("left are %v and %v, %v, %v", left, positions, err, err2)
	}
}

// counted is a store of log events that counts what is appended, and ends the pass after some.
type counted struct {
	*events.Store
	appended int
	end      func(appended int)
}

func (s *counted) Append(ctx context.Context, b events.Batch) (uint64, error) {
	s.appended++
	s.end(s.appended)
	return s.Store.Append(ctx, b)
}

// A pass ends with its deadline and after some reads, whichever deliveries they are of, and the next one goes on.
func TestPassesEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t, storetest.New(t))
	names := []string{"one", "second", "the third"}
	for _, name := range names {
		f.deliver(name, logstypes.OutputFormatPlain, "type")
	}
	var want []string
	for i := range 12 { // more than eight reads
		want = append(want, fmt.Sprintf("%d-%s", i, strings.Repeat("x", 600<<10)))
		f.log(want[i])
	}
	ctx, cancel := context.WithCancel(t.Context())
	store := &counted{Store: f.events, end: func(n int) {
		if n == 2 {
			cancel()
		}
	}}
	f.c = f.controller(store)
	result, err := f.c.Reconcile(ctx, source.Key())
	if err != nil || store.appended != 2 || result.After != time.Nanosecond {
		t.Errorf("a pass that ends: %d batches, then %v, %v", store.appended, result.After, err)
	}
	store.appended, store.end = 0, func(int) {}
	if _, err := f.c.Reconcile(t.Context(), source.Key()); err != nil || store.appended > atOnce+len(names) {
		t.Errorf("a pass appends %d batches, %v", store.appended, err)
	}
	for _, name := range names {
		if got := f.messages(name); len(got) == 0 || len(got) == len(want) {
			t.Errorf("after two passes %s has %d entries", name, len(got))
		}
	}
	f.reconcile()
	for _, name := range names {
		if got := f.messages(name); !slices.Equal(got, want) {
			t.Errorf("%s has %d entries", name, len(got))
		}
	}
}

// Whose log group was deleted, has one line in the log of the daemon for a while.
func TestLossesAreToldOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, storetest.New(t))
	var out bytes.Buffer
	now := clocktesting.NewFakeClock(time.Now())
	f.c = New(Options{Store: f.store, Events: f.events, Streams: logsservice.NewDeliveryStreams(f.store), Dir: f.dir,
		Log: slog.New(slog.NewTextHandler(&out, nil)), Clock: now})
	for _, name := range []string{"one", "second", "the third"} {
		f.deliver(name, logstypes.OutputFormatJson)
		row, err := record.LogGroups(f.store).Get(t.Context(), record.LogGroupKey(account, region, name))
		if err == nil {
			err = record.LogGroups(f.store).Delete(t.Context(), row)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		f.log("http")
		f.reconcile()
	}
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Errorf("it says in %d lines: %s", n, &out)
	}
	out.Reset()
	now.Step(tellLosses)
	f.log("http")
	f.reconcile()
	if n := strings.Count(out.String(), "\n"); n != 1 || !strings.Contains(out.String(), "entries=6") {
		t.Errorf("later it says in %d lines: %s", n, &out)
	}
}

// A log group that resource policies do not let logs be delivered to gets none, and has those from after a change.
func TestDeliveriesEndWithTheirPolicy(t *testing.T) {
	t.Parallel()
	f := newFixture(t, storetest.New(t))
	var out bytes.Buffer
	f.c = New(Options{Store: f.store, Events: f.events, Streams: logsservice.NewDeliveryStreams(f.store), Dir: f.dir,
		Log: slog.New(slog.NewTextHandler(&out, nil))})
	f.deliver("one", logstypes.OutputFormatPlain, "type")
	for _, step := range []struct{ groups, entry string }{{"one:*", "http"}, {"other:*", "https"}, {"on*", "ws"}} {
		f.admit(step.groups)
		f.log(step.entry)
		f.reconcile()
	}
	if got := f.messages("one"); !slices.Equal(got, []string{"http", "ws"}) {
		t.Errorf("delivered are %q", got)
	}
	if !strings.Contains(out.String(), "no resource-based policy allows the logs:CreateLogStream action") {
		t.Errorf("it says %s", &out)
	}
}

// full is a store of log events that takes nothing while its disk is full.
type full struct {
	*events.Store
	full bool
}

func (s *full) Append(ctx context.Context, b events.Batch) (uint64, error) {
	if s.full {
		return 0, events.ErrFull
	}
	return s.Store.Append(ctx, b)
}

func TestWhatCannotBeDeliveredWaits(t *testing.T) {
	t.Parallel()
	f := newFixture(t, storetest.New(t))
	held := &full{f.events, true}
	f.c = f.controller(held)
	f.deliver("one", logstypes.OutputFormatPlain, "type")
	f.log("http", "ws")
	if _, err := f.c.Reconcile(t.Context(), source.Key()); !errors.Is(err, events.ErrFull) {
		t.Errorf("the failure is %v", err)
	}
	held.full = false
	f.reconcile()
	if got := f.messages("one"); !slices.Equal(got, []string{"http", "ws"}) {
		t.Errorf("delivered are %q", got)
	}
}

// The test binary plays the daemons that are killed.
func TestMain(m *testing.M) {
	dir := os.Getenv("CORACLE_TEST_DELIVERY")
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := mortal(context.Background(), dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// mortal delivers until it is killed.
func mortal(ctx context.Context, dir string) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{os.Getenv("CORACLE_TEST_ETCD")},
		DialTimeout: eventually.Limit})
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, client, store.Options{Prefix: os.Getenv("CORACLE_TEST_PREFIX"),
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	e, err := events.Open(os.Getenv("CORACLE_TEST_EVENTS"), events.Options{})
	if err != nil {
		return err
	}
	c := New(Options{Store: s, Events: e, Streams: logsservice.NewDeliveryStreams(s), Dir: dir})
	fmt.Println("delivers")
	return reconcile.Run(ctx, slog.Default(), c.Controllers()...)
}

func TestEachEntryIsDeliveredOnceHoweverOftenTheDaemonIsKilled(t *testing.T) {
	crash.Require(t)
	t.Parallel()
	client, prefix := storetest.Client(t), storetest.Prefix(t)
	s, err := store.Open(t.Context(), client, store.Options{Prefix: prefix, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	f := newFixture(t, s)
	kept := t.TempDir()
	f.deliver("one", logstypes.OutputFormatPlain, "type")
	var written []string
	points := []string{crashRead.Name(), crashAppended.Name(), crashTrimmed.Name(), ""}
	for i := range 3 * len(points) {
		point := points[i%len(points)]
		daemon := exec.Command(os.Args[0])
		daemon.Env = append(os.Environ(), "CORACLE_TEST_DELIVERY="+f.dir, "CORACLE_TEST_EVENTS="+kept,
			"CORACLE_TEST_ETCD="+client.Endpoints()[0], "CORACLE_TEST_PREFIX="+prefix, crash.Environment+"="+point)
		daemon.Stderr = t.Output()
		out, err := daemon.StdoutPipe()
		if err == nil {
			err = daemon.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		bufio.NewReader(out).ReadString('\n') //nolint:errcheck // one that dies so early has delivered nothing
		for range 100 {
			entry := fmt.Sprintf("%d-%s", len(written), strings.Repeat("x", 1000))
			written = append(written, entry)
			f.writer.Add(logOf(source), time.Now(), entry)
		}
		if point == "" {
			f.log() // what writes ends, and another begins
			_ = daemon.Process.Kill()
		}
		if err := daemon.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("the daemon ended by itself: %v", err)
		}
	}
	f.log()
	if err := f.events.Close(); err != nil {
		t.Fatal(err)
	}
	if f.events, err = events.Open(kept, events.Options{}); err != nil {
		t.Fatal(err)
	}
	f.c = f.controller(f.events)
	f.reconcile()
	got := f.messages("one")
	slices.Sort(got)
	slices.Sort(written)
	if !slices.Equal(got, written) {
		t.Errorf("%d entries were written, and %d delivered", len(written), len(got))
	}
}
