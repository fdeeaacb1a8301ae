package nodegroup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// TestManyGroups makes fifty groups of simulated nodes at once in one cluster, and takes them away again.
func TestManyGroups(t *testing.T) {
	t.Parallel()
	const groups, nodes = 50, 2
	d := harness.Start(t, "CORACLE_MACHINES=simulated", "CORACLE_NODEGROUPS_PER_CLUSTER=100")
	subnets := d.Subnets()
	d.CreateCluster("many", to, d.ClusterRole(), subnets)
	d.AwaitStatus("many", "ACTIVE")
	d.AWS(nil, "iam", "create-role", "--role-name", clustertest.NodeRole, "--assume-role-policy-document",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`)
	for _, policy := range []string{"AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy",
		"AmazonEC2ContainerRegistryReadOnly"} {
		d.AWS(nil, "iam", "attach-role-policy", "--role-name", clustertest.NodeRole, "--policy-arn",
			"arn:aws:iam::aws:policy/"+policy)
	}
	config := d.Login("many")
	client := eks.NewFromConfig(d.Config())
	for i := range groups {
		_, err := client.CreateNodegroup(t.Context(), &eks.CreateNodegroupInput{
			ClusterName: aws.String("many"), NodegroupName: aws.String(fmt.Sprintf("group-%d", i)),
			NodeRole: aws.String(clustertest.RoleARN(clustertest.NodeRole)), Subnets: subnets,
			ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(0), MaxSize: aws.Int32(nodes),
				DesiredSize: aws.Int32(nodes)}, Labels: map[string]string{"group": fmt.Sprint(i)},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	statuses := func(ctx context.Context) (map[ekstypes.NodegroupStatus]int, error) {
		counts := map[ekstypes.NodegroupStatus]int{}
		list, err := client.ListNodegroups(ctx, &eks.ListNodegroupsInput{ClusterName: aws.String("many")})
		if err != nil {
			return nil, err
		}
		for _, name := range list.Nodegroups {
			out, err := client.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: aws.String("many"),
				NodegroupName: &name})
			if err != nil {
				return nil, err
			}
			counts[out.Nodegroup.Status]++
		}
		return counts, nil
	}
	if err := eventually.Try(time.Second, func() error {
		counts, err := statuses(t.Context())
		if err != nil {
			return err
		}
		if counts[ekstypes.NodegroupStatusActive] != groups {
			return fmt.Errorf("the groups are %v", counts)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var labels []string
	eventually.Nil(t, "nodes are listed", func() error {
		out, errs, err := d.Try(config, "kubectl", "get", "nodes", "-o",
			`jsonpath={range .items[*]}{.metadata.labels.eks\.amazonaws\.com/nodegroup}/{.metadata.labels.group}{'\n'}{end}`)
		if err != nil {
			return fmt.Errorf("%w: %s", err, errs) // a busy machine has no answer in the five seconds of a webhook
		}
		labels = strings.Fields(out)
		return nil
	})
	slices.Sort(labels)
	if distinct := slices.Compact(slices.Clone(labels)); len(labels) != groups*nodes || len(distinct) != groups {
		t.Errorf("%d nodes are of the groups %v", len(labels), distinct)
	}
	for i := range groups {
		name := fmt.Sprintf("group-%d", i)
		if _, err := client.DeleteNodegroup(t.Context(), &eks.DeleteNodegroupInput{ClusterName: aws.String("many"),
			NodegroupName: &name}); err != nil {
			t.Fatal(err)
		}
	}
	if err := eventually.Try(time.Second, func() error {
		counts, err := statuses(t.Context())
		if err != nil {
			return err // one may have gone between the two questions
		}
		if len(counts) != 0 {
			return fmt.Errorf("the groups are %v", counts)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
