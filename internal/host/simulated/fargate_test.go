package simulated

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/apiservertest"
	"github.com/coracle-eks/coracle/internal/record"
)

// TestFargateMachines makes nodes of the machines of Fargate pods, and runs the pods that are bound to them.
func TestFargateMachines(t *testing.T) {
	t.Parallel()
	w := newFixture(t, apiservertest.Options{Controllers: []string{"serviceaccount-controller"}})
	var refused bool
	credentials := w.options.Credentials
	w.options.Credentials = func(ctx context.Context, i record.Instance) (aws.Credentials, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if refused && i.ID == "i-"+fmt.Sprintf("%017x", 2) {
			return aws.Credentials{}, errors.New("Fargate cannot assume the pod execution role")
		}
		return credentials(ctx, i)
	}
	refused = true
	w.daemon()
	admin := w.server.Admin()
	ctx := t.Context()
	launch := func(n int, name, cluster string) record.Instance {
		return w.launch(n, "", func(i *record.Instance) {
			i.InstanceType = ""
			i.Fargate = &record.FargateMachine{Capacity: fmt.Sprint("capacity-", n), ClusterID: cluster, Cluster: "demo",
				NodeName: name, CPU: 250, Memory: 512, Storage: 20}
		})
	}
	const dns = "ip-10-0-0-1.eu-west-1.compute.internal"
	one := launch(1, "fargate-"+dns, w.cluster.ID)
	untrusted := launch(2, "fargate-ip-10-0-0-2.eu-west-1.compute.internal", w.cluster.ID)
	launch(3, "fargate-ip-10-0-0-3.eu-west-1.compute.internal", "of an earlier cluster")

	ready := func(name string) (node *corev1.Node) {
		eventually.True(t, name+" is ready", func() bool {
			var err error
			node, err = admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			return err == nil && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			})
		})
		return node
	}
	node := ready(one.Fargate.NodeName)
	if node.Spec.ProviderID != "aws:///eu-west-1a/capacity-1/fargate-"+dns ||
		node.Labels["eks.amazonaws.com/compute-type"] != "fargate" || node.Labels[corev1.LabelHostname] != dns ||
		node.Labels[corev1.LabelTopologyZone] != "eu-west-1a" {
		t.Errorf("node %s has labels %v", node.Spec.ProviderID, node.Labels)
	}
	if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == "eks.amazonaws.com/compute-type" && t.Value == "fargate" && t.Effect == corev1.TaintEffectNoSchedule
	}) {
		t.Errorf("its taints are %v", node.Spec.Taints)
	}
	if cpu, memory, pods := node.Status.Capacity.Cpu().String(), node.Status.Capacity.Memory().String(),
		node.Status.Capacity.Pods().String(); cpu != "250m" || memory != "512Mi" || pods != "1" {
		t.Errorf("it has %s CPUs, %s, %s pods", cpu, memory, pods)
	}

	// What the scheduler of Fargate does.
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: template("web", corev1.RestartPolicyAlways).Spec}
	pod.Spec.NodeName = node.Name
	eventually.Nil(t, "the namespace has its service account", func() error {
		_, err := admin.CoreV1().Pods("default").Create(ctx, &pod, metav1.CreateOptions{})
		return err
	})
	eventually.True(t, "the pod runs, with the address of its node", func() bool {
		p, err := admin.CoreV1().Pods("default").Get(ctx, "web", metav1.GetOptions{})
		return err == nil && p.Status.Phase == corev1.PodRunning && p.Status.PodIP == p.Status.HostIP &&
			p.Status.PodIP == node.Status.Addresses[0].Address
	})
	w.mu.Lock()
	if len(w.calls) != 0 {
		t.Errorf("EC2 was called: %v", w.calls)
	}
	w.mu.Unlock()

	// A role that Fargate cannot assume is what the machine says, until it can.
	eventually.True(t, "the machine says what is wrong", func() bool {
		m := w.machine(untrusted)
		return strings.Contains(m.Failing, "cannot assume the pod execution role") && !m.FailingSince.IsZero()
	})
	w.mu.Lock()
	refused = false
	w.mu.Unlock()
	ready(untrusted.Fargate.NodeName)
	eventually.True(t, "nothing is wrong any more", func() bool {
		m := w.machine(untrusted)
		return m.Failing == "" && m.FailingSince.IsZero()
	})
	if nodes, err := admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err != nil || len(nodes.Items) != 2 {
		t.Errorf("%d nodes, %v", len(nodes.Items), err)
	}
}
