//go:build linux

package machine

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/host/machine/machinetest"
	"github.com/coracle-eks/coracle/internal/host/machine/rootvolume"
	"github.com/coracle-eks/coracle/internal/host/volume"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
)

const rootVolume = "vol-00000000000000001"

// startVolumes makes disks of volumes as long as the test lasts.
func (h *host) startVolumes() {
	h.t.Helper()
	if err := rootvolume.Check(); err != nil {
		h.t.Skip(err)
	}
	c := volume.New(volume.Options{Store: h.store, Owner: h.owner, Dir: filepath.Join(h.dir, "volumes"),
		Machines: filepath.Join(h.dir, "machines"), Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- reconcile.Run(ctx, slog.New(slog.DiscardHandler), c.Controllers()...) }()
	h.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Error(err)
		}
		h.down()
		if _, err := process.Kill(h.owner); err != nil {
			h.t.Error(err)
		}
		if _, err := Remove(h.owner); err != nil {
			h.t.Error(err)
		}
		if left, err := loopdevice.RemoveAll(h.owner); err != nil {
			h.t.Errorf("devices %v: %v", left, err)
		}
	})
}

// launchRooted launches an instance with a root volume of 1 GiB.
func (h *host) launchRooted(id string) {
	h.t.Helper()
	v := record.Volume{EC2Resource: record.EC2Resource{Account: account, Region: region, ID: rootVolume}, Size: 1,
		OfImage: true, InstanceID: id}
	if _, err := record.Volumes(h.store).Create(context.Background(), v.Key(), v); err != nil {
		h.t.Fatal(err)
	}
	h.launch(id, "m5.large", func(i *record.Instance) {
		i.BlockDevices = []record.InstanceBlockDevice{{DeviceName: "/dev/xvda", VolumeID: rootVolume, Root: true,
			DeleteOnTermination: true}}
	})
	h.plug(id)
}

func (h *host) untilNoDevices() {
	h.t.Helper()
	eventually.Nil(h.t, "no device is left", func() error {
		left, err := loopdevice.List(h.owner)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("there are %+v", left)
		}
		return err
	})
}

// TestAMachineKeepsItsFilesOnItsRootVolume fills the root volume of a machine, and takes the machine through its life.
func TestAMachineKeepsItsFilesOnItsRootVolume(t *testing.T) {
	t.Parallel()
	for name, ownUsers := range map[string]bool{"users of its own": true, "users of the host": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.ownUsers = ownUsers
			h.startVolumes()
			h.launchRooted(one)
			h.until(one, "running", inState(ec2types.InstanceStateNameRunning))
			kept := func() {
				t.Helper()
				eventually.Nil(t, "the files are there", func() error {
					if got := h.run(one, "cat /root/file /var/lib/kubelet/file"); got != "root\nkubelet" {
						return fmt.Errorf("they have %q", got)
					}
					return nil
				})
			}
			h.run(one, "echo root > /root/file; echo kubelet > /var/lib/kubelet/file")
			for _, dir := range []string{"/", "/var/log", "/var/lib/kubelet", "/var/lib/containerd"} {
				var blocks, size int64
				if _, err := fmt.Sscan(h.run(one, "stat -f -c '%b %S' "+dir), &blocks, &size); err != nil ||
					blocks*size > 1<<30 || blocks*size < 900<<20 {
					t.Errorf("%s has %d blocks of %d, %v", dir, blocks, size, err)
				}
			}
			h.run(one, "test -e "+boot.HostDir+"/"+boot.DiskFile)
			if got := h.run(one, "grep ' /var/log ' /proc/mounts"); !strings.HasPrefix(got, "/dev/nvme0n1p1 /var/log xfs ") ||
				!strings.Contains(got, "discard") {
				t.Errorf("/var/log is mounted as %s", got)
			}
			if got := h.run(one, "head -c 1200000000 /dev/zero 2>&1 > /root/more; rm /root/more"); !strings.Contains(got,
				"No space left on device") {
				t.Errorf("a full disk says %q", got)
			}
			dir := filepath.Join(h.dir, "machines", one)
			for _, hidden := range []string{"root", "kubelet", "log", "containerd", "disk/root"} {
				if _, err := os.Stat(filepath.Join(dir, hidden)); !os.IsNotExist(err) {
					t.Errorf("the host has %s: %v", hidden, err)
				}
			}

			// Its launcher dies; it reboots, and it stops and starts.
			before := h.processes.List(namePrefix)[0].PID
			if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			eventually.True(t, "it has another launcher", func() bool {
				all := h.processes.List(namePrefix)
				return len(all) == 1 && all[0].Running && all[0].PID != before && IsRunning(machinetest.Identity(h.owner), one)
			})
			kept()
			h.change(one, func(i *record.Instance) { i.Boot++ })
			h.until(one, "running again", func(m record.Machine) bool {
				return m.Boot == 2 && m.State == ec2types.InstanceStateNameRunning
			})
			kept()
			h.change(one, func(i *record.Instance) { i.Wanted = ec2types.InstanceStateNameStopped })
			h.until(one, "stopped", inState(ec2types.InstanceStateNameStopped))
			h.untilNoDevices()
			h.change(one, func(i *record.Instance) { i.Wanted, i.Boot = ec2types.InstanceStateNameRunning, i.Boot+1 })
			h.until(one, "running once more", func(m record.Machine) bool {
				return m.Boot == 3 && m.State == ec2types.InstanceStateNameRunning
			})
			kept()
			h.change(one, func(i *record.Instance) { i.Wanted = ec2types.InstanceStateNameTerminated })
			h.until(one, "terminated", inState(ec2types.InstanceStateNameTerminated))
			h.untilNoDevices()
		})
	}
}

// TestALaunchWithoutARootVolumeSaysWhy has a root volume whose disk cannot be made.
func TestALaunchWithoutARootVolumeSaysWhy(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	if _, err := record.VolumeDisks(h.store).Put(context.Background(), key(rootVolume),
		record.VolumeDisk{VolumeID: rootVolume, Failure: "the host has no loop device for the root volume"}); err != nil {
		t.Fatal(err)
	}
	h.launchRooted(one)
	m := h.until(one, "terminated", inState(ec2types.InstanceStateNameTerminated))
	if m.FailureCode != noCapacity || !strings.Contains(m.Failure, "no loop device") {
		t.Errorf("it ended as %+v", m)
	}
}
