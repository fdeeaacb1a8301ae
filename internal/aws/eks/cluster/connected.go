package cluster

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/principal"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const (
	// activationLife is the time within which the connector of a registered cluster has to come.
	activationLife = 3 * 24 * time.Hour
	// maxConnected is the quota of registered clusters in a region.
	// https://docs.aws.amazon.com/eks/latest/userguide/service-quotas.html
	maxConnected = 10
	// connectorRole and connectorPrincipal are of the service-linked role of connected clusters, ssmPrincipal whom the
	// role of a connector trusts.
	connectorRole      = "AWSServiceRoleForAmazonEKSConnector"
	connectorPrincipal = "eks-connector.amazonaws.com"
	ssmPrincipal       = "ssm.amazonaws.com"
)

// connectedHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) connectedHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.RegisterCluster, func(
			ctx context.Context, action string, in *eks.RegisterClusterInput,
		) ([]wire.Target, error) {
			t := resource.NewTarget(action, resource.ScopeOf(ctx).ClusterARN(aws.ToString(in.Name)))
			resource.Conditions(t.Conditions).RequestTags(in.Tags)
			return resource.WithTagging([]wire.Target{t}, t.Resource, in.Tags), nil
		}),
		wire.Handle(s.DeregisterCluster, func(
			ctx context.Context, action string, in *eks.DeregisterClusterInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.Name)
		}),
	}
}

// RegisterCluster records a Kubernetes cluster from elsewhere. It stays PENDING until its activation expires: there is
// no service here to which the connector could come.
func (s *Service) RegisterCluster(
	ctx context.Context, in *eks.RegisterClusterInput,
) (*eks.RegisterClusterOutput, error) {
	name, hash, at := aws.ToString(in.Name), wire.Fingerprint(in), resource.ScopeOf(ctx)
	for {
		if out, err := s.registeredBefore(ctx, in, hash); out != nil || err != nil {
			return out, err
		}
		if err := s.checkRegistration(ctx, in); err != nil {
			return nil, err
		}
		if s.Connected.Count(store.Prefix(at.Account, at.Region)) >= maxConnected {
			return nil, exception.LimitExceeded(
				name, "The quota of %d registered clusters in this account and region has been reached", maxConnected,
			)
		}
		c := record.ConnectedCluster{
			Account: at.Account, Region: at.Region, Name: name, CreatedAt: s.Timestamp(),
			Provider: in.ConnectorConfig.Provider, RoleARN: aws.ToString(in.ConnectorConfig.RoleArn),
			ActivationID: uuid.NewString(), ActivationCode: newActivationCode(),
			ActivationExpiry: s.Timestamp().Add(activationLife), Tags: in.Tags,
			ClientRequestToken: aws.ToString(in.ClientRequestToken), RequestHash: hash,
		}
		err := s.principals.EnsureServiceLinkedRole(
			ctx, record.Cluster{Account: c.Account, Name: c.Name}, connectorPrincipal, connectorRole,
		)
		if err != nil {
			return nil, err
		}
		// A name is that of one cluster, connected or not.
		err = s.Store.Txn(ctx, s.Connected.CreateOp(c.Key(), c), s.Clusters.AbsentOp(c.Key()))
		if errors.Is(err, store.ErrExists) {
			continue // somebody was faster; see whether it was this very request
		} else if err != nil {
			return nil, err
		}
		return &eks.RegisterClusterOutput{Cluster: s.describeConnected(c, true)}, nil
	}
}

// registeredBefore answers for a name that is taken: as the first time if it is this request again, else with an error.
func (s *Service) registeredBefore(
	ctx context.Context, in *eks.RegisterClusterInput, hash string,
) (*eks.RegisterClusterOutput, error) {
	name := aws.ToString(in.Name)
	key := resource.ScopeOf(ctx).ClusterKey(name)
	taken := exception.InUse(name, "Cluster already exists with name: %s", name)
	if _, err := s.Clusters.Get(ctx, key); err == nil {
		return nil, taken
	} else if !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	row, err := s.Connected.Get(ctx, key)
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
		return nil, taken
	}
	return &eks.RegisterClusterOutput{Cluster: s.describeConnected(row.Value, true)}, nil
}

