package drain_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/coracle-eks/coracle/internal/controller/nodegroup/drain"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/apiservertest"
)

const manager = "vpcLambda"

// cluster is one with nodes that have no machines.
type cluster struct {
	t       *testing.T
	server  *apiservertest.Server
	kubelet *apiservertest.Kubelets
	kube    *kubernetes.Clientset
}

func newCluster(t *testing.T) *cluster {
	server := apiservertest.Start(t, apiservertest.Options{
		Controllers: []string{"deployment", "replicaset", "disruption", "endpointslice", "serviceaccount"},
		Scheduler:   true,
	})
	return &cluster{t, server, server.Kubelets(), server.Admin()}
}

// namespace creates a namespace in which pods can be created.
func (c *cluster) namespace(t *testing.T, name string) {
	t.Helper()
	if _, err := c.kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.Nil(t, "the default service account", func() error {
		_, err := c.kube.CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
}

func (c *cluster) node(t *testing.T, name string) *corev1.Node {
	t.Helper()
	n, err := c.kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// pod makes one on a node.
func (c *cluster) pod(t *testing.T, namespace, name, node string, change func(*corev1.Pod)) {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}, Spec: podSpec()}
	p.Spec.NodeName = node
	if change != nil {
		change(p)
	}
	if _, err := c.kube.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.Nil(t, "pod "+name, func() error {
		p, err := c.kube.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && p.Status.Phase != corev1.PodRunning && len(p.Finalizers) == 0 {
			return fmt.Errorf("it is %s", p.Status.Phase)
		}
		return err
	})
}

func podSpec() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}},
		TerminationGracePeriodSeconds: new(int64(1))}
}

