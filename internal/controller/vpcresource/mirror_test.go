package vpcresource

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/coracle-eks/coracle/internal/kube/apiserver"
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

// TestMirrorKeepsNoMoreOfTextsThanItCounts has nodes whose provider IDs are long, of which the ends are kept.
func TestMirrorKeepsNoMoreOfTextsThanItCounts(t *testing.T) {
	m := newMirror()
	inUse := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := inUse()
	for i := range 64 {
		_, err := m.setNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)},
			Spec: corev1.NodeSpec{ProviderID: strings.Repeat("a", 1<<20) + "/i-0123456789abcdef0"}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if after := inUse(); after > before+8<<20 || len(m.nodes) != 64 {
		t.Errorf("%d nodes take %d MiB", len(m.nodes), (after-before)>>20)
	}
}

// TestPodsThatAreTooLargeToBeReadUseInterfaces has large pods that were read before, and ones that never were.
func TestPodsThatAreTooLargeToBeReadUseInterfaces(t *testing.T) {
	t.Parallel()
	m := newMirror()
	set := func(name, link, node, annotation string) {
		t.Helper()
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name),
			SelfLink: link}, Spec: corev1.PodSpec{NodeName: node}}
		if annotation != "" {
			p.Annotations = map[string]string{webhook.PodENI: annotation}
		}
		if _, err := m.setPod(p); err != nil {
			t.Fatal(err)
		}
	}
	set("known", "", "n", "[1]")
	set("known", "partial", "n", "")
	set("known", "bare", "", "")
	set("placed", "partial", "n", "")
	set("placed", "bare", "", "")
	set("unplaced", "bare", "", "")
	set("waiting", "partial", "", "")
	_, pods := m.podsOn("n")
	at := func(name string) pod { return pods[types.NamespacedName{Namespace: "default", Name: name}] }
	if known := at("known"); known.unread || known.annotation != "[1]" {
		t.Errorf("of a pod that was read before, the mirror has %+v", known)
	}
	if placed, unplaced := at("placed"), at("unplaced"); !placed.unread || placed.node != "n" || !unplaced.unread {
		t.Errorf("of pods that were not, it has %+v and %+v", placed, unplaced)
	}
	if _, elsewhere := m.podsOn("other"); len(elsewhere) != 1 || len(pods) != 3 {
		t.Errorf("there are %d and %d pods", len(elsewhere), len(pods))
	}
	for _, name := range []string{"placed", "unplaced"} {
		set(name, "", "n", "") // which is small now
	}
	if _, pods := m.podsOn("n"); len(pods) != 1 {
		t.Errorf("there are %d pods", len(pods))
	}
	m.removePod(types.NamespacedName{Namespace: "default", Name: "known"})
	if m.size != 0 {
		t.Errorf("with nothing the size is %d", m.size)
	}
}

// TestWritesOfANodePause has an API server make something else of each write, and tell of it.
func TestWritesOfANodePause(t *testing.T) {
	t.Parallel()
	written := 0
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		written++
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"apiVersion":"vpcresources.k8s.aws/v1alpha1","kind":"CNINode","metadata":{"name":"n"}}`)
	}))
	t.Cleanup(api.Close)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	s, err := newServer(Options{Clock: clock}, &apiserver.Connection{Config: &rest.Config{Host: api.URL, QPS: -1},
		HTTP: api.Client()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.mirror.setNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	if err := errors.Join(err, s.mirror.setCNINode(newCNINode("n", ""))); err != nil {
		t.Fatal(err)
	}
	passes := func(want int) {
		t.Helper()
		var after time.Duration
		for range 100 {
			if after, err = s.reconcile(t.Context(), "n"); err != nil {
				t.Fatal(err)
			}
		}
		if written != want || after <= 0 || after > time.Second {
			t.Errorf("it was written %d times, and is again after %s", written, after)
		}
	}
	passes(maxWrites)
	clock.SetTime(clock.Now().Add(time.Second))
	passes(maxWrites + 1)
}
