package ec2

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// There is no way yet to run an instance or make a volume, so these calls say that there are none; a
// request that names one is told that it does not exist.

var (
	instanceNames = naming{
		resource: types.ResourceTypeInstance, prefix: "i-", noun: "instance ID", param: "instanceId",
		notFound: "InvalidInstanceID.NotFound", malformed: "InvalidInstanceID.Malformed",
	}
	volumeNames = naming{
		resource: types.ResourceTypeVolume, prefix: "vol-", noun: "volume", param: "volumeId",
		notFound: "InvalidVolume.NotFound", malformed: "InvalidVolumeID.Malformed",
	}
)

// noInstance is the error about a request that names an instance.
func noInstance(id string) error { return none(instanceNames, nil, []string{id}) }

// none is the error about a request that names resources of which there are none.
func none(n naming, dryRun *bool, ids []string) error {
	for _, id := range ids {
		if err := n.valid(id); err != nil {
			return err
		}
	}
	if len(ids) > 0 {
		return n.missing(ids...)
	}
	if aws.ToBool(dryRun) {
		return errDryRun
	}
	return nil
}

// DescribeInstances lists instances.
func (s *Service) DescribeInstances(_ context.Context, in *ec2.DescribeInstancesInput) (*ec2.DescribeInstancesOutput, error) {
	return &ec2.DescribeInstancesOutput{Reservations: []types.Reservation{}}, none(instanceNames, in.DryRun, in.InstanceIds)
}

// DescribeInstanceStatus lists the statuses of instances.
func (s *Service) DescribeInstanceStatus(_ context.Context, in *ec2.DescribeInstanceStatusInput) (*ec2.DescribeInstanceStatusOutput, error) {
	return &ec2.DescribeInstanceStatusOutput{InstanceStatuses: []types.InstanceStatus{}}, none(instanceNames, in.DryRun, in.InstanceIds)
}

// DescribeVolumes lists volumes.
func (s *Service) DescribeVolumes(_ context.Context, in *ec2.DescribeVolumesInput) (*ec2.DescribeVolumesOutput, error) {
	return &ec2.DescribeVolumesOutput{Volumes: []types.Volume{}}, none(volumeNames, in.DryRun, in.VolumeIds)
}
