//go:build linux

package efscsi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coracle-eks/coracle/internal/fargate/fargatenode"
	"github.com/coracle-eks/coracle/internal/guest/csidriver"
)

// mountType is the type of mounts, and of their file systems.
const mountType = "efs"

// The attributes of volumes, in lower case.
const (
	attributeAddress      = "mounttargetip"
	attributeAddresses    = "mounttargetipmap"
	attributeCrossAccount = "crossaccount"
	attributeEncryption   = "encryptintransit"
	attributeProvisioner  = "storage.kubernetes.io/csiprovisioneridentity"
)

// mounter is what the driver does to the node.
type mounter interface {
	MakeDir(path string) error
	// IsMounted reports whether something is mounted at a path.
	IsMounted(path string) (bool, error)
	Mount(source, target, kind string, options []string) error
	// Unmount unmounts what is mounted, if there is something, and removes the path.
	Unmount(path string) error
	// Usage returns how full the file system of a path is.
	Usage(path string) ([]*csi.VolumeUsage, error)
}

// node is the service of a node.
type node struct {
	csi.UnimplementedNodeServer
	options  options
	identity csidriver.Node
	mounter  mounter
	working  csidriver.InFlight
	usage    usage
	mounting chan struct{} // has one of each mount that is being made; nil where there is no limit
	// volumes are the digests of those that may be mounted, by the names of their persistent volumes. Nil: all. On Fargate
	// they are those that the pod was scheduled with: an administrator of the cluster may replace them later.
	volumes map[string]string
}

func newNode(o options, who csidriver.Node, m mounter) *node {
	n := &node{options: o, identity: who, mounter: m, usage: usage{refresh: o.refresh, most: o.measuring}}
	if o.limitMounts {
		n.mounting = make(chan struct{}, o.maxMounts)
	}
	return n
}

// NodeGetCapabilities answers what nodes can do.
func (n *node) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (
	*csi.NodeGetCapabilitiesResponse, error) {
	if n.options.metrics {
		return csidriver.NodeCapabilities(csi.NodeServiceCapability_RPC_GET_VOLUME_STATS), nil
	}
	return csidriver.NodeCapabilities(), nil
}

// NodeGetInfo answers which instance the node is, and where it is.
func (n *node) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	out := &csi.NodeGetInfoResponse{NodeId: n.identity.Instance,
		AccessibleTopology: &csi.Topology{Segments: map[string]string{zoneKey: n.identity.Zone}}}
	if n.options.limitVolumes {
		out.MaxVolumesPerNode = n.options.maxVolumes
	}
	return out, nil
}

// checkCapabilities refuses what EFS has not: raw volumes, and access modes of which upstream knows none.
func checkCapabilities(all []*csi.VolumeCapability) error {
	var modes []string
	for _, c := range all {
		switch mode := c.GetAccessMode().GetMode(); mode {
		case csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:
		default:
			modes = append(modes, mode.String())
		}
	}
	if len(modes) > 0 {
		return fmt.Errorf("invalid access mode: %s", strings.Join(modes, ","))
	}
	for _, c := range all {
		if c.GetMount() == nil {
			return errors.New("only filesystem volumes are supported")
		}
		if slices.Contains(csidriver.MountFlags(c), attributeCrossAccount) {
			return errors.New("mount option 'crossaccount' cannot be set manually. The CSI driver automatically configures " +
				"this based on Kubernetes secrets")
		}
	}
	return nil
}

// NodePublishVolume mounts a volume for a pod.
func (n *node) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (
	*csi.NodePublishVolumeResponse, error) {
	target := r.GetTargetPath()
	switch {
	case target == "":
		return nil, csidriver.Invalid("Target path not provided")
	case r.GetVolumeCapability() == nil:
		return nil, csidriver.Invalid("Volume capability not provided")
	}
	if err := checkCapabilities([]*csi.VolumeCapability{r.GetVolumeCapability()}); err != nil {
		return nil, csidriver.Invalid("Volume capability not supported: %s", err)
	}
	if err := n.checkScheduled(r); err != nil {
		return nil, err
	}
	source, options, err := n.readVolume(r)
	if err != nil {
		return nil, err
	}
	if n.mounting != nil {
		select {
		case n.mounting <- struct{}{}:
			defer func() { <-n.mounting }()
		default:
			return nil, status.Errorf(codes.Aborted,
				"The number of concurrent mount calls is %v, which has reached the limit", cap(n.mounting))
		}
	}
	end, err := n.working.Begin(target)
	if err != nil {
		return nil, err
	}
	defer end()
	// A second mount would lie over the first, and stay after it.
	mounted, err := n.mounter.IsMounted(target)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "Could not check if %q is mounted: %v", target, err)
	}
	if mounted {
		return &csi.NodePublishVolumeResponse{}, nil
	}
	if err := n.mounter.MakeDir(target); err != nil {
		return nil, status.Errorf(codes.Internal, "Could not create dir %q: %v", target, err)
	}
	if err := n.mounter.Mount(source, target, mountType, options); err != nil {
		_ = os.Remove(target) // kubelet asks again, or for its removal
		return nil, status.Errorf(codes.Internal, "Could not mount %q at %q: %v", source, target, err)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// checkScheduled refuses, on Fargate, volumes that are others than when the pod was scheduled, and the mount options
// that choose another server than that of the file system: with iam, the server gets what the credentials of the pod
// execution role have signed.
func (n *node) checkScheduled(r *csi.NodePublishVolumeRequest) error {
	if n.volumes == nil {
		return nil
	}
	options := r.GetVolumeCapability().GetMount().GetMountFlags()
	digest, err := fargatenode.VolumeDigest(r.GetVolumeId(), r.GetVolumeContext(), options)
	if err != nil {
		return csidriver.Invalid("Volume not supported: %s", err)
	}
	name := filepath.Base(filepath.Dir(r.GetTargetPath())) // .../volumes/kubernetes.io~csi/NAME/mount
	if want, ok := n.volumes[name]; !ok || want != digest {
		return status.Errorf(codes.PermissionDenied, "the persistent volume %.253q is not the one that the pod was "+
			"scheduled with, or has another volume handle (%.100q), attributes or mount options since", name, r.GetVolumeId())
	}
	for _, flag := range csidriver.MountFlags(r.GetVolumeCapability()) {
		switch option, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(flag)), "="); option {
		case attributeAddress, "region":
			return csidriver.Invalid("mount option %q is not supported on Fargate", option)
		}
	}
	return nil
}

