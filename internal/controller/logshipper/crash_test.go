package logshipper

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/componentlog"
	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// The test binary plays the daemons that are killed.
func TestMain(m *testing.M) {
	if os.Getenv("CORACLE_TEST_SHIPPER") == "" {
		os.Exit(m.Run())
	}
	if err := mortal(context.Background(), os.Getenv("CORACLE_TEST_ETCD"), os.Getenv("CORACLE_TEST_PREFIX"),
		os.Getenv("CORACLE_TEST_SHIPPER")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// mortal ships the logs below dir until it is killed.
func mortal(ctx context.Context, etcd, prefix, dir string) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}, DialTimeout: eventually.Limit})
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, client, store.Options{Prefix: prefix, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	e, err := events.Open(filepath.Join(dir, "events"), events.Options{})
	if err != nil {
		return err
	}
	c := New(Options{
		Store: s, Events: e, Dir: dir, Gather: 2 * time.Millisecond,
		Logs: func(account, region string) Logs { return logs{s, account, region} },
		Log:  slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	fmt.Println("ships")
	return reconcile.Run(ctx, c.log, c.Controller())
}

func TestEachLineIsShippedOnceHoweverOftenTheDaemonIsKilled(t *testing.T) {
	crash.Require(t)
	f := newFixture(t, scheduler, audits)
	client, prefix := storetest.Client(t), storetest.Prefix(t)
	var err error
	if f.store, err = store.Open(t.Context(), client,
		store.Options{Prefix: prefix, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.store.Close)
	f.create(scheduler, audits)

	// Eight daemons die at each point, and as many at any instruction, while the components write and
	// put their logs aside.
	points := []string{crashRead.Name(), crashAppended.Name(), crashDeleting.Name(), ""}
	written := map[string][]string{}
	write := func(lines int) {
		for range lines {
			n := len(written["kube-apiserver-audit"])
			line := fmt.Sprintf("%d %s", n, strings.Repeat("x", rand.IntN(600)))
			f.append(auditFile, line+"\n")
			written["kube-apiserver-audit"] = append(written["kube-apiserver-audit"], line)
			if n%100 == 99 {
				f.rename(auditFile, filepath.Base(componentlog.Rotated(auditFile, time.Unix(int64(n), 0))))
			}
			line = fmt.Sprintf("%d %s", n, strings.Repeat("y", rand.IntN(60)))
			f.append("kube-scheduler.log", line[:len(line)/2])
			f.append("kube-scheduler.log", line[len(line)/2:]+"\n")
			written["kube-scheduler"] = append(written["kube-scheduler"], line)
		}
	}
	for i := range 4 * 2 * len(points) {
		point := points[i%len(points)]
		daemon := exec.Command(os.Args[0])
		daemon.Env = append(os.Environ(), "CORACLE_TEST_SHIPPER="+f.root, "CORACLE_TEST_ETCD="+client.Endpoints()[0],
			"CORACLE_TEST_PREFIX="+prefix, crash.Environment+"="+point)
		daemon.Stderr = t.Output()
		out, err := daemon.StdoutPipe()
		if err == nil {
			err = daemon.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		bufio.NewReader(out).ReadString('\n') //nolint:errcheck // one that dies so early has not shipped
		write(100 + rand.IntN(300))
		if point == "" {
			_ = daemon.Process.Kill()
		}
		if err := daemon.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("the daemon ended by itself: %v", err)
		}
	}

	e, err := events.Open(filepath.Join(f.root, "events"), events.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	c := New(Options{Store: f.store, Events: e, Dir: f.root, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Logs: func(account, region string) Logs { return logs{f.store, account, region} }})
	defer c.Close()
	row, err := record.Clusters(f.store).Get(t.Context(), record.ClusterKey(account, region, cluster))
	if err == nil {
		err = c.Drain(t.Context(), row.Value)
	}
	if err != nil {
		t.Fatal(err)
	}
	group, err := record.LogGroups(f.store).Get(t.Context(), record.LogGroupKey(account, region, GroupName(cluster)))
	if err != nil {
		t.Fatal(err)
	}
	names := map[events.StreamID]string{}
	for component := range written {
		stream, err := record.LogStreams(f.store).Get(t.Context(), record.LogStreamKey(group.Value.ID,
			streamName(component, id)))
		if err != nil {
			t.Fatal(err)
		}
		names[events.StreamID(stream.Value.ID)] = component
	}
	got := map[string]map[string]int{"kube-apiserver-audit": {}, "kube-scheduler": {}}
	for event, err := range e.Events(t.Context(), events.GroupID(group.Value.ID), events.Range{To: 1 << 62}) {
		if err != nil {
			t.Fatal(err)
		}
		got[names[event.Stream]][event.Message]++
	}
	for component, lines := range written {
		for _, line := range lines {
			if n := got[component][line]; n != 1 {
				t.Errorf("%s: a line is there %d times: %.20s", component, n, line)
			}
			delete(got[component], line)
		}
		for line := range got[component] {
			t.Errorf("%s: nobody wrote %.60q", component, line)
		}
		t.Logf("%s: %d lines", component, len(lines))
	}
}
