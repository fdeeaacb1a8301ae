//go:build linux

package volumes

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// What a volume and its snapshot have comes back from a backup with --volumes, which is taken while the volume is in
// use, and by nothing else.
func TestABackupWithVolumes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	machine := r.launch(1)[0]
	volume := r.create(func(*ec2.CreateVolumeInput) {})
	r.attach(volume, machine, "/dev/xvdaa")
	r.do(machine, "mkfs.xfs -q /dev/xvdaa && mkdir /data && mount /dev/xvdaa /data && echo first > /data/file && sync")
	snapshot := *must[*ec2.CreateSnapshotOutput](r)(r.client.CreateSnapshot(t.Context(), &ec2.CreateSnapshotInput{
		VolumeId: &volume})).SnapshotId
	r.eventually("the snapshot is complete", func() error {
		out, err := r.client.DescribeSnapshots(t.Context(), &ec2.DescribeSnapshotsInput{SnapshotIds: []string{snapshot}})
		if err == nil && out.Snapshots[0].State != types.SnapshotStateCompleted {
			err = fmt.Errorf("it is %s: %s", out.Snapshots[0].State, aws.ToString(out.Snapshots[0].StateMessage))
		}
		return err
	})
	r.do(machine, "head -c 67108864 /dev/urandom > /data/noise; echo second > /data/file; sync")
	sum := r.do(machine, "cksum < /data/noise")

	dir := t.TempDir()
	without, broken, archive := filepath.Join(dir, "without"), filepath.Join(dir, "broken"), filepath.Join(dir, "archive")
	_, said, err := r.Try("", "coracle", "backup", "--data-dir", r.Dir, without)
	if err != nil || !strings.Contains(said, "--volumes") || !strings.Contains(said, volume) ||
		!strings.Contains(said, snapshot) {
		t.Errorf("coracle backup says %s, %v", said, err)
	}

	// The daemon dies in the middle: there is no archive, and nothing is left of it.
	cmd := r.Command(t.Context(), "", "coracle", "backup", "--volumes", "--data-dir", r.Dir, broken)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.eventually("the backup has begun", func() error {
		if left, _ := filepath.Glob(filepath.Join(r.Dir, ".backup-*")); len(left) == 0 {
			return errors.New("it has no directory")
		}
		return nil
	})
	r.Kill()
	if err := cmd.Wait(); err == nil {
		t.Errorf("a backup was taken of a daemon that died: %s", &out)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("beside the backup without volumes there are %v, %v", entries, err)
	}
	r.Serve()
	if left, _ := filepath.Glob(filepath.Join(r.Dir, ".backup-*")); len(left) > 0 {
		t.Errorf("the data directory has %v", left)
	}

	if _, said, err := r.Try("", "coracle", "backup", "--volumes", "--data-dir", r.Dir, archive); err != nil ||
		strings.Contains(said, volume) {
		t.Fatalf("coracle backup --volumes says %s, %v", said, err)
	}
	if info, err := os.Stat(archive); err != nil || info.Size() > 512<<20 {
		t.Errorf("the archive is %v, %v", info, err)
	}
	r.reset()
	r.Run("", "coracle", "restore", "--data-dir", r.Dir, archive)
	r.Serve()
	must[*ec2.TerminateInstancesOutput](r)(r.client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{
		InstanceIds: []string{machine}}))
	r.awaitVolume(volume, types.VolumeStateAvailable)
	restored := r.create(func(in *ec2.CreateVolumeInput) { in.SnapshotId, in.Size = &snapshot, nil })
	machine = r.launch(1)[0]
	r.attach(volume, machine, "/dev/xvdaa")
	r.attach(restored, machine, "/dev/xvdab")
	got := r.do(machine, "mkdir /data /snapshot && mount /dev/xvdaa /data && mount -o nouuid /dev/xvdab /snapshot && "+
		"cat /data/file /snapshot/file && cksum < /data/noise")
	if want := "second\nfirst\n" + sum; got != want {
		t.Errorf("restored, the files have\n%s\nwant\n%s", got, want)
	}
}
