package eks

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// subject is what an error is about: a cluster, or a node group or an add-on of it.
type subject struct{ cluster, nodegroup, addon string }

func (s subject) invalidParameter(format string, args ...any) error {
	return &types.InvalidParameterException{Message: new(fmt.Sprintf(format, args...)), ClusterName: named(s.cluster), NodegroupName: named(s.nodegroup), AddonName: named(s.addon)}
}

func (s subject) invalidRequest(format string, args ...any) error {
	return &types.InvalidRequestException{Message: new(fmt.Sprintf(format, args...)), ClusterName: named(s.cluster), NodegroupName: named(s.nodegroup), AddonName: named(s.addon)}
}

func (s subject) inUse(format string, args ...any) error {
	return &types.ResourceInUseException{Message: new(fmt.Sprintf(format, args...)), ClusterName: named(s.cluster), NodegroupName: named(s.nodegroup), AddonName: named(s.addon)}
}

func (s subject) notFound(format string, args ...any) error {
	return &types.ResourceNotFoundException{Message: new(fmt.Sprintf(format, args...)), ClusterName: named(s.cluster), NodegroupName: named(s.nodegroup), AddonName: named(s.addon)}
}

func (s subject) limitExceeded(format string, args ...any) error {
	return &types.ResourceLimitExceededException{Message: new(fmt.Sprintf(format, args...)), ClusterName: named(s.cluster), NodegroupName: named(s.nodegroup)}
}

// ec2Failure words an error that EKS passes on from EC2.
func (s subject) ec2Failure(ctx context.Context, format string, args ...any) error {
	return s.invalidParameter("%s (Service: Ec2, Status Code: 400, Request ID: %s)", fmt.Sprintf(format, args...), wire.RequestIDFrom(ctx))
}

// named is the value of a ClusterName member.
func named(name string) *string {
	if name == "" {
		return nil
	}
	return &name
}

func clusterNotFound(name string) error {
	return notFound(name, "No cluster found for name: %s.", name)
}

func notFound(cluster, format string, args ...any) error {
	return subject{cluster: cluster}.notFound(format, args...)
}

func invalidParameter(cluster, format string, args ...any) error {
	return subject{cluster: cluster}.invalidParameter(format, args...)
}

func invalidRequest(cluster, format string, args ...any) error {
	return subject{cluster: cluster}.invalidRequest(format, args...)
}

func inUse(cluster, format string, args ...any) error {
	return subject{cluster: cluster}.inUse(format, args...)
}

func limitExceeded(cluster, format string, args ...any) error {
	return subject{cluster: cluster}.limitExceeded(format, args...)
}
