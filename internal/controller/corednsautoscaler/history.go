package corednsautoscaler

import (
	"math"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/document"
)

const (
	// nodesPerReplica and coresPerReplica are the parts of a cluster that one replica serves.
	nodesPerReplica, coresPerReplica = 16, 256
	// maxReplicas is the largest number of replicas, which the schema of the add-on says, too; and maxCores the largest
	// number of cores that count of a node, whose kubelet says how many it has.
	maxReplicas, maxCores = 1000, 1024
	// defaultMin is the least number of replicas, unless the configuration says otherwise.
	defaultMin = 2
	// peakTime is the time in which the largest demand counts.
	peakTime = 10 * time.Minute
	// shrinkTime is the time from one reduction to the next, each by a third.
	shrinkTime = 3 * time.Minute
)

// bounds are those of the configuration; max is 0 without one.
type bounds struct{ min, max int32 }

// parse returns the bounds of a configuration of the add-on, which its schema has admitted; false if that asks for no
// scaling, or for a number of replicas.
func parse(configuration string) (b bounds, scaled bool) {
	var c struct {
		ReplicaCount *int64 `json:"replicaCount"`
		AutoScaling  struct {
			Enabled     bool   `json:"enabled"`
			MinReplicas *int32 `json:"minReplicas"`
			MaxReplicas *int32 `json:"maxReplicas"`
		} `json:"autoScaling"`
	}
	if document.CheckYAML([]byte(configuration)) != nil || yaml.Unmarshal([]byte(configuration), &c) != nil {
		return bounds{}, false
	}
	b.min = defaultMin
	if n := c.AutoScaling.MinReplicas; n != nil {
		b.min = min(max(*n, 1), maxReplicas)
	}
	if n := c.AutoScaling.MaxReplicas; n != nil {
		b.max = min(max(*n, 1), maxReplicas)
	}
	return b, c.AutoScaling.Enabled && c.ReplicaCount == nil
}

// clamp returns the number of replicas within the bounds that is nearest to n.
func (b bounds) clamp(n int32) int32 {
	n = max(n, b.min)
	if b.max > 0 {
		n = min(n, b.max)
	}
	return n
}

// size is that of a cluster.
type size struct {
	nodes int
	cores float64
}

// demand returns the number of replicas that serve a cluster.
func (s size) demand() int32 {
	n := max(math.Ceil(float64(s.nodes)/nodesPerReplica), math.Ceil(s.cores/coresPerReplica))
	return int32(min(n, maxReplicas))
}

// history has what was demanded lately.
type history struct {
	peaks  []peak // falling in demand, rising in time; the last one goes on
	shrunk time.Time
}

type peak struct {
	at     time.Time // when it was last seen
	demand int32
}

// decide returns the number of replicas that there should be, given those that there are and the demand, and the time
// until it is to be asked again; 0 is not before something changes.
func (h *history) decide(now time.Time, replicas, demand int32, b bounds) (want int32, after time.Duration) {
	if h.peaks == nil { // the daemon has just started
		h.record(now, replicas)
	}
	h.record(now, demand)
	for now.Sub(h.peaks[0].at) >= peakTime && len(h.peaks) > 1 {
		h.peaks = h.peaks[1:]
	}
	target := b.clamp(h.peaks[0].demand)
	switch {
	case b.max > 0 && replicas > b.max:
		replicas = b.clamp(b.max) // which the user has lowered
	case target < replicas && now.Sub(h.shrunk) >= shrinkTime:
		replicas = max(target, replicas-max(replicas/3, 1))
		h.shrunk = now
	case target > replicas:
		replicas = target
	}
	if target < replicas {
		return replicas, h.shrunk.Add(shrinkTime).Sub(now)
	}
	if len(h.peaks) > 1 {
		return replicas, h.peaks[0].at.Add(peakTime).Sub(now)
	}
	return replicas, 0
}

// record adds a demand. The one before it has lasted until now, and those that are no larger count no more.
func (h *history) record(now time.Time, demand int32) {
	if n := len(h.peaks); n > 0 {
		h.peaks[n-1].at = now
	}
	for len(h.peaks) > 0 && h.peaks[len(h.peaks)-1].demand <= demand {
		h.peaks = h.peaks[:len(h.peaks)-1]
	}
	h.peaks = append(h.peaks, peak{now, demand})
}
