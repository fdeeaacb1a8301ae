//go:build linux

package ebscsi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coracle-eks/coracle/internal/guest/csidriver"
)

// The keys of topologies.
const (
	zoneKey       = "topology.kubernetes.io/zone"
	driverZoneKey = "topology." + DriverName + "/zone"
	osKey         = "kubernetes.io/os"
)

// defaultSize is that of a volume whose size nobody says, in GiB.
const defaultSize = 100

// errNotFound is that of a volume, instance or snapshot that does not exist.
var errNotFound = errors.New("resource was not found")

// controller is the controller's service.
type controller struct {
	csi.UnimplementedControllerServer
	options options
	ec2     api
	working csidriver.InFlight
	devices devices

	mu sync.Mutex
	// tokens are the numbers of client tokens by name, where EC2 knows the first with other parameters.
	tokens map[string]int
}

func newController(api api, o options) *controller {
	return &controller{options: o, ec2: api, tokens: make(map[string]int)}
}

// ControllerGetCapabilities answers what the controller can do.
func (*controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (
	*csi.ControllerGetCapabilitiesResponse, error) {
	return csidriver.ControllerCapabilities(
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_MODIFY_VOLUME,
	), nil
}

// CreateVolume creates a volume, empty, from a snapshot or as a copy. A volume of the same name and parameters is the
// same volume.
func (c *controller) CreateVolume(ctx context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	switch {
	case r.GetName() == "":
		return nil, csidriver.Invalid("Volume name not provided")
	case len(r.GetVolumeCapabilities()) == 0:
		return nil, csidriver.Invalid("Volume capabilities not provided")
	case !checkCapabilities(r.GetVolumeCapabilities()):
		return nil, csidriver.Invalid("Volume capabilities not supported")
	}
	size, err := roundSize(r.GetCapacityRange(), defaultSize)
	if err != nil {
		return nil, err
	}
	end, err := c.working.Begin(r.GetName())
	if err != nil {
		return nil, err
	}
	defer end()
	w, err := c.options.readClass(r)
	if err != nil {
		return nil, err
	}
	in, err := c.volumeInput(r, w, size)
	if err != nil {
		return nil, err
	}
	var out *types.Volume
	if source := r.GetVolumeContentSource().GetVolume().GetVolumeId(); source != "" {
		out, err = c.copy(ctx, r, w, in, source)
	} else {
		out, err = c.create(ctx, in)
	}
	switch {
	case csidriver.HasCode(err, "IdempotentParameterMismatch"):
		c.nextToken(r.GetName())
		return nil, status.Errorf(codes.AlreadyExists,
			"Could not create volume %q: parameters on this idempotent request are inconsistent with parameters used in "+
				"previous request(s)", r.GetName())
	case csidriver.HasCode(err, "InvalidSnapshot.NotFound", "InvalidVolume.NotFound"):
		return nil, status.Errorf(codes.NotFound, "Could not create volume %q: source was not found", r.GetName())
	case csidriver.HasCode(err, "InvalidParameterCombination"):
		return nil, status.Errorf(codes.InvalidArgument, "Could not create volume %q: invalid argument: %v", r.GetName(),
			err)
	case status.Code(err) != codes.Unknown && err != nil:
		return nil, err
	case err != nil:
		return nil, status.Errorf(codes.Aborted, "Could not create volume %q: %v", r.GetName(), err)
	}
	id := aws.ToString(out.VolumeId)
	if err := csidriver.Poll(ctx, func() (bool, error) {
		v, err := c.volume(ctx, id)
		if errors.Is(err, errNotFound) || err == nil && v.State == types.VolumeStateError {
			return false, c.discard(ctx, r.GetName(), id)
		}
		return err == nil && (v.State == types.VolumeStateAvailable || v.State == types.VolumeStateInUse), nil
	}); err != nil {
		return nil, status.Errorf(codes.Aborted, "Could not create volume %q: timed out waiting for volume to create: %v",
			r.GetName(), err)
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: id, CapacityBytes: int64(aws.ToInt32(out.Size)) * gib, VolumeContext: w.attributes,
		ContentSource: r.GetVolumeContentSource(),
		AccessibleTopology: []*csi.Topology{{Segments: map[string]string{
			zoneKey: aws.ToString(out.AvailabilityZone)}}},
	}}, nil
}

// discard deletes a volume that could not be made, so that a retry leaves no other behind, and returns the error of
// its creation. The client token stays that of the volume until it is deleted: the next request finds it again.
func (c *controller) discard(ctx context.Context, name, id string) error {
	_, err := c.ec2.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: &id})
	if err != nil && !isMissingVolume(err, id) && !c.isGone(ctx, id) {
		return fmt.Errorf("%s could not be made, and could not be deleted: %w", id, err)
	}
	c.nextToken(name)
	return fmt.Errorf("%s could not be made", id)
}

