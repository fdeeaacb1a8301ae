// Package daemon is the composition root: [Serve] starts what serves, in order, and connects the AWS services, the
// controllers and what stands in for Amazon's hardware.
//
// It is the one package that knows the AWS services and the controllers at once. The commands of the program are in
// cmd/coracle; they reach a daemon through the socket of package admin.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/aws/elb"
	"github.com/coracle-eks/coracle/internal/aws/oidc"
	"github.com/coracle-eks/coracle/internal/backup"
	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/cloudformation/revision"
	"github.com/coracle-eks/coracle/internal/console"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/datapoint"
	"github.com/coracle-eks/coracle/internal/etcd"
	"github.com/coracle-eks/coracle/internal/host/preflight"
	"github.com/coracle-eks/coracle/internal/kube/clusterproxy"
	"github.com/coracle-eks/coracle/internal/outbound"
	"github.com/coracle-eks/coracle/internal/pki"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/upstream"
	"github.com/coracle-eks/coracle/internal/version"
	"github.com/coracle-eks/coracle/kubernetes"
)

// shutdownTime is the time that requests in progress may take when the daemon stops.
const shutdownTime = 5 * time.Second

// daemon is one that serves.
type daemon struct {
	config   Config
	dir      datadir.Dir
	settings datadir.Settings
	outbound outbound.Policy // where it connects to for users
	log      *slog.Logger
	started  time.Time
	stop     context.CancelFunc
	// sharedUsers is the reason that machines have no user namespaces; empty when they have, or are simulated.
	sharedUsers string
	// sharedDisk is the reason that machines keep their files on the disk of the data directory, whatever size their root
	// volumes have; empty when these bound them, or machines are simulated.
	sharedDisk string
	// unavailable is the reason that no machine boots although the data directory has some; empty otherwise.
	unavailable string

	authority            *pki.Authority
	certificateAuthority certificateAuthority

	processes *process.Supervisor
	events    *events
	bundles   *upstream.Bundles
	embedded  *etcd.Embedded // nil with --etcd-endpoints
	etcd      *etcd.Connection
	store     *store.Store
	logs      *logs
	points    *datapoint.Store // of metrics
	api       *apiLayer
	host      *host
	catalog   *catalog.Catalog // of add-ons
	clusters  *clusters

	apiServers *clusterproxy.Proxy // of clusters, for clients that reach nothing else of this host, and the console
	console    *console.Console
}

// Serve runs a daemon until ctx ends or a client asks it to stop. Clusters keep running.
func Serve(ctx context.Context, config Config, log *slog.Logger) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	klog.SetSlogLogger(slog.New(libraryLog{log.With("from", "client-go").Handler()}))
	d := &daemon{config: config, dir: config.Dir, log: log, started: time.Now(), stop: stop}
	limitMemory(log)

	// Nothing runs on a kernel that is too old.
	if release, err := preflight.Release(); err == nil {
		if err := preflight.CheckKernel(release); err != nil {
			return fmt.Errorf("%w: %s", err, preflight.KernelFix)
		}
	}
	// One daemon for each data directory.
	if err := d.dir.Create(); err != nil {
		return err
	}
	lock, err := d.dir.Lock()
	if err != nil {
		return err
	}
	defer lock.Release()
	if err := d.dir.CheckFormat(); err != nil {
		return err
	}
	if err := backup.RemoveLeftovers(string(d.dir)); err != nil {
		return err
	}
	if d.settings, err = config.settings(ctx); err != nil {
		return err
	}
	if d.outbound, err = d.outboundPolicy(); err != nil {
		return err
	}
	// Take the address before anything is started that would have to be undone.
	listener, err := openListener(d.settings.Listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	if _, port, err := net.SplitHostPort(d.settings.Listen); err == nil && port == "0" {
		d.settings.Listen = listener.Addr().String() // "any free port" is a choice, too
	}
	var scrapes net.Listener
	if address := config.MetricsAddress; address != "" {
		if scrapes, err = net.Listen("tcp", address); err != nil {
			return fmt.Errorf("--metrics-address %s: %w", address, err)
		}
		defer scrapes.Close()
	}
	webhooks, err := d.listenWebhooks()
	if err != nil {
		return err
	}
	defer webhooks.Close()
	if err := errors.Join(d.dir.WriteFormat(version.String()), d.dir.WriteSettings(d.settings)); err != nil {
		return err
	}

	// Find what an earlier daemon left running.
	d.events = newEvents()
	key, err := d.dir.EnsureProcessKey()
	if err != nil {
		return err
	}
	if d.processes, err = process.Open(process.Options{Identity: process.Identity{Owner: d.dir.Owner(), Key: key},
		Log: log, Events: d.events.notifyAll}); err != nil {
		return err
	}
	defer d.processes.Close()

	// A downloaded archive has the programs packed. Those of the first cluster are unpacked while etcd starts; who needs
	// them before that waits, and who cannot have them learns the reason.
	d.bundles = upstream.OpenBundles(upstream.Options{Dir: config.Bundles, DataDir: string(d.dir)})
	var unpacking sync.WaitGroup
	unpacking.Go(func() { _, _ = d.bundles.Find(kubernetes.Default) })
	defer unpacking.Wait()

	// Open the stores.
	if err := d.connect(ctx); err != nil {
		return err
	}
	defer d.etcd.Close()
	if d.store, err = store.Open(ctx, d.etcd.Client, store.Options{Log: log,
		Migrations: record.Migrations}); err != nil {
		return err
	}
	defer d.store.Close()
	d.points = datapoint.New()
	if d.logs, err = d.openLogs(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.logs.close()) }()

	// Open what services and controllers share.
	if d.authority, err = pki.OpenAuthority(d.dir.PKI(), "ca", "coracle"); err != nil {
		return err
	}
	if d.certificateAuthority, err = openCertificateAuthority(d.dir); err != nil {
		return err
	}
	if err := d.publishAuthority(); err != nil {
		return err
	}
	if d.host, err = d.openHost(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.host.close()) }()
	if d.catalog, err = d.openCatalog(); err != nil {
		return err
	}
	if d.api, err = d.openAPI(ctx); err != nil {
		return err
	}
	defer d.api.history.Flush()
	if d.clusters, err = d.openClusters(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.clusters.close()) }()
	d.apiServers = clusterproxy.New(d.store, d.log)
	d.console = d.newConsole()

	return d.serve(ctx, listener, scrapes, webhooks)
}