// checkRegistration validates a request. (wire has checked the form of the name.)
func (s *Service) checkRegistration(ctx context.Context, in *eks.RegisterClusterInput) error {
	name, config := aws.ToString(in.Name), in.ConnectorConfig
	if config == nil {
		return exception.InvalidParameter(name, "connectorConfig must be specified")
	}
	if fault := resource.TagFault(ctx, in.Tags); fault != "" {
		return exception.InvalidParameter(name, "%s", fault)
	}
	if known := config.Provider.Values(); !slices.Contains(known, config.Provider) {
		return exception.InvalidParameter(
			name, "The provider %q of connectorConfig is invalid: it must be one of %v", config.Provider, known,
		)
	}
	arn := aws.ToString(config.RoleArn)
	role, ok := principal.Parse(arn)
	if !ok || role.Kind != "role" {
		return exception.InvalidParameter(name, "roleArn %s is not the ARN of an IAM role", arn)
	}
	cluster := resource.ScopeOf(ctx).ClusterARN(name)
	if err := principal.PassRole(ctx, role, ssmPrincipal, cluster); err != nil {
		return err
	}
	exists, trusts, err := s.principals.Assumable(
		ctx, role, ssmPrincipal, policy.Context{"aws:SourceAccount": {role.Account}, "aws:SourceArn": {cluster}},
		"sts:AssumeRole",
	)
	switch {
	case err != nil:
		return err
	case !exists:
		return exception.InvalidParameter(name, "The role %s of connectorConfig does not exist", arn)
	case !trusts:
		return exception.InvalidParameter(
			name, "The trust policy of the role %s of connectorConfig does not let %s assume it", arn, ssmPrincipal,
		)
	}
	return nil
}

// DeregisterCluster removes a connected cluster.
func (s *Service) DeregisterCluster(
	ctx context.Context, in *eks.DeregisterClusterInput,
) (*eks.DeregisterClusterOutput, error) {
	name := aws.ToString(in.Name)
	for {
		row, err := s.Connected.Get(ctx, resource.ScopeOf(ctx).ClusterKey(name))
		if errors.Is(err, store.ErrNotFound) {
			return nil, exception.NotFound(name, "No connected cluster found for name: %s.", name)
		} else if err != nil {
			return nil, err
		}
		err = s.Connected.Delete(ctx, row)
		if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) {
			continue // it got a tag, or was removed
		} else if err != nil {
			return nil, err
		}
		return &eks.DeregisterClusterOutput{Cluster: s.describeConnected(row.Value, false)}, nil
	}
}

// describeConnected returns a connected cluster as the API shows it. The activation code is a password: only the answer
// to its registration has it.
func (s *Service) describeConnected(c record.ConnectedCluster, code bool) *types.Cluster {
	out := &types.Cluster{
		Name: new(c.Name), Arn: new(c.ARN()), CreatedAt: new(c.CreatedAt), Status: types.ClusterStatusPending,
		ConnectorConfig: &types.ConnectorConfigResponse{
			ActivationId: new(c.ActivationID), ActivationExpiry: new(c.ActivationExpiry),
			Provider: new(string(c.Provider)), RoleArn: new(c.RoleARN),
		},
		Tags: c.Tags,
	}
	if code {
		out.ConnectorConfig.ActivationCode = new(c.ActivationCode)
	}
	if out.Tags == nil {
		out.Tags = map[string]string{}
	}
	if !s.Now().Before(c.ActivationExpiry) {
		out.Status = types.ClusterStatusFailed
		out.Health = &types.ClusterHealth{Issues: []types.ClusterIssue{{
			Code: types.ClusterIssueCodeOther,
			Message: new("The activation expired before the EKS Connector of the cluster connected. Deregister the " +
				"cluster."),
		}}}
	}
	return out
}

// newActivationCode returns twenty characters that nobody guesses, as codes of Systems Manager activations are.
func newActivationCode() string {
	var code [15]byte
	rand.Read(code[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(code[:])
}
