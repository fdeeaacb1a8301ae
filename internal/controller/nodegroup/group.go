package nodegroup

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/coracle-eks/coracle/internal/kube/nodename"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// group is one reconcile pass over one node group. Its steps are in the files of this package, each on what it is
// about.
type group struct {
	c       *Controller
	row     record.Nodegroup
	last    record.Update // the one named by row.LastUpdateID; zero without one
	cluster record.Cluster
	// state is the known state; steps change it, and save writes it.
	state record.NodegroupState
	saved store.Row[record.NodegroupState] // as it was last read or written; no revision before it was

	ec2     EC2
	scaling AutoScaling
	iam     IAM
	eks     EKS
	server  *server              // nil while the API server cannot be reached
	kube    kubernetes.Interface // of server; nil when that is
	// asg is as DescribeAutoScalingGroups answered in this look; nil before there is one.
	asg     *astypes.AutoScalingGroup
	members []member      // its instances, with their nodes
	issues  issues        // what is wrong, as far as this look has seen
	blocked bool          // by one of them: what builds on it waits
	soon    time.Duration // when to look again because of them
}

// member is an instance of the Auto Scaling group.
type member struct {
	Instance astypes.Instance
	Node     *corev1.Node // nil before it has registered; not to be changed
	Old      bool         // it is not of state.LaunchTemplateVersion
}

// ID returns the instance's ID.
func (m member) ID() string { return aws.ToString(m.Instance.InstanceId) }

// Reconcile reconciles the node group with the given key.
func (c *Controller) Reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	g, err := c.loadGroup(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{Gone: true}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	after, err := g.reconcile(ctx)
	if errors.Is(err, errGone) {
		c.forgetGroup(g.row.ID)
		return reconcile.Result{Gone: true}, nil
	}
	if err != nil {
		err = fmt.Errorf("node group %s of cluster %s: %w", g.row.Name, g.row.Cluster, err)
	}
	return reconcile.Result{After: after}, errors.Join(err, g.saveState(ctx))
}

// errGone reports that nothing is left of the group.
var errGone = errors.New("the node group is gone")

// loadGroup loads the records of a group.
func (c *Controller) loadGroup(ctx context.Context, key string) (*group, error) {
	row, err := c.groups.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	g := &group{c: c, row: row.Value}
	c.rememberGroup(g.row.ID, key)
	if g.saved, err = c.states.Copy(ctx, key); err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	if g.saved.Value.NodegroupID == g.row.ID {
		g.state = g.saved.Value
		if g.saved, err = c.states.Copy(ctx, key); err != nil { // one to change, one to compare with
			return nil, err
		}
	} else {
		g.state.NodegroupID = g.row.ID // the rest is of another group of that name
	}
	cluster, err := c.clusters.Get(ctx, record.ClusterKey(g.row.Account, g.row.Region, g.row.Cluster))
	if err != nil {
		return nil, err
	}
	g.cluster = cluster.Value
	if g.row.LastUpdateID != "" {
		last, err := c.updates.Get(ctx, record.UpdateKey(g.row.Account, g.row.Region, g.row.Cluster,
			g.row.LastUpdateID))
		if store.IgnoreNotFound(err) != nil {
			return nil, err
		}
		g.last = last.Value
	}
	g.ec2, g.scaling = c.o.EC2(g.row.Account, g.row.Region), c.o.AutoScaling(g.row.Account, g.row.Region)
	g.iam, g.eks = c.o.IAM(g.row.Account), c.o.EKS(g.row.Account, g.row.Region)
	if s, ok := c.servers.Get(cluster.Key); ok {
		g.server, g.kube = s, s.kube
	}
	return g, nil
}

// saveState writes the observed state of the group if it has changed. It is called before each action that must be
// recorded first, and at the end of a pass.
func (g *group) saveState(ctx context.Context) error {
	before, now := g.saved.Value, g.state
	if before.Created != now.Created || before.Failed != now.Failed || before.DeleteFailed != now.DeleteFailed ||
		!reflect.DeepEqual(before.Issues, now.Issues) {
		g.state.ModifiedAt = g.c.now().Truncate(time.Millisecond)
	}
	if g.saved.Revision != 0 && reflect.DeepEqual(g.saved.Value, g.state) {
		return nil
	}
	row := store.Row[record.NodegroupState]{Key: g.row.Key(), Value: g.state, Revision: g.saved.Revision}
	ctx = store.Paced(ctx) // nodes say how often there is something new
	var err error
	if row.Revision == 0 {
		_, err = g.c.states.Create(ctx, row.Key, row.Value)
	} else {
		_, err = g.c.states.Update(ctx, row)
	}
	if err == nil {
		g.saved, err = g.c.states.Copy(ctx, row.Key)
	}
	return err
}

