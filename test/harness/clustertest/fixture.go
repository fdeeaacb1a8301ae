// Package clustertest gives tests a cluster that nodes can join, and what they need to run instances as its users do:
// with the unmodified aws and kubectl. It needs root.
package clustertest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
)

// Fixture is a daemon with a cluster and a role that lets nodes in.
type Fixture struct {
	*harness.Daemon
	t       testing.TB
	Cluster string // its name
	Config  string // the path of a kubeconfig
	// SubnetIDs are the cluster's, in two zones.
	SubnetIDs []string
	// Endpoint (a URL), Authority (PEM in base64) and Group (a security group) are what user data and instances are
	// told of the cluster.
	Endpoint, Authority, Group string
}

// NodeRole is the name of the role of nodes, and of its instance profile.
const NodeRole = "eks-node"

// RoleARN returns the ARN of a role.
func RoleARN(name string) string { return "arn:aws:iam::111122223333:role/" + name }

// New makes a cluster of that version, and the role of its nodes, which it lets in, of a daemon with that added to its
// environment (KEY=value).
func New(t testing.TB, cluster, version string, extraEnv ...string) *Fixture {
	t.Helper()
	s := Empty(t, cluster, version, extraEnv...)
	s.letNodesIn()
	return s
}

// Empty makes a cluster of that version that no role of nodes is let into yet, of a daemon with that added to its
// environment (KEY=value).
func Empty(t testing.TB, cluster, version string, extraEnv ...string) *Fixture {
	t.Helper()
	testenv.NeedsRoot(t)
	d := harness.Start(t, extraEnv...)
	subnets := d.Subnets()
	d.CreateCluster(cluster, version, d.ClusterRole(), subnets)
	(&Fixture{Daemon: d, t: t}).Role(NodeRole, "AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy",
		"AmazonEC2ContainerRegistryReadOnly")
	s := Of(t, d, cluster)
	s.SubnetIDs = subnets
	return s
}

// Of waits until a cluster of a daemon is active, and loads the image of the tests' pods.
func Of(t testing.TB, d *harness.Daemon, cluster string) *Fixture {
	t.Helper()
	c := d.AwaitStatus(cluster, "ACTIVE")
	s := &Fixture{Daemon: d, t: t, Cluster: cluster, Config: d.Login(cluster), SubnetIDs: c.ResourcesVpcConfig.SubnetIds,
		Endpoint: *c.Endpoint, Authority: *c.CertificateAuthority.Data,
		Group: *c.ResourcesVpcConfig.ClusterSecurityGroupId}
	d.Run("", "coracle", "images", "load", "--data-dir", d.Dir, harness.AgnhostArchive(t))
	return s
}

