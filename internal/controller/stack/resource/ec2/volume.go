package ec2

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

var volumes = kind[types.Volume]{
	resource: types.ResourceTypeVolume,
	list: func(ctx context.Context, c *ec2.Client, ids []string, filters []types.Filter) ([]types.Volume, error) {
		out, err := c.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{VolumeIds: ids, Filters: filters})
		if err != nil {
			return nil, err
		}
		return out.Volumes, nil
	},
	id:   func(v *types.Volume) *string { return v.VolumeId },
	gone: func(v *types.Volume) bool { return v.State == types.VolumeStateDeleted },
}

// performance are the properties that ModifyVolume changes.
var performance = []string{"VolumeType", "Size", "Iops", "Throughput", "MultiAttachEnabled"}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-volume.html
var volume = resource.Type{
	Tagged:  true,
	Refused: []string{"OutpostArn", "VolumeInitializationRate"},
	Fixed: []string{"AvailabilityZone", "AvailabilityZoneId", "Encrypted", "KmsKeyId", "SnapshotId",
		"SourceVolumeId"},
	Handler: resource.Handle(resource.Table[*ec2.Client, types.Volume]{
		Client:   client,
		Create:   createVolume,
		Find:     volumes.find,
		Describe: volumes.describe,
		State: func(v *types.Volume) (resource.State, error) {
			switch v.State {
			case types.VolumeStateCreating:
				return resource.Creating, nil
			case types.VolumeStateDeleting:
				return resource.Deleting, nil
			case types.VolumeStateDeleted:
				return resource.Gone, nil
			case types.VolumeStateError:
				return resource.Ready, resource.Errorf(resource.NotStabilized, "volume %s is in the state error: "+
					"DescribeVolumeStatus says why", aws.ToString(v.VolumeId))
			}
			return resource.Ready, nil
		},
		Configure: []resource.Step[*ec2.Client]{
			{Properties: performance, Update: true, Run: modifyVolume},
			{Properties: []string{"AutoEnableIO"}, Run: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
				_, err := c.ModifyVolumeAttribute(ctx, &ec2.ModifyVolumeAttributeInput{VolumeId: &r.PhysicalID,
					AutoEnableIO: flag(r, "AutoEnableIO", false)})
				return err
			}},
			retag,
		},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			_, err := c.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: &r.PhysicalID})
			return err
		},
		Slow: true,
		Attributes: func(r *resource.Request, _ *types.Volume) map[string]any {
			return map[string]any{"VolumeId": r.PhysicalID}
		},
		Properties: func(ctx context.Context, c *ec2.Client, r *resource.Request, v *types.Volume) (map[string]any, error) {
			out, err := c.DescribeVolumeAttribute(ctx, &ec2.DescribeVolumeAttributeInput{VolumeId: &r.PhysicalID,
				Attribute: types.VolumeAttributeNameAutoEnableIO})
			if err != nil {
				return nil, err
			}
			return encode(v, nil, v.Tags, map[string]any{"AutoEnableIO": out.AutoEnableIO != nil &&
				aws.ToBool(out.AutoEnableIO.Value)}), nil
		},
	}),
}

// copyMembers are the properties that a copy of a volume has of its source.
var copyMembers = resource.Members{"AvailabilityZone": resource.Left, "AvailabilityZoneId": resource.Left}

// createVolume creates a volume: empty, of a snapshot, or as a copy of another.
func createVolume(ctx context.Context, c *ec2.Client, r *resource.Request) (string, error) {
	if r.Text("SourceVolumeId") != "" {
		return resource.Create((*ec2.Client).CopyVolumes, copyMembers, func(out *ec2.CopyVolumesOutput) *string {
			if len(out.Volumes) == 0 {
				return nil
			}
			return out.Volumes[0].VolumeId
		}, func(r *resource.Request, in *ec2.CopyVolumesInput) error {
			in.TagSpecifications = volumes.tags(r)
			return nil
		})(ctx, c, r)
	}
	return resource.Create((*ec2.Client).CreateVolume, nil,
		func(out *ec2.CreateVolumeOutput) *string { return out.VolumeId },
		func(r *resource.Request, in *ec2.CreateVolumeInput) error {
			in.TagSpecifications = volumes.tags(r)
			return nil
		})(ctx, c, r)
}

