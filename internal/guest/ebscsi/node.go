//go:build linux

package ebscsi

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coracle-eks/coracle/internal/guest/csidriver"
)

// node is the service of a node.
type node struct {
	csi.UnimplementedNodeServer
	options  options
	identity csidriver.Node
	mounter  mounter
	working  csidriver.InFlight
}

// NodeGetCapabilities answers what nodes can do.
func (*node) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (
	*csi.NodeGetCapabilitiesResponse, error) {
	return csidriver.NodeCapabilities(csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME, csi.NodeServiceCapability_RPC_GET_VOLUME_STATS), nil
}

// NodeGetInfo answers which instance the node is, where it is, and how many volumes it takes.
func (n *node) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{
		NodeId: n.identity.Instance, MaxVolumesPerNode: n.maxVolumes(),
		AccessibleTopology: &csi.Topology{Segments: map[string]string{zoneKey: n.identity.Zone,
			driverZoneKey: n.identity.Zone, osKey: "linux"}},
	}, nil
}

// attachments is how many volumes and network interfaces together an instance type takes here, see
// DescribeInstanceTypes. As upstream's driver, it counts the first interface with the root volume.
const attachments = 27

// maxVolumes returns the number of volumes that the node takes beside those that it has of its own. None would mean any
// number to Kubernetes.
func (n *node) maxVolumes() int64 {
	if n.options.limit >= 0 {
		return n.options.limit
	}
	reserved := n.options.reserved
	if reserved < 0 {
		reserved = n.identity.Disks + 1 // and the root volume
	}
	return int64(max(1, attachments-reserved-(n.identity.Interfaces-1)))
}

// checkAttributes refuses a partition that is no number.
func checkAttributes(attributes map[string]string) (partition string, err error) {
	partition, ok := attributes[partitionAttribute]
	if n, err := strconv.ParseInt(partition, 10, 64); ok && (err != nil || n < 0) {
		return "", csidriver.Invalid("Volume Attribute is not valid")
	}
	if partition == "0" {
		return "", nil
	}
	return partition, nil
}

