// Package cluster serves the operations of the EKS API on clusters, their configuration, identity providers, versions
// and insights, and on connected clusters.
//
// What is wanted is recorded here: the cluster ([record.Cluster]), the change under way ([record.Update]) and the
// access of its creator. The control-plane controller carries it out and writes what it observes
// ([record.ControlPlane]). DescribeCluster puts the two together: a cluster's status is never stored, see
// [resource.ClusterStatus].
//
// https://docs.aws.amazon.com/eks/latest/userguide/clusters.html
package cluster

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/principal"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/turn"
	"github.com/coracle-eks/coracle/kubernetes"
)

// AccessEntries gives clusters the access entry of their creator.
type AccessEntries interface {
	// CreatorEntryOp returns what makes the creator of a cluster its administrator, to be written with the cluster.
	CreatorEntryOp(c record.Cluster) store.Op
}

// Nodegroups knows the versions of nodes.
type Nodegroups interface {
	// TooOldFor names the node groups of a cluster whose nodes could not follow it to a minor version; "" without any.
	TooOldFor(ctx context.Context, version string, c record.Cluster) (string, error)
	// TooNewFor names the node groups of a cluster whose nodes are newer than a minor version; "" without any.
	TooNewFor(ctx context.Context, version string, c record.Cluster) (string, error)
}

// FargateProfiles knows the versions of Fargate nodes.
type FargateProfiles interface {
	// HasOutdatedNodes reports whether a Fargate node has another minor version than its cluster.
	HasOutdatedNodes(ctx context.Context, c record.Cluster) (bool, error)
}

// Options configures a Service.
type Options struct {
	Records         *resource.Records
	Principals      *principal.Directory
	AccessEntries   AccessEntries
	Nodegroups      Nodegroups
	FargateProfiles FargateProfiles
	Advertise       Advertise
	KMS             KMS
	// PerRegion is the quota of clusters that an account has in a region, [DefaultPerRegion] unless set.
	PerRegion int
	// MayAdd reports whether an account that has some of all clusters may have another one; always unless set.
	MayAdd func(ofAccount, all int) bool
}

// Advertise returns where the client of a request reaches the API server of a cluster, if that is not where everybody
// does, with the certificate authority there, PEM. The URL is empty otherwise.
type Advertise func(ctx context.Context, clusterID string) (url string, authority []byte)

// Service serves the operations on clusters.
type Service struct {
	*resource.Records
	principals      *principal.Directory
	accessEntries   AccessEntries
	nodegroups      Nodegroups
	advertise       Advertise
	kms             KMS
	fargateProfiles FargateProfiles
	subnets         store.Table[record.Subnet]
	securityGroups  store.Table[record.SecurityGroup]
	vpcs            store.Table[record.VPC]
	upgradeChecks   store.Table[record.Insights]
	refreshes       store.Table[record.InsightsRefresh]
	perRegion       int
	mayAdd          func(ofAccount, all int) bool
	creating        *turn.Places
}

// New returns the service over the records.
func New(o Options) *Service {
	rows := o.Records.Store
	return &Service{
		Records:         o.Records,
		principals:      o.Principals,
		accessEntries:   o.AccessEntries,
		nodegroups:      o.Nodegroups,
		advertise:       o.Advertise,
		kms:             o.KMS,
		fargateProfiles: o.FargateProfiles,
		subnets:         record.Subnets(rows),
		securityGroups:  record.SecurityGroups(rows),
		vpcs:            record.VPCs(rows),
		upgradeChecks:   record.InsightsOf(rows),
		refreshes:       record.InsightsRefreshes(rows),
		perRegion:       cmp.Or(o.PerRegion, DefaultPerRegion),
		mayAdd:          o.MayAdd,
		creating:        turn.Shared(1, 0),
	}
}

// Register serves the operations.
func (s *Service) Register(mux *wire.Mux) {
	for _, handlers := range [][]wire.Handler{
		s.handlers(),
		s.certificateAuthorityHandlers(),
		s.configHandlers(),
		s.connectedHandlers(),
		s.createHandlers(),
		s.deleteHandlers(),
		s.encryptionHandlers(),
		s.identityProviderHandlers(),
		s.insightHandlers(),
		s.insightsRefreshHandlers(),
		s.versionHandlers(),
	} {
		mux.Register(wire.EKS, handlers...)
	}
}

