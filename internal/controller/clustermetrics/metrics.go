package clustermetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coracle-eks/coracle/internal/metrics"
)

var (
	nodesGauge = metrics.Declare.NewGauge(prometheus.GaugeOpts{Namespace: metrics.Namespace, Name: "nodes",
		Help: "Nodes of all clusters."})
	podsGauge = metrics.Declare.NewGauge(prometheus.GaugeOpts{Namespace: metrics.Namespace, Name: "pods",
		Help: "Pods of all clusters."})
)

// publish sets the metrics. It is called with mu held.
func (c *Controller) publish() {
	var all counts
	for _, n := range c.counts {
		all.nodes += n.nodes
		all.pods += n.pods
	}
	nodesGauge.Set(float64(all.nodes))
	podsGauge.Set(float64(all.pods))
}