// modifyVolume modifies a volume that is not yet as the request has it, and waits until it is. What the request leaves
// open stays.
func modifyVolume(ctx context.Context, c *ec2.Client, r *resource.Request) error {
	in := ec2.ModifyVolumeInput{VolumeId: &r.PhysicalID}
	wanted := map[string]any{}
	for _, name := range performance {
		if value, ok := r.Properties[name]; ok {
			wanted[name] = value
		}
	}
	if err := resource.Decode(wanted, &in, nil); err != nil {
		return err
	}
	out, err := c.DescribeVolumesModifications(ctx, &ec2.DescribeVolumesModificationsInput{
		Filters: []types.Filter{filter("volume-id", r.PhysicalID)}})
	if err != nil {
		return err
	}
	for _, m := range out.VolumesModifications {
		switch m.ModificationState {
		case types.VolumeModificationStateModifying:
			return resource.ErrPending
		case types.VolumeModificationStateFailed: // the hardware tries it again
			if !differs(in, m.TargetVolumeType, m.TargetSize, m.TargetIops, m.TargetThroughput, m.TargetMultiAttachEnabled) {
				return resource.Errorf(resource.NotStabilized, "volume %s is not modified: %s", r.PhysicalID,
					aws.ToString(m.StatusMessage))
			}
		}
	}
	v, err := volumes.describe(ctx, c, r)
	if err != nil || !differs(in, v.VolumeType, v.Size, v.Iops, v.Throughput, v.MultiAttachEnabled) {
		return err
	}
	if _, err := c.ModifyVolume(ctx, &in); err != nil {
		return err
	}
	return resource.ErrPending
}

// differs reports whether a request for a modification wants something else than is.
func differs(in ec2.ModifyVolumeInput, kind types.VolumeType, size, iops, throughput *int32, multiAttach *bool) bool {
	other := func(want, is *int32) bool { return want != nil && *want != aws.ToInt32(is) }
	return in.VolumeType != "" && in.VolumeType != kind || other(in.Size, size) || other(in.Iops, iops) ||
		other(in.Throughput, throughput) ||
		in.MultiAttachEnabled != nil && *in.MultiAttachEnabled != aws.ToBool(multiAttach)
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-volumeattachment.html
var volumeAttachment = resource.Type{
	Handler: resource.Note(resource.Table[*ec2.Client, types.VolumeAttachment]{
		Client: client,
		Create: func(ctx context.Context, c *ec2.Client, r *resource.Request) (string, error) {
			// The volume of a stack is there when it is attached; what was detached from another instance may not be.
			v, err := volumes.get(ctx, c, r.Text("VolumeId"))
			if err != nil {
				return "", err
			}
			if v.State == types.VolumeStateCreating {
				return "", resource.Errorf(resource.ResourceConflict, "volume %s is in the state creating", r.Text("VolumeId"))
			}
			return resource.Create((*ec2.Client).AttachVolume, nil, func(out *ec2.AttachVolumeOutput) *string {
				return new(attachmentID(aws.ToString(out.VolumeId), aws.ToString(out.InstanceId)))
			})(ctx, c, r)
		},
		Find: func(ctx context.Context, c *ec2.Client, r *resource.Request) (string, error) {
			id := attachmentID(r.Text("VolumeId"), r.Text("InstanceId"))
			if _, err := findAttachment(ctx, c, id); err != nil {
				return "", err
			}
			return id, nil
		},
		Describe: func(ctx context.Context, c *ec2.Client, r *resource.Request) (*types.VolumeAttachment, error) {
			return findAttachment(ctx, c, r.PhysicalID)
		},
		State: func(a *types.VolumeAttachment) (resource.State, error) {
			switch a.State {
			case types.VolumeAttachmentStateAttaching:
				return resource.Creating, nil
			case types.VolumeAttachmentStateDetaching, types.VolumeAttachmentStateBusy:
				return resource.Deleting, nil
			case types.VolumeAttachmentStateDetached:
				return resource.Gone, nil
			}
			return resource.Ready, nil
		},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			volume, instance, _ := strings.Cut(r.PhysicalID, "|")
			_, err := c.DetachVolume(ctx, &ec2.DetachVolumeInput{VolumeId: &volume, InstanceId: &instance})
			if resource.HasCode(err, "IncorrectState") { // it is not attached
				if _, gone := findAttachment(ctx, c, r.PhysicalID); resource.IsNotFound(gone) {
					return gone
				}
			}
			return err
		},
		Slow: true,
		Properties: func(_ context.Context, _ *ec2.Client, _ *resource.Request, a *types.VolumeAttachment) (
			map[string]any, error) {
			return map[string]any{"VolumeId": aws.ToString(a.VolumeId), "InstanceId": aws.ToString(a.InstanceId),
				"Device": aws.ToString(a.Device)}, nil
		},
	}),
}

// attachmentID returns the physical ID of an attachment, which EC2 has none for.
func attachmentID(volume, instance string) string { return volume + "|" + instance }

// findAttachment returns an attachment by its physical ID.
func findAttachment(ctx context.Context, c *ec2.Client, id string) (*types.VolumeAttachment, error) {
	volume, instance, _ := strings.Cut(id, "|")
	v, err := volumes.get(ctx, c, volume)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(v.Attachments, func(a types.VolumeAttachment) bool {
		return aws.ToString(a.InstanceId) == instance
	})
	if at < 0 {
		return nil, resource.ErrNotFound
	}
	return &v.Attachments[at], nil
}
