package clusterinsight_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktest "k8s.io/utils/clock/testing"

	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/controller/clusterinsight"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// nodes is an API server with nodes of the given versions, and no DaemonSets.
func nodes(t *testing.T, versions ...string) (
	config func(context.Context, record.Cluster, string, ...string) (*rest.Config, error), lists *atomic.Int64,
) {
	t.Helper()
	list := corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}}
	for i, v := range versions {
		list.Items = append(list.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n-", i)},
			Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: v}}})
	}
	lists = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/api/v1/nodes" {
			fmt.Fprint(w, `{"kind":"DaemonSetList","apiVersion":"apps/v1"}`)
			return
		}
		lists.Add(1)
		_ = json.NewEncoder(w).Encode(list)
	}))
	t.Cleanup(server.Close)
	return func(context.Context, record.Cluster, string, ...string) (*rest.Config, error) {
		return &rest.Config{Host: server.URL}, nil
	}, lists
}

// deprecate adds a request of a deprecated API to the audit log.
func (f *fixture) deprecate(userAgent string) {
	f.Helper()
	line, err := json.Marshal(map[string]any{
		"kind": "Event", "auditID": strings.Repeat("0", 256), "stage": "ResponseComplete",
		"user": map[string]any{"username": "alice"}, "userAgent": userAgent,
		"objectRef": map[string]any{"resource": "flowschemas", "apiGroup": "flowcontrol.apiserver.k8s.io",
			"apiVersion": "v1beta3"},
		"requestReceivedTimestamp": f.clock.Now().Format("2006-01-02T15:04:05.000000Z"),
		"annotations":              map[string]any{"k8s.io/deprecated": "true", "k8s.io/removed-release": "1.36"},
	})
	if err != nil {
		f.Fatal(err)
	}
	w, err := os.OpenFile(filepath.Join(f.dir, f.cluster.ID, "log", "kube-apiserver-audit-01234567.log"),
		os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		f.Fatal(err)
	}
	if _, err = w.Write(append(line, '\n')); err == nil {
		err = w.Close()
	}
	if err != nil {
		f.Fatal(err)
	}
}

// row returns the insights in the store.
func (f *fixture) row() store.Row[record.Insights] {
	f.Helper()
	row, err := record.InsightsOf(f.store).Get(f.Context(), f.cluster.Key())
	if err != nil {
		f.Fatal(err)
	}
	return row
}

// requests returns how many requests there were of all clients.
func (f *fixture) requests() (n int32) {
	f.Helper()
	for _, client := range f.recorded()["Deprecated APIs removed in Kubernetes v1.36"].APIs[0].ClientStats {
		n += client.NumberOfRequestsLast30Days
	}
	return n
}

// TestInsightsAreWrittenWhenTheyDiffer has a user who makes requests of deprecated APIs, and asks for refreshes, all
// the time: neither writes the record, which may be large, more often than is said.
func TestInsightsAreWrittenWhenTheyDiffer(t *testing.T) {
	t.Parallel()
	config, lists := nodes(t, "v1.34.0")
	f := newFixture(t, config)
	f.deprecate("first")
	f.checks()
	written := f.row().Revision
	for range 20 {
		f.clock.Step(time.Second)
		f.deprecate("again")
		f.checks()
	}
	if f.row().Revision != written || f.requests() != 1 {
		t.Errorf("requests are written before a minute has passed: %d", f.requests())
	}
	f.clock.Step(time.Minute)
	f.checks()
	if f.row().Revision == written || f.requests() != 21 {
		t.Errorf("after a minute %d requests are written, want 21", f.requests())
	}

	f.ask()
	f.deprecate("again")
	f.checks()
	if f.refreshed(); f.requests() != 22 {
		t.Errorf("a refresh wrote %d requests, want 22", f.requests())
	}
	written = f.row().Revision
	listed := lists.Load()
	f.ask()
	f.deprecate("again")
	result, err := f.Reconcile(t.Context(), f.cluster.Key())
	if err != nil || result.After != 4*time.Second {
		t.Errorf("a refresh that comes too soon: %+v, %v", result, err)
	}
	if row, err := record.InsightsRefreshes(f.store).Get(t.Context(), f.cluster.Key()); err != nil ||
		!row.Value.EndedAt.IsZero() || lists.Load() != listed || f.row().Revision != written {
		t.Errorf("it has ended, or costs as much as others: %+v, %v", row.Value, err)
	}
	f.clock.Step(result.After)
	f.checks()
	if f.refreshed(); f.requests() != 23 {
		t.Errorf("later it wrote %d requests, want 23", f.requests())
	}
	written = f.row().Revision
	for range 10 {
		f.clock.Step(10 * time.Second)
		f.ask()
		f.checks()
		f.refreshed()
	}
	if f.row().Revision != written {
		t.Error("refreshes that find nothing else write")
	}
}

