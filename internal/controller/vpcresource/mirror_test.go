package vpcresource

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	kubeclient "github.com/coracle-eks/coracle/internal/kube/client"
	webhook "github.com/coracle-eks/coracle/internal/kube/vpcresource"
	"github.com/coracle-eks/coracle/internal/record"
)

func newCNINode(name, note string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "vpcresources.k8s.aws/v1alpha1",
		"kind": "CNINode", "metadata": map[string]any{"name": name, "annotations": map[string]any{"note": note}}}}
}

// TestMirrorCountsWhatItKeeps has everything come, change and go.
func TestMirrorCountsWhatItKeeps(t *testing.T) {
	t.Parallel()
	m := newMirror()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var most int
	for i := range 100 {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}}
		for range 2 {
			_, err := m.setNode(n)
			must(err)
			must(m.setCNINode(newCNINode(n.Name, strings.Repeat("a", i))))
			n.Labels = map[string]string{osLabel: "linux"}
		}
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Namespace: "default",
			Annotations: map[string]string{webhook.PodENI: "[]"}}, Spec: corev1.PodSpec{NodeName: n.Name}}
		_, err := m.setPod(p)
		must(err)
		if m.size <= most+1024 {
			t.Fatalf("with %d nodes the size is %d, after %d", i+1, m.size, most)
		}
		most = m.size
	}
	for i := range 100 {
		name := fmt.Sprintf("node-%d", i)
		for range 2 { // the second time it is gone
			m.removeNode(name)
			m.removeCNINode(name)
			m.removePod(types.NamespacedName{Namespace: "default", Name: name})
		}
	}
	if m.size != 0 {
		t.Errorf("with nothing the size is %d", m.size)
	}
}

// TestMirrorIsBounded has whoever may make CNINodes make as many as they like.
func TestMirrorIsBounded(t *testing.T) {
	t.Parallel()
	m := newMirror()
	if err := m.setCNINode(newCNINode("large", strings.Repeat("a", maxCNINode))); err != nil || len(m.cniNodes) > 0 {
		t.Errorf("a large CNINode: %v, %d are kept", err, len(m.cniNodes))
	}
	var err error
	for i := 0; err == nil && i < 2*maxSize/maxCNINode; i++ {
		err = m.setCNINode(newCNINode(fmt.Sprintf("node-%d", i), strings.Repeat("a", maxCNINode-1024)))
	}
	if !errors.Is(err, kubeclient.ErrTooLarge) || m.size > maxSize+2*maxCNINode {
		t.Errorf("%v, with %d bytes", err, m.size)
	}
}

func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	for requested, want := range map[string]int64{"1": 1, "999999999999999999": maxVLAN, "100": 100, "-3": 0} {
		c := corev1.Container{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{webhook.PodENI: resource.MustParse(requested)}}}
		p, _ := trimPod(&corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{c, c}}})
		if p.count != min(2*want, maxVLAN) {
			t.Errorf("two containers with %s request %d", requested, p.count)
		}
	}
}

// TestInterfacesOfOtherClustersAreKept has a node of one cluster claim the instance of another.
func TestInterfacesOfOtherClustersAreKept(t *testing.T) {
	t.Parallel()
	p := &pass{server: &server{cluster: record.Cluster{Name: "demo"}}, node: node{instanceID: "i-0123456789abcdef0"}}
	own := ec2types.NetworkInterface{NetworkInterfaceId: aws.String("eni-1"), TagSet: p.tags()[0].Tags}
	if !p.owns(own) {
		t.Error("its own interface is not the controller's")
	}
	p.cluster.Name = "other"
	if p.owns(own) {
		t.Error("the interface of another cluster is the controller's")
	}
}
