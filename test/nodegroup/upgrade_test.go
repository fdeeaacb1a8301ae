package nodegroup

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// watch observes the nodes of a group until done is called, which returns the fewest that were Ready at once and the
// most that there were.
func (c *cluster) watch(nodegroup string) (done func() (ready, nodes int)) {
	stop := make(chan struct{})
	var running sync.WaitGroup
	ready, nodes := 1<<30, 0
	running.Go(func() {
		for tick := time.NewTicker(poll); ; {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			all, err := c.TryNodes()
			if err != nil {
				continue // the endpoint may be on its way up
			}
			isReady, members := 0, 0
			for _, n := range all {
				if n.Metadata.Labels["eks.amazonaws.com/nodegroup"] != nodegroup {
					continue
				}
				members++
				if n.Condition("Ready") == "True" {
					isReady++
				}
			}
			ready, nodes = min(ready, isReady), max(nodes, members)
		}
	})
	return func() (int, int) {
		close(stop)
		running.Wait()
		return ready, nodes
	}
}

// upgrade upgrades the serving group to the control plane's version, and kills the daemon meanwhile. The client notices
// nothing.
func (c *cluster) upgrade() {
	done := c.watch("workers")
	id := c.update("update-nodegroup-version", "--cluster-name", c.Cluster, "--nodegroup-name", "workers",
		"--kubernetes-version", to)
	if g, err := c.group("workers"); err != nil || g.Status != ekstypes.NodegroupStatusUpdating {
		c.t.Errorf("during the update it is %s, %v", harness.Text(g), err)
	}
	_, errs, err := c.Try("", "aws", "eks", "update-nodegroup-version", "--cluster-name", c.Cluster, "--nodegroup-name",
		"workers")
	if err == nil || !strings.Contains(errs, "ResourceInUseException") {
		c.t.Errorf("a second update meanwhile: %v %s", err, errs)
	}
	c.eventually("a node is cordoned", func() error {
		for _, n := range c.nodes("workers") {
			if n.Spec.Unschedulable {
				return nil
			}
		}
		return errors.New("none is")
	})
	c.Restart()
	c.succeeds("workers", id)
	least, most := done()
	if least < 2 {
		c.t.Errorf("there were only %d Ready nodes, and 1 of 3 may be unavailable", least)
	}
	if most < 4 {
		c.t.Errorf("there were %d nodes at most: the old ones went before the new ones came", most)
	}
	g := c.becomes("workers", ekstypes.NodegroupStatusActive)
	if *g.Version != to || *g.ReleaseVersion != clustertest.Release(c.t, to, 0) || *g.ScalingConfig.DesiredSize != 3 {
		c.t.Errorf("the group is %s", harness.Text(g))
	}
	c.waitForNodes("workers", 3, to)
	c.answered()
	if e := c.audit(
		`{ ($.objectRef.subresource = "eviction") && ($.verb = "create") && ($.user.username = "eks:node-manager") && ($.objectRef.namespace = "demo") }`); !strings.HasPrefix(e.UserAgent, "vpcLambda") {
		c.t.Errorf("the eviction is %+v", e)
	}
}

// waitForNodes waits until a group has n nodes of a version, all of them Ready and schedulable, and no others.
func (c *cluster) waitForNodes(nodegroup string, n int, version string) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("%s has %d nodes", nodegroup, n), func() error {
		asg := c.scalingGroup(nodegroup)
		// The node of an instance that is gone stays until the cloud controller manager has looked, NotReady.
		nodes := slices.DeleteFunc(c.nodes(nodegroup), func(node clustertest.Node) bool {
			return !node.Ready() && !slices.ContainsFunc(asg.Instances,
				func(i astypes.Instance) bool { return strings.HasSuffix(node.Spec.ProviderID, "/"+*i.InstanceId) })
		})
		for _, node := range nodes {
			if !node.Ready() || node.Spec.Unschedulable || !strings.HasPrefix(node.Status.NodeInfo.KubeletVersion,
				"v"+version+".") {
				return fmt.Errorf("node %s: %s", node.Metadata.Name, harness.Text(node))
			}
		}
		if len(nodes) != n || len(asg.Instances) != n || int(*asg.DesiredCapacity) != n {
			return fmt.Errorf("there are %d nodes and %s", len(nodes), harness.Text(asg))
		}
		return nil
	})
}

// scaleIn takes a node away. Its pods are evicted first.
func (c *cluster) scaleIn() {
	id := c.update("update-nodegroup-config", "--cluster-name", c.Cluster, "--nodegroup-name", "workers",
		"--scaling-config", "minSize=1,maxSize=5,desiredSize=2")
	c.succeeds("workers", id)
	c.waitForNodes("workers", 2, to)
	c.Await("condition=Available", "deployment/web", "deployment/batch", "-n", "demo")
	c.answered()
}

// interruption takes the instance of a spot group away. Another comes first.
func (c *cluster) interruption() {
	c.createGroup("spot", "--capacity-type", "SPOT", "--instance-types", "m5.large", "m6i.large", "--scaling-config",
		"minSize=1,maxSize=2,desiredSize=1")
	g := c.becomes("spot", ekstypes.NodegroupStatusActive)
	if g.CapacityType != ekstypes.CapacityTypesSpot {
		c.t.Errorf("the capacity type is %s", g.CapacityType)
	}
	asg := c.scalingGroup("spot")
	lost := *asg.Instances[0].InstanceId
	before := c.nodes("spot")
	if len(before) != 1 || before[0].Metadata.Labels["eks.amazonaws.com/capacityType"] != "SPOT" {
		c.t.Fatalf("the nodes are %s", harness.Text(before))
	}
	c.Run("", "coracle", "interrupt", "--data-dir", c.Dir, lost)
	c.eventually("the node is cordoned", func() error {
		for _, n := range c.nodes("spot") {
			if strings.HasSuffix(n.Spec.ProviderID, "/"+lost) && !n.Spec.Unschedulable {
				return errors.New("it is not")
			}
		}
		return nil
	})
	c.eventually("another has taken its place", func() error {
		now := c.scalingGroup("spot").Instances
		if len(now) != 1 || *now[0].InstanceId == lost || now[0].LifecycleState != "InService" {
			return fmt.Errorf("the instances are %s", harness.Text(now))
		}
		return nil
	})
	c.waitForNodes("spot", 1, to)
}
