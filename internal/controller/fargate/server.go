package fargate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/fargate"
	"github.com/coracle-eks/coracle/internal/kube/apiserver"
	"github.com/coracle-eks/coracle/internal/kube/awsauth"
	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/recovery"
	"github.com/coracle-eks/coracle/internal/store"
)

// server is a cluster's API server to the users of EKS, with what it said of the pods of fargate-scheduler and of the
// nodes of Fargate.
type server struct {
	key       string               // of the cluster
	scheduler kubernetes.Interface // eks:fargate-scheduler
	objects   dynamic.Interface    // likewise
	manager   kubernetes.Interface // eks:fargate-manager
	auth      *awsauth.Client      // likewise

	// again has something in it when there may be pods to tell.
	again chan struct{}

	mu    sync.Mutex
	pods  map[string]podInfo  // by UID
	nodes map[string]nodeInfo // by name
	// untold has the UIDs of those pods that are to be told; with tellsAll, all that are not scheduled are.
	untold   map[string]bool
	tellsAll bool
}

// podInfo is what is kept of a pod: all of it would be as large as its users like.
type podInfo struct {
	namespace, name string
	nodeName        string
	nominated       string
	terminated      bool      // it has succeeded or failed
	gated           bool      // it has scheduling gates
	deleteBy        time.Time // its deletion was asked for, and is to be done by then; zero otherwise
}

// nodeInfo is what is kept of a node.
type nodeInfo struct {
	uid     string
	created time.Time
	ready   bool
}

// maxObjects is the maximum number of pods, and of nodes, that are kept of a cluster. Their API server decides how many
// there are.
const maxObjects = 20_000

// watch mirrors the pods and nodes of all clusters that have profiles, until ctx ends, and sends the keys of those that
// changed. wakePod is for pods with a record, whose number quotas bound; told is for those that the API server alone
// has: it waits while many of them wait. The mirror never waits for it, as all pods of the cluster depend on the
// mirror.
func (c *Controller) watch(ctx context.Context, wakeProfile, wakePod func(string),
	told func(context.Context, string) error) {
	c.servers.Follow(ctx, func(ctx context.Context, k *apiserver.Connection, open func(*server)) error {
		s, done, err := c.newServer(ctx, k)
		if err != nil {
			return err
		}
		defer done()
		wakeAll := func() {
			for _, key := range c.profilesOf(k.Key) {
				wakeProfile(key)
			}
			for _, key := range c.podsOf(k.Key) {
				wakePod(key)
			}
			s.tellUnscheduled()
		}
		defer wakeAll() // they are cut off
		var known atomic.Int32
		listed := func() {
			if known.Add(1) == 2 { // the pods and the nodes: nobody acts on one without the other
				open(s)
				wakeAll()
			}
		}
		group := recovery.Group(ctx)
		group.Go(func(ctx context.Context) error { return s.followPods(ctx, listed, c.podChanged(ctx, s, wakePod)) })
		group.Go(func(ctx context.Context) error { return s.tellPods(ctx, told) })
		group.Go(func(ctx context.Context) error {
			return s.followNodes(ctx, listed, func(name string) {
				for _, key := range c.podsOnNode(k.Key, name) {
					wakePod(key)
				}
			})
		})
		return group.Wait()
	})
}

// newMirror returns a server without clients.
func newMirror(key string) *server {
	return &server{key: key, again: make(chan struct{}, 1), pods: map[string]podInfo{}, nodes: map[string]nodeInfo{},
		untold: map[string]bool{}}
}

// podChanged returns what followPods calls with the UIDs of pods that have changed, which does not wait.
func (c *Controller) podChanged(ctx context.Context, s *server, wakePod func(string)) func(uid string) error {
	return func(uid string) error {
		key := s.podKey(uid)
		_, err := c.pods.Get(ctx, key)
		switch {
		case err == nil:
			wakePod(key)
		case errors.Is(err, store.ErrNotFound):
			s.tell(uid) // a record that is made meanwhile wakes the pod
		default:
			return fmt.Errorf("read the record of a pod: %w", err)
		}
		return nil
	}
}

