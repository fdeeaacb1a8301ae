package endpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/host/hostsfile"
	"github.com/coracle-eks/coracle/internal/kube/extensionmetrics"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// ProcessName is the name of the process among those of its owner.
const ProcessName = "endpoint"

// Host keeps the process running. *process.Supervisor does.
type Host interface {
	Ensure(ctx context.Context, spec process.Spec) (process.Status, error)
}

// Options configures a Controller. All fields but those marked optional must be set.
type Options struct {
	Store *store.Store
	Host  Host
	// Owner is the mark of the daemon, for its block in /etc/hosts.
	Owner string
	// Dir is the process's directory, on a short path because there are unix sockets in it:
	// /run/coracle/<owner>/endpoint.
	Dir string
	// LogFile is for what the process has to say.
	LogFile string
	// Program is this program; the process is its command "endpoint".
	Program string
	// What follows is about the network of machines. Without Namespace there is none, and a cluster has its port on the
	// host alone.

	// Namespace is the path of a network namespace by its name: "internet", a VPC's or a cluster's ID.
	Namespace func(name string) string
	// PublicRange is the daemon's range of public addresses. Its first /24 is infrastructure.
	PublicRange netip.Prefix
	// API is the address of the AWS APIs in every VPC.
	API netip.Addr
	// ForwardsS3 is set where requests for Amazon S3 are forwarded: its names then lead to the AWS APIs.
	ForwardsS3 bool
	// Webhooks are the addresses at which API servers find the daemon's own, on this host: "127.0.0.1:20001".
	Webhooks []string
	// Metrics is what serves the metrics of a control plane; nobody does when nil (optional).
	Metrics func(record.ControlPlane) extensionmetrics.Config

	Log *slog.Logger // slog.Default() when nil
	// SetNames enters names of the host; names.Set when nil (optional).
	SetNames func(ctx context.Context, owner string, entries []hostsfile.Entry) error
}

// Controller reconciles the endpoints of clusters, and their names in the host's /etc/hosts.
type Controller struct {
	o    Options
	rows tables

	process  *Process
	balancer *balancing.Reader

	mu sync.Mutex
}

