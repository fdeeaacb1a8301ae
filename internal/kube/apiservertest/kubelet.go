package apiservertest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// Kubelets stand in for the kubelets of all nodes of a server: pods run, with an address each, as soon as they are
// bound, end when they are told to, and are gone as soon as they are deleted, finalizers aside. They go with the test.
type Kubelets struct {
	server  *Server
	client  *kubernetes.Clientset
	address atomic.Uint32

	mu   sync.Mutex
	slow map[string]bool
}

// Kubelets starts them.
func (s *Server) Kubelets() *Kubelets {
	s.t.Helper()
	k := &Kubelets{server: s, client: s.Admin(), slow: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { k.run(ctx) })
	s.t.Cleanup(func() { cancel(); running.Wait() })
	return k
}

// Node makes a Ready node with these labels.
func (k *Kubelets) Node(name, providerID string, labels map[string]string) *corev1.Node {
	k.server.t.Helper()
	node, err := k.Join(context.Background(), name, providerID, labels)
	if err != nil {
		k.server.t.Fatal(err)
	}
	return node
}

// Join is like Node, for callers other than the test itself.
func (k *Kubelets) Join(ctx context.Context, name, providerID string, labels map[string]string) (*corev1.Node, error) {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
		corev1.ResourcePods: resource.MustParse("50"),
	}
	node, err := k.client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.NodeSpec{ProviderID: providerID},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	node.Spec.Taints = nil // the API server gives not-ready to each; the controller that takes it away may not run
	if node, err = k.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{}); err != nil {
		return nil, err
	}
	node.Status = corev1.NodeStatus{Capacity: capacity, Allocatable: capacity, Conditions: []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now(),
			LastTransitionTime: metav1.Now()},
	}}
	return k.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
}

// Silence makes the kubelet of a node say nothing any more of its pods, as one does that has died.
func (k *Kubelets) Silence(node string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.slow[node] = true
}

// End has a pod that runs succeed or fail by itself.
func (k *Kubelets) End(pod *corev1.Pod, phase corev1.PodPhase) {
	k.server.t.Helper()
	_, err := k.client.CoreV1().Pods(pod.Namespace).Patch(context.Background(), pod.Name, types.MergePatchType,
		[]byte(`{"metadata":{"uid":"`+string(pod.UID)+`"},"status":{"phase":"`+string(phase)+`"}}`),
		metav1.PatchOptions{}, "status")
	if err != nil {
		k.server.t.Fatal(err)
	}
}

func (k *Kubelets) run(ctx context.Context) {
	for ctx.Err() == nil {
		list, err := k.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			continue // the test stopped the API server, or is over
		}
		for i := range list.Items {
			k.reconcilePod(ctx, &list.Items[i])
		}
		w, err := k.client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx,
			metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			continue
		}
		for event := range w.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok && event.Type != watch.Deleted {
				k.reconcilePod(ctx, pod)
			}
		}
	}
}

func (k *Kubelets) reconcilePod(ctx context.Context, pod *corev1.Pod) {
	k.mu.Lock()
	silent := k.slow[pod.Spec.NodeName]
	k.mu.Unlock()
	if pod.Spec.NodeName == "" || silent {
		return
	}
	var err error
	switch {
	case pod.DeletionTimestamp != nil:
		err = k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
		})
	case pod.Status.Phase == corev1.PodPending:
		n := k.address.Add(1)
		pod = pod.DeepCopy()
		pod.Status.Phase = corev1.PodRunning
		pod.Status.PodIP = fmt.Sprintf("10.1.%d.%d", n>>8, n&255)
		pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
		pod.Status.Conditions = append(pod.Status.Conditions,
			corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()},
			corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue,
				LastTransitionTime: metav1.Now()})
		_, err = k.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	}
	if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		k.server.t.Logf("kubelet of node %s: %v", pod.Spec.NodeName, err)
	}
}
