package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// measureRollingUpdate counts the requests that fail while a Deployment is updated.
func (l *balancers) measureRollingUpdate() {
	host := l.answers(l.service("rolled", nil))
	measureUnderLoad(l.b, "rolling update of a Deployment", "failed-requests", host, func() {
		l.Run(l.Config, "kubectl", "rollout", "restart", "deployment/web")
		l.Run(l.Config, "kubectl", "rollout", "status", "deployment/web", "--timeout=5m")
	})
}

// measureUnderLoad counts the requests that fail while something is updated, of 500 in a second, each by a connection
// of its own.
func measureUnderLoad(b *testing.B, what, metric, host string, update func()) {
	b.Helper()
	const rate = 500
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var made atomic.Int64
	var mu sync.Mutex
	var failures []string
	var asking sync.WaitGroup
	began := time.Now()
	asking.Go(func() {
		tick := time.NewTicker(time.Second / rate)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			asking.Go(func() {
				asked := time.Since(began)
				err := askOnce(b.Context(), host)
				if made.Add(1); err != nil {
					mu.Lock()
					defer mu.Unlock()
					failures = append(failures, fmt.Sprintf("asked after %s, failed after %s: %v", seconds(asked),
						seconds(time.Since(began)), err))
				}
			})
		}
	})
	update()
	took := time.Since(began)
	cancel()
	asking.Wait()
	const shown = 20
	for i := 0; i < len(failures); i += max(1, len(failures)/shown) {
		b.Log(failures[i])
	}
	b.ReportMetric(float64(len(failures)), metric)
	report(row{what + " under 500 requests/s: failed requests", fmt.Sprint(len(failures)), "0",
		fmt.Sprintf("%d requests in %s", made.Load(), seconds(took))})
}

// groupServers are two pods that serve, which the nodes of a managed node group have without anything else.
const groupServers = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      automountServiceAccountToken: false
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway,
         labelSelector: {matchLabels: {app: web}}}
      containers:
      - name: web
        image: ` + harness.Agnhost + `
        args: [porter]
        env: [{name: SERVE_PORT_8080, value: hello}]
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
        lifecycle: {preStop: {sleep: {seconds: 5}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: default}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
`

// BenchmarkLoadBalancerOfNodegroup counts the requests to a Service that fail while the nodes of a managed node group
// are replaced.
func BenchmarkLoadBalancerOfNodegroup(b *testing.B) {
	f := clustertest.Empty(b, "balance", version)
	kube, _ := kubernetesClient(b, f.Daemon, "balance")
	l := &balancers{Fixture: f, b: b, kube: kube}
	g := groupsOf(b, f.Daemon, f.Cluster, f.SubnetIDs)
	g.create("workers", 2, func(in *eks.CreateNodegroupInput) {
		in.ReleaseVersion = aws.String(clustertest.Release(b, version, 1))
	})
	g.active("workers")
	f.Apply(groupServers)
	l.awaitWeb()
	// Without these annotations, connections to an instance end when it is deregistered, as on AWS.
	const draining = "service.beta.kubernetes.io/aws-load-balancer-connection-draining-"
	service := l.service("rolled", map[string]string{draining + "enabled": "true", draining + "timeout": "10"})
	measureUnderLoad(b, "update of a managed node group with two nodes", "failed-requests", l.answers(service),
		func() {
			g.update("workers", func(in *eks.UpdateNodegroupVersionInput) {
				in.ReleaseVersion = aws.String(clustertest.Release(b, version, 0))
			})
		})
}