// serve runs the servers and controllers of an opened daemon until ctx ends or one of them fails. scrapes may be nil.
func (d *daemon) serve(ctx context.Context, listener, scrapes, webhooks net.Listener) error {
	// A panic of a watch over what a cluster sends ends that watch, not the daemon of all clusters.
	utilruntime.ReallyCrash = false
	group, ctx := errgroup.WithContext(ctx)
	commands := d.commands()
	group.Go(func() error { return admin.Serve(ctx, d.dir.Socket(), commands, d.log) })
	group.Go(func() error { return d.serveWebhooks(ctx, webhooks) })
	if scrapes != nil {
		group.Go(func() error { return commands.ServeMetrics(ctx, scrapes) })
	}
	context.AfterFunc(ctx, d.api.mux.EndStreams)
	handler := d.handler()
	group.Go(func() error {
		certificates := newCertificates(d.authority, d.settings.Listen, d.settings.AdvertiseAddress)
		return serveBoth(ctx, listener, d.outsideVPCs(handler), certificates, shutdownTime, d.log)
	})
	if d.host.apis != nil {
		group.Go(func() error { return d.serveVPCs(ctx, d.host.apis, handler) })
	}
	group.Go(func() error { return d.clusters.authenticator.Run(ctx) })
	group.Go(func() error { return d.reconcile(ctx) })
	if d.embedded != nil {
		group.Go(func() error { return d.etcd.RepairWhenFull(ctx) })
	}
	group.Go(func() error { return d.logs.runControllers(ctx) })
	group.Go(func() error { return d.api.history.Run(ctx) })
	d.log.Info("serving", "version", version.String(), "endpoint", EndpointURL(d.settings.Listen), "data", string(d.dir),
		"region", d.settings.Region, "account", d.settings.Account, "after",
		time.Since(d.started).Round(time.Millisecond))
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	d.log.Info("stopped; clusters keep running until \"coracle reset\"")
	return nil
}

// reconcile runs the controllers: at once over an etcd that is ours alone, otherwise while this
// daemon leads those that share it.
func (d *daemon) reconcile(ctx context.Context) error {
	run := func(ctx context.Context) error { return reconcile.Run(ctx, d.log, d.clusters.controllers...) }
	if d.embedded != nil {
		return run(ctx)
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	return reconcile.Lead(ctx, reconcile.Election{
		Client: d.etcd.Client, Key: "/coracle/leader", Identity: host + "/" + strconv.Itoa(os.Getpid()),
	}, d.log, run)
}

// registryPrefix is the path prefix of the image registry, according to the distribution specification.
const registryPrefix = "/v2/"

// mostRead and mostAuthorized limit what one request that is no API call reads of the store, in bytes: no account is
// charged for it. Requests to the registry are authorized, by policies that can be long.
const (
	mostRead       = 4 << 20
	mostAuthorized = 32 << 20
)

// handler answers on the AWS endpoint. No operation of AWS that is served has a path under /healthz, /id/,
// /credentials/, /v2/ or /cloudformation-waitcondition/.
func (d *daemon) handler() http.Handler {
	discovery := oidc.Handler(d.store, d.otherIssuers(), d.log)
	images := d.host.images.Handler(d.api.access)
	publicKeys := elb.NewPublicKeys(d.store, d.log)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A bucket may have any of the names below. Wait conditions have URLs of S3.
		if !strings.HasPrefix(r.URL.Path, revision.WaitConditionPrefix) {
			if forward := d.api.forwarder.Find(r); forward != nil {
				forward(w, r)
				return
			}
		}
		bounded := func(most int64) *http.Request { return r.WithContext(store.Bounded(r.Context(), most)) }
		switch {
		case publicKeys.Serves(r):
			publicKeys.ServeHTTP(w, bounded(mostRead))
		case r.URL.Path == "/healthz":
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			io.WriteString(w, "ok\n") //nolint:errcheck // the client is gone
		case strings.HasPrefix(r.URL.Path, oidc.Prefix):
			discovery.ServeHTTP(w, bounded(mostRead))
		case strings.HasPrefix(r.URL.Path, credentialsPrefix):
			d.serveCredentials(w, bounded(mostRead))
		case strings.HasPrefix(r.URL.Path, registryPrefix):
			images.ServeHTTP(w, bounded(mostAuthorized))
		case strings.HasPrefix(r.URL.Path, revision.WaitConditionPrefix):
			d.api.stacks.WaitConditions(w, bounded(mostRead))
		default:
			d.api.mux.ServeHTTP(w, r)
		}
	})
}

// listenWebhooks opens the port on which API servers, which were started with it, reach the daemon.
func (d *daemon) listenWebhooks() (net.Listener, error) {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(d.settings.WebhookPort))
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil,
			fmt.Errorf(
				"the port %d, on which the API servers of %s reach the daemon, is not free (ss -ltnp 'sport = :%d' "+
					"shows who has it): stop that program, or change webhookPort in %s: %w",
				d.settings.WebhookPort, d.dir, d.settings.WebhookPort, d.dir.SettingsFile(), err)
	}
	return l, nil
}
