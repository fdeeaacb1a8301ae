package efs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/networkinterface"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// maxMountTargets is the quota of mount targets of a VPC.
// https://docs.aws.amazon.com/efs/latest/ug/limits.html
const maxMountTargets = 400

// requester manages the network interfaces of mount targets.
const requester = "amazon-elasticfilesystem"

// mountTargetHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) mountTargetHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateMountTarget, s.createMountTargetTargets),
		wire.Handle(s.DescribeMountTargets, func(
			ctx context.Context, action string, in *efs.DescribeMountTargetsInput,
		) ([]wire.Target, error) {
			switch {
			case in.AccessPointId != nil:
				return s.onAccessPoint(ctx, action, in.AccessPointId)
			case in.MountTargetId != nil:
				return s.onMountTarget(ctx, action, in.MountTargetId)
			}
			return s.onFileSystem(ctx, action, in.FileSystemId)
		}),
		wire.Handle(s.DeleteMountTarget, func(
			ctx context.Context, action string, in *efs.DeleteMountTargetInput,
		) ([]wire.Target, error) {
			targets, err := s.onMountTarget(ctx, action, in.MountTargetId)
			if err != nil {
				return nil, err
			}
			return s.withInterface(ctx, targets, "ec2:DeleteNetworkInterface", in.MountTargetId)
		}),
	}
}

// createMountTargetTargets returns the file system, and the network interface that EC2 makes for the caller.
// https://docs.aws.amazon.com/efs/latest/ug/API_CreateMountTarget.html
func (s *Service) createMountTargetTargets(ctx context.Context, action string, in *efs.CreateMountTargetInput) (
	[]wire.Target, error) {
	targets, err := s.onFileSystem(ctx, action, in.FileSystemId)
	if err != nil {
		return nil, err
	}
	for _, describe := range []string{"ec2:DescribeSubnets", "ec2:DescribeNetworkInterfaces"} {
		more, err := resource.OnRegion(ctx, describe, in)
		if err != nil {
			return nil, badRequest("%v", err)
		}
		targets = append(targets, more...)
	}
	creating := resource.Creating[ec2.CreateNetworkInterfaceInput](s.ec2, ec2types.ResourceTypeNetworkInterface)
	more, err := creating(ctx, "ec2:CreateNetworkInterface",
		&ec2.CreateNetworkInterfaceInput{SubnetId: in.SubnetId, Groups: in.SecurityGroups})
	return append(targets, more...), err
}

// withInterface adds an action of EC2 on the network interface of a mount target, and on security groups that it gets.
func (s *Service) withInterface(ctx context.Context, targets []wire.Target, action string, id *string,
	groups ...string) ([]wire.Target, error) {
	sc, err := resource.ScopeOf(ctx)
	if err != nil {
		return nil, badRequest("%v", err)
	}
	for _, group := range groups {
		targets = append(targets, s.ec2.ResourceTarget(sc, action, ec2types.ResourceTypeSecurityGroup, group))
	}
	m, err := of(ctx, s.mountTargets, name{placeOf(ctx), aws.ToString(id)})
	if err != nil || m.NetworkInterfaceID == "" {
		return targets, err
	}
	return append(targets, s.ec2.ResourceTarget(sc, action, ec2types.ResourceTypeNetworkInterface,
		m.NetworkInterfaceID)), nil
}

// CreateMountTarget creates a mount target of a file system, with its network interface, in a subnet.
// https://docs.aws.amazon.com/efs/latest/ug/API_CreateMountTarget.html
func (s *Service) CreateMountTarget(ctx context.Context, in *efs.CreateMountTargetInput) (
	*efs.CreateMountTargetOutput, error) {
	at := placeOf(ctx)
	if n := fileSystemName(ctx, in.FileSystemId); n.account != at.account {
		return nil, badRequest("Mount targets are made by the account of the file system: %s", n.account)
	}
	if len(in.SecurityGroups) > resource.MaxSecurityGroupsPerInterface {
		return nil, tooManySecurityGroups(resource.MaxSecurityGroupsPerInterface)
	}
	switch {
	case in.IpAddressType == types.IpAddressTypeIpv6Only:
		return nil, badRequest("IpAddressType IPV6_ONLY is for subnets without IPv4, which coracle does not have: use " +
			"DUAL_STACK.")
	case in.Ipv6Address != nil && in.IpAddressType != types.IpAddressTypeDualStack:
		return nil, badRequest("Ipv6Address is for the IpAddressType DUAL_STACK alone.")
	}
	var m record.MountTarget
	err := s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) (err error) {
		m, err = s.planMountTarget(c, in)
		return err
	})
	if err != nil {
		return nil, err
	}
	d := describeMountTarget(m, record.MountTargetStatus{})
	return &efs.CreateMountTargetOutput{
		FileSystemId: d.FileSystemId, LifeCycleState: d.LifeCycleState, MountTargetId: d.MountTargetId,
		SubnetId: d.SubnetId, AvailabilityZoneId: d.AvailabilityZoneId, AvailabilityZoneName: d.AvailabilityZoneName,
		IpAddress: d.IpAddress, Ipv6Address: d.Ipv6Address, NetworkInterfaceId: d.NetworkInterfaceId, OwnerId: d.OwnerId,
		VpcId: d.VpcId,
	}, nil
}

