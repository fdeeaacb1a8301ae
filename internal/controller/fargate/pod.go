package fargate

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/fargate"
	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// podPass is one reconcile pass over one pod.
type podPass struct {
	c           *Controller
	key         string
	uid         string
	cluster     record.Cluster
	clusterGone bool
	server      *server // nil while the API server cannot be reached
	// pod is the record of the pod; steps change it, and saveCharged writes it. It has no revision before it was created.
	pod    store.Row[record.FargatePod]
	saved  record.FargatePod
	info   podInfo // what the API server says of the pod
	exists bool    // whether the API server has the pod
}

// finalizeTimeout is the time after its grace period for which a pod may still exist. Its kubelet is not waited for
// any longer.
const finalizeTimeout = 30 * time.Second

// reconcilePod reconciles the pod with the given key.
func (c *Controller) reconcilePod(ctx context.Context, key string) (reconcile.Result, error) {
	p := &podPass{c: c, key: key}
	parts := store.Parts(key)
	clusterKey := store.Key(parts[:record.ClusterKeyParts]...)
	p.uid = parts[record.ClusterKeyParts]
	row, err := c.pods.Get(ctx, key)
	if store.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	p.pod, p.saved = row, row.Value
	p.pod.Key = key
	if patch := row.Value.Patch; patch != nil { // one to change, one to compare with
		changed := *patch
		p.pod.Value.Patch = &changed
	}
	if id := p.pod.Value.InstanceID; id != "" {
		c.byMachine.Store(p.machineKey(), key)
	}
	cluster, err := c.clusters.Get(ctx, clusterKey)
	if store.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	p.clusterGone = err != nil || p.hasRecord() && cluster.Value.ID != p.pod.Value.ClusterID
	p.cluster = cluster.Value
	if s, ok := c.servers.Get(clusterKey); ok && !p.clusterGone {
		p.server = s
		p.info, p.exists = s.pod(p.uid)
	}
	after, err := p.reconcile(withinPass(ctx))
	if err != nil {
		pod := p.info.namespace + "/" + p.info.name
		if p.hasRecord() {
			pod = p.pod.Value.Namespace + "/" + p.pod.Value.Name
		}
		err = fmt.Errorf("reconcile Fargate pod %s of cluster %s: %w", pod, parts[record.ClusterKeyParts-1], err)
	}
	return reconcile.Result{After: after, Gone: err == nil && !p.hasRecord() && after == 0}, err
}

// hasRecord reports whether the pod has a record.
func (p *podPass) hasRecord() bool { return p.pod.Revision != 0 }

func (p *podPass) machineKey() string {
	return record.EC2Key(p.pod.Value.Account, p.pod.Value.Region, p.pod.Value.InstanceID)
}

// saveCharged writes the record if it has changed and charges the account; it fails with a [store.FullError] when the
// account's quota is used up. It is called before each action that must be recorded first.
func (p *podPass) saveCharged(ctx context.Context) error {
	if p.hasRecord() {
		return p.saveUncharged(store.Paced(ctx))
	}
	return p.saveUncharged(store.Limited(ctx))
}

// saveUncharged writes the record if it has changed, whatever the account's quota: what exists of a machine, and that
// it is to be terminated.
func (p *podPass) saveUncharged(ctx context.Context) error {
	if p.hasRecord() && reflect.DeepEqual(p.saved, p.pod.Value) {
		return nil
	}
	var row store.Row[record.FargatePod]
	var err error
	if p.hasRecord() {
		row, err = p.c.pods.Update(ctx, p.pod)
	} else {
		row, err = p.c.pods.Create(ctx, p.key, p.pod.Value)
	}
	if err != nil {
		return err
	}
	p.pod, p.saved = row, row.Value
	if patch := row.Value.Patch; patch != nil {
		changed := *patch
		p.pod.Value.Patch = &changed
	}
	return nil
}

// reconcile launches a machine for the pod, binds the pod, or cleans both up.
func (p *podPass) reconcile(ctx context.Context) (time.Duration, error) {
	if !p.hasRecord() {
		if p.server == nil || !p.exists || p.info.terminated || p.info.nodeName != "" || !p.info.deleteBy.IsZero() ||
			p.info.gated {
			return 0, nil // nothing is to be made for it, or not yet: its watch reports that the last gate is gone
		}
		return p.allocateCapacity(ctx)
	}
	if !p.pod.Value.Ending {
		done, err := p.needsNoMachine(ctx)
		if err != nil {
			return 0, err
		}
		if done {
			p.pod.Value.Ending = true
			if err := p.saveUncharged(ctx); err != nil {
				return 0, err
			}
			crashEnding.Here()
		}
	}
	switch row := &p.pod.Value; {
	case row.Ending:
		return p.cleanUp(ctx)
	case row.Retired:
		return p.replaceMachine(ctx)
	case p.server == nil:
		return issueRetryInterval, nil // it may be lost
	case p.info.nodeName != "":
		return p.recordBinding(ctx)
	case row.InstanceID == "":
		return p.provision(ctx)
	}
	return p.bind(ctx)
}

