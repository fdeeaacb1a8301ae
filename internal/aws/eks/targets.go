package eks

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// newTarget is an action on a resource, without condition keys.
func newTarget(action, resource string) wire.Target {
	return wire.Target{Action: action, Resource: resource, Conditions: map[string][]string{}}
}

// targetWith is the one target of a request, with the condition keys that the request adds.
func targetWith(t wire.Target, edits []func(conditions)) []wire.Target {
	for _, edit := range edits {
		edit(t.Conditions)
	}
	return []wire.Target{t}
}

// onCluster returns a cluster as the target, whether or not it exists: only who may ask may learn that.
func (s *Service) onCluster(
	ctx context.Context, action string, name *string, edits ...func(conditions),
) ([]wire.Target, error) {
	at := placeOf(ctx)
	t := newTarget(action, at.clusterARN(aws.ToString(name)))
	row, err := s.clusters.Get(ctx, at.clusterKey(aws.ToString(name)))
	switch {
	case err == nil:
		conditions(t.Conditions).resourceTags(row.Value.Tags)
	case !errors.Is(err, store.ErrNotFound):
		return nil, err
	}
	return targetWith(t, edits), nil
}

// onEntry returns an access entry as the target. The ARN of one that does not exist ends in a "*" for its ID.
func (s *Service) onEntry(
	ctx context.Context, action string, cluster, principalARN *string, edits ...func(conditions),
) ([]wire.Target, error) {
	at, name := placeOf(ctx), aws.ToString(cluster)
	e := record.AccessEntry{PrincipalARN: aws.ToString(principalARN), ID: "*"}
	set := conditions{}
	set.text("eks:clusterName", name)
	set.text("eks:principalArn", e.PrincipalARN)
	row, err := s.accessEntries.Get(ctx, record.AccessEntryKey(at.account, at.region, name, e.PrincipalARN))
	switch {
	case err == nil:
		e = row.Value
		set.resourceTags(e.Tags)
		set.text("eks:accessEntryType", e.Type)
		set.text("eks:username", e.Username)
		set.list("eks:kubernetesGroups", e.Groups)
	case !errors.Is(err, store.ErrNotFound):
		return nil, err
	}
	return targetWith(wire.Target{Action: action, Resource: entryARN(at, e, name), Conditions: set}, edits), nil
}

// onNodegroup returns a node group as the target. The ARN of one that does not exist ends in a "*" for its ID.
func (s *Service) onNodegroup(ctx context.Context, action string, cluster, name *string) ([]wire.Target, error) {
	at := placeOf(ctx)
	n := record.Nodegroup{
		Account: at.account, Region: at.region, Cluster: aws.ToString(cluster), Name: aws.ToString(name), ID: "*",
	}
	row, err := s.nodegroups.Get(ctx, n.Key())
	switch {
	case err == nil:
		n = row.Value
	case !errors.Is(err, store.ErrNotFound):
		return nil, err
	}
	t := newTarget(action, n.ARN())
	conditions(t.Conditions).resourceTags(n.Tags)
	return []wire.Target{t}, nil
}

// onAddon returns an add-on as the target. The ARN of one that does not exist ends in a "*" for its ID.
func (s *Service) onAddon(ctx context.Context, action string, cluster, name *string) ([]wire.Target, error) {
	at := placeOf(ctx)
	a := record.Addon{
		Account: at.account, Region: at.region, Cluster: aws.ToString(cluster), Name: aws.ToString(name), ID: "*",
	}
	row, err := s.addons.Get(ctx, a.Key())
	switch {
	case err == nil:
		a = row.Value
	case !errors.Is(err, store.ErrNotFound):
		return nil, err
	}
	t := newTarget(action, a.ARN())
	conditions(t.Conditions).resourceTags(a.Tags)
	return []wire.Target{t}, nil
}

// onAssociation returns a pod identity association as the target.
func onAssociation(action string, p record.PodIdentityAssociation) wire.Target {
	t := newTarget(action, p.ARN())
	conditions(t.Conditions).resourceTags(p.Tags)
	return t
}

// onUpdated returns what has an update as the target: a cluster, or a node group or an add-on of it.
func (s *Service) onUpdated(
	ctx context.Context, action string, cluster, nodegroup, addon *string,
) ([]wire.Target, error) {
	switch {
	case aws.ToString(nodegroup) != "":
		return s.onNodegroup(ctx, action, cluster, nodegroup)
	case aws.ToString(addon) != "":
		return s.onAddon(ctx, action, cluster, addon)
	}
	return s.onCluster(ctx, action, cluster)
}

// onTagged returns what an ARN names as the target.
func (s *Service) onTagged(
	ctx context.Context, action string, arn *string, edits ...func(conditions),
) ([]wire.Target, error) {
	t := newTarget(action, aws.ToString(arn))
	_, tags, err := s.resourceOf(ctx, t.Resource)
	var malformed *types.BadRequestException
	var missing *types.NotFoundException
	switch {
	case err == nil:
		conditions(t.Conditions).resourceTags(tags)
	case !errors.As(err, &malformed) && !errors.As(err, &missing): // the operation says so, to those who may ask
		return nil, err
	}
	return targetWith(t, edits), nil
}

