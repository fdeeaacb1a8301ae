package nodegroup_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

func create[T any](t *testing.T, document string, with func(context.Context, *T, metav1.CreateOptions) (*T,
	error)) error {
	var o T
	if err := yaml.Unmarshal([]byte(document), &o); err != nil {
		return err
	}
	_, err := with(t.Context(), &o, metav1.CreateOptions{})
	return err
}

// create writes a node group of n nodes of 1.35, as the API layer does, and waits until they serve.
func (w *fixture) create(name string, n int32, change ...func(*record.Nodegroup)) {
	w.t.Helper()
	now := time.Now().UTC()
	row := record.Nodegroup{
		Account: account, Region: region, Cluster: w.cluster.Name, ClusterID: w.cluster.ID, Name: name,
		ID: uuid.NewString(), CreatedAt: now, ModifiedAt: now,
		NodeRoleARN: "arn:aws:iam::" + account + ":role/node", SubnetIDs: w.subnets,
		AMIType:      ekstypes.AMITypesAl2023X8664Standard,
		CapacityType: ekstypes.CapacityTypesOnDemand, InstanceTypes: []string{"t3.medium"}, DiskSize: 20,
		Scaling: ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(0), MaxSize: aws.Int32(n + 1),
			DesiredSize: &n},
		ScalingChange: 1,
		UpdateConfig:  ekstypes.NodegroupUpdateConfig{MaxUnavailable: aws.Int32(1)}, Template: template(w.t, "1.35"),
	}
	for _, c := range change {
		c(&row)
	}
	must(record.Nodegroups(w.store).Create(w.t.Context(), row.Key(), row))(w.t)
	w.serve(name, int(n))
}

// serve waits until a group has exactly n instances in service, with Ready nodes.
func (w *fixture) serve(name string, n int) {
	w.t.Helper()
	w.until(fmt.Sprintf("%d nodes of %s serve", n, name), func() error {
		if !w.state(name).Created {
			return fmt.Errorf("the group is not active: %+v", w.state(name))
		}
		g := w.asg(name)
		for _, i := range g.Instances {
			if i.LifecycleState != astypes.LifecycleStateInService {
				return fmt.Errorf("%s is %s", *i.InstanceId, i.LifecycleState)
			}
		}
		if len(g.Instances) != n {
			return fmt.Errorf("it has %d instances", len(g.Instances))
		}
		return nil
	})
}

// update starts a version update, as the API layer does.
func (w *fixture) update(name, version string, force bool) string {
	w.t.Helper()
	ctx, tables := w.t.Context(), record.Updates(w.store)
	before := w.row(name)
	wanted := before.Template
	if before.LastUpdateID != "" {
		last := must(tables.Get(ctx,
			record.UpdateKey(account, region, w.cluster.Name, before.LastUpdateID)))(w.t).Value
		wanted = before.Wanted(last)
	}
	u := record.Update{
		ID: uuid.NewString(), Cluster: w.cluster.Name, ClusterID: w.cluster.ID, NodegroupName: name,
		Type:   ekstypes.UpdateTypeVersionUpdate,
		Status: ekstypes.UpdateStatusInProgress, CreatedAt: time.Now().UTC(), PreviousTemplate: &wanted, Force: force,
	}
	must(tables.Create(ctx, record.UpdateKey(account, region, w.cluster.Name, u.ID), u))(w.t)
	must(record.Nodegroups(w.store).Modify(ctx, w.key(name), func(n *record.Nodegroup) error {
		n.Template, n.LastUpdateID = template(w.t, version), u.ID
		return nil
	}))(w.t)
	return u.ID
}

// ended waits until an update has ended, and gives it back.
func (w *fixture) ended(id string) record.Update {
	w.t.Helper()
	var u record.Update
	w.until("the update ends", func() error {
		u = must(record.Updates(w.store).Get(w.t.Context(), record.UpdateKey(account, region, w.cluster.Name,
			id)))(w.t).Value
		if u.Status == ekstypes.UpdateStatusInProgress {
			return errors.New("it is in progress")
		}
		return nil
	})
	return u
}

// change changes what is wanted of a group, as the API layer does, with an update of its configuration, and waits until
// that has ended.
func (w *fixture) change(name string, change func(*record.Nodegroup)) record.Update {
	w.t.Helper()
	u := record.Update{
		ID: uuid.NewString(), Cluster: w.cluster.Name, ClusterID: w.cluster.ID, NodegroupName: name,
		Type:   ekstypes.UpdateTypeConfigUpdate,
		Status: ekstypes.UpdateStatusInProgress, CreatedAt: time.Now().UTC(),
	}
	must(record.Updates(w.store).Create(w.t.Context(), record.UpdateKey(account, region, w.cluster.Name,
		u.ID), u))(w.t)
	must(record.Nodegroups(w.store).Modify(w.t.Context(), w.key(name), func(n *record.Nodegroup) error {
		change(n)
		n.LastUpdateID = u.ID
		return nil
	}))(w.t)
	return w.ended(u.ID)
}

// delete deletes a group, as the API layer does, and waits until it is gone.
func (w *fixture) delete(name string) {
	w.t.Helper()
	w.deleting(name)
	w.until(name+" is gone", func() error {
		row, err := record.Nodegroups(w.store).Get(w.t.Context(), w.key(name))
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return fmt.Errorf("it still exists: %v, %+v", err, row.Value)
	})
}

func (w *fixture) deleting(name string) {
	w.t.Helper()
	must(record.Nodegroups(w.store).Modify(w.t.Context(), w.key(name),
		func(n *record.Nodegroup) error { n.Deleting = true; return nil }))(w.t)
}

// put writes a node group without waiting for anything.
func (w *fixture) put(name string, change ...func(*record.Nodegroup)) record.Nodegroup {
	w.t.Helper()
	now := time.Now().UTC()
	row := record.Nodegroup{
		Account: account, Region: region, Cluster: w.cluster.Name, ClusterID: w.cluster.ID, Name: name,
		ID: uuid.NewString(), CreatedAt: now, ModifiedAt: now,
		NodeRoleARN: "arn:aws:iam::" + account + ":role/node", SubnetIDs: w.subnets,
		AMIType:      ekstypes.AMITypesAl2023X8664Standard,
		CapacityType: ekstypes.CapacityTypesOnDemand, InstanceTypes: []string{"t3.medium"}, DiskSize: 20,
		Scaling: ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(0), MaxSize: aws.Int32(3),
			DesiredSize: aws.Int32(1)}, ScalingChange: 1,
		UpdateConfig: ekstypes.NodegroupUpdateConfig{MaxUnavailable: aws.Int32(1)}, Template: template(w.t, "1.35"),
	}
	for _, c := range change {
		c(&row)
	}
	must(record.Nodegroups(w.store).Create(w.t.Context(), row.Key(), row))(w.t)
	return row
}
