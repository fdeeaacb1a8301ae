package eks

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Targets says on which resource, and under which condition keys, a request is authorised.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonelastickubernetesservice.html
func (s *Service) Targets(ctx context.Context, operation string, input any) ([]wire.Target, error) {
	t := wire.Target{Action: "eks:" + operation, Resource: "*", Conditions: map[string][]string{}}
	set := conditions(t.Conditions)
	var err error
	switch in := input.(type) {
	case *eks.ListClustersInput, *eks.DescribeClusterVersionsInput, *eks.ListAccessPoliciesInput:
	case *eks.CreateClusterInput:
		t.Resource = placeOf(ctx).clusterARN(aws.ToString(in.Name))
		set.ofCreate(in)
	case *eks.UpdateClusterConfigInput:
		err = s.onCluster(ctx, &t, in.Name)
		set.ofUpdate(in)
	case *eks.UpdateClusterVersionInput:
		err = s.onCluster(ctx, &t, in.Name)
		set.text("eks:kubernetesVersion", aws.ToString(in.Version))
	case *eks.CreateAccessEntryInput:
		err = s.onCluster(ctx, &t, in.ClusterName)
		set.requestTags(in.Tags)
		set.text("eks:clusterName", aws.ToString(in.ClusterName))
		set.text("eks:principalArn", aws.ToString(in.PrincipalArn))
		set.text("eks:username", aws.ToString(in.Username))
		set.text("eks:accessEntryType", orStandard(in.Type))
		set.list("eks:kubernetesGroups", in.KubernetesGroups)
	case *eks.DescribeAccessEntryInput:
		err = s.onEntry(ctx, &t, in.ClusterName, in.PrincipalArn)
	case *eks.DeleteAccessEntryInput:
		err = s.onEntry(ctx, &t, in.ClusterName, in.PrincipalArn)
	case *eks.UpdateAccessEntryInput:
		err = s.onEntry(ctx, &t, in.ClusterName, in.PrincipalArn)
		set.text("eks:username", aws.ToString(in.Username))
		set.list("eks:kubernetesGroups", in.KubernetesGroups)
	case *eks.ListAssociatedAccessPoliciesInput:
		err = s.onEntry(ctx, &t, in.ClusterName, in.PrincipalArn)
	case *eks.AssociateAccessPolicyInput:
		err = s.onEntry(ctx, &t, in.ClusterName, in.PrincipalArn)
		set.text("eks:policyArn", aws.ToString(in.PolicyArn))
		if in.AccessScope != nil {
			set.text("eks:accessScope", string(in.AccessScope.Type))
			set.list("eks:namespaces", in.AccessScope.Namespaces)
		}
	case *eks.DisassociateAccessPolicyInput:
		err = s.onEntry(ctx, &t, in.ClusterName, in.PrincipalArn)
		set.text("eks:policyArn", aws.ToString(in.PolicyArn))
	case *eks.CreateNodegroupInput:
		err = s.onCluster(ctx, &t, in.ClusterName)
		set.requestTags(in.Tags)
	case *eks.DescribeNodegroupInput:
		err = s.onNodegroup(ctx, &t, in.ClusterName, in.NodegroupName)
	case *eks.DeleteNodegroupInput:
		err = s.onNodegroup(ctx, &t, in.ClusterName, in.NodegroupName)
	case *eks.UpdateNodegroupConfigInput:
		err = s.onNodegroup(ctx, &t, in.ClusterName, in.NodegroupName)
	case *eks.UpdateNodegroupVersionInput:
		err = s.onNodegroup(ctx, &t, in.ClusterName, in.NodegroupName)
	case *eks.CreateAddonInput:
		err = s.onCluster(ctx, &t, in.ClusterName)
		set.requestTags(in.Tags)
	case *eks.DescribeAddonInput:
		err = s.onAddon(ctx, &t, in.ClusterName, in.AddonName)
	case *eks.UpdateAddonInput:
		err = s.onAddon(ctx, &t, in.ClusterName, in.AddonName)
	case *eks.DeleteAddonInput:
		err = s.onAddon(ctx, &t, in.ClusterName, in.AddonName)
	case *eks.DescribePodIdentityAssociationInput:
		at := placeOf(ctx)
		p := record.PodIdentityAssociation{Account: at.account, Region: at.region, Cluster: aws.ToString(in.ClusterName), ID: aws.ToString(in.AssociationId)}
		row, missing := s.associations.Get(ctx, p.Key())
		if missing == nil {
			p = row.Value
		} else if !errors.Is(missing, store.ErrNotFound) {
			return nil, missing
		}
		t = onAssociation(operation, p)
	case *eks.DescribeUpdateInput:
		err = s.onUpdated(ctx, &t, in.Name, in.NodegroupName, in.AddonName)
	case *eks.ListUpdatesInput:
		err = s.onUpdated(ctx, &t, in.Name, in.NodegroupName, in.AddonName)
	case *eks.TagResourceInput:
		err = s.onTagged(ctx, &t, in.ResourceArn)
		set.requestTags(in.Tags)
	case *eks.UntagResourceInput:
		err = s.onTagged(ctx, &t, in.ResourceArn)
		set.list("aws:TagKeys", in.TagKeys)
	case *eks.ListTagsForResourceInput:
		err = s.onTagged(ctx, &t, in.ResourceArn)
	default: // it is about a cluster, and nothing in it is a condition key
		if name := clusterIn(input); name != nil {
			err = s.onCluster(ctx, &t, name)
		}
	}
	if err != nil {
		return nil, err
	}
	return []wire.Target{t}, nil
}

