package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/principal"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/kubernetes"
)

// createHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) createHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateCluster, createTargets),
	}
}

// createTargets returns the cluster that a request would create, as its authorization target.
func createTargets(ctx context.Context, action string, in *eks.CreateClusterInput) ([]wire.Target, error) {
	t := resource.NewTarget(action, resource.ScopeOf(ctx).ClusterARN(aws.ToString(in.Name)))
	setCreate(t.Conditions, in)
	return resource.WithTagging([]wire.Target{t}, t.Resource, in.Tags), nil
}

// CreateCluster records a cluster in CREATING and lets its creator in; the control-plane controller makes it ACTIVE.
func (s *Service) CreateCluster(ctx context.Context, in *eks.CreateClusterInput) (*eks.CreateClusterOutput, error) {
	hash := wire.Fingerprint(in)
	for {
		if out, err := s.createdBefore(ctx, in, hash); out != nil || err != nil {
			return out, err
		}
		cluster, err := s.newCluster(ctx, in)
		if err != nil {
			return nil, err
		}
		cluster.ClientRequestToken, cluster.RequestHash = aws.ToString(in.ClientRequestToken), hash
		if err := s.principals.EnsureServiceLinkedRole(ctx, cluster, principal.EKS, serviceLinkedRole); err != nil {
			return nil, err
		}
		grant, err := s.grantKey(ctx, &cluster, in.EncryptionConfig)
		if err != nil {
			return nil, err
		}
		ops := append(grant, s.Clusters.CreateOp(cluster.Key(), cluster), s.Connected.AbsentOp(cluster.Key()))
		if cluster.AuthenticationMode != types.AuthenticationModeConfigMap && cluster.BootstrapCreatorAdmin {
			ops = append(ops, s.accessEntries.CreatorEntryOp(cluster))
		}
		if err := s.createWithinQuota(ctx, cluster, ops...); resource.LostRace(err) {
			continue // somebody was faster; see whether it was this very request
		} else if err != nil {
			return nil, err
		}
		return s.describeCreated(ctx, cluster)
	}
}

// createdBefore answers for a cluster that exists: as the first time if it is this request again, else with an error.
func (s *Service) createdBefore(
	ctx context.Context, in *eks.CreateClusterInput, hash string,
) (*eks.CreateClusterOutput, error) {
	name := aws.ToString(in.Name)
	key := resource.ScopeOf(ctx).ClusterKey(name)
	if _, err := s.Connected.Get(ctx, key); err == nil {
		return nil, exception.InUse(name, "Cluster already exists with name: %s", name)
	} else if !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	row, err := s.Clusters.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	same, err := wire.Repeated(ctx, in.ClientRequestToken, hash, row.Value.ClientRequestToken, row.Value.RequestHash)
	if err != nil {
		return nil, err
	}
	if !same {
		return nil, exception.InUse(name, "Cluster already exists with name: %s", name)
	}
	return s.describeCreated(ctx, row.Value)
}

// describeCreated returns the response to CreateCluster. Unlike DescribeCluster it repeats what only creation can set.
func (s *Service) describeCreated(ctx context.Context, c record.Cluster) (*eks.CreateClusterOutput, error) {
	out, err := s.describe(ctx, c)
	if err != nil {
		return nil, err
	}
	out.AccessConfig.BootstrapClusterCreatorAdminPermissions = new(c.BootstrapCreatorAdmin)
	return &eks.CreateClusterOutput{Cluster: out}, nil
}