// create creates a volume, in any zone if none is said.
func (c *controller) create(ctx context.Context, in *ec2.CreateVolumeInput) (*types.Volume, error) {
	if aws.ToString(in.AvailabilityZone) == "" {
		zone, err := c.anyZone(ctx)
		if err != nil {
			return nil, err
		}
		in.AvailabilityZone = &zone
	}
	out, err := c.ec2.CreateVolume(ctx, in)
	if err != nil {
		return nil, err
	}
	return &types.Volume{VolumeId: out.VolumeId, Size: out.Size, AvailabilityZone: in.AvailabilityZone}, nil
}

// copy makes a volume that is a copy of another, in its zone and with its key.
func (c *controller) copy(ctx context.Context, r *csi.CreateVolumeRequest, w wanted, in *ec2.CreateVolumeInput,
	source string) (*types.Volume, error) {
	if w.plain {
		return nil, csidriver.Invalid("Cannot make an unencrypted clone")
	}
	of, err := c.volume(ctx, source)
	if err != nil {
		return nil, status.Errorf(codes.NotFound, "Error source volume with volumeID %v not found: %v", source, err)
	}
	if w.key != "" && w.key != aws.ToString(of.KmsKeyId) {
		return nil, csidriver.Invalid("Cannot provision clone with different KMS key than source volume")
	}
	zone := aws.ToString(of.AvailabilityZone)
	if allowed := r.GetAccessibilityRequirements().GetRequisite(); len(allowed) > 0 &&
		!slices.ContainsFunc(allowed, func(t *csi.Topology) bool {
			return t.GetSegments()[zoneKey] == zone || t.GetSegments()[driverZoneKey] == zone
		}) {
		return nil, status.Error(codes.ResourceExhausted, "Cannot provision clone with the specified topology constraints")
	}
	out, err := c.ec2.CopyVolumes(ctx, &ec2.CopyVolumesInput{SourceVolumeId: &source, ClientToken: in.ClientToken,
		Size: in.Size, VolumeType: in.VolumeType, Iops: in.Iops, Throughput: in.Throughput,
		MultiAttachEnabled: in.MultiAttachEnabled, TagSpecifications: in.TagSpecifications})
	if err != nil {
		return nil, err
	}
	if len(out.Volumes) != 1 {
		return nil, fmt.Errorf("EC2 made %d copies", len(out.Volumes))
	}
	return &types.Volume{VolumeId: out.Volumes[0].VolumeId, Size: out.Volumes[0].Size, AvailabilityZone: &zone}, nil
}

// volumeInput returns the request of EC2 for a volume.
func (c *controller) volumeInput(r *csi.CreateVolumeRequest, w wanted, size int32) (*ec2.CreateVolumeInput, error) {
	if w.iops > 0 && w.iopsPerGB > 0 {
		return nil, csidriver.Invalid("Could not create volume %q: invalid StorageClass parameters; specify either IOPS or "+
			"IOPSPerGb, not both", r.GetName())
	}
	in := &ec2.CreateVolumeInput{
		ClientToken: aws.String(c.token(r.GetName())), Size: &size, Encrypted: aws.Bool(w.encrypted || w.key != ""),
		VolumeType:        types.VolumeType(cmp.Or(w.kind, string(types.VolumeTypeGp3))),
		TagSpecifications: specifyTags(types.ResourceTypeVolume, w.tags),
	}
	for _, capability := range r.GetVolumeCapabilities() {
		shared := capability.GetAccessMode().GetMode() == csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
		if shared && in.VolumeType != types.VolumeTypeIo2 {
			return nil, csidriver.Invalid("Could not create volume %q: multi-attach is only supported for io2 volumes",
				r.GetName())
		}
		if shared {
			in.MultiAttachEnabled = aws.Bool(true)
		}
	}
	iops := int64(w.iops)
	if w.iopsPerGB > 0 {
		iops = int64(w.iopsPerGB) * int64(size)
	}
	if n := boundIOPS(string(in.VolumeType), size, iops, w.moreIOPS); n > 0 {
		in.Iops = &n
	}
	if w.throughput > 0 {
		in.Throughput = &w.throughput
	}
	if w.rate > 0 {
		in.VolumeInitializationRate = &w.rate
	}
	if w.key != "" {
		in.KmsKeyId = &w.key
	}
	if source := r.GetVolumeContentSource(); source != nil {
		id := source.GetSnapshot().GetSnapshotId()
		if id == "" && source.GetVolume().GetVolumeId() == "" {
			return nil, csidriver.Invalid("Unsupported volumeContentSource type")
		}
		if id != "" {
			in.SnapshotId = &id
		}
	}
	if zone := pickZone(r.GetAccessibilityRequirements()); zone != "" {
		in.AvailabilityZone = &zone
	}
	return in, nil
}

