package cluster

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
)

// autoMode is the configuration of EKS Auto Mode in a request, from the three places where the API has it.
type autoMode struct {
	compute       *types.ComputeConfigRequest
	storage       *types.StorageConfigRequest
	loadBalancing *types.ElasticLoadBalancing
}

func autoModeIn(
	compute *types.ComputeConfigRequest, storage *types.StorageConfigRequest,
	network *types.KubernetesNetworkConfigRequest,
) autoMode {
	a := autoMode{compute: compute, storage: storage}
	if network != nil {
		a.loadBalancing = network.ElasticLoadBalancing
	}
	return a
}

// isSet reports whether the request mentions Auto Mode at all.
func (a autoMode) isSet() bool {
	return a.compute != nil || a.storage != nil || a.loadBalancing != nil
}

// check refuses Auto Mode, which Coracle doesn't have, and requests that switch on a part of it, which EKS refuses. To
// switch it off is fine.
func (a autoMode) check(
	cluster string,
) (*types.ComputeConfigResponse, *types.StorageConfigResponse, *types.ElasticLoadBalancing, error) {
	if !a.isSet() {
		return nil, nil, nil, nil
	}
	compute := a.compute != nil && aws.ToBool(a.compute.Enabled)
	storage := a.storage != nil && a.storage.BlockStorage != nil && aws.ToBool(a.storage.BlockStorage.Enabled)
	balancing := a.loadBalancing != nil && aws.ToBool(a.loadBalancing.Enabled)
	switch {
	case compute != storage || compute != balancing:
		return nil, nil, nil, exception.InvalidParameter(
			cluster,
			"For EKS Auto Mode, please ensure that all required configs, including computeConfig, "+
				"kubernetesNetworkConfig, and blockStorage are all either fully enabled or fully disabled.",
		)
	case compute:
		return nil, nil, nil, exception.InvalidParameter(
			cluster,
			"EKS Auto Mode is not implemented by Coracle: leave computeConfig, storageConfig and "+
				"kubernetesNetworkConfig.elasticLoadBalancing out, or disable all three",
		)
	case a.compute != nil && (len(a.compute.NodePools) > 0 || a.compute.NodeRoleArn != nil):
		return nil, nil, nil, exception.InvalidParameter(
			cluster,
			"nodePools and nodeRoleArn can't be specified when the compute capability of EKS Auto Mode is disabled",
		)
	}
	off := new(false)
	return &types.ComputeConfigResponse{Enabled: off, NodePools: []string{}},
		&types.StorageConfigResponse{BlockStorage: &types.BlockStorage{Enabled: off}},
		&types.ElasticLoadBalancing{Enabled: off}, nil
}

// scalingTier refuses provisioned control planes: a control plane here has what the machine has.
func scalingTier(cluster string, in *types.ControlPlaneScalingConfig) (types.ProvisionedControlPlaneTier, error) {
	if in == nil || in.Tier == "" || in.Tier == types.ProvisionedControlPlaneTierStandard {
		return types.ProvisionedControlPlaneTierStandard, nil
	}
	return "", exception.InvalidParameter(
		cluster, "Control plane tier %s is not implemented by Coracle: use %s, the default", in.Tier,
		types.ProvisionedControlPlaneTierStandard,
	)
}
