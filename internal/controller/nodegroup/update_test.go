package nodegroup_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coracle-eks/coracle/internal/controller/nodegroup"
	"github.com/coracle-eks/coracle/internal/record"
)

// waitForNodes waits until a group is as it was before an update, with nodes of these versions: none cordoned, none too
// many, no operation in progress.
func (w *fixture) waitForNodes(name string, most int32, versions map[string]int) {
	w.t.Helper()
	var desired int
	for _, n := range versions {
		desired += n
	}
	w.serve(name, desired)
	w.until("nothing is under way", func() error {
		if s := w.state(name); s.RollingUpdate != nil || len(s.Draining) > 0 || len(s.Issues) > 0 || len(s.Unhealthy) > 0 {
			return fmt.Errorf("the state is %+v", s)
		}
		return nil
	})
	w.until("these are its nodes", func() error {
		if got, cordoned := w.nodes(name); !maps.Equal(got, versions) || len(cordoned) > 0 {
			return fmt.Errorf("nodes by version: %v, want %v; cordoned: %v", got, versions, cordoned)
		}
		return nil
	})
	if g := w.asg(name); len(g.SuspendedProcesses) > 0 {
		w.t.Errorf("suspended: %v", *g.SuspendedProcesses[0].ProcessName)
	}
	if g := w.asg(name); aws.ToInt32(g.DesiredCapacity) != int32(desired) || aws.ToInt32(g.MaxSize) != most ||
		aws.ToInt32(g.MinSize) != 0 {
		w.t.Errorf("the group is of %d, %d at most, want %d and %d", *g.DesiredCapacity, *g.MaxSize, desired, most)
	}
}

func (w *fixture) succeeded(u record.Update) {
	w.t.Helper()
	if u.Status != ekstypes.UpdateStatusSuccessful || len(u.Errors) > 0 {
		w.t.Errorf("the update is %s: %+v", u.Status, u.Errors)
	}
}

// failed checks that an update failed for a reason, with an error that contains these words.
func (w *fixture) failed(u record.Update, code ekstypes.ErrorCode, words ...string) {
	w.t.Helper()
	if u.Status != ekstypes.UpdateStatusFailed || len(u.Errors) != 1 || u.Errors[0].ErrorCode != code ||
		len(u.Errors[0].ResourceIds) == 0 {
		w.t.Fatalf("the update is %s: %+v, want %s", u.Status, u.Errors, code)
	}
	for _, word := range words {
		if !strings.Contains(*u.Errors[0].ErrorMessage, word) {
			w.t.Errorf("it failed with %q, which says nothing of %q", *u.Errors[0].ErrorMessage, word)
		}
	}
}

