//go:build linux

// Package loadbalancers tests load balancers in front of real pods, as the real controllers make them. The tests need
// root.
package loadbalancers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/usernamespace"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

const workload = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: ` + harness.Agnhost + `
        args: [netexec, --http-port=8080, --udp-port=-1]
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: client, image: ` + harness.Agnhost + `, command: [sleep, infinity]}]
---
apiVersion: v1
kind: Service
metadata: {name: net, annotations: {service.beta.kubernetes.io/aws-load-balancer-type: nlb}}
spec:
  type: LoadBalancer
  externalTrafficPolicy: Local
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
`

// rig is a cluster with a node, and what these tests do there.
type rig struct {
	*clustertest.Fixture
	t *testing.T
}

// TestServicesOfTypeLoadBalancer takes Services through their life with the load balancers that the cloud controller
// manager makes: a Classic and a Network Load Balancer.
func TestServicesOfTypeLoadBalancer(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	if err := usernamespace.Check(t.TempDir()); err != nil {
		t.Skip("user namespaces:", err)
	}
	r := &rig{clustertest.New(t, "balance", "1.35"), t}
	r.AwaitNodes(r.RunInstances(1, r.AL2023("1.35"), r.SubnetIDs[0], r.NodeConfig())...)
	r.Apply(workload)
	r.Await("condition=Available", "deployment/web")
	r.Await("condition=Ready", "pod/client")
	begun := time.Now()
	r.kubectl("expose", "deployment", "web", "--type", "LoadBalancer", "--port", "80", "--target-port", "8080")
	classic := r.hostname("web")
	r.until(classic+" answers", func() error { return get(t.Context(), classic) })
	t.Logf("from the Service to the first response: %s", time.Since(begun).Round(time.Millisecond))
	network := r.hostname("net")

	answers := func(when string) {
		t.Helper()
		for _, host := range []string{classic, network} {
			r.until(host+" answers on this host "+when, func() error { return get(t.Context(), host) })
			r.until(host+" answers in a pod "+when, func() error {
				out, _, err := r.Try(r.Config, "kubectl", "exec", "client", "--", "fetch", "http://"+host+"/hostname")
				if err == nil && !strings.HasPrefix(out, "web-") {
					err = fmt.Errorf("it says %q", out)
				}
				return err
			})
		}
	}
	answers("at first")
	// The target sees the client's own address: that of this host, as the internet sees it.
	r.until("the Network Load Balancer preserves the address of the client", func() error {
		got, err := fetch(t.Context(), network, "/clientip")
		if err == nil && !strings.HasPrefix(got, "198.1") {
			err = fmt.Errorf("the client is %q", got)
		}
		return err
	})
	if out := r.Run("", "coracle", "status", "--data-dir", r.Dir); !strings.Contains(out, classic) ||
		!strings.Contains(out, network) {
		t.Errorf("coracle status tells nothing of the load balancers:\n%s", out)
	}

	for range 2 {
		pid := r.balancer()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		answers("after its process was killed")
	}
	r.Kill()
	for _, host := range []string{classic, network} {
		if err := get(t.Context(), host); err != nil {
			t.Errorf("%s while there is no daemon: %v", host, err)
		}
	}
	r.Serve()
	answers("after the daemon was killed")

	r.kubectl("delete", "service", "web", "net")
	for _, host := range []string{classic, network} {
		r.until(host+" has gone", func() error {
			if hosts, err := os.ReadFile("/etc/hosts"); err != nil || strings.Contains(string(hosts), strings.ToLower(host)) {
				return errors.Join(err, errors.New("this host has its name"))
			}
			return nil
		})
	}
	var left struct {
		LoadBalancerDescriptions []struct{ LoadBalancerName string }
	}
	if r.AWS(&left, "elb", "describe-load-balancers"); len(left.LoadBalancerDescriptions) > 0 {
		t.Errorf("left are %+v", left)
	}
	var networks struct {
		LoadBalancers []struct{ LoadBalancerName string }
	}
	if r.AWS(&networks, "elbv2", "describe-load-balancers"); len(networks.LoadBalancers) > 0 {
		t.Errorf("left are %+v", networks)
	}
}

func (r *rig) kubectl(args ...string) string {
	r.t.Helper()
	return strings.TrimSpace(r.Run(r.Config, "kubectl", args...))
}

func (r *rig) until(what string, try func() error) {
	r.t.Helper()
	if err := eventually.Try(100*time.Millisecond, try); err != nil {
		r.t.Fatalf("%s: %v\n%s", what, err, r.kubectl("describe", "services"))
	}
}

// hostname waits for the name of a Service's load balancer.
func (r *rig) hostname(service string) (name string) {
	r.t.Helper()
	r.until("the Service "+service+" has a load balancer", func() error {
		name = r.kubectl("get", "service", service, "-o", "jsonpath={.status.loadBalancer.ingress[0].hostname}")
		if name == "" {
			return errors.New("it is pending")
		}
		return nil
	})
	return name
}

// balancer waits for the process that forwards, and returns its ID.
func (r *rig) balancer() (pid int) {
	r.t.Helper()
	r.until("the process balancer runs", func() error {
		for _, p := range r.Processes() {
			id, command, _ := strings.Cut(p, " ")
			if strings.HasSuffix(strings.TrimSpace(command), "/balancer") {
				pid, _ = strconv.Atoi(id)
				return nil
			}
		}
		return errors.New("it does not")
	})
	return pid
}

func get(ctx context.Context, host string) error {
	got, err := fetch(ctx, host, "/hostname")
	if err == nil && !strings.HasPrefix(got, "web-") {
		err = fmt.Errorf("it says %q", got)
	}
	return err
}

// fetch makes a request with a connection of its own.
func fetch(ctx context.Context, host, path string) (string, error) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+path, nil)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return string(text), err
}
