package eks

import (
	"context"
	"maps"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// clusterMembers are the properties that do not go into requests by their names.
var clusterMembers = resource.Members{"Tags": resource.Left, "Logging": resource.Left, "Force": resource.Left}

// clusters is the handler of AWS::EKS::Cluster.
var clusters = clusterHandler{updater[types.Cluster]{
	Handler: resource.Handle(resource.Table[*eks.Client, types.Cluster]{
		Client: newClient,
		Create: resource.Create((*eks.Client).CreateCluster, clusterMembers,
			func(out *eks.CreateClusterOutput) *string { return out.Cluster.Name },
			func(r *resource.Request, in *eks.CreateClusterInput) error {
				in.Name, in.Tags = aws.String(clusterName(r)), r.Wanted("Tags")
				if r.Properties["Logging"] != nil {
					return resource.Decode(map[string]any{"Logging": loggingOf(r.Properties)}, in, nil)
				}
				return nil
			}),
		Find: func(ctx context.Context, c *eks.Client, r *resource.Request) (string, error) {
			called := *r
			called.PhysicalID = clusterName(r)
			live, err := describeCluster(ctx, c, &called)
			if err == nil && !r.Owns(live.Tags) {
				err = resource.ErrNotFound
			}
			return called.PhysicalID, err
		},
		Describe: describeCluster,
		State:    clusterState,
		Configure: []resource.Step[*eks.Client]{
			setTags(func(_ context.Context, _ *eks.Client, r *resource.Request) (string, error) {
				return "arn:" + r.Partition + ":eks:" + r.Region + ":" + r.Account + ":cluster/" + r.PhysicalID, nil
			}),
			{Update: true, Properties: clusterUpdatable}, // what the changes below do
		},
		Delete: func(ctx context.Context, c *eks.Client, r *resource.Request) error {
			_, err := c.DeleteCluster(ctx, &eks.DeleteClusterInput{Name: &r.PhysicalID})
			return err
		},
		Slow:       true,
		Attributes: clusterAttributes,
		Properties: clusterProperties,
		Poll:       poll,
	}),
	describe: describeCluster,
	busy:     func(live *types.Cluster) bool { return live.Status == types.ClusterStatusUpdating },
	of:       func(r *resource.Request, in *eks.DescribeUpdateInput) { in.Name = &r.PhysicalID },
	changes:  clusterChanges,
}}

// clusterHandler waits for what keeps a cluster from being deleted.
type clusterHandler struct{ updater[types.Cluster] }

// Delete is part of [resource.Handler]. It waits while node groups and Fargate profiles are being deleted, and while
// the cluster is updated.
func (h clusterHandler) Delete(ctx context.Context, r *resource.Request) (resource.Result, error) {
	result, err := h.updater.Delete(ctx, r)
	if !resource.HasCode(err, "ResourceInUseException") {
		return result, err
	}
	c, called := newClient(r.Config), *r
	called.PhysicalID = result.PhysicalID
	if free, look := soonFree(ctx, c, &called); look == nil && free {
		return resource.Result{PhysicalID: result.PhysicalID, Pending: poll}, nil
	}
	return result, err
}

// soonFree reports whether what keeps a cluster from being deleted ends by itself.
func soonFree(ctx context.Context, c *eks.Client, r *resource.Request) (bool, error) {
	live, err := describeCluster(ctx, c, r)
	if err != nil {
		return resource.IsNotFound(err), nil
	}
	if live.Status == types.ClusterStatusUpdating {
		return true, nil
	}
	pages := eks.NewListNodegroupsPaginator(c, &eks.ListNodegroupsInput{ClusterName: &r.PhysicalID})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return false, err
		}
		for _, name := range page.Nodegroups {
			out, err := c.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{
				ClusterName: &r.PhysicalID, NodegroupName: &name,
			})
			if resource.IsNotFound(err) {
				continue
			} else if err != nil || out.Nodegroup.Status != types.NodegroupStatusDeleting {
				return false, err
			}
		}
	}
	profiles := eks.NewListFargateProfilesPaginator(c, &eks.ListFargateProfilesInput{ClusterName: &r.PhysicalID})
	for profiles.HasMorePages() {
		page, err := profiles.NextPage(ctx)
		if err != nil {
			return false, err
		}
		for _, name := range page.FargateProfileNames {
			out, err := c.DescribeFargateProfile(ctx, &eks.DescribeFargateProfileInput{
				ClusterName: &r.PhysicalID, FargateProfileName: &name,
			})
			if resource.IsNotFound(err) {
				continue
			} else if err != nil || out.FargateProfile.Status != types.FargateProfileStatusDeleting {
				return false, err
			}
		}
	}
	return true, nil
}