// finishUpdate ends the update in progress.
func (g *group) finishUpdate(ctx context.Context, status ekstypes.UpdateStatus, errs ...ekstypes.ErrorDetail) error {
	key := record.UpdateKey(g.row.Account, g.row.Region, g.row.Cluster, g.last.ID)
	row, err := g.c.updates.Modify(store.Paced(ctx), key, func(u *record.Update) error { // as saveState
		if u.Status == ekstypes.UpdateStatusInProgress {
			u.Status, u.Errors = status, errs
		}
		return nil
	})
	if err != nil {
		return err
	}
	g.last = row.Value
	g.state.ModifiedAt = g.c.now().Truncate(time.Millisecond)
	return nil
}

// updating reports whether an update is in progress.
func (g *group) updating() bool {
	return g.last.ID != "" && g.last.ID == g.row.LastUpdateID && g.last.Status == ekstypes.UpdateStatusInProgress
}

// describeScalingGroup loads the Auto Scaling group and its instances.
func (g *group) describeScalingGroup(ctx context.Context) error {
	name := g.scalingName()
	out, err := g.scaling.DescribeAutoScalingGroups(ctx,
		&autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{name}})
	if err != nil {
		return fmt.Errorf("describe Auto Scaling group %s: %w", name, err)
	}
	g.asg, g.members = nil, nil
	if len(out.AutoScalingGroups) == 0 {
		return nil
	}
	if ours, err := g.ownsScalingGroup(ctx, name); err != nil || !ours {
		return err
	}
	g.asg = &out.AutoScalingGroups[0]
	for _, i := range g.asg.Instances {
		m := member{Instance: i}
		if m.Node, err = g.findNode(ctx, m.ID()); err != nil {
			return err
		}
		m.Old = i.LaunchTemplate == nil ||
			aws.ToString(i.LaunchTemplate.LaunchTemplateId) != g.state.LaunchTemplateID ||
			aws.ToString(i.LaunchTemplate.Version) != g.state.LaunchTemplateVersion
		g.members = append(g.members, m)
	}
	return nil
}

// ownsScalingGroup reports whether the Auto Scaling group of that name belongs to the node group. Until EKS has created
// one, only EKS can have: users learn the name with the node group, and must not choose what EKS launches nodes in.
func (g *group) ownsScalingGroup(ctx context.Context, name string) (bool, error) {
	if g.state.AutoScalingGroup != "" {
		return true, nil // users may recreate a deleted one to recover the node group
	}
	row, err := record.AutoScalingGroups(g.c.o.Store).Get(ctx,
		record.AutoScalingGroupKey(g.row.Account, g.row.Region, name))
	return err == nil && g.isCreatedByEKS(row.Value.CreatedBy), store.IgnoreNotFound(err)
}

// scalingName returns the name of the group's Auto Scaling group.
func (g *group) scalingName() string { return "eks-" + g.row.Name + "-" + g.row.ID }

// earlierWait returns the sooner of two waits, where 0 is none.
func earlierWait(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// findNode returns the node of an instance, nil before it has registered. EC2 is asked for the names of the instance
// only when a node says it is that.
func (g *group) findNode(ctx context.Context, instance string) (*corev1.Node, error) {
	if g.server == nil || !g.server.claimed(instance) {
		return nil, nil
	}
	if known, ok := g.server.names.Load(instance); ok {
		if n := g.server.nodeOfInstance(instance, known.([]string)); n != nil {
			return n, nil
		}
	}
	out, err := g.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{
		Filters: []ec2types.Filter{{Name: aws.String("instance-id"), Values: []string{instance}}},
	})
	if err != nil {
		return nil, fmt.Errorf("get the names of instance %s: %w", instance, err)
	}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			names := nodename.Allowed(i)
			g.server.names.Store(instance, names)
			return g.server.nodeOfInstance(instance, names), nil
		}
	}
	return nil, nil
}