// CountByStatus returns how many clusters of all accounts have each status.
func (s *Service) CountByStatus(ctx context.Context) (map[string]int, error) {
	rows, err := s.Clusters.List(ctx, "")
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, row := range rows {
		cp, last, err := s.Observe(ctx, row.Value)
		if err != nil {
			return nil, err
		}
		counts[string(resource.ClusterStatus(row.Value, cp, last))]++
	}
	return counts, nil
}

// handlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) handlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeCluster, func(
			ctx context.Context, action string, in *eks.DescribeClusterInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.Name)
		}),
		wire.Handle(s.ListClusters, onAnyCluster),
	}
}

// onAnyCluster asks for permission on the clusters of the account and region, as EKS does when it lists them.
func onAnyCluster(ctx context.Context, action string, _ *eks.ListClustersInput) ([]wire.Target, error) {
	return []wire.Target{resource.NewTarget(action, resource.ScopeOf(ctx).ClusterARN("*"))}, nil
}

// DescribeCluster describes a cluster. Tools poll it, so it costs a few lookups in memory and nothing that grows. A
// waiter is answered when there is something to tell.
func (s *Service) DescribeCluster(
	ctx context.Context, in *eks.DescribeClusterInput,
) (*eks.DescribeClusterOutput, error) {
	if err := s.waitForStable(ctx, aws.ToString(in.Name)); err != nil {
		return nil, err
	}
	key := resource.ScopeOf(ctx).ClusterKey(aws.ToString(in.Name))
	row, err := s.Clusters.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		connected, err := s.Connected.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return nil, exception.ClusterNotFound(aws.ToString(in.Name))
		} else if err != nil {
			return nil, err
		}
		return &eks.DescribeClusterOutput{Cluster: s.describeConnected(connected.Value, false)}, nil
	} else if err != nil {
		return nil, err
	}
	out, err := s.describe(ctx, row.Value)
	if err != nil {
		return nil, err
	}
	return &eks.DescribeClusterOutput{Cluster: out}, nil
}

// ListClusters lists the names of the clusters in the caller's account and region, and with "all" also of the connected
// ones.
func (s *Service) ListClusters(ctx context.Context, in *eks.ListClustersInput) (*eks.ListClustersOutput, error) {
	at := resource.ScopeOf(ctx)
	rows, err := s.Clusters.List(ctx, store.Prefix(at.Account, at.Region))
	if err != nil {
		return nil, err
	}
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.Value.Name
	}
	for _, include := range in.Include {
		if include != "all" {
			return nil, exception.InvalidParameter("", "include %q is invalid: the only supported value is all", include)
		}
	}
	if len(in.Include) > 0 {
		connected, err := s.Connected.List(ctx, store.Prefix(at.Account, at.Region))
		if err != nil {
			return nil, err
		}
		for _, r := range connected {
			names = append(names, r.Value.Name)
		}
		slices.Sort(names)
	}
	page, next, err := resource.PageNames(ctx, names, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &eks.ListClustersOutput{Clusters: page, NextToken: next}, nil
}

// servedVersion returns the minor version that describe shows: as on EKS the old one until an upgrade or a rollback has
// succeeded.
func servedVersion(c record.Cluster, last record.Update) string {
	if last.ChangesVersion() && last.Status == types.UpdateStatusInProgress {
		return last.PreviousVersion
	}
	return c.WantedVersion(last)
}