// pickZone returns the first zone that is preferred, or allowed.
func pickZone(t *csi.TopologyRequirement) string {
	for _, list := range [][]*csi.Topology{t.GetPreferred(), t.GetRequisite()} {
		for _, t := range list {
			if zone := cmp.Or(t.GetSegments()[zoneKey], t.GetSegments()[driverZoneKey]); zone != "" {
				return zone
			}
		}
	}
	return ""
}

// check returns why EC2 cannot be reached, or does not let this controller in.
func (c *controller) check(ctx context.Context) error {
	_, err := c.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{DryRun: aws.Bool(true)},
		func(o *ec2.Options) { o.Retryer = aws.NopRetryer{} })
	if csidriver.HasCode(err, "DryRunOperation") {
		return nil
	}
	return status.Errorf(codes.FailedPrecondition,
		"Failed health check (verify network connection and IAM credentials): %v", err)
}

func (c *controller) anyZone(ctx context.Context) (string, error) {
	out, err := c.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{})
	if err != nil {
		return "", fmt.Errorf("failed to get availability zone: %w", err)
	}
	if len(out.AvailabilityZones) == 0 {
		return "", errors.New("failed to get availability zone: there is none")
	}
	return aws.ToString(out.AvailabilityZones[0].ZoneName), nil
}

// token returns the client token of the volume of a name.
func (c *controller) token(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.tokens[name]; n > 0 {
		name += fmt.Sprintf("-%d", n)
	}
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

// nextToken makes the next request for a volume of this name another one for EC2.
func (c *controller) nextToken(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens[name] = max(1, c.tokens[name]) + 1
}

// volume describes a volume; the error is errNotFound when there is none.
func (c *controller) volume(ctx context.Context, id string) (types.Volume, error) {
	out, err := c.ec2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{id}})
	if csidriver.HasCode(err, "InvalidVolume.NotFound", "InvalidParameterValue") || err == nil && len(out.Volumes) == 0 {
		return types.Volume{}, errNotFound
	}
	if err != nil {
		return types.Volume{}, err
	}
	return out.Volumes[0], nil
}

// DeleteVolume deletes a volume, if it is there.
func (c *controller) DeleteVolume(ctx context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if r.GetVolumeId() == "" {
		return nil, csidriver.Invalid("Volume ID not provided")
	}
	end, err := c.working.Begin(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer end()
	_, err = c.ec2.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: aws.String(r.GetVolumeId())})
	if err != nil && !isMissingVolume(err, r.GetVolumeId()) && !c.isGone(ctx, r.GetVolumeId()) {
		return nil, status.Errorf(codes.Internal, "Could not delete volume ID %q: %v", r.GetVolumeId(), err)
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// isMissingVolume reports whether an error says that there is no such volume: IDs that are none are refused.
func isMissingVolume(err error, id string) bool {
	return csidriver.HasCode(err, "InvalidVolume.NotFound") ||
		csidriver.HasCode(err, "InvalidParameterValue", "InvalidVolumeID.Malformed") && !strings.HasPrefix(id, "vol-")
}

// isGone reports whether a volume that could not be deleted is not there: a role that may delete volumes with a tag is
// refused one that has no tags any more.
func (c *controller) isGone(ctx context.Context, id string) bool {
	_, err := c.volume(ctx, id)
	return errors.Is(err, errNotFound)
}

// ValidateVolumeCapabilities answers whether a volume can be used in a way.
func (c *controller) ValidateVolumeCapabilities(ctx context.Context, r *csi.ValidateVolumeCapabilitiesRequest) (
	*csi.ValidateVolumeCapabilitiesResponse, error) {
	if r.GetVolumeId() == "" {
		return nil, csidriver.Invalid("Volume ID not provided")
	}
	if len(r.GetVolumeCapabilities()) == 0 {
		return nil, csidriver.Invalid("Volume capabilities not provided")
	}
	if _, err := c.volume(ctx, r.GetVolumeId()); errors.Is(err, errNotFound) {
		return nil, status.Error(codes.NotFound, "Volume not found")
	} else if err != nil {
		return nil, status.Errorf(codes.Internal, "Could not get volume with ID %q: %v", r.GetVolumeId(), err)
	}
	if !checkCapabilities(r.GetVolumeCapabilities()) {
		return &csi.ValidateVolumeCapabilitiesResponse{}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeCapabilities: r.GetVolumeCapabilities()}}, nil
}
