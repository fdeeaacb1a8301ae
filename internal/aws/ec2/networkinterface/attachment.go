package networkinterface

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/instancetype"
	"github.com/coracle-eks/coracle/internal/record"
)

func viewAttachment(r record.NetworkInterface) *types.NetworkInterfaceAttachment {
	a := r.Attachment
	if a == nil {
		return nil
	}
	return &types.NetworkInterfaceAttachment{
		AttachTime:          aws.Time(a.AttachedAt),
		AttachmentId:        aws.String(a.ID),
		DeleteOnTermination: aws.Bool(a.DeleteOnTermination),
		DeviceIndex:         aws.Int32(a.DeviceIndex),
		InstanceId:          resource.OrNil(r.ShownInstanceID()),
		InstanceOwnerId:     aws.String(a.InstanceOwnerID),
		NetworkCardIndex:    aws.Int32(a.NetworkCardIndex),
		Status:              types.AttachmentStatusAttached,
	}
}

func missingAttachment(id string) error {
	return wire.Errorf("InvalidAttachmentID.NotFound", "Attachment '%s' does not exist", id)
}

// attachmentHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) attachmentHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.AttachNetworkInterface, resource.Touching[ec2.AttachNetworkInterfaceInput](s.Records)),
		wire.Handle(s.DetachNetworkInterface, resource.Touching[ec2.DetachNetworkInterfaceInput](s.Records)),
	}
}

// AttachNetworkInterface attaches a network interface to an instance of its zone, within the limits of the instance's
// type.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/AvailableIpPerENI.html
func (s *Service) AttachNetworkInterface(ctx context.Context, in *ec2.AttachNetworkInterfaceInput) (
	*ec2.AttachNetworkInterfaceOutput, error) {
	attachment := resource.NewID("eni-attach-")
	err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		switch {
		case in.DeviceIndex == nil:
			return resource.MissingParameter("deviceIndex")
		case *in.DeviceIndex < 0:
			return resource.InvalidValue(*in.DeviceIndex, "deviceIndex", "Device indexes begin at 0.")
		case aws.ToInt32(in.NetworkCardIndex) != 0:
			return resource.InvalidValue(*in.NetworkCardIndex, "networkCardIndex",
				"The instance has one network card, with the index 0.")
		}
		return Edit(c, in.NetworkInterfaceId, func(ni *record.NetworkInterface) error {
			if err := CheckFree(c, *ni); err != nil {
				return err
			}
			r, err := s.Instances.GetRecord(c.Scope, in.InstanceId)
			if err != nil {
				return err
			}
			if state := s.InstanceState(c.Scope, r); state == types.InstanceStateNameShuttingDown ||
				state == types.InstanceStateNameTerminated {
				return resource.IncorrectInstanceState(r.ID, state)
			}
			// The row is written, so that of two interfaces at the same time only one gets the last place.
			if err := s.Instances.ClaimRecord(c, r.ID); err != nil {
				return err
			}
			if ni.VPCID != r.VPCID || ni.AvailabilityZone != r.AvailabilityZone {
				return wire.Errorf("InvalidParameterCombination",
					"You may not attach a network interface to an instance if they are not in the same availability zone")
			}
			there, err := s.InterfacesOf(c.Scope, r.ID)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(there,
				func(other record.NetworkInterface) bool { return other.Attachment.DeviceIndex == *in.DeviceIndex }) {
				return resource.Invalid("Instance '%s' already has an interface attached at device index '%d'.", r.ID,
					*in.DeviceIndex)
			}
			kind, _ := instancetype.Get(string(r.InstanceType))
			if len(there)+1 > kind.MaxENIs {
				return InterfaceLimitExceeded(len(there)+1, kind.Name)
			}
			if err := CheckTrunk(*ni, there, kind); err != nil {
				return err
			}
			if err := CheckAddressLimit(*ni, kind); err != nil {
				return err
			}
			ni.Attachment = &record.NetworkInterfaceAttachment{
				ID: attachment, InstanceID: r.ID, InstanceOwnerID: r.Account, DeviceIndex: *in.DeviceIndex,
				AttachedAt: s.Now().UTC(),
			}
			return nil
		})
	})
	return &ec2.AttachNetworkInterfaceOutput{AttachmentId: aws.String(attachment), NetworkCardIndex: aws.Int32(0)}, err
}

// CheckAddressLimit refuses an interface with more addresses than a type of instance has on each. A prefix takes the
// place of an address.
func CheckAddressLimit(ni record.NetworkInterface, kind instancetype.Type) error {
	if len(ni.PrivateIPs)+len(ni.IPv4Prefixes) > kind.IPv4PerENI || len(ni.IPv6IPs)+
		len(ni.IPv6Prefixes) > kind.IPv6PerENI {
		return AddressLimitExceeded()
	}
	return nil
}

// fitsHolder calls fits for the instance that an interface is attached to, if there is one.
func fitsHolder(c *resource.Change, ni record.NetworkInterface) error {
	if ni.Attachment == nil || ni.Attachment.InstanceID == "" {
		return nil
	}
	r, err := c.Instances.GetRecord(c.Scope, &ni.Attachment.InstanceID)
	if err != nil {
		return err
	}
	kind, _ := instancetype.Get(string(r.InstanceType))
	return CheckAddressLimit(ni, kind)
}

// DetachNetworkInterface ends an attachment. The primary interface of an instance stays with it.
func (s *Service) DetachNetworkInterface(ctx context.Context, in *ec2.DetachNetworkInterfaceInput) (
	*ec2.DetachNetworkInterfaceOutput, error) {
	return &ec2.DetachNetworkInterfaceOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		id := aws.ToString(in.AttachmentId)
		if id == "" {
			return resource.MissingParameter("attachmentId")
		}
		found, err := s.NetworkInterfaces.List(c.Scope, func(r record.NetworkInterface) bool {
			return r.Attachment != nil &&
				r.Attachment.ID == id
		})
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return missingAttachment(id)
		}
		if found[0].RequesterManaged && CheckRequester(c, found[0]) != nil {
			return wire.Errorf("OperationNotPermitted", "You are not allowed to manage '%s' attachments.", "ela-attach")
		}
		if a := found[0].Attachment; a.InstanceID != "" && a.DeviceIndex == 0 {
			return wire.Errorf("OperationNotPermitted",
				"The network interface at device index 0 and networkCard index %d cannot be detached.",
				a.NetworkCardIndex)
		}
		return Edit(c, &found[0].ID, func(r *record.NetworkInterface) error {
			r.Attachment = nil
			return nil
		})
	})
}

// InterfaceLimitExceeded returns the error about more interfaces than a type of instance has.
func InterfaceLimitExceeded(count int, kind string) error {
	return wire.Errorf("AttachmentLimitExceeded", "Interface count %d exceeds the limit for %s", count, kind)
}

// AddressLimitExceeded returns the error about more addresses than an interface may have.
func AddressLimitExceeded() error {
	return wire.Errorf("PrivateIpAddressLimitExceeded", "Number of private addresses will exceed limit.")
}
