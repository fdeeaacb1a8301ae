package fargate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/fargate"
	"github.com/coracle-eks/coracle/internal/kube/client"
)

// tenant returns a client of a program that a cluster's administrator runs in the place of the API server.
func tenant(t *testing.T, answer func(r *http.Request) any) kubernetes.Interface {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer(r))
	}))
	t.Cleanup(api.Close)
	config := &rest.Config{Host: api.URL, QPS: -1}
	connections, err := client.HTTP(config, "demo")
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfigAndClient(config, connections)
	if err != nil {
		t.Fatal(err)
	}
	return kube
}

// TestClaimsOfATenantAreBounded has claims and volumes that are as large as an API server likes.
func TestClaimsOfATenantAreBounded(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("a", 1<<20)
	kube := tenant(t, func(r *http.Request) any {
		if strings.Contains(r.URL.Path, "persistentvolumeclaims") {
			return corev1.PersistentVolumeClaim{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
				Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
				Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
		}
		return corev1.PersistentVolume{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
			ObjectMeta: metav1.ObjectMeta{Name: large},
			Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: large}}}}
	})
	pod := func(claims int) *corev1.Pod {
		var o corev1.Pod
		for i := range claims {
			o.Spec.Volumes = append(o.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint("c", i)}}})
		}
		return &o
	}
	p := &podPass{server: &server{scheduler: kube}}
	problems, err := p.claimProblems(withinPass(t.Context()), pod(4))
	if err != nil || len(problems) != 4 {
		t.Fatalf("%d problems, %v", len(problems), err)
	}
	for _, problem := range problems {
		if len(problem) > 1024 {
			t.Errorf("%d bytes are kept of a claim", len(problem))
		}
	}
	if _, err := p.claimProblems(withinPass(t.Context()), pod(20)); !errors.Is(err, client.ErrTooLarge) {
		t.Errorf("a pass reads more than %d MiB: %v", maxPass>>20, err)
	}
}

// TestPodsOfATenantAreBounded has a pod with more containers than Fargate looks at.
func TestPodsOfATenantAreBounded(t *testing.T) {
	t.Parallel()
	kube := tenant(t, func(*http.Request) any {
		return corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "a", UID: "1"},
			Spec:       corev1.PodSpec{InitContainers: make([]corev1.Container, 1001)}}
	})
	p := &podPass{uid: "1", info: podInfo{namespace: "a", name: "a"}, server: &server{scheduler: kube}}
	var refused *outOfBounds
	if _, err := p.load(t.Context()); !errors.As(err, &refused) {
		t.Errorf("it is taken: %v", err)
	}
}

// TestPodsThatComeAndGoWait has an API server that tells of ever new pods: its watch goes no further than there is room
// for their keys, and no other source has them.
func TestPodsThatComeAndGoWait(t *testing.T) {
	t.Parallel()
	const room = 10
	kube := tenant(t, func(r *http.Request) any {
		pod := func(i int) corev1.Pod {
			return corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{
				Namespace: "a", Name: fmt.Sprint("p", i), UID: uidOf(fmt.Sprint(i)), ResourceVersion: fmt.Sprint(i)},
				Spec: corev1.PodSpec{SchedulerName: fargate.SchedulerName}}
		}
		if r.FormValue("watch") != "" {
			return map[string]any{"type": "ADDED", "object": pod(3 * room)}
		}
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
			ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
		for i := range 3 * room {
			list.Items = append(list.Items, pod(i))
		}
		return list
	})
	s := &server{key: "a/r/demo", scheduler: kube, again: make(chan struct{}, 1), pods: map[string]podInfo{},
		nodes: map[string]nodeInfo{}}
	full := errors.New("there is no room")
	err := s.followPods(t.Context(), func() {}, func(context.Context, string) error { return full })
	if known := len(s.unscheduled()); !errors.Is(err, full) || known != 3*room+1 {
		t.Fatalf("%d pods are known: %v", known, err)
	}
	s.tellUnscheduled()
	s.tellUnscheduled() // it does not wait
	var told []string
	err = s.followUnscheduled(t.Context(), func(_ context.Context, key string) error {
		if len(told) == room {
			return full
		}
		told = append(told, key)
		return nil
	})
	if !errors.Is(err, full) || len(told) != room || !slices.Contains(s.unscheduled(), told[0]) {
		t.Errorf("%q were told: %v", told, err)
	}
	pods := New(Options{}).Controllers()[1]
	if len(pods.Watches) != 1 || pods.ClusterWorkers >= pods.AccountWorkers {
		t.Errorf("the keys of pods do not come from a watch: %+v", pods)
	}
}
