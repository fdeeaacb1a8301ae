// Package metrics holds the registry of this process's Prometheus metrics. Each package declares its own in a file
// metrics.go; the names are listed in docs/metrics.md.
package metrics

import (
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Namespace is the prefix of the names of metrics that no library defines.
const Namespace = "coracle"

// Registry has the metrics of this process.
var Registry = prometheus.NewRegistry()

// Declare makes metrics that are in the registry.
var Declare = promauto.With(Registry)

func init() {
	Registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
}

// Latency are buckets in seconds, from what memory answers to what a slow disk or a control plane takes.
var Latency = []float64{.0001, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// Handler serves the metrics of this process and of the gatherers. A metric that cannot be collected is left out and
// logged.
func Handler(log *slog.Logger, more ...prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(append(prometheus.Gatherers{Registry}, more...), promhttp.HandlerOpts{
		MaxRequestsInFlight: 4, ErrorHandling: promhttp.ContinueOnError, ErrorLog: slog.NewLogLogger(log.Handler(),
			slog.LevelWarn),
	})
}
