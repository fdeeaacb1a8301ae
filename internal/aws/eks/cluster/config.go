package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/principal"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// configHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) configHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.UpdateClusterConfig, func(
			ctx context.Context, action string, in *eks.UpdateClusterConfigInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.Name, func(c resource.Conditions) { setUpdate(c, in) })
		}),
	}
}

// UpdateClusterConfig changes one thing about a cluster, and answers with the update object that follows the change.
func (s *Service) UpdateClusterConfig(
	ctx context.Context, in *eks.UpdateClusterConfigInput,
) (*eks.UpdateClusterConfigOutput, error) {
	name := aws.ToString(in.Name)
	kind, err := updateType(in)
	if err != nil {
		return nil, err
	}
	update, err := s.startUpdate(ctx, change{
		cluster: name, token: in.ClientRequestToken, request: in, kind: kind,
		apply: func(c *record.Cluster, cp record.ControlPlane, u *record.Update) (ops []store.Op, err error) {
			switch kind {
			case types.UpdateTypeEndpointAccessUpdate:
				u.Params, err = endpointUpdate(c, in.ResourcesVpcConfig)
			case types.UpdateTypeVpcConfigUpdate:
				u.Params, err = s.vpcUpdate(ctx, c, in.ResourcesVpcConfig)
			case types.UpdateTypeControlPlaneEgressUpdate:
				err = egressUpdate(c.Name, in.ResourcesVpcConfig.ControlPlaneEgressMode)
			case types.UpdateTypeLoggingUpdate:
				u.Params, err = loggingUpdate(c, in.Logging)
			case types.UpdateTypeAccessConfigUpdate:
				u.Params, ops, err = s.accessConfigUpdate(ctx, c, in.AccessConfig)
			case types.UpdateTypeUpgradePolicyUpdate:
				u.Params, err = s.upgradePolicyUpdate(c, in.UpgradePolicy)
			case types.UpdateTypeDeletionProtectionUpdate:
				u.Params, err = deletionProtectionUpdate(c, *in.DeletionProtection)
			case types.UpdateTypeZonalShiftConfigUpdate:
				u.Params, err = zonalShiftUpdate(c, in.ZonalShiftConfig)
			case types.UpdateTypeAutoModeUpdate:
				u.Params, err = autoModeUpdate(
					c, autoModeIn(in.ComputeConfig, in.StorageConfig, in.KubernetesNetworkConfig),
				)
			case types.UpdateTypeRemoteNetworkConfigUpdate:
				u.Params, err = s.remoteNetworkUpdate(ctx, c, in.RemoteNetworkConfig)
			case types.UpdateTypeControlPlaneScalingConfigUpdate:
				err = scalingUpdate(c.Name, in.ControlPlaneScalingConfig)
			case types.UpdateTypeControlPlaneComponentConfigUpdate:
				u.Params, err = componentUpdate(
					c, in.KubeApiServerConfig, in.KubeControllerManagerConfig, in.KubeSchedulerConfig,
				)
			}
			return ops, err
		},
	})
	if err != nil {
		return nil, err
	}
	return &eks.UpdateClusterConfigOutput{Update: update}, nil
}

// updateType returns the one setting that a request changes.
func updateType(in *eks.UpdateClusterConfigInput) (types.UpdateType, error) {
	name := aws.ToString(in.Name)
	var kinds []types.UpdateType
	add := func(speaks bool, kind types.UpdateType) {
		if speaks {
			kinds = append(kinds, kind)
		}
	}
	if vpc := in.ResourcesVpcConfig; vpc != nil {
		add(changesSubnets(vpc), types.UpdateTypeVpcConfigUpdate)
		add(changesEndpoints(vpc), types.UpdateTypeEndpointAccessUpdate)
		add(changesEgress(vpc), types.UpdateTypeControlPlaneEgressUpdate)
	}
	if net := in.KubernetesNetworkConfig; net != nil && (net.ServiceIpv4Cidr != nil || net.IpFamily != "") {
		return "", exception.InvalidParameter(
			name, "serviceIpv4Cidr and ipFamily can't be changed after the cluster is created",
		)
	}
	add(in.Logging != nil && len(in.Logging.ClusterLogging) > 0, types.UpdateTypeLoggingUpdate)
	add(in.AccessConfig != nil, types.UpdateTypeAccessConfigUpdate)
	add(in.UpgradePolicy != nil, types.UpdateTypeUpgradePolicyUpdate)
	add(in.DeletionProtection != nil, types.UpdateTypeDeletionProtectionUpdate)
	add(in.ZonalShiftConfig != nil, types.UpdateTypeZonalShiftConfigUpdate)
	add(
		autoModeIn(in.ComputeConfig, in.StorageConfig, in.KubernetesNetworkConfig).isSet(),
		types.UpdateTypeAutoModeUpdate,
	)
	add(in.RemoteNetworkConfig != nil, types.UpdateTypeRemoteNetworkConfigUpdate)
	add(in.ControlPlaneScalingConfig != nil, types.UpdateTypeControlPlaneScalingConfigUpdate)
	add(
		in.KubeApiServerConfig != nil || in.KubeControllerManagerConfig != nil || in.KubeSchedulerConfig != nil,
		types.UpdateTypeControlPlaneComponentConfigUpdate,
	)
	switch len(kinds) {
	case 0:
		return "", exception.InvalidParameter(name, "The type for cluster update was not provided.")
	case 1:
		return kinds[0], nil
	}
	return "", exception.InvalidParameter(name, "Only one type of update can be allowed.")
}

var authenticationModes = []types.AuthenticationMode{
	types.AuthenticationModeConfigMap,
	types.AuthenticationModeApiAndConfigMap,
	types.AuthenticationModeApi,
}

