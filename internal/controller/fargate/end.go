package fargate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coracle-eks/coracle/internal/fargate"
	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// gone is the time after which it is asked again whether a machine is gone with its network interface: the machine says
// so, the network interface does not.
const gone = 500 * time.Millisecond

// end takes away what a pod has: the pod itself, if its machine has ended under it; its node; its machine; and, last,
// its row. Each step passes over what is gone already.
func (w *work) end(ctx context.Context) (time.Duration, error) {
	if err := w.failPod(ctx); err != nil {
		return 0, err
	}
	left, err := w.endMachine(ctx)
	if err != nil || left {
		return gone, err
	}
	if waits, err := w.awaitsServer(ctx); err != nil || waits {
		return retryInterval, err
	}
	if err := w.c.pods.Delete(ctx, w.row); err != nil && !errors.Is(err, store.ErrNotFound) {
		return 0, err
	}
	crashGone.Here()
	w.c.byMachine.Delete(w.machineKey())
	w.row.Revision = 0
	if w.server != nil && w.known && !w.info.over && w.info.nodeName == "" {
		return retryInterval, nil // it may still need another one
	}
	return 0, nil
}

// isAbandoned reports whether the pod cannot be asked about, and is to end nevertheless: its cluster is gone, or its
// profile is deleted while the API server cannot be reached for long.
func (w *work) isAbandoned(ctx context.Context) (bool, error) {
	if w.gone {
		return true, nil
	}
	if w.server != nil || !w.c.serverLost(w.cluster.Key()) {
		return false, nil
	}
	return w.c.isProfileGoing(ctx, w.row.Value)
}

// awaitsServer reports whether the node and the pod could not be looked at yet. A daemon that has just started knows
// its rows before it reaches API servers.
func (w *work) awaitsServer(ctx context.Context) (bool, error) {
	if w.server != nil {
		return false, nil
	}
	abandoned, err := w.isAbandoned(ctx)
	return !abandoned, err
}

// endMachine takes away the node and the machine, and reports whether something is left of them.
func (w *work) endMachine(ctx context.Context) (left bool, err error) {
	row := &w.row.Value
	if row.InstanceID == "" && row.SubnetID != "" { // nobody may have lived to write down that it was launched
		if err := w.findMachine(ctx); err != nil {
			return false, err
		}
	}
	// The node goes first, so that nothing is sent to it any more; and once more when no kubelet can make it again.
	if err := w.removeNode(ctx); err != nil {
		return false, err
	}
	crashNode.Here()
	if row.InstanceID == "" {
		return false, nil
	}
	if err := w.c.o.Machines.Terminate(ctx, row.Account, row.Region, row.InstanceID); err != nil {
		return false, fmt.Errorf("terminate machine %s: %w", row.InstanceID, err)
	}
	crashEnded.Here()
	present, err := w.isPresent(ctx)
	if err != nil || present {
		return present, err
	}
	return false, w.removeLastNode(ctx)
}

// isPresent reports whether a machine runs, or has left its network interface.
func (w *work) isPresent(ctx context.Context) (bool, error) {
	row, key := w.row.Value, w.machineKey()
	instance, err := w.c.instances.Get(ctx, key)
	if err == nil {
		machine, err := w.c.machines.Get(ctx, key)
		if ignoreNotFound(err) != nil {
			return false, err
		}
		if record.InstanceState(instance.Value, machine.Value) != ec2types.InstanceStateNameTerminated {
			return true, nil
		}
	} else if ignoreNotFound(err) != nil {
		return false, err
	}
	if row.NetworkInterfaceID == "" {
		return false, nil
	}
	_, err = record.NetworkInterfaces(w.c.o.Store).Get(ctx, record.EC2Key(row.Account, row.Region,
		row.NetworkInterfaceID))
	return err == nil, ignoreNotFound(err)
}

// findMachine records the machine that was launched for the pod, if one was.
func (w *work) findMachine(ctx context.Context) error {
	row := &w.row.Value
	rows, err := w.c.instances.List(ctx, store.Prefix(row.Account, row.Region))
	if err != nil {
		return err
	}
	for _, i := range rows {
		if m := i.Value.Fargate; m != nil && m.Capacity == row.ID {
			row.InstanceID, row.NodeName = i.Value.ID, m.NodeName
			w.c.byMachine.Store(w.machineKey(), w.key)
			enis, err := record.InterfacesByInstance(w.c.o.Store).List(ctx, i.Key)
			if err != nil {
				return err
			}
			if len(enis) > 0 {
				row.NetworkInterfaceID = enis[0].Value.ID
			}
			return w.record(ctx)
		}
	}
	return nil
}

