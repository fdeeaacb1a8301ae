package fargate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sourcegraph/conc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/fargate"
	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store/storetest"
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

// TestLargeClaimsAreNoFailure has a pod whose claims are larger than what is read of them: its users are told, and its
// pass succeeds, so that it holds no room of other pods.
func TestLargeClaimsAreNoFailure(t *testing.T) {
	t.Parallel()
	large := map[string]string{"a": strings.Repeat("a", 256<<10)}
	pod := corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "a", UID: "1", CreationTimestamp: metav1.Now(),
			Labels: map[string]string{fargate.ProfileLabel: "fp"}}}
	for i := range 60 {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i),
			VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
				ClaimName: fmt.Sprint("c", i)}}})
	}
	var mu sync.Mutex
	var sent []string
	kube := tenant(t, func(r *http.Request) any {
		if r.Method != http.MethodGet {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			sent = append(sent, r.URL.Path+" "+string(body))
			mu.Unlock()
		}
		switch {
		case strings.Contains(r.URL.Path, "persistentvolumeclaims"):
			return corev1.PersistentVolumeClaim{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
				ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: large}}
		case strings.HasSuffix(r.URL.Path, "events"):
			return corev1.Event{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}}
		}
		return pod
	})
	s := storetest.New(t)
	c := New(Options{Store: s})
	cluster := record.Cluster{Account: "1", Region: "r", Name: "demo", ID: "id"}
	profile := record.FargateProfile{Account: "1", Region: "r", Cluster: "demo", ClusterID: "id", Name: "fp", ID: "p",
		Selectors: []record.FargateSelector{{Namespace: "a"}}}
	if _, err := c.profiles.Create(t.Context(), profile.Key(), profile); err != nil {
		t.Fatal(err)
	}
	_, err := c.states.Create(t.Context(), profile.Key(), record.FargateProfileState{ProfileID: "p", Created: true})
	if err != nil {
		t.Fatal(err)
	}
	p := &podPass{c: c, uid: "1", cluster: cluster, info: podInfo{namespace: "a", name: "a"}, exists: true,
		server: &server{scheduler: kube}}
	after, err := p.reconcile(withinPass(t.Context()))
	if err != nil || after <= 0 {
		t.Errorf("the pass is to be made again after %s: %v", after, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(sent) != 2 || !strings.Contains(sent[0], "are larger than 12 MiB together") ||
		!strings.Contains(sent[1], fargate.UnsupportedReason) {
		t.Errorf("it is told %q", sent)
	}
}

// TestPodsThatComeAndGoWait has an API server that tells of ever new pods: no more of them are told than there is room
// for their keys, and no other source has them. The mirror goes on meanwhile, and pods with a record do not wait.
func TestPodsThatComeAndGoWait(t *testing.T) {
	t.Parallel()
	const room = 10
	pod := func(i int) corev1.Pod {
		return corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: fmt.Sprint("p", i), UID: uidOf(fmt.Sprint(i)), ResourceVersion: fmt.Sprint(i + 2)},
			Spec: corev1.PodSpec{SchedulerName: fargate.SchedulerName}}
	}
	events := make(chan any)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.FormValue("watch") == "" {
			_ = json.NewEncoder(w).Encode(corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
				ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Pod{pod(0)}})
			return
		}
		for event := range events {
			_ = json.NewEncoder(w).Encode(event)
			w.(http.Flusher).Flush()
		}
	}))
	t.Cleanup(api.Close)
	kube, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	c := New(Options{Store: storetest.New(t)})
	s := newMirror("1/r/demo")
	s.scheduler = kube
	if _, err := c.pods.Create(t.Context(), s.podKey("0"), record.FargatePod{UID: "0"}); err != nil {
		t.Fatal(err)
	}
	var running conc.WaitGroup
	defer running.Wait()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	full := make(chan []string)
	running.Go(func() {
		var told []string
		_ = s.tellPods(ctx, func(ctx context.Context, key string) error { // it ends with ctx
			if told = append(told, key); len(told) < room {
				return nil
			}
			full <- told
			<-ctx.Done()
			return ctx.Err()
		})
	})
	woken := make(chan string, 1)
	running.Go(func() { _ = s.followPods(ctx, func() {}, c.podChanged(ctx, s, func(key string) { woken <- key })) })
	for i := range 3 * room {
		events <- map[string]any{"type": "ADDED", "object": pod(i + 1)}
	}
	if told := <-full; len(told) != room {
		t.Errorf("%q were told", told)
	}
	for i := range room { // some of them were told, and some were not
		events <- map[string]any{"type": "DELETED", "object": pod(i + 1)}
	}
	events <- map[string]any{"type": "DELETED", "object": pod(0)}
	close(events)
	if key := <-woken; key != s.podKey("0") {
		t.Errorf("%q is woken", key)
	}
	s.mu.Lock()
	if len(s.pods) != 2*room || len(s.untold) > 2*room {
		t.Errorf("%d pods are known, and %d wait", len(s.pods), len(s.untold))
	}
	s.mu.Unlock()
	pods := New(Options{}).Controllers()[1]
	if len(pods.Watches) != 1 || pods.ClusterWorkers >= pods.AccountWorkers {
		t.Errorf("the keys of pods do not come from a watch: %+v", pods)
	}
}

