package nodegroup_test

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/coracle-eks/coracle/internal/ami"
)

// nodes returns the number of a group's nodes by Kubernetes version, and the names of those that are cordoned.
func (w *fixture) nodes(name string) (versions map[string]int, cordoned []string) {
	w.t.Helper()
	list := must(w.kube.CoreV1().Nodes().List(w.t.Context(),
		metav1.ListOptions{LabelSelector: "eks.amazonaws.com/nodegroup=" + name}))(w.t)
	versions = map[string]int{}
	for _, n := range list.Items {
		i, _ := ami.Get(region, n.Labels["eks.amazonaws.com/nodegroup-image"])
		versions[i.KubernetesVersion]++
		if _, excluded := n.Labels[corev1.LabelNodeExcludeBalancers]; excluded || n.Spec.Unschedulable {
			cordoned = append(cordoned, n.Name)
		}
	}
	return versions, cordoned
}

// web runs n pods behind a Service on the nodes of a group, with a budget that keeps all but spare of them.
func (w *fixture) web(name, nodes string, n, spare int32) {
	w.t.Helper()
	ctx, labels := w.t.Context(), map[string]string{"app": name}
	w.until("the default service account", func() error {
		_, err := w.kube.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	must(w.kube.CoreV1().Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Selector: labels,
			Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}))(w.t)
	must(w.kube.AppsV1().Deployments("default").Create(ctx,
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
			Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				NodeSelector:                  map[string]string{"eks.amazonaws.com/nodegroup": nodes},
				TerminationGracePeriodSeconds: new(int64(1)),
				Containers:                    []corev1.Container{{Name: "app", Image: "app"}},
			}},
		}}, metav1.CreateOptions{}))(w.t)
	must(w.kube.PolicyV1().PodDisruptionBudgets("default").Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(spare)),
			Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}, metav1.CreateOptions{}))(w.t)
	w.available(name, n)
	w.until("the budget is counted", func() error {
		b, err := w.kube.PolicyV1().PodDisruptionBudgets("default").Get(ctx, name, metav1.GetOptions{})
		if err == nil && b.Status.CurrentHealthy != n {
			return fmt.Errorf("its status is %+v", b.Status)
		}
		return err
	})
}

// scale changes how many pods a Deployment has, and waits until they are there and no others.
func (w *fixture) scale(name string, n int32) {
	w.t.Helper()
	must(w.kube.AppsV1().Deployments("default").Patch(w.t.Context(), name, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n), metav1.PatchOptions{}))(w.t)
	w.available(name, n)
	w.until(name+" has no other pods", func() error {
		list, err := w.kube.CoreV1().Pods("default").List(w.t.Context(), metav1.ListOptions{LabelSelector: "app=" + name})
		if err == nil && len(list.Items) != int(n) {
			return fmt.Errorf("there are %d", len(list.Items))
		}
		return err
	})
}

// available waits until all pods are.
func (w *fixture) available(name string, n int32) {
	w.t.Helper()
	w.until(name+" is available", func() error {
		d, err := w.kube.AppsV1().Deployments("default").Get(w.t.Context(), name, metav1.GetOptions{})
		if err == nil && d.Status.AvailableReplicas != n {
			return fmt.Errorf("%d of its pods are available", d.Status.AvailableReplicas)
		}
		return err
	})
}

// least follows how many pods of a Deployment are ready, until the function that it gives back is called: it tells the
// least.
func (w *fixture) least(name string) func() int {
	ctx, cancel := context.WithCancel(w.t.Context())
	least, ended := 1<<30, make(chan struct{})
	ready := map[string]bool{}
	list := must(w.kube.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=" + name}))(w.t)
	serves := func(p *corev1.Pod) bool {
		return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions,
			func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
	}
	count := func(p *corev1.Pod, there bool) {
		if ready[p.Name] = there && serves(p); !ready[p.Name] {
			delete(ready, p.Name)
		}
	}
	for i := range list.Items {
		count(&list.Items[i], true)
	}
	watch := must(w.kube.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{LabelSelector: "app=" + name,
		ResourceVersion: list.ResourceVersion}))(w.t)
	go func() {
		defer close(ended)
		for event := range watch.ResultChan() {
			if p, ok := event.Object.(*corev1.Pod); ok {
				count(p, event.Type != "DELETED")
				least = min(least, len(ready))
			}
		}
	}()
	return func() int { cancel(); <-ended; return least }
}
