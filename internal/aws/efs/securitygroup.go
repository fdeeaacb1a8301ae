package efs

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/networkinterface"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/store"
)

// securityGroupHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) securityGroupHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeMountTargetSecurityGroups, func(
			ctx context.Context, action string, in *efs.DescribeMountTargetSecurityGroupsInput,
		) ([]wire.Target, error) {
			targets, err := s.onMountTarget(ctx, action, in.MountTargetId)
			if err != nil {
				return nil, err
			}
			return s.withInterface(ctx, targets, "ec2:DescribeNetworkInterfaceAttribute", in.MountTargetId)
		}),
		wire.Handle(s.ModifyMountTargetSecurityGroups, func(
			ctx context.Context, action string, in *efs.ModifyMountTargetSecurityGroupsInput,
		) ([]wire.Target, error) {
			targets, err := s.onMountTarget(ctx, action, in.MountTargetId)
			if err != nil {
				return nil, err
			}
			return s.withInterface(ctx, targets, "ec2:ModifyNetworkInterfaceAttribute", in.MountTargetId,
				in.SecurityGroups...)
		}),
	}
}

// DescribeMountTargetSecurityGroups returns the security groups of a mount target.
func (s *Service) DescribeMountTargetSecurityGroups(ctx context.Context,
	in *efs.DescribeMountTargetSecurityGroupsInput) (*efs.DescribeMountTargetSecurityGroupsOutput, error) {
	row, err := s.mountTarget(ctx, in.MountTargetId)
	if err != nil {
		return nil, err
	}
	if m := row.Value; !m.Deleted.IsZero() {
		return nil, incorrectMountTargetState(m.ID, types.LifeCycleStateDeleting)
	}
	sc, err := resource.ScopeOf(ctx)
	if err != nil {
		return nil, err
	}
	ni, err := s.ec2.NetworkInterfaces.GetRecord(sc, &row.Value.NetworkInterfaceID)
	if err != nil {
		return nil, networkError(err)
	}
	return &efs.DescribeMountTargetSecurityGroupsOutput{SecurityGroups: ni.SecurityGroupIDs}, nil
}

// ModifyMountTargetSecurityGroups gives a mount target other security groups: the VPC's default group when the request
// names none.
func (s *Service) ModifyMountTargetSecurityGroups(ctx context.Context, in *efs.ModifyMountTargetSecurityGroupsInput) (
	*efs.ModifyMountTargetSecurityGroupsOutput, error) {
	if len(in.SecurityGroups) > resource.MaxSecurityGroupsPerInterface {
		return nil, tooManySecurityGroups(resource.MaxSecurityGroupsPerInterface)
	}
	return &efs.ModifyMountTargetSecurityGroupsOutput{}, s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
		row, err := s.mountTarget(c, in.MountTargetId)
		if err != nil {
			return err
		}
		status, err := s.statusOf(c, row.Value)
		if err != nil {
			return err
		}
		if state := row.Value.State(status); state != types.LifeCycleStateAvailable {
			return incorrectMountTargetState(row.Value.ID, state)
		}
		c.Add("mounttarget/"+row.Value.ID, func() store.Op { return s.mountTargets.CheckOp(row) })
		return networkError(networkinterface.SetManagedGroups(c, row.Value.NetworkInterfaceID, in.SecurityGroups))
	})
}
