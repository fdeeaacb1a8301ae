package vpcresource

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/coracle-eks/coracle/internal/kube/apiserver"
	kubeclient "github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/recovery"
	"github.com/coracle-eks/coracle/internal/store"
)

var cniNodes = schema.GroupVersionResource{Group: "vpcresources.k8s.aws", Version: "v1alpha1", Resource: "cninodes"}

// The ConfigMap by which the cool-down of branch interfaces is set, in seconds.
const configNamespace, configName, configKey = "kube-system", "amazon-vpc-cni", "branch-eni-cooldown"

// Bounds of the cool-down: upstream's.
const defaultCoolDown, minCoolDown, maxCoolDown = time.Minute, 30 * time.Second, 24 * time.Hour

// maxSpecs bounds how many CNINodes are kept of those that are to be made again. The others lose their features.
const maxSpecs = 1024

// server reaches one cluster's API server, and has what it said.
type server struct {
	o       Options
	cluster record.Cluster
	core    corev1client.CoreV1Interface
	objects dynamic.Interface
	mirror  *mirror
	// coolDown is the time for which interfaces are kept that no pod has any more.
	coolDown atomic.Int64
	// wake has something in it when there may be nodes to tell.
	wake chan struct{}

	mu     sync.Mutex
	untold map[string]bool       // the nodes that are to be told
	states map[string]*nodeState // by the name of the node; a state is used by one pass at a time
	specs  map[string][]byte     // CNINodes that are to be made again, by name; at most maxSpecs
	writes map[string]*rate.Limiter
}

func newServer(o Options, k *apiserver.Connection) (*server, error) {
	core, err := corev1client.NewForConfigAndClient(k.Config, k.HTTP)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfigAndClient(k.Config, k.HTTP)
	if err != nil {
		return nil, err
	}
	s := &server{o: o, cluster: k.Cluster, core: core, objects: objects, mirror: newMirror(),
		wake: make(chan struct{}, 1), untold: map[string]bool{}, states: map[string]*nodeState{}, specs: map[string][]byte{},
		writes: map[string]*rate.Limiter{}}
	s.coolDown.Store(int64(defaultCoolDown))
	return s, nil
}

// watch sends the keys of the nodes of all clusters until ctx ends: the existing ones, then those that a change
// concerns.
func (c *Controller) watch(ctx context.Context, changed func(ctx context.Context, key string) error) {
	c.servers.Follow(ctx, func(ctx context.Context, connection *apiserver.Connection, open func(*server)) error {
		s, err := newServer(c.o, connection)
		if err != nil {
			return err
		}
		return s.follow(ctx, func(ctx context.Context, name string) error {
			return changed(ctx, store.Key(append(store.Parts(connection.Key), name)...))
		}, func() { open(s) })
	})
}

// tell has a node told. It does not wait: passes depend on what the mirror says, and it must not depend on them.
func (s *server) tell(name string) {
	if name == "" {
		return
	}
	s.mu.Lock()
	s.untold[name] = true
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default: // the teller is about to look
	}
}

// next takes one of the nodes that are to be told; "" when there is none.
func (s *server) next() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.untold {
		delete(s.untold, name)
		return name
	}
	return ""
}

// follow mirrors what concerns the controller until the API server goes away. It calls known once it has everything,
// and told with all nodes, and then with each that a change concerns.
func (s *server) follow(ctx context.Context, told func(context.Context, string) error, known func()) error {
	lists := []func(ctx context.Context, listed func()) error{s.followConfig, s.followNodes, s.followCNINodes,
		s.followPods}
	var remaining atomic.Int32
	remaining.Store(int32(len(lists)))
	complete := make(chan struct{})
	listed := func() {
		if remaining.Add(-1) == 0 {
			close(complete)
		}
	}
	group := recovery.Group(ctx)
	for _, follow := range lists {
		group.Go(func(ctx context.Context) error { return follow(ctx, listed) })
	}
	group.Go(func(ctx context.Context) error {
		select {
		case <-complete:
		case <-ctx.Done():
			return ctx.Err()
		}
		known() // before anything is told: whoever reconciles needs the connection
		for name := range s.mirror.names() {
			s.tell(name)
		}
		for {
			select {
			case <-s.wake:
			case <-ctx.Done():
				return ctx.Err()
			}
			for name := s.next(); name != ""; name = s.next() {
				if err := told(ctx, name); err != nil {
					return err
				}
			}
		}
	})
	return group.Wait()
}

