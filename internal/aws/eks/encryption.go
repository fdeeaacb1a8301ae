package eks

import (
	"context"
	"regexp"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// AssociateEncryptionConfig has a cluster encrypt its data under a key of its owner's. It can't be taken back.
func (s *Service) AssociateEncryptionConfig(ctx context.Context, in *eks.AssociateEncryptionConfigInput) (*eks.AssociateEncryptionConfigOutput, error) {
	name := aws.ToString(in.ClusterName)
	encryption, err := checkEncryption(placeOf(ctx), name, in.EncryptionConfig)
	if err != nil {
		return nil, err
	}
	if len(encryption) == 0 {
		return nil, invalidParameter(name, "encryptionConfig must have one member")
	}
	update, err := s.startUpdate(ctx, change{
		cluster: name, token: in.ClientRequestToken, request: in, kind: types.UpdateTypeAssociateEncryptionConfig,
		apply: func(c *record.Cluster, _ record.ControlPlane, u *record.Update) ([]store.Op, error) {
			if len(c.EncryptionConfig) > 0 {
				return nil, invalidRequest(name, "Encryption is already enabled for the cluster with key %s", aws.ToString(c.EncryptionConfig[0].Provider.KeyArn))
			}
			c.EncryptionConfig = encryption
			u.Params = []types.UpdateParam{param(types.UpdateParamTypeEncryptionConfig, asJSON([]map[string]any{{
				"resources": encryption[0].Resources,
				"provider":  map[string]any{"keyArn": encryption[0].Provider.KeyArn},
			}}))}
			return nil, nil
		},
	})
	if err != nil {
		return nil, err
	}
	return &eks.AssociateEncryptionConfigOutput{Update: update}, nil
}

var kmsKeyARN = regexp.MustCompile(`^arn:aws[a-z-]*:kms:([a-z0-9-]+):(\d{12}):(key|alias)/\S+$`)

// checkEncryption checks the form of an encryption config and where its key is.
func checkEncryption(at place, cluster string, in []types.EncryptionConfig) ([]types.EncryptionConfig, error) {
	switch {
	case len(in) == 0:
		return nil, nil
	case len(in) > 1:
		return nil, invalidParameter(cluster, "encryptionConfig can have one member, but has %d", len(in))
	case in[0].Provider == nil || aws.ToString(in[0].Provider.KeyArn) == "":
		return nil, invalidParameter(cluster, "encryptionConfig must have a provider with a keyArn")
	}
	key := *in[0].Provider.KeyArn
	match := kmsKeyARN.FindStringSubmatch(key)
	if match == nil {
		return nil, invalidParameter(cluster, "keyArn %s in encryptionConfig is not the ARN of a KMS key or alias", key)
	}
	if match[1] != at.region {
		return nil, invalidParameter(cluster, "keyArn %s in encryptionConfig must be in the region of the cluster, %s", key, at.region)
	}
	resources := in[0].Resources
	if len(resources) == 0 {
		resources = []string{"secrets"}
	}
	if !slices.Equal(resources, []string{"secrets"}) {
		return nil, invalidParameter(cluster, "resources %s in encryptionConfig are invalid: the only supported value is secrets", bracketed(resources))
	}
	return []types.EncryptionConfig{{Provider: &types.Provider{KeyArn: new(key)}, Resources: resources}}, nil
}