// clusterIn is the name of the cluster that an input is about. Some call it ClusterName; of the others the cluster is the only thing with a name.
func clusterIn(input any) *string {
	v := reflect.Indirect(reflect.ValueOf(input))
	f := v.FieldByName("ClusterName")
	if !f.IsValid() {
		f = v.FieldByName("Name")
	}
	if !f.IsValid() {
		return nil
	}
	name, _ := f.Interface().(*string)
	return name
}

// onCluster makes a cluster the target. Nothing needs to be there: whether it is may only be learnt by those who may ask.
func (s *Service) onCluster(ctx context.Context, t *wire.Target, name *string) error {
	at := placeOf(ctx)
	t.Resource = at.clusterARN(aws.ToString(name))
	row, err := s.clusters.Get(ctx, at.clusterKey(aws.ToString(name)))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	conditions(t.Conditions).resourceTags(row.Value.Tags)
	return nil
}

// onEntry makes an access entry the target. The ARN of one that isn't there ends in a "*" for its id.
func (s *Service) onEntry(ctx context.Context, t *wire.Target, cluster, principalARN *string) error {
	at, name := placeOf(ctx), aws.ToString(cluster)
	set := conditions(t.Conditions)
	set.text("eks:clusterName", name)
	set.text("eks:principalArn", aws.ToString(principalARN))
	e := record.AccessEntry{PrincipalARN: aws.ToString(principalARN), ID: "*"}
	row, err := s.accessEntries.Get(ctx, record.AccessEntryKey(at.account, at.region, name, e.PrincipalARN))
	switch {
	case err == nil:
		e = row.Value
		set.resourceTags(e.Tags)
		set.text("eks:accessEntryType", e.Type)
		set.text("eks:username", e.Username)
		set.list("eks:kubernetesGroups", e.Groups)
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	t.Resource = entryARN(at, e, name)
	return nil
}

// onNodegroup makes a node group the target. The ARN of one that isn't there ends in a "*" for its id.
func (s *Service) onNodegroup(ctx context.Context, t *wire.Target, cluster, name *string) error {
	at := placeOf(ctx)
	n := record.Nodegroup{Account: at.account, Region: at.region, Cluster: aws.ToString(cluster), Name: aws.ToString(name), ID: "*"}
	row, err := s.nodegroups.Get(ctx, n.Key())
	switch {
	case err == nil:
		n = row.Value
		conditions(t.Conditions).resourceTags(n.Tags)
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	t.Resource = n.ARN()
	return nil
}

// onAddon makes an add-on the target. The ARN of one that isn't there ends in a "*" for its id.
func (s *Service) onAddon(ctx context.Context, t *wire.Target, cluster, name *string) error {
	at := placeOf(ctx)
	a := record.Addon{Account: at.account, Region: at.region, Cluster: aws.ToString(cluster), Name: aws.ToString(name), ID: "*"}
	row, err := s.addons.Get(ctx, a.Key())
	switch {
	case err == nil:
		a = row.Value
		conditions(t.Conditions).resourceTags(a.Tags)
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	t.Resource = a.ARN()
	return nil
}

// onAssociation is an operation on a pod identity association.
func onAssociation(operation string, p record.PodIdentityAssociation) wire.Target {
	t := wire.Target{Action: "eks:" + operation, Resource: p.ARN(), Conditions: map[string][]string{}}
	conditions(t.Conditions).resourceTags(p.Tags)
	return t
}

// onUpdated makes what has an update the target: a cluster, or a node group or an add-on of it.
func (s *Service) onUpdated(ctx context.Context, t *wire.Target, cluster, nodegroup, addon *string) error {
	switch {
	case aws.ToString(nodegroup) != "":
		return s.onNodegroup(ctx, t, cluster, nodegroup)
	case aws.ToString(addon) != "":
		return s.onAddon(ctx, t, cluster, addon)
	}
	return s.onCluster(ctx, t, cluster)
}

// onTagged makes what an ARN names the target.
func (s *Service) onTagged(ctx context.Context, t *wire.Target, arn *string) error {
	t.Resource = aws.ToString(arn)
	_, tags, err := s.resourceOf(ctx, t.Resource)
	var malformed *types.BadRequestException
	var missing *types.NotFoundException
	switch {
	case errors.As(err, &malformed), errors.As(err, &missing):
		return nil // the operation says so, to those who may ask
	case err != nil:
		return err
	}
	conditions(t.Conditions).resourceTags(tags)
	return nil
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
