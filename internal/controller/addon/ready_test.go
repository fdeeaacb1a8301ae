package addon

import (
	"strings"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
)

// TestAils checks the reported problems of pods.
func TestAils(t *testing.T) {
	t.Parallel()
	scheduled := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}
	waiting := func(reason, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: "main", Image: "registry/image:1",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
	}
	ended := corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}
	crashing := waiting("CrashLoopBackOff", "back-off 5m0s")
	crashing.RestartCount, crashing.LastTerminationState.Terminated = 3, &ended
	for name, c := range map[string]struct {
		status corev1.PodStatus
		want   string
		rank   int
	}{
		"ready": {corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady,
			Status: corev1.ConditionTrue}}, ContainerStatuses: []corev1.ContainerStatus{waiting("x", "")}}, "", 0},
		"on its way": {corev1.PodStatus{Conditions: []corev1.PodCondition{scheduled},
			ContainerStatuses: []corev1.ContainerStatus{waiting("ContainerCreating", "")}}, "", 0},
		"without a node": {corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled,
			Status: corev1.ConditionFalse, Message: "0/1 nodes are available:\n no cpu"}}},
			"pod p cannot be scheduled: 0/1 nodes are available: no cpu", homeless},
		"without an image": {corev1.PodStatus{Conditions: []corev1.PodCondition{scheduled},
			ContainerStatuses: []corev1.ContainerStatus{waiting("ErrImagePull", "not found")}},
			"pod p cannot pull image registry/image:1: not found", imageless},
		"ends": {corev1.PodStatus{Conditions: []corev1.PodCondition{scheduled},
			ContainerStatuses: []corev1.ContainerStatus{crashing}},
			"container main of pod p ended with exit code 137 (OOMKilled) and was started again 3 times", failing},
		"an init container": {corev1.PodStatus{Conditions: []corev1.PodCondition{scheduled},
			InitContainerStatuses: []corev1.ContainerStatus{waiting("ImagePullBackOff", "")},
			ContainerStatuses:     []corev1.ContainerStatus{waiting("PodInitializing", "")}},
			"pod p cannot pull image registry/image:1: ImagePullBackOff", imageless},
		"without its Secret": {corev1.PodStatus{Conditions: []corev1.PodCondition{scheduled},
			ContainerStatuses: []corev1.ContainerStatus{waiting("CreateContainerConfigError", `secret "s" not found`)}},
			`container main of pod p does not start: secret "s" not found`, unstarted},
		"runs, not ready": {corev1.PodStatus{Conditions: []corev1.PodCondition{scheduled},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main",
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}},
			"container main of pod p runs, but is not ready", unstarted},
	} {
		got := podAilment(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: c.status})
		if got.text != c.want || got.rank != c.rank {
			t.Errorf("%s: %q, rank %d; want %q, rank %d", name, got.text, got.rank, c.want, c.rank)
		}
	}
}

// TestPodsThatAreRefused makes admission refuse the pods of a DaemonSet whose status does not show it.
func TestPodsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newFixture(t, Options{Patience: 200 * time.Millisecond}, 1)
	_, err := w.kube.CoreV1().ResourceQuotas("kube-system").Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: quantity.MustParse("0")}},
	}, metav1.CreateOptions{})
	w.must(err)
	eventually.Nil(w, "the quota is in force", func() error {
		q, err := w.kube.CoreV1().ResourceQuotas("kube-system").Get(t.Context(), "none", metav1.GetOptions{})
		if err == nil && q.Status.Hard == nil {
			err = errNoKind
		}
		return err
	})
	for name, id := range map[string]string{"agent": "daemonset.apps/agent", "web": "deployment.apps/web"} {
		w.create(name, record.AddonConfig{Version: "v1"})
		w.says(w.becomes(name, ekstypes.AddonStatusDegraded, ekstypes.AddonIssueCodeInsufficientNumberOfReplicas),
			"exceeded quota: none", id)
	}
	w.must(w.kube.CoreV1().ResourceQuotas("kube-system").Delete(t.Context(), "none", metav1.DeleteOptions{}))
	for _, name := range []string{"agent", "web"} {
		issues := func() string { _, i := w.status(name); return text(i) }
		w.becomes(name, ekstypes.AddonStatusActive)
		if strings.Contains(issues(), "quota") {
			t.Error(issues())
		}
	}
}
