// Package autoscalinggroup reconciles Auto Scaling groups: it launches, replaces and terminates instances as a client
// of EC2, and registers them as a client of Elastic Load Balancing, under the service-linked role of Auto Scaling.
//
// It reads the desired state of groups and of their instances ([record.AutoScalingGroup], [record.AutoScalingOrder])
// and the observed state of instances ([record.Instance], [record.Machine]) and of their registrations
// ([record.TargetGroup], [record.LoadBalancer], [record.TargetHealth]). It is the only writer of the instances of
// a group ([record.AutoScalingInstance]), of its scaling activities ([record.AutoScalingActivity]) and of its status
// ([record.AutoScalingGroupStatus]).
//
// An instance passes through Pending, InService and Terminating, and waits for lifecycle hooks before the second and
// after the third (lifecycle.go). A warm pool holds instances that are ready to enter service (warmpool.go). pool.go
// and launch.go choose the subnet and the type of new instances, terminate.go applies the termination policies,
// health.go finds unhealthy instances, refresh.go replaces instances in an instance refresh, interruption.go replaces
// spot instances before they are interrupted, traffic.go registers instances with load balancers and drains their
// connections, and cause.go words the activities.
//
// Each launch is recorded, with its client token, before EC2 is called. A controller that was killed in between repeats
// the call and receives the same instances: no instance is launched twice, and none is lost.
package autoscalinggroup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"k8s.io/utils/clock"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

var (
	crashDecided  = crash.At("autoscaling/launch-decided")
	crashLaunched = crash.At("autoscaling/launched")
)

// EC2 is the subset of the EC2 API that groups use. *ec2.Client implements it.
type EC2 interface {
	DescribeLaunchTemplateVersions(context.Context, *ec2.DescribeLaunchTemplateVersionsInput,
		...func(*ec2.Options)) (*ec2.DescribeLaunchTemplateVersionsOutput, error)
	RunInstances(context.Context, *ec2.RunInstancesInput, ...func(*ec2.Options)) (*ec2.RunInstancesOutput, error)
	StartInstances(context.Context, *ec2.StartInstancesInput, ...func(*ec2.Options)) (*ec2.StartInstancesOutput, error)
	StopInstances(context.Context, *ec2.StopInstancesInput, ...func(*ec2.Options)) (*ec2.StopInstancesOutput, error)
	TerminateInstances(context.Context, *ec2.TerminateInstancesInput,
		...func(*ec2.Options)) (*ec2.TerminateInstancesOutput, error)
	CreateTags(context.Context, *ec2.CreateTagsInput, ...func(*ec2.Options)) (*ec2.CreateTagsOutput, error)
	DeleteTags(context.Context, *ec2.DeleteTagsInput, ...func(*ec2.Options)) (*ec2.DeleteTagsOutput, error)
}

// API is the part of the Auto Scaling API layer that the controller calls: only internal/aws/autoscaling writes the
// desired state of groups.
type API interface {
	// RunSchedule runs the scheduled actions of a group that are due, and returns the time of the next one; zero:
	// never.
	RunSchedule(ctx context.Context, account, region, group string) (next time.Time, err error)
	// Refreshed updates a group to the configuration that an instance refresh has rolled out.
	Refreshed(ctx context.Context, account, region, group, refreshID string) error
	// WarmPoolGone removes a warm pool from its group when it is being deleted and has no instances left.
	WarmPoolGone(ctx context.Context, account, region, group string) error
	// TrafficSourceGone removes a traffic source from its group that was detached and has none of its instances left.
	TrafficSourceGone(ctx context.Context, account, region, group, id string) error
}

// Options configures a Controller.
type Options struct {
	Store *store.Store
	// EC2 is a client for an account and region under AWSServiceRoleForAutoScaling, or the role of that ARN.
	EC2 func(account, region, roleARN string) EC2
	// Classic and TargetGroups are clients of Elastic Load Balancing of the same kind.
	Classic      func(account, region, roleARN string) Classic
	TargetGroups func(account, region, roleARN string) TargetGroups
	API          API
	Clock        clock.WithTicker // the real one when nil
	Log          *slog.Logger     // slog.Default() when nil
}

