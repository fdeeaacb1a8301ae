package status

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coracle-eks/coracle/internal/connlimit"
	"github.com/coracle-eks/coracle/internal/metrics"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/version"
)

// collector collects what the stores hold, when it is asked for.
type collector struct {
	r *Reporter

	build, clusters, nodegroups, instances, fargate            *prometheus.Desc
	failing, deaths                                            *prometheus.Desc
	logGroups, logEvents, logStored, logDisk, etcdUse, etcdMax *prometheus.Desc
}

func newCollector(r *Reporter) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(metrics.Namespace, "", name), help, labels, nil)
	}
	return &collector{
		r:          r,
		build:      desc("build_info", "1, with the version of the daemon.", "version", "go_version"),
		clusters:   desc("clusters", "EKS clusters by status.", "status"),
		nodegroups: desc("nodegroups", "Managed node groups by status.", "status"),
		instances:  desc("instances", "EC2 instances by state, and what they are.", "state", "machines"),
		fargate:    desc("fargate_machines", "Machines of Fargate pods by state.", "state"),
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
	clusters, nodegroups, err := c.r.o.CountByStatus(ctx)
	count(c.clusters, clusters, err)
	count(c.nodegroups, nodegroups, err)
	instances, machines, err := c.countInstances(ctx)
	count(c.instances, instances, err, c.r.o.Settings.Machines)
	count(c.fargate, machines, err)
	failing := map[string]int{}
	for _, f := range reconcile.Failures() {
		failing[f.Controller]++
	}
	count(c.failing, failing, nil)
	for _, p := range c.r.o.Processes.List("") {
		if p.Deaths > 0 {
			gauge(c.deaths, float64(p.Deaths), p.Name)
		}
	}
	logs := c.r.logUsage()
	gauge(c.logGroups, float64(logs.Groups))
	gauge(c.logEvents, float64(logs.Events))
	gauge(c.logStored, float64(logs.Stored))
	gauge(c.logDisk, float64(logs.Disk))
	inUse, file, err := c.r.o.Etcd.Size(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(c.etcdUse, err)
		return
	}
	gauge(c.etcdUse, float64(inUse))
	gauge(c.etcdMax, float64(file))
}

// countInstances counts the EC2 instances by state, and the machines of Fargate pods.
func (c *collector) countInstances(ctx context.Context) (instances, fargate map[string]int, err error) {
	rows, err := record.Instances(c.r.o.Store).List(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	observed, err := record.Machines(c.r.o.Store).List(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	machines := map[string]record.Machine{}
	for _, m := range observed {
		machines[m.Key] = m.Value
	}
	instances, fargate = map[string]int{}, map[string]int{}
	for _, row := range rows {
		state := record.InstanceState(row.Value, machines[row.Key])
		switch {
		case state == ec2types.InstanceStateNameTerminated:
		case row.Value.Fargate != nil:
			fargate[string(state)]++
		default:
			instances[string(state)]++
		}
	}
	return instances, fargate, nil
}

// Metrics serves the metrics of the daemon for Prometheus.
func (r *Reporter) Metrics() http.Handler {
	own := prometheus.NewRegistry()
	own.MustRegister(newCollector(r))
	return metrics.Handler(r.o.Log, own)
}

// ServeMetrics serves GET /metrics, and nothing else, until ctx ends.
func (r *Reporter) ServeMetrics(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", r.Metrics())
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(r.o.Log.Handler(), slog.LevelDebug),
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
