package addon

import (
	"fmt"
	"regexp"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/test/harness"
)

// configuration sets the number of CoreDNS replicas as a user and as EKS.
func (c *cluster) configuration() {
	const dns = "deployment/coredns"
	replicas := func(want int) {
		c.t.Helper()
		if w := c.workload(dns); w.Spec.Replicas == nil || *w.Spec.Replicas != want {
			c.t.Errorf("CoreDNS has %v replicas, want %d", harness.Text(w.Spec.Replicas), want)
		}
	}
	_, standard := c.versions("coredns")
	c.contains("the schema", c.aws("eks", "describe-addon-configuration", "--addon-name", "coredns", "--addon-version",
		standard, "--query", "configurationSchema", "--output", "text"), `"replicaCount"`)
	c.refused([]string{"InvalidParameterException", "ConfigurationValue provided in request is not supported",
		"$.replicas"},
		"eks", "update-addon", "--cluster-name", c.Cluster, "--addon-name", "coredns", "--configuration-values",
		`{"replicas":3}`)

	// The user's number stays, as long as EKS is not asked for another.
	c.kubectl("scale", dns, "-n", "kube-system", "--replicas=3")
	c.update("coredns", ekstypes.UpdateStatusSuccessful, "--resolve-conflicts", "NONE")
	replicas(3)
	failed := c.update("coredns", ekstypes.UpdateStatusFailed, "--configuration-values", `{"replicaCount":4}`,
		"--resolve-conflicts", "NONE")
	if len(failed.Errors) != 1 || failed.Errors[0].ErrorCode != ekstypes.ErrorCodeConfigurationConflict ||
		!strings.Contains(*failed.Errors[0].ErrorMessage, ".spec.replicas") {
		c.t.Errorf("the update failed with %s", harness.Text(failed.Errors))
	}
	c.issue("coredns", ekstypes.AddonStatusUpdateFailed, ekstypes.AddonIssueCodeConfigurationConflict, ".spec.replicas")
	replicas(3)

	four := []string{"--configuration-values", `{"replicaCount":4}`, "--resolve-conflicts"}
	told := c.fields(append([]string{dns, "-n", "kube-system"}, append(four, "PRESERVE")...)...)
	if !regexp.MustCompile(`(?m)^kubectl\S* +[┃┆ ] = +replicas: 3\neks wants .*= +replicas: 4$`).MatchString(told) {
		c.t.Errorf("coracle fields does not say what is preserved:\n%s", told)
	}
	c.update("coredns", ekstypes.UpdateStatusSuccessful, append(four, "PRESERVE")...)
	c.await("coredns", ekstypes.AddonStatusActive)
	replicas(3)

	c.update("coredns", ekstypes.UpdateStatusSuccessful, append(four, "OVERWRITE")...)
	replicas(4)
	c.update("coredns", ekstypes.UpdateStatusSuccessful, "--configuration-values", "replicaCount: 2 # as YAML\n",
		"--resolve-conflicts", "NONE")
	c.await("coredns", ekstypes.AddonStatusActive)
	replicas(2)

	// What EKS owns it takes back, what it does not it leaves alone, and what is deleted comes again.
	c.kubectl("label", dns, "-n", "kube-system", "team=blue")
	c.kubectl("scale", dns, "-n", "kube-system", "--replicas=1")
	c.kubectl("delete", "configmap/coredns", "-n", "kube-system")
	c.until("EKS has what is its own", func() error {
		w := c.workload(dns)
		_, errs, err := c.Try(c.Config, "kubectl", "get", "configmap/coredns", "-n", "kube-system")
		if err != nil || *w.Spec.Replicas != 2 || w.Metadata.Labels["team"] != "blue" {
			return fmt.Errorf("%d replicas, labels %v, the ConfigMap: %v%s", *w.Spec.Replicas, w.Metadata.Labels, err,
				errs)
		}
		return nil
	})
}