func clusterName(r *resource.Request) string {
	if name := r.Text("Name"); name != "" {
		return name
	}
	return r.Name
}

func describeCluster(ctx context.Context, c *eks.Client, r *resource.Request) (*types.Cluster, error) {
	out, err := c.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &r.PhysicalID})
	if err != nil {
		return nil, err
	}
	return out.Cluster, nil
}

// clusterState tells how far a cluster is. A cluster that failed, or whose deletion did, comes no further.
func clusterState(live *types.Cluster) (resource.State, error) {
	switch live.Status {
	case types.ClusterStatusCreating, types.ClusterStatusPending, types.ClusterStatusUpdating:
		return resource.Creating, nil
	case types.ClusterStatusDeleting:
		return resource.Deleting, nil
	case types.ClusterStatusFailed:
		var issues []string
		if live.Health != nil {
			for _, i := range live.Health.Issues {
				issues = append(issues, issue(string(i.Code), aws.ToString(i.Message), i.ResourceIds))
			}
		}
		return resource.Deleting, failure("Cluster "+aws.ToString(live.Name), string(live.Status), issues)
	}
	return resource.Ready, nil
}

func clusterAttributes(_ *resource.Request, live *types.Cluster) map[string]any {
	attributes := map[string]any{
		"Arn": aws.ToString(live.Arn), "Endpoint": aws.ToString(live.Endpoint), "Id": aws.ToString(live.Name),
		"CertificateAuthorityData": "", "ClusterSecurityGroupId": "", "EncryptionConfigKeyArn": "",
		"KubernetesNetworkConfig.ServiceIpv6Cidr": "", "OpenIdConnectIssuerUrl": "",
	}
	if live.Id != nil { // clusters on Outposts have one
		attributes["Id"] = *live.Id
	}
	if live.CertificateAuthority != nil {
		attributes["CertificateAuthorityData"] = aws.ToString(live.CertificateAuthority.Data)
		attributes["CertificateAuthority.Data"] = attributes["CertificateAuthorityData"]
	}
	if live.ResourcesVpcConfig != nil {
		attributes["ClusterSecurityGroupId"] = aws.ToString(live.ResourcesVpcConfig.ClusterSecurityGroupId)
	}
	for _, e := range live.EncryptionConfig {
		if e.Provider != nil {
			attributes["EncryptionConfigKeyArn"] = aws.ToString(e.Provider.KeyArn)
		}
	}
	if n := live.KubernetesNetworkConfig; n != nil {
		attributes["KubernetesNetworkConfig.ServiceIpv6Cidr"] = aws.ToString(n.ServiceIpv6Cidr)
	}
	if live.Identity != nil && live.Identity.Oidc != nil {
		attributes["OpenIdConnectIssuerUrl"] = aws.ToString(live.Identity.Oidc.Issuer)
	}
	return attributes
}

func clusterProperties(
	_ context.Context, _ *eks.Client, r *resource.Request, live *types.Cluster,
) (map[string]any, error) {
	properties := pick(resource.Encode(live, nil), append([]string{
		"Name", "RoleArn", "EncryptionConfig",
	}, clusterUpdatable...)...)
	var enabled []any
	for _, l := range live.Logging.ClusterLogging {
		for _, t := range l.Types {
			if aws.ToBool(l.Enabled) {
				enabled = append(enabled, map[string]any{"Type": string(t)})
			}
		}
	}
	properties["Logging"] = map[string]any{"ClusterLogging": map[string]any{"EnabledTypes": enabled}}
	if vpc, ok := properties["ResourcesVpcConfig"].(map[string]any); ok {
		delete(vpc, "VpcId")
		delete(vpc, "ClusterSecurityGroupId")
	}
	if network, ok := properties["KubernetesNetworkConfig"].(map[string]any); ok {
		delete(network, "ServiceIpv6Cidr") // an attribute
	}
	setLiveTags(r, properties, live.Tags)
	return properties, nil
}

// clusterUpdatable are the properties that change in place, beside the tags. That of them which only creation takes is
// replaced by the schema.
var clusterUpdatable = []string{
	"AccessConfig", "ComputeConfig", "ControlPlaneScalingConfig", "DeletionProtection", "Force",
	"KubeApiServerConfig", "KubeControllerManagerConfig", "KubeSchedulerConfig", "KubernetesNetworkConfig", "Logging",
	"RemoteNetworkConfig", "ResourcesVpcConfig", "StorageConfig", "UpgradePolicy", "Version", "ZonalShiftConfig",
}