// Controller reconciles Auto Scaling groups.
type Controller struct {
	o          Options
	store      *store.Store
	groups     store.Table[record.AutoScalingGroup]
	statuses   store.Table[record.AutoScalingGroupStatus]
	members    store.Table[record.AutoScalingInstance]
	orders     store.Table[record.AutoScalingOrder]
	launches   store.Table[record.AutoScalingLaunch]
	activities store.Table[record.AutoScalingActivity]
	refreshes  store.Table[record.AutoScalingRefresh]
	progress   store.Table[record.AutoScalingRefreshProgress]
	policies   store.Table[record.AutoScalingPolicy]
	schedules  store.Table[record.AutoScalingSchedule]
	ec2        store.Table[record.Instance]
	machines   store.Table[record.Machine]
	// targets, balancers and healths are the records of Elastic Load Balancing about traffic sources.
	targets   store.Table[record.TargetGroup]
	balancers store.Table[record.LoadBalancer]
	healths   store.Table[record.TargetHealth]
	clock     clock.WithTicker
	log       *slog.Logger
}

// New returns the controller of all groups.
func New(o Options) *Controller {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Controller{
		o: o, store: o.Store, clock: o.Clock, log: o.Log,
		groups: record.AutoScalingGroups(o.Store), statuses: record.AutoScalingGroupStatuses(o.Store),
		members: record.AutoScalingInstances(o.Store),
		orders:  record.AutoScalingOrders(o.Store), launches: record.AutoScalingLaunches(o.Store),
		activities: record.AutoScalingActivities(o.Store),
		refreshes:  record.AutoScalingRefreshes(o.Store), progress: record.AutoScalingRefreshProgresses(o.Store),
		policies: record.AutoScalingPolicies(o.Store), schedules: record.AutoScalingSchedules(o.Store),
		ec2: record.Instances(o.Store), machines: record.Machines(o.Store), targets: record.TargetGroups(o.Store),
		balancers: record.LoadBalancers(o.Store), healths: record.TargetHealths(o.Store),
	}
}

// Controllers returns what reconcile.Run runs. Keys are those of groups.
func (c *Controller) Controllers() []reconcile.Controller {
	return []reconcile.Controller{{
		Name:      "autoscaling",
		Reconcile: c.reconcile,
		Sources: []reconcile.Source{
			reconcile.Table(c.groups, ""),
			reconcile.Mapped(c.members, "", c.groupOfInstance),
			reconcile.Mapped(c.orders, "", c.groupOfInstance),
			reconcile.Mapped(c.ec2, "", c.groupOfInstance),
			reconcile.Mapped(c.machines, "", c.groupOfInstance),
			reconcile.Mapped(c.refreshes, "", groupOfPart),
			reconcile.Mapped(c.schedules, "", groupOfPart),
			reconcile.Mapped(c.targets, "", c.groupsOfTarget),
			reconcile.Mapped(c.balancers, "", c.groupsOfTarget),
			reconcile.Mapped(c.healths, "", c.groupsOfTarget),
		},
		// A pass waits for others of its account whenever it asks EC2.
		Workers: 8, AccountWorkers: 2, Timeout: 5 * time.Minute,
		Resync:     10 * time.Minute,
		MaxBackoff: time.Minute,
		Clock:      c.clock,
	}}
}

// groupOfInstance returns the key of the group that an instance is in, or is to be attached to.
func (c *Controller) groupOfInstance(key string) []string {
	at := store.Parts(key)
	if member, err := c.members.Get(context.Background(), key); err == nil {
		return []string{record.AutoScalingGroupKey(at[0], at[1], member.Value.GroupName)}
	}
	if order, err := c.orders.Get(context.Background(), key); err == nil {
		return []string{record.AutoScalingGroupKey(at[0], at[1], order.Value.GroupName)}
	}
	return nil
}

