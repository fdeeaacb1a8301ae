//go:build linux

package ebscsi

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestVolumesThatCannotBeMade creates a volume that ends in an error, and tries again.
func TestVolumesThatCannotBeMade(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		keep bool // EC2 does not delete it at first
		copy bool
	}{
		"it is deleted":        {},
		"a copy is deleted":    {copy: true},
		"it cannot be deleted": {keep: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeEC2()
			c := newController(f, options{})
			r := &csi.CreateVolumeRequest{Name: "pvc-1", VolumeCapabilities: mounted("")}
			source := ""
			if x.copy {
				source = created(t, c, "source")
				r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
					Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: source}}}
			}
			others := func() (ids []string) {
				for id := range f.volumes {
					if id != source {
						ids = append(ids, id)
					}
				}
				return ids
			}
			f.state, f.undeletable = types.VolumeStateError, x.keep
			for range 3 {
				before := others()
				if _, err := c.CreateVolume(t.Context(), r); status.Code(err) != codes.Aborted {
					t.Fatalf("%v, want Aborted", err)
				}
				switch left := others(); {
				case x.keep && (len(left) != 1 || len(before) == 1 && left[0] != before[0]):
					t.Fatalf("the volumes are %q, before %q: want the one that cannot be deleted", left, before)
				case !x.keep && len(left) > 0:
					t.Fatalf("%q are left", left)
				}
			}
			f.undeletable = false
			if x.keep {
				if _, err := c.CreateVolume(t.Context(), r); status.Code(err) != codes.Aborted || len(others()) > 0 {
					t.Fatalf("%v, want Aborted; %q are left", err, others())
				}
			}
			f.state = ""
			out, err := c.CreateVolume(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if got := others(); !slices.Equal(got, []string{out.Volume.VolumeId}) {
				t.Errorf("the volumes are %q, want %q alone", got, out.Volume.VolumeId)
			}
		})
	}
}

func TestDeviceOfAVolume(t *testing.T) {
	t.Parallel()
	type device struct {
		path   string
		number uint64
	}
	const name, link = "/dev/xvdaa", linksByID + "vol1"
	for title, x := range map[string]struct {
		devices map[string]device
		want    string
		err     string
	}{
		"both lead to it": {devices: map[string]device{name: {name, 7}, link: {"/dev/nvme1n1", 7}}, want: "/dev/nvme1n1"},
		"the name is another volume's": {devices: map[string]device{name: {name, 8}, link: {"/dev/nvme1n1", 7}},
			err: "vol1 is the device /dev/nvme1n1 and not /dev/xvdaa"},
		"no link": {devices: map[string]device{name: {name, 7}}, err: "device of vol1"},
		"a link of another volume": {devices: map[string]device{name: {name, 7}, link + "1": {"/dev/nvme1n1", 7}},
			err: "device of vol1"},
		"no name":         {devices: map[string]device{link: {"/dev/nvme1n1", 7}}, err: "device /dev/xvdaa"},
		"none":            {err: "device of vol1"},
		"no device":       {devices: map[string]device{name: {name, 7}, link: {"/dev/../etc/x", 7}}, err: "valid device"},
		"below directory": {devices: map[string]device{name: {name, 7}, link: {"/dev/pod/x", 7}}, err: "valid device"},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			got, err := findDevice(name, "vol1", func(path string) (string, uint64, error) {
				d, ok := x.devices[path]
				if !ok {
					return "", 0, fs.ErrNotExist
				}
				return d.path, d.number, nil
			})
			if got != x.want || (x.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), x.err) {
				t.Errorf("%q, %v; want %q, %q", got, err, x.want, x.err)
			}
		})
	}
}

func TestResolveRefusesWhatIsNoDisk(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/dev/null", file, filepath.Dir(file), file + "no"} {
		if device, _, err := resolveDevice(path); err == nil {
			t.Errorf("%s is the disk %s", path, device)
		}
	}
}

// TestGrowthBeforeUse stages a volume that is larger than its file system, on a host where that cannot grow while it is
// mounted.
func TestGrowthBeforeUse(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]error{"it grows": nil, "it is broken": errors.New("run e2fsck by hand")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &fakeMounter{small: true, trouble: trouble}
			n := &node{mounter: m}
			path := filepath.Join(t.TempDir(), "staging")
			_, err := n.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{VolumeId: "vol-1", StagingTargetPath: path,
				VolumeCapability: mounted("")[0], PublishContext: map[string]string{devicePath: "/dev/xvdaa"}})
			if trouble != nil {
				if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), trouble.Error()) || m.Count() > 0 {
					t.Errorf("%v, want %q; %d are mounted", err, trouble, m.Count())
				}
				return
			}
			if err != nil || m.Source(path) != "/dev/xvdaa" || m.small {
				t.Errorf("%v, mounted is %q, small: %t", err, m.Source(path), m.small)
			}
			if _, err := os.Stat(path); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNothingIsWrittenToWhatIsReadOnly stages a volume to be read, which is larger than its file system.
