package cluster

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/kubernetes"
)

func unsupportedVersion(cluster string) error {
	return exception.InvalidParameter(cluster, "unsupported Kubernetes version")
}

// versionHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) versionHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.UpdateClusterVersion, func(
			ctx context.Context, action string, in *eks.UpdateClusterVersionInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.Name, func(c resource.Conditions) {
				c.Text("eks:kubernetesVersion", aws.ToString(in.Version))
			})
		}),
		wire.Handle(s.DescribeClusterVersions, wire.OnAll),
	}
}

// UpdateClusterVersion upgrades a control plane to the next minor version, or rolls it back to the one before.
// https://docs.aws.amazon.com/eks/latest/userguide/update-cluster.html
func (s *Service) UpdateClusterVersion(
	ctx context.Context, in *eks.UpdateClusterVersionInput,
) (*eks.UpdateClusterVersionOutput, error) {
	name := aws.ToString(in.Name)
	if err := checkRollbackConfig(name, in.RollbackConfig); err != nil {
		return nil, err
	}
	row, err := s.Cluster(ctx, name)
	if err != nil {
		return nil, err
	}
	to, ok := kubernetes.Lookup(aws.ToString(in.Version))
	if !ok {
		return nil, unsupportedVersion(name)
	}
	_, last, err := s.Observe(ctx, row.Value)
	if err != nil {
		return nil, err
	}
	now := row.Value.WantedVersion(last)
	// A repeated request is one for the version that the cluster has by now, or is about to have.
	repeated := to.Minor == now && last.Type == types.UpdateTypeVersionRollback
	if repeated || kubernetes.MinorNumber(to.Minor) < kubernetes.MinorNumber(now) {
		return s.rollBack(ctx, in, to)
	}
	if in.RollbackConfig != nil {
		return nil, exception.InvalidParameter(name, "rollbackConfig can only be specified for a version rollback")
	}
	update, err := s.startUpdate(ctx, change{
		cluster: name, token: in.ClientRequestToken, request: in, kind: types.UpdateTypeVersionUpdate,
		apply: func(c *record.Cluster, _ record.ControlPlane, u *record.Update) ([]store.Op, error) {
			if kubernetes.MinorNumber(to.Minor) != kubernetes.MinorNumber(c.Version)+1 {
				return nil, unsupportedUpdate(c, to)
			}
			if err := s.checkSupport(c, to); err != nil {
				return nil, err
			}
			if names, err := s.nodegroups.TooOldFor(ctx, to.Minor, *c); err != nil {
				return nil, err
			} else if names != "" {
				return nil, exception.InvalidParameter(name,
					"Nodegroups %s must be updated to match cluster version %s before updating cluster version",
					names, c.Version)
			}
			if outdated, err := s.fargateProfiles.HasOutdatedNodes(ctx, *c); err != nil {
				return nil, err
			} else if outdated {
				return nil, exception.InvalidRequest(name,
					"Kubelet version of Fargate pods must be updated to match cluster version %s before updating cluster "+
						"version; Please recycle all offending pod replicas", c.Version)
			}
			if !in.Force {
				if err := s.refuseByInsights(ctx, *c); err != nil {
					return nil, err
				}
			}
			u.PreviousVersion = c.Version
			u.Params = []types.UpdateParam{
				resource.UpdateParam(types.UpdateParamTypeVersion, to.Minor),
				resource.UpdateParam(types.UpdateParamTypePlatformVersion, to.PlatformVersion),
			}
			c.Version = to.Minor
			return nil, nil
		},
	})
	if err != nil {
		return nil, err
	}
	return &eks.UpdateClusterVersionOutput{Update: update}, nil
}

// refuseByInsights demands that no insight into the cluster has found an error that an upgrade would run into.
func (s *Service) refuseByInsights(ctx context.Context, c record.Cluster) error {
	insights, err := s.upgradeInsights(ctx, c)
	if err != nil {
		return err
	}
	for _, i := range insights {
		if i.InsightStatus.Status == types.InsightStatusValueError {
			return &types.InvalidStateException{ClusterName: resource.OrNil(c.Name), Message: new(
				"Upgrade readiness insight " + aws.ToString(i.Id) + " (" + aws.ToString(i.Name) +
					") has status ERROR: " + aws.ToString(i.InsightStatus.Reason) +
					". Resolve it, or set force to override upgrade-blocking readiness checks.",
			)}
		}
	}
	return nil
}

func unsupportedUpdate(c *record.Cluster, to kubernetes.Version) error {
	return exception.InvalidParameter(
		c.Name, "Unsupported Kubernetes minor version update from %s to %s", c.Version, to.Minor,
	)
}

// checkSupport demands that the upgrade policy of a cluster lets it have a version.
func (s *Service) checkSupport(c *record.Cluster, to kubernetes.Version) error {
	if c.SupportType == types.SupportTypeStandard && to.Support(s.Now()) != kubernetes.StandardSupport {
		return exception.InvalidParameter(
			c.Name, "Kubernetes version %s is in extended support: set the cluster's upgradePolicy to EXTENDED first", to.Minor,
		)
	}
	return nil
}

