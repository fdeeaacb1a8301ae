package fargate_test

import (
	"fmt"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coracle-eks/coracle/internal/record"
)

// retires waits until nothing is recorded of a pod.
func (w *fixture) retires(pod *corev1.Pod) {
	w.t.Helper()
	w.until("the machine of "+pod.Name+" is gone", func() error {
		if row := w.row(pod); row.UID != "" {
			return fmt.Errorf("it has %+v", row)
		}
		return nil
	})
}

// TestPodsThatEndKeepTheirMachines has pods as those of Jobs: they begin when a queue lets them, and end by themselves.
// The machine of one that has ended stays until the pod is deleted, or can show its logs no longer.
func TestPodsThatEndKeepTheirMachines(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.active("fargate")
	pods := w.kube.CoreV1().Pods("fargate")
	gated := w.pod("fargate", "gated", func(p *corev1.Pod) {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/queue"}, {Name: "example.com/quota"}}
	})
	ended := map[string]*corev1.Pod{}
	for name, phase := range map[string]corev1.PodPhase{"kept": corev1.PodSucceeded, "machine-dies": corev1.PodFailed,
		"node-deleted": corev1.PodSucceeded, "finalized": corev1.PodFailed} {
		pod, _ := w.runs(w.pod("fargate", name, func(p *corev1.Pod) {
			if name == "finalized" {
				p.Finalizers = []string{"example.com/look"}
			}
		}))
		w.kubelet.End(pod, phase)
		ended[name] = pod
	}

	// A gate that is left keeps the pod from having anything.
	ungate := func(rest string) {
		t.Helper()
		must(pods.Patch(t.Context(), "gated", types.MergePatchType, []byte(`{"spec":{"schedulingGates":`+rest+`}}`),
			metav1.PatchOptions{}))(t)
	}
	ungate(`[{"name":"example.com/quota"}]`)
	w.runs(w.pod("fargate", "later"))
	if row, events := w.row(gated), w.events(gated); row.UID != "" || len(events) > 0 {
		t.Errorf("a pod with a scheduling gate has %+v, and the events %q", row, events)
	}
	ungate("null")
	w.runs(gated)

	dead := w.row(ended["machine-dies"])
	if err := w.endMachine(t.Context(), record.EC2Key(account, region, dead.InstanceID), "killed"); err != nil {
		t.Fatal(err)
	}
	w.retires(ended["machine-dies"])
	nodes := w.kube.CoreV1().Nodes()
	if err := nodes.Delete(t.Context(), w.row(ended["node-deleted"]).NodeName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.retires(ended["node-deleted"])
	w.kubelet.Silence(w.row(ended["finalized"]).NodeName)
	w.deletePod(ended["finalized"])
	w.retires(ended["finalized"])
	must(pods.Patch(t.Context(), "finalized", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{}))(t)

	w.stop()
	w.start()
	w.runs(w.pod("fargate", "latest"))
	row := w.row(ended["kept"])
	instance := must(record.Instances(w.store).Get(t.Context(), record.EC2Key(account, region, row.InstanceID)))(t).Value
	if _, err := nodes.Get(t.Context(), row.NodeName, metav1.GetOptions{}); err != nil || row.Ending ||
		instance.Wanted != ec2types.InstanceStateNameRunning {
		t.Errorf("a pod that has ended, and is not deleted, has %+v, %+v: %v", row, instance, err)
	}
	for _, pod := range must(pods.List(t.Context(), metav1.ListOptions{}))(t).Items {
		w.deletePod(&pod)
	}
	w.empty()
	if _, err := pods.Get(t.Context(), "kept", metav1.GetOptions{}); err == nil {
		t.Error("the pod is left")
	}
}