// logTypes are all types of control-plane logs.
var logTypes = types.LogType("").Values()

// loggingOf returns the property Logging as the API has it, which names all types of logs.
func loggingOf(properties map[string]any) map[string]any {
	config, _ := properties["Logging"].(map[string]any)
	config, _ = config["ClusterLogging"].(map[string]any)
	wanted := map[string]bool{}
	for _, t := range resource.Objects(config["EnabledTypes"]) {
		wanted[resource.Text(t["Type"])] = true
	}
	var on, off []any
	for _, t := range logTypes {
		if wanted[string(t)] {
			on = append(on, string(t))
			delete(wanted, string(t))
		} else {
			off = append(off, string(t))
		}
	}
	for unknown := range wanted { // EKS says what is wrong
		on = append(on, unknown)
	}
	var setups []any
	if on != nil {
		setups = append(setups, map[string]any{"Types": on, "Enabled": true})
	}
	if off != nil {
		setups = append(setups, map[string]any{"Types": off, "Enabled": false})
	}
	return map[string]any{"ClusterLogging": setups}
}

// clusterChanges are the updates of a cluster, in their order: a version in extended support needs its upgrade policy
// first, and the version comes last, as it takes longest.
var clusterChanges = []change[types.Cluster]{
	configChange(property("UpgradePolicy", map[string]any{"SupportType": string(types.SupportTypeExtended)})),
	configChange(func(r *resource.Request) map[string]any {
		if !r.Changed("Logging") {
			return nil
		}
		return map[string]any{"Logging": loggingOf(r.Properties)}
	}),
	configChange(endpointsOf),
	configChange(placeOf),
	configChange(vpcMember("ControlPlaneEgressMode")),
	configChange(func(r *resource.Request) map[string]any {
		config, _ := r.Properties["AccessConfig"].(map[string]any)
		if mode := config["AuthenticationMode"]; r.Changed("AccessConfig") && mode != nil {
			return map[string]any{"AccessConfig": map[string]any{"AuthenticationMode": mode}}
		}
		return nil // there is no way back
	}),
	configChange(property("DeletionProtection", false)),
	configChange(property("ZonalShiftConfig", map[string]any{"Enabled": false})),
	configChange(autoModeOf),
	configChange(property("RemoteNetworkConfig", map[string]any{
		"RemoteNodeNetworks": []any{}, "RemotePodNetworks": []any{},
	})),
	configChange(property("ControlPlaneScalingConfig", map[string]any{
		"Tier": string(types.ProvisionedControlPlaneTierStandard),
	})),
	configChange(componentsOf),
	versionChange,
}

// property returns what an update wants of a property, which is otherwise if the template leaves it out.
func property(name string, otherwise any) func(*resource.Request) map[string]any {
	return func(r *resource.Request) map[string]any {
		if !r.Changed(name) {
			return nil
		}
		if value := r.Properties[name]; value != nil {
			return map[string]any{name: value}
		}
		return map[string]any{name: otherwise}
	}
}

func vpcConfigOf(properties map[string]any) map[string]any {
	config, _ := properties["ResourcesVpcConfig"].(map[string]any)
	return config
}

// vpcMember returns what an update wants of members of the property ResourcesVpcConfig.
func vpcMember(names ...string) func(*resource.Request) map[string]any {
	return func(r *resource.Request) map[string]any {
		if wanted := pick(vpcConfigOf(r.Properties), names...); r.Changed("ResourcesVpcConfig") && len(wanted) > 0 {
			return map[string]any{"ResourcesVpcConfig": wanted}
		}
		return nil
	}
}

// placeOf returns what an update wants of the subnets and security groups. EKS replaces each list as a whole.
var placeOf = vpcMember("SubnetIds", "SecurityGroupIds")

// endpointsOf returns what an update wants of the endpoints of a cluster: what the template leaves out is as for a new
// cluster.
func endpointsOf(r *resource.Request) map[string]any {
	if !r.Changed("ResourcesVpcConfig") {
		return nil
	}
	wanted := map[string]any{"EndpointPublicAccess": true, "EndpointPrivateAccess": false}
	for name, value := range pick(vpcConfigOf(r.Properties), "EndpointPublicAccess", "EndpointPrivateAccess",
		"PublicAccessCidrs") {
		wanted[name] = value
	}
	if wanted["PublicAccessCidrs"] == nil && resource.Text(wanted["EndpointPublicAccess"]) == "true" {
		anywhere := []any{"0.0.0.0/0"}
		network, _ := r.Properties["KubernetesNetworkConfig"].(map[string]any)
		if resource.Text(network["IpFamily"]) == string(types.IpFamilyIpv6) {
			anywhere = append(anywhere, "::/0")
		}
		wanted["PublicAccessCidrs"] = anywhere
	}
	return map[string]any{"ResourcesVpcConfig": wanted}
}

