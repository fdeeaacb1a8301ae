//go:build linux

package ebscsi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coracle-eks/coracle/internal/guest/csidriver"
)

// ControllerExpandVolume makes a volume larger; its file system grows on the node.
func (c *controller) ControllerExpandVolume(ctx context.Context, r *csi.ControllerExpandVolumeRequest) (
	*csi.ControllerExpandVolumeResponse, error) {
	if r.GetVolumeId() == "" {
		return nil, csidriver.Invalid("Volume ID not provided")
	}
	if r.GetCapacityRange() == nil {
		return nil, csidriver.Invalid("Capacity range not provided")
	}
	size, err := roundSize(r.GetCapacityRange(), 0)
	if err != nil {
		return nil, err
	}
	end, err := c.working.Begin("modify " + r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer end()
	actual, err := c.modify(ctx, r.GetVolumeId(), size, change{})
	if err != nil {
		return nil, modifyError(r.GetVolumeId(), err)
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: int64(actual) * gib,
		NodeExpansionRequired: r.GetVolumeCapability().GetBlock() == nil}, nil
}

// ControllerModifyVolume makes a volume what its VolumeAttributesClass says.
func (c *controller) ControllerModifyVolume(ctx context.Context, r *csi.ControllerModifyVolumeRequest) (
	*csi.ControllerModifyVolumeResponse, error) {
	id := r.GetVolumeId()
	if id == "" {
		return nil, csidriver.Invalid("Volume ID not provided")
	}
	to, err := readAttributesClass(r.GetMutableParameters())
	if err != nil {
		return nil, err
	}
	if to.iops != 0 && to.iopsPerGB != 0 {
		return nil, csidriver.Invalid("invalid VAC parameter; specify either IOPS or IOPSPerGb, not both")
	}
	tags, err := evaluateTags(to.templates, to.of, false)
	if err != nil {
		return nil, csidriver.Invalid("Invalid tag value: %v", err)
	}
	maps.Copy(tags, to.tags)
	end, err := c.working.Begin("modify " + id)
	if err != nil {
		return nil, err
	}
	defer end()
	if _, err := c.volume(ctx, id); err != nil {
		return nil, modifyError(id, err)
	}
	if len(to.deletes) > 0 {
		in := &ec2.DeleteTagsInput{Resources: []string{id}}
		for _, key := range to.deletes {
			in.Tags = append(in.Tags, types.Tag{Key: aws.String(key)})
		}
		_, err = c.ec2.DeleteTags(ctx, in)
	}
	if err == nil && len(tags) > 0 {
		_, err = c.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: listTags(tags)})
	}
	if err != nil {
		return nil, status.Errorf(codes.Internal, "Could not modify volume tags %q: %v", id, err)
	}
	if to.iops != 0 || to.throughput != 0 || to.kind != "" || to.iopsPerGB != 0 {
		_, err = c.modify(ctx, id, 0, to)
	}
	if err == nil {
		return &csi.ControllerModifyVolumeResponse{}, nil
	}
	if err = modifyError(id, err); len(tags)+len(to.deletes) > 0 && status.Code(err) == codes.InvalidArgument {
		// What was infeasible is taken to have changed nothing, and tags have changed.
		err = status.Error(codes.Internal, status.Convert(err).Message())
	}
	return nil, err
}

// modifyError gives an error the code that the resizer goes by.
func modifyError(id string, err error) error {
	code := codes.Internal
	switch {
	case errors.Is(err, errNotFound):
		code = codes.NotFound
	case csidriver.HasCode(err, "InvalidParameterValue", "InvalidParameterCombination", "InvalidParameter"):
		code = codes.InvalidArgument
	case csidriver.HasCode(err, "VolumeModificationSizeLimitExceeded", "MaxIOPSLimitExceeded"):
		code = codes.ResourceExhausted
	}
	return status.Errorf(code, "Could not modify volume %q: %v", id, err)
}

