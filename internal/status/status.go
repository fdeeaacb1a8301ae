// Package status reports how a daemon and everything that it runs are: to "coracle status" (this file, instances.go
// and stacks.go), to Prometheus (metrics.go) and to "coracle debug dump" (dump.go). It reads the stores and the kernel,
// and changes nothing.
package status

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/diskspace"
	"github.com/coracle-eks/coracle/internal/etcd"
	"github.com/coracle-eks/coracle/internal/host/filetree"
	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/version"
)

// Options configures a Reporter.
type Options struct {
	Dir      datadir.Dir
	Settings datadir.Settings
	Started  time.Time
	// Endpoint is the URL of the AWS endpoint, and Webhooks that of the webhooks of API servers.
	Endpoint, Webhooks string
	// Machines describes the kind of instances, for people.
	Machines  string
	Processes *process.Supervisor
	Etcd      *etcd.Connection
	// EtcdProcess is the name of the process of the embedded etcd; empty when the etcd is another's.
	EtcdProcess string
	Store       *store.Store
	Events      *events.Store // the log events
	// Controllers are the names of all controllers.
	Controllers []string
	// Accounts lists the accounts.
	Accounts func(context.Context) ([]string, error)
	// EKS returns a client of EKS for the root user of an account.
	EKS func(account, region string) *eks.Client
	// CountByStatus counts clusters and node groups by status.
	CountByStatus func(context.Context) (clusters, nodegroups map[string]int, err error)
	// Builds returns the programs that are being built, and Images the references of images that are being built or
	// fetched.
	Builds func() []admin.Build
	Images func() []string
	Log    *slog.Logger
}

// Reporter reports how a daemon is. Its methods may be called concurrently.
type Reporter struct{ o Options }

// New returns a Reporter.
func New(o Options) *Reporter { return &Reporter{o} }

// Status returns what "coracle status" shows.
func (r *Reporter) Status(ctx context.Context) (admin.Status, error) {
	s := admin.Status{
		Version:      version.String(),
		PID:          os.Getpid(),
		Started:      r.o.Started,
		DataDir:      string(r.o.Dir),
		Endpoint:     r.o.Endpoint,
		Webhooks:     r.o.Webhooks,
		Region:       r.o.Settings.Region,
		Machines:     r.o.Machines,
		DaemonMemory: process.Memory(os.Getpid()),
	}
	var err error
	if s.Accounts, err = r.o.Accounts(ctx); err != nil {
		return s, err
	}
	s.Memory = s.DaemonMemory
	s.Etcd = r.etcdStatus(ctx)
	if s.Etcd.Process != nil {
		s.Memory += s.Etcd.Process.Memory
	}
	if s.Disk, err = diskUsage(ctx, string(r.o.Dir)); err != nil {
		return s, err
	}
	s.Logs = r.logUsage()
	rows, err := record.Clusters(r.o.Store).List(ctx, "")
	if err != nil {
		return s, err
	}
	for _, row := range rows {
		c := r.clusterStatus(ctx, row.Value)
		s.Memory += c.Memory
		s.Clusters = append(s.Clusters, c)
	}
	if s.Instances, err = r.instances(ctx); err != nil {
		return s, err
	}
	for _, i := range s.Instances {
		s.Memory += i.Memory
	}
	s.Host = thisHost()
	if s.Volumes, err = r.volumes(ctx); err != nil {
		return s, err
	}
	if s.FileSystems, err = r.fileSystems(ctx); err != nil {
		return s, err
	}
	if s.LoadBalancers, err = r.loadBalancers(ctx); err != nil {
		return s, err
	}
	s.Builds, s.Images = r.o.Builds(), r.o.Images()
	s.Stacks, err = r.stacks(ctx)
	return s, err
}

func (r *Reporter) etcdStatus(ctx context.Context) admin.Etcd {
	e := admin.Etcd{Embedded: r.o.EtcdProcess != "", Endpoints: r.o.Etcd.Endpoints, Separated: r.o.Etcd.Separates()}
	var err error
	if e.InUse, e.File, err = r.o.Etcd.Size(ctx); err != nil {
		e.Error = err.Error()
	}
	e.Problem = r.o.Etcd.Problem(ctx)
	if e.Embedded {
		for _, p := range r.o.Processes.List(r.o.EtcdProcess) {
			if p.Name == r.o.EtcdProcess {
				c := componentStatus(p, p.Name)
				e.Process = &c
			}
		}
	}
	return e
}

// clusterStatus describes a cluster as a user would, and therefore shows what a user sees.
func (r *Reporter) clusterStatus(ctx context.Context, c record.Cluster) admin.Cluster {
	out := admin.Cluster{Account: c.Account, Region: c.Region, Name: c.Name, ID: c.ID, Version: c.Version}
	described, err := r.o.EKS(c.Account, c.Region).DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &c.Name})
	if err != nil {
		out.Status = "UNKNOWN"
		out.Issues = append(out.Issues, err.Error())
	} else {
		out.Status = string(described.Cluster.Status)
		out.Version = aws.ToString(described.Cluster.Version)
		out.Endpoint = aws.ToString(described.Cluster.Endpoint)
		if described.Cluster.Health != nil {
			for _, issue := range described.Cluster.Health.Issues {
				out.Issues = append(out.Issues, fmt.Sprintf("%s: %s", issue.Code, aws.ToString(issue.Message)))
			}
		}
	}
	prefix := c.ID + "/"
	for _, p := range r.o.Processes.List(prefix) {
		m := componentStatus(p, strings.TrimPrefix(p.Name, prefix))
		out.Memory += m.Memory
		out.Components = append(out.Components, m)
	}
	return out
}

func componentStatus(p process.Status, name string) admin.Component {
	c := admin.Component{Name: name, Deaths: p.Deaths, LastExit: p.LastExit, Problem: p.Problem}
	if p.Running {
		c.PID, c.Started, c.Memory = p.PID, p.Started, process.Memory(p.PID)
	}
	return c
}

// diskUsage returns how much space there is for a directory, and what its files take: as much of them as can be read.
func diskUsage(ctx context.Context, dir string) (admin.Disk, error) {
	free, total, err := diskspace.Measure(dir)
	if err != nil {
		return admin.Disk{}, err
	}
	var used filetree.Meter
	err = used.Add(ctx, dir)
	return admin.Disk{Free: free, Total: total, Used: used.Bytes}, err
}

// logUsage returns the log events that there are, and what they take.
func (r *Reporter) logUsage() (s admin.Logs) {
	for _, id := range r.o.Events.Groups() {
		stat := r.o.Events.GroupStat(id)
		s.Groups, s.Events, s.Stored = s.Groups+1, s.Events+stat.Events, s.Stored+stat.StoredBytes
	}
	s.Disk = r.o.Events.DiskBytes()
	return s
}
