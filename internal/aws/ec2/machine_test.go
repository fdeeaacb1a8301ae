package ec2_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/ami"
	coracle "github.com/coracle-eks/coracle/internal/aws/ec2"
	"github.com/coracle-eks/coracle/internal/controller/instance"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// hardware stands in for internal/host/machine: it observes of each instance what is wanted of it.
type hardware struct {
	*world
	mu     sync.Mutex
	broken string // why no machine boots
}

// hardware starts machines and the controller that follows them.
func (w *world) hardware() *hardware {
	w.t.Helper()
	h := &hardware{world: w}
	ctx, cancel := context.WithCancel(context.Background())
	controllers := append(instance.New(instance.Options{Store: w.store,
		EC2: coracle.NewInstanceLifecycle(w.service)}).Controllers(), reconcile.Controller{
		Name: "hardware", Reconcile: h.reconcile, Sources: []reconcile.Source{reconcile.Table(record.Instances(w.store),
			"")},
	})
	var running sync.WaitGroup
	running.Go(func() {
		if err := reconcile.Run(ctx, slog.New(slog.DiscardHandler), controllers...); err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(func() { cancel(); running.Wait() })
	return h
}

func (h *hardware) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	row, err := record.Instances(h.store).Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{Gone: true}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	now, _ := record.Machines(h.store).Get(ctx, key)
	want := record.Machine{
		InstanceID: row.Value.ID, State: row.Value.Wanted, Boot: row.Value.Boot, SystemStatus: types.SummaryStatusOk,
		InstanceStatus: types.SummaryStatusOk,
	}
	h.mu.Lock()
	if h.broken != "" && now.Value.InstanceID == "" {
		want.State, want.FailureCode, want.Failure = types.InstanceStateNameTerminated, "Server.InternalError", h.broken
	}
	h.mu.Unlock()
	if now.Value.State == want.State && now.Value.Boot == want.Boot ||
		now.Value.State == types.InstanceStateNameTerminated {
		return reconcile.Result{}, nil
	}
	_, err = record.Machines(h.store).Put(ctx, key, want)
	return reconcile.Result{}, err
}

func (w *world) instance(id string) types.Instance {
	w.t.Helper()
	return must[*ec2.DescribeInstancesOutput](w.t)(w.DescribeInstances(w.ctx(),
		&ec2.DescribeInstancesInput{InstanceIds: []string{id}})).Reservations[0].Instances[0]
}

// becomes waits for the state of an instance.
func (w *world) becomes(id string, state types.InstanceStateName) types.Instance {
	w.t.Helper()
	eventually.True(w.t, id+" is "+string(state), func() bool { return w.instance(id).State.Name == state })
	return w.instance(id)
}

// image is the ID of an EKS image of Amazon Linux 2023.
func image(t testing.TB, architecture string) string {
	t.Helper()
	all := ami.All(region)
	i := slices.IndexFunc(all, func(i ami.Image) bool {
		return i.Family == ami.AL2023 && i.Architecture == architecture && i.KubernetesVersion != "" &&
			strings.Contains(i.Name, "standard")
	})
	return all[i].ID
}

// run launches one instance as the request says, with the least that it needs.
func (w *world) run(in ec2.RunInstancesInput) types.Instance {
	w.t.Helper()
	w.complete(&in)
	return must[*ec2.RunInstancesOutput](w.t)(w.RunInstances(w.ctx(), &in)).Instances[0]
}

func (w *world) complete(in *ec2.RunInstancesInput) {
	if in.ImageId == nil && in.LaunchTemplate == nil {
		in.ImageId = aws.String(image(w.t, "x86_64"))
	}
	if in.InstanceType == "" && in.LaunchTemplate == nil {
		in.InstanceType = "m5.large"
	}
	if in.MinCount == nil {
		in.MinCount = aws.Int32(1)
	}
	if in.MaxCount == nil {
		in.MaxCount = in.MinCount
	}
}
