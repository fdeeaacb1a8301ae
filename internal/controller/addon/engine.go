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

// engine installs, updates and removes the add-ons that users create, as the add-on manager of EKS does.
//
// The API layer (internal/aws/eks) records the desired state, a [record.Addon], and an update in progress, a
// [record.Update]. The engine applies it to the cluster, as the user eks:addon-manager and with server-side apply
// alone. A reconcile pass (reconcile.go)
//
//   - applies every object in a dry run first, so that a conflict or a refusal changes nothing (plan.go, conflict.go,
//     ownership.go),
//   - builds or pulls the images that the pods need (images.go),
//   - applies the objects in order, and deletes those that a version no longer has (apply.go),
//   - waits for the pods (ready.go),
//   - reverts changes of others to fields that EKS owns, and to no others (drift.go),
//   - reports problems as health issues in EKS's words (problem.go), and retries,
//   - and deletes the objects of a deleted add-on, or gives up the ownership of their fields (remove.go).
//
// The engine alone writes the observed state and its progress, a [record.AddonState]. It also ends updates, and deletes
// the Addon record with the PodIdentityAssociation records that belong to it. It may be killed at any instruction: the
// state records that objects are being changed, and an add-on is ACTIVE only when all objects are applied in one
// configuration.
//
// A change of a record or of an object wakes it (server.go). An add-on without changes costs nothing.
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
	// addonsOfCluster gives the keys of the add-ons of a cluster, from its key or from the key of what belongs to it.
	addonsOfCluster func(key string) []string
	// render renders the objects of an add-on; from the catalog, except in tests.
	render func(record.Cluster, record.ControlPlane, string, record.AddonConfig) (renderedAddon, error)

	mu sync.Mutex
	// memory is about add-ons, by key. Losing it costs time, and nothing else.
	memory map[string]*memory
}

// memory is the state of an add-on that need not be stored.
type memory struct {
	tries    int                    // attempts in a row that failed
	since    map[string]time.Time   // since when a passing problem lasts, by its code and resources
	unready  time.Time              // since when pods are missing; zero when none are
	taken    map[string][]time.Time // when an object was lately taken back from somebody, by its resource ID
	verified string                 // what the objects were last compared with
}

// renderedAddon has the objects and images of an add-on.
type renderedAddon struct {
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
	e.render = e.renderFromCatalog
	e.addonsOfCluster = reconcile.Below(e.addons, record.ClusterKeyParts)
	e.servers = apiserver.New[*server](apiserver.Options{
		Store: o.Store, Config: o.Config, User: User, Agent: agent, What: "watch the objects of add-ons", Log: o.Log,
		Wanted: func(_ context.Context, key string) bool { return len(e.addonsOfCluster(key)) > 0 },
		Wakes:  reconcile.Mapped(e.addons, "", reconcile.Above(record.ClusterKeyParts)),
	})
	return e
}

// controller returns the controller that reconcile.Run runs. Its keys are those of add-ons.
func (e *engine) controller() reconcile.Controller {
	return reconcile.Controller{
		Name:      "addon",
		Reconcile: e.Reconcile,
		Sources: []reconcile.Source{
			reconcile.Table(e.addons, ""),
			reconcile.Table(e.states, ""),
			reconcile.Mapped(e.updates, "", e.addonForUpdate),
			reconcile.Mapped(e.clusters, "", e.addonsOfCluster),
			reconcile.Mapped(e.planes, "", e.addonsOfCluster),
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

// watchClusters sends the keys of the add-ons whose objects changed, of all clusters that have add-ons, until ctx ends.
func (e *engine) watchClusters(ctx context.Context, changed func(key string)) {
	e.servers.Follow(ctx, func(ctx context.Context, k *apiserver.Connection, open func(*server)) error {
		return e.serveCluster(ctx, k, open, changed)
	})
}

func (e *engine) addonForUpdate(key string) []string {
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

// memoryOf returns the memory of an add-on, for its one worker.
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

// renderFromCatalog renders an add-on for a cluster.
func (e *engine) renderFromCatalog(cluster record.Cluster, plane record.ControlPlane, name string,
	config record.AddonConfig) (renderedAddon, error) {
	entry, _ := e.o.Catalog.Addon(name)
	version, ok := entry.Version(config.Version)
	if !ok {
		return renderedAddon{}, &problem{issue: issueOf(ekstypes.AddonIssueCodeInternalFailure, "The catalog has no version "+
			config.Version+" of add-on "+name+
			" any more. Put it back, or update the add-on to a version that is there.")}
	}
	objects, err := version.Render(catalog.RenderOptions{Cluster: cluster, Endpoint: plane.Endpoint, Minor: plane.Version,
		Config: config})
	if err != nil {
		return renderedAddon{}, &problem{issue: issueOf(ekstypes.AddonIssueCodeInternalFailure, "The objects of add-on "+name+
			" "+config.Version+" cannot be made: "+oneLine(err.Error()))}
	}
	return renderedAddon{objects, version.ImagesIn(objects, cluster.Region, plane.Version)}, nil
}
