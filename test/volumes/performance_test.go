//go:build linux

package volumes

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
)

// The kernel queues what exceeds a limit of a disk in memory that counts for no machine: no group of one has any. Those
// that an earlier version has set are removed while the machine runs.
func TestNoVolumeIsLimited(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	host, err := cgroup.Open()
	if err != nil {
		t.Skip(err)
	}
	id := r.launch(1)[0]
	dir := host.Group(r.Owner(), id).Dir("blkio")
	if dir == "" {
		t.Skip("this host has no cgroups for disks")
	}
	volume := r.create(func(*ec2.CreateVolumeInput) {})
	r.attach(volume, id, "/dev/xvdaa")
	limited := func() error {
		return filepath.WalkDir(filepath.Dir(dir), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || e.Name() != "io.max" && !strings.HasPrefix(e.Name(), "blkio.throttle.") ||
				strings.Contains(e.Name(), ".io_") { // counts
				return err
			}
			text, err := os.ReadFile(path)
			if slices.ContainsFunc(strings.Fields(string(text)), func(s string) bool { return strings.HasPrefix(s, "7:") }) {
				err = fmt.Errorf("%s is %s", path, text)
			}
			return err
		})
	}
	if err := limited(); err != nil {
		t.Error(err)
	}
	must[*ec2.ModifyVolumeOutput](r)(r.client.ModifyVolume(t.Context(), &ec2.ModifyVolumeInput{VolumeId: &volume,
		Size: aws.Int32(10), Iops: aws.Int32(4000), Throughput: aws.Int32(500)}))
	if err := limited(); err != nil {
		t.Error(err)
	}
	file, limit := "blkio.throttle.read_iops_device", fmt.Sprintf("7:%d 3000", r.number(volume))
	if host.V2() {
		file, limit = "io.max", fmt.Sprintf("7:%d riops=3000", r.number(volume))
	}
	for _, group := range []string{dir, filepath.Dir(dir)} {
		if err := os.WriteFile(filepath.Join(group, file), []byte(limit), 0); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	r.eventually("limits of an earlier version are removed", limited)
}
