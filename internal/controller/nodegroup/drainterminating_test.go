package nodegroup_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/controller/nodegroup"
	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

func (w *fixture) desire(name string, n int32) {
	w.t.Helper()
	must(w.scaling.SetDesiredCapacity(w.t.Context(),
		&autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: aws.String(w.state(name).AutoScalingGroup),
			DesiredCapacity: &n}))(w.t)
}

// interrupt gives notice of when a spot instance is taken away.
func (w *fixture) interrupt(id string, at time.Time) {
	w.t.Helper()
	must(record.Instances(w.store).Modify(w.t.Context(), record.EC2Key(account, region, id),
		func(i *record.Instance) error {
			i.SpotInterruption = at.UTC()
			return nil
		}))(w.t)
}

// left waits until a node of a group has begun to leave, for a reason, and is drained or cannot be.
func (w *fixture) left(name, id, why string, ok func(record.NodegroupDraining) bool) {
	w.t.Helper()
	w.until(id+" leaves: "+why, func() error {
		l, there := w.state(name).Draining[id]
		if !there || l.Why != why || !ok(l) {
			return fmt.Errorf("%+v", l)
		}
		return nil
	})
}

func spot(n *record.Nodegroup) { n.CapacityType = ekstypes.CapacityTypesSpot }

// reused gives a group of two a warm pool, into which nodes go that it scales in.
func reused(n *record.Nodegroup) {
	n.WarmPool = &ekstypes.WarmPoolConfig{Enabled: aws.Bool(true), PoolState: ekstypes.WarmPoolStateStopped,
		MinSize: aws.Int32(0), MaxGroupPreparedCapacity: aws.Int32(2), ReuseOnScaleIn: aws.Bool(true)}
}

// pooled waits until an instance is stopped in the warm pool.
func (w *fixture) pooled(name string) {
	w.t.Helper()
	w.until("one waits in the pool", func() error {
		pool := must(w.scaling.DescribeWarmPool(w.t.Context(),
			&autoscaling.DescribeWarmPoolInput{AutoScalingGroupName: aws.String(w.state(name).AutoScalingGroup)}))(
			w.t).Instances
		if len(pool) != 1 || pool[0].LifecycleState != astypes.LifecycleStateWarmedStopped {
			return fmt.Errorf("there are %v", pool)
		}
		return nil
	})
}

// register makes instances the healthy targets of a target group behind a load balancer, and no others.
func (w *fixture) register(name string, ids ...string) {
	w.t.Helper()
	g := record.TargetGroup{Account: account, Region: region, Name: name, ID: "0123456789abcdef", TargetType: "instance",
		Port: 80, LoadBalancer: name, Attributes: map[string]string{"deregistration_delay.timeout_seconds": "1"}}
	health := record.TargetHealth{Owner: g.ID, Targets: map[string]record.TargetState{}}
	now := time.Now().UTC()
	for _, id := range ids {
		g.Targets = append(g.Targets, record.Target{ID: id, Port: 80, RegisteredAt: now})
		health.Targets[id+":80"] = record.TargetState{RegisteredAt: now, State: record.TargetHealthy}
	}
	must(record.TargetHealths(w.store).Put(w.t.Context(), g.TargetHealthKey(), health))(w.t)
	must(record.TargetGroups(w.store).Put(w.t.Context(), g.Key(), g))(w.t)
}

