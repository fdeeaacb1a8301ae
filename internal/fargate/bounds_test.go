package fargate

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/record"
)

func TestCheckBounds(t *testing.T) {
	t.Parallel()
	claims := func(n int) (volumes []corev1.Volume) {
		for i := range n {
			volumes = append(volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint(i)}}})
		}
		return volumes
	}
	for name, test := range map[string]struct {
		spec    corev1.PodSpec
		refused string
	}{
		"as many as may be": {corev1.PodSpec{Containers: make([]corev1.Container, 500),
			InitContainers: make([]corev1.Container, 500), Volumes: append(claims(100), make([]corev1.Volume, 900)...)}, ""},
		"containers": {corev1.PodSpec{Containers: make([]corev1.Container, 500),
			InitContainers: make([]corev1.Container, 501)}, "1001 containers"},
		"ephemeral containers": {corev1.PodSpec{EphemeralContainers: make([]corev1.EphemeralContainer, 1001)},
			"1001 containers"},
		"volumes": {corev1.PodSpec{Volumes: make([]corev1.Volume, 1001)}, "1001 volumes"},
		"claims":  {corev1.PodSpec{Volumes: claims(101)}, "101 persistent volume claims"},
		"constraints": {corev1.PodSpec{TopologySpreadConstraints: make([]corev1.TopologySpreadConstraint, 101)},
			"101 topology spread constraints"},
		"keys": {corev1.PodSpec{TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{}, {
			MatchLabelKeys: make([]string, 101)}}}, "101 label keys"},
	} {
		err := CheckBounds(&corev1.Pod{Spec: test.spec})
		if (err != nil) != (test.refused != "") || err != nil && !strings.Contains(err.Error(), test.refused) {
			t.Errorf("%s: %v, want %q", name, err, test.refused)
		}
	}
}

// TestReasonsAreShort has names that are as long, and as many, as an API server likes.
func TestReasonsAreShort(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("a", 1<<20)
	pod := &corev1.Pod{Spec: corev1.PodSpec{Overhead: corev1.ResourceList{corev1.ResourceName(large): {}}}}
	for i := range 1000 {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: fmt.Sprint(i, large[:1<<10])})
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			SecurityContext: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{
				Add: []corev1.Capability{corev1.Capability(large[:1<<10])}}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceName(fmt.Sprint("r", i)): resource.MustParse("0")}}})
	}
	text := strings.Join(Unsupported(pod), ", ")
	if len(text) > 20<<10 || !strings.Contains(text, "980 more") || !strings.Contains(text, "resources not supported") {
		t.Errorf("%d bytes: %.200s", len(text), text)
	}
	claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: large},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: large}}
	driver := volume.DeepCopy()
	driver.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: large}
	for _, v := range []*corev1.PersistentVolume{nil, volume, driver} {
		if problem := ClaimProblem(large, claim, v); problem == "" || len(problem) > 1<<10 {
			t.Errorf("%d bytes are said of a claim", len(problem))
		}
	}
}

// TestNegativeRequests has an API server that takes less than nothing: what is computed with it does not fit in 64
// bits.
func TestNegativeRequests(t *testing.T) {
	t.Parallel()
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory,
		corev1.ResourceEphemeralStorage} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{name: resource.MustParse("-9e18")}}}}}}
		var refused *SizeError
		if size, err := SizeOf(pod); !errors.As(err, &refused) {
			t.Errorf("%s: %+v, %v", name, size, err)
		}
	}
}

// TestSelectorsThatTakeLong has labels that are made to be compared for long.
func TestSelectorsThatTakeLong(t *testing.T) {
	t.Parallel()
	labels := map[string]string{}
	for i := range MaxLabels {
		labels[fmt.Sprintf("%s%03d", strings.Repeat("a", maxKey-3), i)] = ""
	}
	slow := record.FargateSelector{Namespace: "*", Labels: map[string]string{}}
	for i := range 5 {
		slow.Labels[fmt.Sprint("*", strings.Repeat("a", 100), "b", i)] = "*"
	}
	fits := record.FargateSelector{Namespace: "a"}
	p := record.FargateProfile{Name: "p", Selectors: []record.FargateSelector{slow, fits}}
	if SelectedBy(p, "a", labels) || Select([]record.FargateProfile{p}, "a", labels, nil) != "" {
		t.Error("it is compared to the end")
	}
	if !SelectedBy(p, "a", map[string]string{"a": "b"}) {
		t.Error("others are not selected")
	}
}
