// Package apiserver keeps connections to the API servers of clusters open for controllers.
//
// [Connections] belong to one user of EKS, such as eks:node-manager. While [Connections.Follow] runs, every cluster
// whose control plane is ready, and in which the user has something to do, has one [Connection], with a watch that its
// owner runs on it; [Connections.Get] returns it. A connection that fails is opened again, after a delay that grows to
// two seconds: an API server that restarts is available by then. An idle connection costs a socket and one bookmark per
// minute.
//
// The package reads the tables of clusters and control planes and writes nothing.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/sourcegraph/conc"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/recovery"
	"github.com/coracle-eks/coracle/internal/store"
)

// Options configures Connections. All fields are required, except those marked optional.
type Options struct {
	Store *store.Store
	// Config returns the client configuration of a user for the API server of a cluster.
	Config func(ctx context.Context, cluster record.Cluster, user string, groups ...string) (*rest.Config, error)
	// User is the user name, such as "eks:node-manager", and Agent the user agent in the audit log.
	User, Agent string
	// What names the work, for logs: "watch nodes".
	What string
	// Wanted reports whether there is something to do in the cluster with the given key; always when nil. It is called
	// again for each key from Wakes, a source of keys of clusters. Both are optional.
	Wanted func(ctx context.Context, key string) bool
	Wakes  reconcile.Source
	Log    *slog.Logger // slog.Default() when nil
}

// Connection is a connection to the API server of a cluster.
type Connection struct {
	Key     string // of the cluster
	Cluster record.Cluster
	// Config and HTTP create clients of client-go. They share one network connection, which is closed with this
	// Connection: client-go's own transport cache would keep it, and its certificate, forever.
	Config *rest.Config
	HTTP   *http.Client
}

// Connections are the connections of one user. Create them with [New].
type Connections[T any] struct {
	o        Options
	clusters store.Table[record.Cluster]
	planes   store.Table[record.ControlPlane]

	mu    sync.Mutex
	open  map[string]T
	since map[string]failure
}

type failure struct {
	at  time.Time
	err error
}

// New returns Connections, none of which is open yet.
func New[T any](o Options) *Connections[T] {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Connections[T]{
		o: o, clusters: record.Clusters(o.Store), planes: record.ControlPlanes(o.Store), open: map[string]T{},
		since: map[string]failure{},
	}
}

// Get returns what Work opened for the cluster with the given key; false while there is no connection.
func (c *Connections[T]) Get(key string) (T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.open[key]
	return t, ok
}

// Failing returns since when, and why, the connection to a cluster has failed; zero when it is open, or is opened for
// the first time.
func (c *Connections[T]) Failing(key string) (time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since[key].at, c.since[key].err
}

// Work is the function that the owner of Connections runs for each of them until ctx ends or the API server goes away.
// It calls open, once, with the value that Get returns to others, as soon as the connection serves.
type Work[T any] func(ctx context.Context, k *Connection, open func(T)) error

// worker is the goroutine that works on one cluster.
type worker struct {
	clusterID, endpoint string
	stop                context.CancelFunc
	stopped             bool
	ended               chan struct{} // closed when the work has ended
}

// Follow works on every cluster until ctx ends. One piece of work at a time works on a cluster, and one that takes its
// time to end holds up no other cluster.
func (c *Connections[T]) Follow(ctx context.Context, work Work[T]) {
	var mu sync.Mutex // of running: two sources tell
	running := map[string]*worker{}
	var working conc.WaitGroup
	look := func(key string) {
		mu.Lock()
		defer mu.Unlock()
		row, err := c.planes.Get(ctx, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			c.o.Log.Error("cannot "+c.o.What, "cluster", key, "error", err)
			return
		}
		plane := row.Value // of no cluster, if the row is gone
		wanted := plane.Ready && (c.o.Wanted == nil || c.o.Wanted(ctx, key))
		was, ok := running[key]
		if ok && wanted && !was.stopped && was.clusterID == plane.ClusterID &&
			was.endpoint == plane.Endpoint {
			return
		}
		if ok {
			was.stop()
			was.stopped = true
		}
		if !wanted || ctx.Err() != nil {
			return
		}
		within, stop := context.WithCancel(ctx)
		w := &worker{clusterID: plane.ClusterID, endpoint: plane.Endpoint, stop: stop, ended: make(chan struct{})}
		running[key] = w
		working.Go(func() {
			defer close(w.ended)
			if ok {
				<-was.ended
			}
			recovery.Repeat(within, c.o.Log, c.o.What, func() { c.maintainConnection(within, key, w.clusterID, work) })
			<-within.Done() // the cluster may be gone before its control plane is
			mu.Lock()
			defer mu.Unlock()
			if running[key] == w {
				delete(running, key)
			}
		})
	}
	var telling conc.WaitGroup
	if c.o.Wakes != nil {
		telling.Go(func() { c.o.Wakes(ctx, look) })
	}
	c.planes.Notify(ctx, "", look)
	telling.Wait()
	working.Wait()
}

// maintainConnection stays connected to one cluster until ctx ends or the cluster is gone.
func (c *Connections[T]) maintainConnection(ctx context.Context, key, clusterID string, work Work[T]) {
	backoff := client.Backoff{First: 50 * time.Millisecond, Most: 2 * time.Second}
	warned := false
	defer c.clearFailure(key)
	for ctx.Err() == nil {
		began := time.Now()
		k, err := c.connect(ctx, key, clusterID)
		if errors.Is(err, store.ErrNotFound) {
			return
		}
		if err == nil {
			err = recovery.Try(func() error {
				return work(ctx, k, func(t T) {
					c.clearFailure(key)
					c.mu.Lock()
					defer c.mu.Unlock()
					c.open[key] = t
				})
			})
			c.mu.Lock()
			delete(c.open, key)
			c.mu.Unlock()
			utilnet.CloseIdleConnectionsFor(k.HTTP.Transport)
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("the connection has ended")
		}
		c.recordFailure(key, err)
		wait := backoff.After(time.Since(began))
		if !backoff.Exhausted() {
			warned = false
		} else if !warned {
			warned = true
			c.o.Log.Warn("cannot "+c.o.What+"; trying on", "cluster", key, "error", client.Cut(err.Error()))
		}
		_ = client.Sleep(ctx, wait) // the loop asks ctx
	}
}

func (c *Connections[T]) recordFailure(key string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.since[key].at
	if at.IsZero() {
		at = time.Now()
	}
	// Of an error only the text counts from here on. Those of client-go may hold all that the API server has answered.
	c.since[key] = failure{at, errors.New(client.Cut(err.Error()))}
}

func (c *Connections[T]) clearFailure(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.since, key)
}

// connect makes a connection of its own.
func (c *Connections[T]) connect(ctx context.Context, key, clusterID string) (*Connection, error) {
	row, err := c.clusters.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if row.Value.ID != clusterID {
		return nil, fmt.Errorf("cluster %s: %w", key, store.ErrNotFound)
	}
	config, err := c.o.Config(ctx, row.Value, c.o.User)
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.UserAgent = c.o.Agent
	connections, err := client.HTTP(config, row.Value.Name)
	if err != nil {
		return nil, err
	}
	return &Connection{Key: key, Cluster: row.Value, Config: config, HTTP: connections}, nil
}
