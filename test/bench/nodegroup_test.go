package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// nodegroups are the managed node groups of one cluster.
type nodegroups struct {
	b       testing.TB
	client  *eks.Client
	cluster string
	subnets []string
}

func groupsOf(b testing.TB, d *harness.Daemon, cluster string, subnets []string) nodegroups {
	return nodegroups{b, eks.NewFromConfig(d.Config()), cluster, subnets}
}

func (g nodegroups) create(name string, size int32, change ...func(*eks.CreateNodegroupInput)) {
	g.b.Helper()
	in := &eks.CreateNodegroupInput{
		ClusterName: &g.cluster, NodegroupName: &name, NodeRole: aws.String(clustertest.RoleARN(clustertest.NodeRole)),
		Subnets: g.subnets, InstanceTypes: []string{"m5.large"},
		ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: &size, MaxSize: aws.Int32(size + 1),
			DesiredSize: &size},
	}
	for _, c := range change {
		c(in)
	}
	if _, err := g.client.CreateNodegroup(g.b.Context(), in); err != nil {
		g.b.Fatal(err)
	}
}

// active waits until a group is ACTIVE.
func (g nodegroups) active(name string) {
	g.b.Helper()
	if err := eventually.Try(20*time.Millisecond, func() error {
		out, err := g.client.DescribeNodegroup(g.b.Context(), &eks.DescribeNodegroupInput{ClusterName: &g.cluster,
			NodegroupName: &name})
		if err != nil {
			return err
		}
		if n := out.Nodegroup; n.Status != ekstypes.NodegroupStatusActive {
			err := fmt.Errorf("node group %s is %s: %s", name, n.Status, harness.Text(n.Health))
			if n.Status == ekstypes.NodegroupStatusCreateFailed {
				return eventually.Never(err)
			}
			return err
		}
		return nil
	}); err != nil {
		g.b.Fatal(err)
	}
}

// update updates a group, and waits for the end of that.
func (g nodegroups) update(name string, change func(*eks.UpdateNodegroupVersionInput)) {
	g.b.Helper()
	in := &eks.UpdateNodegroupVersionInput{ClusterName: &g.cluster, NodegroupName: &name}
	change(in)
	out, err := g.client.UpdateNodegroupVersion(g.b.Context(), in)
	if err != nil {
		g.b.Fatal(err)
	}
	if err := eventually.Try(50*time.Millisecond, func() error {
		now, err := g.client.DescribeUpdate(g.b.Context(), &eks.DescribeUpdateInput{Name: &g.cluster,
			NodegroupName: &name, UpdateId: out.Update.Id})
		switch {
		case err != nil:
			return err
		case now.Update.Status == ekstypes.UpdateStatusSuccessful:
			return nil
		case now.Update.Status == ekstypes.UpdateStatusInProgress:
			return errors.New("the update is in progress")
		}
		return eventually.Never(fmt.Errorf("the update is %s: %s", now.Update.Status, harness.Text(now.Update.Errors)))
	}); err != nil {
		g.b.Fatal(err)
	}
}

func (g nodegroups) delete(name string) {
	g.b.Helper()
	if _, err := g.client.DeleteNodegroup(g.b.Context(), &eks.DeleteNodegroupInput{ClusterName: &g.cluster,
		NodegroupName: &name}); err != nil {
		g.b.Fatal(err)
	}
	if err := eventually.Try(20*time.Millisecond, func() error {
		_, err := g.client.DescribeNodegroup(g.b.Context(), &eks.DescribeNodegroupInput{ClusterName: &g.cluster,
			NodegroupName: &name})
		var gone *ekstypes.ResourceNotFoundException
		if errors.As(err, &gone) {
			return nil
		}
		return fmt.Errorf("node group %s is still described: %v", name, err)
	}); err != nil {
		g.b.Fatal(err)
	}
}

// BenchmarkCreateNodegroup times CreateNodegroup of one node to ACTIVE; that its node is Ready then is checked.
func BenchmarkCreateNodegroup(b *testing.B) {
	const samples = 5
	s := clustertest.Empty(b, "created", version)
	kube, _ := kubernetesClient(b, s.Daemon, s.Cluster)
	g := groupsOf(b, s.Daemon, s.Cluster, s.SubnetIDs)
	var all []time.Duration
	for i := range samples + 1 { // the first warms the page cache, and makes the image
		name := "group-" + strconv.Itoa(i)
		start := time.Now()
		g.create(name, 1)
		g.active(name)
		if i > 0 {
			all = append(all, time.Since(start))
		}
		list, err := kube.CoreV1().Nodes().List(b.Context(),
			metav1.ListOptions{LabelSelector: "eks.amazonaws.com/nodegroup=" + name})
		if err != nil || len(list.Items) != 1 || !nodeReady(list.Items[0]) {
			b.Fatalf("%s is ACTIVE with the nodes %s, %v", name, harness.Text(list), err)
		}
		g.delete(name)
	}
	median := quantile(all, 0.5)
	b.ReportMetric(median.Seconds(), "s/nodegroup")
	report(row{"CreateNodegroup (1 node) to ACTIVE, node Ready (median of " + strconv.Itoa(samples) + ")",
		seconds(median), "10 s", "EKS: 120 to 150 s"})
}