// describe returns the cluster as the API shows it.
func (s *Service) describe(ctx context.Context, c record.Cluster) (*types.Cluster, error) {
	cp, last, err := s.Observe(ctx, c)
	if err != nil {
		return nil, err
	}
	version := servedVersion(c, last)
	out := &types.Cluster{
		Name:               new(c.Name),
		Arn:                new(c.ARN()),
		CreatedAt:          new(c.CreatedAt),
		Version:            new(version),
		PlatformVersion:    new(platformVersion(version)),
		RoleArn:            new(c.RoleARN),
		Status:             resource.ClusterStatus(c, cp, last),
		ResourcesVpcConfig: vpcConfig(c, cp),
		KubernetesNetworkConfig: &types.KubernetesNetworkConfigResponse{
			IpFamily:             c.IPFamily,
			ServiceIpv4Cidr:      resource.OrNil(c.ServiceIPv4CIDR),
			ServiceIpv6Cidr:      resource.OrNil(c.ServiceIPv6CIDR),
			ElasticLoadBalancing: elasticLoadBalancing(c),
		},
		Logging:                     logging(c.LoggingTypes),
		CertificateAuthority:        &types.Certificate{},
		AccessConfig:                &types.AccessConfigResponse{AuthenticationMode: c.AuthenticationMode},
		UpgradePolicy:               &types.UpgradePolicyResponse{SupportType: c.SupportType},
		DeletionProtection:          new(c.DeletionProtection),
		ZonalShiftConfig:            &types.ZonalShiftConfigResponse{Enabled: new(c.ZonalShift)},
		ComputeConfig:               c.ComputeConfig,
		StorageConfig:               c.StorageConfig,
		RemoteNetworkConfig:         c.RemoteNetwork,
		ControlPlaneScalingConfig:   &types.ControlPlaneScalingConfig{Tier: c.ControlPlaneTier},
		KubeApiServerConfig:         apiServerConfig(c.KubeAPIServer),
		KubeControllerManagerConfig: controllerManagerConfig(c.KubeController),
		KubeSchedulerConfig:         schedulerConfig(c.KubeScheduler),
		EncryptionConfig:            encryptionConfig(c),
		Health:                      health(c, cp),
		Tags:                        c.Tags,
	}
	if out.Tags == nil {
		out.Tags = map[string]string{}
	}
	if cp.Ready {
		out.Endpoint = new(cp.Endpoint)
		authorities := cp.CertificateAuthority
		if s.advertise != nil {
			if url, authority := s.advertise(ctx, c.ID); url != "" {
				out.Endpoint = new(url)
				authorities = slices.Concat(authorities, authority)
			}
		}
		out.CertificateAuthority.Data = new(base64.StdEncoding.EncodeToString(authorities))
		out.Identity = &types.Identity{Oidc: &types.OIDC{Issuer: new(c.Issuer())}}
	}
	return out, nil
}

// elasticLoadBalancing returns the load balancing capability of EKS Auto Mode, which EKS shows of every cluster;
// computeConfig and storageConfig only of those whose requests had them.
func elasticLoadBalancing(c record.Cluster) *types.ElasticLoadBalancing {
	if c.ElasticLB != nil {
		return c.ElasticLB
	}
	return &types.ElasticLoadBalancing{Enabled: new(false)}
}

// platformVersion returns the EKS platform version of a minor version.
func platformVersion(version string) string {
	v, _ := kubernetes.Lookup(version)
	return v.PlatformVersion
}

// health lists what is wrong with a cluster: what the controller found, why it gave up, and that it waits for programs
// which are being built or downloaded. EKS knows no such wait; its clients show the issues of a cluster.
func health(c record.Cluster, cp record.ControlPlane) *types.ClusterHealth {
	issues := cp.Issues()
	if cp.Building != "" && cp.Failed == "" && !c.Deleting {
		issues = append(issues, types.ClusterIssue{Code: types.ClusterIssueCodeOther, Message: new(
			"The programs of the control plane are being made, once for each Kubernetes version: " + cp.Building,
		)})
	}
	if issues == nil {
		issues = []types.ClusterIssue{}
	}
	return &types.ClusterHealth{Issues: issues}
}

// waitForStable returns once the cluster is neither being created, updated nor deleted, at once unless a waiter asks.
func (s *Service) waitForStable(ctx context.Context, name string) error {
	at := resource.ScopeOf(ctx)
	key := at.ClusterKey(name)
	return resource.Await(ctx, s.Clusters, key, func(ctx context.Context, c record.Cluster) (bool, error) {
		cp, last, err := s.Observe(ctx, c)
		switch resource.ClusterStatus(c, cp, last) {
		case types.ClusterStatusCreating, types.ClusterStatusUpdating, types.ClusterStatusDeleting:
			return false, err
		}
		return true, err
	}, resource.Notify(s.ControlPlanes, key), resource.Notify(s.Updates, store.Prefix(at.Account, at.Region, name)))
}
