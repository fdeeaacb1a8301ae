// Package simulated tests nodes on hosts without root, with the real clients, and measures thousands of them.
package simulated

import (
	"bytes"
	"context"
	"encoding/base64"
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

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	v2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
)

const (
	cluster = "demo"
	role    = "eks-node"
)

// fixture is a daemon of simulated machines with a cluster.
type fixture struct {
	*harness.Daemon
	t      testing.TB
	config string // kubeconfig
	ec2    *ec2.Client
	image  string
	subnet []string
	group  string
}

func newFixture(t testing.TB, subnets func(*harness.Daemon) []string) *fixture {
	t.Helper()
	d := harness.Start(t, "CORACLE_MACHINES=simulated")
	config := d.Config()
	config.HTTPClient = &http.Client{Transport: whole{&http.Transport{}}}
	s := &fixture{Daemon: d, t: t, ec2: ec2.NewFromConfig(config)}
	s.subnet = subnets(d)
	d.CreateCluster(cluster, "1.35", d.ClusterRole(), s.subnet)
	s.nodeRole()
	c := d.AwaitStatus(cluster, "ACTIVE")
	s.group = *c.ResourcesVpcConfig.ClusterSecurityGroupId
	s.config = d.Login(cluster)
	s.image = strings.TrimSpace(d.Run("", "aws", "ssm", "get-parameter", "--query", "Parameter.Value", "--output",
		"text",
		"--name", "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id"))
	return s
}

// whole sends a copy of each request's body. The SDK closes a body as soon as the answer begins, and when that comes
// before net/http has seen the body's end, as it may on a busy host, net/http closes the connection from which the
// answer is being read.
type whole struct{ *http.Transport }

func (t whole) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	copied := r.Clone(r.Context())
	copied.Body = io.NopCloser(bytes.NewReader(body))
	return t.Transport.RoundTrip(copied)
}

func (s *fixture) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// nodeRole makes a role of nodes, with an instance profile, that no cluster knows yet.
func (s *fixture) nodeRole() {
	s.t.Helper()
	ctx, client := context.Background(), iam.NewFromConfig(s.Config())
	_, err := client.CreateRole(ctx, &iam.CreateRoleInput{RoleName: aws.String(role),
		AssumeRolePolicyDocument: aws.String(
			`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`)})
	s.must(err)
	for _, policy := range []string{"AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy"} {
		_, err = client.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: aws.String(role),
			PolicyArn: aws.String("arn:aws:iam::aws:policy/" + policy)})
		s.must(err)
	}
	_, err = client.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String(role)})
	s.must(err)
	_, err = client.AddRoleToInstanceProfile(ctx,
		&iam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String(role), RoleName: aws.String(role)})
	s.must(err)
}

// letIn gives the role of nodes an access entry.
func (s *fixture) letIn() {
	s.t.Helper()
	_, err := eks.NewFromConfig(s.Config()).CreateAccessEntry(context.Background(), &eks.CreateAccessEntryInput{
		ClusterName: aws.String(cluster), PrincipalArn: aws.String("arn:aws:iam::111122223333:role/" + role),
		Type: aws.String("EC2_LINUX"),
	})
	s.must(err)
}

// mapRole gives the role of nodes a place in aws-auth.
func (s *fixture) mapRole() {
	s.t.Helper()
	manifest := filepath.Join(s.t.TempDir(), "aws-auth.yaml")
	s.must(os.WriteFile(manifest, []byte(`apiVersion: v1
kind: ConfigMap
metadata: {name: aws-auth, namespace: kube-system}
data:
  mapRoles: |
    - rolearn: arn:aws:iam::111122223333:role/`+role+`
      username: system:node:{{EC2PrivateDNSName}}
      groups: [system:bootstrappers, system:nodes]
`), 0o600))
	s.Run(s.config, "kubectl", "apply", "-f", manifest)
}

const userData = `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: ` + cluster + `}
  kubelet: {flags: ["--node-labels=team=a"]}
`

func (s *fixture) run(count int, subnet string) []string {
	s.t.Helper()
	out, err := s.ec2.RunInstances(context.Background(), &ec2.RunInstancesInput{
		ImageId: &s.image, InstanceType: ec2types.InstanceTypeM5Large, MinCount: aws.Int32(int32(count)),
		MaxCount: aws.Int32(int32(count)), SubnetId: &subnet,
		SecurityGroupIds: []string{s.group}, IamInstanceProfile: &ec2types.IamInstanceProfileSpecification{
			Name: aws.String(role)}, UserData: aws.String(base64Of(userData)),
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeInstance,
			Tags: []ec2types.Tag{{Key: aws.String("kubernetes.io/cluster/" + cluster), Value: aws.String("owned")}}}},
	})
	s.must(err)
	var ids []string
	for _, i := range out.Instances {
		ids = append(ids, *i.InstanceId)
	}
	return ids
}

func (s *fixture) kubectl(args ...string) string { return s.Run(s.config, "kubectl", args...) }

func (s *fixture) until(what string, try func() error) {
	s.t.Helper()
	if err := eventually.Try(100*time.Millisecond, try); err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
}