// planMountTarget plans a mount target with its network interface.
func (s *Service) planMountTarget(c *resource.Change, in *efs.CreateMountTargetInput) (record.MountTarget, error) {
	row, err := s.available(c, in.FileSystemId)
	if err != nil {
		return record.MountTarget{}, err
	}
	f := row.Value
	subnet, err := c.Subnets.GetRecord(c.Scope, in.SubnetId)
	if err != nil {
		return record.MountTarget{}, networkError(err)
	}
	if err := checkSubnet(f, subnet); err != nil {
		return record.MountTarget{}, err
	}
	if err := s.checkMountTargetQuota(c, subnet.VPCID); err != nil {
		return record.MountTarget{}, err
	}
	m := record.MountTarget{
		Account: f.Account, Region: f.Region, ID: newID("fsmt-"), CreatedAt: s.timestamp(), FileSystemID: f.ID,
		VPCID: subnet.VPCID, SubnetID: subnet.ID, AvailabilityZone: subnet.AvailabilityZone,
	}
	ni, err := networkinterface.CreateManaged(c, networkinterface.Managed{
		SubnetID: subnet.ID, Type: record.InterfaceTypeEFS, RequesterID: requester,
		Description: fmt.Sprintf("EFS mount target for %s (%s)", f.ID, m.ID), Address: aws.ToString(in.IpAddress),
		IPv6: in.IpAddressType == types.IpAddressTypeDualStack, IPv6Address: aws.ToString(in.Ipv6Address),
		SecurityGroupIDs: in.SecurityGroups,
	})
	if err != nil {
		return m, networkError(err)
	}
	m.NetworkInterfaceID, m.IPAddress = ni.ID, ni.PrivateIPs[0]
	if len(ni.IPv6IPs) > 0 {
		m.IPv6Address = ni.IPv6IPs[0]
	}
	targets := maps.Clone(f.MountTargets)
	if targets == nil {
		targets = map[string]string{}
	}
	targets[m.AvailabilityZone] = m.ID
	row.Value.MountTargets, row.Value.VPCID = targets, m.VPCID
	c.Add("filesystem/"+f.ID, func() store.Op { return s.fileSystems.UpdateOp(row) })
	c.Add("mounttarget/"+m.ID, func() store.Op { return s.mountTargets.CreateOp(m.Key(), m) })
	return m, nil
}

// checkMountTargetQuota refuses one more mount target in a VPC that has as many as it may. The change holds the VPC, so
// that the count is right when it is committed.
func (s *Service) checkMountTargetQuota(c *resource.Change, vpc string) error {
	if err := c.RequireUnchanged(vpc); err != nil {
		return networkError(err)
	}
	if s.mountTargetsOf.Count(c.Key(vpc)) >= maxMountTargets {
		return &types.NetworkInterfaceLimitExceeded{ErrorCode_: new("NetworkInterfaceLimitExceeded"), Message: text(
			"The VPC '%s' has %d mount targets, which is as many as it may have.", vpc, maxMountTargets)}
	}
	return nil
}

// checkSubnet refuses a subnet in which a file system can have no further mount target.
func checkSubnet(f record.FileSystem, subnet record.Subnet) error {
	switch {
	case f.AvailabilityZone != "" && f.AvailabilityZone != subnet.AvailabilityZone:
		return &types.AvailabilityZonesMismatch{ErrorCode_: new("AvailabilityZonesMismatch"), Message: text(
			"The file system '%s' is in the Availability Zone %s alone, and the subnet '%s' is in %s.", f.ID,
			f.AvailabilityZone, subnet.ID, subnet.AvailabilityZone)}
	case f.VPCID != "" && f.VPCID != subnet.VPCID:
		return mountTargetConflict("The file system '%s' has mount targets in the VPC %s, and the subnet '%s' is in %s: "+
			"all mount targets of a file system are in one VPC.", f.ID, f.VPCID, subnet.ID, subnet.VPCID)
	case f.MountTargets[subnet.AvailabilityZone] != "":
		return mountTargetConflict("mount target already exists in this AZ: %s has %s in %s", f.ID,
			f.MountTargets[subnet.AvailabilityZone], subnet.AvailabilityZone)
	}
	return nil
}

