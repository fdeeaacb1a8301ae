// Package capability runs EKS capabilities: programs of EKS that work in a cluster and run outside of it.
//
// The API layer (internal/aws/eks/capability) records the desired state, a [record.Capability] and the access entry of
// its role, and an update in progress, a [record.Update]. The [Controller]
//
//   - builds the program of a capability (program.go): that of kro from its module. Those of Argo CD and ACK are not
//     available here, and their capabilities end in CREATE_FAILED with an issue that says why (unavailable.go),
//   - runs it as a process of this host that outlives the daemon (program.go), with a token of the capability's role,
//     as whom it acts in the cluster (token.go): arn:aws:sts::<account>:assumed-role/<role>/KRO,
//   - installs its CustomResourceDefinitions in the cluster, as the same user (definitions.go), and
//   - ends the process of a capability that is deleted, and leaves what it made in the cluster (delete.go).
//
// It is the only writer of [record.CapabilityState], ends the updates of capabilities, and deletes the records of those
// that are gone. Every step is idempotent: the process and the files of a capability are named by its ID.
//
// https://docs.aws.amazon.com/eks/latest/userguide/capabilities.html
package capability

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/upstream"
)

// Host runs the programs. It restarts those that exit, and they outlive the daemon. *process.Supervisor implements it.
type Host interface {
	// Ensure starts the process, or replaces the one of that name that runs with another specification.
	Ensure(ctx context.Context, spec process.Spec) (process.Status, error)
	// Stop ends the process and returns when it is gone. It is no error that there is none.
	Stop(ctx context.Context, name string) error
}

// Programs builds the programs. *upstream.Components implements it.
type Programs interface {
	// Ensure builds the programs of a component that are missing.
	Ensure(ctx context.Context, b catalog.Build, report func(upstream.Progress)) error
	// Path returns the file of a program that has been built.
	Path(b catalog.Build, name string) (string, error)
	// Data returns the content of a file of data of a component.
	Data(b catalog.Build, name string) ([]byte, error)
}

// Options configures a Controller. All fields but those marked optional must be set.
type Options struct {
	Store *store.Store
	// Dir is the directory of the capabilities' files, with one directory for each, named by its ID.
	Dir      string
	Host     Host
	Programs Programs
	// Config returns the configuration of a client of a cluster's API server, as the given user.
	Config func(ctx context.Context, cluster record.Cluster, user string, groups ...string) (*rest.Config, error)
	// Token returns a token with which the role of a capability, in a session of that name, logs in to the cluster. It is
	// valid for at least [tokenLife]. The error is an [AccessDenied] when EKS may not assume the role.
	Token func(ctx context.Context, c record.Capability, roleARN, session string) (string, error)

	// Subscribe calls its argument, which does not block, with what happens to processes (optional).
	Subscribe func(func(process.Event)) (cancel func())
	// CreateTimeout is the time for which the creation of a capability is tried once its program is built; 15 minutes
	// when 0. UpdateTimeout is that of an update; 5 minutes when 0.
	CreateTimeout, UpdateTimeout time.Duration
	Now                          func() time.Time // time.Now when nil
	Log                          *slog.Logger     // slog.Default() when nil
}

// AccessDenied is the error of a role that EKS may not assume, with the reason.
type AccessDenied struct{ Reason string }

func (e *AccessDenied) Error() string { return e.Reason }

// Controller runs the capabilities of all clusters.
type Controller struct {
	o            Options
	log          *slog.Logger
	capabilities store.Table[record.Capability]
	states       store.Table[record.CapabilityState]
	clusters     store.Table[record.Cluster]
	planes       store.Table[record.ControlPlane]
	updates      store.Table[record.Update]

	mu    sync.Mutex
	keyOf map[string]string // the key of a capability by its ID
}

