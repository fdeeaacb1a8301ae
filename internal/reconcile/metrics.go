package reconcile

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"

	"github.com/coracle-eks/coracle/internal/metrics"
)

// Metrics of work queues have the names of Kubernetes' own controllers.
// https://kubernetes.io/docs/reference/instrumentation/metrics/
var (
	durations = metrics.Declare.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: metrics.Namespace, Name: "reconcile_duration_seconds", Buckets: metrics.Latency,
		Help: "How long one reconcile took, by controller and result (success or error).",
	}, []string{"controller", "result"})

	blockedWatches = metrics.Declare.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: metrics.Namespace, Name: "reconcile_blocked_watches",
		Help: "Watches of API servers that wait because too many keys of their cluster or account do, by controller.",
	}, []string{"controller"})

	depth   = queueGauge("depth", "Keys that wait in the queue.")
	adds    = queueCounter("adds_total", "Keys that were added to the queue.")
	retries = queueCounter("retries_total", "Keys that were added again after a failure or for a later time.")
	waits   = queueHistogram("queue_duration_seconds", "How long a key waited in the queue.")
	works   = queueHistogram("work_duration_seconds", "How long the work on a key from the queue took.")
	current = queueGauge("unfinished_work_seconds", "How long all work that has not ended has taken.")
	longest = queueGauge("longest_running_processor_seconds", "How long the longest work that has not ended has taken.")
)

func queueGauge(name, help string) *prometheus.GaugeVec {
	return metrics.Declare.NewGaugeVec(
		prometheus.GaugeOpts{Subsystem: "workqueue", Name: name, Help: help},
		[]string{"name"},
	)
}

func queueCounter(name, help string) *prometheus.CounterVec {
	return metrics.Declare.NewCounterVec(
		prometheus.CounterOpts{Subsystem: "workqueue", Name: name, Help: help},
		[]string{"name"},
	)
}

func queueHistogram(name, help string) *prometheus.HistogramVec {
	return metrics.Declare.NewHistogramVec(prometheus.HistogramOpts{
		Subsystem: "workqueue", Name: name, Help: help, Buckets: metrics.Latency,
	}, []string{"name"})
}

// queueMetrics is the provider of the queues' metrics.
type queueMetrics struct{}

func (queueMetrics) NewDepthMetric(name string) workqueue.GaugeMetric {
	return depth.WithLabelValues(name)
}

func (queueMetrics) NewAddsMetric(name string) workqueue.CounterMetric {
	return adds.WithLabelValues(name)
}

func (queueMetrics) NewLatencyMetric(name string) workqueue.HistogramMetric {
	return waits.WithLabelValues(name)
}

func (queueMetrics) NewWorkDurationMetric(name string) workqueue.HistogramMetric {
	return works.WithLabelValues(name)
}

func (queueMetrics) NewUnfinishedWorkSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return current.WithLabelValues(name)
}

func (queueMetrics) NewLongestRunningProcessorSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return longest.WithLabelValues(name)
}

func (queueMetrics) NewRetriesMetric(name string) workqueue.CounterMetric {
	return retries.WithLabelValues(name)
}

// Failure is a key whose last reconcile failed.
type Failure struct {
	Controller string    `json:"controller"`
	Key        string    `json:"key"`
	Failures   int       `json:"failures"` // in a row
	Since      time.Time `json:"since"`    // the first of them
	Error      string    `json:"error"`    // the last of them
}

// failures are those of all controllers of this process, by controller and key.
var failures = struct {
	sync.Mutex
	of map[[2]string]Failure
}{of: map[[2]string]Failure{}}

// Failures returns the keys whose last reconcile failed, by controller and key.
func Failures() []Failure {
	failures.Lock()
	defer failures.Unlock()
	var all []Failure
	for _, f := range failures.of {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(a.Controller, b.Controller), cmp.Compare(a.Key, b.Key))
	})
	return all
}

// observe records how a reconcile ended.
func (c Controller) observe(key string, took time.Duration, err error) {
	result := "success"
	if err != nil {
		result = "error"
	}
	durations.WithLabelValues(c.Name, result).Observe(took.Seconds())
	failures.Lock()
	defer failures.Unlock()
	id := [2]string{c.Name, key}
	if err == nil {
		delete(failures.of, id)
		return
	}
	f, ok := failures.of[id]
	if !ok {
		f = Failure{Controller: c.Name, Key: key, Since: c.Clock.Now()}
	}
	f.Failures++
	f.Error = textOf(err)
	failures.of[id] = f
}

// forgetFailures drops the failures of a controller that ends.
func (c Controller) forgetFailures() {
	failures.Lock()
	defer failures.Unlock()
	for id := range failures.of {
		if id[0] == c.Name {
			delete(failures.of, id)
		}
	}
}
