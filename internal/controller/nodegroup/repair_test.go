package nodegroup_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/controller/nodegroup"
	"github.com/coracle-eks/coracle/internal/record"
)

func repaired(n *record.Nodegroup) { n.Repair = &ekstypes.NodeRepairConfig{Enabled: aws.Bool(true)} }

// condition gives a node a condition that it has had for a while.
func (w *fixture) condition(node string, kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string,
	since time.Duration) {
	w.t.Helper()
	w.until("the condition is written", func() error {
		n, err := w.kube.CoreV1().Nodes().Get(w.t.Context(), node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		n.Status.Conditions = slices.DeleteFunc(n.Status.Conditions,
			func(c corev1.NodeCondition) bool { return c.Type == kind })
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status,
			Reason: reason, LastTransitionTime: metav1.NewTime(time.Now().Add(-since))})
		_, err = w.kube.CoreV1().Nodes().UpdateStatus(w.t.Context(), n, metav1.UpdateOptions{})
		return err
	})
}

func (w *fixture) replaced(group, id string) {
	w.t.Helper()
	w.until(id+" is replaced", func() error {
		if slices.Contains(w.members(group), id) {
			return fmt.Errorf("it is there: %+v", w.state(group))
		}
		return nil
	})
}

// unhealthy waits until a node is known to be.
func (w *fixture) unhealthy(group string, ids ...string) {
	w.t.Helper()
	w.until("what is unhealthy is known", func() error {
		if u := w.state(group).Unhealthy; len(u) != len(ids) {
			return fmt.Errorf("known: %+v", u)
		}
		return nil
	})
}