// budget lets none of the pods with the label be disrupted.
func (c *cluster) budget(t *testing.T, namespace, name, app string) {
	t.Helper()
	_, err := c.kube.PolicyV1().PodDisruptionBudgets(namespace).Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(0)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually.Nil(t, "the budget is counted", func() error {
		b, err := c.kube.PolicyV1().PodDisruptionBudgets(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && (b.Status.ObservedGeneration < b.Generation || b.Status.CurrentHealthy == 0) {
			return fmt.Errorf("its status is %+v", b.Status)
		}
		return err
	})
}

// steps drains a node until done says so, and gives the last progress.
func (c *cluster) steps(t *testing.T, node string, o drain.Options, done func(drain.Progress) bool) drain.Progress {
	t.Helper()
	if err := drain.Cordon(t.Context(), c.kube, c.node(t, node), manager); err != nil {
		t.Fatal(err)
	}
	if o.Since.IsZero() {
		o.Since = time.Now()
	}
	var p drain.Progress
	eventually.Nil(t, "node "+node+" is drained as far as that goes", func() error {
		var err error
		if p, err = drain.Step(t.Context(), c.kube, c.node(t, node), o); err != nil {
			return err
		}
		if !done(p) {
			return fmt.Errorf("left: %+v", p)
		}
		return nil
	})
	return p
}

func names(pods []drain.Pod) string {
	var all []string
	for _, p := range pods {
		all = append(all, p.String())
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestDrain(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for _, test := range []struct {
		name     string
		pods     func(t *testing.T, namespace, node string)
		force    bool
		silent   bool   // the kubelet has died, and the node is not Ready
		stays    string // names of the pods that the drain waits for in the end; it ends when there is none
		refused  string // in what is said of them
		survives string // names of pods that are there in the end
	}{
		{name: "empty node"},
		{
			name: "pods without a controller, with a local volume, and those that have ended are evicted",
			pods: func(t *testing.T, namespace, node string) {
				c.pod(t, namespace, "bare", node, nil)
				c.pod(t, namespace, "local", node, func(p *corev1.Pod) {
					p.Spec.Volumes = []corev1.Volume{{Name: "scratch",
						VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
				})
				c.pod(t, namespace, "ended", node, nil)
				eventually.Nil(t, "its end", func() error {
					p, err := c.kube.CoreV1().Pods(namespace).Get(t.Context(), "ended", metav1.GetOptions{})
					if err != nil {
						return err
					}
					p.Status.Phase = corev1.PodSucceeded
					_, err = c.kube.CoreV1().Pods(namespace).UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
					return err
				})
			},
		},
		{
			name: "pods of DaemonSets and static pods stay",
			pods: func(t *testing.T, namespace, node string) {
				c.pod(t, namespace, "static", node,
					func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"} })
				c.pod(t, namespace, "daemon", node, func(p *corev1.Pod) {
					p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet",
						Name: "daemon", UID: c.daemonSet(t, namespace), Controller: new(true)}}
				})
				c.pod(t, namespace, "bare", node, nil)
			},
			survives: "daemon static",
		},
		{
			name: "a budget that allows nothing keeps its pod and no other",
			pods: func(t *testing.T, namespace, node string) {
				c.pod(t, namespace, "kept", node, nil)
				c.budget(t, namespace, "never", "kept")
				c.pod(t, namespace, "bare", node, nil)
			},
			stays:    "kept",
			refused:  "Cannot evict pod as it would violate the pod's disruption budget. The disruption budget never",
			survives: "kept",
		},
		{
			name: "two budgets on one pod keep it",
			pods: func(t *testing.T, namespace, node string) {
				c.pod(t, namespace, "kept", node, nil)
				c.budget(t, namespace, "one", "kept")
				c.budget(t, namespace, "two", "kept")
			},
			stays:    "kept",
			refused:  "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support",
			survives: "kept",
		},
		{
			name: "force deletes what budgets keep",
			pods: func(t *testing.T, namespace, node string) {
				c.pod(t, namespace, "once", node, nil)
				c.budget(t, namespace, "never", "once")
				c.pod(t, namespace, "twice", node, nil)
				c.budget(t, namespace, "one", "twice")
				c.budget(t, namespace, "two", "twice")
			},
			force: true,
		},
		{
			name: "a finalizer that never ends keeps its pod, and nobody refused anything",
			pods: func(t *testing.T, namespace, node string) {
				c.pod(t, namespace, "bound", node, func(p *corev1.Pod) { p.Finalizers = []string{"example.com/never"} })
				t.Cleanup(func() {
					// the server ends with the test
					_, _ = c.kube.CoreV1().Pods(namespace).Patch(t.Context(), "bound", types.MergePatchType,
						[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				})
			},
			force: true, stays: "bound", survives: "bound",
		},
		{
			name: "nobody waits for the pods of a dead kubelet longer than their grace period",
			pods: func(t *testing.T, namespace, node string) { c.pod(t, namespace, "orphan", node, nil) },
			// It is still there for the garbage collector of pods.
			silent: true, survives: "orphan",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			name := "n" + fmt.Sprintf("%x", []byte(test.name))[:12] + fmt.Sprint(len(test.name))
			c.kubelet.Node(name, "", nil)
			c.namespace(t, name)
			if test.pods != nil {
				test.pods(t, name, name)
			}
			if test.silent {
				c.kubelet.Silence(name)
				n := c.node(t, name)
				n.Status.Conditions[0].Status = corev1.ConditionUnknown
				if _, err := c.kube.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			var want []string
			for _, p := range strings.Fields(test.stays) {
				want = append(want, name+"/"+p)
			}
			p := c.steps(t, name, drain.Options{Force: test.force}, func(p drain.Progress) bool {
				return names(p.Left) == strings.Join(want, " ") && len(p.Serving) == 0
			})
			if (test.stays == "") != p.Done() {
				t.Errorf("left %v, done %v", p.Left, p.Done())
			}
			for _, pod := range p.Left {
				if !strings.Contains(pod.Refused, test.refused) || test.refused == "" && pod.Refused != "" {
					t.Errorf("%s is left: %q, want %q", pod, pod.Refused, test.refused)
				}
			}
			if len(p.Blocked()) > 0 != (p.Again > 0) {
				t.Errorf("%v is looked at again after %s", p.Left, p.Again)
			}
			pods, err := c.kube.CoreV1().Pods(name).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var there []string
			for _, p := range pods.Items {
				there = append(there, p.Name)
			}
			slices.Sort(there)
			if got := strings.Join(there, " "); got != test.survives {
				t.Errorf("there are still %q, want %q", got, test.survives)
			}
		})
	}
}

// daemonSet creates a DaemonSet that has no pods.
func (c *cluster) daemonSet(t *testing.T, namespace string) types.UID {
	t.Helper()
	spec := podSpec()
	spec.NodeSelector = map[string]string{"there-is": "none"}
	d, err := c.kube.AppsV1().DaemonSets(namespace).Create(t.Context(),
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "daemon"}, Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "none"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "none"}},
				Spec: spec},
		}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d.UID
}

// TestTrafficForgetsTheNode checks that a node is not done before the Services of its pods have removed its endpoints.
func TestTrafficForgetsTheNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.namespace(t, "web")
	c.kubelet.Node("from", "", nil)
	c.kubelet.Node("to", "", nil)
	labels := map[string]string{"app": "web"}
	if _, err := c.kube.CoreV1().Services("web").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Selector: labels,
			Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.kube.AppsV1().Deployments("web").Create(t.Context(),
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(4)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec()},
		}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.kube.PolicyV1().PodDisruptionBudgets("web").Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(3)),
			Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	endpoints := func(on string) int {
		list, err := c.kube.DiscoveryV1().EndpointSlices("web").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, s := range list.Items {
			for _, e := range s.Endpoints {
				if on == "" || *e.NodeName == on {
					n++
				}
			}
		}
		return n
	}
	eventually.Nil(t, "traffic", func() error {
		if n := endpoints("from"); endpoints("") != 4 || n == 0 {
			return fmt.Errorf("%d endpoints on the node", n)
		}
		return nil
	})
	c.steps(t, "from", drain.Options{}, drain.Progress.Done)
	if n := endpoints("from"); n != 0 {
		t.Errorf("the drained node has %d endpoints", n)
	}
}

