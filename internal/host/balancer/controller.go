//go:build linux

package balancer

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/host/endpoint"
	"github.com/coracle-eks/coracle/internal/logs/vended"
	"github.com/coracle-eks/coracle/internal/outbound"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// ProcessName is the name of the process among those of its owner.
const ProcessName = "balancer"

// The instructions at which a test kills the daemon.
var (
	crashConfigured = crash.At("balancer/configured")
	crashObserved   = crash.At("balancer/observed")
	crashForgotten  = crash.At("balancer/forgotten")
	crashChecked    = crash.At("balancer/checked")
)

// Network is what the controller needs of the network of machines.
type Network interface {
	// Namespace returns the path of a network namespace by its name.
	Namespace(name string) string
	// Identity returns fs.ErrNotExist while there is no namespace of that name.
	Identity(name string) (uint64, error)
	// Dial connects from a namespace to a numeric address.
	Dial(ctx context.Context, name, network, address string) (net.Conn, error)
}

// Options configures a Controller. All fields but those marked optional must be set.
type Options struct {
	Store   *store.Store
	Network Network
	Process *endpoint.Process // that forwards
	// LogDir is the directory in which the logs of load balancers wait for their delivery.
	LogDir string
	// Outbound is the policy for connections to the providers that authenticate users (optional).
	Outbound outbound.Policy
	Log      *slog.Logger // slog.Default() when nil (optional)
}

// Controller runs the load balancers.
type Controller struct {
	o         Options
	reader    *balancing.Reader
	balancers store.Table[record.LoadBalancer]
	groups    store.Table[record.TargetGroup]
	healths   store.Table[record.TargetHealth]
	statuses  store.Table[record.LoadBalancerStatus]
	enis      store.Table[record.NetworkInterface]
	// materials are the certificates of listeners.
	materials store.Table[record.CertificateMaterial]
	// deliveries are of the logs of load balancers, and sources by the ARNs of these.
	deliveries   store.Table[record.LogDelivery]
	deliveriesOf store.Index[record.LogDelivery]
	sources      store.Table[record.LogDeliverySource]
	sourcesOf    store.Index[record.LogDeliverySource]

	mu     sync.Mutex
	checks map[string]map[string]*check // by key of the TargetHealth and name of the target
	// recorded has the times at which TargetHealths were last written.
	recorded map[string]time.Time
}

// New returns a Controller, which does nothing until it is run.
func New(o Options) *Controller {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Controller{o: o, reader: balancing.NewReader(o.Store), balancers: record.LoadBalancers(o.Store),
		groups: record.TargetGroups(o.Store), healths: record.TargetHealths(o.Store),
		statuses: record.LoadBalancerStatuses(o.Store), enis: record.NetworkInterfaces(o.Store),
		materials:  record.CertificateMaterials(o.Store),
		deliveries: record.LogDeliveries(o.Store), deliveriesOf: record.LogDeliveriesBySource(o.Store),
		sources: record.LogDeliverySources(o.Store), sourcesOf: record.LogDeliverySourcesByResource(o.Store),
		checks: map[string]map[string]*check{}, recorded: map[string]time.Time{}}
}

// Controllers returns the controllers that reconcile.Run runs.
func (c *Controller) Controllers() []reconcile.Controller {
	all := func(string) []string { return []string{"all"} } // it is one file
	return []reconcile.Controller{
		{
			Name:      "load-balancers",
			Reconcile: c.reconcileProcess,
			Sources: []reconcile.Source{
				func(ctx context.Context, changed func(string)) { changed("all"); <-ctx.Done() },
				reconcile.Mapped(c.balancers, "", all),
				reconcile.Mapped(c.groups, "", all),
				reconcile.Mapped(c.healths, "", all),
				reconcile.Mapped(c.enis, "", all),
				reconcile.Mapped(c.materials, "", all),
				reconcile.Mapped(c.deliveries, "", all),
				reconcile.Mapped(c.sources, "", all),
			},
			Resync:     10 * time.Second,
			MaxBackoff: 2 * time.Second,
		},
		{
			Name:      "target-health",
			Reconcile: c.reconcileHealth,
			Sources: []reconcile.Source{
				reconcile.Mapped(c.balancers, "", c.reader.PoolsOfBalancer),
				reconcile.Mapped(c.groups, "", balancing.PoolsOfGroup),
				reconcile.Table(c.healths, ""),
			},
			Workers: 16, AccountWorkers: 8,
			Timeout:    3 * time.Minute,
			Resync:     30 * time.Second,
			MaxBackoff: 2 * time.Second,
		},
	}
}

