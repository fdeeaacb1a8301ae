//go:build linux

package ebscsi

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coracle-eks/coracle/internal/guest/csidriver"
	"github.com/coracle-eks/coracle/internal/guest/csidriver/csidrivertest"
)

// TestSanity is the suite of the CSI for drivers.
func TestSanity(t *testing.T) {
	c := newController(newFakeEC2(), options{})
	n := &node{options: options{limit: -1, reserved: -1}, mounter: &fakeMounter{},
		identity: csidriver.Node{Instance: instance, Zone: zone, Interfaces: 1}}
	csidrivertest.Sanity(t, nil, func(s *grpc.Server) {
		csi.RegisterIdentityServer(s, &csidriver.Identity{Driver: DriverName, Check: c.check})
		csi.RegisterControllerServer(s, c)
		csi.RegisterNodeServer(s, n)
	})
}

func mounted(kind string) []*csi.VolumeCapability {
	return []*csi.VolumeCapability{{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: kind}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER}}}
}

func TestParametersOfClasses(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		parameters map[string]string
		kind       string // file system
		size       int64  // GiB
		code       codes.Code
		volume     string // type, IOPS and throughput
		tags       map[string]string
		attributes map[string]string
	}{
		"none": {size: 1, volume: "gp3 0 0", tags: map[string]string{tagVolumeName: "pvc-1", tagDriver: "true",
			"Name": "dev-dynamic-pvc-1", "KubernetesCluster": "dev", "kubernetes.io/cluster/dev": "owned",
			tagClusterName: "dev"}},
		"of the migrated class gp2": {parameters: map[string]string{"type": "gp2", "csi.storage.k8s.io/pvc/name": "data",
			"allowautoiopspergbincrease": "true", "iopsPerGB": ""}, size: 1, code: codes.InvalidArgument},
		"IOPS by size": {parameters: map[string]string{"type": "io1", "iopsPerGB": "20"}, size: 10, volume: "io1 200 0",
			tags: map[string]string{tagIOPSPerGB: "20"}},
		"more than the ratio": {parameters: map[string]string{"type": "io1", "iops": "9999"}, size: 4,
			volume: "io1 200 0"},
		"fewer than the least": {parameters: map[string]string{"type": "io2", "iopsPerGB": "1",
			"allowAutoIOPSPerGBIncrease": "true"}, size: 4, volume: "io2 100 0"},
		"throughput": {parameters: map[string]string{"type": "gp3", "iops": "4000", "throughput": "250"}, size: 10,
			volume: "gp3 4000 250"},
		"tags": {parameters: map[string]string{"tagSpecification_1": "team={{ .PVCNamespace | toUpper }}",
			"csi.storage.k8s.io/pvc/namespace": "web", "tagSpecification_2": "a=b=c"}, size: 1, volume: "gp3 0 0",
			tags: map[string]string{"team": "WEB", "a": "b=c", "kubernetes.io/created-for/pvc/namespace": "web"}},
		"a tag of ours": {parameters: map[string]string{"tagSpecification_1": "CSIVolumeName=x"},
			code: codes.InvalidArgument},
		"a tag template": {parameters: map[string]string{"tagSpecification_1": "a={{ .No }}"}, code: codes.InvalidArgument},
		"formatting": {parameters: map[string]string{"blockSize": "4096", "ext4BigAlloc": "true",
			"ext4ClusterSize": "16384"}, size: 1, volume: "gp3 0 0", attributes: map[string]string{"blocksize": "4096",
			"ext4bigalloc": "true", "ext4clustersize": "16384"}},
		"formatting of another": {parameters: map[string]string{"ext4BigAlloc": "true"}, kind: "xfs",
			code: codes.InvalidArgument},
		"an argument":            {parameters: map[string]string{"blockSize": "1 -n"}, code: codes.InvalidArgument},
		"a cluster size alone":   {parameters: map[string]string{"ext4ClusterSize": "16384"}, code: codes.InvalidArgument},
		"unknown":                {parameters: map[string]string{"speed": "high"}, code: codes.InvalidArgument},
		"no number":              {parameters: map[string]string{"iops": "many"}, code: codes.InvalidArgument},
		"both ways to say IOPS":  {parameters: map[string]string{"iops": "1", "iopsPerGB": "1"}, code: codes.InvalidArgument},
		"a default of 100 GiB":   {volume: "gp3 0 0"},
		"the class of upstreams": {parameters: map[string]string{"fsType": "xfs"}, size: 1, volume: "gp3 0 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeEC2()
			c := newController(f, options{clusterID: "dev"})
			r := &csi.CreateVolumeRequest{Name: "pvc-1", VolumeCapabilities: mounted(x.kind), Parameters: x.parameters}
			if x.size > 0 {
				r.CapacityRange = &csi.CapacityRange{RequiredBytes: x.size * gib}
			}
			out, err := c.CreateVolume(t.Context(), r)
			if status.Code(err) != x.code {
				t.Fatalf("%v, want %v", err, x.code)
			}
			if err != nil {
				if len(f.volumes) > 0 {
					t.Error("refused, and there is a volume")
				}
				return
			}
			in := f.created[c.token("pvc-1")]
			got := fmt.Sprintf("%s %d %d", in.VolumeType, aws.ToInt32(in.Iops), aws.ToInt32(in.Throughput))
			if got != x.volume {
				t.Errorf("the volume is %s, want %s", got, x.volume)
			}
			tags := map[string]string{}
			for _, tag := range tagsOf(in.TagSpecifications) {
				tags[*tag.Key] = *tag.Value
			}
			for key, value := range x.tags {
				if tags[key] != value {
					t.Errorf("tag %s is %q, want %q", key, tags[key], value)
				}
			}
			for key, value := range x.attributes {
				if out.Volume.VolumeContext[key] != value {
					t.Errorf("attribute %s is %q, want %q", key, out.Volume.VolumeContext[key], value)
				}
			}
			if out.Volume.AccessibleTopology[0].Segments[zoneKey] != zone {
				t.Errorf("it is in %v", out.Volume.AccessibleTopology)
			}
		})
	}
}

