package addon

import (
	"errors"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
)

// policy demands a label of every Deployment that is called greeter.
const policy = `apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: requiredlabel}
spec:
  crd:
    spec:
      names: {kind: RequiredLabel}
      validation:
        openAPIV3Schema: {type: object, properties: {label: {type: string}}}
  targets:
    - target: admission.k8s.gatekeeper.sh
      rego: |
        package requiredlabel
        violation[{"msg": msg}] {
          not input.review.object.metadata.labels[input.parameters.label]
          msg := sprintf("it must have the label %v", [input.parameters.label])
        }
`

const constraint = `apiVersion: constraints.gatekeeper.sh/v1beta1
kind: RequiredLabel
metadata: {name: team}
spec:
  match: {name: greeter, kinds: [{apiGroups: [apps], kinds: [Deployment]}]}
  parameters: {label: team}
`

// gatekeeper installs an add-on that refuses another one.
func (c *cluster) gatekeeper() {
	testenv.NeedsAll(c.t, minutesToBuild)
	c.install("gatekeeper", "v3.23.1")
	c.install("greeter", "v1.0.0")
	c.must("coracle", "images", "load", "--data-dir", c.Dir,
		harness.PauseArchive(c.t, "registry.example.com/greeter:v1.0.0"))
	c.addon("create-addon", "gatekeeper")
	c.await("gatekeeper", ekstypes.AddonStatusActive)
	c.kubectl("apply", "-f", c.file("policy.yaml", policy))
	file := c.file("constraint.yaml", constraint)
	c.until("the policy's kind is there", func() error {
		_, _, err := c.Try(c.Config, "kubectl", "apply", "-f",
			file)
		return err
	})
	denied := func() error {
		_, errs, err := c.Try(c.Config, "kubectl", "create", "deployment", "greeter", "--image=x", "--dry-run=server")
		if err == nil || !strings.Contains(errs, "it must have the label team") {
			return errors.New("nothing is denied: " + errs)
		}
		return nil
	}
	c.until("the policy is in force", denied)

	// In a namespace that is there, all is tried before anything is made; one that is yet to be made has to be made
	// first.
	c.kubectl("create", "namespace", "greeter")
	c.addon("create-addon", "greeter", "--addon-version", "v1.0.0")
	issue := c.issue("greeter", ekstypes.AddonStatusCreateFailed, ekstypes.AddonIssueCodeAdmissionRequestDenied,
		`admission webhook "validation.gatekeeper.sh" denied the request: [team] it must have the label team`)
	if len(issue.ResourceIds) != 1 || issue.ResourceIds[0] != "deployment.apps/greeter" {
		c.t.Errorf("the issue is about %q", issue.ResourceIds)
	}
	c.contains("coracle fields", c.fields("--addon", "greeter", "--addon-version", "v1.0.0"),
		"! deployment/greeter would be refused", "it must have the label team")
	if out, errs, err := c.Try(c.Config, "kubectl", "get", "configmap/greeting", "-n", "greeter"); err == nil {
		c.t.Errorf("what is refused in part was made in part: %s%s", out, errs)
	}
	c.kubectl("delete", "requiredlabel/team")
	c.await("greeter", ekstypes.AddonStatusActive)
	c.addon("delete-addon", "greeter")
	c.gone("greeter")
}