func TestNothingIsWrittenToWhatIsReadOnly(t *testing.T) {
	t.Parallel()
	for _, option := range []string{"ro", "noatime,ro"} {
		m := &fakeMounter{small: true}
		n := &node{mounter: m}
		path := filepath.Join(t.TempDir(), "staging")
		capability := mounted("")[0]
		capability.GetMount().MountFlags = []string{option}
		_, err := n.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{VolumeId: "vol-1", StagingTargetPath: path,
			VolumeCapability: capability, PublishContext: map[string]string{devicePath: "/dev/xvdaa"}})
		if err != nil || m.Source(path) != "/dev/xvdaa" || !m.small {
			t.Errorf("%s: %v, mounted is %q, small: %t", option, err, m.Source(path), m.small)
		}
	}
}

// TestDoubtsOfNodes has volumes that are not where they should be.
func TestDoubtsOfNodes(t *testing.T) {
	t.Parallel()
	raw := &csi.VolumeCapability{AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
		AccessMode: mounted("")[0].GetAccessMode()}
	const name = "/dev/xvdaa"
	stage := func(n *node, path string) error {
		_, err := n.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{VolumeId: "vol-1", StagingTargetPath: path,
			VolumeCapability: mounted("")[0], PublishContext: map[string]string{devicePath: name}})
		return err
	}
	publish := func(n *node, path string) error {
		_, err := n.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{VolumeId: "vol-1", TargetPath: path,
			StagingTargetPath: path + "-staging", VolumeCapability: raw, PublishContext: map[string]string{devicePath: name}})
		return err
	}
	expand := func(n *node, path string) error {
		if err := n.mounter.MakeDir(path); err != nil {
			return err
		}
		_, err := n.NodeExpandVolume(t.Context(), &csi.NodeExpandVolumeRequest{VolumeId: "vol-1", VolumePath: path})
		return err
	}
	for title, x := range map[string]struct {
		do      func(n *node, path string) error
		mounted string
		other   bool // the name is another device
		find    error
		code    codes.Code
		formats int // or mounts
	}{
		"stage":                           {do: stage, formats: 1},
		"stage what is not found":         {do: stage, find: errors.New("another volume"), code: codes.NotFound},
		"stage again, by its other name":  {do: stage, mounted: "/dev/nvme1n1"},
		"stage again, by a reused name":   {do: stage, mounted: name, other: true, formats: 1},
		"publish":                         {do: publish, formats: 1},
		"publish what is not found":       {do: publish, find: errors.New("another volume"), code: codes.NotFound},
		"publish again":                   {do: publish, mounted: "/dev/nvme1n1"},
		"publish where another volume is": {do: publish, mounted: name, other: true, code: codes.Internal},
		"expand":                          {do: expand, mounted: "/dev/nvme1n1"},
		"expand what is not found": {do: expand, mounted: name, find: errors.New("another volume"),
			code: codes.NotFound},
		"expand another volume": {do: expand, mounted: name, other: true, code: codes.Internal},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "path")
			m := &doubtfulMounter{fakeMounter: &fakeMounter{}, find: x.find, has: !x.other}
			if x.mounted != "" {
				m.Set(path, x.mounted, "")
			}
			if err := x.do(&node{mounter: m}, path); status.Code(err) != x.code {
				t.Errorf("%v, want %v", err, x.code)
			}
			if len(m.Calls()) != x.formats {
				t.Errorf("mounted %q, want %d", m.Calls(), x.formats)
			}
		})
	}
}

// doubtfulMounter says which device is which.
type doubtfulMounter struct {
	*fakeMounter
	find error
	has  bool
}

func (m *doubtfulMounter) Find(string, string, string) (string, error) { return "/dev/nvme1n1", m.find }

func (m *doubtfulMounter) Has(string, string) (bool, error) { return m.has, nil }

// TestSnapshotsThatFail creates a snapshot anew by its name, in each state.
func TestSnapshotsThatFail(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		state types.SnapshotState
		code  codes.Code
		ready bool
	}{
		{state: types.SnapshotStatePending},
		{state: types.SnapshotStateCompleted, ready: true},
		{state: types.SnapshotStateError, code: codes.Internal},
	} {
		t.Run(string(x.state), func(t *testing.T) {
			t.Parallel()
			f := newFakeEC2()
			c := newController(f, options{})
			r := &csi.CreateSnapshotRequest{Name: "snapshot-1", SourceVolumeId: created(t, c, "one")}
			if _, err := c.CreateSnapshot(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			f.snapshots[0].State, f.snapshots[0].StateMessage = x.state, aws.String("too much content")
			for range 2 {
				out, err := c.CreateSnapshot(t.Context(), r)
				if status.Code(err) != x.code || out.GetSnapshot().GetReadyToUse() != x.ready {
					t.Errorf("%v, %v, want %v, ready %v", out, err, x.code, x.ready)
				}
				if err != nil && !strings.Contains(err.Error(), "too much content") {
					t.Errorf("%v does not say why", err)
				}
				if len(f.snapshots) != 1 {
					t.Errorf("there are %d snapshots, want that of the first request", len(f.snapshots))
				}
			}
			// It goes by the ID that the first request got.
			if _, err := c.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{
				SnapshotId: *f.snapshots[0].SnapshotId}); err != nil || len(f.snapshots) > 0 {
				t.Errorf("%v; %d snapshots are left", err, len(f.snapshots))
			}
		})
	}
}

func TestTemplatesHaveAnEnd(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"{{range 256}}ü{{end}}":        true,
		"{{range 2000000000}}x{{end}}": false,
	} {
		if value, err := evaluate(text, nil); (err == nil) != ok {
			t.Errorf("%s: %d bytes, %v", text, len(value), err)
		}
	}
}
