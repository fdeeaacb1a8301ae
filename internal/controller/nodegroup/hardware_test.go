package nodegroup_test

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// hardware runs instances, and their kubelets.
func (w *fixture) hardware(ctx context.Context, key string) (reconcile.Result, error) {
	row, err := record.Instances(w.store).Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{Gone: true}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	i := row.Value
	now, _ := record.Machines(w.store).Get(ctx, key)
	if now.Value.State == ec2types.InstanceStateNameTerminated {
		return reconcile.Result{}, nil
	}
	switch i.Wanted {
	case ec2types.InstanceStateNameRunning:
		group := w.groupOf(ctx, key)
		w.mu.Lock()
		dumb := w.dumb != nil && w.dumb(group, i.ImageID)
		w.mu.Unlock()
		if !dumb && now.Value.Boot == 0 {
			_, err := w.kubelet.Join(ctx, i.ID, "aws:///"+i.AvailabilityZone+"/"+i.ID, map[string]string{
				"eks.amazonaws.com/nodegroup": group, "eks.amazonaws.com/nodegroup-image": i.ImageID,
				"topology.kubernetes.io/zone": i.AvailabilityZone,
			})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return reconcile.Result{}, err
			}
		}
	case ec2types.InstanceStateNameTerminated:
		if err := w.kube.CoreV1().Nodes().Delete(ctx, i.ID, metav1.DeleteOptions{}); err != nil &&
			!apierrors.IsNotFound(err) {
			return reconcile.Result{}, err
		}
	}
	if now.Value.State == i.Wanted && now.Value.Boot == i.Boot {
		return reconcile.Result{}, nil
	}
	_, err = record.Machines(w.store).Put(ctx, key, record.Machine{
		InstanceID: i.ID, State: i.Wanted, Boot: i.Boot, SystemStatus: ec2types.SummaryStatusOk,
		InstanceStatus: ec2types.SummaryStatusOk,
	})
	return reconcile.Result{}, err
}

// groupOf returns the node group that an instance is launched for.
func (w *fixture) groupOf(ctx context.Context, key string) string {
	tags, err := w.ec2.DescribeTags(ctx, &ec2.DescribeTagsInput{Filters: []ec2types.Filter{
		{Name: aws.String("resource-id"), Values: []string{store.Parts(key)[2]}},
		{Name: aws.String("key"), Values: []string{"eks:nodegroup-name"}},
	}})
	if err != nil || len(tags.Tags) == 0 {
		return ""
	}
	return *tags.Tags[0].Value
}

// census counts the nodes of a group that are being drained.
func (w *fixture) census(ctx context.Context, key string) (reconcile.Result, error) {
	row, err := record.NodegroupStates(w.store).Get(ctx, key)
	if err != nil {
		return reconcile.Result{}, nil // it is gone
	}
	n := 0
	for _, l := range row.Value.Draining {
		if l.Why == "update" && l.Terminated.IsZero() {
			n++
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	name := store.Parts(key)[3]
	w.most[name] = max(w.most[name], n)
	return reconcile.Result{}, nil
}

// largest records the number of desired instances.
func (w *fixture) largest(ctx context.Context, key string) (reconcile.Result, error) {
	row, err := record.AutoScalingGroups(w.store).Get(ctx, key)
	if err != nil {
		return reconcile.Result{}, nil // it is gone
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	name := row.Value.Name[len("eks-") : len(row.Value.Name)-len("-")-36]
	w.sizes[name] = max(w.sizes[name], row.Value.Desired)
	return reconcile.Result{}, nil
}

// seen returns the maximum number of nodes of a group that were drained at once, and of those that were desired.
func (w *fixture) seen(name string) (drained int, desired int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most[name], w.sizes[name]
}