// newServer creates the clients of a connection, and returns the function that closes those of eks:fargate-manager.
func (c *Controller) newServer(ctx context.Context, k *apiserver.Connection) (*server, func(), error) {
	s := newMirror(k.Key)
	var err error
	if s.scheduler, err = kubernetes.NewForConfigAndClient(k.Config, k.HTTP); err != nil {
		return nil, nil, fmt.Errorf("create client for %s: %w", fargate.SchedulerUser, err)
	}
	if s.objects, err = dynamic.NewForConfigAndClient(k.Config, k.HTTP); err != nil {
		return nil, nil, fmt.Errorf("create client for %s: %w", fargate.SchedulerUser, err)
	}
	config, err := c.o.Config(ctx, k.Cluster, fargate.ManagerUser)
	if err != nil {
		return nil, nil, err
	}
	config = rest.CopyConfig(config)
	config.UserAgent = managerAgent
	connections, err := client.HTTP(config, k.Cluster.Name)
	if err != nil {
		return nil, nil, fmt.Errorf("create client for %s: %w", fargate.ManagerUser, err)
	}
	if s.manager, err = kubernetes.NewForConfigAndClient(config, connections); err != nil {
		return nil, nil, fmt.Errorf("create client for %s: %w", fargate.ManagerUser, err)
	}
	s.auth = awsauth.NewClient(s.manager.CoreV1(), k.Cluster.Account)
	return s, func() { utilnet.CloseIdleConnectionsFor(connections.Transport) }, nil
}

// podsOnNode returns the keys of the pods whose node has that name.
func (c *Controller) podsOnNode(cluster, node string) (keys []string) {
	for _, key := range c.podsOf(cluster) {
		if row, err := c.pods.Get(context.Background(), key); err == nil && row.Value.NodeName == node {
			keys = append(keys, key)
		}
	}
	return keys
}

// podKey returns the key of a pod of the cluster.
func (s *server) podKey(uid string) string { return store.Key(append(store.Parts(s.key), uid)...) }

// followPods mirrors the pods whose scheduler is that of Fargate until the API server goes away. It calls known once it
// has them, and changed with the UID of each that changes after that. Neither may wait.
func (s *server) followPods(ctx context.Context, known func(), changed func(uid string) error) error {
	ctx = client.WithPartial(ctx) // what is too large to be read is there, and has a machine
	pods := s.scheduler.CoreV1().Pods(metav1.NamespaceAll)
	only := metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.schedulerName", fargate.SchedulerName).String()}
	from, err := client.EachPage(ctx, only, pods.List, func(page *corev1.PodList) {
		for i := range page.Items {
			s.recordPod(&page.Items[i], false)
		}
	})
	if err == nil {
		err = s.checkSize()
	}
	if err != nil {
		return err
	}
	known()
	return client.Watch(ctx, "the pods of "+fargate.SchedulerName, from, pods.Watch, only,
		func(what kubewatch.EventType, pod *corev1.Pod) error {
			isChanged := s.recordPod(pod, what == kubewatch.Deleted)
			if err := s.checkSize(); err != nil || !isChanged {
				return err
			}
			return changed(string(pod.UID))
		})
}

// recordPod keeps what is needed of a pod, and reports whether that has changed. An API server may call a pod anything;
// UIDs, which become keys, have no other characters.
func (s *server) recordPod(pod *corev1.Pod, gone bool) bool {
	uid := string(pod.UID)
	if uid == "" || strings.Trim(uid, "0123456789abcdefABCDEF-") != "" ||
		pod.Spec.SchedulerName != fargate.SchedulerName {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	was, known := s.pods[uid]
	if gone {
		delete(s.pods, uid)
		delete(s.untold, uid)
		return known
	}
	info := podInfo{
		namespace: strings.Clone(pod.Namespace), name: strings.Clone(pod.Name), // not to hold the whole answer
		nodeName: bounded(pod.Spec.NodeName), nominated: bounded(pod.Status.NominatedNodeName),
		terminated: isTerminated(pod), gated: len(pod.Spec.SchedulingGates) > 0,
	}
	if client.IsPartial(pod) { // a pod that nothing is known of is not to run yet
		info.gated = !known || was.gated
	}
	if pod.DeletionTimestamp != nil {
		info.deleteBy = pod.DeletionTimestamp.Time
	}
	s.pods[strings.Clone(uid)] = info
	return !known || was != info
}

// isTerminated reports whether a pod has succeeded or failed.
func isTerminated(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// bounded returns a name, or a part of what is too long for one.
func bounded(name string) string {
	const longest = 253
	return strings.Clone(name[:min(len(name), longest)])
}

func (s *server) checkSize() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pods) > maxObjects || len(s.nodes) > maxObjects {
		return fmt.Errorf("there are more than %d pods or nodes of Fargate, %w", maxObjects, client.ErrTooLarge)
	}
	return nil
}