// reconcileProcess configures the process, and records which load balancers serve.
func (c *Controller) reconcileProcess(ctx context.Context, _ string) (reconcile.Result, error) {
	rows, err := c.balancers.List(ctx, "")
	if err != nil {
		return reconcile.Result{}, err
	}
	observed, err := c.statuses.List(ctx, "")
	if err != nil {
		return reconcile.Result{}, err
	}
	config := endpoint.Config{LogDir: c.o.LogDir}
	now := map[string]record.LoadBalancerStatus{}
	var after time.Duration
	ofKey := map[string][]string{} // the parts of the configuration by load balancer
	for _, row := range rows {
		b := row.Value
		routes, err := c.reader.Routes(ctx, b)
		if err != nil {
			return reconcile.Result{}, err
		}
		for _, route := range routes {
			specs, next, err := c.specs(ctx, b, route)
			if err != nil {
				return reconcile.Result{}, err
			}
			config.Balancers = appendSpecs(config.Balancers, specs, route.Share)
			if next > 0 && (after == 0 || next < after) {
				after = next
			}
			for _, s := range specs {
				ofKey[row.Key] = append(ofKey[row.Key], s.Key())
			}
		}
		status := record.LoadBalancerStatus{ID: b.ID}
		_, err = c.o.Network.Identity(b.Namespace())
		if status.Active = err == nil; !status.Active && (after == 0 || after > provisioningInterval) {
			after = provisioningInterval
		}
		now[row.Key] = status
	}
	problems := map[string]string{}
	// Without load balancers no process is started; one that runs is told that they have gone.
	if len(rows) > 0 || len(observed) > 0 {
		if problems, err = c.apply(ctx, config); err != nil {
			return reconcile.Result{}, err
		}
		crashConfigured.Here()
	}
	return reconcile.Result{After: after}, c.recordStatuses(ctx, observed, now, ofKey, problems)
}

// appendSpecs adds what the process does for a route, in each zone. Routes of a listener to several target groups come
// after each other, and share what listens.
func appendSpecs(all, specs []endpoint.Balancer, share balancing.Share) []endpoint.Balancer {
	if share.Of == 0 {
		return append(all, specs...)
	}
	before := max(0, len(all)-len(specs)) // where those of the route before begin, if it is of the same listener
	for _, s := range specs {
		part := endpoint.BalancerShare{Weight: share.Weight, Targets: s.Targets, ProxyProtocol: s.ProxyProtocol}
		s.Targets, s.ProxyProtocol, s.Sticky = nil, 0, share.Sticky
		at := slices.IndexFunc(all[before:], func(b endpoint.Balancer) bool { return b.Key() == s.Key() })
		if at >= 0 {
			all[before+at].Shares = append(all[before+at].Shares, part)
			continue
		}
		s.Shares = []endpoint.BalancerShare{part}
		all = append(all, s)
	}
	return all
}

// provisioningInterval is the time between passes while the network of a load balancer is made.
const provisioningInterval = 500 * time.Millisecond

// apply configures the process, and returns its problems. Those that it said earlier it may have solved since: the
// network of a load balancer has come.
func (c *Controller) apply(ctx context.Context, config endpoint.Config) (map[string]string, error) {
	problems, err := c.o.Process.Apply(ctx, config, false)
	if err != nil || len(problems) == 0 {
		return problems, err
	}
	return c.o.Process.Apply(ctx, config, true)
}

func (c *Controller) recordStatuses(ctx context.Context, observed []store.Row[record.LoadBalancerStatus],
	now map[string]record.LoadBalancerStatus, parts map[string][]string, problems map[string]string) (failure error) {
	before := map[string]record.LoadBalancerStatus{}
	for _, row := range observed {
		before[row.Key] = row.Value
		if _, wanted := now[row.Key]; !wanted {
			if err := c.o.Store.Txn(ctx, c.statuses.RemoveOp(row.Key)); err != nil && !errors.Is(err, store.ErrNotFound) {
				failure = errors.Join(failure, err)
			}
			crashForgotten.Here()
		}
	}
	for key, status := range now {
		for _, part := range parts[key] {
			// A namespace that is not there yet is no failure: it comes.
			if why := problems[part]; why != "" && status.Active {
				status.Failure = why
			}
		}
		if was, known := before[key]; known && was == status {
			continue
		}
		_, err := c.statuses.Put(ctx, key, status)
		failure = errors.Join(failure, err)
		crashObserved.Here()
	}
	return failure
}

