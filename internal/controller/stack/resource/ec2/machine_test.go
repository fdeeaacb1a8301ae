package ec2_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/controller/instance"
	"github.com/coracle-eks/coracle/internal/controller/volume"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/simulated"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// startMachines observes of each instance what is wanted of it, as internal/host/machine does, and starts the
// controller that follows.
func startMachines(w *ec2test.Fixture) {
	w.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	controllers := append(instance.New(instance.Options{Store: w.Store,
		EC2: w.Service.InstanceLifecycle()}).Controllers(), reconcile.Controller{
		Name: "hardware", Sources: []reconcile.Source{reconcile.Table(record.Instances(w.Store), "")},
		Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
			row, err := record.Instances(w.Store).Get(ctx, key)
			if errors.Is(err, store.ErrNotFound) {
				return reconcile.Result{Gone: true}, nil
			}
			if err != nil {
				return reconcile.Result{}, err
			}
			now, _ := record.Machines(w.Store).Get(ctx, key)
			if now.Value.State == row.Value.Wanted && now.Value.Boot == row.Value.Boot ||
				now.Value.State == types.InstanceStateNameTerminated {
				return reconcile.Result{}, nil
			}
			_, err = record.Machines(w.Store).Put(ctx, key, record.Machine{InstanceID: row.Value.ID,
				State: row.Value.Wanted, Boot: row.Value.Boot, SystemStatus: types.SummaryStatusOk,
				InstanceStatus: types.SummaryStatusOk})
			return reconcile.Result{}, err
		},
	})
	controllers = append(controllers, simulated.NewVolumes(w.Store).Controllers()...)
	controllers = append(controllers, volume.New(volume.Options{Store: w.Store,
		EC2: w.Service.VolumeLifecycle()}).Controllers()...)
	var running sync.WaitGroup
	running.Go(func() {
		if err := reconcile.Run(ctx, slog.New(slog.DiscardHandler), controllers...); err != nil {
			w.T.Error(err)
		}
	})
	w.T.Cleanup(func() { cancel(); running.Wait() })
}

// imageOf returns the ID of an image of nodes.
func imageOf(w *ec2test.Fixture) string {
	image, ok := ami.ByParameter(ec2test.Region,
		"/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id")
	if !ok {
		w.T.Fatal("no image")
	}
	return image.ID
}

// makeInstance makes an instance, and waits for the disk of its root volume, which comes when it likes.
func (w *fixture) makeInstance() {
	w.T.Helper()
	w.make("instance", "AWS::EC2::Instance", `{"SubnetId": "$subnet", "ImageId": "$image", "InstanceType": "m5.large"}`)
	eventually.Nil(w.T, "the root volume has a disk", func() error {
		volumes := ec2test.VolumesOf(w.Store, record.EC2Key(ec2test.Account, ec2test.Region, w.names["instance"]))
		if len(volumes) != 1 {
			return fmt.Errorf("its volumes are %q", volumes)
		}
		_, err := record.VolumeDisks(w.Store).Get(w.Context(), volumes[0])
		return err
	})
}
