// Package controlplane runs the Kubernetes control planes of EKS clusters.
//
// The [Controller] reads Clusters and Updates. It gives each cluster keys and certificates, a prefix and a user in
// etcd, a security group and network interfaces in its VPC, an API server, a controller manager and a scheduler (and a
// cloud controller manager, where the AWS APIs can be reached), and the objects that EKS creates in a new cluster. It
// is the only writer of ControlPlanes, ControlPlaneSecrets and Issuers, and ends the Updates of clusters (package
// logshipper, which ships the logs of the components, ends LoggingUpdates).
//
// Each step in the life of a cluster is idempotent:
//
//  1. converge.go: [Controller.Converge] creates the control plane and marks it Ready (create.go, ports.go), maintains
//     it (a changed VPC configuration or flag, a certificate that is about to expire, a service-account key or a
//     certificate authority that is to be replaced: rotation.go, authorities.go), replaces its components with those of
//     another minor version (upgrade.go, handover.go), and ends the updates that requested it. If the new version does
//     not become healthy, the old one keeps serving.
//  2. delete.go: deletes everything that was created, the records last.
//
// The components are processes of a [Host] that outlive the daemon: a daemon that restarts computes the same
// specifications, and adopts the running processes.
package controlplane

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/sourcegraph/conc"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/etcd"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/turn"
	"github.com/coracle-eks/coracle/internal/upstream"
)

// Host runs the components of control planes. It restarts those that exit, and they outlive the daemon.
// *process.Supervisor runs them as processes of this host.
type Host interface {
	// Ensure starts the process, or replaces the one of that name that runs with another specification.
	Ensure(ctx context.Context, spec process.Spec) (process.Status, error)
	// Stop ends the process and returns when it is gone. It is no error that there is none.
	Stop(ctx context.Context, name string) error
	// List returns the status of every process whose name begins with prefix.
	List(prefix string) []process.Status
}

// Bundles finds, or builds, the programs of a minor version. *upstream.Bundles does.
type Bundles interface {
	Ensure(ctx context.Context, minor string, progress func(upstream.Progress)) (string, error)
}

// Webhooks are the kubeconfigs with which an API server calls the authenticator and the admission webhook.
type Webhooks struct {
	// Authentication is for token reviews, Authorization for subject access reviews, Admission for the plugins
	// MutatingAdmissionWebhook and ValidatingAdmissionWebhook. An empty one leaves that webhook out.
	Authentication, Authorization, Admission []byte
	// Configurations are objects that tell the API server of admission webhooks. Every cluster gets them.
	Configurations []*unstructured.Unstructured
}

// Endpoints forwards connections to API servers, as the records of their clusters say, and connections of API servers
// to their VPCs. *endpoint.Controller implements it.
type Endpoints interface {
	// ForwardPort returns once the cluster's port on this host is forwarded to the current API server. It fails with
	// syscall.EADDRINUSE when another program has the port.
	ForwardPort(ctx context.Context, cluster record.Cluster) error
	// Apply returns once the cluster's endpoints serve those whom its endpoint access lets in.
	Apply(ctx context.Context, cluster record.Cluster) error
	// PublicAddress chooses an address for a cluster's public endpoint that is not taken. It is empty where machines
	// have no network.
	PublicAddress(taken []string) (string, error)
	// EgressSocket returns the unix socket at which a proxy connects to addresses in the cluster's VPC. It stays the
	// same. It is empty where machines have no network.
	EgressSocket(clusterID string) string
	// ManagedEgressSocket returns the unix socket of a proxy for the API server's other connections: to the
	// authenticator's webhooks, and the public internet, but to nothing else of this host. AWS calls it
	// controlPlaneEgressMode AWS_MANAGED.
	ManagedEgressSocket(clusterID string) string
	// ServerSocket returns the unix socket at which the API server of a port is to take forwarded connections, whose
	// first line has the address of the client.
	ServerSocket(port int) string
}

