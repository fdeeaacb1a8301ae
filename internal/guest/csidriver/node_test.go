//go:build linux

package csidriver

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestIdentityOfANode(t *testing.T) {
	t.Parallel()
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{
		corev1.LabelInstanceTypeStable: "m5.large", corev1.LabelTopologyRegion: "eu-west-1",
		corev1.LabelTopologyZone: "eu-west-1a"}},
		Spec: corev1.NodeSpec{ProviderID: "aws:///eu-west-1a/i-1"}}
	who, err := nodeOf(n)
	if want := (Node{Instance: "i-1", Type: "m5.large", Zone: "eu-west-1a", Region: "eu-west-1", Interfaces: 1}); err !=
		nil || who != want {
		t.Errorf("%+v, %v; want %+v", who, err, want)
	}
	delete(n.Labels, corev1.LabelTopologyZone)
	if _, err := nodeOf(n); err == nil {
		t.Error("a node without a zone is taken")
	}
}
