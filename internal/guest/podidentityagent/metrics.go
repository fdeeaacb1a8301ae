//go:build linux

package podidentityagent

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are those of the agent, under upstream's names.
type metrics struct {
	registry                 *prometheus.Registry
	responses, cache, errors *prometheus.CounterVec
}

func newMetrics() *metrics {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	declare := promauto.With(r)
	return &metrics{
		registry: r,
		responses: declare.NewCounterVec(prometheus.CounterOpts{
			Name: "pod_identity_http_response", Help: "Pod Identity http response code"}, []string{"code"}),
		cache: declare.NewCounterVec(prometheus.CounterOpts{
			Name: "pod_identity_cache_state", Help: "The state of credential in cache"}, []string{"state"}),
		errors: declare.NewCounterVec(prometheus.CounterOpts{
			Name: "pod_identity_cache_errors", Help: "Renewals that failed, by whether they are tried again"},
			[]string{"type", "code"}),
	}
}

// handler serves the metrics beside the probes.
func (m *metrics) handler(probes http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.Handle("/", probes)
	return mux
}