// CloudProvider has the settings with which a cluster's cloud controller manager reaches the AWS APIs.
type CloudProvider struct {
	// Endpoint is the URL that serves every AWS API: "http://127.0.0.1:4566".
	Endpoint string
	// Env are the environment variables with which the AWS SDK finds credentials of the cluster's
	// role. They must stay the same, because others restart the cloud controller manager.
	Env []string
}

// SecretsPlugins serves the KMS plugins through which API servers encrypt Secrets. *kmsplugin.Plugins does.
type SecretsPlugins interface {
	// Ensure serves the plugin of a cluster that has a key, and returns its endpoint, which stays the same.
	Ensure(cluster record.Cluster) (endpoint string, err error)
	// Health returns why the plugin of a cluster cannot use its key; nil if it can.
	Health(clusterID string) error
	// Remove ends the plugin of a cluster that is deleted, and gives back what lets EKS use the key.
	Remove(ctx context.Context, cluster record.Cluster) error
	// Subscribe calls changed, which does not block, when the health of a cluster's plugin has changed.
	Subscribe(changed func(clusterID string))
}

// Options configures a Controller. All fields but those marked optional must be set.
type Options struct {
	Store *store.Store
	Etcd  *etcd.Connection
	// Dir is the directory of the clusters' files, with one directory for each cluster, named by its ID.
	Dir     string
	Host    Host
	Bundles Bundles
	// EC2 is a client with the permissions of AWSServiceRoleForAmazonEKS in that account.
	EC2 func(account, region string) EC2
	// Endpoints stands before the API servers.
	Endpoints Endpoints

	// Subscribe calls its argument, which does not block, with what happens to processes (optional).
	Subscribe func(func(process.Event)) (cancel func())
	// Secrets serves the KMS plugins of clusters with an encryption config; without it there are none (optional).
	Secrets SecretsPlugins
	// Webhooks are those of a cluster. The same cluster must always get the same
	// answer, because another one restarts its API server (optional).
	Webhooks func(record.Cluster) (Webhooks, error)
	// Stopped is called when all processes of a cluster that is being deleted have ended for good, before its
	// files are removed (optional).
	Stopped func(context.Context, record.Cluster) error
	// CloudProvider is a cluster's way to AWS; without it no cloud controller manager runs (optional).
	CloudProvider func(record.Cluster) (CloudProvider, error)
	// EgressSockets are Endpoints' EgressSocket and ManagedEgressSocket where machines have no networks: the unix
	// sockets at which simulated ones, and the rest, are found (optional).
	EgressSockets func(clusterID string) (cluster, managed string)
	// TrustedCertificates is the file with the certificate authorities by which API servers verify the identity
	// providers of users; those of the host when empty (optional).
	TrustedCertificates string

	Log   *slog.Logger     // slog.Default() when nil
	Clock clock.WithTicker // the real one when nil
	// StartTimeout is the time that one attempt waits for a new cluster's API server before it reports the problem and
	// tries again; 2 minutes when 0.
	StartTimeout time.Duration
	// UpgradeTimeout is the time that an upgrade waits for each new component before it fails; 2 minutes when 0.
	UpgradeTimeout time.Duration
	// Resync is the interval at which a cluster is reconciled without an event; 10 minutes when 0.
	Resync time.Duration
	// Workers is the number of clusters of one account that are reconciled at once, and of all accounts twice as many;
	// 32 when 0: they mostly wait.
	Workers int
}

// Controller reconciles the control planes of clusters.
type Controller struct {
	o     Options
	log   *slog.Logger
	clock clock.WithTicker

	clusters      store.Table[record.Cluster]
	planes        store.Table[record.ControlPlane]
	secrets       store.Table[record.ControlPlaneSecrets]
	issuers       store.Table[record.Issuer]
	updates       store.Table[record.Update]
	accessEntries store.Table[record.AccessEntry]
	refreshes     store.Table[record.InsightsRefresh]

	ports     *turn.Places // one, to choose ports; no account has two clusters that wait for others
	starts    *turn.Places // of new clusters at once; each account leaves one to others, as an API server may take long
	handovers *turn.Places // of API servers at once: the keys of many clusters may be due together
	polls     atomic.Int32 // how many wait by polling

	standbyKeys chan *rsa.PrivateKey

	mu        sync.Mutex
	keyOf     map[string]string // cluster key by cluster ID, of the clusters seen so far
	encrypted map[string]string // by cluster ID, the last Secret that has been encrypted again, while some are left
}

