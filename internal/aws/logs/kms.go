package logs

import (
	"context"
	"regexp"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

var kmsKeyARN = regexp.MustCompile(`^arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:(key|alias)/\S+$`)

// rejectKMSKey refuses a key: one that AWS would refuse for AWS's reason, and the others because there is no KMS that
// could hold it.
func rejectKMSKey(key string) error {
	if !kmsKeyARN.MatchString(key) {
		return invalidParameter("The specified KMS key %s is not the ARN of a KMS key", key)
	}
	return invalidParameter(
		"The specified KMS key does not exist or is not allowed to be used: KMS is not implemented by Coracle, so "+
			"there is no key %s; leave kmsKeyId out", key)
}

// kmsHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) kmsHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.AssociateKmsKey, func(
			ctx context.Context, action string, in *cloudwatchlogs.AssociateKmsKeyInput,
		) ([]wire.Target, error) {
			return s.onGroup(ctx, action, in.LogGroupName, in.ResourceIdentifier)
		}),
	}
}

// AssociateKmsKey refuses to encrypt a log group, since there is no KMS.
func (s *Service) AssociateKmsKey(ctx context.Context, in *cloudwatchlogs.AssociateKmsKeyInput) (
	*cloudwatchlogs.AssociateKmsKeyOutput, error) {
	if in.LogGroupName != nil {
		if _, err := s.getGroup(ctx, *in.LogGroupName); err != nil {
			return nil, err
		}
	}
	return nil, rejectKMSKey(aws.ToString(in.KmsKeyId))
}
