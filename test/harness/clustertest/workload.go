package clustertest

import (
	"fmt"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
)

// workload are two replicas behind a Service with a budget, and ten pods more with another, on the nodes of a group.
// The replicas wait before they end until nobody is sent to them any more, as the guides say.
const workload = `apiVersion: v1
kind: Namespace
metadata: {name: demo}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: demo}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 20
      nodeSelector: {eks.amazonaws.com/nodegroup: GROUP}
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: ScheduleAnyway
        labelSelector: {matchLabels: {app: web}}
      containers:
      - name: web
        image: ` + harness.Agnhost + `
        args: [netexec, --http-port=80]
        readinessProbe: {httpGet: {path: /, port: 80}, periodSeconds: 1}
        lifecycle: {preStop: {sleep: {seconds: 3}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: demo}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: demo}
spec:
  selector: {app: web}
  ports: [{port: 80}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: batch, namespace: demo}
spec:
  replicas: 10
  selector: {matchLabels: {app: batch}}
  template:
    metadata: {labels: {app: batch}}
    spec:
      terminationGracePeriodSeconds: 1
      nodeSelector: {eks.amazonaws.com/nodegroup: GROUP}
      containers:
      - {name: batch, image: ` + harness.Agnhost + `, args: [pause]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: batch, namespace: demo}
spec: {minAvailable: 8, selector: {matchLabels: {app: batch}}}
`

const client = `apiVersion: v1
kind: Pod
metadata: {name: client, namespace: demo}
spec:
  nodeSelector: {role: client}
  terminationGracePeriodSeconds: 0
  containers:
  - {name: client, image: ` + harness.Agnhost + `, command: [fetch, -t, "60", -every, 50ms, "http://%s/hostname"]}
`

// Workload starts a Service of two replicas and ten pods more on the nodes of a managed node group, and on a node with
// the label role=client somebody who never stops asking it: see [Fixture.Refused].
func (s *Fixture) Workload(nodegroup string) {
	s.t.Helper()
	s.Apply(strings.ReplaceAll(workload, "GROUP", nodegroup))
	s.Await("condition=Available", "deployment/web", "deployment/batch", "-n", "demo")
	s.Apply(fmt.Sprintf(client, strings.TrimSpace(s.Run(s.Config, "kubectl", "get", "service", "web", "-n", "demo",
		"-o", "jsonpath={.spec.clusterIP}"))))
	s.Await("condition=Ready", "pod/client", "-n", "demo")
	if err := eventually.Try(200*time.Millisecond, func() error {
		if out := s.Run(s.Config, "kubectl", "logs", "-n", "demo", "client"); !strings.Contains(out, "answered") {
			return fmt.Errorf("the client of the Service says %q", out)
		}
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
}

// Refused returns the requests that failed since Workload, a line each, and the number of restarts of the client.
func (s *Fixture) Refused() (failed []string, restarts int) {
	s.t.Helper()
	for line := range strings.Lines(s.Run(s.Config, "kubectl", "logs", "-n", "demo", "client")) {
		if strings.HasPrefix(line, "FAILED") {
			failed = append(failed, strings.TrimSpace(line))
		}
	}
	var pod struct {
		Status struct {
			ContainerStatuses []struct{ RestartCount int }
		}
	}
	s.JSON(&pod, "get", "pod", "client", "-n", "demo")
	for _, c := range pod.Status.ContainerStatuses {
		restarts += c.RestartCount
	}
	return failed, restarts
}