func TestZoneOfThePod(t *testing.T) {
	t.Parallel()
	topology := func(key, zone string) *csi.Topology { return &csi.Topology{Segments: map[string]string{key: zone}} }
	for name, x := range map[string]struct {
		requirement *csi.TopologyRequirement
		want        string
	}{
		"none": {nil, ""},
		"preferred": {&csi.TopologyRequirement{Requisite: []*csi.Topology{topology(zoneKey, "a")},
			Preferred: []*csi.Topology{topology(zoneKey, "b")}}, "b"},
		"requisite": {&csi.TopologyRequirement{Requisite: []*csi.Topology{topology(driverZoneKey, "a")}}, "a"},
	} {
		if got := pickZone(x.requirement); got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}

// published attaches a volume and returns the name of its device.
func published(t *testing.T, c *controller, volume string) string {
	t.Helper()
	out, err := c.ControllerPublishVolume(t.Context(), &csi.ControllerPublishVolumeRequest{VolumeId: volume,
		NodeId: instance, VolumeCapability: mounted("")[0]})
	if err != nil {
		t.Fatal(err)
	}
	return out.PublishContext[devicePath]
}

func created(t *testing.T, c *controller, name string) string {
	t.Helper()
	out, err := c.CreateVolume(t.Context(), &csi.CreateVolumeRequest{Name: name, VolumeCapabilities: mounted("")})
	if err != nil {
		t.Fatal(err)
	}
	return out.Volume.VolumeId
}

func TestDeviceNames(t *testing.T) {
	t.Parallel()
	f := newFakeEC2()
	c := newController(f, options{})
	one, two := created(t, c, "one"), created(t, c, "two")
	if a, again, b := published(t, c, one), published(t, c, one), published(t, c, two); a != "/dev/xvdaa" || again != a ||
		b != "/dev/xvdab" {
		t.Errorf("the devices are %s, %s again, and %s", a, again, b)
	}
	if want := []string{"attach /dev/xvdaa", "attach /dev/xvdab"}; !slices.Equal(f.calls, want) {
		t.Errorf("EC2 was asked to %q, want %q", f.calls, want)
	}
	if len(c.devices.taken) > 0 {
		t.Errorf("names are kept: %v", c.devices.taken)
	}
	c.devices.refuse(instance, "/dev/xvdac")
	if got := published(t, c, created(t, c, "three")); got != "/dev/xvdad" {
		t.Errorf("after a name that EC2 did not take comes %s", got)
	}
	if last := deviceNames()[len(deviceNames())-1]; last != "/dev/xvddx" {
		t.Errorf("the last name is %s", last)
	}
}

func TestModifications(t *testing.T) {
	t.Parallel()
	f := newFakeEC2()
	c := newController(f, options{})
	id := created(t, c, "one")
	modify := func(parameters map[string]string) error {
		_, err := c.ControllerModifyVolume(t.Context(), &csi.ControllerModifyVolumeRequest{VolumeId: id,
			MutableParameters: parameters})
		return err
	}
	for _, parameters := range []map[string]string{
		{"type": "io2", "iops": "3000", "tagSpecification_1": "team=web"},
		{"type": "io2", "iops": "3000"}, // as it is
		{"tagDeletion_1": "team"},
		{"iops": "999999999"},
	} {
		if err := modify(parameters); err != nil {
			t.Errorf("%v: %v", parameters, err)
		}
	}
	if want := []string{"modify 0 io2 3000 0", "modify 0  100000 0"}; !slices.Equal(f.calls, want) {
		t.Errorf("EC2 was asked to %q, want %q", f.calls, want)
	}
	for _, tag := range f.volumes[id].Tags {
		if *tag.Key == "team" {
			t.Error("a deleted tag is there")
		}
	}
	for _, parameters := range []map[string]string{{"speed": "1"}, {"iops": "x"}, {"tagDeletion_1": tagVolumeName},
		{"iops": "1", "iopspergb": "1"}} {
		if err := modify(parameters); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v, want InvalidArgument", parameters, err)
		}
	}
	// A volume with IOPS by its size gets more as it grows.
	f.volumes[id].Tags = append(f.volumes[id].Tags, listTags(map[string]string{tagIOPSPerGB: "600",
		tagMoreIOPS: "true"})...)
	f.calls = nil
	if _, err := c.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{VolumeId: id,
		CapacityRange: &csi.CapacityRange{RequiredBytes: 200*gib - 1}}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"modify 200  120000 0"}; !slices.Equal(f.calls, want) {
		t.Errorf("EC2 was asked to %q, want %q", f.calls, want)
	}
}

