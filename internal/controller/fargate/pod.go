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

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// work is one reconcile pass over one pod.
type work struct {
	c       *Controller
	key     string
	uid     string
	cluster record.Cluster
	gone    bool    // the cluster is
	server  *server // nil while the API server cannot be reached
	// row is what the pod has; steps change it, and save writes it. It has no revision before there is one.
	row   store.Row[record.FargatePod]
	saved record.FargatePod
	info  podInfo // what the API server says of the pod
	known bool    // there is such a pod
}

// finalizing is the time after its grace period for which a pod may still exist: its kubelet is not to be waited for.
const finalizing = 30 * time.Second

// reconcilePod reconciles the pod with the given key.
func (c *Controller) reconcilePod(ctx context.Context, key string) (reconcile.Result, error) {
	w := &work{c: c, key: key}
	parts := store.Parts(key)
	clusterKey := store.Key(parts[:record.ClusterKeyParts]...)
	w.uid = parts[record.ClusterKeyParts]
	row, err := c.pods.Get(ctx, key)
	if ignoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	w.row, w.saved = row, row.Value
	w.row.Key = key
	if patch := row.Value.Patch; patch != nil { // one to change, one to compare with
		changed := *patch
		w.row.Value.Patch = &changed
	}
	if id := w.row.Value.InstanceID; id != "" {
		c.byMachine.Store(w.machineKey(), key)
	}
	cluster, err := c.clusters.Get(ctx, clusterKey)
	if ignoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	w.gone = err != nil || w.exists() && cluster.Value.ID != w.row.Value.ClusterID
	w.cluster = cluster.Value
	if s, ok := c.servers.Get(clusterKey); ok && !w.gone {
		w.server = s
		w.info, w.known = s.pod(w.uid)
	}
	after, err := w.reconcile(ctx)
	if err != nil {
		pod := w.info.namespace + "/" + w.info.name
		if w.exists() {
			pod = w.row.Value.Namespace + "/" + w.row.Value.Name
		}
		err = fmt.Errorf("pod %s on Fargate in cluster %s: %w", pod, parts[record.ClusterKeyParts-1], err)
	}
	return reconcile.Result{After: after, Gone: err == nil && !w.exists() && after == 0}, err
}

// exists reports whether the pod has a row.
func (w *work) exists() bool { return w.row.Revision != 0 }

func (w *work) machineKey() string {
	return record.EC2Key(w.row.Value.Account, w.row.Value.Region, w.row.Value.InstanceID)
}

// save writes the row if it has changed, at the charge of the account, whose users say how many pods there are and what
// becomes of them: it fails with a [store.FullError]. It is called before each action that must be recorded first.
func (w *work) save(ctx context.Context) error {
	if w.exists() {
		return w.record(store.Paced(ctx))
	}
	return w.record(store.Limited(ctx))
}

// record writes the row if it has changed, whatever the account has: what there is of a machine, and that it is to go.
func (w *work) record(ctx context.Context) error {
	if w.exists() && reflect.DeepEqual(w.saved, w.row.Value) {
		return nil
	}
	var row store.Row[record.FargatePod]
	var err error
	if w.exists() {
		row, err = w.c.pods.Update(ctx, w.row)
	} else {
		row, err = w.c.pods.Create(ctx, w.key, w.row.Value)
	}
	if err != nil {
		return err
	}
	w.row, w.saved = row, row.Value
	if patch := row.Value.Patch; patch != nil {
		changed := *patch
		w.row.Value.Patch = &changed
	}
	return nil
}