// groupOfPart returns the key of the group to which a row belongs whose key begins with it.
func groupOfPart(key string) []string {
	at := store.Parts(key)
	return []string{record.AutoScalingGroupKey(at[0], at[1], at[2])}
}

// passesInARow is the number of immediate reconcile passes over a group in a row, because one pass allows more to be
// done.
const passesInARow = 20

// reconcile reconciles the Auto Scaling group with the given key.
func (c *Controller) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	for range passesInARow {
		v, err := c.loadView(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return reconcile.Result{Gone: true}, nil
		}
		if err == nil {
			err = c.runSteps(ctx, v)
		}
		switch {
		case err != nil:
			return reconcile.Result{}, err
		case v.group.Deleting && len(v.members) == 0 && len(v.launches) == 0:
			return reconcile.Result{Gone: true}, c.deleteRecords(ctx, v)
		case !v.again:
			// A time that has come during the pass is not waited for.
			if after, ok := v.requeueAfter(c.clock.Now()); ok {
				return reconcile.Result{After: after}, nil
			}
		}
	}
	return reconcile.Result{After: time.Millisecond}, nil
}

// runSteps takes all steps for a group that are possible now.
func (c *Controller) runSteps(ctx context.Context, v *view) error {
	for _, step := range []struct {
		what string
		do   func(context.Context, *view) error
	}{
		{"run scheduled actions", c.schedule},
		{"finish launches", c.finishLaunches},
		{"attach instances", c.attachInstances},
		{"move instances along", c.advance},
		{"register instances with load balancers", c.reconcileTraffic},
		{"check the health of instances", c.checkHealth},
		{"refresh instances", c.refresh},
		{"take instances from the warm pool", c.drawFromWarmPool},
		{"launch instances", c.launchMissing},
		{"replace instances that are about to be interrupted", c.replaceInterrupted},
		{"terminate instances", c.terminateExcess},
		{"balance zones", c.rebalance},
		{"fill the warm pool", c.fillWarmPool},
		{"empty the warm pool", c.coolDown},
		{"terminate instances that have left service", c.takeDown},
		{"forget old activities", c.pruneActivities},
	} {
		if err := step.do(ctx, v); err != nil {
			return fmt.Errorf("%s of Auto Scaling group %s: %w", step.what, v.group.Name, err)
		}
	}
	return nil
}

// schedule lets the API layer carry out the scheduled actions that are due.
func (c *Controller) schedule(ctx context.Context, v *view) error {
	if _, suspended := v.group.Suspended["ScheduledActions"]; suspended || v.group.Deleting {
		return nil
	}
	next, err := c.o.API.RunSchedule(ctx, v.group.Account, v.group.Region, v.group.Name)
	if err != nil {
		return err
	}
	v.wakeAt(next)
	return nil
}

// deleteRecords removes what is left of a group that has no instances any more; its own row goes last, so that a crash
// in between finds the rest again.
func (c *Controller) deleteRecords(ctx context.Context, v *view) error {
	prefix := store.Prefix(v.group.Account, v.group.Region, v.group.Name)
	for _, remove := range []func() error{
		func() error { return removeAll(ctx, c.store, c.activities, prefix) },
		func() error { return removeAll(ctx, c.store, c.progress, prefix) },
		func() error { return removeAll(ctx, c.store, c.refreshes, prefix) },
		func() error { return removeAll(ctx, c.store, c.policies, prefix) },
		func() error { return removeAll(ctx, c.store, c.schedules, prefix) },
	} {
		if err := remove(); err != nil {
			return err
		}
	}
	err := c.store.Txn(ctx, c.statuses.RemoveOp(v.key), c.groups.DeleteOp(v.groupRow))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

func removeAll[T any](ctx context.Context, s *store.Store, table store.Table[T], prefix string) error {
	rows, err := table.List(ctx, prefix)
	if err != nil {
		return err
	}
	for len(rows) > 0 {
		n := min(len(rows), 100)
		var ops []store.Op
		for _, row := range rows[:n] {
			ops = append(ops, table.RemoveOp(row.Key))
		}
		if err := s.Txn(ctx, ops...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}
