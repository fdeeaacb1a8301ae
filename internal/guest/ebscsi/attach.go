//go:build linux

package ebscsi

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coracle-eks/coracle/internal/guest/csidriver"
)

// devicePath is the key under which nodes are told the device of a volume.
const devicePath = "devicePath"

// devices has the names of devices that volumes are being attached as, by instance. Its zero value is ready.
type devices struct {
	mu    sync.Mutex
	taken map[string]map[string]string // volumes by name
	bad   map[string]map[string]bool   // names that EC2 did not take
}

// pick returns the device name of a volume: the one it has, or a free one, which is kept until release.
func (d *devices) pick(instance types.Instance, volume string) (name string, attached bool, release func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := aws.ToString(instance.InstanceId)
	used := make(map[string]bool)
	for _, m := range instance.BlockDeviceMappings {
		if m.Ebs != nil && aws.ToString(m.Ebs.VolumeId) == volume {
			return aws.ToString(m.DeviceName), true, func() {}, nil
		}
		used[aws.ToString(m.DeviceName)] = true
	}
	for _, last := range []bool{false, true} {
		for _, name := range deviceNames() {
			if used[name] || d.taken[id][name] != "" || d.bad[id][name] != last {
				continue
			}
			if d.taken == nil {
				d.taken = make(map[string]map[string]string)
			}
			if d.taken[id] == nil {
				d.taken[id] = make(map[string]string)
			}
			d.taken[id][name] = volume
			return name, false, func() {
				d.mu.Lock()
				defer d.mu.Unlock()
				delete(d.taken[id], name)
				if len(d.taken[id]) == 0 {
					delete(d.taken, id)
				}
			}, nil
		}
	}
	return "", false, nil, fmt.Errorf("could not get a free device name to assign to node %s", id)
}

// refuse makes a name the last choice on an instance.
func (d *devices) refuse(instance, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bad == nil {
		d.bad = make(map[string]map[string]bool)
	}
	if d.bad[instance] == nil {
		d.bad[instance] = make(map[string]bool)
	}
	d.bad[instance][name] = true
}

// deviceNames returns the names that EC2 takes: /dev/xvdaa to /dev/xvddx.
func deviceNames() (names []string) {
	for _, a := range "abcd" {
		for _, b := range "abcdefghijklmnopqrstuvwxyz" {
			if name := "/dev/xvd" + string(a) + string(b); name <= "/dev/xvddx" {
				names = append(names, name)
			}
		}
	}
	return names
}

// instance describes an instance; the error is errNotFound when there is none.
func (c *controller) instance(ctx context.Context, id string) (types.Instance, error) {
	out, err := c.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if csidriver.HasCode(err, "InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed") ||
		err == nil && (len(out.Reservations) == 0 || len(out.Reservations[0].Instances) == 0) {
		return types.Instance{}, errNotFound
	}
	if err != nil {
		return types.Instance{}, err
	}
	return out.Reservations[0].Instances[0], nil
}

// ControllerPublishVolume attaches a volume to the instance of a node.
func (c *controller) ControllerPublishVolume(ctx context.Context, r *csi.ControllerPublishVolumeRequest) (
	*csi.ControllerPublishVolumeResponse, error) {
	switch {
	case r.GetVolumeId() == "":
		return nil, csidriver.Invalid("Volume ID not provided")
	case r.GetNodeId() == "":
		return nil, csidriver.Invalid("Node ID not provided")
	case r.GetVolumeCapability() == nil:
		return nil, csidriver.Invalid("Volume capability not provided")
	case !checkCapability(r.GetVolumeCapability()):
		return nil, csidriver.Invalid("Volume capability not supported")
	}
	end, err := c.working.Begin(r.GetVolumeId() + r.GetNodeId())
	if err != nil {
		return nil, err
	}
	defer end()
	device, err := c.attach(ctx, r.GetVolumeId(), r.GetNodeId())
	switch {
	case errors.Is(err, errNotFound):
		return nil, status.Errorf(codes.NotFound, "Volume %q or node %q not found", r.GetVolumeId(), r.GetNodeId())
	case csidriver.HasCode(err, "AttachmentLimitExceeded"):
		return nil, status.Errorf(codes.ResourceExhausted, "Attachment limit exceeded for volume %q on node %q: %v",
			r.GetVolumeId(), r.GetNodeId(), err)
	case err != nil:
		return nil, status.Errorf(codes.Internal, "Could not attach volume %q to node %q: %v", r.GetVolumeId(),
			r.GetNodeId(), err)
	}
	return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{devicePath: device}}, nil
}

