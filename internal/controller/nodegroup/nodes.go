package nodegroup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/coracle-eks/coracle/internal/kube/apiserver"
	"github.com/coracle-eks/coracle/internal/kube/awsauth"
	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/recovery"
	"github.com/coracle-eks/coracle/internal/store"
)

// server is a cluster's API server to eks:node-manager, with what it said of the nodes.
type server struct {
	kube      kubernetes.Interface
	nodes     cache.Indexer
	count     int // of nodes; only who follows them reads it
	size      int // of these nodes in the API's encoding, in bytes, likewise
	evictions *evictions
	auth      *awsauth.Client
	roles     atomic.Pointer[awsauth.Roles] // of mapRoles in aws-auth, as it was last heard of; nil without any
	names     sync.Map                      // the names of instances, []string, by their IDs
}

// byInstance finds nodes by the ID of their instance.
const byInstance = "instance"

// instanceOf returns the ID of the EC2 instance that a node says it is, empty before it has:
// "aws:///eu-west-1a/i-0123…". Whoever
// is root on a node may write that of another instance; see [server.node].
func instanceOf(n *corev1.Node) string {
	if !strings.HasPrefix(n.Spec.ProviderID, "aws:") {
		return ""
	}
	return n.Spec.ProviderID[strings.LastIndexByte(n.Spec.ProviderID, '/')+1:]
}

func indexByInstance(o any) ([]string, error) {
	if id := instanceOf(o.(*corev1.Node)); id != "" {
		return []string{id}, nil
	}
	return nil, nil
}

// claimed reports whether a node says that it is an instance.
func (s *server) claimed(instance string) bool {
	found, err := s.nodes.ByIndex(byInstance, instance)
	return err == nil && len(found) > 0
}

// nodeOfInstance returns the node of an instance that has these names, nil before it has registered. A node's name is
// that of its identity, which it cannot choose. Those that only say they are the instance, with another name, are not.
func (s *server) nodeOfInstance(instance string, names []string) *corev1.Node {
	found, err := s.nodes.ByIndex(byInstance, instance)
	if err != nil {
		return nil
	}
	for _, o := range found {
		if n := o.(*corev1.Node); slices.Contains(names, strings.ToLower(n.Name)) {
			return n
		}
	}
	return nil
}

// watchNodes sends the keys of the groups whose nodes changed, of all clusters that have groups, until ctx ends.
func (c *Controller) watchNodes(ctx context.Context, changed func(key string)) {
	c.servers.Follow(ctx, func(ctx context.Context, k *apiserver.Connection, open func(*server)) error {
		clients, err := kubernetes.NewForConfigAndClient(k.Config, k.HTTP)
		if err != nil {
			return err
		}
		watching, stop := context.WithCancel(ctx)
		e := &evictions{ctx: watching, log: c.log, kube: clients, changed: changed, nodes: map[string]string{}}
		defer func() { stop(); e.running.Wait() }()
		s := &server{
			kube:      clients,
			evictions: e,
			auth:      awsauth.NewClient(clients.CoreV1(), k.Cluster.Account),
			nodes:     cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{byInstance: indexByInstance}),
		}
		all := func() {
			for _, key := range c.ofCluster(k.Key) {
				changed(key)
			}
		}
		defer all() // they are cut off
		var known atomic.Int32
		one := func() {
			if known.Add(1) == 2 { // the nodes and aws-auth: nobody acts on one without the other
				open(s)
				all()
			}
		}
		group := recovery.Group(ctx)
		group.Go(func(ctx context.Context) error { return s.followAuth(ctx, one, all) })
		group.Go(func(ctx context.Context) error {
			return s.followNodes(ctx, one, func(n *corev1.Node) {
				for _, key := range c.groupsOfNode(k.Key, n) {
					changed(key)
				}
			})
		})
		return group.Wait()
	})
}

// groupsOfNode returns the groups of a node: by its label, which a user may have given it, and by its instance.
func (c *Controller) groupsOfNode(cluster string, n *corev1.Node) []string {
	at := store.Parts(cluster)
	if name := n.Labels[groupLabel]; name != "" {
		key := record.NodegroupKey(at[0], at[1], at[2], name)
		if _, err := c.groups.Get(context.Background(), key); errors.Is(err, store.ErrNotFound) {
			return nil // an API server may make up any number of names
		}
		return []string{key}
	}
	if id := instanceOf(n); id != "" {
		return c.ofMember(record.EC2Key(at[0], at[1], id))
	}
	return nil
}