// modify gives a volume another size (unless it is 0), type or performance, waits until it has it, and returns its
// size.
func (c *controller) modify(ctx context.Context, id string, size int32, to change) (int32, error) {
	v, err := c.volume(ctx, id)
	if err != nil {
		return 0, err
	}
	if state, err := c.modification(ctx, id); err != nil {
		return 0, err
	} else if state == types.VolumeModificationStateModifying {
		return c.awaitModification(ctx, id, size, to)
	}
	in := &ec2.ModifyVolumeInput{VolumeId: &id}
	if size > aws.ToInt32(v.Size) {
		in.Size = &size
	}
	kind := cmp.Or(to.kind, string(v.VolumeType))
	if !strings.EqualFold(kind, string(v.VolumeType)) {
		in.VolumeType = types.VolumeType(kind)
	}
	if to.throughput != 0 && to.throughput != aws.ToInt32(v.Throughput) {
		in.Throughput = &to.throughput
	}
	if iops := wantedIOPS(v, max(size, aws.ToInt32(v.Size)), kind, to); iops != 0 {
		to.iops = iops
		if iops != aws.ToInt32(v.Iops) {
			in.Iops = &iops
		}
	}
	if in.Size == nil && in.VolumeType == "" && in.Throughput == nil && in.Iops == nil {
		return c.awaitModification(ctx, id, size, to)
	}
	if _, err := c.ec2.ModifyVolume(ctx, in); err != nil {
		return 0, err
	}
	return c.awaitModification(ctx, id, size, to)
}

// wantedIOPS returns the IOPS that a volume of a size is to have, 0 for those that it has. The ratio is that of the
// change, or of the tags that the volume got from its class.
func wantedIOPS(v types.Volume, size int32, kind string, to change) int32 {
	iops, ratio, more := int64(to.iops), int64(to.iopsPerGB), to.moreIOPS
	for _, tag := range v.Tags {
		switch aws.ToString(tag.Key) {
		case tagIOPSPerGB:
			if n, err := strconv.ParseInt(aws.ToString(tag.Value), 10, 32); err == nil && ratio == 0 {
				ratio = n
			}
		case tagMoreIOPS:
			more = more || aws.ToString(tag.Value) == "true"
		}
	}
	if iops == 0 && more {
		iops = ratio * int64(size)
	}
	return boundIOPS(kind, size, iops, true)
}

// modification returns the state of the last modification of a volume, "" when it never had one.
func (c *controller) modification(ctx context.Context, id string) (types.VolumeModificationState, error) {
	out, err := c.ec2.DescribeVolumesModifications(ctx, &ec2.DescribeVolumesModificationsInput{VolumeIds: []string{id}})
	if csidriver.HasCode(err, "InvalidVolumeModification.NotFound") || err == nil && len(out.VolumesModifications) == 0 {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("error fetching volume modifications for %q: %w", id, err)
	}
	return out.VolumesModifications[len(out.VolumesModifications)-1].ModificationState, nil
}

// awaitModification waits until no modification is under way, and returns the size of the volume if it is what was
// asked for.
func (c *controller) awaitModification(ctx context.Context, id string, size int32, to change) (int32, error) {
	if err := csidriver.Poll(ctx, func() (bool, error) {
		state, err := c.modification(ctx, id)
		return state != types.VolumeModificationStateModifying, err
	}); err != nil {
		return 0, err
	}
	v, err := c.volume(ctx, id)
	if err != nil {
		return 0, err
	}
	switch is := aws.ToInt32(v.Size); {
	case is < size:
		return is, fmt.Errorf("volume %q is still being expanded to %d size", id, size)
	case to.iops != 0 && aws.ToInt32(v.Iops) != to.iops:
		return is, fmt.Errorf("volume %q is still being modified to iops %d", id, to.iops)
	case to.kind != "" && !strings.EqualFold(string(v.VolumeType), to.kind):
		return is, fmt.Errorf("volume %q is still being modified to type %q", id, to.kind)
	case to.throughput != 0 && aws.ToInt32(v.Throughput) != to.throughput:
		return is, fmt.Errorf("volume %q is still being modified to throughput %d", id, to.throughput)
	default:
		return is, nil
	}
}
