package cluster

import (
	"regexp"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
)

var kmsKeyARN = regexp.MustCompile(`^arn:aws[a-z-]*:kms:([a-z0-9-]+):(\d{12}):(key|alias)/\S+$`)

// checkEncryption refuses every encryption config: one that AWS would refuse for AWS's reason, and the others because
// there is no KMS that could hold the key. Secrets are encrypted without one, under a key of the cluster's own.
func checkEncryption(at resource.Place, cluster string, in []types.EncryptionConfig) error {
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
	if resources := in[0].Resources; len(resources) > 0 && !slices.Equal(resources, []string{"secrets"}) {
		return exception.InvalidParameter(
			cluster,
			"resources %s in encryptionConfig are invalid: the only supported value is secrets",
			exception.List(resources),
		)
	}
	return exception.InvalidParameter(
		cluster,
		"KMS is not implemented by Coracle, so there is no key %s: leave encryptionConfig out; Secrets are always "+
			"encrypted, under a key of the cluster's own",
		key,
	)
}