// The instructions at which a test kills the daemon.
var (
	crashSeen             = crash.At("controlplane/seen")
	crashBeforeKeys       = crash.At("controlplane/before-keys")
	crashKeys             = crash.At("controlplane/keys-stored")
	crashEtcdRole         = crash.At("controlplane/etcd-role-added")
	crashSecurityGroup    = crash.At("controlplane/security-group-created")
	crashInterface        = crash.At("controlplane/interface-created")
	crashPrepared         = crash.At("controlplane/prepared")
	crashAPIServerStarted = crash.At("controlplane/api-server-started")
	crashAPIServerReady   = crash.At("controlplane/api-server-ready")
	crashBootstrapped     = crash.At("controlplane/bootstrapped")
	crashBeforeReady      = crash.At("controlplane/before-ready")
	crashReady            = crash.At("controlplane/ready")

	crashHandoverStarted = crash.At("controlplane/handover-started")
	crashHandoverReady   = crash.At("controlplane/handover-ready")
	crashHandoverDone    = crash.At("controlplane/handover-done")
	crashUpgraded        = crash.At("controlplane/upgraded-components")
	crashUpgradeRecorded = crash.At("controlplane/upgrade-recorded")
	crashUpgradeFailing  = crash.At("controlplane/upgrade-failing")
	crashBeforeUpdateEnd = crash.At("controlplane/before-update-end")

	crashKeyAdded    = crash.At("controlplane/rotation-key-added")
	crashKeyAccepted = crash.At("controlplane/rotation-key-accepted")
	crashKeySigns    = crash.At("controlplane/rotation-key-signs")

	crashStopped          = crash.At("controlplane/delete-stopped")
	crashExpelled         = crash.At("controlplane/delete-expelled-from-etcd")
	crashInterfaceDeleted = crash.At("controlplane/delete-interface")
	crashDetached         = crash.At("controlplane/delete-detached")
	crashDirectory        = crash.At("controlplane/delete-directory-removed")
	crashDeleted          = crash.At("controlplane/delete-rows-removed")
)

// New returns a Controller, which does nothing until it is run.
func New(o Options) *Controller {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = 2 * time.Minute
	}
	if o.UpgradeTimeout == 0 {
		o.UpgradeTimeout = 2 * time.Minute
	}
	if o.Resync == 0 {
		o.Resync = 10 * time.Minute
	}
	if o.Workers == 0 {
		o.Workers = 32
	}
	atOnce := int64(2 * runtime.NumCPU()) // a starting API server sleeps half the time
	return &Controller{
		o:             o,
		log:           o.Log,
		clock:         o.Clock,
		clusters:      record.Clusters(o.Store),
		planes:        record.ControlPlanes(o.Store),
		secrets:       record.ControlPlaneSecretsTable(o.Store),
		issuers:       record.Issuers(o.Store),
		updates:       record.Updates(o.Store),
		accessEntries: record.AccessEntries(o.Store),
		refreshes:     record.InsightsRefreshes(o.Store),
		ports:         turn.Shared(1, 0),
		starts:        turn.Shared(atOnce, 1),
		handovers:     turn.Shared(atOnce, 1),
		standbyKeys:   make(chan *rsa.PrivateKey, standbyKeys),
		keyOf:         map[string]string{},
		encrypted:     map[string]string{},
	}
}

// Controller returns what reconcile.Run runs.
func (c *Controller) Controller() reconcile.Controller {
	return reconcile.Controller{
		Name:      "controlplane",
		Reconcile: c.Reconcile,
		Sources: []reconcile.Source{
			reconcile.Table(c.clusters, ""),
			reconcile.Mapped(c.updates, "", func(key string) []string {
				parts := store.Parts(key)
				return []string{record.ClusterKey(parts[0], parts[1], parts[2])}
			}),
			c.processes,
			c.secretsHealth,
		},
		Workers:    2 * c.o.Workers,
		Resync:     c.o.Resync,
		MaxBackoff: 15 * time.Second,
		Clock:      c.o.Clock,

		AccountWorkers: c.o.Workers, Timeout: passTimeout,
	}
}

