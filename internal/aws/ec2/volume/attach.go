package volume

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/instancetype"
	"github.com/coracle-eks/coracle/internal/record"
)

// attachmentHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) attachmentHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.AttachVolume, resource.Touching[ec2.AttachVolumeInput](s.Records)),
		wire.Handle(s.DetachVolume, s.detachTargets),
	}
}

// deviceNames are the names that a device of a Linux instance may have.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/device_naming.html
var deviceNames = regexp.MustCompile(`^/dev/(sd[a-z]([1-9]|1[0-5])?|xvd[a-z]|xvd[a-d][a-z])$`)

// CheckDevice refuses a name that no device of a volume can have.
func CheckDevice(name string) error {
	switch {
	case name == "":
		return resource.MissingParameter("device")
	case !deviceNames.MatchString(name):
		return resource.InvalidValue(name, "device", name+" is not a valid EBS device name.")
	}
	return nil
}

// SameDevice reports whether two names are of one device.
func SameDevice(a, b string) bool { return deviceLetters(a) == deviceLetters(b) }

// deviceLetters returns what is equal for names of one device: a kernel calls /dev/sdf /dev/xvdf.
func deviceLetters(name string) string {
	letters := strings.TrimPrefix(strings.TrimPrefix(name, "/dev/sd"), "/dev/xvd")
	if letters == "a1" { // the other name of the root device
		return "a"
	}
	return letters
}

// MaxAttachments returns the number of volumes that an instance may have. On most types of the Nitro system they share
// a limit with network interfaces; the seventh and later generations of some families have one of their own.
// https://docs.aws.amazon.com/ebs/latest/userguide/volume_limits.html
func MaxAttachments(kind instancetype.Type, interfaces int) int {
	if kind.Hypervisor == "xen" {
		return 39
	}
	if kind.BareMetal && !dedicated.MatchString(kind.Family) {
		return 31
	}
	if !dedicated.MatchString(kind.Family) {
		return 28 - interfaces - min(1, kind.LocalStorageGB)
	}
	switch {
	case kind.BareMetal && kind.VCPU > 96:
		return 79
	case kind.BareMetal:
		return 39
	case kind.VCPU >= 192:
		return 128
	case kind.VCPU >= 96:
		return 64
	case kind.VCPU >= 64:
		return 48
	}
	return 32
}

// dedicated are the families whose volumes have a limit of their own.
var dedicated = regexp.MustCompile(`^([mcr]7(a|i|i-flex|iz)|[mcrxi]([89]|[1-9][0-9]).*|i7ie?.*|u7i.*|g6f|p5.*|trn2.*)$`)

// CheckAttachments refuses more volumes than an instance may have.
func CheckAttachments(c *resource.Change, r record.Instance) error {
	interfaces, err := c.InterfacesOf(c.Scope, r.ID)
	if err != nil {
		return err
	}
	kind, _ := instancetype.Get(string(r.InstanceType))
	if most := MaxAttachments(kind, len(interfaces)); len(r.BlockDevices) > most {
		return wire.Errorf("AttachmentLimitExceeded",
			"Maximum number of attachments exceeded: instance %s of type %s can have %d volumes.", r.ID, r.InstanceType,
			most)
	}
	return nil
}

// AttachVolume attaches a volume to an instance, running or stopped, in its Availability Zone.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_AttachVolume.html
func (s *Service) AttachVolume(ctx context.Context, in *ec2.AttachVolumeInput) (*ec2.AttachVolumeOutput, error) {
	if n := aws.ToInt32(in.EbsCardIndex); n != 0 {
		return nil, resource.InvalidValue(n, "ebsCardIndex", "The instance type has one EBS card.")
	}
	if err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error { return attach(c, in) }); err != nil {
		return nil, err
	}
	view, err := s.attachment(ctx, *in.InstanceId, *in.VolumeId)
	if err != nil {
		return nil, err
	}
	return &ec2.AttachVolumeOutput{AttachTime: view.AttachTime, DeleteOnTermination: view.DeleteOnTermination,
		Device: view.Device, InstanceId: view.InstanceId, State: types.VolumeAttachmentStateAttaching,
		VolumeId: view.VolumeId}, nil
}

