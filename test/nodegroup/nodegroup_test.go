// Package nodegroup tests managed node groups as their users meet them: with the unmodified aws and kubectl, on nodes
// that really run pods, and with a client that never stops asking a Service of two replicas while its nodes are
// replaced. The tests need root.
package nodegroup

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

const (
	poll = 200 * time.Millisecond

	from, to = "1.35", "1.36"
)

// cluster is a fixture, and what these tests do there.
type cluster struct {
	*clustertest.Fixture
	t   testing.TB
	eks *eks.Client
	asg *autoscaling.Client
}

func newCluster(t testing.TB, name string) *cluster {
	t.Helper()
	s := clustertest.Empty(t, name, to)
	c := &cluster{Fixture: s, t: t, eks: eks.NewFromConfig(s.Daemon.Config()),
		asg: autoscaling.NewFromConfig(s.Daemon.Config())}
	s.AWS(nil, "eks", "update-cluster-config", "--name", name, "--logging",
		`{"clusterLogging":[{"types":["audit"],"enabled":true}]}`)
	s.AwaitStatus(name, "ACTIVE")
	return c
}

// in returns the cluster for a subtest, which then fails instead of the whole test.
func (c *cluster) in(t testing.TB) *cluster {
	inner := *c
	inner.t = t
	return &inner
}

func (c *cluster) eventually(what string, try func() error) {
	c.t.Helper()
	if err := eventually.Try(poll, try); err != nil {
		c.t.Fatalf("it did not come about that %s: %v", what, err)
	}
}

// TestManagedNodeGroups runs the life of node groups in one cluster. Steps that fail after a timeout begin early; see
// [cluster.runOutOfTime].
func TestManagedNodeGroups(t *testing.T) {
	testenv.NeedsAll(t, "it takes more than ten minutes on two busy cores")
	t.Parallel()
	c := newCluster(t, "managed")
	step := func(name string, do func(*cluster)) {
		t.Helper()
		through := false
		t.Run(name, func(t *testing.T) {
			do(c.in(t))
			through = true
		})
		if !through { // the next would wait in vain
			t.FailNow()
		}
	}
	step("what never joins is created", (*cluster).createMute)
	step("create", (*cluster).create)
	step("who did it", (*cluster).whoDidIt)
	step("a group that cannot be drained is created", (*cluster).createStubborn)
	step("configuration of live nodes", (*cluster).configure)
	step("self-managed nodes beside them", (*cluster).selfManaged)
	step("workload", (*cluster).workload)
	step("a kubelet that fails says why", (*cluster).kubeletFails)
	step("update that a PodDisruptionBudget stops begins", (*cluster).updateStubborn)
	step("rolling upgrade", (*cluster).upgrade)
	step("time runs out", (*cluster).runOutOfTime)
	step("forced update", (*cluster).forceStubborn)
	step("launch that fails", (*cluster).noAddresses)
	step("scaling in", (*cluster).scaleIn)
	if testenv.All() {
		step("groups with warm pools are created", (*cluster).createWarm)
	}
	step("scaling from zero", (*cluster).fromZero)
	if testenv.All() {
		step("out of the warm pool", (*cluster).warm)
	}
	step("spot interruption", (*cluster).interruption)
	step("nobody was refused", (*cluster).answered)
	step("delete", (*cluster).delete)
}

// createGroup asks for a node group with the aws command line; it does not wait.
func (c *cluster) createGroup(name string, more ...string) {
	c.t.Helper()
	args := []string{"eks", "create-nodegroup", "--cluster-name", c.Cluster, "--nodegroup-name", name}
	if !slices.Contains(more, "--node-role") {
		more = append(more, "--node-role", clustertest.RoleARN(clustertest.NodeRole))
	}
	if !slices.Contains(more, "--subnets") {
		more = append(append(more, "--subnets"), c.SubnetIDs...)
	}
	var out struct{ Nodegroup struct{ Status string } }
	c.AWS(&out, append(args, more...)...)
	if out.Nodegroup.Status != "CREATING" {
		c.t.Errorf("a new node group is %s", out.Nodegroup.Status)
	}
}

// group describes a node group.
func (c *cluster) group(name string) (*ekstypes.Nodegroup, error) {
	out, err := c.eks.DescribeNodegroup(c.t.Context(), &eks.DescribeNodegroupInput{ClusterName: &c.Cluster,
		NodegroupName: &name})
	if err != nil {
		return nil, err
	}
	return out.Nodegroup, nil
}

// becomes waits until a node group has a status.
func (c *cluster) becomes(name string, want ekstypes.NodegroupStatus) *ekstypes.Nodegroup {
	c.t.Helper()
	var found *ekstypes.Nodegroup
	c.eventually(fmt.Sprintf("node group %s is %s", name, want), func() error {
		g, err := c.group(name)
		if err != nil {
			return err
		}
		if found = g; g.Status != want {
			err := fmt.Errorf("it is %s: %s", g.Status, harness.Text(g.Health))
			if g.Status == ekstypes.NodegroupStatusCreateFailed {
				c.explain(name)
				return eventually.Never(err)
			}
			return err
		}
		return nil
	})
	return found
}

