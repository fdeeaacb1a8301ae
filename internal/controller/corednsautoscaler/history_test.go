package corednsautoscaler

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for configuration, want := range map[string]struct {
		bounds
		scaled bool
	}{
		"":                                  {bounds{2, 0}, false},
		`{"replicaCount":3}`:                {bounds{2, 0}, false},
		`{"autoScaling":{"enabled":false}}`: {bounds{2, 0}, false},
		`{"autoScaling":{"enabled":true}}`:  {bounds{2, 0}, true},
		"autoScaling: {enabled: true, minReplicas: 4, maxReplicas: 10}":            {bounds{4, 10}, true},
		"autoScaling: {enabled: true, minReplicas: 0}":                             {bounds{1, 0}, true},
		`{"autoScaling":{"enabled":true},"replicaCount":3}`:                        {bounds{2, 0}, false},
		"autoScaling: {enabled: true, minReplicas: 1001, maxReplicas: 2000000000}": {bounds{1000, 1000}, true},
		"[": {},
	} {
		if got, scaled := parse(configuration); got != want.bounds || scaled != want.scaled {
			t.Errorf("%s: %+v, %v", configuration, got, scaled)
		}
	}
}

func TestDemand(t *testing.T) {
	t.Parallel()
	for s, want := range map[size]int32{
		{}: 0, {1, 2}: 1, {16, 32}: 1, {17, 34}: 2, {32, 256}: 2, {10, 257}: 2, {100, 1024}: 7, {40, 2560}: 10,
		{1, 1e12}: 1000, {1 << 30, 0}: 1000,
	} {
		if got := s.demand(); got != want {
			t.Errorf("%+v: %d, want %d", s, got, want)
		}
	}
}

// TestDecide takes a cluster through growth, a peak, and its end.
func TestDecide(t *testing.T) {
	t.Parallel()
	var h history
	begin := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	replicas := int32(2)
	for _, step := range []struct {
		minutes float64
		demand  int32
		bounds
		want  int32
		again time.Duration // 0 for not before something changes
	}{
		{0, 1, bounds{2, 0}, 2, 0},                  // the least number
		{1, 7, bounds{2, 0}, 7, 0},                  // more at once
		{2, 12, bounds{2, 10}, 10, 0},               // up to the largest
		{3, 3, bounds{2, 10}, 10, 10 * time.Minute}, // the peak of ten minutes counts
		{12, 3, bounds{2, 10}, 10, time.Minute},
		{13, 3, bounds{2, 10}, 7, 3 * time.Minute}, // and then a third less
		{14, 3, bounds{2, 10}, 7, 2 * time.Minute}, // but not again
		{16, 3, bounds{2, 10}, 5, 3 * time.Minute}, // before three minutes have passed
		{17, 6, bounds{2, 10}, 6, 0},               // more at once
		{18, 1, bounds{2, 10}, 6, 10 * time.Minute},
		{19, 1, bounds{2, 4}, 4, 9 * time.Minute},  // what the user says counts at once
		{20, 1, bounds{5, 10}, 6, 8 * time.Minute}, // in both directions
		{28, 1, bounds{2, 10}, 4, 3 * time.Minute},
		{31, 1, bounds{2, 10}, 3, 3 * time.Minute}, // by one at least
		{34, 1, bounds{2, 10}, 2, 0},               // down to the least number
		{60, 0, bounds{2, 10}, 2, 0},
	} {
		now := begin.Add(time.Duration(step.minutes * float64(time.Minute)))
		got, again := h.decide(now, replicas, step.demand, step.bounds)
		if got != step.want {
			t.Fatalf("after %v minutes: %d replicas, want %d", step.minutes, got, step.want)
		}
		if step.again != 0 && again != step.again {
			t.Errorf("after %v minutes: again after %v, want %v", step.minutes, again, step.again)
		}
		replicas = got
	}
}

// TestDecideAfterAStart has a daemon that starts while there are more replicas than a small cluster needs.
func TestDecideAfterAStart(t *testing.T) {
	t.Parallel()
	var h history
	begin := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	if got, again := h.decide(begin, 9, 1, bounds{2, 0}); got != 9 || again != peakTime {
		t.Errorf("at once: %d, again after %v", got, again)
	}
	if got, _ := h.decide(begin.Add(peakTime), 9, 1, bounds{2, 0}); got != 6 {
		t.Errorf("after ten minutes: %d", got)
	}
}

// TestKubeletsSayHowManyCoresThereAre has a node that says that it has more than any machine.
func TestKubeletsSayHowManyCoresThereAre(t *testing.T) {
	t.Parallel()
	for says, want := range map[string]float64{"2": 2, "192": 192, "1e12": maxCores, "-8": 0} {
		n := &corev1.Node{Status: corev1.NodeStatus{Capacity: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(says)}}}
		if got := coresOf(n); got != want {
			t.Errorf("%s: %v cores, want %v", says, got, want)
		}
	}
}
