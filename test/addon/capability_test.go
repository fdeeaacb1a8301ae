package addon

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// trustOfCapabilities lets EKS capabilities assume a role.
const trustOfCapabilities = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow",
	"Principal":{"Service":"capabilities.eks.amazonaws.com"},"Action":["sts:AssumeRole","sts:TagSession"]}]}`

// definition makes a kind Application of a ConfigMap.
const definition = `apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: application}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Application
    spec: {message: string}
  resources:
    - id: config
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: "${schema.metadata.name}-config"}
        data: {message: "${schema.spec.message}"}
`

// application is an instance of that kind.
const application = `apiVersion: kro.run/v1alpha1
kind: Application
metadata: {name: greeting, namespace: default}
spec: {message: hello}
`

// capability describes a capability of the cluster; nil when there is none.
func (c *cluster) capability(name string) (*ekstypes.Capability, error) {
	out, err := c.eks.DescribeCapability(c.t.Context(),
		&eks.DescribeCapabilityInput{ClusterName: &c.Cluster, CapabilityName: &name})
	var missing *ekstypes.ResourceNotFoundException
	if errors.As(err, &missing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return out.Capability, nil
}

// awaitCapability waits until a capability has a status, and returns it; "" waits until it is gone.
func (c *cluster) awaitCapability(name string, status ekstypes.CapabilityStatus) (last *ekstypes.Capability) {
	c.t.Helper()
	c.until(fmt.Sprintf("capability %s is %q", name, status), func() (err error) {
		if last, err = c.capability(name); err != nil {
			return err
		}
		if last == nil && status == "" || last != nil && last.Status == status {
			return nil
		}
		text, err := json.Marshal(last)
		return errors.Join(fmt.Errorf("it is %s", text), err)
	})
	return last
}

// createCapability creates a capability with a role of its name.
func (c *cluster) createCapability(name string, of ekstypes.CapabilityType) {
	c.t.Helper()
	c.aws("iam", "create-role", "--role-name", name, "--assume-role-policy-document", trustOfCapabilities)
	_, err := c.eks.CreateCapability(c.t.Context(), &eks.CreateCapabilityInput{
		ClusterName: &c.Cluster, CapabilityName: &name, Type: of, RoleArn: aws.String(clustertest.RoleARN(name)),
		DeletePropagationPolicy: ekstypes.CapabilityDeletePropagationPolicyRetain,
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) deleteCapability(name string) {
	c.t.Helper()
	_, err := c.eks.DeleteCapability(c.t.Context(),
		&eks.DeleteCapabilityInput{ClusterName: &c.Cluster, CapabilityName: &name})
	if err != nil {
		c.t.Fatal(err)
	}
	c.awaitCapability(name, "")
}

// unavailableCapability creates a capability whose programs are not there.
func (c *cluster) unavailableCapability() {
	c.createCapability("controllers", ekstypes.CapabilityTypeAck)
	failed := c.awaitCapability("controllers", ekstypes.CapabilityStatusCreateFailed)
	if i := failed.Health.Issues; len(i) != 1 || !strings.Contains(*i[0].Message, "ACK is not available") {
		c.t.Errorf("issues %+v", i)
	}
	c.deleteCapability("controllers")
}

// kro has EKS run kro, which makes what a user has defined, as the role of the capability.
func (c *cluster) kro() {
	testenv.NeedsAll(c.t, minutesToBuild)
	c.createCapability("graphs", ekstypes.CapabilityTypeKro)
	made := c.awaitCapability("graphs", ekstypes.CapabilityStatusActive)
	if !strings.HasPrefix(aws.ToString(made.Version), "v0.") {
		c.t.Errorf("version %s", aws.ToString(made.Version))
	}
	c.kubectl("apply", "-f", c.file("definition.yaml", definition))
	user := "arn:aws:sts::111122223333:assumed-role/graphs/KRO"
	instance := c.file("application.yaml", application)
	c.until("the kind Application is there", func() error {
		_, _, err := c.Try(c.Config, "kubectl", "apply", "-f", instance)
		return err
	})
	// It may make nothing but its own objects, until somebody lets it.
	c.until("kro says what it may not do", func() error {
		out, _, err := c.Try(c.Config, "kubectl", "get", "application", "greeting", "-o", "jsonpath={.status.conditions}")
		if err == nil && !strings.Contains(out, `is forbidden: User \"`+user+`\"`) {
			err = errors.New("it does not say so: " + out)
		}
		return err
	})
	c.kubectl("create", "clusterrolebinding", "kro", "--clusterrole=cluster-admin", "--user="+user)
	c.until("the ConfigMap is made", func() error {
		out, _, err := c.Try(c.Config, "kubectl", "get", "configmap", "greeting-config", "-o", "jsonpath={.data.message}")
		if err == nil && out != "hello" {
			err = errors.New("it says " + out)
		}
		return err
	})
	c.deleteCapability("graphs")
	c.kubectl("get", "crd", "resourcegraphdefinitions.kro.run") // stays
}
