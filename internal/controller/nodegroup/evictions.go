package nodegroup

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sourcegraph/conc"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/recovery"
)

// attention is the time for which the pods of a node are watched after a request for it. A drain repeats its request.
const attention = time.Minute

// attentionLeast is the minimum time until the same pods are watched again: the start of a watch wakes the drain, which
// asks for the watch again if it has ended.
const attentionLeast = 5 * time.Second

// evictions tell groups what happens to the pods of the nodes that they drain, and to the traffic of these: as long as
// nobody drains nothing is watched.
type evictions struct {
	ctx     context.Context // of the connection
	log     *slog.Logger
	kube    kubernetes.Interface
	changed func(key string)
	running conc.WaitGroup

	mu     sync.Mutex
	nodes  map[string]string // the group that drains a node
	slices bool              // EndpointSlices are watched
}

// watchNode wakes a group, for a minute, whenever a pod has left a node, and once as soon as the watch begins.
func (e *evictions) watchNode(node, group string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.nodes[node] == "" {
		e.nodes[node] = group
		e.running.Go(func() {
			recovery.Repeat(e.ctx, e.log, "watch the pods of a node that is drained", func() { e.watchPods(node, group) })
		})
	}
	if !e.slices {
		e.slices = true
		e.running.Go(func() { recovery.Repeat(e.ctx, e.log, "watch the traffic of nodes that are drained", e.traffic) })
	}
}

func (e *evictions) watchPods(node, group string) {
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.nodes, node)
	}()
	e.runWatch(func(ctx context.Context, o metav1.ListOptions) (kubewatch.Interface, error) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
		return e.kube.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, o)
	}, func(what kubewatch.EventType) {
		if what == kubewatch.Deleted {
			e.changed(group)
		}
	}, func() { e.changed(group) })
}

// traffic wakes the draining groups on changes of EndpointSlices: a pod that is ready elsewhere may allow another's
// eviction, and a node may be done once its traffic has ended.
func (e *evictions) traffic() {
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.slices = false
	}()
	all := func() {
		e.mu.Lock()
		groups := map[string]bool{}
		for _, group := range e.nodes {
			groups[group] = true
		}
		e.mu.Unlock()
		for group := range groups {
			e.changed(group)
		}
	}
	e.runWatch(func(ctx context.Context, o metav1.ListOptions) (kubewatch.Interface, error) {
		o.LabelSelector = discoveryv1.LabelManagedBy + "=endpointslice-controller.k8s.io"
		return e.kube.DiscoveryV1().EndpointSlices(metav1.NamespaceAll).Watch(ctx, o)
	}, func(what kubewatch.EventType) {
		if what == kubewatch.Modified || what == kubewatch.Deleted {
			all()
		}
	}, all)
}

// runWatch calls tell with the events of a watch for a minute, and begun once it is established: changes from before
// are found then. It may end early; the drain checks again in any case when its time is up.
func (e *evictions) runWatch(start func(context.Context, metav1.ListOptions) (kubewatch.Interface, error),
	tell func(kubewatch.EventType), begun func()) {
	ctx, cancel := context.WithTimeout(e.ctx, attention)
	defer cancel()
	began := time.Now()
	defer func() { _ = client.Sleep(ctx, attentionLeast-time.Since(began)) }()
	w, err := start(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	defer w.Stop()
	begun()
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-w.ResultChan():
			if !open {
				return
			}
			tell(event.Type)
		}
	}
}
