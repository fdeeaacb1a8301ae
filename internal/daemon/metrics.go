package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/admin"
	eksservice "github.com/coracle-eks/coracle/internal/aws/eks"
	"github.com/coracle-eks/coracle/internal/connlimit"
	"github.com/coracle-eks/coracle/internal/metrics"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/version"
)

// collector collects what the stores hold, when it is asked for.
type collector struct {
	d *daemon

	build, clusters, nodegroups, instances, failing, deaths    *prometheus.Desc
	logGroups, logEvents, logStored, logDisk, etcdUse, etcdMax *prometheus.Desc
}

func newCollector(d *daemon) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(metrics.Namespace, "", name), help, labels, nil)
	}
	return &collector{
		d:          d,
		build:      desc("build_info", "1, with the version of the daemon.", "version", "go_version"),
		clusters:   desc("clusters", "EKS clusters by status.", "status"),
		nodegroups: desc("nodegroups", "Managed node groups by status.", "status"),
		instances:  desc("instances", "EC2 instances by state, and what they are.", "state", "machines"),
		failing:    desc("reconcile_failing_keys", "Keys whose last reconcile failed, by controller.", "controller"),
		deaths:     desc("process_deaths", "How often a process of the daemon has died in a row.", "process"),
		logGroups:  desc("log_groups", "Log groups that hold events."),
		logEvents:  desc("log_events", "Log events that are stored."),
		logStored:  desc("log_stored_bytes", "Size of the stored log events, as CloudWatch Logs counts it."),
		logDisk:    desc("log_disk_bytes", "Disk space of the store of log events."),
		etcdUse:    desc("etcd_in_use_bytes", "Size of what etcd holds."),
		etcdMax:    desc("etcd_file_bytes", "Size of etcd's database file."),
	}
}

func (c *collector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// collectTime bounds one collection.
const collectTime = 5 * time.Second

func (c *collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTime)
	defer cancel()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	count := func(desc *prometheus.Desc, counts map[string]int, err error, labels ...string) {
		if err != nil {
			out <- prometheus.NewInvalidMetric(desc, err)
			return
		}
		for name, n := range counts {
			gauge(desc, float64(n), append([]string{name}, labels...)...)
		}
	}
	gauge(c.build, 1, version.String(), runtime.Version())
	clusters, nodegroups, err := eksservice.CountByStatus(ctx, c.d.store)
	count(c.clusters, clusters, err)
	count(c.nodegroups, nodegroups, err)
	instances, err := c.countInstances(ctx)
	count(c.instances, instances, err, c.d.settings.Machines)
	failing := map[string]int{}
	for _, f := range reconcile.Failures() {
		failing[f.Controller]++
	}
	count(c.failing, failing, nil)
	for _, p := range c.d.processes.List("") {
		if p.Deaths > 0 {
			gauge(c.deaths, float64(p.Deaths), p.Name)
		}
	}
	logs := c.d.logs.status()
	gauge(c.logGroups, float64(logs.Groups))
	gauge(c.logEvents, float64(logs.Events))
	gauge(c.logStored, float64(logs.Stored))
	gauge(c.logDisk, float64(logs.Disk))
	inUse, file, err := c.d.etcd.Size(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(c.etcdUse, err)
		return
	}
	gauge(c.etcdUse, float64(inUse))
	gauge(c.etcdMax, float64(file))
}

func (c *collector) countInstances(ctx context.Context) (map[string]int, error) {
	rows, err := record.Instances(c.d.store).List(ctx, "")
	if err != nil {
		return nil, err
	}
	observed, err := record.Machines(c.d.store).List(ctx, "")
	if err != nil {
		return nil, err
	}
	machines := map[string]record.Machine{}
	for _, m := range observed {
		machines[m.Key] = m.Value
	}
	counts := map[string]int{}
	for _, row := range rows {
		if state := record.InstanceState(row.Value, machines[row.Key]); state != ec2types.InstanceStateNameTerminated {
			counts[string(state)]++
		}
	}
	return counts, nil
}

// Metrics serves the metrics of the daemon.
func (d *daemon) Metrics() http.Handler {
	own := prometheus.NewRegistry()
	own.MustRegister(newCollector(d))
	return metrics.Handler(d.log, own)
}

// serveMetrics serves GET /metrics, and nothing else, until ctx ends.
func (d *daemon) serveMetrics(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", d.Metrics())
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(d.log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(connlimit.New(l, connlimit.Limits{Share: "metrics", PerSource: 16, Total: 64})); !errors.Is(
		err,
		http.ErrServerClosed,
	) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}

// Dump returns what a developer asks first about a daemon.
func (d *daemon) Dump(context.Context) (admin.Dump, error) {
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return admin.Dump{}, err
	}
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return admin.Dump{}, err
	}
	dump := admin.Dump{
		Time: time.Now(), Version: version.String(), Go: runtime.Version(), Started: d.started, Goroutines: runtime.NumGoroutine(),
		HeapBytes: heap.HeapAlloc, OpenFiles: len(files), MaxOpenFiles: limit.Cur, Settings: d.settings,
	}
	names := map[string]bool{}
	for _, c := range slices.Concat(d.clusters.controllers, d.logs.controllers) {
		names[c.Name] = true
	}
	dump.Controllers = slices.Sorted(maps.Keys(names))
	for _, f := range reconcile.Failures() {
		dump.Failures = append(dump.Failures, admin.Failure(f))
	}
	for _, p := range d.processes.List("") {
		dump.Processes = append(dump.Processes, componentStatus(p, p.Name))
	}
	return dump, nil
}