// replace takes away a machine that did not become a node, and then begins anew.
func (w *work) replace(ctx context.Context) (time.Duration, error) {
	left, err := w.endMachine(ctx)
	if err != nil || left {
		return gone, err
	}
	if waits, err := w.awaitsServer(ctx); err != nil || waits {
		return retryInterval, err
	}
	w.c.byMachine.Delete(w.machineKey())
	row := &w.row.Value
	if row.ID, err = newCapacity(); err != nil {
		return 0, err
	}
	row.Since, row.Retired = w.c.now(), false
	row.InstanceID, row.NetworkInterfaceID, row.Address, row.NodeName = "", "", "", ""
	row.SubnetID, row.Zone, row.LaunchedAt = "", "", time.Time{}
	if err := w.record(ctx); err != nil {
		return 0, err
	}
	crashReset.Here()
	return max(time.Millisecond, row.RetryAt.Sub(w.c.now())), nil
}

// removeNode deletes the pod's node, if the API server says that there is one.
func (w *work) removeNode(ctx context.Context) error {
	name := w.row.Value.NodeName
	if w.server == nil || name == "" {
		return nil // the cloud controller manager deletes the nodes of machines that are gone
	}
	node, ok := w.server.node(name)
	if !ok {
		return nil
	}
	if other, err := w.isNodeOfAnother(ctx, name); err != nil || other {
		return err
	}
	return w.deleteNode(ctx, name, node.uid)
}

// removeLastNode deletes a node that a kubelet made in its last moment: its watch may not have said so yet.
func (w *work) removeLastNode(ctx context.Context) error {
	name := w.row.Value.NodeName
	if w.server == nil || name == "" {
		return nil
	}
	node, err := w.server.manager.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read node %s: %w", name, err)
	}
	if other, err := w.isNodeOfAnother(ctx, name); err != nil || other {
		return err
	}
	return w.deleteNode(ctx, name, string(node.UID))
}

// isNodeOfAnother reports whether another pod, which is not about to lose it, was given the node's address since.
func (w *work) isNodeOfAnother(ctx context.Context, name string) (bool, error) {
	for _, key := range w.c.podsOnNode(w.server.key, name) {
		if key == w.key {
			continue
		}
		other, err := w.c.pods.Get(ctx, key)
		if ignoreNotFound(err) != nil {
			return false, err
		}
		if err == nil && !other.Value.Ending && !other.Value.Retired {
			return true, nil
		}
	}
	return false, ctx.Err()
}

// deleteNode deletes the node with that name and UID, as eks:fargate-manager. A node that was made anew stays.
func (w *work) deleteNode(ctx context.Context, name, uid string) error {
	err := w.server.manager.CoreV1().Nodes().Delete(ctx, name,
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(uid)})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete node %s: %w", name, err)
	}
	return nil
}

// failPod fails and deletes a pod whose machine ends before it does, so that its owner replaces it, as the pod garbage
// collector does with pods of nodes that are gone.
func (w *work) failPod(ctx context.Context) error {
	row := w.row.Value
	if w.server == nil || !w.known || w.info.nodeName == "" || w.info.nodeName != row.NodeName {
		return nil
	}
	if !w.info.over {
		body, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": w.uid},
			"status": map[string]any{
				"phase": corev1.PodFailed,
				"conditions": []any{map[string]any{
					"type": corev1.DisruptionTarget, "status": corev1.ConditionTrue, "reason": "FargateMachineTerminated",
					"message":            "The Fargate machine of the pod has ended",
					"lastTransitionTime": metav1.NewTime(w.c.now()),
				}},
			},
		})
		if err != nil {
			return err
		}
		_, err = w.server.scheduler.CoreV1().Pods(row.Namespace).Patch(ctx, row.Name, types.StrategicMergePatchType, body,
			metav1.PatchOptions{FieldManager: fargate.SchedulerManager}, "status")
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) {
			return fmt.Errorf("fail the pod: %w", err)
		}
		crashFailed.Here()
	} else if w.info.deleted.IsZero() {
		return nil // it has ended by itself, and its owner may want to see how
	}
	err := w.server.manager.CoreV1().Pods(row.Namespace).Delete(ctx, row.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(w.uid)})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete the pod: %s", client.Cut(err.Error()))
	}
	return nil
}
