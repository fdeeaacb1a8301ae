package cluster

import (
	"context"
	"errors"
	"regexp"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/principal"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

var kmsKeyARN = regexp.MustCompile(`^arn:aws[a-z-]*:kms:([a-z0-9-]+):(\d{12}):(key|alias)/\S+$`)

// checkEncryption refuses an encryption config without the form of one. Without any, Secrets are encrypted under a key
// of the cluster's own.
func checkEncryption(at resource.Scope, cluster string, in []types.EncryptionConfig) error {
	switch {
	case len(in) == 0:
		return nil
	case len(in) > 1:
		return exception.InvalidParameter(cluster, "encryptionConfig can have one member, but has %d", len(in))
	case in[0].Provider == nil || aws.ToString(in[0].Provider.KeyArn) == "":
		return exception.InvalidParameter(cluster, "encryptionConfig must have a provider with a keyArn")
	}
	key := *in[0].Provider.KeyArn
	match := kmsKeyARN.FindStringSubmatch(key)
	if match == nil {
		return exception.InvalidParameter(
			cluster, "keyArn %s in encryptionConfig is not the ARN of a KMS key or alias", key,
		)
	}
	if match[1] != at.Region {
		return exception.InvalidParameter(
			cluster, "keyArn %s in encryptionConfig must be in the region of the cluster, %s", key, at.Region,
		)
	}
	if resources := in[0].Resources; !slices.Equal(resources, []string{"secrets"}) {
		return exception.InvalidParameter(
			cluster, "resources %s in encryptionConfig are invalid: the only supported value is secrets",
			exception.List(resources),
		)
	}
	return nil
}

// KMS lets EKS use the keys of its callers.
type KMS interface {
	// GrantForSecrets returns the grant that lets EKS, under the role, encrypt the Secrets of a cluster with a key, and
	// what makes it. It returns an error unless the caller may grant that, and the key can be used.
	GrantForSecrets(ctx context.Context, key, role string, cluster record.Cluster) (record.KMSGrant, []store.Op, error)
}

// grantKey gives a cluster the key of its encryption config, which checkEncryption has accepted. It returns what lets
// EKS use the key.
func (s *Service) grantKey(ctx context.Context, c *record.Cluster, in []types.EncryptionConfig) ([]store.Op, error) {
	if len(in) == 0 {
		return nil, nil
	}
	key := *in[0].Provider.KeyArn
	role := "arn:aws:iam::" + c.Account + ":role/aws-service-role/" + principal.EKS + "/" + serviceLinkedRole
	grant, ops, err := s.kms.GrantForSecrets(ctx, key, role, *c)
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorFault() == smithy.FaultClient {
		return nil, exception.InvalidParameter(
			c.Name, "The KMS key %s in encryptionConfig cannot be used: %s: %s", key, api.ErrorCode(), api.ErrorMessage(),
		)
	}
	if err != nil {
		return nil, err
	}
	c.EncryptionKeyARN = record.KMSKeyARN(grant.Account, grant.Region, grant.KeyID)
	c.EncryptionGrantID = grant.ID
	return ops, nil
}

// encryptionConfig returns the encryption config of a cluster as the API shows it.
func encryptionConfig(c record.Cluster) []types.EncryptionConfig {
	if c.EncryptionKeyARN == "" {
		return nil
	}
	return []types.EncryptionConfig{{
		Resources: []string{"secrets"}, Provider: &types.Provider{KeyArn: new(c.EncryptionKeyARN)},
	}}
}

// encryptionHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) encryptionHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.AssociateEncryptionConfig, func(
			ctx context.Context, action string, in *eks.AssociateEncryptionConfigInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.ClusterName, func(c resource.Conditions) {
				setEncryption(c, in.EncryptionConfig)
			})
		}),
	}
}

// AssociateEncryptionConfig lets a cluster that has none encrypt its Secrets with a KMS key. The update ends once those
// that it has are encrypted again.
func (s *Service) AssociateEncryptionConfig(
	ctx context.Context, in *eks.AssociateEncryptionConfigInput,
) (*eks.AssociateEncryptionConfigOutput, error) {
	name := aws.ToString(in.ClusterName)
	update, err := s.startUpdate(ctx, change{
		cluster: name, token: in.ClientRequestToken, request: in, kind: types.UpdateTypeAssociateEncryptionConfig,
		apply: func(c *record.Cluster, _ record.ControlPlane, u *record.Update) ([]store.Op, error) {
			if len(in.EncryptionConfig) == 0 {
				return nil, exception.InvalidParameter(name, "encryptionConfig must have one member, but has none")
			}
			if err := checkEncryption(resource.ScopeOf(ctx), name, in.EncryptionConfig); err != nil {
				return nil, err
			}
			if c.EncryptionKeyARN != "" {
				return nil, exception.InvalidParameter(
					name, "Cluster %s already has an encryptionConfig, with the key %s, which cannot be changed", name,
					c.EncryptionKeyARN,
				)
			}
			ops, err := s.grantKey(ctx, c, in.EncryptionConfig)
			u.Params = []types.UpdateParam{resource.UpdateParam(
				types.UpdateParamTypeEncryptionConfig,
				resource.JSON([]any{map[string]any{
					"resources": []string{"secrets"}, "provider": map[string]string{"keyArn": c.EncryptionKeyARN},
				}}),
			)}
			return ops, err
		},
	})
	if err != nil {
		return nil, err
	}
	return &eks.AssociateEncryptionConfigOutput{Update: update}, nil
}
