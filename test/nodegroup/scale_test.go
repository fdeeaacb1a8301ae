package nodegroup

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/test/harness"
)

const pending = `apiVersion: v1
kind: Pod
metadata: {name: pending, namespace: default}
spec:
  terminationGracePeriodSeconds: 1
  nodeSelector: {tier: batch}
  tolerations: [{key: only, value: batch, effect: NoSchedule}]
  containers:
  - {name: main, image: ` + harness.Agnhost + `, args: [pause]}
`

// fromZero does what the Cluster Autoscaler does for a pod that only nodes of an empty group would take: it finds the
// Auto Scaling group by its tags, reads in them what a node would be like, and asks for one.
// https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/aws/README.md
func (c *cluster) fromZero() {
	c.createGroup("zero", "--scaling-config", "minSize=0,maxSize=1,desiredSize=0", "--labels", "tier=batch", "--taints",
		"key=only,value=batch,effect=NO_SCHEDULE")
	c.becomes("zero", ekstypes.NodegroupStatusActive)
	c.Apply(pending)

	out, err := c.asg.DescribeAutoScalingGroups(c.t.Context(),
		&autoscaling.DescribeAutoScalingGroupsInput{Filters: []astypes.Filter{
			{Name: aws.String("tag-key"), Values: []string{"k8s.io/cluster-autoscaler/enabled"}},
			{Name: aws.String("tag-key"), Values: []string{"k8s.io/cluster-autoscaler/" + c.Cluster}},
		}})
	if err != nil {
		c.t.Fatal(err)
	}
	const template = "k8s.io/cluster-autoscaler/node-template/"
	for _, g := range out.AutoScalingGroups {
		tags := map[string]string{}
		for _, t := range g.Tags {
			tags[*t.Key] = aws.ToString(t.Value)
		}
		if *g.DesiredCapacity > 0 || tags[template+"label/tier"] != "batch" ||
			tags[template+"taint/only"] != "batch:NoSchedule" {
			continue
		}
		if _, err := c.asg.SetDesiredCapacity(c.t.Context(),
			&autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: g.AutoScalingGroupName,
				DesiredCapacity: aws.Int32(1)}); err != nil {
			c.t.Fatal(err)
		}
	}
	c.Await("condition=Ready", "pod/pending")
	if n := c.nodes("zero"); len(n) != 1 || n[0].Metadata.Labels["tier"] != "batch" || len(n[0].Spec.Taints) != 1 ||
		n[0].Spec.Taints[0].Key != "only" {
		c.t.Errorf("the nodes are %s", harness.Text(n))
	}
	c.eventually("the group shows its size", func() error {
		g, err := c.group("zero")
		if err == nil && aws.ToInt32(g.ScalingConfig.DesiredSize) != 1 {
			err = fmt.Errorf("it is %s", harness.Text(g.ScalingConfig))
		}
		return err
	})
	c.Run(c.Config, "kubectl", "delete", "pod", "pending")
}