// supportType returns the upgrade policy of a new cluster: EXTENDED unless the request sets another, which is possible
// as long as the version is in standard support.
func (s *Service) supportType(cluster, version string, in *types.UpgradePolicyRequest) (types.SupportType, error) {
	if in == nil || in.SupportType == "" {
		return types.SupportTypeExtended, nil
	}
	switch in.SupportType {
	case types.SupportTypeExtended:
	case types.SupportTypeStandard:
		if v, _ := kubernetes.Lookup(version); v.Support(s.Now()) != kubernetes.StandardSupport {
			return "", exception.InvalidParameter(
				cluster, "Kubernetes version %s is in extended support: supportType must be EXTENDED", version,
			)
		}
	default:
		return "", exception.InvalidParameter(
			cluster, "supportType %s is invalid: it must be one of [STANDARD, EXTENDED]", in.SupportType,
		)
	}
	return in.SupportType, nil
}

func (s *Service) upgradePolicyUpdate(c *record.Cluster, in *types.UpgradePolicyRequest) ([]types.UpdateParam, error) {
	to, err := s.supportType(c.Name, c.Version, in)
	if err != nil {
		return nil, err
	}
	if to == c.SupportType {
		return nil, exception.InvalidParameter(
			c.Name, "Cluster is already at the desired configuration with supportType: %s", to,
		)
	}
	c.SupportType = to
	return []types.UpdateParam{
		resource.UpdateParam(
			types.UpdateParamTypeUpgradePolicy, resource.JSON(map[string]types.SupportType{"supportType": to}),
		),
	}, nil
}

const clusterType = "eks"

// DescribeClusterVersions describes the Kubernetes versions that clusters can run, newest first.
func (s *Service) DescribeClusterVersions(
	ctx context.Context, in *eks.DescribeClusterVersionsInput,
) (*eks.DescribeClusterVersionsOutput, error) {
	if t := aws.ToString(in.ClusterType); t != "" && t != clusterType {
		return nil, exception.InvalidParameter(
			"", "Cluster type %s is invalid: Coracle has clusters of type %s", t, clusterType,
		)
	}
	if in.Status != "" && in.VersionStatus != "" {
		return nil, exception.InvalidParameter(
			"", "status and versionStatus can't be specified together; status is deprecated",
		)
	}
	for _, v := range in.ClusterVersions {
		if _, ok := kubernetes.Lookup(v); !ok {
			return nil, unsupportedVersion("")
		}
	}
	if err := resource.CheckMaxResults(in.MaxResults); err != nil {
		return nil, err
	}
	now := s.Now()
	var infos []types.ClusterVersionInformation
	all := kubernetes.Versions()
	slices.Reverse(all)
	for _, v := range all {
		info := versionInformation(v, v.Support(now))
		switch {
		case len(in.ClusterVersions) > 0 && !slices.Contains(in.ClusterVersions, v.Minor),
			aws.ToBool(in.DefaultOnly) && !info.DefaultVersion,
			in.Status != "" && in.Status != info.Status,
			in.VersionStatus != "" && in.VersionStatus != info.VersionStatus,
			info.VersionStatus == types.VersionStatusUnsupported && !aws.ToBool(in.IncludeAll) &&
				in.VersionStatus == "" && in.Status == "" && len(in.ClusterVersions) == 0:
			continue
		}
		infos = append(infos, info)
	}
	page, next, err := wire.Page(ctx, infos, in.MaxResults, in.NextToken, newestFirst)
	if err != nil {
		return nil, err
	}
	if page == nil {
		page = []types.ClusterVersionInformation{}
	}
	return &eks.DescribeClusterVersionsOutput{ClusterVersions: page, NextToken: next}, nil
}

// newestFirst returns a key that sorts versions from the newest to the oldest.
func newestFirst(v types.ClusterVersionInformation) string {
	return strconv.Itoa(100000 - kubernetes.MinorNumber(aws.ToString(v.ClusterVersion)))
}

func versionInformation(v kubernetes.Version, support kubernetes.Support) types.ClusterVersionInformation {
	status := strings.ReplaceAll(strings.ToLower(string(support)), "_", "-")
	return types.ClusterVersionInformation{
		ClusterType:                 new(clusterType),
		ClusterVersion:              new(v.Minor),
		ControlPlaneComponentConfig: componentInfo(),
		ControlPlaneScalingTiers: []types.ControlPlaneScalingTierInfo{
			{TierName: new(string(types.ProvisionedControlPlaneTierStandard))},
		},
		DefaultPlatformVersion:   new(v.PlatformVersion),
		DefaultVersion:           v.Minor == kubernetes.Default,
		EndOfExtendedSupportDate: new(v.EndOfExtendedSupport),
		EndOfStandardSupportDate: new(v.EndOfStandardSupport),
		KubernetesPatchVersion:   new(v.Patch()),
		ReleaseDate:              new(v.Released),
		Status:                   types.ClusterVersionStatus(status),
		VersionStatus:            types.VersionStatus(support),
	}
}
