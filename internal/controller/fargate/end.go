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
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// terminationPoll is how often the network interface of a terminated machine is checked; no watch reports it.
const terminationPoll = 500 * time.Millisecond

// machineTerminated is the reason why a pod fails whose machine has ended: that of its condition and of an event, which
// is still there when the pod is not.
const (
	machineTerminated        = "FargateMachineTerminated"
	machineTerminatedMessage = "The Fargate machine of the pod has ended"
)

// cleanUp deletes the pod if its machine ended, then the node, the machine and the record. Steps that are done are
// skipped.
func (p *podPass) cleanUp(ctx context.Context) (time.Duration, error) {
	refusal := p.failPod(ctx)
	left, err := p.terminateMachine(ctx, refusal)
	if err != nil || left {
		return terminationPoll, err
	}
	if waits, err := p.isServerPending(ctx); err != nil || waits {
		return retryInterval, err
	}
	if err := p.c.pods.Delete(ctx, p.pod); err != nil && !errors.Is(err, store.ErrNotFound) {
		return 0, err
	}
	crashGone.Here()
	p.c.byMachine.Delete(p.machineKey())
	p.c.addresses.leave(p.key)
	p.pod.Revision = 0
	if p.server != nil && p.exists && !p.info.terminated && p.info.nodeName == "" {
		return retryInterval, nil // it may still need another one
	}
	return 0, nil
}

// isAbandoned reports whether the pod cannot be asked about, and is to end nevertheless: its cluster is gone, or its
// profile is deleted while the API server cannot be reached for long.
func (p *podPass) isAbandoned(ctx context.Context) (bool, error) {
	if p.clusterGone {
		return true, nil
	}
	if p.server != nil || !p.c.serverLost(p.cluster.Key()) {
		return false, nil
	}
	return p.c.isProfileDeleted(ctx, p.pod.Value)
}

// isServerPending reports whether the node and the pod could not be observed yet. A daemon that has just started knows
// its records before it reaches API servers.
func (p *podPass) isServerPending(ctx context.Context) (bool, error) {
	if p.server != nil {
		return false, nil
	}
	abandoned, err := p.isAbandoned(ctx)
	return !abandoned, err
}

// terminateMachine deletes the node and the machine, and reports whether something is left of them. refusal is why the
// pod cannot be deleted. What the cluster refuses keeps no machine: its error is returned once nothing is left.
func (p *podPass) terminateMachine(ctx context.Context, refusal error) (left bool, err error) {
	row := &p.pod.Value
	if row.InstanceID == "" && row.SubnetID != "" { // nobody may have lived to write down that it was launched
		if err := p.findMachine(ctx); err != nil {
			return false, err
		}
	}
	// The node goes first, so that nothing is sent to it any more; and once more when no kubelet can make it again.
	refusal = errors.Join(refusal, p.removeNode(ctx))
	crashNode.Here()
	if row.InstanceID == "" {
		return false, p.endRefused(ctx, refusal)
	}
	if err := p.c.o.Machines.Terminate(ctx, row.Account, row.Region, row.InstanceID); err != nil {
		return false, fmt.Errorf("terminate machine %s: %w", row.InstanceID, err)
	}
	crashEnded.Here()
	present, err := p.machineExists(ctx)
	if err != nil {
		return false, err
	}
	if !present {
		return false, p.endRefused(ctx, errors.Join(refusal, p.removeLateNode(ctx)))
	}
	err = p.recordRefusal(ctx, refusal)
	var full *store.FullError
	if errors.As(err, &full) {
		err = nil // the machine ends all the same
	}
	return true, err
}

// endRefused records and returns why something is left of a machine that has ended. Without a reason nothing is to be
// written: the record is deleted, or reset.
func (p *podPass) endRefused(ctx context.Context, refusal error) error {
	if refusal == nil {
		p.pod.Value.Refusal = ""
		return nil
	}
	return errors.Join(p.recordRefusal(ctx, refusal), refusal)
}

// refusalInterval is the shortest time between two refusals that are recorded of a pod: a webhook may give another
// reason each time, and each change of the record wakes the pod.
const refusalInterval = time.Minute

// recordRefusal records why the cluster does not let the pod or its node be deleted, for the health of the profile. An
// API server that does not answer has refused nothing.
func (p *podPass) recordRefusal(ctx context.Context, refusal error) error {
	text := ""
	if isAnswer(refusal) {
		text = cutMessage(refusal.Error())
	}
	row, now := &p.pod.Value, p.c.now()
	if row.Refusal == text || now.Sub(row.RefusedAt) < refusalInterval {
		return nil
	}
	row.Refusal, row.RefusedAt = text, now
	return p.saveUncharged(store.Paced(ctx))
}

