package networkpolicyagent

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/coracle-eks/coracle/internal/eventually"
	kubeclient "github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/networkpolicy"
)

// recorder is a kernel that remembers its rules, as the real one does while there is no agent.
type recorder struct {
	rules  *ruleset
	writes int
	err    error
}

func (r *recorder) replace(rules *ruleset) error {
	var refused refusedError
	if r.err != nil && !errors.As(r.err, &refused) {
		return r.err
	}
	r.rules, r.writes = rules, r.writes+1
	return r.err
}

// of returns what the kernel has about the packets to a pod.
func (r *recorder) of(pod podRef) direction { return r.rules.chains[r.rules.ingress[linksOf(pod)[0]]] }

func newTestState(t *testing.T, k *recorder, file string, now *testingclock.FakeClock) *state {
	t.Helper()
	s := newState(zap.NewNop().Sugar(), k, file)
	s.clock = now
	s.exists = func(podRef) bool { return true }
	if err := s.load(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *state) learn(all ...*networkpolicy.PolicyEndpoint) {
	known := map[podRef]*networkpolicy.PolicyEndpoint{}
	for _, e := range all {
		known[podRef{Namespace: e.Namespace, Name: e.Name}] = e
	}
	s.setNode(netip.MustParseAddr("10.0.0.1"))
	s.change(func() { s.endpoints, s.cluster = known, map[podRef]*networkpolicy.ClusterPolicyEndpoint{} })
	s.enforce()
}

func TestAgentRestarts(t *testing.T) {
	t.Parallel()
	k, file := &recorder{}, filepath.Join(t.TempDir(), "pods.json")
	now := testingclock.NewFakeClock(time.Now())
	strict := podRef{Namespace: "shop", Name: "strict-1"}
	ingress := []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	web := endpoint("web-1", "web", ingress, "web-x-1")

	s := newTestState(t, k, file, now)
	s.learn(web)
	if err := s.addPod(t.Context(), strict, true); err != nil {
		t.Fatal(err)
	}
	if !k.of(strict).deny {
		t.Error("a pod starts in strict mode, and may send")
	}
	young := podRef{Namespace: "shop", Name: "web-x-2"}
	if err := s.addPod(t.Context(), young, false); err != nil {
		t.Fatal(err)
	}
	if !k.of(young).isolated {
		t.Error("a pod starts without the policies of its workload")
	}
	now.Step(youth + time.Second)
	if next := s.enforce(); next != 0 || k.of(young).isolated {
		t.Errorf("the controller does not name the pod, but it has %+v; again in %s", k.of(young), next)
	}

	// The agent dies. What it wrote stays, and the next one changes nothing before it knows everything.
	before, writes := k.rules, k.writes
	again := newTestState(t, k, file, now)
	if next := again.enforce(); next != 0 || k.rules != before {
		t.Error("an agent that knows nothing has written rules")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := again.addPod(ctx, podRef{Namespace: "shop", Name: "web-x-3"}, false); !errors.Is(err, errUnknown) {
		t.Errorf("a pod starts while its policies are not known: %v", err)
	}
	again.learn(web)
	if k.writes != writes+1 || !k.of(strict).deny || !k.of(podRef{Namespace: "shop", Name: "web-x-1"}).isolated {
		t.Errorf("after the restart, the kernel has %+v", k.rules)
	}
	again.enforce()
	if k.writes != writes+1 {
		t.Error("equal rules were written again")
	}

	// Pods that went meanwhile are forgotten.
	gone := newState(zap.NewNop().Sugar(), k, file)
	gone.exists = func(podRef) bool { return false }
	if err := gone.load(); err != nil || len(gone.pods) != 0 {
		t.Errorf("an agent remembers %v, %v", gone.pods, err)
	}
}

func TestRefusedRules(t *testing.T) {
	t.Parallel()
	k := &recorder{}
	s := newTestState(t, k, filepath.Join(t.TempDir(), "pods.json"), testingclock.NewFakeClock(time.Now()))
	s.learn()
	k.err = errors.New("no memory")
	pod := podRef{Namespace: "shop", Name: "strict-1"}
	if err := s.addPod(t.Context(), pod, true); !errors.Is(err, k.err) || len(s.pods) != 0 {
		t.Errorf("a pod starts without its rules: %v, known are %v", err, s.pods)
	}
	s.change(func() {
		s.endpoints[podRef{Namespace: "shop", Name: "web-1"}] = endpoint("web-1", "web", []networkingv1.PolicyType{
			networkingv1.PolicyTypeIngress}, "web-x-1")
	})
	if next := s.enforce(); next != retry {
		t.Errorf("rules that could not be written are tried again in %s", next)
	}
	k.err = nil
	if s.enforce(); !k.of(podRef{Namespace: "shop", Name: "web-x-1"}).isolated {
		t.Error("rules are not written again")
	}
}

// TestRefusedChainsHoldUpNobody has a kernel that refuses the rules of some pods: others start, and it is asked again.
func TestRefusedChainsHoldUpNobody(t *testing.T) {
	t.Parallel()
	k := &recorder{err: refusedError{errors.New("no memory")}}
	s := newTestState(t, k, filepath.Join(t.TempDir(), "pods.json"), testingclock.NewFakeClock(time.Now()))
	s.learn()
	if err := s.addPod(t.Context(), podRef{Namespace: "shop", Name: "web-1"}, true); err != nil || len(s.pods) != 1 {
		t.Errorf("a pod does not start: %v", err)
	}
	for _, want := range []time.Duration{youth, retryRefused} {
		if next := s.enforce(); next != want {
			t.Errorf("rules that were refused are tried again in %s, want %s", next, want)
		}
		s.clock.(*testingclock.FakeClock).Step(2 * youth)
	}
	k.err = nil
	if next := s.enforce(); next != 0 || s.applied == "" {
		t.Errorf("rules that are taken are tried again in %s", next)
	}
}

// TestObjectsThatCannotBeReadAreSkipped has an object of another version of the resource among others, in the list and
// in the watch, and a cluster that has the resource no more.
func TestObjectsThatCannotBeReadAreSkipped(t *testing.T) {
	t.Parallel()
	object := func(name string, priority any) map[string]any {
		return map[string]any{"apiVersion": networkpolicy.GroupVersion.String(), "kind": "ClusterPolicyEndpoint",
			"metadata": map[string]any{"name": name, "resourceVersion": "2"}, "spec": map[string]any{"priority": priority}}
	}
	const none = "first"
	end := make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.FormValue("watch") == "" {
			_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{
				"resourceVersion": "1"}, "items": []any{object("good", 1), object("bad", none)}})
			return
		}
		for _, o := range []map[string]any{object("worse", none), object("better", 2)} {
			_ = json.NewEncoder(w).Encode(map[string]any{"type": "ADDED", "object": o})
		}
		w.(http.Flusher).Flush()
		<-end
	}))
	defer api.Close()
	defer close(end)
	config := &rest.Config{Host: api.URL}
	connections, err := kubeclient.HTTP(config, "demo")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfigAndClient(config, connections)
	if err != nil {
		t.Fatal(err)
	}
	s := newTestState(t, &recorder{}, filepath.Join(t.TempDir(), "pods.json"), testingclock.NewFakeClock(time.Now()))
	r := clusterPolicyEndpoints(objects)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.followOnce(ctx, s) }()
	known := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.cluster)
	}
	eventually.True(t, "the objects that can be read are known", func() bool { return known() == 2 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if r.missing(s); known() != 2 {
		t.Errorf("where the resource is gone, %d objects are left", known())
	}
}

// TestObjectsThatAreTooLargeStay has an object that somebody makes too large to be read: what the pods have stays, also
// when the objects are listed again.
func TestObjectsThatAreTooLargeStay(t *testing.T) {
	t.Parallel()
	object := func(name string, labels int) map[string]any {
		all := map[string]any{}
		for i := range labels {
			all[strconv.Itoa(i)] = ""
		}
		return map[string]any{"apiVersion": networkpolicy.GroupVersion.String(), "kind": "ClusterPolicyEndpoint",
			"metadata": map[string]any{"name": name, "resourceVersion": "2", "labels": all},
			"spec":     map[string]any{"priority": 7}}
	}
	const tooMany = 70_000
	var lists atomic.Int32
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.FormValue("watch") == "" {
			items := []any{object("known", 1)}
			if lists.Add(1) > 1 {
				items = []any{object("known", tooMany), object("new", tooMany)}
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{
				"resourceVersion": "1"}, "items": items})
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "MODIFIED", "object": object("known", tooMany)})
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "ERROR", "object": map[string]any{"kind": "Status",
			"apiVersion": "v1", "status": "Failure", "message": "gone", "reason": "Expired", "code": 410}})
	}))
	defer api.Close()
	config := &rest.Config{Host: api.URL}
	connections, err := kubeclient.HTTP(config, "demo")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfigAndClient(config, connections)
	if err != nil {
		t.Fatal(err)
	}
	s := newTestState(t, &recorder{}, filepath.Join(t.TempDir(), "pods.json"), testingclock.NewFakeClock(time.Now()))
	for range 2 {
		if err := clusterPolicyEndpoints(objects).followOnce(t.Context(), s); err == nil {
			t.Error("the watch does not end")
		}
		s.mu.Lock()
		if known := s.cluster[podRef{Name: "known"}]; len(s.cluster) != 1 || known == nil || known.Spec.Priority != 7 {
			t.Errorf("known are %v", s.cluster)
		}
		s.mu.Unlock()
	}
}