// newCluster validates a request and returns the cluster that it asks for. (wire has checked the form of its name.)
func (s *Service) newCluster(ctx context.Context, in *eks.CreateClusterInput) (record.Cluster, error) {
	var (
		at     = resource.ScopeOf(ctx)
		caller = wire.CallerFrom(ctx)
		name   = aws.ToString(in.Name)
		none   record.Cluster
	)
	if in.OutpostConfig != nil {
		return none, exception.InvalidParameter(
			name, "Local clusters on AWS Outposts are not implemented by Coracle: leave outpostConfig out",
		)
	}
	c := record.Cluster{
		Account:    at.Account,
		Region:     at.Region,
		Name:       name,
		ID:         newClusterID(),
		CreatedAt:  s.Timestamp(),
		CreatorARN: caller.PrincipalARN,
		RoleARN:    aws.ToString(in.RoleArn),

		BootstrapSelfManagedAddons: aws.ToBool(orTrue(in.BootstrapSelfManagedAddons)),
		DeletionProtection:         aws.ToBool(in.DeletionProtection),
		ZonalShift:                 in.ZonalShiftConfig != nil && aws.ToBool(in.ZonalShiftConfig.Enabled),
		Tags:                       in.Tags,
	}
	c.CreatorID, _, _ = strings.Cut(caller.UserID, ":") // without the name of a session
	if c.CreatorARN == "" {
		c.CreatorARN = caller.ARN
	}
	var err error
	if c.Version, err = wantedVersion(name, in.Version); err != nil {
		return none, err
	}
	if c.SupportType, err = s.supportType(name, c.Version, in.UpgradePolicy); err != nil {
		return none, err
	}
	if fault := resource.TagFault(ctx, in.Tags); fault != "" {
		return none, exception.InvalidParameter(name, "%s", fault)
	}
	if c.AuthenticationMode, c.BootstrapCreatorAdmin, err = accessConfig(name, in.AccessConfig); err != nil {
		return none, err
	}
	if c.LoggingTypes, err = applyLogging(name, nil, in.Logging); err != nil {
		return none, err
	}
	if err = checkEncryption(at, name, in.EncryptionConfig); err != nil {
		return none, err
	}
	auto := autoModeIn(in.ComputeConfig, in.StorageConfig, in.KubernetesNetworkConfig)
	if c.ComputeConfig, c.StorageConfig, c.ElasticLB, err = auto.check(name); err != nil {
		return none, err
	}
	if c.ControlPlaneTier, err = scalingTier(name, in.ControlPlaneScalingConfig); err != nil {
		return none, err
	}
	c.KubeAPIServer, c.KubeController = in.KubeApiServerConfig, in.KubeControllerManagerConfig
	c.KubeScheduler = in.KubeSchedulerConfig
	if err := checkComponents(name, c.KubeAPIServer, c.KubeController, c.KubeScheduler); err != nil {
		return none, err
	}

	if err := s.checkClusterRole(ctx, name, c.RoleARN); err != nil {
		return none, err
	}
	if err := s.setVPCConfig(ctx, &c, in.ResourcesVpcConfig); err != nil {
		return none, err
	}
	if err := s.chooseServiceCIDR(ctx, &c, in.KubernetesNetworkConfig); err != nil {
		return none, err
	}
	if c.RemoteNetwork, err = s.remoteNetwork(ctx, c, in.RemoteNetworkConfig); err != nil {
		return none, err
	}
	return c, nil
}

func wantedVersion(name string, asked *string) (string, error) {
	if aws.ToString(asked) == "" {
		return kubernetes.Default, nil
	}
	if _, ok := kubernetes.Lookup(*asked); !ok {
		return "", unsupportedVersion(name)
	}
	return *asked, nil
}

// newClusterID returns 32 upper-case hexadecimal digits, as in the host name of an EKS endpoint.
func newClusterID() string {
	var id [16]byte
	rand.Read(id[:])
	return strings.ToUpper(hex.EncodeToString(id[:]))
}

// accessConfig returns the authentication mode of a new cluster, and whether its creator becomes an administrator. The
// default of the API is CONFIG_MAP; only the AWS console asks for API_AND_CONFIG_MAP unless told otherwise.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAccessConfigRequest.html
func accessConfig(name string, in *types.CreateAccessConfigRequest) (types.AuthenticationMode, bool, error) {
	mode, admin := types.AuthenticationModeConfigMap, true
	if in != nil {
		if in.AuthenticationMode != "" {
			mode = in.AuthenticationMode
		}
		admin = aws.ToBool(orTrue(in.BootstrapClusterCreatorAdminPermissions))
	}
	if err := checkAuthenticationMode(name, mode); err != nil {
		return "", false, err
	}
	if mode == types.AuthenticationModeConfigMap && !admin {
		return "", false, exception.InvalidParameter(
			name,
			"bootstrapClusterCreatorAdminPermissions must be true if cluster authentication mode is set to CONFIG_MAP",
		)
	}
	return mode, admin, nil
}

func orTrue(b *bool) *bool {
	if b == nil {
		return new(true)
	}
	return b
}