// Role makes a role of instances, with policies of AWS, and its instance profile.
// https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html
func (s *Fixture) Role(name string, policies ...string) {
	s.t.Helper()
	s.AWS(nil, "iam", "create-role", "--role-name", name, "--assume-role-policy-document",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`)
	for _, policy := range policies {
		s.AWS(nil, "iam", "attach-role-policy", "--role-name", name, "--policy-arn", "arn:aws:iam::aws:policy/"+policy)
	}
	s.AWS(nil, "iam", "create-instance-profile", "--instance-profile-name", name)
	s.AWS(nil, "iam", "add-role-to-instance-profile", "--instance-profile-name", name, "--role-name", name)
}

// letNodesIn maps the role of self-managed nodes in aws-auth, as an administrator does.
func (s *Fixture) letNodesIn() {
	s.t.Helper()
	manifest := filepath.Join(s.t.TempDir(), "aws-auth.yaml")
	s.write(manifest, `apiVersion: v1
kind: ConfigMap
metadata: {name: aws-auth, namespace: kube-system}
data:
  mapRoles: |
    - rolearn: `+RoleARN(NodeRole)+`
      username: system:node:{{EC2PrivateDNSName}}
      groups: [system:bootstrappers, system:nodes]
`)
	s.Run(s.Config, "kubectl", "apply", "-f", manifest)
}

func (s *Fixture) write(path, text string) {
	s.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// Parameter returns the value of a public SSM parameter.
func (s *Fixture) Parameter(name string) string {
	s.t.Helper()
	return strings.TrimSpace(s.Run("", "aws", "ssm", "get-parameter", "--name", name, "--query", "Parameter.Value",
		"--output", "text"))
}

// AL2 returns the image for Amazon Linux 2, of a Kubernetes version.
func (s *Fixture) AL2(version string) string {
	return s.Parameter("/aws/service/eks/optimized-ami/" + version + "/amazon-linux-2/recommended/image_id")
}

// AL2023 returns the image for Amazon Linux 2023, of a Kubernetes version.
func (s *Fixture) AL2023(version string) string {
	return s.Parameter("/aws/service/eks/optimized-ami/" + version +
		"/amazon-linux-2023/x86_64/standard/recommended/image_id")
}

// Release returns the release version of the Amazon Linux 2023 image for a Kubernetes version: the newest is 0, the one
// before it 1.
func Release(t testing.TB, version string, older int) string {
	t.Helper()
	var all []string
	for _, i := range ami.All(harness.Region) {
		if i.Family == ami.AL2023 && i.KubernetesVersion == version && i.Variant == ami.Standard &&
			i.Architecture == "x86_64" {
			all = append(all, i.Release)
		}
	}
	if len(all) <= older {
		t.Fatalf("there are only the releases %v of %s", all, version)
	}
	return all[older]
}

// Bootstrap returns the user data of an AL2 node.
func (s *Fixture) Bootstrap(extra string) string {
	return fmt.Sprintf(
		"#!/bin/bash\nset -ex\n/etc/eks/bootstrap.sh %s --b64-cluster-ca %s --apiserver-endpoint %s "+
			"--kubelet-extra-args '%s'\n",
		s.Cluster, s.Authority, s.Endpoint, extra)
}

// NodeConfig returns the user data of an AL2023 node.
func (s *Fixture) NodeConfig(flags ...string) string {
	list, _ := json.Marshal(flags) // strings always marshal
	return fmt.Sprintf(`MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="BOUNDARY"

--BOUNDARY
Content-Type: application/node.eks.aws

---
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: %s
    apiServerEndpoint: %s
    certificateAuthority: %s
    cidr: 10.100.0.0/16
  kubelet:
    flags: %s

--BOUNDARY--
`, s.Cluster, s.Endpoint, s.Authority, list)
}

// RunInstances runs instances in a subnet and gives back their ids.
func (s *Fixture) RunInstances(count int, ami, subnet, userData string, more ...string) []string {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "user-data")
	s.write(file, userData)
	var out struct{ Instances []struct{ InstanceId string } }
	s.AWS(&out, append([]string{"ec2", "run-instances", "--image-id", ami, "--instance-type", "m5.large", "--count",
		fmt.Sprint(count), "--subnet-id", subnet,
		"--security-group-ids", s.Group, "--iam-instance-profile", "Name=" + NodeRole, "--user-data", "file://" + file,
		"--tag-specifications", "ResourceType=instance,Tags=[{Key=kubernetes.io/cluster/" + s.Cluster +
			",Value=owned}]"}, more...)...)
	var ids []string
	for _, i := range out.Instances {
		ids = append(ids, i.InstanceId)
	}
	return ids
}

// Node is a Node, as far as the tests look.
type Node struct {
	Metadata struct {
		Name, UID string
		Labels    map[string]string
	}
	Spec struct {
		ProviderID    string
		Unschedulable bool
		Taints        []Taint
	}
	Status struct {
		Capacity, Allocatable map[string]string
		Addresses             []struct{ Type, Address string }
		Conditions            []struct{ Type, Status, Reason, Message string }
		NodeInfo              struct{ KubeletVersion, OSImage, ContainerRuntimeVersion string }
	}
}

// Taint is a taint of a Node.
type Taint struct{ Key, Value, Effect string }

// Ready reports whether pods can be bound to it.
func (n Node) Ready() bool {
	return n.Condition("Ready") == "True" && len(n.Spec.Taints) == 0
}

// Condition returns the status of a condition, empty without one.
func (n Node) Condition(condition string) string {
	for _, c := range n.Status.Conditions {
		if c.Type == condition {
			return c.Status
		}
	}
	return ""
}

// Address returns the node's address of a kind ("InternalIP"), empty without one.
func (n Node) Address(kind string) string {
	for _, a := range n.Status.Addresses {
		if a.Type == kind {
			return a.Address
		}
	}
	return ""
}

// Nodes returns all nodes of the cluster.
func (s *Fixture) Nodes() []Node {
	s.t.Helper()
	all, err := s.TryNodes()
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

// TryNodes returns all nodes of the cluster. It asks the API server from this process: tests wait for nodes long, and
// ask often.
func (s *Fixture) TryNodes() ([]Node, error) {
	config, err := s.REST(s.t.Context(), s.Config)
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(config) // connections are those of the transport, which client-go shares
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, config.Host+"/api/v1/nodes", http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("get nodes: %s: %s", response.Status, text)
	}
	var list struct{ Items []Node }
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	return list.Items, err
}

// JSON decodes what kubectl prints.
func (s *Fixture) JSON(into any, args ...string) {
	s.t.Helper()
	text, errs, err := s.Try(s.Config, "kubectl", append(args, "-o", "json")...)
	if err == nil {
		err = json.Unmarshal([]byte(text), into)
	}
	if err != nil {
		s.t.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), err, text, errs)
	}
}

// AwaitNodes waits until the instances are Ready nodes without taints, and gives them back in their order. The API
// server may be on its way up.
func (s *Fixture) AwaitNodes(instances ...string) []Node {
	s.t.Helper()
	found := make([]Node, len(instances))
	err := eventually.Try(200*time.Millisecond, func() error {
		all, err := s.TryNodes()
		if err != nil {
			return err
		}
		for i, id := range instances {
			at := slices.IndexFunc(all, func(n Node) bool { return strings.HasSuffix(n.Spec.ProviderID, "/"+id) })
			if at < 0 {
				return fmt.Errorf("instance %s is no node", id)
			}
			if found[i] = all[at]; !found[i].Ready() {
				return fmt.Errorf("node %s of %s is not ready: %s", found[i].Metadata.Name, id,
					harness.Text(found[i].Status.Conditions))
			}
		}
		return nil
	})
	if err != nil {
		for _, id := range instances {
			s.Explain(id)
		}
		out, errs, _ := s.Try(s.Config, "kubectl", "get", "pods,csr,events", "-A", "-o", "wide")
		s.t.Log(out, errs)
		s.t.Fatal(err)
	}
	return found
}

// Explain logs what is known of an instance that does not do as it should.
func (s *Fixture) Explain(id string) {
	s.t.Helper()
	for _, command := range [][]string{
		{"aws", "ec2", "describe-instances", "--instance-ids", id, "--query",
			"Reservations[0].Instances[0].[State,StateReason]"},
		{"aws", "ec2", "get-console-output", "--instance-id", id, "--output", "text"},
		{"coracle", "exec", "--data-dir", s.Dir, id, "--", "journalctl", "--no-pager", "-n", "60"},
	} {
		out, errs, _ := s.Try("", command[0], command[1:]...)
		s.t.Logf("%s:\n%s%s", strings.Join(command, " "), last(out, 6000), errs)
	}
}

func last(text string, n int) string { return text[max(0, len(text)-n):] }

// In runs a command inside an instance, which must succeed.
func (s *Fixture) In(instance string, argv ...string) string {
	s.t.Helper()
	return s.Run("", "coracle", append([]string{"exec", "--data-dir", s.Dir, instance, "--"}, argv...)...)
}

// Apply applies a manifest.
func (s *Fixture) Apply(manifest string) {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "manifest.yaml")
	s.write(file, manifest)
	s.Run(s.Config, "kubectl", "apply", "-f", file)
}

// Await waits until kubectl's condition holds.
func (s *Fixture) Await(condition string, what ...string) {
	s.t.Helper()
	out, errs, err := s.Try(s.Config, "kubectl", append([]string{"wait", "--timeout=" + eventually.Limit.String(),
		"--for=" + condition}, what...)...)
	if err != nil {
		state, _, _ := s.Try(s.Config, "kubectl", "get", "pods,events", "-A", "-o", "wide")
		s.t.Fatalf("kubectl wait --for=%s %s: %v\n%s%s\n%s", condition, strings.Join(what, " "), err, out, errs, state)
	}
}
