package nodegroup

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/test/harness"
)

// createWarm makes node groups whose instances wait in a warm pool, each in its way.
func (c *cluster) createWarm() {
	for _, pool := range warmPools {
		c.createGroup(strings.ToLower(pool), "--scaling-config", "minSize=0,maxSize=1,desiredSize=0",
			"--warm-pool-config", "enabled=true,minSize=1,maxGroupPreparedCapacity=1,poolState="+pool)
	}
}

// warmPools are the states of pools.
var warmPools = []string{"RUNNING", "STOPPED"}

// warm finds that an instance in a warm pool has booted and is no node, and that it becomes one when it leaves the
// pool.
// https://docs.aws.amazon.com/eks/latest/userguide/warm-pools-managed-node-groups.html
func (c *cluster) warm() {
	waiting := map[string]string{}
	for _, pool := range warmPools {
		name, want := strings.ToLower(pool), astypes.LifecycleState("Warmed:"+pool[:1]+strings.ToLower(pool[1:]))
		c.becomes(name, ekstypes.NodegroupStatusActive)
		asg := c.scalingGroup(name).AutoScalingGroupName
		c.eventually("an instance is "+string(want), func() error {
			out, err := c.asg.DescribeWarmPool(c.t.Context(),
				&autoscaling.DescribeWarmPoolInput{AutoScalingGroupName: asg})
			if err == nil && (len(out.Instances) != 1 || out.Instances[0].LifecycleState != want) {
				err = fmt.Errorf("the pool is %s", harness.Text(out.Instances))
			}
			if err == nil {
				waiting[name] = *out.Instances[0].InstanceId
			}
			return err
		})
		if nodes := c.nodes(name); len(nodes) != 0 {
			c.t.Errorf("there are nodes of a group that has only a warm pool: %s", harness.Text(nodes))
		}
		if console := c.Run("", "aws", "ec2", "get-console-output", "--instance-id", waiting[name], "--output",
			"text"); !strings.Contains(console, "cloud-final") && !strings.Contains(console, "Cloud-init") {
			c.t.Errorf("the instance in the pool has not run its user data:\n%s", console)
		}
		if pool == "RUNNING" {
			if state := c.Run("", "coracle", "exec", "--data-dir", c.Dir, waiting[name], "--", "sh", "-c",
				"systemctl is-active kubelet eks-warm-pool containerd || true"); state != "inactive\nactive\nactive\n" {
				c.t.Errorf("kubelet, eks-warm-pool and containerd are %q in the pool", state)
			}
		}
		if _, err := c.asg.SetDesiredCapacity(c.t.Context(),
			&autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: asg,
				DesiredCapacity: aws.Int32(1)}); err != nil {
			c.t.Fatal(err)
		}
	}
	for name, id := range waiting {
		c.AwaitNodes(id)
		if nodes := c.nodes(name); len(nodes) != 1 {
			c.t.Errorf("the nodes are %s", harness.Text(nodes))
		}
	}
}