func TestCordon(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	n := c.kubelet.Node("one", "", map[string]string{"mine": "yes"})
	for range 2 { // the second finds it done
		if err := drain.Cordon(t.Context(), c.kube, n, manager); err != nil {
			t.Fatal(err)
		}
	}
	n = c.node(t, "one")
	if !drain.Cordoned(n) || !n.Spec.Unschedulable ||
		n.Labels["node.kubernetes.io/exclude-from-external-load-balancers"] != "true" {
		t.Errorf("a cordoned node is %+v %+v", n.Labels, n.Spec)
	}
	fields, err := json.Marshal(n.ManagedFields)
	if err != nil || !strings.Contains(string(fields), `"manager":"vpcLambda"`) {
		t.Errorf("it was changed by %s (%v)", fields, err)
	}
	other := n.DeepCopy()
	other.UID = "another"
	if err := drain.Uncordon(t.Context(), c.kube, other, manager); err != nil {
		t.Errorf("another node of that name: %v", err)
	}
	if n = c.node(t, "one"); !drain.Cordoned(n) {
		t.Error("the node was taken for another of its name")
	}
	if err := drain.Uncordon(t.Context(), c.kube, n, manager); err != nil {
		t.Fatal(err)
	}
	if n = c.node(t, "one"); n.Spec.Unschedulable || len(n.Labels) != 1 {
		t.Errorf("an uncordoned node is %+v %+v", n.Labels, n.Spec)
	}
	if err := c.kube.CoreV1().Nodes().Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := drain.Cordon(t.Context(), c.kube, n, manager); err != nil {
		t.Errorf("a node that is gone: %v", err)
	}
}