// New returns a Controller, which does nothing until it is run.
func New(o Options) (*Controller, error) {
	if o.Namespace != nil && (!o.PublicRange.IsValid() || !o.PublicRange.Addr().Is4() || o.PublicRange.Bits() > 24) {
		return nil, fmt.Errorf("the range of public addresses %s is not an IPv4 range of a /24 at least", o.PublicRange)
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.SetNames == nil {
		o.SetNames = hostsfile.Set
	}
	return &Controller{o: o, rows: openTables(o.Store), balancer: balancing.NewReader(o.Store), process: &Process{
		Host: o.Host, Name: ProcessName, Dir: o.Dir, LogFile: o.LogFile, Program: o.Program, MemoryLimit: "64MiB",
		Revision: "3", // one of revision 2 does not tell API servers the addresses of clients
	}}, nil
}

// Controllers returns the controllers that reconcile.Run runs.
func (c *Controller) Controllers() []reconcile.Controller {
	all := func(string) []string { return []string{"all"} } // it is one file
	return []reconcile.Controller{{
		Name: "endpoint",
		Reconcile: func(ctx context.Context, _ string) (reconcile.Result, error) {
			_, err := c.reconcileAll(ctx, false) // what the process could not do it tries again by itself
			return reconcile.Result{}, err
		},
		Sources: []reconcile.Source{
			func(ctx context.Context, changed func(string)) { changed("all"); <-ctx.Done() },
			reconcile.Mapped(c.rows.clusters, "", all),
			reconcile.Mapped(c.rows.planes, "", all),
			reconcile.Mapped(c.rows.vpcs, "", all),
			reconcile.Mapped(c.rows.addresses, "", all),
			reconcile.Mapped(c.rows.publicIPs, "", all),
			reconcile.Mapped(c.rows.endpoints, "", all),
			reconcile.Mapped(c.rows.instances, "", all),
			reconcile.Mapped(c.rows.mountTargets, "", all),
			reconcile.Mapped(c.rows.subnets, "", all),
			reconcile.Mapped(c.rows.balancers, "", all),
			reconcile.Mapped(c.rows.targetHealths, "", all),
		},
		Resync:     30 * time.Second,
		MaxBackoff: 5 * time.Second,
	}}
}

// ForwardPort returns once the cluster's port on this host leads to the API server that serves. It fails with
// syscall.EADDRINUSE when another program has the port.
func (c *Controller) ForwardPort(ctx context.Context, cluster record.Cluster) error {
	return c.waitForEndpoints(ctx, cluster, portTime, func(f Forward) bool { return f.Namespace == "" })
}

// Apply returns once the cluster's endpoints serve those whom its endpoint access lets in. It fails when they cannot:
// the network of the cluster may not be there yet.
func (c *Controller) Apply(ctx context.Context, cluster record.Cluster) error {
	return c.waitForEndpoints(ctx, cluster, applyTime, nil)
}

const (
	// portTime is the time for which a killed process may still hold a port: it loses its memory before its sockets.
	portTime = 3 * time.Second
	// applyTime is the time that Apply waits for the network of a cluster, which another controller creates.
	applyTime = 15 * time.Second
)

// waitForEndpoints reconciles all endpoints until those of the cluster serve, or those forwards alone for which only
// is true.
func (c *Controller) waitForEndpoints(ctx context.Context, cluster record.Cluster, limit time.Duration,
	only func(Forward) bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	wait := time.NewTicker(20 * time.Millisecond)
	defer wait.Stop()
	var failure error
	for again := false; ; again = true {
		problems, err := c.reconcileAll(ctx, again)
		if err != nil && failure != nil && ctx.Err() != nil {
			return failure // says more than that the time ran out while the process was asked once more
		}
		if err != nil {
			return err
		}
		if failure = c.problemOf(cluster, problems, only); failure == nil {
			return nil
		}
		select {
		case <-wait.C:
		case <-ctx.Done():
			return failure
		}
	}
}

// problemOf returns the problem that prevents a cluster's endpoints from serving.
func (c *Controller) problemOf(cluster record.Cluster, problems map[string]string, only func(Forward) bool) error {
	if why := problems[""]; why != "" {
		return errors.New(why)
	}
	config, err := c.rows.ofCluster(c, cluster)
	if err != nil {
		return err
	}
	for _, f := range config.Forwards {
		why := problems[f.listenerKey()]
		if why == "" || only != nil && !only(f) {
			continue
		}
		err := fmt.Errorf("the endpoint of the cluster at %s: %s", f.Listen, why)
		if strings.Contains(why, syscall.EADDRINUSE.Error()) {
			return inUseError{err}
		}
		return err
	}
	for _, e := range config.Egresses {
		if why := problems[e.listenerKey()]; why != "" && only == nil {
			return fmt.Errorf("the API server's way into the VPC: %s", why)
		}
	}
	return nil
}

// inUseError reports that another program has the address.
type inUseError struct{ error }

func (inUseError) Unwrap() error { return syscall.EADDRINUSE }

// EgressSocket returns the unix socket of the proxy through which the cluster's API server reaches its VPC; empty
// without a network.
func (c *Controller) EgressSocket(clusterID string) string {
	if c.o.Namespace == nil {
		return ""
	}
	return filepath.Join(c.o.Dir, clusterID+".sock")
}

// ManagedEgressSocket returns the unix socket of the proxy through which the cluster's API server reaches addresses
// outside its VPC; empty without a network.
func (c *Controller) ManagedEgressSocket(clusterID string) string {
	if c.o.Namespace == nil {
		return ""
	}
	return filepath.Join(c.o.Dir, clusterID+"-managed.sock")
}

// ServerSocket returns the unix socket at which the API server of a port takes the connections that are forwarded to
// it: [Forward.Socket]. The path is short, as a socket's has 107 characters at most.
func (c *Controller) ServerSocket(port int) string {
	return filepath.Join(c.o.Dir, strconv.Itoa(port)+".sock")
}

// metrics returns what answers for the metrics of a control plane; nil for nothing.
func (c *Controller) metrics(plane record.ControlPlane) *extensionmetrics.Config {
	if c.o.Metrics == nil {
		return nil
	}
	config := c.o.Metrics(plane)
	return &config
}

// Name returns the DNS name of a cluster's endpoint,
// https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html.
func Name(cluster record.Cluster) string {
	return cluster.ID + ".gr7." + cluster.Region + ".eks.amazonaws.com"
}

// The addresses of public endpoints in the first /24 of the public range.
const firstPublic, lastPublic = 16, 254

// PublicAddress chooses an address for a cluster's public endpoint that is not taken. There is none without a network.
func (c *Controller) PublicAddress(taken []string) (string, error) {
	if c.o.Namespace == nil {
		return "", nil
	}
	base := c.o.PublicRange.Masked().Addr().As4()
	for n := firstPublic; n <= lastPublic; n++ {
		base[3] = byte(n)
		if a := netip.AddrFrom4(base).String(); !slices.Contains(taken, a) {
			return a, nil
		}
	}
	return "",
		fmt.Errorf(
			"all %d addresses for public endpoints of clusters (%s) are taken: delete a cluster, or run another "+
				"coracle with --data-dir", lastPublic-firstPublic+1, c.o.PublicRange)
}

// reconcileAll writes the file, the process and the names of hosts according to the records, and returns the problems
// that the process reports. It notifies the process when its file has changed, or with again.
func (c *Controller) reconcileAll(ctx context.Context, again bool) (problems map[string]string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	config, hosts, err := c.rows.buildConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := c.o.SetNames(ctx, c.o.Owner, hosts); err != nil {
		// The clusters work all the same, for everybody who finds them.
		c.o.Log.Warn("cannot enter the names of cluster endpoints into "+hostsfile.File+
			": kubectl on this host will not find them", "error", err)
	}
	return c.process.Apply(ctx, config, again)
}