// attachment returns an attachment as it is now.
func (s *Service) attachment(ctx context.Context, instance, volume string) (types.VolumeAttachment, error) {
	sc, err := resource.ScopeOf(ctx)
	if err != nil {
		return types.VolumeAttachment{}, err
	}
	r, err := s.Instances.GetRecord(sc, &instance)
	if err != nil {
		return types.VolumeAttachment{}, err
	}
	view, there := s.ShowAttachment(sc, r, volume)
	if !there {
		err = wire.Errorf("IncorrectState", "Volume '%s' is no longer attached to instance '%s'.", volume, instance)
	}
	return view, err
}

func attach(c *resource.Change, in *ec2.AttachVolumeInput) error {
	name := aws.ToString(in.Device)
	if err := CheckDevice(name); err != nil {
		return err
	}
	// What is checked is what is written: both records are those that the change replaces.
	return c.Instances.UpdateRecord(c, aws.ToString(in.InstanceId), func(r *record.Instance) error {
		switch state := c.InstanceState(c.Scope, *r); state {
		case types.InstanceStateNameRunning, types.InstanceStateNameStopped, types.InstanceStateNameStopping:
		default:
			return wire.Errorf("IncorrectState", "Instance '%s' is not 'running': it is '%s'.", r.ID, state)
		}
		return c.Volumes.UpdateRecord(c, aws.ToString(in.VolumeId), func(v *record.Volume) error {
			return attachTo(c, v, r, name)
		})
	})
}

// attachTo attaches a volume to an instance as a device.
func attachTo(c *resource.Change, v *record.Volume, r *record.Instance, name string) error {
	if err := checkAttachable(c, *v, *r); err != nil {
		return err
	}
	if slices.ContainsFunc(r.BlockDevices, func(b record.InstanceBlockDevice) bool {
		return SameDevice(b.DeviceName, name)
	}) {
		return resource.Invalid("Invalid value '%s' for unixDevice. Attachment point %s is already in use", name, name)
	}
	if v.Encrypted {
		if _, err := c.UseKey(c.Scope, v.KMSKeyID, v.ID, AttachActions...); err != nil {
			return err
		}
	}
	v.Attach(r.ID)
	r.BlockDevices = append(slices.Clone(r.BlockDevices), record.InstanceBlockDevice{
		DeviceName: name, VolumeID: v.ID, AttachedAt: c.Now().UTC(),
	})
	return CheckAttachments(c, *r)
}

// maxMultiAttach is the number of instances to which a volume with Multi-Attach may be attached.
// https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volumes-multi.html
const maxMultiAttach = record.MaxMultiAttach

// checkAttachable refuses to attach a volume to an instance of another zone, to one that has it, and to more than one.
func checkAttachable(c *resource.Change, v record.Volume, r record.Instance) error {
	disk, _, err := c.ObserveDisk(v.ID)
	if err != nil {
		return err
	}
	attached := v.InstanceIDs()
	switch state := resource.VolumeState(v, disk); {
	case v.AvailabilityZone != r.AvailabilityZone:
		return wire.Errorf("InvalidVolume.ZoneMismatch", "The volume '%s' is not in the same availability zone as "+
			"instance '%s'", v.ID, r.ID)
	case slices.Contains(attached, r.ID):
		return wire.Errorf("VolumeInUse", "%s is already attached to an instance", v.ID)
	case len(attached) > 0 && !v.MultiAttach:
		return wire.Errorf("VolumeInUse", "%s is already attached to an instance", v.ID)
	case state != types.VolumeStateAvailable && state != types.VolumeStateInUse:
		return wire.Errorf("IncorrectState", "%s is not 'available'.", v.ID)
	case !v.MultiAttach && isSeenElsewhere(disk, r.ID):
		return wire.Errorf("VolumeInUse", "%s is still in use by an instance that it is detached from", v.ID)
	case len(attached) >= maxMultiAttach:
		return wire.Errorf("AttachmentLimitExceeded", "Volume %s is attached to %d instances, which is the maximum.",
			v.ID, maxMultiAttach)
	case v.Diskless:
		return noDisk(v.ID, "attached")
	case v.MultiAttach && !isNitro(r):
		return wire.Errorf("UnsupportedOperation",
			"The instance type %s does not support Multi-Attach: use one of the Nitro system.", r.InstanceType)
	}
	return nil
}

// isSeenElsewhere reports whether a disk was seen in the machine of another instance.
func isSeenElsewhere(disk record.VolumeDisk, instance string) bool {
	return slices.ContainsFunc(disk.Attachments, func(a record.DiskAttachment) bool { return a.InstanceID != instance })
}

