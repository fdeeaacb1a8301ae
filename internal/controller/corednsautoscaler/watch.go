package corednsautoscaler

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/coracle-eks/coracle/internal/kube/apiserver"
	"github.com/coracle-eks/coracle/internal/kube/client"
)

// server is a cluster's API server, with the size of the cluster.
type server struct {
	cluster string // its name, for logs
	apps    appsclient.DeploymentsGetter
	nodes   corev1client.NodesGetter

	mu      sync.Mutex
	cores   map[string]float64 // by the name of the node
	history history
}

func newServer(k *apiserver.Connection) (*server, error) {
	apps, err := appsclient.NewForConfigAndClient(k.Config, k.HTTP)
	if err != nil {
		return nil, err
	}
	nodes, err := corev1client.NewForConfigAndClient(k.Config, k.HTTP)
	if err != nil {
		return nil, err
	}
	return &server{cluster: k.Cluster.Name, apps: apps, nodes: nodes, cores: map[string]float64{}}, nil
}

// watchNodes calls changed with the keys of clusters whose size has changed, until ctx ends.
func (c *Controller) watchNodes(ctx context.Context, changed func(key string)) {
	c.servers.Follow(ctx, func(ctx context.Context, k *apiserver.Connection, open func(*server)) error {
		s, err := newServer(k)
		if err != nil {
			return err
		}
		return s.watch(ctx, func() { open(s) }, func() { changed(k.Key) })
	})
}

// watch calls known once all nodes are, and changed for every change of their number or their cores, until the API
// server goes away.
func (s *server) watch(ctx context.Context, known, changed func()) error {
	cores := map[string]float64{}
	from, err := client.EachPage(ctx, metav1.ListOptions{}, s.nodes.Nodes().List, func(page *corev1.NodeList) {
		for i := range page.Items {
			cores[page.Items[i].Name] = coresOf(&page.Items[i])
		}
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.cores = cores
	s.mu.Unlock()
	known()
	changed()
	return client.Watch(ctx, "nodes", from, s.nodes.Nodes().Watch, metav1.ListOptions{},
		func(what kubewatch.EventType, n *corev1.Node) error {
			s.mu.Lock()
			was, there := s.cores[n.Name]
			has := coresOf(n)
			if what == kubewatch.Deleted {
				delete(s.cores, n.Name)
			} else {
				s.cores[n.Name] = has
			}
			count := len(s.cores)
			s.mu.Unlock()
			if count > client.MaxObjects {
				return fmt.Errorf("there are more than %d nodes, %w", client.MaxObjects, client.ErrTooLarge)
			}
			if !there || what == kubewatch.Deleted || was != has {
				changed()
			}
			return nil
		})
}

func coresOf(n *corev1.Node) float64 {
	return min(max(n.Status.Capacity.Cpu().AsApproximateFloat64(), 0), maxCores)
}

// decide returns the number of replicas for the size of the cluster; see history.decide.
func (s *server) decide(now time.Time, replicas int32, b bounds) (want int32, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cluster := size{nodes: len(s.cores)}
	for _, cores := range s.cores {
		cluster.cores += cores
	}
	return s.history.decide(now, replicas, cluster.demand(), b)
}
