package addon

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	kubeclient "github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
)

// TestExpiredListsAreNotRepeatedAtOnce runs against an API server that answers every request with Expired.
func TestExpiredListsAreNotRepeatedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		requests := 0
		expired := metadatafake.NewSimpleMetadataClient(runtime.NewScheme())
		expired.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			requests++
			return true, nil, apierrors.NewResourceExpired("too old")
		})
		s := &server{meta: expired}
		w := &watched{objects: map[string]seen{}, known: true}
		if err := s.watchCollection(ctx, collection{GroupVersionResource: namespaces}, w); !errors.Is(err, ctx.Err()) {
			t.Error(err)
		}
		// After 0, 1, 3, 7, 15, 30 and 45 seconds.
		if requests > 8 || !w.known {
			t.Errorf("%d requests within a minute; known %v", requests, w.known)
		}
	})
}

func TestObjectsOfATenantAreBounded(t *testing.T) {
	t.Parallel()
	s, w := &server{}, &watched{objects: map[string]seen{}}
	for range kubeclient.MaxObjects {
		w.objects[time.Duration(len(w.objects)).String()] = seen{}
	}
	at := collection{GroupVersionResource: namespaces}
	if err := s.handleEvent(at, w, kubewatch.Added, "one more", seen{}); !errors.Is(err, kubeclient.ErrTooLarge) {
		t.Error(err)
	}
	if err := s.handleEvent(at, w, kubewatch.Modified, "0s", seen{deleting: true}); err != nil {
		t.Error(err)
	}
}

// TestIssuesAreBounded runs against an API server that returns reasons, conditions and names without end.
func TestIssuesAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a ", 1<<20)
	o := record.AddonObject{APIVersion: "apps/v1", Kind: "DaemonSet", Namespace: "kube-system", Name: "aws-node"}
	status := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 403, Message: long}}
	for name, err := range map[string]error{
		"an answer": status, "a connection": &kubeclient.Unreachable{Err: errors.New(long)},
	} {
		if text := problemOf(o, err).Error(); len(text) > kubeclient.MaxText+512 {
			t.Errorf("%s: %d bytes", name, len(text))
		}
	}
	w := workloadOf(&unstructured.Unstructured{Object: map[string]any{"kind": "Deployment", "status": map[string]any{
		"conditions": []any{map[string]any{"type": "ReplicaFailure", "status": "True", "message": long}}}}})
	if len(w.Failure) > kubeclient.MaxText+16 {
		t.Errorf("%d bytes are kept of a condition", len(w.Failure))
	}
	if is := summarize(&metav1.ObjectMeta{}, w); len(is.workload.Failure) != 24 {
		t.Errorf("%d bytes are kept of a condition while the object is watched", len(is.workload.Failure))
	}
	ill := podAilment(&corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: long}}}})
	if len(ill.text) > kubeclient.MaxText+512 {
		t.Errorf("%d bytes are kept of a pod", len(ill.text))
	}
}