// TestInsightsWaitForTheQuota has an account that writes too much: what is counted meanwhile is written later, and
// a refresh says so.
func TestInsightsWaitForTheQuota(t *testing.T) {
	t.Parallel()
	config, _ := nodes(t, "v1.35.0")
	f := newFixture(t, config)
	f.store = storetest.NewAt(t, storetest.Prefix(t), func(o *store.Options) {
		o.Quota = store.Quota{PerAccount: 50_000, Now: f.clock.Now}
	})
	f.Controller = clusterinsight.New(clusterinsight.Options{Store: f.store, Catalog: mustCatalog(t), Config: config,
		Dir: f.dir, Clock: f.clock})
	if _, err := record.Clusters(f.store).Create(t.Context(), f.cluster.Key(), f.cluster); err != nil {
		t.Fatal(err)
	}
	f.observe(record.ControlPlane{})
	f.deprecate("first")
	f.checks()
	rows := store.NewTable[string](f.store, "rows")
	var full *store.FullError
	for i := 0; ; i++ {
		text := fmt.Sprintf("%0*d", 1000, i)
		if _, err := rows.Put(store.Paced(t.Context()), store.Key(f.cluster.Account, "a"), text); errors.As(err, &full) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	f.deprecate("again")
	f.ask()
	if _, err := f.Reconcile(t.Context(), f.cluster.Key()); !errors.As(err, &full) || !full.Recent {
		t.Errorf("the pass: %v", err)
	}
	if failure := f.refreshed(); !strings.Contains(failure, "has written more than") || f.requests() != 1 {
		t.Errorf("the refresh: %q, with %d requests", failure, f.requests())
	}
	f.deprecate("again")
	f.clock.Step(15 * time.Minute)
	f.checks()
	if n := f.requests(); n != 3 {
		t.Errorf("later %d requests are written, want 3", n)
	}
}

// TestInsightsDoNotWakeThemselves has a request of a deprecated API within each pass, as a busy cluster has: what the
// controller writes makes no other pass.
func TestInsightsDoNotWakeThemselves(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	addon := record.Addon{Account: f.cluster.Account, Region: f.cluster.Region, Cluster: "c", ClusterID: f.cluster.ID,
		Name: "coredns", ID: "a"}
	addons := record.Addons(f.store)
	if _, err := addons.Create(t.Context(), addon.Key(), addon); err != nil {
		t.Fatal(err)
	}
	gone := f.cluster
	gone.Name = "gone" // while no daemon ran
	insights := record.InsightsOf(f.store)
	if _, err := insights.Create(t.Context(), gone.Key(), record.Insights{ClusterID: "4567"}); err != nil {
		t.Fatal(err)
	}
	busy := &busyCatalog{each: func() {
		f.clock.Step(time.Hour) // so that each pass has something to write
		f.deprecate("again")
	}}
	config, _ := nodes(t, "v1.35.0")
	f.Controller = clusterinsight.New(clusterinsight.Options{
		Store: f.store, Catalog: busy, Config: config, Dir: f.dir, Clock: f.clock,
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = reconcile.Run(ctx, slog.New(slog.DiscardHandler), stopped(f.Controllers())...) })
	defer running.Wait()
	defer cancel()
	eventually.True(t, "insights into a cluster that is gone are removed", func() bool {
		_, err := insights.Get(t.Context(), gone.Key())
		return errors.Is(err, store.ErrNotFound)
	})
	const changes = 10
	for n := range changes {
		before := busy.passes.Load()
		addon.Owner = fmt.Sprint(n)
		if _, err := addons.Put(t.Context(), addon.Key(), addon); err != nil {
			t.Fatal(err)
		}
		eventually.True(t, "the change makes a pass", func() bool { return busy.passes.Load() > before })
	}
	// At the start three sources name the cluster.
	if n := busy.passes.Load(); n > changes+3 {
		t.Errorf("%d passes for %d changes", n, changes)
	}
}

// stopped gives controllers a clock that stands still: no pass is made because of the time.
func stopped(all []reconcile.Controller) []reconcile.Controller {
	for i := range all {
		all[i].Clock = clocktest.NewFakeClock(today)
	}
	return all
}

// busyCatalog counts passes over a cluster with one add-on.
type busyCatalog struct {
	passes atomic.Int64
	each   func()
}

func (b *busyCatalog) Addon(string) (catalog.Addon, bool) {
	b.each()
	b.passes.Add(1)
	return catalog.Addon{}, false
}

// TestPathsAreBoundedTogether has users who choose many versions: old ones come first.
func TestPathsAreBoundedTogether(t *testing.T) {
	t.Parallel()
	versions := []string{"v1.34.0", "v1.33.0", "v1.33.0"}
	for i := range 3000 {
		versions = append(versions, fmt.Sprint("v1.35.", i%30))
	}
	config, _ := nodes(t, versions...)
	f := newFixture(t, config)
	if c := f.checks()["Kubelet version skew"]; len(c.Resources) != 3 {
		t.Errorf("the nodes that are too old: %+v", c)
	}
	count := func() (objects, paths int) {
		for _, v := range f.row().Value.Kubelets {
			objects, paths = objects+v.Count, paths+len(v.Paths)
		}
		return objects, paths
	}
	if objects, paths := count(); objects != 3003 || paths > 100 || paths < 90 {
		t.Errorf("%d paths of %d nodes", paths, objects)
	}
	f.observe(record.ControlPlane{Version: "1.36", FullVersion: "1.36.0"})
	f.clock.Step(time.Hour)
	f.checks()
	if objects, paths := count(); objects != 3003 || paths > 100 || paths < 90 {
		t.Errorf("as all are too old: %d paths of %d nodes", paths, objects)
	}
}