func checkAuthenticationMode(cluster string, mode types.AuthenticationMode) error {
	for _, known := range authenticationModes {
		if mode == known {
			return nil
		}
	}
	return exception.InvalidParameter(
		cluster, "Authentication mode %s is invalid: it must be one of %v", mode, authenticationModes,
	)
}

// accessConfigUpdate moves a cluster to the next authentication mode. The way is CONFIG_MAP, API_AND_CONFIG_MAP, API,
// and there is none back. With the first step the cluster's creator, who was let in all along, gets an access entry.
// https://docs.aws.amazon.com/eks/latest/userguide/setting-up-access-entries.html
func (s *Service) accessConfigUpdate(
	ctx context.Context, c *record.Cluster, in *types.UpdateAccessConfigRequest,
) ([]types.UpdateParam, []store.Op, error) {
	from, to := c.AuthenticationMode, in.AuthenticationMode
	if err := checkAuthenticationMode(c.Name, to); err != nil {
		return nil, nil, err
	}
	var ops []store.Op
	switch {
	case from == to:
		return nil, nil, exception.InvalidParameter(
			c.Name, "Cluster is already at the desired configuration with authenticationMode: %s", to,
		)
	case from == types.AuthenticationModeConfigMap && to == types.AuthenticationModeApiAndConfigMap:
		if c.BootstrapCreatorAdmin {
			// Whoever has the creator's name since is not the creator.
			creator, _ := principal.Parse(c.CreatorARN)
			if born, id, exists, err := s.principals.Lookup(ctx, creator); err != nil {
				return nil, nil, err
			} else if exists && (c.CreatorID == "" || id == c.CreatorID) &&
				!born.Truncate(time.Millisecond).After(c.CreatedAt) {
				ops = append(ops, s.accessEntries.CreatorEntryOp(*c))
			}
		}
	case from == types.AuthenticationModeApiAndConfigMap && to == types.AuthenticationModeApi:
	default:
		return nil, nil, exception.InvalidParameter(
			c.Name, "Unsupported authentication mode update from %s to %s", from, to,
		)
	}
	c.AuthenticationMode = to
	return []types.UpdateParam{resource.UpdateParam(types.UpdateParamTypeAuthenticationMode, string(to))}, ops, nil
}

func deletionProtectionUpdate(c *record.Cluster, on bool) ([]types.UpdateParam, error) {
	if c.DeletionProtection == on {
		return nil, exception.InvalidParameter(
			c.Name, "Cluster is already at the desired configuration with deletionProtection: %t", on,
		)
	}
	c.DeletionProtection = on
	return []types.UpdateParam{resource.UpdateParam(types.UpdateParamTypeDeletionProtection, fmt.Sprint(on))}, nil
}

func zonalShiftUpdate(c *record.Cluster, in *types.ZonalShiftConfigRequest) ([]types.UpdateParam, error) {
	on := aws.ToBool(in.Enabled)
	if c.ZonalShift == on {
		return nil, exception.InvalidParameter(
			c.Name, "Cluster is already at the desired configuration with zonalShiftConfig enabled: %t", on,
		)
	}
	c.ZonalShift = on
	return []types.UpdateParam{
		resource.UpdateParam(types.UpdateParamTypeZonalShiftConfig, resource.JSON(map[string]bool{"enabled": on})),
	}, nil
}

func egressUpdate(cluster string, mode types.ControlPlaneEgressModeType) error {
	if err := checkEgress(cluster, mode); err != nil {
		return err
	}
	return exception.InvalidParameter(
		cluster, "Cluster is already at the desired configuration with controlPlaneEgressMode: %s", mode,
	)
}

func scalingUpdate(cluster string, in *types.ControlPlaneScalingConfig) error {
	tier, err := scalingTier(cluster, in)
	if err != nil {
		return err
	}
	return exception.InvalidParameter(
		cluster, "Cluster is already at the desired configuration with control plane tier: %s", tier,
	)
}

func autoModeUpdate(c *record.Cluster, a autoMode) ([]types.UpdateParam, error) {
	compute, storage, balancing, err := a.check(c.Name)
	if err != nil {
		return nil, err
	}
	if c.ComputeConfig != nil {
		return nil, exception.InvalidParameter(
			c.Name, "Cluster is already at the desired configuration with EKS Auto Mode disabled",
		)
	}
	c.ComputeConfig, c.StorageConfig, c.ElasticLB = compute, storage, balancing
	off := resource.JSON(map[string]bool{"enabled": false})
	return []types.UpdateParam{
		resource.UpdateParam(types.UpdateParamTypeComputeConfig, off),
		resource.UpdateParam(
			types.UpdateParamTypeStorageConfig,
			resource.JSON(map[string]any{"blockStorage": map[string]bool{"enabled": false}}),
		),
		resource.UpdateParam(
			types.UpdateParamTypeKubernetesNetworkConfig,
			resource.JSON(map[string]any{"elasticLoadBalancing": map[string]bool{"enabled": false}}),
		),
	}, nil
}

func (s *Service) remoteNetworkUpdate(
	ctx context.Context, c *record.Cluster, in *types.RemoteNetworkConfigRequest,
) ([]types.UpdateParam, error) {
	after, err := s.remoteNetwork(ctx, *c, in)
	if err != nil {
		return nil, err
	}
	wanted := networksOf(after)
	if wanted == networksOf(c.RemoteNetwork) {
		return nil, exception.InvalidParameter(
			c.Name, "Cluster is already at the desired configuration with remoteNetworkConfig: %s", wanted,
		)
	}
	c.RemoteNetwork = after
	return []types.UpdateParam{resource.UpdateParam(types.UpdateParamTypeRemoteNetworkConfig, wanted)}, nil
}
