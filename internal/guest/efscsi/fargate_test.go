//go:build linux

package efscsi

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/coracle-eks/coracle/internal/fargate/fargatenode"
	"github.com/coracle-eks/coracle/internal/guest/csidriver"
	"github.com/coracle-eks/coracle/internal/guest/csidriver/csidrivertest"
)

// TestANodeWithoutMetadata does what kubelet does: it finds the driver by its registration, and asks it there.
func TestANodeWithoutMetadata(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/tmp", "efs") // sockets have short names
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	log := csidriver.NewLogger(2, false)
	who := csidriver.Node{Instance: "fargate-ip-10-0-0-4.ec2.internal", Region: "us-east-1", Zone: "us-east-1a"}
	if err := serveNode(t.Context(), log, csidriver.Node{}, nil, nil, dir); err == nil {
		t.Error("a node without a name is served")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- serveNode(ctx, log, who, &csidrivertest.Mounter{}, nil, dir) }()
	connect := func(socket string) *grpc.ClientConn {
		c, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	registry := registration.NewRegistrationClient(connect(filepath.Join(dir, "plugins_registry", DriverName+"-reg.sock")))
	info, err := registry.GetInfo(t.Context(), &registration.InfoRequest{}, grpc.WaitForReady(true))
	if err != nil || info.GetName() != DriverName || info.GetType() != registration.CSIPlugin {
		t.Fatalf("the registration is %v, %v", info, err)
	}
	node, err := csi.NewNodeClient(connect(info.GetEndpoint())).NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{},
		grpc.WaitForReady(true))
	if err != nil || node.GetNodeId() != who.Instance ||
		node.GetAccessibleTopology().GetSegments()[zoneKey] != "us-east-1a" {
		t.Errorf("the node is %v, %v", node, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	// Kubelet does not take it: it ends, and its unit starts it again.
	go func() { ended <- serveNode(t.Context(), log, who, &csidrivertest.Mounter{}, nil, dir) }()
	if _, err := registry.NotifyRegistrationStatus(t.Context(), &registration.RegistrationStatus{Error: "no"},
		grpc.WaitForReady(true)); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("a driver that kubelet does not take stays")
	}
}

// TestVolumesOfAnotherHandle asks for volumes that were changed since the pod was scheduled.
func TestVolumesOfAnotherHandle(t *testing.T) {
	t.Parallel()
	const handle = "fs-0123456789abcdef0::fsap-0123456789abcdef0"
	attributes := map[string]string{"encryptInTransit": "true"}
	digests := map[string]string{}
	for name, options := range map[string][]string{"files": {"iam"}, "elsewhere": {"iam,mounttargetip=10.0.9.9"},
		"region": {"Region=eu-north-1"}} {
		digest, err := fargatenode.VolumeDigest(handle, attributes, options)
		if err != nil {
			t.Fatal(err)
		}
		digests[name] = digest
	}
	data, err := json.Marshal(digests)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "volumes.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	volumes, err := readVolumes(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readVolumes(""); err == nil {
		t.Error("a driver that knows no volumes is served")
	}
	n := newNode(options{}, csidriver.Node{}, &csidrivertest.Mounter{})
	n.volumes = volumes
	for _, test := range []struct {
		name, handle string
		attributes   map[string]string
		options      []string
		want         codes.Code
	}{
		{"files", handle, attributes, []string{"iam"}, codes.OK},
		{"files", "fs-0123456789abcdef0", attributes, []string{"iam"}, codes.PermissionDenied},
		{"files", handle, nil, []string{"iam"}, codes.PermissionDenied},
		{"files", handle, map[string]string{"mounttargetip": "10.0.9.9"}, []string{"iam"}, codes.PermissionDenied},
		{"files", handle, attributes, []string{"iam", "region=eu-north-1"}, codes.PermissionDenied},
		{"files", handle, attributes, nil, codes.PermissionDenied},
		{"others", handle, attributes, []string{"iam"}, codes.PermissionDenied},
		{"others", "", nil, nil, codes.PermissionDenied},
		{"elsewhere", handle, attributes, []string{"iam,mounttargetip=10.0.9.9"}, codes.InvalidArgument},
		{"region", handle, attributes, []string{"Region=eu-north-1"}, codes.InvalidArgument},
	} {
		_, err := n.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{VolumeId: test.handle,
			VolumeContext: test.attributes,
			TargetPath:    filepath.Join(t.TempDir(), "kubernetes.io~csi", test.name, "mount"),
			VolumeCapability: &csi.VolumeCapability{
				AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{MountFlags: test.options}},
				AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER}}})
		if status.Code(err) != test.want {
			t.Errorf("%s of %s, %v, %q: %v, want %s", test.handle, test.name, test.attributes, test.options, err, test.want)
		}
	}
}
