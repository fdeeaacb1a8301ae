// Package exception makes the exceptions with which the EKS API refuses a request: types of AWS's SDK, with a message
// that explains what is wrong, and the name of the cluster, node group, add-on, Fargate profile or subscription that it
// is about.
package exception

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// About names what an exception is about: a cluster, or a node group, an add-on or a Fargate profile of it; or an EKS
// Anywhere subscription, by its ID.
type About struct{ Cluster, Nodegroup, Addon, FargateProfile, Subscription string }

// InvalidParameter returns an InvalidParameterException.
func (a About) InvalidParameter(format string, args ...any) error {
	return &types.InvalidParameterException{
		Message:            new(fmt.Sprintf(format, args...)),
		ClusterName:        named(a.Cluster),
		NodegroupName:      named(a.Nodegroup),
		AddonName:          named(a.Addon),
		FargateProfileName: named(a.FargateProfile),
		SubscriptionId:     named(a.Subscription),
	}
}

// InvalidRequest returns an InvalidRequestException.
func (a About) InvalidRequest(format string, args ...any) error {
	return &types.InvalidRequestException{
		Message:        new(fmt.Sprintf(format, args...)),
		ClusterName:    named(a.Cluster),
		NodegroupName:  named(a.Nodegroup),
		AddonName:      named(a.Addon),
		SubscriptionId: named(a.Subscription),
	}
}

// InUse returns a ResourceInUseException.
func (a About) InUse(format string, args ...any) error {
	return &types.ResourceInUseException{
		Message:       new(fmt.Sprintf(format, args...)),
		ClusterName:   named(a.Cluster),
		NodegroupName: named(a.Nodegroup),
		AddonName:     named(a.Addon),
	}
}

// NotFound returns a ResourceNotFoundException.
func (a About) NotFound(format string, args ...any) error {
	return &types.ResourceNotFoundException{
		Message:            new(fmt.Sprintf(format, args...)),
		ClusterName:        named(a.Cluster),
		NodegroupName:      named(a.Nodegroup),
		AddonName:          named(a.Addon),
		FargateProfileName: named(a.FargateProfile),
		SubscriptionId:     named(a.Subscription),
	}
}

// LimitExceeded returns a ResourceLimitExceededException.
func (a About) LimitExceeded(format string, args ...any) error {
	return &types.ResourceLimitExceededException{
		Message:       new(fmt.Sprintf(format, args...)),
		ClusterName:   named(a.Cluster),
		NodegroupName: named(a.Nodegroup),
	}
}

// EC2Failure returns an InvalidParameterException with the words of an error that EKS passes on from EC2.
func (a About) EC2Failure(ctx context.Context, format string, args ...any) error {
	return a.InvalidParameter(
		"%s (Service: Ec2, Status Code: 400, Request ID: %s)", fmt.Sprintf(format, args...), wire.RequestIDFrom(ctx),
	)
}

// named returns the value of a member such as ClusterName: nil for one that does not apply.
func named(name string) *string {
	if name == "" {
		return nil
	}
	return &name
}

// ClusterNotFound returns the ResourceNotFoundException for a cluster of that name.
func ClusterNotFound(name string) error {
	return NotFound(name, "No cluster found for name: %s.", name)
}

// NotFound returns a ResourceNotFoundException about a cluster.
func NotFound(cluster, format string, args ...any) error {
	return About{Cluster: cluster}.NotFound(format, args...)
}

// InvalidParameter returns an InvalidParameterException about a cluster.
func InvalidParameter(cluster, format string, args ...any) error {
	return About{Cluster: cluster}.InvalidParameter(format, args...)
}

// InvalidRequest returns an InvalidRequestException about a cluster.
func InvalidRequest(cluster, format string, args ...any) error {
	return About{Cluster: cluster}.InvalidRequest(format, args...)
}

// InUse returns a ResourceInUseException about a cluster.
func InUse(cluster, format string, args ...any) error {
	return About{Cluster: cluster}.InUse(format, args...)
}

// LimitExceeded returns a ResourceLimitExceededException about a cluster.
func LimitExceeded(cluster, format string, args ...any) error {
	return About{Cluster: cluster}.LimitExceeded(format, args...)
}

// List renders a list as the messages of EKS do: [a, b].
func List(list []string) string { return "[" + strings.Join(list, ", ") + "]" }