// passTimeout ends a pass that takes longer: it may build the programs of a version. What waits for the API server of a
// cluster ends long before that, after StartTimeout or UpgradeTimeout.
const passTimeout = time.Hour

// processes sends the keys of clusters when one of their processes has started or died.
func (c *Controller) processes(ctx context.Context, changed func(string)) {
	if c.o.Subscribe == nil {
		<-ctx.Done()
		return
	}
	cancel := c.o.Subscribe(func(e process.Event) {
		if !e.Died && e.Status.Deaths == 0 {
			return // a start that somebody asked for
		}
		c.mu.Lock()
		key, known := c.keyOf[clusterOf(e.Name)]
		c.mu.Unlock()
		if known {
			changed(key)
		}
	})
	defer cancel()
	<-ctx.Done()
}

// secretsHealth sends the keys of clusters whose KMS key has become unusable, or usable again.
func (c *Controller) secretsHealth(ctx context.Context, changed func(string)) {
	if c.o.Secrets != nil {
		c.o.Secrets.Subscribe(func(clusterID string) {
			c.mu.Lock()
			key, known := c.keyOf[clusterID]
			c.mu.Unlock()
			if known && ctx.Err() == nil {
				changed(key)
			}
		})
	}
	<-ctx.Done()
}

// Reconcile reconciles the cluster with the given key.
func (c *Controller) Reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	row, err := c.clusters.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	cluster := row.Value
	c.mu.Lock()
	c.keyOf[cluster.ID] = key
	c.mu.Unlock()
	if cluster.Deleting {
		return reconcile.Result{}, c.deletePlane(ctx, cluster)
	}
	plane, err := c.ensureObserved(ctx, cluster)
	if err != nil || plane.Failed != "" {
		return reconcile.Result{}, err
	}

	// A cluster that is deleted meanwhile is not waited for.
	ctx, release := c.whileWanted(ctx, cluster)
	defer release()
	minor, err := c.wantedVersion(ctx, cluster)
	if err != nil {
		return reconcile.Result{}, err
	}
	return c.recordOutcome(ctx, cluster, c.Converge(ctx, cluster, plane, minor))
}

// errUnwanted is the cause that ends what is done for a cluster which is being deleted.
var errUnwanted = errors.New("the cluster is being deleted")

// recordOutcome records the health of the cluster and returns when to reconcile it again.
func (c *Controller) recordOutcome(ctx context.Context, cluster record.Cluster, err error) (reconcile.Result, error) {
	if errors.Is(context.Cause(ctx), errUnwanted) {
		return reconcile.Result{}, nil // the change of the row has queued the key again
	}
	if ctx.Err() != nil {
		return reconcile.Result{}, ctx.Err()
	}
	issues, after := c.checkHealth(cluster, err)
	if errors.Is(err, errSecretsKey) {
		err, after = nil, time.Minute // it is reconciled as soon as the key can be used
	}
	observed := c.observe(ctx, cluster, func(p *record.ControlPlane) { p.Health = issues })
	if err != nil || observed != nil {
		return reconcile.Result{}, errors.Join(err, observed)
	}
	due, err := c.renewalDue(cluster.ID)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !due.IsZero() {
		until := max(due.Sub(c.clock.Now()), time.Second)
		if after == 0 || until < after {
			after = until
		}
	}
	return reconcile.Result{After: after}, nil
}

// whileWanted returns a context that ends with ctx, or when the cluster is deleted.
func (c *Controller) whileWanted(ctx context.Context, cluster record.Cluster) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching conc.WaitGroup
	watching.Go(func() {
		c.clusters.Notify(ctx, cluster.Key(), func(string) {
			row, err := c.clusters.Get(ctx, cluster.Key())
			if errors.Is(err, store.ErrNotFound) || err == nil && (row.Value.Deleting || row.Value.ID != cluster.ID) {
				cancel(errUnwanted)
			}
		})
	})
	return ctx, func() {
		cancel(nil)
		watching.Wait()
	}
}