// New returns a Controller, which does nothing until it is run.
func New(o Options) *Controller {
	if o.CreateTimeout == 0 {
		o.CreateTimeout = 15 * time.Minute
	}
	if o.UpdateTimeout == 0 {
		o.UpdateTimeout = 5 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Controller{
		o: o, log: o.Log, keyOf: map[string]string{},
		capabilities: record.Capabilities(o.Store),
		states:       record.CapabilityStates(o.Store),
		clusters:     record.Clusters(o.Store),
		planes:       record.ControlPlanes(o.Store),
		updates:      record.Updates(o.Store),
	}
}

// buildTimeout ends a pass that builds a program, and passTimeout bounds all that others do, and what comes after the
// build.
const buildTimeout, passTimeout = time.Hour, time.Minute

// Controllers returns the controllers that reconcile.Run runs. A key is that of a capability.
func (c *Controller) Controllers() []reconcile.Controller {
	return []reconcile.Controller{{
		Name:      "capability",
		Reconcile: c.Reconcile,
		Sources: []reconcile.Source{
			reconcile.Table(c.capabilities, ""),
			reconcile.Mapped(c.planes, "", reconcile.Below(c.capabilities, record.ClusterKeyParts)),
			c.processes,
		},
		Workers:    16,
		Resync:     10 * time.Minute,
		MaxBackoff: 15 * time.Second,

		AccountWorkers: 8, ClusterWorkers: 4, Timeout: buildTimeout,
	}}
}

// processes sends the keys of capabilities whose process has died.
func (c *Controller) processes(ctx context.Context, changed func(string)) {
	if c.o.Subscribe == nil {
		<-ctx.Done()
		return
	}
	cancel := c.o.Subscribe(func(e process.Event) {
		id, ours := strings.CutPrefix(e.Name, processPrefix)
		if !ours || !e.Died {
			return
		}
		c.mu.Lock()
		key, known := c.keyOf[id]
		c.mu.Unlock()
		if known {
			changed(key)
		}
	})
	defer cancel()
	<-ctx.Done()
}

// pass is one reconcile pass over one capability.
type pass struct {
	c       *Controller
	row     record.Capability
	last    record.Update // the newest update; zero before the first
	cluster record.Cluster
	plane   record.ControlPlane
	// state is the known state; steps change it, and saveState writes it.
	state record.CapabilityState
	saved store.Row[record.CapabilityState] // no revision before it was written
}

// Reconcile reconciles the capability with the given key.
func (c *Controller) Reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	p, err := c.load(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{Gone: true}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if p.row.Deleting {
		ctx, cancel := context.WithTimeout(ctx, passTimeout)
		defer cancel()
		if err := p.remove(ctx); err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{Gone: true}, nil
	}
	after, err := p.converge(ctx)
	if errors.Is(context.Cause(ctx), errUnwanted) {
		return reconcile.Result{}, nil // the change of the record has queued the key again
	}
	if err != nil {
		err = fmt.Errorf("reconcile capability %s of cluster %s: %w", p.row.Name, p.row.Cluster, err)
	}
	return reconcile.Result{After: after}, errors.Join(err, p.saveState(ctx))
}

func (c *Controller) load(ctx context.Context, key string) (*pass, error) {
	row, err := c.capabilities.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	p := &pass{c: c, row: row.Value}
	c.mu.Lock()
	c.keyOf[p.row.ID] = key
	c.mu.Unlock()
	if p.saved, err = c.states.Copy(ctx, key); store.IgnoreNotFound(err) != nil {
		return nil, err
	}
	p.state = record.CapabilityState{CapabilityID: p.row.ID}
	if p.saved.Value.CapabilityID == p.row.ID {
		p.state = p.saved.Value
		if p.saved, err = c.states.Copy(ctx, key); err != nil { // one to change, one to compare with
			return nil, err
		}
	}
	clusterKey := record.ClusterKey(p.row.Account, p.row.Region, p.row.Cluster)
	cluster, err := c.clusters.Get(ctx, clusterKey)
	if err != nil {
		return nil, err
	}
	plane, err := c.planes.Get(ctx, clusterKey)
	if store.IgnoreNotFound(err) != nil {
		return nil, err
	}
	p.cluster, p.plane = cluster.Value, plane.Value
	if p.row.LastUpdateID == "" {
		return p, nil
	}
	last, err := c.updates.Get(ctx, record.UpdateKey(p.row.Account, p.row.Region, p.row.Cluster, p.row.LastUpdateID))
	p.last = last.Value
	return p, store.IgnoreNotFound(err)
}

// saveState writes the observed state of the capability if it has changed.
func (p *pass) saveState(ctx context.Context) error {
	if p.saved.Revision != 0 && reflect.DeepEqual(p.saved.Value, p.state) {
		return nil
	}
	p.state.ModifiedAt = p.c.o.Now().UTC().Truncate(time.Millisecond)
	key := p.row.Key()
	var err error
	if p.saved.Revision == 0 {
		_, err = p.c.states.Create(ctx, key, p.state)
	} else {
		// The API server decides how often, and with which texts.
		_, err = p.c.states.Update(store.Paced(ctx), store.Row[record.CapabilityState]{
			Key: key, Value: p.state, Revision: p.saved.Revision,
		})
	}
	if err == nil {
		p.saved, err = p.c.states.Copy(ctx, key)
	}
	return err
}

// issueOf returns an issue of the health of a capability.
func issueOf(code ekstypes.CapabilityIssueCode, message string) ekstypes.CapabilityIssue {
	return ekstypes.CapabilityIssue{Code: code, Message: &message}
}
