package simulated

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/sourcegraph/conc"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/recovery"
	"github.com/coracle-eks/coracle/internal/store"
)

// watcher is the user that watches the pods of all nodes, in place of each node for itself.
const watcher = "coracle:simulated-machines"

// fleet is the simulated nodes of one cluster.
type fleet struct {
	c       *Controller
	cluster record.Cluster
	stop    context.CancelFunc
	play    *player

	nodes workqueue.TypedRateLimitingInterface[string] // names of nodes that have something to do
	work  workqueue.TypedRateLimitingInterface[podName]

	mu       sync.Mutex
	kubelets map[string]*kubelet // by name
	pods     map[podName]*pod    // of these nodes, and of those that may still come
	due      map[string]int      // bytes of what is due, by the node; see pod.payer
	full     bool                // there are more pods than are kept
	listed   bool                // pods has all that there are
	client   *http.Client        // nil while there is none
	host     string
}

// podName is a pod's namespace and name.
type podName struct{ namespace, name string }

// atOnce is the number of nodes, and of pods, that are worked on at a time. Each waits for a response nearly all the
// time, and an etcd on a busy disk writes a hundred records as fast as one.
const atOnce = 100

// The queues wait so long after failures at least and at most.
const (
	againFirst = 100 * time.Millisecond
	againMost  = 15 * time.Second
)

// newFleet starts the fleet of a cluster, which goes when the controllers end or its stop is called. c.mu is held.
func (c *Controller) newFleet(cluster record.Cluster) *fleet {
	ctx, stop := context.WithCancel(c.living)
	f := &fleet{
		c: c, cluster: cluster, stop: stop,
		nodes: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](
			againFirst, againMost)),
		work: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[podName](
			againFirst, againMost)),
		kubelets: map[string]*kubelet{}, pods: map[podName]*pod{}, due: map[string]int{},
	}
	f.play = newPlayer(f)
	c.fleetsUp.Go(func() {
		defer stop()
		f.run(ctx)
	})
	return f
}

// run simulates the nodes of the fleet until ctx ends.
func (f *fleet) run(ctx context.Context) {
	var working conc.WaitGroup
	defer working.Wait()
	working.Go(func() {
		recovery.Repeat(ctx, f.c.log, "follow the pods of simulated nodes", func() { f.followPods(ctx) })
	})
	for range atOnce {
		working.Go(func() {
			for stepNext(ctx, f.nodes, f.stepNode) {
			}
		})
		working.Go(func() {
			for stepNext(ctx, f.work, f.stepPod) {
			}
		})
	}
	<-ctx.Done()
	f.nodes.ShutDown()
	f.work.ShutDown()
}

// stepNext works on one key of a queue; it is false once there is nothing more to come.
func stepNext[K comparable](ctx context.Context, queue workqueue.TypedRateLimitingInterface[K],
	step func(context.Context, K) (time.Duration, error)) bool {
	key, down := queue.Get()
	if down {
		return false
	}
	defer queue.Done(key)
	if ctx.Err() != nil {
		return false
	}
	var again time.Duration
	err := recovery.Try(func() (err error) {
		again, err = step(ctx, key)
		return err
	})
	switch {
	case err != nil:
		queue.AddRateLimited(key)
	default:
		queue.Forget(key)
		if again > 0 {
			queue.AddAfter(key, again)
		}
	}
	return true
}

// add makes a machine a node. c.mu is held.
func (f *fleet) add(k *kubelet) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k.fleet = f
	f.kubelets[k.name] = k
	f.nodes.Add(k.name)
	for name, p := range f.pods { // of a node that was here before the daemon was
		if p.node == k.name {
			f.work.Add(name)
		}
	}
}

// remove takes a machine away and says whether it was the last. c.mu is held.
func (f *fleet) remove(k *kubelet) (last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kubelets[k.name] == k {
		delete(f.kubelets, k.name)
	}
	return len(f.kubelets) == 0
}

func (f *fleet) kubelet(name string) *kubelet {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.kubelets[name]
}