// ensureObserved returns the observed record of the cluster, and creates it in the first pass.
func (c *Controller) ensureObserved(ctx context.Context, cluster record.Cluster) (record.ControlPlane, error) {
	row, err := c.planes.Get(ctx, cluster.Key())
	if errors.Is(err, store.ErrNotFound) {
		row, err = c.planes.Create(ctx, cluster.Key(), record.ControlPlane{
			ClusterID: cluster.ID, ObservedAt: c.clock.Now().UTC(),
		})
		crashSeen.Here()
	}
	return row.Value, err
}

// observe applies change to the observed record of the cluster, and writes it if it differs. change must replace
// pointers, and not change the values behind them.
func (c *Controller) observe(ctx context.Context, cluster record.Cluster, change func(*record.ControlPlane)) error {
	for {
		row, err := c.planes.Get(ctx, cluster.Key())
		if err != nil {
			return err
		}
		before := row.Value
		change(&row.Value)
		if reflect.DeepEqual(before, row.Value) {
			return nil
		}
		row.Value.ObservedAt = c.clock.Now().UTC()
		if _, err = c.planes.Update(ctx, row); !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

// wantedVersion returns the minor version that should serve.
func (c *Controller) wantedVersion(ctx context.Context, cluster record.Cluster) (string, error) {
	last, err := c.lastUpdate(ctx, cluster)
	return cluster.WantedVersion(last), err
}

// lastUpdate returns the newest update of the cluster itself, or zero.
func (c *Controller) lastUpdate(ctx context.Context, cluster record.Cluster) (record.Update, error) {
	if cluster.LastUpdateID == "" {
		return record.Update{}, nil
	}
	row, err := c.updates.Get(ctx, record.UpdateKey(cluster.Account, cluster.Region, cluster.Name,
		cluster.LastUpdateID))
	if errors.Is(err, store.ErrNotFound) {
		return record.Update{}, nil
	}
	return row.Value, err
}

// openUpdates returns the cluster's own updates that are in progress, but for those of its logging: who ships the logs
// ends them.
func (c *Controller) openUpdates(ctx context.Context, cluster record.Cluster) ([]store.Row[record.Update], error) {
	rows, err := c.updates.List(ctx, store.Prefix(cluster.Account, cluster.Region, cluster.Name))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(rows, func(r store.Row[record.Update]) bool {
		u := r.Value
		return u.ClusterID != cluster.ID || u.NodegroupName != "" || u.AddonName != "" || u.CapabilityName != "" ||
			u.Type == ekstypes.UpdateTypeLoggingUpdate || u.Status != ekstypes.UpdateStatusInProgress
	}), nil
}

// endUpdates marks updates Successful, or Failed when failure says why.
func (c *Controller) endUpdates(ctx context.Context, rows []store.Row[record.Update], failure error) error {
	for _, row := range rows {
		crashBeforeUpdateEnd.Here()
		_, err := c.updates.Modify(ctx, row.Key, func(u *record.Update) error {
			if u.Status != ekstypes.UpdateStatusInProgress {
				return nil
			}
			u.Status = ekstypes.UpdateStatusSuccessful
			if failure != nil {
				message := record.Reason(failure.Error())
				u.Status = ekstypes.UpdateStatusFailed
				u.Errors = append(u.Errors, ekstypes.ErrorDetail{ErrorCode: ekstypes.ErrorCodeUnknown,
					ErrorMessage: &message})
			}
			return nil
		})
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("end update %s: %w", row.Value.ID, err)
		}
	}
	return nil
}

// clusterDir returns a path in the cluster's directory.
func (c *Controller) clusterDir(clusterID string, elements ...string) string {
	return filepath.Join(append([]string{c.o.Dir, clusterID}, elements...)...)
}