// isAnswer reports whether an error is an answer of the API server, or of a webhook behind it.
func isAnswer(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// cleanUpTimeout is the time that an API server has to answer before a machine is terminated all the same.
const cleanUpTimeout = 20 * time.Second

// machineExists reports whether a machine runs, or its network interface is left.
func (p *podPass) machineExists(ctx context.Context) (bool, error) {
	row, key := p.pod.Value, p.machineKey()
	instance, err := p.c.instances.Get(ctx, key)
	if err == nil {
		machine, err := p.c.machines.Get(ctx, key)
		if store.IgnoreNotFound(err) != nil {
			return false, err
		}
		if record.InstanceState(instance.Value, machine.Value) != ec2types.InstanceStateNameTerminated {
			return true, nil
		}
	} else if store.IgnoreNotFound(err) != nil {
		return false, err
	}
	if row.NetworkInterfaceID == "" {
		return false, nil
	}
	_, err = record.NetworkInterfaces(p.c.o.Store).Get(ctx, record.EC2Key(row.Account, row.Region,
		row.NetworkInterfaceID))
	return err == nil, store.IgnoreNotFound(err)
}

// findMachine records the machine that was launched for the pod, if one was.
func (p *podPass) findMachine(ctx context.Context) error {
	row := &p.pod.Value
	rows, err := p.c.instances.List(ctx, store.Prefix(row.Account, row.Region))
	if err != nil {
		return err
	}
	for _, i := range rows {
		if m := i.Value.Fargate; m != nil && m.Capacity == row.ID {
			row.InstanceID, row.NodeName = i.Value.ID, m.NodeName
			p.c.byMachine.Store(p.machineKey(), p.key)
			enis, err := record.InterfacesByInstance(p.c.o.Store).List(ctx, i.Key)
			if err != nil {
				return err
			}
			if len(enis) > 0 {
				row.NetworkInterfaceID = enis[0].Value.ID
			}
			return p.saveUncharged(ctx)
		}
	}
	return nil
}

// replaceMachine terminates a machine that did not become a node, and resets the record for another one.
func (p *podPass) replaceMachine(ctx context.Context) (time.Duration, error) {
	left, err := p.terminateMachine(ctx, nil)
	if err != nil || left {
		return terminationPoll, err
	}
	if waits, err := p.isServerPending(ctx); err != nil || waits {
		return retryInterval, err
	}
	p.c.byMachine.Delete(p.machineKey())
	row := &p.pod.Value
	if row.ID, err = newCapacity(); err != nil {
		return 0, err
	}
	row.Since, row.Retired = p.c.now(), false
	row.InstanceID, row.NetworkInterfaceID, row.Address, row.NodeName = "", "", "", ""
	row.SubnetID, row.Zone, row.LaunchedAt = "", "", time.Time{}
	if err := p.saveUncharged(ctx); err != nil {
		return 0, err
	}
	crashReset.Here()
	return max(time.Millisecond, row.RetryAt.Sub(p.c.now())), nil
}

// removeNode deletes the pod's node, if the API server says that there is one.
func (p *podPass) removeNode(ctx context.Context) error {
	name := p.pod.Value.NodeName
	if p.server == nil || name == "" {
		return nil // the cloud controller manager deletes the nodes of machines that are gone
	}
	ctx, cancel := context.WithTimeout(ctx, cleanUpTimeout)
	defer cancel()
	node, ok := p.server.node(name)
	if !ok {
		return nil
	}
	if other, err := p.isNodeOfAnother(ctx, name); err != nil || other {
		return err
	}
	return p.deleteNode(ctx, name, node.uid)
}

// removeLateNode deletes a node that a kubelet registered in its last moment: its watch may not have reported it yet.
func (p *podPass) removeLateNode(ctx context.Context) error {
	name := p.pod.Value.NodeName
	if p.server == nil || name == "" {
		return nil
	}
	node, err := p.server.manager.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read node %s: %w", name, err)
	}
	if other, err := p.isNodeOfAnother(ctx, name); err != nil || other {
		return err
	}
	return p.deleteNode(ctx, name, string(node.UID))
}

// isNodeOfAnother reports whether another pod, which is not about to lose it, was given the node's address since.
func (p *podPass) isNodeOfAnother(ctx context.Context, name string) (bool, error) {
	for _, key := range p.c.podsOnNode(p.server.key, name) {
		if key == p.key {
			continue
		}
		other, err := p.c.pods.Get(ctx, key)
		if store.IgnoreNotFound(err) != nil {
			return false, err
		}
		if err == nil && !other.Value.Ending && !other.Value.Retired {
			return true, nil
		}
	}
	return false, ctx.Err()
}

// deleteNode deletes the node with that name and UID, as eks:fargate-manager. A node that was made anew stays.
func (p *podPass) deleteNode(ctx context.Context, name, uid string) error {
	err := p.server.manager.CoreV1().Nodes().Delete(ctx, name,
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
func (p *podPass) failPod(ctx context.Context) error {
	row := p.pod.Value
	if p.server == nil || !p.exists || p.info.nodeName == "" || p.info.nodeName != row.NodeName {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cleanUpTimeout)
	defer cancel()
	if !p.info.terminated {
		if p.info.deleteBy.IsZero() {
			p.event(ctx, corev1.EventTypeWarning, machineTerminated, 1, machineTerminatedMessage)
		}
		body, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": p.uid},
			"status": map[string]any{
				"phase": corev1.PodFailed,
				"conditions": []any{map[string]any{
					"type": corev1.DisruptionTarget, "status": corev1.ConditionTrue, "reason": machineTerminated,
					"message": machineTerminatedMessage, "lastTransitionTime": metav1.NewTime(p.c.now()),
				}},
			},
		})
		if err != nil {
			return err
		}
		_, err = p.server.scheduler.CoreV1().Pods(row.Namespace).Patch(ctx, row.Name, types.StrategicMergePatchType, body,
			metav1.PatchOptions{FieldManager: fargate.SchedulerManager}, "status")
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) {
			return fmt.Errorf("set phase %s on pod %s/%s: %w", corev1.PodFailed, row.Namespace, row.Name, err)
		}
		crashFailed.Here()
	} else if p.info.deleteBy.IsZero() {
		return nil // it has ended by itself, and its owner may want to see how
	}
	err := p.server.manager.CoreV1().Pods(row.Namespace).Delete(ctx, row.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(p.uid)})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s/%s: %w", row.Namespace, row.Name, err)
	}
	return nil
}
