package cluster

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
)

func setEncryption(c resource.Conditions, in []types.EncryptionConfig) {
	var keys []string
	for _, e := range in {
		if e.Provider != nil && e.Provider.KeyArn != nil {
			keys = append(keys, *e.Provider.KeyArn)
		}
	}
	c.List("eks:encryptionConfigProviderKeyArns", keys)
}

func setEndpoints(c resource.Conditions, in *types.VpcConfigRequest) {
	if in != nil {
		c.Flag("eks:endpointPublicAccess", in.EndpointPublicAccess)
		c.Flag("eks:endpointPrivateAccess", in.EndpointPrivateAccess)
	}
}

// setLogging sets eks:loggingType/<type> for each log type that is named.
func setLogging(c resource.Conditions, in *types.Logging) {
	if in == nil {
		return
	}
	for _, setup := range in.ClusterLogging {
		for _, t := range setup.Types {
			c.Flag("eks:loggingType/"+string(t), new(aws.ToBool(setup.Enabled)))
		}
	}
}

func setAutoMode(c resource.Conditions, a autoMode) {
	if a.compute != nil {
		c.Flag("eks:computeConfigEnabled", a.compute.Enabled)
	}
	if a.storage != nil && a.storage.BlockStorage != nil {
		c.Flag("eks:blockStorageEnabled", a.storage.BlockStorage.Enabled)
	}
	if a.loadBalancing != nil {
		c.Flag("eks:elasticLoadBalancingEnabled", a.loadBalancing.Enabled)
	}
}

func setCreate(c resource.Conditions, in *eks.CreateClusterInput) {
	c.RequestTags(in.Tags)
	c.Text("eks:kubernetesVersion", aws.ToString(in.Version))
	c.Flag("eks:bootstrapSelfManagedAddons", in.BootstrapSelfManagedAddons)
	c.Flag("eks:deletionProtection", in.DeletionProtection)
	setEncryption(c, in.EncryptionConfig)
	setEndpoints(c, in.ResourcesVpcConfig)
	setLogging(c, in.Logging)
	if in.AccessConfig != nil {
		c.Text("eks:authenticationMode", string(in.AccessConfig.AuthenticationMode))
		c.Flag("eks:bootstrapClusterCreatorAdminPermissions", in.AccessConfig.BootstrapClusterCreatorAdminPermissions)
	}
	setAutoMode(c, autoModeIn(in.ComputeConfig, in.StorageConfig, in.KubernetesNetworkConfig))
	if in.UpgradePolicy != nil {
		c.Text("eks:supportType", string(in.UpgradePolicy.SupportType))
	}
	if in.ControlPlaneScalingConfig != nil {
		c.Text("eks:controlPlaneScalingTier", string(in.ControlPlaneScalingConfig.Tier))
	}
	if in.ZonalShiftConfig != nil {
		c.Flag("eks:zonalShiftEnabled", in.ZonalShiftConfig.Enabled)
	}
}

func setUpdate(c resource.Conditions, in *eks.UpdateClusterConfigInput) {
	c.Flag("eks:deletionProtection", in.DeletionProtection)
	setEndpoints(c, in.ResourcesVpcConfig)
	setLogging(c, in.Logging)
	setAutoMode(c, autoModeIn(in.ComputeConfig, in.StorageConfig, in.KubernetesNetworkConfig))
	if in.AccessConfig != nil {
		c.Text("eks:authenticationMode", string(in.AccessConfig.AuthenticationMode))
	}
	if in.UpgradePolicy != nil {
		c.Text("eks:supportType", string(in.UpgradePolicy.SupportType))
	}
	if in.ControlPlaneScalingConfig != nil {
		c.Text("eks:controlPlaneScalingTier", string(in.ControlPlaneScalingConfig.Tier))
	}
	if in.ZonalShiftConfig != nil {
		c.Flag("eks:zonalShiftEnabled", in.ZonalShiftConfig.Enabled)
	}
}