// TestLargePodsKeepTheirMachines has pods and nodes that became too large to be read: they are there, and nothing is
// known anew.
func TestLargePodsKeepTheirMachines(t *testing.T) {
	t.Parallel()
	object := func(kind, name string, labels int, more string) string {
		var all []string
		for i := range labels {
			all = append(all, fmt.Sprintf(`"a%d":""`, i))
		}
		return `{"apiVersion":"v1","kind":"` + kind + `","metadata":{"name":"` + name + `","uid":"` + name +
			`","resourceVersion":"2","labels":{` + strings.Join(all, ",") + `}},` + more + `}`
	}
	const spec, tooMany = `"spec":{"schedulerName":"` + fargate.SchedulerName + `","nodeName":"n"}`, 70_000
	const ready = `"status":{"conditions":[{"type":"Ready","status":"True"}]}`
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		list, items, changed := "NodeList", object("Node", "a", 1, ready), object("Node", "a", tooMany, ready)
		if strings.HasSuffix(r.URL.Path, "/pods") {
			items = object("Pod", "a", 1, spec) + "," + object("Pod", "b", tooMany, spec)
			list, changed = "PodList", object("Pod", "a", tooMany, spec)
		}
		if r.FormValue("watch") == "" {
			_, _ = fmt.Fprintf(w, `{"apiVersion":"v1","kind":%q,"metadata":{"resourceVersion":"1"},"items":[%s]}`, list, items)
			return
		}
		_, _ = fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}{"type":"ERROR","object":{"kind":"Status",`+
			`"apiVersion":"v1","status":"Failure","code":410}}`, changed)
	}))
	t.Cleanup(api.Close)
	config := &rest.Config{Host: api.URL, QPS: -1}
	connections, err := client.HTTP(config, "demo")
	if err != nil {
		t.Fatal(err)
	}
	s := newMirror("1/r/demo")
	if s.scheduler, err = kubernetes.NewForConfigAndClient(config, connections); err != nil {
		t.Fatal(err)
	}
	_ = s.followPods(t.Context(), func() {}, func(string) error { return nil }) // both end with an error
	_ = s.followNodes(t.Context(), func() {}, func(string) {})
	a, _ := s.pod("a")
	b, there := s.pod("b")
	n, known := s.node("a")
	if a.nodeName != "n" || a.gated || !there || b.nodeName != "n" || !b.gated || !known || !n.ready {
		t.Errorf("the pods are %+v and %+v, and the node %+v", a, b, n)
	}
}

// TestUnscheduledPodsAreTold has pods that may be told again, some of which need not be.
func TestUnscheduledPodsAreTold(t *testing.T) {
	t.Parallel()
	s := newMirror("1/r/demo")
	s.pods["1"], s.pods["2"], s.pods["3"] = podInfo{}, podInfo{nodeName: "a"}, podInfo{terminated: true}
	s.tellUnscheduled()
	s.tellUnscheduled() // it does not wait
	s.tell("4")         // which is gone
	for want := range 2 {
		if uid, ok := s.nextUntold(); ok != (want == 0) || ok && uid != "1" {
			t.Errorf("%q is told", uid)
		}
	}
}

// TestClaimsWithNamesOfNoPath has claims and volumes with names for which no client asks: they do not exist.
func TestClaimsWithNamesOfNoPath(t *testing.T) {
	t.Parallel()
	kube := tenant(t, func(*http.Request) any {
		return corev1.PersistentVolumeClaim{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
			ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "a/b"}}
	})
	p := &podPass{server: &server{scheduler: kube}}
	if claim, volume, err := p.getClaim(t.Context(), "a", "a/b"); claim != nil || volume != nil || err != nil {
		t.Errorf("the claim a/b is %v, its volume %v: %v", claim, volume, err)
	}
	if claim, volume, err := p.getClaim(t.Context(), "a", "c"); claim == nil || volume != nil || err != nil {
		t.Errorf("the claim c is %v, its volume %v: %v", claim, volume, err)
	}
}
