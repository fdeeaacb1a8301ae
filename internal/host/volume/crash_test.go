//go:build linux

package volume

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/host/machine/disks"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// mortal has the parameters of a daemon that is killed.
type mortal struct {
	Endpoints                    []string
	Prefix, Owner, Dir, Machines string
}

const mortalEnvironment = "CORACLE_TEST_VOLUME"

// TestMortal runs the daemon that [TestADaemonMayDieAnywhere] kills. It is not a test.
func TestMortal(t *testing.T) {
	told := os.Getenv(mortalEnvironment)
	if told == "" {
		t.Skip("runs as the child of another test")
	}
	var m mortal
	if err := json.Unmarshal([]byte(told), &m); err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: m.Endpoints, DialTimeout: eventually.Limit})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	s, err := store.Open(t.Context(), client, store.Options{Prefix: m.Prefix, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	c := New(Options{Store: s, Owner: m.Owner, Dir: m.Dir, Machines: m.Machines, Log: log})
	_ = reconcile.Run(t.Context(), log, c.Controllers()...)
}

// TestADaemonMayDieAnywhere takes a volume through its life with a daemon that dies at each point, and with another
// after it.
func TestADaemonMayDieAnywhere(t *testing.T) {
	crash.Require(t)
	t.Parallel()
	points := 0
	for _, point := range crash.Points() {
		if !strings.HasPrefix(point, "volume/") {
			continue
		}
		points++
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			prefix := storetest.Prefix(t)
			r.store = storetest.NewAt(t, prefix)
			r.o.Store = r.store
			dir := filepath.Join(r.o.Machines, instanceID)
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if _, err := disks.Serve(disks.Options{Dir: dir, Owner: r.o.Owner, InstanceID: instanceID}); err != nil {
				t.Fatal(err)
			}
			told, err := json.Marshal(mortal{storetest.Client(t).Endpoints(), prefix, r.o.Owner, r.o.Dir, r.o.Machines})
			if err != nil {
				t.Fatal(err)
			}
			child := exec.Command(os.Args[0], "-test.run=^TestMortal$")
			child.Env = append(os.Environ(), mortalEnvironment+"="+string(told), crash.Environment+"="+point)
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			died := make(chan struct{})
			go func() { // and another takes over where the first has died
				_ = child.Wait()
				close(died)
				r.run()
			}()
			r.wholeLife()
			<-died
			if ws := child.ProcessState.Sys().(syscall.WaitStatus); ws.Signal() != syscall.SIGKILL {
				t.Errorf("the daemon did not come to %s: %v", point, child.ProcessState)
			}
		})
	}
	if points == 0 {
		t.Fatal("there are no points to die at")
	}
}

// wholeLife takes a volume from its creation to its deletion, with a snapshot.
func (r *rig) wholeLife() {
	r.volume(volumeID, func(v *record.Volume) { v.InstanceID = instanceID })
	putRow(r, record.Instances(r.store), instanceID, record.Instance{EC2Resource: resource(instanceID),
		Wanted: types.InstanceStateNameRunning, BlockDevices: []record.InstanceBlockDevice{device(attached)}})
	r.machine(types.InstanceStateNameRunning)
	r.untilDisk("attached", isAttached)
	if devices := r.devices(); len(devices) != 1 {
		r.t.Errorf("the devices are %v", devices)
	}
	write(r.t, filepath.Join(r.o.Dir, volumeID, "disk"), 0, "content")
	r.volume(volumeID, func(v *record.Volume) { v.Size = 2 })
	r.untilDisk("grown", func(d record.VolumeDisk) bool { return d.Size == 2 && len(d.Attachments) == 1 })
	putRow(r, record.Snapshots(r.store), snapshotID, record.Snapshot{EC2Resource: resource(snapshotID),
		VolumeID: volumeID, VolumeSize: 2})
	eventually.True(r.t, "the snapshot is complete", func() bool {
		d, _, _ := get(r.ctx, record.SnapshotDisks(r.store), key(snapshotID))
		return d.Complete
	})
	if got := read(r.t, filepath.Join(r.o.Dir, snapshotID, "disk"), 0, 7); got != "content" {
		r.t.Errorf("the snapshot has %q", got)
	}
	putRow(r, record.Instances(r.store), instanceID, record.Instance{EC2Resource: resource(instanceID),
		Wanted: types.InstanceStateNameRunning, BlockDevices: []record.InstanceBlockDevice{device(detaching)}})
	r.untilDisk("detached", isDetached)
	eventually.True(r.t, "the device is released", func() bool { return len(r.devices()) == 0 })
	r.volume(volumeID, func(v *record.Volume) { v.Deleted = time.Now() })
	putRow(r, record.Snapshots(r.store), snapshotID, record.Snapshot{EC2Resource: resource(snapshotID),
		VolumeID: volumeID, VolumeSize: 2, Deleted: time.Now()})
	eventually.True(r.t, "nothing is left", func() bool {
		_, disk, err1 := get(r.ctx, record.VolumeDisks(r.store), key(volumeID))
		_, content, err2 := get(r.ctx, record.SnapshotDisks(r.store), key(snapshotID))
		return err1 == nil && err2 == nil && !disk && !content
	})
	if left, err := loopdevice.List(r.o.Owner); err != nil || len(left) > 0 {
		r.t.Errorf("the devices are %v, %v", left, err)
	}
	if entries, _ := os.ReadDir(r.o.Dir); len(entries) > 0 {
		r.t.Error(fmt.Sprint("left in the directory: ", entries))
	}
}