// attach attaches a volume and returns the name of its device.
func (c *controller) attach(ctx context.Context, volume, node string) (string, error) {
	instance, err := c.instance(ctx, node)
	if err != nil {
		return "", err
	}
	device, attached, release, err := c.devices.pick(instance, volume)
	if err != nil {
		return "", err
	}
	defer release()
	if !attached {
		_, err := c.ec2.AttachVolume(ctx, &ec2.AttachVolumeInput{VolumeId: &volume, InstanceId: &node, Device: &device})
		if csidriver.HasCode(err, "InvalidParameterValue") {
			c.devices.refuse(node, device)
		}
		if csidriver.HasCode(err, "InvalidVolume.NotFound") {
			return "", errNotFound
		}
		if err != nil {
			return "", err
		}
	}
	return device, c.awaitAttachment(ctx, volume, node, device)
}

// stuck is how long a volume may be attaching before it is detached, so that another request begins anew.
const stuck = 90 * time.Second

// awaitAttachment waits until the volume is attached to the instance; as no device: until it is not.
func (c *controller) awaitAttachment(ctx context.Context, volume, node, device string) error {
	return csidriver.Poll(ctx, func() (bool, error) {
		v, err := c.volume(ctx, volume)
		if errors.Is(err, errNotFound) {
			if device == "" {
				return true, nil
			}
			return false, err
		}
		if err != nil {
			return false, nil //nolint:nilerr // asked again
		}
		var at *types.VolumeAttachment
		for i := range v.Attachments {
			if aws.ToString(v.Attachments[i].InstanceId) == node {
				at = &v.Attachments[i]
			}
		}
		switch {
		case device == "":
			return at == nil || at.State == types.VolumeAttachmentStateDetached, nil
		case at == nil || at.State == types.VolumeAttachmentStateDetached:
			return false, fmt.Errorf("attachment of disk %q failed, expected device to be attached but was detached", volume)
		case at.State == types.VolumeAttachmentStateAttaching && time.Since(aws.ToTime(at.AttachTime)) > stuck:
			_, err := c.ec2.DetachVolume(ctx, &ec2.DetachVolumeInput{VolumeId: &volume, InstanceId: &node})
			return false, errors.Join(err, fmt.Errorf("%q stuck in attaching state for longer than %v", volume, stuck))
		}
		return at.State == types.VolumeAttachmentStateAttached && aws.ToString(at.Device) == device, nil
	})
}

// ControllerUnpublishVolume detaches a volume from the instance of a node, if it is attached.
func (c *controller) ControllerUnpublishVolume(ctx context.Context, r *csi.ControllerUnpublishVolumeRequest) (
	*csi.ControllerUnpublishVolumeResponse, error) {
	volume, node := r.GetVolumeId(), r.GetNodeId()
	if volume == "" {
		return nil, csidriver.Invalid("Volume ID not provided")
	}
	if node == "" {
		return nil, csidriver.Invalid("Node ID not provided")
	}
	end, err := c.working.Begin(volume + node)
	if err != nil {
		return nil, err
	}
	defer end()
	_, err = c.ec2.DetachVolume(ctx, &ec2.DetachVolumeInput{VolumeId: &volume, InstanceId: &node})
	if csidriver.HasCode(err, "IncorrectState", "InvalidAttachment.NotFound", "InvalidInstanceID.NotFound",
		"InvalidInstanceID.Malformed") || isMissingVolume(err, volume) {
		err = nil // it may be on its way
	}
	if err == nil {
		err = c.awaitAttachment(ctx, volume, node, "")
	}
	if err != nil {
		return nil, status.Errorf(codes.Internal, "Could not detach volume %q from node %q: %v", volume, node, err)
	}
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}