// explain logs what is known of a node group that does not do as it should.
func (c *cluster) explain(name string) {
	g, err := c.group(name)
	if err != nil || g.Resources == nil {
		return
	}
	for _, a := range g.Resources.AutoScalingGroups {
		c.t.Log(c.activities(*a.Name))
		for _, i := range c.members(*a.Name) {
			c.Explain(*i.InstanceId)
		}
	}
}

func (c *cluster) scalingGroup(nodegroup string) astypes.AutoScalingGroup {
	c.t.Helper()
	g, err := c.group(nodegroup)
	if err != nil {
		c.t.Fatal(err)
	}
	if g.Resources == nil || len(g.Resources.AutoScalingGroups) != 1 {
		c.t.Fatalf("the resources of %s are %s", nodegroup, harness.Text(g.Resources))
	}
	out, err := c.asg.DescribeAutoScalingGroups(c.t.Context(),
		&autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{
			*g.Resources.AutoScalingGroups[0].Name}})
	if err != nil || len(out.AutoScalingGroups) != 1 {
		c.t.Fatalf("the Auto Scaling group of %s: %v, %v", nodegroup, harness.Text(out), err)
	}
	return out.AutoScalingGroups[0]
}

func (c *cluster) members(scalingGroup string) []astypes.Instance {
	out, err := c.asg.DescribeAutoScalingGroups(c.t.Context(),
		&autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{scalingGroup}})
	if err != nil || len(out.AutoScalingGroups) != 1 {
		return nil
	}
	return out.AutoScalingGroups[0].Instances
}

func (c *cluster) activities(scalingGroup string) string {
	out, err := c.asg.DescribeScalingActivities(c.t.Context(),
		&autoscaling.DescribeScalingActivitiesInput{AutoScalingGroupName: &scalingGroup})
	if err != nil {
		return err.Error()
	}
	var text strings.Builder
	for _, a := range out.Activities {
		fmt.Fprintf(&text, "%s %s: %s %s\n", a.StatusCode, *a.Description, *a.Cause, aws.ToString(a.StatusMessage))
	}
	return text.String()
}

// nodes returns the nodes of a node group.
func (c *cluster) nodes(nodegroup string) []clustertest.Node {
	c.t.Helper()
	return slices.DeleteFunc(c.Nodes(), func(n clustertest.Node) bool {
		return n.Metadata.Labels["eks.amazonaws.com/nodegroup"] != nodegroup
	})
}

// updated waits for the end of an update.
func (c *cluster) updated(nodegroup, id string) *ekstypes.Update {
	c.t.Helper()
	var found *ekstypes.Update
	c.eventually("update "+id+" of "+nodegroup+" ends", func() error {
		out, err := c.eks.DescribeUpdate(c.t.Context(), &eks.DescribeUpdateInput{Name: &c.Cluster,
			NodegroupName: &nodegroup, UpdateId: &id})
		if err != nil {
			return err
		}
		if found = out.Update; found.Status == ekstypes.UpdateStatusInProgress {
			g, err := c.group(nodegroup)
			return fmt.Errorf("it is in progress, the group is %s, %w", harness.Text(g),
				errors.Join(err, errors.New("and not done")))
		}
		return nil
	})
	return found
}

func (c *cluster) succeeds(nodegroup, id string) {
	c.t.Helper()
	if u := c.updated(nodegroup, id); u.Status != ekstypes.UpdateStatusSuccessful {
		c.explain(nodegroup)
		c.t.Fatalf("update %s of %s is %s: %s", id, nodegroup, u.Status, harness.Text(u.Errors))
	}
}

// update runs an aws eks command that answers with an update, and gives back its ID.
func (c *cluster) update(args ...string) string {
	c.t.Helper()
	var out struct{ Update struct{ Id, Status string } }
	c.AWS(&out, append([]string{"eks"}, args...)...)
	return out.Update.Id
}

// audit waits for an event in the audit log that matches a filter pattern, and gives it back.
func (c *cluster) audit(pattern string) auditEvent {
	c.t.Helper()
	var found auditEvent
	c.eventually("the audit log has "+pattern, func() error {
		var out struct{ Events []struct{ Message string } }
		c.AWS(&out, "logs", "filter-log-events", "--log-group-name", "/aws/eks/"+c.Cluster+"/cluster",
			"--filter-pattern", pattern, "--max-items", "1")
		if len(out.Events) == 0 {
			return errors.New("there is none")
		}
		return json.Unmarshal([]byte(out.Events[0].Message), &found)
	})
	return found
}

type auditEvent struct {
	Verb, UserAgent, RequestURI string
	User                        struct {
		Username string
		Groups   []string
	}
	ObjectRef      struct{ Resource, Namespace, Name, Subresource string }
	ResponseStatus struct{ Code int }
}