func TestFormatOfNodes(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		kind       string
		attributes map[string]string
		legacy     bool
		code       codes.Code
		want       string
	}{
		"ext4": {want: "ext4[][noatime]"},
		"xfs": {kind: "xfs", attributes: map[string]string{"blocksize": "1024"},
			want: "xfs[-b size=1024][noatime nouuid]"},
		"old xfs": {kind: "xfs", legacy: true,
			want: "xfs[-m bigtime=0,inobtcount=0,reflink=0 -i nrext64=0][noatime nouuid]"},
		"bigalloc": {attributes: map[string]string{"ext4bigalloc": "true", "inodesize": "512"},
			want: "ext4[-I 512 -O bigalloc][noatime]"},
		"ntfs":     {kind: "ntfs", code: codes.InvalidArgument},
		"argument": {attributes: map[string]string{"blocksize": "1;"}, code: codes.InvalidArgument},
		"part":     {attributes: map[string]string{"partition": "-1"}, code: codes.InvalidArgument},
		"none":     {kind: "xfs", attributes: map[string]string{"ext4bigalloc": "true"}, code: codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &fakeMounter{}
			n := &node{options: options{legacyXFS: x.legacy}, mounter: m}
			capability := mounted(x.kind)[0]
			capability.GetMount().MountFlags = []string{"noatime", "noatime"}
			_, err := n.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{VolumeId: "vol-1",
				StagingTargetPath: filepath.Join(t.TempDir(), "staging"), VolumeCapability: capability,
				VolumeContext: x.attributes, PublishContext: map[string]string{devicePath: "/dev/xvdaa"}})
			if status.Code(err) != x.code {
				t.Fatalf("%v, want %v", err, x.code)
			}
			if err == nil && !slices.Equal(m.Calls(), []string{x.want}) {
				t.Errorf("%q, want %q", m.Calls(), x.want)
			}
			if err != nil && m.Count() > 0 {
				t.Error("refused, and mounted")
			}
		})
	}
}

func TestVolumesOfANode(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		options options
		who     csidriver.Node
		want    int64
	}{
		{options{limit: -1, reserved: -1}, csidriver.Node{Interfaces: 1}, 26},
		{options{limit: -1, reserved: -1}, csidriver.Node{Interfaces: 3, Disks: 2}, 22},
		{options{limit: -1, reserved: 5}, csidriver.Node{Interfaces: 1}, 22},
		{options{limit: -1, reserved: -1}, csidriver.Node{Interfaces: 40}, 1},
		{options{limit: 7, reserved: -1}, csidriver.Node{Interfaces: 40}, 7},
	} {
		if got := (&node{options: x.options, identity: x.who}).maxVolumes(); got != x.want {
			t.Errorf("%+v of %+v takes %d, want %d", x.who, x.options, got, x.want)
		}
	}
}