// reconcile brings a pod onto a machine, or takes both away.
func (w *work) reconcile(ctx context.Context) (time.Duration, error) {
	if !w.exists() {
		if w.server == nil || !w.known || w.info.over || w.info.nodeName != "" || !w.info.deleted.IsZero() {
			return 0, nil // nothing is to be made for it
		}
		return w.admit(ctx)
	}
	if !w.row.Value.Ending {
		over, err := w.isOver(ctx)
		if err != nil {
			return 0, err
		}
		if over {
			w.row.Value.Ending = true
			if err := w.record(ctx); err != nil {
				return 0, err
			}
			crashEnding.Here()
		}
	}
	switch row := &w.row.Value; {
	case row.Ending:
		return w.end(ctx)
	case row.Retired:
		return w.replace(ctx)
	case w.server == nil:
		return issueRetryInterval, nil // it may be lost
	case w.info.nodeName != "":
		return w.observe(ctx)
	case row.InstanceID == "":
		return w.provision(ctx)
	}
	return w.bind(ctx)
}

// isOver reports whether a pod needs its machine no more, or has lost it.
func (w *work) isOver(ctx context.Context) (bool, error) {
	row := w.row.Value
	if w.server == nil {
		return w.isAbandoned(ctx) // nobody else is going to say that it ends
	}
	switch {
	case !w.known, w.info.over:
		return true, nil
	case w.info.nodeName != "" && w.info.nodeName != row.NodeName:
		return true, nil // somebody bound it to another node
	case !w.info.deleted.IsZero() && w.info.nodeName == "":
		return true, nil // a finalizer keeps what nobody runs
	case !w.info.deleted.IsZero() && w.c.now().Sub(w.info.deleted) >= finalizing:
		return true, nil
	case w.info.nodeName != "" && row.InstanceID != "":
		_, dead, err := w.machine(ctx)
		return dead, err
	case w.info.nodeName == "":
		return w.c.isProfileGoing(ctx, row)
	}
	return false, nil
}

// machine returns the state of the pod's machine, and whether it has ended.
func (w *work) machine(ctx context.Context) (record.Machine, bool, error) {
	instance, err := w.c.instances.Get(ctx, w.machineKey())
	if errors.Is(err, store.ErrNotFound) {
		return record.Machine{}, true, nil
	}
	if err != nil {
		return record.Machine{}, false, err
	}
	machine, err := w.c.machines.Get(ctx, w.machineKey())
	if ignoreNotFound(err) != nil {
		return record.Machine{}, false, err
	}
	dead := instance.Value.Wanted == ec2types.InstanceStateNameTerminated ||
		record.InstanceState(instance.Value, machine.Value) == ec2types.InstanceStateNameTerminated
	return machine.Value, dead, nil
}

// errPodGone reports that the pod of a pass is not there any more: its watch is about to say so.
var errPodGone = errors.New("the pod is gone")

// Bounds of a pod, as JSON and its number of values: more than etcd takes of one object.
const maxPod, maxPodValues = 4 << 20, 256 << 10

// load returns the pod. What is kept of it is what its watch said, which is bounded.
func (w *work) load(ctx context.Context) (*corev1.Pod, error) {
	pod, err := w.server.scheduler.CoreV1().Pods(w.info.namespace).Get(
		client.Within(ctx, "what is read of the pod", maxPod, maxPodValues), w.info.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && string(pod.UID) != w.uid {
		return nil, errPodGone
	}
	if err == nil && (!client.IsPossible(pod) || pod.Namespace != w.info.namespace || pod.Name != w.info.name) {
		return nil, errors.New("the API server returns another pod than was asked for")
	}
	return pod, err
}

// observe takes note that a pod was bound, which it is to stay.
func (w *work) observe(ctx context.Context) (time.Duration, error) {
	row := &w.row.Value
	if !row.Bound {
		w.event(ctx, corev1.EventTypeNormal, "Scheduled", 1,
			fmt.Sprintf("Successfully assigned %s/%s to %s", row.Namespace, row.Name, row.NodeName))
		row.Bound, row.Failure, row.Failures, row.RetryAt = true, "", 0, time.Time{}
		if err := w.save(ctx); err != nil {
			return 0, err
		}
		crashBinding.Here()
	}
	if !w.info.deleted.IsZero() {
		return max(time.Second, w.info.deleted.Add(finalizing).Sub(w.c.now())), nil
	}
	if row.Patch != nil {
		return w.patch(ctx)
	}
	return 0, nil
}
