package eks

import (
	"context"
	"encoding/base64"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/kubernetes"
)

// clusterHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) clusterHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeCluster, func(
			ctx context.Context, action string, in *eks.DescribeClusterInput,
		) ([]wire.Target, error) {
			return s.onCluster(ctx, action, in.Name)
		}),
		wire.Handle(s.ListClusters, wire.OnAll),
	}
}

// DescribeCluster describes a cluster. Tools poll it, so it costs a few lookups in memory and nothing that grows. A waiter is answered when there is something to tell.
func (s *Service) DescribeCluster(ctx context.Context, in *eks.DescribeClusterInput) (*eks.DescribeClusterOutput, error) {
	if err := s.awaitArrival(ctx, aws.ToString(in.Name)); err != nil {
		return nil, err
	}
	row, err := s.cluster(ctx, aws.ToString(in.Name))
	if err != nil {
		return nil, err
	}
	out, err := s.describe(ctx, row.Value)
	if err != nil {
		return nil, err
	}
	return &eks.DescribeClusterOutput{Cluster: out}, nil
}

// ListClusters lists the names of the clusters in the caller's account and region.
func (s *Service) ListClusters(ctx context.Context, in *eks.ListClustersInput) (*eks.ListClustersOutput, error) {
	at := placeOf(ctx)
	rows, err := s.clusters.List(ctx, store.Prefix(at.account, at.region))
	if err != nil {
		return nil, err
	}
	page, next, err := wire.Page(ctx, rows, in.MaxResults, in.NextToken, func(r store.Row[record.Cluster]) string { return r.Value.Name })
	if err != nil {
		return nil, err
	}
	names := make([]string, len(page))
	for i, r := range page {
		names[i] = r.Value.Name
	}
	return &eks.ListClustersOutput{Clusters: names, NextToken: next}, nil
}

// observed is what was last seen of a cluster's control plane (nothing, for a new cluster) and its newest update (nothing,
// for one that was never updated).
func (s *Service) observed(ctx context.Context, c record.Cluster) (cp record.ControlPlane, last record.Update, err error) {
	cp, err = seen(ctx, s.controlPlanes, c.Key(), func(cp record.ControlPlane) bool { return cp.ClusterID == c.ID })
	if err != nil {
		return cp, last, err
	}
	last, err = s.lastUpdate(ctx, c, c.LastUpdateID)
	return cp, last, err
}

// lastUpdate is the newest update of a cluster, or of what it has; nothing without an ID. The updates of a cluster that is being deleted go before it.
func (s *Service) lastUpdate(ctx context.Context, c record.Cluster, id string) (record.Update, error) {
	if id == "" {
		return record.Update{}, nil
	}
	row, err := s.updates.Get(ctx, record.UpdateKey(c.Account, c.Region, c.Name, id))
	if errors.Is(err, store.ErrNotFound) {
		return record.Update{}, nil
	}
	return row.Value, err
}

// status is a cluster's status, from what is wanted, what was observed, and the newest update.
func status(c record.Cluster, cp record.ControlPlane, last record.Update) types.ClusterStatus {
	switch {
	case c.Deleting && cp.DeleteFailed != "":
		return types.ClusterStatusFailed
	case c.Deleting:
		return types.ClusterStatusDeleting
	case cp.Ready && last.Status == types.UpdateStatusInProgress:
		return types.ClusterStatusUpdating
	case cp.Ready:
		return types.ClusterStatusActive
	case cp.Failed != "":
		return types.ClusterStatusFailed
	}
	return types.ClusterStatusCreating
}

// servedVersion is the minor version that describe shows: as on EKS the old one until an upgrade has succeeded.
func servedVersion(c record.Cluster, last record.Update) string {
	if last.Type == types.UpdateTypeVersionUpdate && last.Status == types.UpdateStatusInProgress {
		return last.PreviousVersion
	}
	return c.WantedVersion(last)
}

// describe is the cluster as the API shows it.
func (s *Service) describe(ctx context.Context, c record.Cluster) (*types.Cluster, error) {
	cp, last, err := s.observed(ctx, c)
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
		Status:             status(c, cp, last),
		ResourcesVpcConfig: vpcConfig(c, cp),
		KubernetesNetworkConfig: &types.KubernetesNetworkConfigResponse{
			IpFamily:             c.IPFamily,
			ServiceIpv4Cidr:      orNil(c.ServiceIPv4CIDR),
			ServiceIpv6Cidr:      orNil(c.ServiceIPv6CIDR),
			ElasticLoadBalancing: c.ElasticLB,
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
		Health:                      health(cp),
		Tags:                        c.Tags,
	}
	if out.Tags == nil {
		out.Tags = map[string]string{}
	}
	if cp.Ready {
		out.Endpoint = new(cp.Endpoint)
		out.CertificateAuthority.Data = new(base64.StdEncoding.EncodeToString(cp.CertificateAuthority))
		out.Identity = &types.Identity{Oidc: &types.OIDC{Issuer: new(c.Issuer())}}
	}
	return out, nil
}

// platformVersion is the EKS platform version that goes with a minor version.
func platformVersion(version string) string {
	v, _ := kubernetes.Lookup(version)
	return v.PlatformVersion
}

// health lists what is wrong with a cluster: what the controller found, and why it gave up.
func health(cp record.ControlPlane) *types.ClusterHealth {
	issues := make([]types.ClusterIssue, 0, len(cp.Health)+1)
	issues = append(issues, cp.Health...)
	for _, why := range []string{cp.Failed, cp.DeleteFailed} {
		if why != "" {
			issues = append(issues, types.ClusterIssue{Code: types.ClusterIssueCodeOther, Message: new(why)})
		}
	}
	return &types.ClusterHealth{Issues: issues}
}

func orNil(v string) *string {
	if v == "" {
		return nil
	}
	return &v
}