func nodeReady(n corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// BenchmarkUpgradeNodegroup times the rolling upgrade of three nodes with twelve pods, two of them behind a Service
// that is asked all the time.
func BenchmarkUpgradeNodegroup(b *testing.B) {
	const from, to = "1.35", "1.36"
	s := clustertest.Empty(b, "upgraded", to)
	g := groupsOf(b, s.Daemon, s.Cluster, s.SubnetIDs)
	g.create("workers", 3, func(in *eks.CreateNodegroupInput) { in.Version = aws.String(from) })
	g.active("workers")
	s.AwaitNodes(s.RunInstances(1, s.AL2023(to), s.SubnetIDs[0], s.NodeConfig("--node-labels=role=client"))...)
	s.Workload("workers")
	start := time.Now()
	g.update("workers", func(in *eks.UpdateNodegroupVersionInput) { in.Version = aws.String(to) })
	took := time.Since(start)
	failed, restarts := s.Refused()
	for _, line := range failed {
		b.Log(line)
	}
	b.ReportMetric(took.Seconds(), "s/upgrade")
	b.ReportMetric(float64(len(failed)), "failures")
	report(row{"rolling upgrade " + from + " to " + to + " of 3 nodes, 12 pods, 2 budgets",
		fmt.Sprintf("%s, %d requests failed", seconds(took), len(failed)+restarts), "60 s, 0", "EKS: about 15 min"})
}

// BenchmarkManyNodegroups times fifty groups of twenty simulated nodes each in one cluster.
func BenchmarkManyNodegroups(b *testing.B) {
	const groups, nodes = 50, 20
	d := harness.Start(b, "CORACLE_MACHINES=simulated", "CORACLE_NODEGROUPS_PER_CLUSTER=100")
	subnets := roomy(b, d)
	d.CreateCluster("many", version, d.ClusterRole(), subnets)
	d.AwaitStatus("many", "ACTIVE")
	d.AWS(nil, "iam", "create-role", "--role-name", clustertest.NodeRole, "--assume-role-policy-document",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`)
	for _, policy := range []string{"AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy",
		"AmazonEC2ContainerRegistryReadOnly"} {
		d.AWS(nil, "iam", "attach-role-policy", "--role-name", clustertest.NodeRole, "--policy-arn",
			"arn:aws:iam::aws:policy/"+policy)
	}
	kube, _ := kubernetesClient(b, d, "many")
	g := groupsOf(b, d, "many", subnets)
	start := time.Now()
	for i := range groups {
		g.create(fmt.Sprintf("group-%d", i), nodes)
	}
	asked := time.Since(start)
	for i := range groups {
		g.active(fmt.Sprintf("group-%d", i))
	}
	took := time.Since(start)
	list, err := kube.CoreV1().Nodes().List(b.Context(),
		metav1.ListOptions{LabelSelector: "eks.amazonaws.com/nodegroup"})
	if err != nil {
		b.Fatal(err)
	}
	ready := 0
	for _, n := range list.Items {
		if nodeReady(n) {
			ready++
		}
	}
	if ready != groups*nodes {
		b.Errorf("%d of %d nodes are Ready, want %d", ready, len(list.Items), groups*nodes)
	}
	b.ReportMetric(took.Seconds(), "s/50groups")
	report(row{fmt.Sprintf("%d groups of %d simulated nodes in one cluster, all ACTIVE and Ready", groups, nodes),
		seconds(took), "3 min", fmt.Sprintf("the %d requests took %s", groups, seconds(asked))})
}

// roomy makes a VPC whose two subnets have addresses for all nodes and their pods.
func roomy(b testing.TB, d *harness.Daemon) []string {
	b.Helper()
	ctx, client := context.Background(), ec2.NewFromConfig(d.Config())
	vpc, err := client.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})
	if err != nil {
		b.Fatal(err)
	}
	var subnets []string
	for i, zone := range []string{"a", "b"} {
		out, err := client.CreateSubnet(ctx, &ec2.CreateSubnetInput{
			VpcId: vpc.Vpc.VpcId, CidrBlock: aws.String(fmt.Sprintf("10.0.%d.0/17", 128*i)),
			AvailabilityZone: aws.String(harness.Region + zone),
		})
		if err != nil {
			b.Fatal(err)
		}
		subnets = append(subnets, *out.Subnet.SubnetId)
	}
	return subnets
}