func isNitro(r record.Instance) bool {
	kind, _ := instancetype.Get(string(r.InstanceType))
	return kind.Hypervisor != "xen"
}

// detachTargets returns the volume and the instance that it is attached to, whether the request names that or not.
func (s *Service) detachTargets(ctx context.Context, action string, in *ec2.DetachVolumeInput) ([]wire.Target, error) {
	sc, err := resource.ScopeOf(ctx)
	if err != nil {
		return nil, err
	}
	volume := aws.ToString(in.VolumeId)
	targets := []wire.Target{s.ResourceTarget(sc, action, types.ResourceTypeVolume, volume)}
	instances := []string{}
	if in.InstanceId != nil {
		instances = append(instances, *in.InstanceId)
	} else if v, err := s.Volumes.GetRecord(sc, in.VolumeId); err == nil {
		instances = v.InstanceIDs()
	} else if !resource.IsRefusal(err) {
		return nil, err
	}
	for _, id := range instances {
		targets = append(targets, s.ResourceTarget(sc, action, types.ResourceTypeInstance, id))
	}
	return targets, nil
}

// DetachVolume requests the detachment of a volume from an instance. It is detached when the host has seen that: while
// the instance has mounted it, it is busy. The same request again changes nothing: to the EBS CSI driver an error would
// say that the volume is detached.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DetachVolume.html
func (s *Service) DetachVolume(ctx context.Context, in *ec2.DetachVolumeInput) (*ec2.DetachVolumeOutput, error) {
	var view types.VolumeAttachment
	err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) (err error) {
		view, err = detach(c, in)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &ec2.DetachVolumeOutput{AttachTime: view.AttachTime, DeleteOnTermination: view.DeleteOnTermination,
		Device: view.Device, InstanceId: view.InstanceId, State: view.State, VolumeId: view.VolumeId}, nil
}

func detach(c *resource.Change, in *ec2.DetachVolumeInput) (types.VolumeAttachment, error) {
	view := types.VolumeAttachment{}
	row, err := c.Volumes.Get(c.Scope, aws.ToString(in.VolumeId))
	if err != nil {
		return view, err
	}
	v := row.Value
	attached := v.InstanceIDs()
	instance := aws.ToString(in.InstanceId)
	switch {
	case in.InstanceId != nil:
		if _, err := c.Instances.GetRecord(c.Scope, in.InstanceId); err != nil {
			return view, err
		}
		if !slices.Contains(attached, instance) {
			return view, wire.Errorf("InvalidAttachment.NotFound",
				"Volume '%s' is not attached to instance '%s'.", v.ID, instance)
		}
	case len(attached) == 0:
		return view, wire.Errorf("IncorrectState", "Volume '%s' is in the 'available' state.", v.ID)
	case len(attached) > 1:
		return view, wire.Errorf("InvalidParameterCombination",
			"Volume '%s' is attached to %d instances. Specify the instance ID.", v.ID, len(attached))
	default:
		instance = attached[0]
	}
	err = c.Instances.UpdateRecord(c, instance, func(r *record.Instance) error {
		i := slices.IndexFunc(r.BlockDevices, func(b record.InstanceBlockDevice) bool { return b.VolumeID == v.ID })
		switch {
		case i < 0:
			return wire.Errorf("IncorrectState", "Volume '%s' is in the 'available' state.", v.ID)
		case in.Device != nil && *in.Device != r.BlockDevices[i].DeviceName:
			return wire.Errorf("InvalidAttachment.NotFound", "Volume '%s' is not attached to instance '%s' as %s.", v.ID,
				r.ID, *in.Device)
		case v.Diskless || r.BlockDevices[i].Root:
			return wire.Errorf("OperationNotPermitted",
				"Unable to detach root volume '%s' from instance '%s': in coracle it stays with its instance, also while "+
					"that is stopped.", v.ID, r.ID)
		}
		r.BlockDevices = slices.Clone(r.BlockDevices)
		b := &r.BlockDevices[i]
		if b.Detaching.IsZero() {
			b.Detaching = c.Now().UTC()
		}
		b.Force = b.Force || aws.ToBool(in.Force)
		view, _ = c.ShowAttachment(c.Scope, *r, v.ID)
		return nil
	})
	if err != nil {
		return view, err
	}
	c.Volumes.Hold(c, row)
	return view, nil
}