// optionSet are the options of a mount, each once.
type optionSet []string

func (s *optionSet) add(option string) {
	if !slices.Contains(*s, option) {
		*s = append(*s, option)
	}
}

// readVolume returns the source and the options of the mount of a volume.
func (n *node) readVolume(r *csi.NodePublishVolumeRequest) (source string, options optionSet, err error) {
	encrypted, err := n.readAttributes(r.GetVolumeContext(), &options)
	if err != nil {
		return "", nil, err
	}
	v, err := parseVolume(r.GetVolumeId())
	if err != nil {
		return "", nil, err
	}
	if v.path == "" {
		v.path = "/"
	}
	if v.accessPoint != "" {
		options.add("accesspoint=" + v.accessPoint)
	}
	if v.accessPoint != "" || encrypted {
		options.add("tls")
	}
	if r.GetReadonly() {
		options.add("ro")
	}
	for _, flag := range csidriver.MountFlags(r.GetVolumeCapability()) {
		flag = strings.ToLower(flag)
		switch point, isPoint := strings.CutPrefix(flag, "accesspoint="); {
		case isPoint && v.accessPoint != "" && point != v.accessPoint:
			return "", nil, csidriver.Invalid("Found conflicting access point IDs in mountOptions (%s) and volumeHandle (%s)",
				point, v.accessPoint)
		case flag == "tls" && !encrypted:
			return "", nil, csidriver.Invalid("Found tls in mountOptions but encryptInTransit is false")
		case strings.HasPrefix(flag, "awscredsuri"): // the credentials are those of the driver
		default:
			options.add(flag)
		}
	}
	return v.fileSystem + ":" + v.path, options, nil
}

// readAttributes adds the options that the attributes of a volume make, and returns whether it is encrypted in transit.
func (n *node) readAttributes(attributes map[string]string, options *optionSet) (encrypted bool, err error) {
	encrypted = true
	isTrue := func(key, value string) bool {
		on, parseErr := strconv.ParseBool(value)
		if parseErr != nil {
			err = csidriver.Invalid("Volume context property %q must be a boolean value: %v", key, parseErr)
		}
		return on
	}
	for key, value := range attributes {
		switch strings.ToLower(key) {
		case attributeProvisioner:
		case attributeEncryption:
			encrypted = isTrue(key, value)
		case attributeCrossAccount:
			if isTrue(key, value) {
				options.add(attributeCrossAccount)
			}
		case attributeAddress:
			if net.ParseIP(value) == nil {
				return false, csidriver.Invalid("Volume context property %q=%q is not a valid IP address", key, value)
			}
			options.add(attributeAddress + "=" + value)
		case attributeAddresses:
			var addresses map[string]string
			if err := json.Unmarshal([]byte(value), &addresses); err != nil {
				return false, csidriver.Invalid("Failed to parse %s: %v", attributeAddresses, err)
			}
			if address := pickAddress(addresses, n.identity.Zone); address != "" {
				options.add(attributeAddress + "=" + address)
			}
		default:
			return false, csidriver.Invalid("Volume context property %s not supported.", key)
		}
		if err != nil {
			return false, err
		}
	}
	return encrypted, nil
}

// NodeUnpublishVolume unmounts a volume, if it is mounted.
func (n *node) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (
	*csi.NodeUnpublishVolumeResponse, error) {
	target := r.GetTargetPath()
	if target == "" {
		return nil, csidriver.Invalid("Target path not provided")
	}
	if r.GetVolumeId() == "" {
		return nil, csidriver.Invalid("Volume ID not provided")
	}
	end, err := n.working.Begin(target)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := n.mounter.Unmount(target); err != nil {
		return nil, status.Errorf(codes.Internal, "Could not unmount %q: %v", target, err)
	}
	n.usage.forget(target)
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeGetVolumeStats answers how much is in a volume, as of some time ago.
func (n *node) NodeGetVolumeStats(_ context.Context, r *csi.NodeGetVolumeStatsRequest) (
	*csi.NodeGetVolumeStatsResponse, error) {
	path := r.GetVolumePath()
	if r.GetVolumeId() == "" {
		return nil, csidriver.Invalid("Volume ID not provided")
	}
	if path == "" {
		return nil, csidriver.Invalid("Volume Path not provided")
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, status.Errorf(codes.NotFound, "Volume Path %s does not exist", path)
	} else if err != nil {
		return nil, status.Errorf(codes.Internal, "Failed to invoke stat on volume path %s: %v", path, err)
	}
	v, err := parseVolume(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	all, err := n.mounter.Usage(path)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "Could not get metrics: %v ", err)
	}
	used, known := n.usage.of(v.fileSystem, path)
	if !known {
		return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{{Unit: csi.VolumeUsage_UNKNOWN}}}, nil
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Used: used,
		Available: all[0].GetAvailable(), Total: all[0].GetTotal()}}}, nil
}