// followAll lists objects, calls set with each, and listed; then set with each that changes, and remove with each that
// is gone.
func followAll[L interface {
	runtime.Object
	metav1.ListInterface
}, T interface {
	runtime.Object
	metav1.Object
}](ctx context.Context, what string, o metav1.ListOptions, list func(context.Context, metav1.ListOptions) (L, error),
	watch func(context.Context, metav1.ListOptions) (kubewatch.Interface, error), items func(L) []T,
	set func(T) error, remove func(T), listed func()) error {
	var failed error
	from, err := kubeclient.EachPage(ctx, o, list, func(page L) {
		for _, item := range items(page) {
			failed = errors.Join(failed, set(item))
		}
	})
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	listed()
	return kubeclient.Watch(ctx, what, from, watch, o, func(event kubewatch.EventType, item T) error {
		if event == kubewatch.Deleted {
			remove(item)
			return nil
		}
		return set(item)
	})
}

// pointers returns the addresses of copies, which do not hold the list.
func pointers[T any, P interface {
	*T
	DeepCopy() P
}](items []T) []P {
	all := make([]P, len(items))
	for i := range items {
		all[i] = P(&items[i]).DeepCopy()
	}
	return all
}

func (s *server) followConfig(ctx context.Context, listed func()) error {
	configs := s.core.ConfigMaps(configNamespace)
	set := func(m *corev1.ConfigMap) error {
		wait := defaultCoolDown
		if seconds, err := strconv.Atoi(m.Data[configKey]); err == nil {
			wait = min(max(time.Duration(min(seconds, 1<<20))*time.Second, minCoolDown), maxCoolDown)
		}
		s.coolDown.Store(int64(wait))
		return nil
	}
	return followAll(ctx, "ConfigMap "+configName,
		metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", configName).String()},
		configs.List, configs.Watch, func(l *corev1.ConfigMapList) []*corev1.ConfigMap { return pointers(l.Items) },
		set, func(*corev1.ConfigMap) { s.coolDown.Store(int64(defaultCoolDown)) }, listed)
}

func (s *server) followNodes(ctx context.Context, listed func()) error {
	nodes := s.core.Nodes()
	return followAll(ctx, "nodes", metav1.ListOptions{}, nodes.List, nodes.Watch,
		func(l *corev1.NodeList) []*corev1.Node { return pointers(l.Items) },
		func(n *corev1.Node) error {
			changed, err := s.mirror.setNode(n)
			if changed {
				s.tell(n.Name)
			}
			return err
		}, func(n *corev1.Node) {
			s.mirror.removeNode(n.Name)
			s.tell(n.Name)
		}, listed)
}

func (s *server) followCNINodes(ctx context.Context, listed func()) error {
	objects := s.objects.Resource(cniNodes)
	err := followAll(ctx, "CNINodes", metav1.ListOptions{}, objects.List, objects.Watch,
		func(l *unstructured.UnstructuredList) []*unstructured.Unstructured { return pointers(l.Items) },
		func(o *unstructured.Unstructured) error {
			s.tell(o.GetName())
			return s.mirror.setCNINode(o)
		}, func(o *unstructured.Unstructured) {
			s.mirror.removeCNINode(o.GetName())
			s.tell(o.GetName())
		}, listed)
	if apierrors.IsNotFound(err) {
		return errors.New("the cluster has no CustomResourceDefinition cninodes.vpcresources.k8s.aws yet")
	}
	return err
}

// followPods follows those, too, that are too large to be read: their interfaces are not to be deleted.
func (s *server) followPods(ctx context.Context, listed func()) error {
	ctx = kubeclient.WithPartial(ctx)
	pods := s.core.Pods(metav1.NamespaceAll)
	return followAll(ctx, "pods", metav1.ListOptions{}, pods.List, pods.Watch,
		func(l *corev1.PodList) []*corev1.Pod { return pointers(l.Items) },
		func(p *corev1.Pod) error {
			name, err := s.mirror.setPod(p)
			s.tell(name)
			return err
		}, func(p *corev1.Pod) {
			s.tell(s.mirror.removePod(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}))
		}, listed)
}