// needsNoMachine reports whether a pod no longer needs its machine, or has lost it.
func (p *podPass) needsNoMachine(ctx context.Context) (bool, error) {
	row := p.pod.Value
	if p.server == nil {
		return p.isAbandoned(ctx) // nobody else is going to say that it ends
	}
	switch {
	case !p.exists:
		return true, nil
	case p.info.terminated && !p.needsLogs():
		return true, nil
	case p.info.nodeName != "" && p.info.nodeName != row.NodeName:
		return true, nil // somebody bound it to another node
	case !p.info.deleteBy.IsZero() && p.info.nodeName == "":
		return true, nil // a finalizer keeps what nobody runs
	case !p.info.deleteBy.IsZero() && p.c.now().Sub(p.info.deleteBy) >= finalizeTimeout:
		return true, nil
	case p.info.nodeName != "" && row.InstanceID != "":
		_, dead, err := p.machine(ctx)
		return dead, err
	case p.info.nodeName == "":
		return p.c.isProfileDeleted(ctx, row)
	}
	return false, nil
}

// needsLogs reports whether a pod that has succeeded or failed still has a node to read its logs from: node and machine
// stay until the pod is deleted, as on EKS.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate.html
func (p *podPass) needsLogs() bool {
	if p.info.nodeName == "" || !p.info.deleteBy.IsZero() {
		return false // it never ran, or is about to be deleted
	}
	_, hasNode := p.server.node(p.info.nodeName)
	return hasNode
}

// machine returns the state of the pod's machine, and whether it has ended.
func (p *podPass) machine(ctx context.Context) (record.Machine, bool, error) {
	instance, err := p.c.instances.Get(ctx, p.machineKey())
	if errors.Is(err, store.ErrNotFound) {
		return record.Machine{}, true, nil
	}
	if err != nil {
		return record.Machine{}, false, err
	}
	machine, err := p.c.machines.Get(ctx, p.machineKey())
	if store.IgnoreNotFound(err) != nil {
		return record.Machine{}, false, err
	}
	dead := instance.Value.Wanted == ec2types.InstanceStateNameTerminated ||
		record.InstanceState(instance.Value, machine.Value) == ec2types.InstanceStateNameTerminated
	return machine.Value, dead, nil
}

// errPodGone means that the pod no longer exists; the watch will report it.
var errPodGone = errors.New("the pod is gone")

// Bounds of a pod, as JSON and its number of values: more than etcd takes of one object; and of all that the API server
// returns in a pass, but for the pod, its claims with their volumes, and lists, of which little is kept.
const (
	maxPod, maxPodValues       = 4 << 20, 256 << 10
	maxClaims, maxClaimsValues = 12 << 20, 512 << 10
	maxPass, maxPassValues     = 16 << 20, 512 << 10
)

// withinPass returns the context of a pass, which bounds what the API server returns in it.
func withinPass(ctx context.Context) context.Context {
	return client.Within(ctx, "what is read for the pod", maxPass, maxPassValues)
}

// withinClaims returns the context in which the claims of the pod are read, whose users make them as large as an API
// server takes. What is too large is said to them, so that it does not use up what the pass needs for that.
func withinClaims(ctx context.Context) context.Context {
	return client.Within(ctx, "the persistent volume claims and volumes of the pod", maxClaims, maxClaimsValues)
}

// load returns the pod. What is kept of it is what its watch said, which is bounded.
func (p *podPass) load(ctx context.Context) (*corev1.Pod, error) {
	pod, err := p.server.scheduler.CoreV1().Pods(p.info.namespace).Get(
		client.Within(ctx, "what is read of the pod", maxPod, maxPodValues), p.info.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && string(pod.UID) != p.uid {
		return nil, errPodGone
	}
	if err == nil && (!client.IsPossible(pod) || pod.Namespace != p.info.namespace || pod.Name != p.info.name) {
		return nil, errors.New("API server returned a different pod than requested")
	}
	if err != nil {
		return nil, fmt.Errorf("get pod: %w", err)
	}
	if err := fargate.CheckBounds(pod); err != nil {
		return nil, &outOfBounds{err}
	}
	return pod, nil
}

// outOfBounds is the error of a pod that has more of something than Fargate looks at.
type outOfBounds struct{ error }

// recordBinding records the binding, and patches the pod's machine when that is asked for.
func (p *podPass) recordBinding(ctx context.Context) (time.Duration, error) {
	row := &p.pod.Value
	if !row.Bound {
		p.event(ctx, corev1.EventTypeNormal, "Scheduled", 1,
			fmt.Sprintf("Successfully assigned %s/%s to %s", row.Namespace, row.Name, row.NodeName))
		row.Bound, row.Failure, row.Failures, row.RetryAt = true, "", 0, time.Time{}
		if err := p.saveCharged(ctx); err != nil {
			return 0, err
		}
		crashBinding.Here()
	}
	if !p.info.deleteBy.IsZero() {
		return max(time.Second, p.info.deleteBy.Add(finalizeTimeout).Sub(p.c.now())), nil
	}
	if row.Patch != nil {
		return p.patch(ctx)
	}
	return 0, nil
}