// nodes returns the names of the nodes that are ready and have no taints.
func (s *fixture) nodes() []string {
	s.t.Helper()
	text := s.kubectl("get", "nodes", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.status.conditions[?(@.type=="Ready")].status} {.spec.taints}{"\n"}{end}`)
	var ready []string
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 && f[1] == "True" {
			ready = append(ready, f[0])
		}
	}
	return ready
}

func TestSimulatedNodes(t *testing.T) {
	t.Parallel()
	s := newFixture(t, (*harness.Daemon).Subnets)

	// A role that the cluster does not know keeps the node out, and the console says so.
	id := s.run(1, s.subnet[0])[0]
	s.until("the instance runs", func() error { return s.state(id, ec2types.InstanceStateNameRunning) })
	s.until("its console tells that it may not join", func() error {
		out, err := s.ec2.GetConsoleOutput(t.Context(), &ec2.GetConsoleOutputInput{InstanceId: &id})
		if err == nil && !strings.Contains(decoded(aws.ToString(out.Output)), "401 Unauthorized") {
			err = fmt.Errorf("the console says %q", decoded(aws.ToString(out.Output)))
		}
		return err
	})
	if got := s.kubectl("get", "nodes", "-o", "name"); got != "" {
		t.Errorf("there are nodes: %s", got)
	}
	s.letIn()

	// The cloud controller manager knows the instance behind the node.
	s.until("the node is ready", func() error {
		if n := s.nodes(); len(n) != 1 {
			return fmt.Errorf("ready: %v", n)
		}
		return nil
	})
	var node struct {
		Metadata struct {
			Name   string
			Labels map[string]string
		}
		Spec   struct{ ProviderID string }
		Status struct {
			Addresses             []struct{ Type, Address string }
			Capacity, Allocatable map[string]string
		}
	}
	name := s.nodes()[0]
	s.must(json.Unmarshal([]byte(s.kubectl("get", "node", name, "-o", "json")), &node))
	described, err := s.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	s.must(err)
	i := described.Reservations[0].Instances[0]
	for label, want := range map[string]string{
		"team": "a", "node.kubernetes.io/instance-type": "m5.large",
		"topology.kubernetes.io/zone": *i.Placement.AvailabilityZone, "topology.kubernetes.io/region": harness.Region,
		"topology.k8s.aws/zone-id": *i.Placement.AvailabilityZoneId, "kubernetes.io/arch": "amd64",
		"kubernetes.io/hostname": *i.PrivateDnsName,
	} {
		if node.Metadata.Labels[label] != want {
			t.Errorf("label %s is %q, want %q", label, node.Metadata.Labels[label], want)
		}
	}
	if want := "aws:///" + *i.Placement.AvailabilityZone + "/" + id; node.Spec.ProviderID != want ||
		name != *i.PrivateDnsName {
		t.Errorf("node %s is %s, want %s", name, node.Spec.ProviderID, want)
	}
	addresses := map[string]string{}
	for _, a := range node.Status.Addresses {
		addresses[a.Type] = a.Address
	}
	if addresses["InternalIP"] != *i.PrivateIpAddress || addresses["InternalDNS"] != *i.PrivateDnsName ||
		addresses["Hostname"] != *i.PrivateDnsName || addresses["ExternalIP"] != aws.ToString(i.PublicIpAddress) {
		t.Errorf("addresses are %v", addresses)
	}
	if node.Status.Capacity["cpu"] != "2" || node.Status.Capacity["pods"] != "29" {
		t.Errorf("capacity is %v", node.Status.Capacity)
	}

	// What a new cluster runs.
	s.kubectl("-n", "kube-system", "rollout", "status", "daemonset/aws-node", "--timeout="+eventually.Limit.String())
	s.kubectl("-n", "kube-system", "rollout", "status", "daemonset/kube-proxy", "--timeout="+eventually.Limit.String())
	s.kubectl("-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout="+eventually.Limit.String())
	if got := strings.TrimSpace(s.kubectl("-n", "kube-system", "get", "service", "kube-dns", "-o",
		"jsonpath={.spec.clusterIP}")); !strings.HasSuffix(got, ".0.10") {
		t.Errorf("the DNS address is %s", got)
	}
	if got := s.kubectl("-n", "kube-system", "get", "daemonset", "aws-node", "--show-managed-fields", "-o",
		"jsonpath={.metadata.managedFields[*].manager}"); !strings.HasPrefix(got, "kubectl-client-side-apply") {
		t.Errorf("aws-node is managed by %q", got)
	}

	// Its pods have addresses of its interfaces.
	s.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=12")
	s.kubectl("rollout", "status", "deployment/web", "--timeout="+eventually.Limit.String())
	described, err = s.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	s.must(err)
	var own []string
	for _, n := range described.Reservations[0].Instances[0].NetworkInterfaces {
		for _, a := range n.PrivateIpAddresses {
			own = append(own, *a.PrivateIpAddress)
		}
	}
	pods := strings.Fields(s.kubectl("get", "pods", "-o", "jsonpath={.items[*].status.podIP}"))
	if len(pods) != 12 || slices.ContainsFunc(pods, func(a string) bool { return !slices.Contains(own, a) }) {
		t.Errorf("pods have %v, the node has %v", pods, own)
	}

	// Its kubelet has a certificate that eks:certificate-controller approved, and nothing to say.
	pod := strings.TrimSpace(s.kubectl("get", "pods", "-o", "name", "-l", "app=web"))
	pod, _, _ = strings.Cut(pod, "\n")
	for _, args := range [][]string{{"logs", pod}, {"exec", pod, "--", "true"}} {
		_, errs, err := s.Try(s.config, "kubectl", args...)
		if err == nil || !strings.Contains(errs, "machine "+id+" is simulated") {
			t.Errorf("kubectl %s: %v: %s", args[0], err, errs)
		}
	}
	if got := s.kubectl("get", "csr", "-o", "jsonpath={.items[*].status.conditions[*].reason}"); got != "AutoApproved" {
		t.Errorf("the requests for serving certificates are %q", got)
	}

	// A Service has a load balancer that is active, of which the node is a healthy target.
	s.kubectl("expose", "deployment", "web", "--type=LoadBalancer", "--port=80", "--overrides",
		`{"metadata":{"annotations":{"service.beta.kubernetes.io/aws-load-balancer-type":"nlb"}}}`)
	s.until("its load balancer serves", func() error { return s.serves(id) })

	// A daemon that dies leaves nothing undone.
	s.Restart()
	s.kubectl("scale", "deployment", "web", "--replicas=14")
	s.kubectl("rollout", "status", "deployment/web", "--timeout="+eventually.Limit.String())
	var all struct {
		Items []struct {
			Spec   struct{ HostNetwork bool }
			Status struct{ PodIP string }
		}
	}
	s.must(json.Unmarshal([]byte(s.kubectl("get", "pods", "-A", "-o", "json")), &all))
	pods = nil
	for _, p := range all.Items {
		if !p.Spec.HostNetwork {
			pods = append(pods, p.Status.PodIP)
		}
	}
	slices.Sort(pods)
	if n := len(pods); n != 16 || len(slices.Compact(pods)) != n {
		t.Errorf("%d pods have the addresses %v", n, pods)
	}

	s.must(s.serves(id))
	s.kubectl("delete", "service", "web", "--timeout="+eventually.Limit.String())

	// The Node of an instance that is terminated goes.
	_, err = s.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	s.must(err)
	s.until("the instance is terminated", func() error { return s.state(id, ec2types.InstanceStateNameTerminated) })
	if err := eventually.Try(200*time.Millisecond, func() error {
		if got := s.kubectl("get", "nodes", "-o", "name"); got != "" {
			return fmt.Errorf("still there: %s", got)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// serves reports whether the only load balancer is active, and an instance a healthy target of it.
func (s *fixture) serves(id string) error {
	ctx, client := context.Background(), v2.NewFromConfig(s.Config())
	balancers, err := client.DescribeLoadBalancers(ctx, &v2.DescribeLoadBalancersInput{})
	if err != nil {
		return err
	}
	if n := len(balancers.LoadBalancers); n != 1 {
		return fmt.Errorf("there are %d load balancers", n)
	}
	if code := balancers.LoadBalancers[0].State.Code; code != v2types.LoadBalancerStateEnumActive {
		return fmt.Errorf("the load balancer is %s", code)
	}
	groups, err := client.DescribeTargetGroups(ctx, &v2.DescribeTargetGroupsInput{
		LoadBalancerArn: balancers.LoadBalancers[0].LoadBalancerArn})
	if err != nil {
		return err
	}
	health, err := client.DescribeTargetHealth(ctx, &v2.DescribeTargetHealthInput{
		TargetGroupArn: groups.TargetGroups[0].TargetGroupArn})
	if err != nil {
		return err
	}
	for _, t := range health.TargetHealthDescriptions {
		if *t.Target.Id == id && t.TargetHealth.State == v2types.TargetHealthStateEnumHealthy {
			return nil
		}
	}
	return fmt.Errorf("the targets are %s", harness.Text(health.TargetHealthDescriptions))
}

func (s *fixture) state(id string, want ec2types.InstanceStateName) error {
	out, err := s.ec2.DescribeInstances(context.Background(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if err != nil {
		return err
	}
	if got := out.Reservations[0].Instances[0].State.Name; got != want {
		return fmt.Errorf("instance %s is %s", id, got)
	}
	return nil
}

// The role may be mapped by aws-auth as well.
func TestMappedByConfigMap(t *testing.T) {
	t.Parallel()
	s := newFixture(t, (*harness.Daemon).Subnets)
	s.mapRole()
	s.run(2, s.subnet[1])
	s.until("both nodes are ready", func() error {
		if n := s.nodes(); len(n) != 2 {
			return fmt.Errorf("ready: %v", n)
		}
		return nil
	})
}

func base64Of(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func decoded(text string) string {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return text
	}
	return string(b)
}