func TestUpdates(t *testing.T) {
	t.Parallel()
	shared := newFixture(t, nodegroup.Options{})
	for name, test := range map[string]func(w *fixture){
		"one node after the other, and no pod is missed": func(w *fixture) {
			w.create("one", 3)
			w.web("web", "one", 6, 1)
			least := w.least("web")
			w.succeeded(w.ended(w.update("one", "1.36", false)))
			w.available("web", 6)
			if n := least(); n < 5 {
				w.t.Errorf("only %d pods served at one time", n)
			}
			w.waitForNodes("one", 4, map[string]int{"1.36": 3})
			// Twice two zones more than there were.
			if drained, desired := w.seen("one"); drained != 1 || desired != 7 {
				w.t.Errorf("%d nodes were drained at once, %d desired", drained, desired)
			}
		},
		"old nodes stay behind load balancers until new ones are healthy there": func(w *fixture) {
			w.create("behind", 2)
			old := w.members("behind")
			w.register("behind", old...)
			id := w.update("behind", "1.36", false)
			w.until("the update waits for load balancers", func() error {
				if r := w.state("behind").RollingUpdate; r == nil || r.Balancing.IsZero() {
					return fmt.Errorf("its progress is %+v", r)
				}
				return nil
			})
			if _, cordoned := w.nodes("behind"); len(cordoned) > 0 {
				w.t.Errorf("%v are cordoned, and no new node is healthy behind the load balancer", cordoned)
			}
			fresh := slices.DeleteFunc(w.members("behind"), func(id string) bool { return slices.Contains(old, id) })
			w.register("behind", append(fresh, old...)...)
			w.until("the old ones are cordoned", func() error {
				if r := w.state("behind").RollingUpdate; r == nil || r.Phase != record.NodegroupUpgrade {
					return fmt.Errorf("its progress is %+v", r)
				}
				return nil
			})
			w.register("behind") // or surplus nodes would have to be forgotten
			w.succeeded(w.ended(id))
			w.waitForNodes("behind", 3, map[string]int{"1.36": 2})
		},
		"as many at once as may be unavailable": func(w *fixture) {
			w.create("half", 4, func(n *record.Nodegroup) {
				n.UpdateConfig = ekstypes.NodegroupUpdateConfig{MaxUnavailablePercentage: aws.Int32(50)}
			})
			w.web("fast", "half", 4, 4)
			w.succeeded(w.ended(w.update("half", "1.36", false)))
			w.waitForNodes("half", 5, map[string]int{"1.36": 4})
			if drained, desired := w.seen("half"); drained != 2 || desired != 8 {
				w.t.Errorf("%d nodes were drained at once, %d desired", drained, desired)
			}
		},
		"as many more as may be unavailable, if that is more than twice the zones": func(w *fixture) {
			w.create("many", 6, func(n *record.Nodegroup) { n.UpdateConfig.MaxUnavailable = aws.Int32(5) })
			w.succeeded(w.ended(w.update("many", "1.36", false)))
			w.waitForNodes("many", 7, map[string]int{"1.36": 6})
			if drained, desired := w.seen("many"); drained > 5 || desired != 11 {
				w.t.Errorf("%d nodes were drained at once, %d desired", drained, desired)
			}
		},
		"the minimal strategy launches nothing before something has gone": func(w *fixture) {
			w.create("minimal", 2, func(n *record.Nodegroup) {
				n.UpdateConfig.UpdateStrategy = ekstypes.NodegroupUpdateStrategiesMinimal
			})
			w.web("small", "minimal", 2, 1)
			w.succeeded(w.ended(w.update("minimal", "1.36", false)))
			w.available("small", 2)
			w.waitForNodes("minimal", 3, map[string]int{"1.36": 2})
			if drained, desired := w.seen("minimal"); drained != 1 || desired != 2 {
				w.t.Errorf("%d nodes were drained at once, %d desired", drained, desired)
			}
		},
		"a group without nodes is updated at once": func(w *fixture) {
			w.create("none", 0)
			w.succeeded(w.ended(w.update("none", "1.36", false)))
			if _, desired := w.seen("none"); desired != 0 {
				w.t.Errorf("%d nodes were desired", desired)
			}
			if got := w.state("none").Template.Version; got != "1.36" {
				w.t.Errorf("later nodes are of %s", got)
			}
		},
		"nodes that are as wanted stay": func(w *fixture) {
			w.create("same", 2)
			before := w.members("same")
			w.succeeded(w.ended(w.update("same", "1.35", false)))
			if now := w.members("same"); !slices.Equal(now, before) {
				w.t.Errorf("there were %v, there are %v", before, now)
			}
		},
		"labels and taints replace no node": func(w *fixture) {
			w.create("labels", 2)
			before := w.members("labels")
			u := record.Update{
				ID: uuid.NewString(), Cluster: w.cluster.Name, ClusterID: w.cluster.ID, NodegroupName: "labels",
				Type: ekstypes.UpdateTypeConfigUpdate, Status: ekstypes.UpdateStatusInProgress,
			}
			must(record.Updates(w.store).Create(w.t.Context(), record.UpdateKey(account, region,
				w.cluster.Name, u.ID), u))(w.t)
			must(record.Nodegroups(w.store).Modify(w.t.Context(), w.key("labels"), func(n *record.Nodegroup) error {
				n.Labels, n.LastUpdateID = map[string]string{"team": "blue"}, u.ID
				return nil
			}))(w.t)
			w.succeeded(w.ended(u.ID))
			if now := w.members("labels"); !slices.Equal(now, before) {
				w.t.Errorf("there were %v, there are %v", before, now)
			}
		},
		"zones are evened out after it, unless its owner does not want that": func(w *fixture) {
			w.create("uneven", 2)
			name := aws.String(w.state("uneven").AutoScalingGroup)
			must(w.scaling.SuspendProcesses(w.t.Context(),
				&autoscaling.SuspendProcessesInput{AutoScalingGroupName: name,
					ScalingProcesses: []string{"AZRebalance"}}))(w.t)
			w.succeeded(w.ended(w.update("uneven", "1.36", false)))
			if g := w.asg("uneven"); len(g.SuspendedProcesses) != 1 {
				w.t.Errorf("suspended: %v", g.SuspendedProcesses)
			}
		},
		"a node that its owner cordoned is replaced like the others": func(w *fixture) {
			w.create("cordoned", 2)
			w.cordon(w.members("cordoned")[0])
			w.succeeded(w.ended(w.update("cordoned", "1.36", false)))
			w.waitForNodes("cordoned", 3, map[string]int{"1.36": 2})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(shared.in(t))
		})
	}
}