func orStandard(entryType *string) string {
	if aws.ToString(entryType) == "" {
		return standard
	}
	return *entryType
}

// conditions are the condition keys of a request. A key for a member that the request leaves out is not set.
type conditions map[string][]string

func (c conditions) text(key, value string) {
	if value != "" {
		c[key] = []string{value}
	}
}

func (c conditions) list(key string, values []string) {
	if len(values) > 0 {
		c[key] = values
	}
}

func (c conditions) flag(key string, value *bool) {
	if value != nil {
		c[key] = []string{fmt.Sprint(*value)}
	}
}

func (c conditions) resourceTags(tags map[string]string) {
	for k, v := range tags {
		c["aws:ResourceTag/"+k] = []string{v}
	}
}

func (c conditions) requestTags(tags map[string]string) {
	var keys []string
	for k, v := range tags {
		keys = append(keys, k)
		c["aws:RequestTag/"+k] = []string{v}
	}
	slices.Sort(keys)
	c.list("aws:TagKeys", keys)
}

func (c conditions) encryption(in []types.EncryptionConfig) {
	var keys []string
	for _, e := range in {
		if e.Provider != nil && e.Provider.KeyArn != nil {
			keys = append(keys, *e.Provider.KeyArn)
		}
	}
	c.list("eks:encryptionConfigProviderKeyArns", keys)
}

func (c conditions) endpoints(in *types.VpcConfigRequest) {
	if in != nil {
		c.flag("eks:endpointPublicAccess", in.EndpointPublicAccess)
		c.flag("eks:endpointPrivateAccess", in.EndpointPrivateAccess)
	}
}

// logging sets eks:loggingType/<type> for each log type that is named.
func (c conditions) logging(in *types.Logging) {
	if in == nil {
		return
	}
	for _, setup := range in.ClusterLogging {
		for _, t := range setup.Types {
			c.flag("eks:loggingType/"+string(t), new(aws.ToBool(setup.Enabled)))
		}
	}
}

func (c conditions) autoMode(a autoMode) {
	if a.compute != nil {
		c.flag("eks:computeConfigEnabled", a.compute.Enabled)
	}
	if a.storage != nil && a.storage.BlockStorage != nil {
		c.flag("eks:blockStorageEnabled", a.storage.BlockStorage.Enabled)
	}
	if a.loadBalancing != nil {
		c.flag("eks:elasticLoadBalancingEnabled", a.loadBalancing.Enabled)
	}
}

func (c conditions) ofCreate(in *eks.CreateClusterInput) {
	c.requestTags(in.Tags)
	c.text("eks:kubernetesVersion", aws.ToString(in.Version))
	c.flag("eks:bootstrapSelfManagedAddons", in.BootstrapSelfManagedAddons)
	c.flag("eks:deletionProtection", in.DeletionProtection)
	c.encryption(in.EncryptionConfig)
	c.endpoints(in.ResourcesVpcConfig)
	c.logging(in.Logging)
	if in.AccessConfig != nil {
		c.text("eks:authenticationMode", string(in.AccessConfig.AuthenticationMode))
		c.flag("eks:bootstrapClusterCreatorAdminPermissions", in.AccessConfig.BootstrapClusterCreatorAdminPermissions)
	}
	c.autoMode(autoModeIn(in.ComputeConfig, in.StorageConfig, in.KubernetesNetworkConfig))
	if in.UpgradePolicy != nil {
		c.text("eks:supportType", string(in.UpgradePolicy.SupportType))
	}
	if in.ControlPlaneScalingConfig != nil {
		c.text("eks:controlPlaneScalingTier", string(in.ControlPlaneScalingConfig.Tier))
	}
	if in.ZonalShiftConfig != nil {
		c.flag("eks:zonalShiftEnabled", in.ZonalShiftConfig.Enabled)
	}
}

func (c conditions) ofUpdate(in *eks.UpdateClusterConfigInput) {
	c.flag("eks:deletionProtection", in.DeletionProtection)
	c.endpoints(in.ResourcesVpcConfig)
	c.logging(in.Logging)
	c.autoMode(autoModeIn(in.ComputeConfig, in.StorageConfig, in.KubernetesNetworkConfig))
	if in.AccessConfig != nil {
		c.text("eks:authenticationMode", string(in.AccessConfig.AuthenticationMode))
	}
	if in.UpgradePolicy != nil {
		c.text("eks:supportType", string(in.UpgradePolicy.SupportType))
	}
	if in.ControlPlaneScalingConfig != nil {
		c.text("eks:controlPlaneScalingTier", string(in.ControlPlaneScalingConfig.Tier))
	}
	if in.ZonalShiftConfig != nil {
		c.flag("eks:zonalShiftEnabled", in.ZonalShiftConfig.Enabled)
	}
}