// specs returns what the process does for a listener of a load balancer, and after what time that changes by itself.
func (c *Controller) specs(ctx context.Context, b record.LoadBalancer, route balancing.Route) (
	all []endpoint.Balancer, after time.Duration, err error) {
	if route.Path() != balancing.ByProcess {
		return nil, 0, nil
	}
	secure, err := c.readTLS(ctx, b, route.Listener)
	if err != nil {
		return nil, 0, err
	}
	logs, err := c.logsOf(ctx, b, route.Listener)
	if err != nil {
		return nil, 0, err
	}
	for _, z := range b.Zones {
		at, err := netip.ParseAddr(z.PrivateIP)
		if err != nil {
			continue
		}
		spec := endpoint.Balancer{
			Namespace: c.o.Network.Namespace(b.Namespace()),
			Listen:    netip.AddrPortFrom(at, uint16(route.Listener.Port)),
			// All of an account, which can have any number of them.
			Share: "load balancers of " + b.Account,
			Logs:  logs,
		}
		if b.Kind == record.ApplicationLoadBalancer {
			spec.Application, after = c.application(b, route, z.Name, time.Now())
			spec.Application.TLS = secure
			if logs != nil {
				spec.Application.AccessLog = slices.Contains(logs.Types, vended.ApplicationAccess)
				spec.Application.ConnectionLog = slices.Contains(logs.Types, vended.ApplicationConnections)
			}
			all = append(all, spec)
			continue
		}
		spec.Targets, spec.Idle, spec.TLS = route.Pool.Serving(z.Name, b.CrossZone()), 350, secure
		if route.Group == nil {
			after = c.addClassic(b, route, &spec)
		} else {
			spec.Targets = route.Pool.Serving(z.Name, balancing.CrossZone(b, *route.Group))
			if route.Group.Attribute("proxy_protocol_v2.enabled", "false") == "true" {
				spec.ProxyProtocol = 2
			}
		}
		all = append(all, spec)
	}
	return all, after, nil
}

// logsOf returns which logs of a load balancer are delivered; nil for none.
func (c *Controller) logsOf(ctx context.Context, b record.LoadBalancer, l record.Listener) (
	*endpoint.BalancerLogs, error) {
	sources, err := c.sourcesOf.List(ctx, b.ARN())
	if err != nil {
		return nil, err
	}
	var types []string
	for _, s := range sources {
		if c.deliveriesOf.Count(s.Key) > 0 {
			types = append(types, s.Value.LogType)
		}
	}
	if len(types) == 0 {
		return nil, nil
	}
	_, name, _ := strings.Cut(b.ARN(), ":loadbalancer/")
	return &endpoint.BalancerLogs{Account: b.Account, ID: b.ID, Name: name, Listener: l.ID, Types: types}, nil
}

// addClassic adds what a Classic Load Balancer does. Connections to instances that are in service no more end, at once
// or after the time of connection draining. It returns when that is.
func (c *Controller) addClassic(b record.LoadBalancer, route balancing.Route, spec *endpoint.Balancer,
) (after time.Duration) {
	spec.HTTP = route.Listener.Protocol == "HTTP" || route.Listener.Protocol == "HTTPS"
	spec.TargetTLS = route.Listener.InstanceProtocol == "HTTPS" || route.Listener.InstanceProtocol == "SSL"
	spec.Idle, _ = strconv.Atoi(b.Attribute("idle_timeout", "60"))
	if b.Classic.ProxyProtocol(route.Listener.InstancePort) && !spec.HTTP {
		spec.ProxyProtocol = 1
	}
	spec.Ends = true
	for _, m := range route.Pool.Members {
		if m.Address.IsValid() && m.Deregistered.IsZero() {
			// One that fails its checks keeps its connections.
			spec.Keeping = append(spec.Keeping, m.Address)
		}
	}
	draining, err := strconv.Atoi(b.Attribute("connection_draining", "0"))
	if err != nil || draining == 0 {
		return 0
	}
	for _, m := range route.Pool.Members {
		if m.Deregistered.IsZero() || !m.Address.IsValid() {
			continue
		}
		left := time.Until(m.Deregistered.Add(time.Duration(draining) * time.Second))
		if left > 0 && !slices.Contains(spec.Keeping, m.Address) {
			spec.Keeping = append(spec.Keeping, m.Address)
			if after == 0 || left < after {
				after = left
			}
		}
	}
	return after
}
