package eks

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// named is the value of a ClusterName member.
func named(cluster string) *string {
	if cluster == "" {
		return nil
	}
	return &cluster
}

func clusterNotFound(name string) error {
	return &types.ResourceNotFoundException{Message: new(fmt.Sprintf("No cluster found for name: %s.", name)), ClusterName: named(name)}
}

func notFound(cluster, format string, args ...any) error {
	return &types.ResourceNotFoundException{Message: new(fmt.Sprintf(format, args...)), ClusterName: named(cluster)}
}

func invalidParameter(cluster, format string, args ...any) error {
	return &types.InvalidParameterException{Message: new(fmt.Sprintf(format, args...)), ClusterName: named(cluster)}
}

func invalidRequest(cluster, format string, args ...any) error {
	return &types.InvalidRequestException{Message: new(fmt.Sprintf(format, args...)), ClusterName: named(cluster)}
}

func inUse(cluster, format string, args ...any) error {
	return &types.ResourceInUseException{Message: new(fmt.Sprintf(format, args...)), ClusterName: named(cluster)}
}

func limitExceeded(cluster, format string, args ...any) error {
	return &types.ResourceLimitExceededException{Message: new(fmt.Sprintf(format, args...)), ClusterName: named(cluster)}
}