func TestDepartures(t *testing.T) {
	t.Parallel()
	shared := newFixture(t, nodegroup.Options{DrainTimeout: 10 * time.Second, JoinTimeout: 15 * time.Second})
	shared.sharedFixture.mu.Lock()
	late := map[string]bool{} // groups whose further nodes do not join
	shared.dumb = func(group, _ string) bool { return late[group] }
	shared.sharedFixture.mu.Unlock()
	silence := func(group string) {
		shared.sharedFixture.mu.Lock()
		defer shared.sharedFixture.mu.Unlock()
		late[group] = true
	}
	for name, test := range map[string]func(w *fixture){
		"scaling in drains": func(w *fixture) {
			w.create("in", 2)
			w.web("in", "in", 4, 1)
			least := w.least("in")
			w.desire("in", 1)
			w.waitForNodes("in", 3, map[string]int{"1.35": 1})
			w.available("in", 4)
			if n := least(); n < 3 {
				w.t.Errorf("only %d pods served at one time", n)
			}
		},
		"a budget holds up scaling in for the drain timeout, and not longer": func(w *fixture) {
			w.create("held", 2)
			w.web("held", "held", 2, 0)
			w.desire("held", 1)
			w.until("the budget holds it", func() error {
				for _, l := range w.state("held").Draining {
					if l.Why == "scale-in" && len(l.Blocked) == 1 {
						return nil
					}
				}
				return errors.New("nothing is held")
			})
			w.waitForNodes("held", 3, map[string]int{"1.35": 1})
			w.available("held", 2)
		},
		"a node stays until load balancers have forgotten it": func(w *fixture) {
			w.create("balanced", 2)
			w.register("balanced", w.members("balanced")...)
			w.desire("balanced", 1)
			gone := ""
			w.until("a node is drained", func() error {
				for id, l := range w.state("balanced").Draining {
					if !l.Drained.IsZero() {
						gone = id
						return nil
					}
				}
				return errors.New("none is")
			})
			if !slices.Contains(w.members("balanced"), gone) {
				w.t.Error("the node has gone while it is a target")
			}
			must(record.TargetGroups(w.store).Modify(w.t.Context(), record.TargetGroupKey(account, region, "balanced"),
				func(g *record.TargetGroup) error {
					for i := range g.Targets {
						if g.Targets[i].ID == gone {
							g.Targets[i].DeregisteredAt = time.Now()
						}
					}
					return nil
				}))(w.t)
			w.waitForNodes("balanced", 3, map[string]int{"1.35": 1})
		},
		"an instance that a user terminates is replaced": func(w *fixture) {
			w.create("killed", 2)
			w.web("killed", "killed", 2, 1)
			lost := w.members("killed")[0]
			must(w.ec2.TerminateInstances(w.t.Context(),
				&ec2.TerminateInstancesInput{InstanceIds: []string{lost}}))(w.t)
			w.until("it has gone", func() error {
				if slices.Contains(w.members("killed"), lost) {
					return errors.New("it is there")
				}
				return nil
			})
			w.waitForNodes("killed", 3, map[string]int{"1.35": 2})
			w.available("killed", 2)
		},
		"an instance is in service when its node is Ready, or when its time is over": func(w *fixture) {
			silence("waits")
			w.create("waits", 0)
			w.desire("waits", 1)
			var seen []astypes.LifecycleState
			w.until("it is in service", func() error {
				g := w.asg("waits")
				if len(g.Instances) == 0 {
					return errors.New("there is none")
				}
				if s := g.Instances[0].LifecycleState; !slices.Contains(seen, s) {
					seen = append(seen, s)
				}
				if !slices.Contains(seen, astypes.LifecycleStateInService) {
					return fmt.Errorf("it was %v", seen)
				}
				return nil
			})
			if !slices.Contains(seen, astypes.LifecycleStatePendingWait) {
				w.t.Errorf("it was %v", seen)
			}
		},
		"a spot instance is replaced before it is interrupted": func(w *fixture) {
			w.create("spot", 2, spot)
			w.web("spot", "spot", 4, 1)
			least := w.least("spot")
			lost := w.members("spot")[0]
			w.interrupt(lost, time.Now().Add(2*time.Minute))
			w.until("it has gone", func() error {
				if slices.Contains(w.members("spot"), lost) {
					return errors.New("it is there")
				}
				return nil
			})
			w.waitForNodes("spot", 3, map[string]int{"1.35": 2})
			w.available("spot", 4)
			if n := least(); n < 3 {
				w.t.Errorf("only %d pods served at one time", n)
			}
		},
		"a spot instance without a replacement is drained in its last minute": func(w *fixture) {
			w.create("last", 2, spot)
			w.web("last", "last", 2, 1)
			silence("last")
			lost := w.members("last")[0]
			w.interrupt(lost, time.Now().Add(2*time.Minute))
			w.left("last", lost, "spot", func(l record.NodegroupDraining) bool { return l.Drained.IsZero() })
			w.interrupt(lost, time.Now().Add(50*time.Second))
			w.left("last", lost, "spot", func(l record.NodegroupDraining) bool { return !l.Drained.IsZero() })
			w.available("last", 2)
		},
		"a node that comes back from the warm pool takes pods again": func(w *fixture) {
			w.create("warm", 2, reused)
			members := w.members("warm")
			w.desire("warm", 1)
			w.pooled("warm")
			if _, cordoned := w.nodes("warm"); len(cordoned) != 1 {
				w.t.Errorf("cordoned: %v", cordoned)
			}
			w.desire("warm", 2)
			w.waitForNodes("warm", 3, map[string]int{"1.35": 2})
			if now := w.members("warm"); !slices.Equal(now, members) {
				w.t.Errorf("there were %v, there are %v", members, now)
			}
		},
		"a group that is deleted drains its nodes, budgets or not": func(w *fixture) {
			w.create("deleted", 2)
			w.web("deleted", "deleted", 2, 0)
			must(record.Nodegroups(w.store).Modify(w.t.Context(), w.key("deleted"),
				func(n *record.Nodegroup) error { n.Deleting = true; return nil }))(w.t)
			w.until("nothing is left of it", func() error {
				_, err := record.Nodegroups(w.store).Get(w.t.Context(), w.key("deleted"))
				if errors.Is(err, store.ErrNotFound) {
					return nil
				}
				return fmt.Errorf("it is there (%v)", err)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(shared.in(t))
		})
	}
}

// TestANodeIsBackBeforeItWasSeenInTheWarmPool stops the controller while a node that it drained goes into the warm pool
// and comes back.
func TestANodeIsBackBeforeItWasSeenInTheWarmPool(t *testing.T) {
	crash.Require(t)
	t.Parallel()
	w := newFixture(t, nodegroup.Options{})
	w.create("warm", 2, reused)
	die := w.mortal()
	w.halt()
	w.desire("warm", 1)
	die(time.Minute, "departure-drained")
	for id := range w.state("warm").Draining {
		must(w.scaling.CompleteLifecycleAction(t.Context(), &autoscaling.CompleteLifecycleActionInput{
			AutoScalingGroupName: aws.String(w.state("warm").AutoScalingGroup),
			LifecycleHookName:    aws.String("Terminate-LC-Hook"), InstanceId: &id,
			LifecycleActionResult: aws.String("CONTINUE"),
		}))(t)
	}
	w.pooled("warm")
	w.desire("warm", 2)
	w.until("it is on its way back", func() error {
		if n := len(w.members("warm")); n != 2 {
			return fmt.Errorf("the group has %d", n)
		}
		return nil
	})
	w.start()
	w.waitForNodes("warm", 3, map[string]int{"1.35": 2})
}
