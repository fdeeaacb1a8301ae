package ec2

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

func viewAttachment(a *record.NetworkInterfaceAttachment) *types.NetworkInterfaceAttachment {
	if a == nil {
		return nil
	}
	return &types.NetworkInterfaceAttachment{
		AttachTime:          aws.Time(a.AttachedAt),
		AttachmentId:        aws.String(a.ID),
		DeleteOnTermination: aws.Bool(a.DeleteOnTermination),
		DeviceIndex:         aws.Int32(a.DeviceIndex),
		InstanceId:          optional(a.InstanceID),
		InstanceOwnerId:     aws.String(a.InstanceOwnerID),
		NetworkCardIndex:    aws.Int32(a.NetworkCardIndex),
		Status:              types.AttachmentStatusAttached,
	}
}

func missingAttachment(id string) error {
	return wire.Errorf("InvalidAttachmentID.NotFound", "Attachment '%s' does not exist", id)
}

// AttachNetworkInterface attaches a network interface to an instance.
func (s *Service) AttachNetworkInterface(ctx context.Context, in *ec2.AttachNetworkInterfaceInput) (*ec2.AttachNetworkInterfaceOutput, error) {
	return nil, s.write(ctx, in.DryRun, func(c *change) error {
		return c.editInterface(in.NetworkInterfaceId, func(r *record.NetworkInterface) error {
			if r.Attachment != nil {
				return wire.Errorf("InvalidNetworkInterface.InUse", "Interface: [%s] in use.", r.ID)
			}
			return noInstance(aws.ToString(in.InstanceId))
		})
	})
}

// DetachNetworkInterface ends an attachment.
func (s *Service) DetachNetworkInterface(ctx context.Context, in *ec2.DetachNetworkInterfaceInput) (*ec2.DetachNetworkInterfaceOutput, error) {
	return &ec2.DetachNetworkInterfaceOutput{}, s.write(ctx, in.DryRun, func(c *change) error {
		id := aws.ToString(in.AttachmentId)
		if id == "" {
			return missing("attachmentId")
		}
		found, err := s.interfaces.list(c.scope, func(r record.NetworkInterface) bool { return r.Attachment != nil && r.Attachment.ID == id })
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return missingAttachment(id)
		}
		if found[0].RequesterManaged && c.mayManage(found[0]) != nil {
			return wire.Errorf("OperationNotPermitted", "You are not allowed to manage '%s' attachments.", "ela-attach")
		}
		return c.editInterface(&found[0].ID, func(r *record.NetworkInterface) error {
			r.Attachment = nil
			return nil
		})
	})
}