// followNodes mirrors the nodes of the cluster until the API server goes away. It calls known once it has them, and
// tell with each change after that.
func (s *server) followNodes(ctx context.Context, known func(), tell func(*corev1.Node)) error {
	nodes := s.kube.CoreV1().Nodes()
	var all []any
	from, err := client.EachPage(ctx, metav1.ListOptions{}, nodes.List, func(page *corev1.NodeList) {
		for i := range page.Items {
			n := page.Items[i] // copied: one must not hold a page of them
			all = append(all, trimNode(&n))
		}
	})
	if err != nil {
		return err
	}
	if err := s.nodes.Replace(all, from); err != nil {
		return err
	}
	s.count, s.size = 0, 0
	for _, o := range s.nodes.List() {
		s.count, s.size = s.count+1, s.size+o.(*corev1.Node).Size()
	}
	if err := checkSize(s.count, s.size); err != nil {
		return err
	}
	known()
	return client.Watch(
		ctx,
		"nodes",
		from,
		nodes.Watch,
		metav1.ListOptions{},
		func(what kubewatch.EventType, n *corev1.Node) error {
			return s.applyEvent(what, trimNode(n), tell)
		},
	)
}

// maxNodes is the maximum size in bytes of all nodes of a cluster, as trimNode leaves them: 64 MiB are fifteen thousand
// nodes of EKS.
const maxNodes = 64 << 20

func checkSize(count, size int) error {
	if count > client.MaxObjects {
		return fmt.Errorf("there are more than %d nodes, %w", client.MaxObjects, client.ErrTooLarge)
	}
	if size > maxNodes {
		return fmt.Errorf("the nodes are larger than %d MiB together, %w", maxNodes>>20, client.ErrTooLarge)
	}
	return nil
}

func (s *server) applyEvent(what kubewatch.EventType, n *corev1.Node, tell func(*corev1.Node)) error {
	var was *corev1.Node
	if old, found, err := s.nodes.Get(n); err != nil {
		return err
	} else if found {
		was = old.(*corev1.Node)
	}
	if what == kubewatch.Deleted {
		if err := s.nodes.Delete(n); err != nil {
			return err
		}
		if was != nil {
			s.count, s.size = s.count-1, s.size-was.Size()
		}
		tell(n)
		return nil
	}
	count, size := s.count+1, s.size+n.Size()
	if was != nil {
		count, size = s.count, size-was.Size()
	}
	if err := checkSize(count, size); err != nil {
		return err
	}
	s.count, s.size = count, size
	if err := s.nodes.Update(n); err != nil {
		return err
	}
	if was == nil || differs(was, n) {
		tell(n)
	}
	return nil
}

// trimNode takes from a node what nobody here reads, which is most of it. A node's annotations alone have up to 256
// KiB.
func trimNode(n *corev1.Node) *corev1.Node {
	n.ManagedFields = nil
	n.Status.Images = nil
	n.Status.VolumesAttached, n.Status.VolumesInUse = nil, nil
	n.Annotations = nil
	return n
}

// differs reports whether a node changed in more than the time of its heartbeat.
func differs(a, b *corev1.Node) bool {
	conditions := func(n *corev1.Node) []string {
		var all []string
		for _, c := range n.Status.Conditions {
			all = append(all, fmt.Sprint(c.Type, c.Status, c.Reason))
		}
		return all
	}
	return a.UID != b.UID || a.Spec.Unschedulable != b.Spec.Unschedulable || a.Spec.ProviderID != b.Spec.ProviderID ||
		!maps.Equal(a.Labels, b.Labels) || (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil) ||
		!slices.EqualFunc(
			a.Spec.Taints, b.Spec.Taints, func(x, y corev1.Taint) bool { return x.MatchTaint(&y) && x.Value == y.Value },
		) ||
		!slices.Equal(conditions(a), conditions(b))
}

// isNodeReady reports whether a node's kubelet reports it Ready.
func isNodeReady(n *corev1.Node) bool {
	return n != nil && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
