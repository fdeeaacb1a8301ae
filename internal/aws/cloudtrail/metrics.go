package cloudtrail

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coracle-eks/coracle/internal/metrics"
)

var dropped = metrics.Declare.NewCounterVec(prometheus.CounterOpts{
	Namespace: metrics.Namespace, Name: "event_history_dropped_total",
	Help: "Requests that the event history does not have, because there were too many or the disk was full, by class " +
		"(change, refusal or read).",
}, []string{"class"})