// followNodes mirrors the nodes of Fargate, likewise. wake gets their names.
func (s *server) followNodes(ctx context.Context, known func(), wake func(string)) error {
	ctx = client.WithPartial(ctx)
	nodes := s.scheduler.CoreV1().Nodes()
	only := metav1.ListOptions{LabelSelector: labels.Set{fargate.ComputeType: "fargate"}.String()}
	from, err := client.EachPage(ctx, only, nodes.List, func(page *corev1.NodeList) {
		for i := range page.Items {
			s.recordNode(&page.Items[i], false)
		}
	})
	if err == nil {
		err = s.checkSize()
	}
	if err != nil {
		return err
	}
	known()
	return client.Watch(ctx, "the nodes of Fargate", from, nodes.Watch, only,
		func(what kubewatch.EventType, node *corev1.Node) error {
			if s.recordNode(node, what == kubewatch.Deleted) {
				wake(node.Name)
			}
			return s.checkSize()
		})
}

// recordNode keeps what is needed of a node, and reports whether that has changed.
func (s *server) recordNode(node *corev1.Node, gone bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, known := s.nodes[node.Name]
	if gone {
		delete(s.nodes, node.Name)
		return known
	}
	info := nodeInfo{uid: strings.Clone(string(node.UID)), created: node.CreationTimestamp.Time}
	if client.IsPartial(node) && was.uid == info.uid {
		info = was
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			info.ready = condition.Status == corev1.ConditionTrue
		}
	}
	s.nodes[strings.Clone(node.Name)] = info
	return !known || was != info
}

// pod returns what is known of the pod with that UID; false when there is none.
func (s *server) pod(uid string) (podInfo, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, ok := s.pods[uid]
	return info, ok
}

// node returns what is known of the node of that name; false when there is none.
func (s *server) node(name string) (nodeInfo, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, ok := s.nodes[name]
	return info, ok
}

// tell has a pod told, unless it is gone: without a record, nothing is to be done for it. It does not wait.
func (s *server) tell(uid string) {
	s.mu.Lock()
	_, exists := s.pods[uid]
	if exists {
		s.untold[strings.Clone(uid)] = true
	}
	s.mu.Unlock()
	if exists {
		s.wakeTeller()
	}
}

// tellUnscheduled has the pods that are not scheduled told again. It does not wait.
func (s *server) tellUnscheduled() {
	s.mu.Lock()
	s.tellsAll = true
	s.mu.Unlock()
	s.wakeTeller()
}

func (s *server) wakeTeller() {
	select {
	case s.again <- struct{}{}:
	default: // it is about to look
	}
}

// tellPods tells the pods that are to be told, until ctx ends. Those that change while it waits for room are told once.
func (s *server) tellPods(ctx context.Context, told func(context.Context, string) error) error {
	for {
		select {
		case <-s.again:
		case <-ctx.Done():
			return ctx.Err()
		}
		for uid, ok := s.nextUntold(); ok; uid, ok = s.nextUntold() {
			if err := told(ctx, s.podKey(uid)); err != nil {
				return err
			}
		}
	}
}

// nextUntold takes one of the pods that are to be told; false when there is none.
func (s *server) nextUntold() (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tellsAll {
		s.tellsAll = false
		for uid, info := range s.pods {
			if info.nodeName == "" && !info.terminated && !info.gated {
				s.untold[uid] = true
			}
		}
	}
	for uid := range s.untold {
		delete(s.untold, uid)
		return uid, true
	}
	return "", false
}