func TestRepair(t *testing.T) {
	t.Parallel()
	shared := newFixture(t, nodegroup.Options{})
	for name, test := range map[string]func(w *fixture){
		"a node whose kubelet is silent for half an hour is replaced": func(w *fixture) {
			w.create("silent", 2, repaired)
			w.web("silent", "silent", 2, 1)
			ill := w.members("silent")[0]
			w.condition(ill, corev1.NodeReady, corev1.ConditionUnknown, "NodeStatusUnknown", 29*time.Minute)
			w.unhealthy("silent", ill)
			if !slices.Contains(w.members("silent"), ill) {
				w.t.Error("it was replaced a minute too early")
			}
			w.condition(ill, corev1.NodeReady, corev1.ConditionUnknown, "NodeStatusUnknown", 31*time.Minute)
			// The transition is the node's to tell, and it is believed when the reason is another.
			w.condition(ill, corev1.NodeReady, corev1.ConditionFalse, "KubeletNotReady", 31*time.Minute)
			w.replaced("silent", ill)
			w.waitForNodes("silent", 3, map[string]int{"1.35": 2})
			w.available("silent", 2)
		},
		"a condition of the node monitoring agent replaces, and pressure does not": func(w *fixture) {
			w.create("agent", 2, repaired)
			members := w.members("agent")
			w.condition(members[0], "MemoryPressure", corev1.ConditionTrue, "KubeletHasInsufficientMemory", time.Hour)
			w.condition(members[1], "NetworkingReady", corev1.ConditionFalse, "IPAMDNotReady", time.Hour)
			w.replaced("agent", members[1])
			w.waitForNodes("agent", 3, map[string]int{"1.35": 2})
			if !slices.Contains(w.members("agent"), members[0]) {
				w.t.Error("a node under pressure was replaced")
			}
		},
		"a reboot cures, and the node takes pods again": func(w *fixture) {
			w.create("reboot", 2, repaired)
			members := w.members("reboot")
			w.condition(members[0], "AcceleratedHardwareReady", corev1.ConditionFalse, "NvidiaXID13Error",
				11*time.Minute)
			w.until("it is rebooted, and cordoned", func() error {
				row, err := record.Instances(w.store).Get(w.t.Context(), record.EC2Key(account, region,
					members[0]))
				_, cordoned := w.nodes("reboot")
				if err == nil && (row.Value.Boot != 2 || !slices.Contains(cordoned, members[0])) {
					return fmt.Errorf("it booted %d times, cordoned: %v", row.Value.Boot, cordoned)
				}
				return err
			})
			w.condition(members[0], "AcceleratedHardwareReady", corev1.ConditionTrue, "AcceleratedHardwareIsReady", 0)
			w.waitForNodes("reboot", 3, map[string]int{"1.35": 2})
			if now := w.members("reboot"); !slices.Equal(now, members) {
				w.t.Errorf("there were %v, there are %v", members, now)
			}
		},
		"overrides say what is done, and when": func(w *fixture) {
			w.create("override", 2, repaired, func(n *record.Nodegroup) {
				n.Repair.NodeRepairConfigOverrides = []ekstypes.NodeRepairConfigOverrides{
					{NodeMonitoringCondition: aws.String("StorageReady"), NodeUnhealthyReason: aws.String("Slow"),
						MinRepairWaitTimeMins: aws.Int32(1), RepairAction: ekstypes.RepairActionReplace},
					{NodeMonitoringCondition: aws.String("KernelReady"), NodeUnhealthyReason: aws.String("Old"),
						MinRepairWaitTimeMins: aws.Int32(1), RepairAction: ekstypes.RepairActionNoAction},
				}
			})
			members := w.members("override")
			w.condition(members[0], "KernelReady", corev1.ConditionFalse, "Old", 5*time.Hour)
			w.condition(members[1], "StorageReady", corev1.ConditionFalse, "Slow", 2*time.Minute)
			w.replaced("override", members[1])
			if !slices.Contains(w.members("override"), members[0]) {
				w.t.Error("the node was replaced for which there is no action")
			}
		},
		"nothing begins while more than a fifth are unhealthy": func(w *fixture) {
			w.create("epidemic", 6, repaired)
			members := w.members("epidemic")
			for _, id := range members[:2] {
				w.condition(id, "KernelReady", corev1.ConditionFalse, "ForkFailedOutOfPID", 29*time.Minute)
			}
			w.unhealthy("epidemic", members[:2]...)
			for _, id := range members[:2] {
				w.condition(id, "KernelReady", corev1.ConditionFalse, "Other", time.Hour)
			}
			w.until("both are known to be due", func() error {
				for _, id := range members[:2] {
					if u := w.state("epidemic").Unhealthy[id]; u.Reason != "Other" {
						return fmt.Errorf("%s: %+v", id, u)
					}
				}
				return nil
			})
			if len(w.state("epidemic").Draining) > 0 {
				w.t.Errorf("one leaves: %+v", w.state("epidemic").Draining)
			}
			w.condition(members[0], "KernelReady", corev1.ConditionTrue, "KernelIsReady", 0)
			w.replaced("epidemic", members[1])
			w.waitForNodes("epidemic", 7, map[string]int{"1.35": 6})
			if !slices.Contains(w.members("epidemic"), members[0]) {
				w.t.Error("the node that recovered was replaced")
			}
		},
		"without node auto repair nothing is done": func(w *fixture) {
			w.create("alone", 1)
			ill := w.members("alone")[0]
			w.condition(ill, "KernelReady", corev1.ConditionFalse, "ForkFailedOutOfPID", time.Hour)
			must(record.Nodegroups(w.store).Modify(w.t.Context(), w.key("alone"),
				func(n *record.Nodegroup) error { repaired(n); return nil }))(w.t)
			w.replaced("alone", ill)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(shared.in(t))
		})
	}
}

// TestDeletedNodesAreReplaced deletes the Node object of an instance that goes on running.
func TestDeletedNodesAreReplaced(t *testing.T) {
	t.Parallel()
	w := newFixture(t, nodegroup.Options{})
	w.create("ng", 2, repaired)
	lost := w.members("ng")[0]
	if err := w.kube.CoreV1().Nodes().Delete(t.Context(), lost, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.unhealthy("ng", lost)
	w.sharedFixture.mu.Lock()
	w.shift = 31 * time.Minute
	w.sharedFixture.mu.Unlock()
	must(record.Nodegroups(w.store).Modify(t.Context(), w.key("ng"),
		func(n *record.Nodegroup) error { n.ModifiedAt = time.Now().UTC(); return nil }))(t)
	w.replaced("ng", lost)
	w.until("there are two nodes again", func() error {
		if versions, _ := w.nodes("ng"); versions["1.35"] != 2 {
			return errors.New("not yet")
		}
		return nil
	})
}