// NodeStageVolume formats a volume that is empty, and mounts it.
func (n *node) NodeStageVolume(_ context.Context, r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	target, capability := r.GetStagingTargetPath(), r.GetVolumeCapability()
	switch {
	case r.GetVolumeId() == "":
		return nil, csidriver.Invalid("Volume ID not provided")
	case target == "":
		return nil, csidriver.Invalid("Staging target not provided")
	case capability == nil:
		return nil, csidriver.Invalid("Volume capability not provided")
	case !checkCapability(capability):
		return nil, csidriver.Invalid("Volume capability not supported")
	}
	partition, err := checkAttributes(r.GetVolumeContext())
	if err != nil {
		return nil, err
	}
	if capability.GetBlock() != nil {
		return &csi.NodeStageVolumeResponse{}, nil
	}
	if capability.GetMount() == nil {
		return nil, csidriver.Invalid("NodeStageVolume: mount is nil within volume capability")
	}
	kind := fileSystem(capability)
	if _, known := unsupported[kind]; !known {
		return nil, csidriver.Invalid("NodeStageVolume: invalid fstype %s", kind)
	}
	format, err := n.formatOptions(kind, r.GetVolumeContext())
	if err != nil {
		return nil, err
	}
	end, err := n.working.Begin(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer end()
	device := r.GetPublishContext()[devicePath]
	if device == "" {
		return nil, csidriver.Invalid("Device path not provided")
	}
	source, err := n.mounter.Find(device, r.GetVolumeId(), partition)
	if err != nil {
		return nil, status.Errorf(codes.NotFound, "Failed to find device path %s. %v", device, err)
	}
	if err := n.mounter.MakeDir(target); err != nil {
		return nil, status.Errorf(codes.Internal, "could not create target dir %q: %v", target, err)
	}
	mounted, err := n.isStaged(target, source)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "failed to check if volume is already mounted: %v", err)
	}
	if mounted {
		return &csi.NodeStageVolumeResponse{}, nil
	}
	options := mountOptions(kind, csidriver.MountFlags(capability))
	if err := n.mounter.FormatAndMount(source, target, kind, options, format); err != nil {
		return nil, status.Errorf(codes.Internal, "could not format %q and mount it at %q: %v", source, target, err)
	}
	if slices.Contains(options, "ro") { // nothing is written to what is only to be read
		return &csi.NodeStageVolumeResponse{}, nil
	}
	// A volume from a snapshot may be larger than its file system, and so may one that has grown meanwhile.
	err = n.mounter.GrowIfSmall(source, target)
	if errors.Is(err, errGrowMounted) {
		err = n.growUnmounted(source, target, kind, options)
	}
	if err != nil {
		return nil, status.Errorf(codes.Internal, "Could not resize volume %q (%q): %v", r.GetVolumeId(), source, err)
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

// growUnmounted grows a file system that no pod has yet, and mounts it again.
func (n *node) growUnmounted(source, target, kind string, options []string) error {
	if err := n.mounter.Unmount(target); err != nil {
		return err
	}
	if err := n.mounter.GrowUnmounted(source); err != nil {
		return err
	}
	if err := n.mounter.MakeDir(target); err != nil {
		return err
	}
	return n.mounter.FormatAndMount(source, target, kind, options, nil)
}

// isStaged reports whether a device is mounted at a path, under whichever of its names.
func (n *node) isStaged(path, device string) (bool, error) {
	mounted, _, err := n.mounter.MountedDevice(path)
	if err != nil || mounted == "" {
		return false, err
	}
	return n.mounter.Has(path, device)
}

// mountOptions returns the options of a mount, each once. An XFS volume and one from its snapshot have the same UUID.
func mountOptions(kind string, flags []string) (options []string) {
	for _, flag := range flags {
		if !slices.Contains(options, flag) {
			options = append(options, flag)
		}
	}
	if kind == xfs && !slices.Contains(options, "nouuid") {
		options = append(options, "nouuid")
	}
	return options
}

// formatOptions returns the arguments of mkfs. The controller has seen them, and an attribute may be from elsewhere.
func (n *node) formatOptions(kind string, attributes map[string]string) (arguments []string, err error) {
	option := func(name, flag, prefix string) {
		value, ok := attributes[name]
		if !ok || err != nil {
			return
		}
		if !alphanumeric.MatchString(value) {
			err = csidriver.Invalid("Invalid %s (aborting!)", name)
		} else if !supports(kind, name) {
			err = csidriver.Invalid("Cannot use %s with fstype %s", name, kind)
		} else if flag != "" {
			arguments = append(arguments, flag, prefix+value)
		}
	}
	if kind == xfs {
		option(blockSize, "-b", "size=")
		option(inodeSize, "-i", "size=")
	} else {
		option(blockSize, "-b", "")
		option(inodeSize, "-I", "")
	}
	option(bytesPerInode, "-i", "")
	option(numberOfInodes, "-N", "")
	option(ext4BigAlloc, "", "")
	if attributes[ext4BigAlloc] == "true" {
		arguments = append(arguments, "-O", "bigalloc")
	}
	option(ext4ClusterSize, "-C", "")
	option(ext4Encryption, "", "")
	if attributes[ext4Encryption] == "true" {
		arguments = append(arguments, "-O", "encrypt")
	}
	if kind == xfs && n.options.legacyXFS {
		arguments = append(arguments, "-m", "bigtime=0,inobtcount=0,reflink=0", "-i", "nrext64=0")
	}
	return arguments, err
}

// NodeUnstageVolume unmounts a volume, if it is mounted.
func (n *node) NodeUnstageVolume(_ context.Context, r *csi.NodeUnstageVolumeRequest) (
	*csi.NodeUnstageVolumeResponse, error) {
	target := r.GetStagingTargetPath()
	if r.GetVolumeId() == "" {
		return nil, csidriver.Invalid("Volume ID not provided")
	}
	if target == "" {
		return nil, csidriver.Invalid("Staging target not provided")
	}
	end, err := n.working.Begin(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer end()
	_, references, err := n.mounter.MountedDevice(target)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "failed to check if target %q is a mount point: %v", target, err)
	}
	if references == 0 {
		return &csi.NodeUnstageVolumeResponse{}, nil
	}
	if err := n.mounter.Unmount(target); err != nil {
		return nil, status.Errorf(codes.Internal, "Could not unmount target %q: %v", target, err)
	}
	return &csi.NodeUnstageVolumeResponse{}, nil
}