// autoModeOf returns what an update wants of EKS Auto Mode, whose three settings change together.
func autoModeOf(r *resource.Request) map[string]any {
	network := func(properties map[string]any) any {
		config, _ := properties["KubernetesNetworkConfig"].(map[string]any)
		return config["ElasticLoadBalancing"]
	}
	before, after := network(r.Previous), network(r.Properties)
	if !r.Changed("ComputeConfig", "StorageConfig") && covers(before, after) && covers(after, before) {
		return nil
	}
	off := map[string]any{"Enabled": false}
	wanted := map[string]any{"ComputeConfig": off, "StorageConfig": map[string]any{"BlockStorage": off}}
	for name, value := range pick(r.Properties, "ComputeConfig", "StorageConfig") {
		wanted[name] = value
	}
	if after == nil {
		after = off
	}
	wanted["KubernetesNetworkConfig"] = map[string]any{"ElasticLoadBalancing": after}
	return wanted
}

// componentDefaults is what components of the control plane have that nobody configured.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_DescribeClusterVersions.html
var componentDefaults = map[string]map[string]any{
	"KubeApiServerConfig": {
		"EventTtl": "60m", "ServiceNodePortRange": map[string]any{"MinPort": 30000, "MaxPort": 32767},
	},
	"KubeControllerManagerConfig": {
		"PodGcControllerConfig": map[string]any{"TerminatedPodGcThreshold": 12500},
		"HorizontalPodAutoscalerControllerConfig": map[string]any{
			"HorizontalPodAutoscalerSyncPeriod": "15s",
		},
	},
	"KubeSchedulerConfig": {"NodeResourcesFit": map[string]any{"ScoringStrategy": map[string]any{
		"Type": string(types.ScoringStrategyTypeLeastAllocated),
		"Resources": []any{
			map[string]any{"Name": "cpu", "Weight": 1}, map[string]any{"Name": "memory", "Weight": 1},
		},
	}}},
}

// componentsOf returns what an update wants of the components of the control plane. What the template says no more is
// as for a new cluster; EKS would leave it.
func componentsOf(r *resource.Request) map[string]any {
	wanted := map[string]any{}
	for name, defaults := range componentDefaults {
		if !r.Changed(name) {
			continue
		}
		before, _ := r.Previous[name].(map[string]any)
		now, _ := r.Properties[name].(map[string]any)
		config := maps.Clone(now)
		if config == nil {
			config = map[string]any{}
		}
		for member := range before {
			if _, stays := now[member]; !stays {
				config[member] = defaults[member]
			}
		}
		wanted[name] = config
	}
	if len(wanted) == 0 {
		return nil
	}
	return wanted
}

// configChange returns the change that UpdateClusterConfig makes. wanted returns the part of its input that an update
// of the stack asks for, nil for none.
func configChange(wanted func(*resource.Request) map[string]any) change[types.Cluster] {
	return change[types.Cluster]{
		due: func(r *resource.Request, live *types.Cluster) (bool, error) {
			want := wanted(r)
			return want != nil && !covers(resource.Encode(live, nil), want), nil
		},
		start: func(ctx context.Context, c *eks.Client, r *resource.Request, token *string) (*types.Update, error) {
			in := &eks.UpdateClusterConfigInput{}
			if err := resource.Decode(wanted(r), in, nil); err != nil {
				return nil, err
			}
			in.Name, in.ClientRequestToken = &r.PhysicalID, token
			out, err := c.UpdateClusterConfig(ctx, in)
			if err != nil {
				return nil, err
			}
			return out.Update, nil
		},
	}
}

// versionChange is the upgrade of a cluster.
var versionChange = change[types.Cluster]{
	due: func(r *resource.Request, live *types.Cluster) (bool, error) {
		version := r.Text("Version")
		return r.Changed("Version") && version != "" && version != aws.ToString(live.Version), nil
	},
	start: func(ctx context.Context, c *eks.Client, r *resource.Request, token *string) (*types.Update, error) {
		out, err := c.UpdateClusterVersion(ctx, &eks.UpdateClusterVersionInput{
			Name: &r.PhysicalID, Version: r.Pointer("Version"), Force: aws.ToBool(r.Flag("Force")),
			ClientRequestToken: token,
		})
		if err != nil {
			return nil, err
		}
		return out.Update, nil
	},
}
