package addon

import (
	"fmt"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
)

// withoutNodes makes an add-on whose pods cannot run anywhere, and then the nodes.
func (c *cluster) withoutNodes() (instances []string) {
	c.addon("create-addon", "coredns")
	issue := c.issue("coredns", ekstypes.AddonStatusDegraded, ekstypes.AddonIssueCodeInsufficientNumberOfReplicas,
		"The add-on is unhealthy because it doesn't have the desired number of replicas.")
	if !strings.Contains(strings.Join(issue.ResourceIds, " "), "coredns") || !strings.Contains(*issue.Message, "node") {
		c.t.Errorf("without nodes the issue is %s", harness.Text(issue))
	}
	for i := range 2 {
		instances = append(instances, c.RunInstances(1, c.AL2023(version), c.SubnetIDs[i], c.NodeConfig())...)
	}
	return instances
}

// nodesCome checks that the add-on becomes healthy by itself.
func (c *cluster) nodesCome() {
	a := c.await("coredns", ekstypes.AddonStatusActive)
	if len(a.Health.Issues) > 0 {
		c.t.Errorf("ACTIVE with %s", harness.Text(a.Health))
	}
}

// metrics installs an add-on that a user asks for, whose API serves the resource usage of nodes; and deletes it. The
// daemon is killed during the creation, and the next one completes it.
func (c *cluster) metrics() {
	testenv.NeedsAll(c.t, "its probes fail on two busy cores")
	objects := []string{"deployment/metrics-server", "service/metrics-server", "serviceaccount/metrics-server",
		"apiservice/v1beta1.metrics.k8s.io", "clusterrole/system:metrics-server"}
	c.addon("create-addon", "metrics-server")
	c.Restart()
	c.await("metrics-server", ekstypes.AddonStatusActive)
	c.kubectl(append([]string{"get", "-n", "kube-system"}, objects...)...)
	c.contains("the rollout", c.kubectl("rollout", "status", "deployment/metrics-server", "-n", "kube-system",
		"--watch=false"), "successfully rolled out")
	c.until("kubectl top nodes tells of both nodes", func() error {
		out, errs, err := c.Try(c.Config, "kubectl", "top", "nodes", "--no-headers")
		if err != nil || strings.Count(out, "%") < 4 {
			return fmt.Errorf("%v: %s%s", err, out, errs)
		}
		return nil
	})
	c.addon("delete-addon", "metrics-server")
	c.gone("metrics-server")
	for _, what := range objects {
		if out, errs, err := c.Try(c.Config, "kubectl", "get", what, "-n", "kube-system"); err == nil ||
			!strings.Contains(errs, "NotFound") {
			c.t.Errorf("deleted, but %s is there: %s%s", what, out, errs)
		}
	}
}

// certificates installs cert-manager, which signs a certificate.
func (c *cluster) certificates() {
	testenv.NeedsAll(c.t, minutesToBuild)
	c.addon("create-addon", "cert-manager")
	c.await("cert-manager", ekstypes.AddonStatusActive)
	manifest := c.file("certificate.yaml", `apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: self, namespace: default}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: web, namespace: default}
spec:
  secretName: web-tls
  dnsNames: [web.example.com]
  issuerRef: {name: self}
`)
	c.until("cert-manager takes a certificate", func() error { // its webhook has its own certificate a moment later
		_, errs, err := c.Try(c.Config, "kubectl", "apply", "-f", manifest)
		if err != nil {
			return fmt.Errorf("%w: %s", err, errs)
		}
		return nil
	})
	c.kubectl("wait", "--for=condition=Ready", "certificate/web", "--timeout="+eventually.Limit.String())
	if data := c.kubectl("get", "secret", "web-tls", "-o", `jsonpath={.data.tls\.crt}`); data == "" {
		c.t.Error("Ready, but the secret has no certificate")
	}
	c.addon("delete-addon", "cert-manager")
	c.gone("cert-manager")
}

// refusals checks the API's errors for invalid requests.
func (c *cluster) refusals() {
	name := []string{"--cluster-name", c.Cluster, "--addon-name"}
	c.refused([]string{"InvalidParameterException", "Addon version specified is not supported"},
		append(append([]string{"eks", "create-addon"}, name...), "kube-proxy", "--addon-version",
			"v0.0.1-eksbuild.1")...)
	c.refused([]string{"InvalidParameterException"}, append(append([]string{"eks", "create-addon"}, name...),
		"no-such-addon")...)
	c.refused([]string{"ResourceInUseException", "already exists"},
		append(append([]string{"eks", "create-addon"}, name...), "coredns")...)
	c.refused([]string{"ResourceNotFoundException"}, append(append([]string{"eks", "describe-addon"}, name...),
		"kube-proxy")...)
	// What cannot be answered says so, and what to do.
	for _, q := range []struct {
		args []string
		want string
	}{
		{[]string{"ds/aws-node"}, "there is no daemonset aws-node in namespace default of cluster " + c.Cluster +
			"; there is one with -n kube-system"},
		{[]string{"ship/one"}, `has no type "ship"`},
		{[]string{"ds/aws-node", "--cluster", "other"}, "there is no cluster other; there are: " + c.Cluster},
		{[]string{"cm/aws-auth", "-n", "kube-system", "--resolve-conflicts", "NONE"},
			"no add-on has a configmap aws-auth of namespace kube-system"},
		{[]string{"ds/kube-proxy", "-n", "kube-system", "--addon-version", "v9"},
			`the add-on kube-proxy has no version "v9" for Kubernetes 1.35; there are: `},
		{[]string{"--addon", "boat"}, "there is no add-on boat; there are: "},
		{[]string{"deploy/coredns", "-n", "kube-system", "--configuration-values", `{"boats":1}`}, "$.boats"},
	} {
		if out, errs, err := c.Try("", "coracle", append([]string{"fields", "--data-dir", c.Dir},
			q.args...)...); err == nil || !strings.Contains(errs, q.want) {
			c.t.Errorf("coracle fields %q: %v\n%s%s\nwant %s", q.args, err, out, errs, q.want)
		}
	}
}
