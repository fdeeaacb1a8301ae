package simulated

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
)

func quietFleet(nodes ...string) *fleet {
	f := &fleet{c: &Controller{log: slog.New(slog.DiscardHandler)}, kubelets: map[string]*kubelet{},
		pods: map[podName]*pod{}, due: map[string]int{},
		work: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[podName]())}
	for _, name := range nodes {
		f.kubelets[name] = &kubelet{name: name}
	}
	return f
}

func pendingPod(node string, n int, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("pod-", n), UID: types.UID(fmt.Sprint(n))},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i",
			Command: []string{"sh"}, Env: []corev1.EnvVar{{Name: "a", Value: "b"}}}},
			Volumes: []corev1.Volume{{Name: "v"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if change != nil {
		change(p)
	}
	return p
}

// What stages do not read of a pod is not kept, and they do the same with what is kept.
func TestLittleIsKeptOfAPod(t *testing.T) {
	t.Parallel()
	always := corev1.ContainerRestartPolicyAlways
	whole := pendingPod("a", 1, func(p *corev1.Pod) {
		p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
		p.Annotations, p.Labels = map[string]string{"a": "b"}, map[string]string{"c": "d"}
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "j"}}
		p.Spec.InitContainers = []corev1.Container{{Name: "s", Image: "i", RestartPolicy: &always}, {Name: "t"}}
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "g"}}
		p.Status.Conditions = []corev1.PodCondition{{Type: "Other", Message: "m"}}
	})
	due, _ := trimPod(whole)
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod-1", UID: "1",
			OwnerReferences: []metav1.OwnerReference{{Kind: "Job"}}},
		Spec: corev1.PodSpec{NodeName: "a", Containers: []corev1.Container{{Name: "c", Image: "i"}},
			InitContainers: []corev1.Container{{Name: "s", Image: "i", RestartPolicy: &always}, {Name: "t"}},
			ReadinessGates: whole.Spec.ReadinessGates},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if !reflect.DeepEqual(due, want) {
		t.Errorf("%+v is kept", due)
	}
	player := newPlayer(quietFleet())
	for name, change := range map[string]func(*corev1.Pod){
		"pod-ready": func(*corev1.Pod) {},
		"pod-ready-again": func(p *corev1.Pod) {
			p.OwnerReferences, p.Status.Phase = nil, corev1.PodRunning
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
		},
		"pod-complete": func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodRunning
		},
		"pod-delete": func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} },
		"":           func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
	} {
		p := whole.DeepCopy()
		change(p)
		due, _ := trimPod(p)
		for _, p := range []*corev1.Pod{p, due} {
			stage, _, err := player.matchStage(t.Context(), p)
			got := ""
			if stage != nil {
				got = stage.Name()
			}
			if err != nil || got != name {
				t.Errorf("stage %q, %v; want %q", got, err, name)
			}
		}
	}
}

// TestPodsOfATenantAreBounded runs against an API server with pods that no machine can have.
func TestPodsOfATenantAreBounded(t *testing.T) {
	t.Parallel()
	kept := func(f *fleet) (due, bytes int) {
		for _, p := range f.pods {
			if p.due != nil {
				due++
				bytes += len(p.due.Spec.Containers[0].Image)
			}
		}
		return due, bytes
	}
	image := strings.Repeat("a", 1<<20)
	large := func(p *corev1.Pod) { p.Spec.Containers[0].Image = image }
	for name, test := range map[string]struct {
		node string
		most int
	}{"of a machine": {"a", maxDue}, "of nobody": {"b", maxDueOthers}} {
		f := quietFleet("a")
		for i := range 2 * test.most >> 20 {
			f.observePod(pendingPod(test.node, i, large))
		}
		due, bytes := kept(f)
		if bytes > test.most || bytes < test.most*3/4 || f.work.Len() > due {
			t.Errorf("%s: %d bytes of %d pods are kept", name, bytes, due)
		}
		f.forgetPod(podName{"default", "pod-0"})
		f.observePod(pendingPod(test.node, 1, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }))
		f.observePod(pendingPod(test.node, 2, func(p *corev1.Pod) { p.UID = "another" }))
		f.observePod(pendingPod(test.node, 1<<20, large))
		if now, _ := kept(f); now != due-1 {
			t.Errorf("%s: %d pods are kept once three are gone and two have come, want %d", name, now, due-1)
		}
		for name := range f.pods {
			f.forgetPod(name)
		}
		if len(f.due) != 0 {
			t.Errorf("%s: %v is left", name, f.due)
		}
	}
	f := quietFleet("a")
	for i := range client.MaxObjects + 10 {
		f.observePod(pendingPod("a", i, nil))
	}
	f.observePod(pendingPod(strings.Repeat("a", 254), -1, nil))
	if len(f.pods) != client.MaxObjects {
		t.Errorf("%d pods are known", len(f.pods))
	}
	f = quietFleet("a")
	f.observePod(pendingPod("a", 1, func(p *corev1.Pod) {
		for range 10 {
			p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: strings.Repeat("1", 46)},
				corev1.PodIP{IP: "10.0.0.1"})
		}
	}))
	if got := fmt.Sprint(f.pods[podName{"default", "pod-1"}].address); got != "[10.0.0.1 10.0.0.1]" {
		t.Errorf("addresses %.100s", got)
	}
}

// TestAnswersToANodeAreBounded runs against an API server that gives a Node a UID, and a Lease a version, of any
// length.
func TestAnswersToANodeAreBounded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ uid, version string }{
		"what is in order": {"u", "1"},
		"a long UID":       {strings.Repeat("u", 1<<20), "1"},
		"a long version":   {"u", strings.Repeat("1", 1<<20)},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			version := "1"
			if strings.HasSuffix(r.URL.Path, "/leases") {
				version = test.version
			}
			_, _ = fmt.Fprintf(w, `{"metadata":{"name":"a","uid":%q,"resourceVersion":%q}}`, test.uid, version)
		}))
		f := quietFleet()
		f.client, f.host = server.Client(), server.URL
		f.c.o.Credentials = func(context.Context, record.Instance) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b"}, nil
		}
		k := &kubelet{name: "a", boot: &node{}, fleet: f}
		_, err := k.reconcileNode(t.Context())
		if inOrder := len(test.uid)+len(test.version) < 10; (err == nil) != inOrder || len(k.uid)+len(k.lease) > 10 {
			t.Errorf("%s: %.200v; a UID of %d bytes and a version of %d bytes are kept", name, err, len(k.uid), len(k.lease))
		}
		server.Close()
	}
}
