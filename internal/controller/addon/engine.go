package addon

import (
	"context"
	"log/slog"
	"sync"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/kube/apiserver"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// engine keeps the add-ons that users create: it is to EKS's add-ons what EKS's own service is.
//
// The front (internal/aws/eks) writes what is wanted, a [record.Addon], and an update in progress, a [record.Update].
// The engine makes it so at the cluster's API server, as the user eks:addon-manager and with nothing but the API
// server's own server-side apply:
//
//   - it dry-runs every object first, so that a conflict or a refusal changes nothing (plan.go, ownership.go),
//   - sees to it that there are images for the pods (images.go),
//   - applies the objects in order and deletes those that a version no longer has (apply.go),
//   - waits for the pods (ready.go),
//   - takes back what others do to fields that EKS owns, and to no other (drift.go),
//   - says what is wrong in EKS's words (problem.go), and tries on until it isn't,
//   - and deletes the add-on, or gives up what it owns of it (remove.go).
//
// What it observed and how far it has come stands in [record.AddonState], which it alone writes; it also ends updates,
// and deletes the Addon row with the PodIdentityAssociation rows that belong to it. It may be killed anywhere: while
// objects are changed the state says so, and an add-on is only called ACTIVE once all of them are what one
// configuration makes of them.
//
// It wakes when rows change, or when one of its objects does (server.go). An add-on to which nothing happens costs
// nothing.
type engine struct {
	o        Options
	log      *slog.Logger
	now      func() time.Time
	addons   store.Table[record.Addon]
	states   store.Table[record.AddonState]
	updates  store.Table[record.Update]
	clusters store.Table[record.Cluster]
	planes   store.Table[record.ControlPlane]
	identity store.Table[record.PodIdentityAssociation]
	roles    store.Table[record.Role]
	servers  *apiserver.Connections[*server]
	images   *images
	// ofCluster gives the keys of the add-ons of the cluster whose key, or the key of what belongs to it, is given.
	ofCluster func(key string) []string
	// made is what an add-on's objects are; the catalog's, but for tests.
	made func(record.Cluster, record.ControlPlane, string, record.AddonConfig) (made, error)

	mu sync.Mutex
	// memory is about add-ons, by key. Losing it costs time, and nothing else.
	memory map[string]*memory
}

// memory is what need not be stored about an add-on.
type memory struct {
	tries    int                    // attempts in a row that failed
	since    map[string]time.Time   // since when a passing problem lasts, by its code and resources
	unready  time.Time              // since when pods are missing; zero when none are
	taken    map[string][]time.Time // when an object was lately taken back from somebody, by its resource ID
	verified string                 // what the objects were last compared with
}

// made is what an add-on is made of.
type made struct {
	Objects []catalog.Object
	Images  []catalog.Image
}

func newEngine(o Options) *engine {
	e := &engine{
		o: o, log: o.Log, now: func() time.Time { return time.Now().UTC() }, memory: map[string]*memory{},
		addons: record.Addons(o.Store), states: record.AddonStates(o.Store), updates: record.Updates(o.Store),
		clusters: record.Clusters(o.Store), planes: record.ControlPlanes(o.Store),
		identity: record.PodIdentityAssociations(o.Store), roles: record.Roles(o.Store),
		images: newImages(o.Provide, o.Patience),
	}
	e.made = e.fromCatalog
	e.ofCluster = reconcile.Below(e.addons, record.ClusterKeyParts)
	e.servers = apiserver.New[*server](apiserver.Options{
		Store: o.Store, Config: o.Config, User: User, Agent: agent, What: "watch the objects of add-ons", Log: o.Log,
		Wanted: func(_ context.Context, key string) bool { return len(e.ofCluster(key)) > 0 },
		Wakes:  reconcile.Mapped(e.addons, "", reconcile.Above(record.ClusterKeyParts)),
	})
	return e
}

// controller is what reconcile.Run runs. A key is that of an add-on.
func (e *engine) controller() reconcile.Controller {
	return reconcile.Controller{
		Name:      "addon",
		Reconcile: e.Reconcile,
		Sources: []reconcile.Source{
			reconcile.Table(e.addons, ""),
			reconcile.Table(e.states, ""),
			reconcile.Mapped(e.updates, "", e.ofUpdate),
			reconcile.Mapped(e.clusters, "", e.ofCluster),
			reconcile.Mapped(e.planes, "", e.ofCluster),
			reconcile.Mapped(e.roles, "", e.addonsForRole),
			e.images.watchImages,
			e.watchClusters,
		},
		Workers:    32,
		Resync:     30 * time.Minute,
		MaxBackoff: 15 * time.Second,

		AccountWorkers: 16, ClusterWorkers: 8, Timeout: passTimeout,
	}
}

// passTimeout bounds one pass over a cluster or an add-on, which asks an API server many times.
const passTimeout = 5 * time.Minute

// watchClusters tells the add-ons whose objects changed, of all clusters that have add-ons, until ctx ends.
func (e *engine) watchClusters(ctx context.Context, changed func(key string)) {
	e.servers.Follow(ctx, func(ctx context.Context, k *apiserver.Connection, open func(*server)) error {
		return e.serveCluster(ctx, k, open, changed)
	})
}

func (e *engine) ofUpdate(key string) []string {
	row, err := e.updates.Get(context.Background(), key)
	if err != nil || row.Value.AddonName == "" {
		return nil
	}
	at := store.Parts(key)
	return []string{record.AddonKey(at[0], at[1], at[2], row.Value.AddonName)}
}

// addonsForRole takes the key of an IAM role.
func (e *engine) addonsForRole(key string) []string {
	ctx := context.Background()
	rows, err := e.addons.List(ctx, store.Prefix(store.Parts(key)[0]))
	if err != nil {
		return nil // the resync looks again
	}
	var keys []string
	for _, row := range rows {
		for _, arn := range e.rolesOf(ctx, row.Value, row.Value.Wanted) {
			if record.RoleKey(row.Value.Account, roleName(arn)) == key {
				keys = append(keys, row.Key)
				break
			}
		}
	}
	return keys
}

// memoryOf is the memory of an add-on, for its one worker.
func (e *engine) memoryOf(key string) *memory {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, ok := e.memory[key]
	if !ok {
		m = &memory{since: map[string]time.Time{}, taken: map[string][]time.Time{}}
		e.memory[key] = m
	}
	return m
}

func (e *engine) forgetAddon(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.memory, key)
}

// fromCatalog renders an add-on for a cluster.
func (e *engine) fromCatalog(cluster record.Cluster, plane record.ControlPlane, name string,
	config record.AddonConfig) (made, error) {
	entry, _ := e.o.Catalog.Addon(name)
	version, ok := entry.Version(config.Version)
	if !ok {
		return made{}, &problem{issue: issueOf(ekstypes.AddonIssueCodeInternalFailure, "The catalog has no version "+
			config.Version+" of add-on "+name+
			" any more. Put it back, or update the add-on to a version that is there.")}
	}
	objects, err := version.Render(catalog.RenderOptions{Cluster: cluster, Endpoint: plane.Endpoint, Minor: plane.Version,
		Config: config})
	if err != nil {
		return made{}, &problem{issue: issueOf(ekstypes.AddonIssueCodeInternalFailure, "The objects of add-on "+name+
			" "+config.Version+" cannot be made: "+oneLine(err.Error()))}
	}
	return made{objects, version.ImagesIn(objects, cluster.Region, plane.Version)}, nil
}