// NodePublishVolume gives a pod a volume that was staged; of a raw one the device.
func (n *node) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (
	*csi.NodePublishVolumeResponse, error) {
	target, capability := r.GetTargetPath(), r.GetVolumeCapability()
	switch {
	case r.GetVolumeId() == "":
		return nil, csidriver.Invalid("Volume ID not provided")
	case r.GetStagingTargetPath() == "":
		return nil, csidriver.Invalid("Staging target not provided")
	case target == "":
		return nil, csidriver.Invalid("Target path not provided")
	case capability == nil:
		return nil, csidriver.Invalid("Volume capability not provided")
	case !checkCapability(capability):
		return nil, csidriver.Invalid("Volume capability not supported")
	}
	partition, err := checkAttributes(r.GetVolumeContext())
	if err != nil {
		return nil, err
	}
	end, err := n.working.Begin(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer end()
	options := []string{"bind"}
	if r.GetReadonly() {
		options = append(options, "ro")
	}
	source, kind := r.GetStagingTargetPath(), ""
	if capability.GetBlock() != nil {
		device := r.GetPublishContext()[devicePath]
		if device == "" {
			return nil, csidriver.Invalid("Device path not provided")
		}
		if source, err = n.mounter.Find(device, r.GetVolumeId(), partition); err != nil {
			return nil, status.Errorf(codes.NotFound, "Failed to find device path %s. %v", device, err)
		}
		err = n.mounter.MakeDir(filepath.Dir(target))
		if err == nil {
			err = n.mounter.MakeFile(target)
		}
	} else {
		if kind = fileSystem(capability); !slices.Contains([]string{ext3, ext4, xfs}, kind) {
			return nil, csidriver.Invalid("NodePublishVolume: invalid fstype %s", kind)
		}
		options = mountOptions(kind, append(options, csidriver.MountFlags(capability)...))
		err = n.mounter.MakeDir(target)
	}
	if err != nil {
		return nil, status.Errorf(codes.Internal, "Could not create %q: %v", target, err)
	}
	mounted, err := n.mounter.IsMounted(target)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "Could not check if %q is mounted: %v", target, err)
	}
	if !mounted {
		if err := n.mounter.Mount(source, target, kind, options); err != nil {
			return nil, status.Errorf(codes.Internal, "Could not mount %q at %q: %v", source, target, err)
		}
	} else if capability.GetBlock() != nil {
		if same, err := n.mounter.Has(target, source); err != nil || !same {
			return nil, status.Errorf(codes.Internal, "%q is not the device %q of volume %q (error: %v)", target, source,
				r.GetVolumeId(), err)
		}
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume takes a volume from a pod, if it has it.
func (n *node) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (
	*csi.NodeUnpublishVolumeResponse, error) {
	if r.GetVolumeId() == "" {
		return nil, csidriver.Invalid("Volume ID not provided")
	}
	if r.GetTargetPath() == "" {
		return nil, csidriver.Invalid("Target path not provided")
	}
	end, err := n.working.Begin(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer end()
	if err := n.mounter.Unmount(r.GetTargetPath()); err != nil {
		return nil, status.Errorf(codes.Internal, "Could not unmount %q: %v", r.GetTargetPath(), err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeExpandVolume makes a file system as large as its volume.
func (n *node) NodeExpandVolume(_ context.Context, r *csi.NodeExpandVolumeRequest) (
	*csi.NodeExpandVolumeResponse, error) {
	id, path, capability := r.GetVolumeId(), r.GetVolumePath(), r.GetVolumeCapability()
	switch {
	case id == "":
		return nil, csidriver.Invalid("Volume ID not provided")
	case path == "":
		return nil, csidriver.Invalid("volume path must be provided")
	case capability != nil && !checkCapability(capability):
		return nil, csidriver.Invalid("VolumeCapability is invalid")
	}
	end, err := n.working.Begin(id)
	if err != nil {
		return nil, err
	}
	defer end()
	if capability.GetBlock() != nil {
		return &csi.NodeExpandVolumeResponse{}, nil
	}
	there, block, err := n.mounter.Stat(path)
	switch {
	case err != nil:
		return nil, status.Errorf(codes.Internal, "failed to determine if volumePath [%v] is a block device: %v", path, err)
	case !there:
		return nil, status.Errorf(codes.NotFound, "path %s does not exist", path)
	}
	device := path
	if !block {
		mounted, _, err := n.mounter.MountedDevice(path)
		if err != nil {
			return nil, status.Errorf(codes.Internal, "failed to get device name from mount %s: %v", path, err)
		}
		if device, err = n.mounter.Find(mounted, id, ""); err != nil {
			return nil, status.Errorf(codes.NotFound, "failed to find device path for device name %s for mount %s: %v",
				mounted, path, err)
		}
		if same, err := n.mounter.Has(path, device); err != nil || !same {
			return nil, status.Errorf(codes.Internal, "%q is not mounted at %q (error: %v)", device, path, err)
		}
		if err := n.mounter.Grow(device, path); err != nil {
			return nil, status.Errorf(codes.Internal, "Could not resize volume %q (%q): %v", id, device, err)
		}
	}
	size, err := n.mounter.DeviceSize(device)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "failed to get block capacity on path %s: %v", path, err)
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: size}, nil
}

// NodeGetVolumeStats answers how full a volume is.
func (n *node) NodeGetVolumeStats(_ context.Context, r *csi.NodeGetVolumeStatsRequest) (
	*csi.NodeGetVolumeStatsResponse, error) {
	path := r.GetVolumePath()
	if r.GetVolumeId() == "" {
		return nil, csidriver.Invalid("NodeGetVolumeStats volume ID was empty")
	}
	if path == "" {
		return nil, csidriver.Invalid("NodeGetVolumeStats volume path was empty")
	}
	there, block, err := n.mounter.Stat(path)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "unknown error when stat on %s: %v", path, err)
	}
	if !there {
		return nil, status.Errorf(codes.NotFound, "path %s does not exist", path)
	}
	if block {
		size, err := n.mounter.DeviceSize(path)
		if err != nil {
			return nil, status.Errorf(codes.Internal, "failed to get block capacity on path %s: %v", path, err)
		}
		return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: size}}}, nil
	}
	usage, err := n.mounter.Usage(path)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "failed to get fs info on path %s: %v", path, err)
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: usage}, nil
}