// TestPluginProtocol calls the agent as the CNI plugin does.
func TestPluginProtocol(t *testing.T) {
	t.Parallel()
	k := &recorder{}
	s := newTestState(t, k, filepath.Join(t.TempDir(), "pods.json"), testingclock.NewFakeClock(time.Now()))
	s.learn()
	socket := filepath.Join(t.TempDir(), "npa.sock")
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	b := &backend{log: zap.NewNop().Sugar(), state: s}
	go func() { served <- b.serve(ctx, socket) }()
	defer func() { cancel(); <-served }()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	call := func(method string, fields ...string) error {
		var content []byte
		for i, f := range fields {
			content = protowire.AppendString(protowire.AppendTag(content, protowire.Number(i+1), protowire.BytesType), f)
		}
		content = protowire.AppendVarint(protowire.AppendTag(content, 4, protowire.VarintType), 1) // InterfaceCount
		in, out := &emptypb.Empty{}, &emptypb.Empty{}
		in.ProtoReflect().SetUnknown(content)
		within, cancel := context.WithTimeout(t.Context(), eventually.Limit)
		defer cancel()
		if err := conn.Invoke(within, "/rpc.NPBackend/"+method, in, out, grpc.WaitForReady(true)); err != nil {
			return err
		}
		if got := out.ProtoReflect().GetUnknown(); string(got) != "\x08\x01" {
			t.Errorf("%s answers %x", method, got)
		}
		return nil
	}
	pod := podRef{Namespace: "shop", Name: "web-x-1"}
	if err := call("EnforceNpToPod", pod.Name, pod.Namespace, "strict"); err != nil || !k.of(pod).deny {
		t.Errorf("EnforceNpToPod: %v, the pod has %+v", err, k.of(pod))
	}
	if err := call("EnforceNpToPod", pod.Name, pod.Namespace, "lenient"); err == nil {
		t.Error("a mode that does not exist is taken")
	}
	if err := call("DeletePodNp", pod.Name, pod.Namespace); err != nil || len(s.pods) != 0 {
		t.Errorf("DeletePodNp: %v, known are %v", err, s.pods)
	}
}