// DescribeMountTargets describes a mount target, or those of a file system or of the file system of an access point.
func (s *Service) DescribeMountTargets(ctx context.Context, in *efs.DescribeMountTargetsInput) (
	*efs.DescribeMountTargetsOutput, error) {
	given := slices.DeleteFunc([]*string{in.FileSystemId, in.MountTargetId, in.AccessPointId},
		func(id *string) bool { return id == nil })
	if len(given) != 1 {
		return nil, badRequest("Give one of FileSystemId, MountTargetId and AccessPointId.")
	}
	found, err := s.findMountTargets(ctx, in)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b record.MountTarget) int { return strings.Compare(a.ID, b.ID) })
	page, next, err := wire.Page(ctx, found, atMost100(in.MaxItems), in.Marker,
		func(m record.MountTarget) string { return m.ID })
	if err != nil {
		return nil, err
	}
	views := make([]types.MountTargetDescription, 0, len(page))
	for _, m := range page {
		status, err := s.statusOf(ctx, m)
		if err != nil {
			return nil, err
		}
		views = append(views, describeMountTarget(m, status))
	}
	return &efs.DescribeMountTargetsOutput{MountTargets: views, Marker: in.Marker, NextMarker: next}, nil
}

func (s *Service) findMountTargets(ctx context.Context, in *efs.DescribeMountTargetsInput) (
	[]record.MountTarget, error) {
	if in.MountTargetId != nil {
		row, err := s.mountTarget(ctx, in.MountTargetId)
		return []record.MountTarget{row.Value}, err
	}
	n := fileSystemName(ctx, in.FileSystemId)
	if in.AccessPointId != nil {
		row, err := s.accessPoint(ctx, in.AccessPointId)
		if err != nil {
			return nil, err
		}
		n = name{place{row.Value.Account, row.Value.Region}, row.Value.FileSystemID}
	}
	f, err := s.fileSystems.Get(ctx, n.key())
	if errors.Is(err, store.ErrNotFound) {
		return nil, fileSystemNotFound(n.id)
	}
	if err != nil {
		return nil, err
	}
	var found []record.MountTarget
	for _, id := range f.Value.MountTargetIDs() {
		m, err := of(ctx, s.mountTargets, name{n.place, id})
		if err != nil {
			return nil, err
		}
		if m.ID != "" { // one that has gone since
			found = append(found, m)
		}
	}
	return found, nil
}

// DeleteMountTarget deletes a mount target and its network interface: nobody can mount the file system by it any more.
// Machines that have mounted it keep it until they unmount it, unlike on AWS.
func (s *Service) DeleteMountTarget(ctx context.Context, in *efs.DeleteMountTargetInput) (
	*efs.DeleteMountTargetOutput, error) {
	_, err := s.mountTargets.Modify(ctx, name{placeOf(ctx), aws.ToString(in.MountTargetId)}.key(),
		func(m *record.MountTarget) error {
			if m.Deleted.IsZero() {
				m.Deleted = s.now().UTC()
			}
			return nil
		})
	if errors.Is(err, store.ErrNotFound) {
		err = mountTargetNotFound(aws.ToString(in.MountTargetId))
	}
	return &efs.DeleteMountTargetOutput{}, err
}

// mountTarget returns a mount target that a request names.
func (s *Service) mountTarget(ctx context.Context, id *string) (store.Row[record.MountTarget], error) {
	row, err := s.mountTargets.Get(ctx, name{placeOf(ctx), aws.ToString(id)}.key())
	if errors.Is(err, store.ErrNotFound) {
		err = mountTargetNotFound(aws.ToString(id))
	}
	return row, err
}

// statusOf returns what was observed of a mount target; the zero value when nothing was.
func (s *Service) statusOf(ctx context.Context, m record.MountTarget) (record.MountTargetStatus, error) {
	return of(ctx, s.statuses, name{place{m.Account, m.Region}, m.ID})
}

// describeMountTarget returns a mount target as the API shows it.
func describeMountTarget(m record.MountTarget, status record.MountTargetStatus) types.MountTargetDescription {
	d := types.MountTargetDescription{
		OwnerId: new(m.Account), MountTargetId: new(m.ID), FileSystemId: new(m.FileSystemID), SubnetId: new(m.SubnetID),
		LifeCycleState: m.State(status), IpAddress: new(m.IPAddress), NetworkInterfaceId: new(m.NetworkInterfaceID),
		AvailabilityZoneName: new(m.AvailabilityZone), AvailabilityZoneId: new(zoneID(m.Region, m.AvailabilityZone)),
		VpcId: new(m.VPCID),
	}
	if m.IPv6Address != "" {
		d.Ipv6Address = new(m.IPv6Address)
	}
	return d
}