// errNotConnected reports that the API server could not be reached yet.
var errNotConnected = errors.New("the API server cannot be reached")

// connection returns a client and the address of the API server, without credentials.
func (f *fleet) connection() (*http.Client, string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.client, f.host
}

func (f *fleet) stepNode(ctx context.Context, name string) (time.Duration, error) {
	k := f.kubelet(name)
	if k == nil {
		return 0, nil
	}
	again, err := k.reconcileNode(ctx)
	if err != nil && ctx.Err() == nil && !errors.Is(err, errNotConnected) {
		if isStatus(err, http.StatusTooManyRequests) {
			return 0, err
		}
		k.complain(ctx, err)
	}
	if err == nil && k.refusal != "" && k.instance.Fargate != nil {
		k.refusal = ""
		k.reportFailure(ctx, "")
	}
	return again, err
}

// connect makes the connection to the API server, as everybody's, and a client of the watcher's.
func (f *fleet) connect(ctx context.Context) (corev1client.PodInterface, error) {
	row, err := f.c.clusters.Get(ctx, f.cluster.Key())
	if err == nil && row.Value.ID != f.cluster.ID {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	config, err := f.c.o.Config(ctx, row.Value, watcher, "system:masters")
	if err != nil {
		return nil, err
	}
	nodes := rest.AnonymousClientConfig(config)
	nodes.Dial = config.Dial
	plain, err := client.HTTP(nodes, row.Value.Name)
	if err != nil {
		return nil, err
	}
	own, err := client.HTTP(config, row.Value.Name)
	if err != nil {
		return nil, err
	}
	pods, err := corev1client.NewForConfigAndClient(config, own)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.client != nil {
		utilnet.CloseIdleConnectionsFor(f.client.Transport)
	}
	f.client, f.host = plain, config.Host
	return pods.Pods(metav1.NamespaceAll), nil
}

// followPods mirrors the pods of all nodes, until ctx ends or the cluster is gone.
func (f *fleet) followPods(ctx context.Context) {
	backoff := client.Backoff{First: againFirst, Most: againMost}
	for ctx.Err() == nil {
		began := time.Now()
		pods, err := f.connect(ctx)
		if errors.Is(err, store.ErrNotFound) {
			return
		}
		if err == nil {
			err = f.listAndWatch(ctx, pods)
		}
		if ctx.Err() != nil {
			return
		}
		if backoff.Exhausted() {
			f.c.log.Warn("cannot watch pods for the simulated nodes; trying on", "cluster", f.cluster.Name, "error",
				client.Cut(err.Error()))
		}
		_ = client.Sleep(ctx, backoff.After(time.Since(began))) // the loop asks ctx
	}
}

// scheduled are the pods that are bound to nodes.
const scheduled = "spec.nodeName!="

// listAndWatch lists the pods and follows their changes until the API server goes away.
func (f *fleet) listAndWatch(ctx context.Context, pods corev1client.PodInterface) error {
	seen := map[podName]struct{}{}
	from, err := client.EachPage(ctx, metav1.ListOptions{FieldSelector: scheduled}, pods.List,
		func(page *corev1.PodList) {
			for i := range page.Items {
				p := &page.Items[i]
				seen[podName{p.Namespace, p.Name}] = struct{}{}
				f.observePod(p)
			}
		})
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.listed = true
	var lost []podName
	for name := range f.pods {
		if _, ok := seen[name]; !ok {
			lost = append(lost, name)
		}
	}
	f.mu.Unlock()
	for _, name := range lost {
		f.forgetPod(name)
	}
	seen = nil
	return client.Watch(ctx, "pods", from, pods.Watch, metav1.ListOptions{FieldSelector: scheduled},
		func(what kubewatch.EventType, p *corev1.Pod) error {
			switch what {
			case kubewatch.Added, kubewatch.Modified:
				f.observePod(p)
			case kubewatch.Deleted:
				f.forgetPod(podName{p.Namespace, p.Name})
			}
			return nil
		})
}
