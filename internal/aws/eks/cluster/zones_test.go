package cluster

import (
	"errors"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// EKS has no control planes in some zones, and names those that it has them in.
func TestZonesWithoutControlPlanes(t *testing.T) {
	t.Parallel()
	good := map[string]bool{"us-east-1a": true, "us-east-1f": true}
	if err := checkZones("us-east-1", "c", good, "creation"); err != nil {
		t.Errorf("zones with control planes: %v", err)
	}
	for attempt, want := range map[string]string{
		"creation": "Cannot create cluster 'c' because EKS does not support creating control plane instances in " +
			"us-east-1e, the targeted availability zone. Retry cluster creation using control plane subnets that span at " +
			"least two of these availability zones: us-east-1a, us-east-1b, us-east-1c, us-east-1d, us-east-1f. Note, " +
			"post cluster creation, you can run worker nodes in separate subnets/availability zones from control plane " +
			"subnets/availability zones passed during cluster creation",
		"update": "Cannot update cluster 'c' because EKS does not support creating control plane instances in " +
			"us-east-1e, the targeted availability zone. Retry cluster update using control plane subnets that span at " +
			"least two of these availability zones: us-east-1a, us-east-1b, us-east-1c, us-east-1d, us-east-1f. Note, " +
			"post cluster update, you can run worker nodes in separate subnets/availability zones from control plane " +
			"subnets/availability zones passed during cluster update",
	} {
		err := checkZones("us-east-1", "c", map[string]bool{"us-east-1a": true, "us-east-1e": true}, attempt)
		var refused *types.UnsupportedAvailabilityZoneException
		if !errors.As(err, &refused) || refused.ErrorMessage() != want || *refused.ClusterName != "c" ||
			!slices.Equal(refused.ValidZones, []string{"us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d", "us-east-1f"}) {
			t.Errorf("%s: got %v\nwant %s", attempt, err, want)
		}
	}
}