func TestUpdatesThatFail(t *testing.T) {
	t.Parallel()
	shared := newFixture(t, nodegroup.Options{DrainTimeout: 6 * time.Second, JoinTimeout: 12 * time.Second})
	shared.sharedFixture.mu.Lock()
	shared.dumb = func(group, image string) bool { return group == "dumb" && image == imageID(t, "1.36") }
	shared.sharedFixture.mu.Unlock()
	for name, test := range map[string]func(w *fixture){
		"a budget that allows nothing fails it, and force helps": func(w *fixture) {
			w.create("kept", 2)
			w.web("never", "kept", 2, 0)
			u := w.ended(w.update("kept", "1.36", false))
			w.failed(u, ekstypes.ErrorCodePodEvictionFailure,
				"Reached max retries while trying to evict pods from nodes in node group kept", "default/never-",
				"disruption budget")
			w.waitForNodes("kept", 3, map[string]int{"1.35": 2})
			w.until("later nodes are made as before", func() error {
				if got := w.state("kept").Template.Version; got != "1.35" {
					return fmt.Errorf("they are of %s", got)
				}
				return nil
			})
			w.available("never", 2)
			w.succeeded(w.ended(w.update("kept", "1.36", true)))
			w.available("never", 2)
			w.waitForNodes("kept", 3, map[string]int{"1.36": 2})
		},
		"a finalizer that never ends fails it, unless it is forced": func(w *fixture) {
			w.create("bound", 1)
			w.pod("bound", "bound", "example.com/never")
			w.failed(w.ended(w.update("bound", "1.36", false)), ekstypes.ErrorCodePodEvictionFailure,
				"default/bound: it is still terminating, with a grace period until ")
			w.waitForNodes("bound", 2, map[string]int{"1.35": 1})
			w.succeeded(w.ended(w.update("bound", "1.36", true)))
			w.waitForNodes("bound", 2, map[string]int{"1.36": 1})
		},
		"nodes that never join fail it": func(w *fixture) {
			w.create("dumb", 2)
			w.web("alive", "dumb", 2, 1)
			before := w.members("dumb")
			w.failed(w.ended(w.update("dumb", "1.36", false)), ekstypes.ErrorCodeNodeCreationFailure,
				"Couldn't proceed with upgrade process as new nodes are not joining node group dumb")
			w.waitForNodes("dumb", 3, map[string]int{"1.35": 2})
			if now := w.members("dumb"); !slices.Equal(now, before) {
				w.t.Errorf("there were %v, there are %v", before, now)
			}
			w.available("alive", 2)
		},
		"what the owner cordoned stays cordoned when it fails": func(w *fixture) {
			w.create("mine", 2)
			w.pod("mine", "mine", "example.com/never")
			mine := w.members("mine")[0]
			w.cordon(mine)
			w.failed(w.ended(w.update("mine", "1.36", false)), ekstypes.ErrorCodePodEvictionFailure)
			w.until("the others take pods again", func() error {
				_, cordoned := w.nodes("mine")
				if s := w.state("mine"); s.RollingUpdate != nil || len(s.Draining) > 0 {
					return errors.New("the update is not over")
				}
				for _, c := range cordoned {
					if c != mine {
						return fmt.Errorf("%s is cordoned", c)
					}
				}
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(shared.in(t))
		})
	}
}

// TestTheClusterAutoscalerIsLeftAlone scales the group up while an update brings it back to its size.
func TestTheClusterAutoscalerIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newFixture(t, nodegroup.Options{})
	w.create("ng", 2, func(n *record.Nodegroup) { n.Scaling.MaxSize = aws.Int32(9) })
	// A budget holds up the scale-down phase, which no force concerns.
	w.web("web", "ng", 12, 0)
	id := w.update("ng", "1.36", true)
	w.until("the group shrinks", func() error {
		if r := w.state("ng").RollingUpdate; r == nil || r.Phase != record.NodegroupScaleDown || r.Desired == 0 {
			return fmt.Errorf("it is at %+v", r)
		}
		return nil
	})
	must(w.scaling.SetDesiredCapacity(t.Context(),
		&autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: aws.String(w.state("ng").AutoScalingGroup),
			DesiredCapacity: aws.Int32(8)}))(t)
	w.succeeded(w.ended(id))
	w.waitForNodes("ng", 9, map[string]int{"1.36": 8})
}

func (w *fixture) members(name string) []string {
	var ids []string
	for _, i := range w.asg(name).Instances {
		ids = append(ids, *i.InstanceId)
	}
	slices.Sort(ids)
	return ids
}

func (w *fixture) cordon(node string) {
	w.t.Helper()
	must(w.kube.CoreV1().Nodes().Patch(w.t.Context(), node, types.MergePatchType,
		[]byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{}))(w.t)
}

// pod runs one that no controller knows, and that a finalizer keeps, on a node of the group.
func (w *fixture) pod(name, group string, finalizers ...string) {
	w.t.Helper()
	w.until("the default service account", func() error {
		_, err := w.kube.CoreV1().ServiceAccounts("default").Get(w.t.Context(), "default", metav1.GetOptions{})
		return err
	})
	must(w.kube.CoreV1().Pods("default").Create(w.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers},
		Spec: corev1.PodSpec{
			NodeSelector:                  map[string]string{"eks.amazonaws.com/nodegroup": group},
			TerminationGracePeriodSeconds: new(int64(1)),
			Containers:                    []corev1.Container{{Name: "app", Image: "app"}},
		},
	}, metav1.CreateOptions{}))(w.t)
	w.until("it runs", func() error {
		p, err := w.kube.CoreV1().Pods("default").Get(w.t.Context(), name, metav1.GetOptions{})
		if err == nil && p.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s", p.Status.Phase)
		}
		return err
	})
}
