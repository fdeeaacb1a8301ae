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
	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/controller/instance"
	"github.com/coracle-eks/coracle/internal/controller/volume"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// hardware stands in for internal/host/machine: it observes of each instance what is wanted of it.
type hardware struct {
	*ec2test.Fixture
	mu     sync.Mutex
	broken string // why no machine boots
}

// startHardware starts machines and the controller that follows them.
func startHardware(w *ec2test.Fixture) *hardware {
	w.T.Helper()
	h := &hardware{Fixture: w}
	ctx, cancel := context.WithCancel(context.Background())
	instances := record.Instances(w.Store)
	controllers := slices.Concat(instance.New(instance.Options{Store: w.Store,
		EC2: w.Service.InstanceLifecycle()}).Controllers(), volume.New(volume.Options{Store: w.Store,
		EC2: w.Service.VolumeLifecycle()}).Controllers(), []reconcile.Controller{{
		Name: "hardware", Reconcile: h.reconcile, Sources: []reconcile.Source{reconcile.Table(instances, "")},
	}, {
		Name: "rootdisks",
		Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
			return reconcile.Result{}, ec2test.ObserveRootDisk(ctx, w.Store, key)
		},
		Sources: []reconcile.Source{reconcile.Table(record.Volumes(w.Store), ""),
			reconcile.Mapped(instances, "", func(key string) []string { return ec2test.VolumesOf(w.Store, key) })},
	}})
	var running sync.WaitGroup
	running.Go(func() {
		if err := reconcile.Run(ctx, slog.New(slog.DiscardHandler), controllers...); err != nil {
			w.T.Error(err)
		}
	})
	w.T.Cleanup(func() { cancel(); running.Wait() })
	return h
}

func (h *hardware) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	row, err := record.Instances(h.Store).Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{Gone: true}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	now, _ := record.Machines(h.Store).Get(ctx, key)
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
	_, err = record.Machines(h.Store).Put(ctx, key, want)
	return reconcile.Result{}, err
}

func describeInstance(w *ec2test.Fixture, id string) types.Instance {
	w.T.Helper()
	return awstest.Must[*ec2.DescribeInstancesOutput](w.T)(w.DescribeInstances(w.Context(),
		&ec2.DescribeInstancesInput{InstanceIds: []string{id}})).Reservations[0].Instances[0]
}

// waitForState waits for the state of an instance.
func waitForState(w *ec2test.Fixture, id string, state types.InstanceStateName) types.Instance {
	w.T.Helper()
	eventually.True(w.T, id+" is "+string(state), func() bool { return describeInstance(w, id).State.Name == state })
	return describeInstance(w, id)
}

// image returns the ID of an EKS image of Amazon Linux 2023.
func image(t testing.TB, architecture string) string {
	t.Helper()
	return imageOf(ec2test.Region, t, architecture)
}

// imageOf returns the same of another region.
func imageOf(region string, t testing.TB, architecture string) string {
	t.Helper()
	all := ami.All(region)
	i := slices.IndexFunc(all, func(i ami.Image) bool {
		return i.Family == ami.AL2023 && i.Architecture == architecture && i.KubernetesVersion != "" &&
			strings.Contains(i.Name, "standard")
	})
	return all[i].ID
}

// runInstance launches one instance as the request says, with the least that it needs.
func runInstance(w *ec2test.Fixture, in ec2.RunInstancesInput) types.Instance {
	w.T.Helper()
	completeRequest(w, &in)
	return awstest.Must[*ec2.RunInstancesOutput](w.T)(w.RunInstances(w.Context(), &in)).Instances[0]
}

func completeRequest(w *ec2test.Fixture, in *ec2.RunInstancesInput) {
	if in.ImageId == nil && in.LaunchTemplate == nil {
		in.ImageId = aws.String(image(w.T, "x86_64"))
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
