package forward

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// secretOperations are those on one secret, which SecretId names.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_awssecretsmanager.html
var secretOperations = map[string]bool{
	"CancelRotateSecret": true, "DeleteResourcePolicy": true, "DeleteSecret": true, "DescribeSecret": true,
	"GetResourcePolicy": true, "GetSecretValue": true, "ListSecretVersionIds": true, "PutResourcePolicy": true,
	"PutSecretValue": true, "RestoreSecret": true, "RotateSecret": true, "TagResource": true, "UntagResource": true,
	"UpdateSecret": true, "UpdateSecretVersionStage": true,
}

// secretKeys reports whether the value of a condition key is not read from requests.
var secretKeys = unreadKeys("secretsmanager", "secretsmanager:name", "secretsmanager:secretid",
	"secretsmanager:versionid", "secretsmanager:versionstage")

var (
	secretName = regexp.MustCompile(`^[A-Za-z0-9/_+=.@-]{1,512}$`)
	// secretSuffix is the end of the ARN of a secret, behind its name.
	secretSuffix = regexp.MustCompile(`^.+-[A-Za-z0-9]{6}$`)
)

// readSecretsManager returns what a request for AWS Secrets Manager asks for.
func readSecretsManager(r *wire.Forwarded) (*call, error) {
	operation, err := operationOf(r, "secretsmanager")
	if err != nil {
		return nil, err
	}
	in := &secretInput{}
	if err := readBody(r, in); err != nil {
		return nil, err
	}
	targets, err := in.targets(r, operation)
	return jsonCall(wire.AWSJSON11, operation, targets), err
}

// secretInput has what inputs say about secrets.
type secretInput struct {
	SecretID     string `json:"SecretId"`
	Name         string
	SecretIDList []string `json:"SecretIdList"`
	VersionID    string   `json:"VersionId"`
	VersionStage string
	Tags         []json.RawMessage
}

// targets returns what an operation needs permission for.
func (in *secretInput) targets(r *wire.Forwarded, operation string) (targets []wire.Target, err error) {
	conditions := map[string][]string{}
	for name, value := range map[string]string{"SecretId": in.SecretID, "Name": in.Name, "VersionId": in.VersionID,
		"VersionStage": in.VersionStage} {
		if value != "" {
			conditions["secretsmanager:"+name] = []string{value}
		}
	}
	need := func(action string, ids ...string) error {
		var arns []string
		for _, id := range ids {
			arn, err := secretARN(r, id)
			if err != nil {
				return err
			}
			arns = append(arns, arn)
		}
		targets = append(targets, targetsOn(r, "secretsmanager:"+action, conditions, secretKeys, arns...)...)
		return nil
	}
	switch {
	case secretOperations[operation]:
		err = need(operation, in.SecretID)
	case operation == "CreateSecret":
		if err = need(operation, in.Name); err == nil && len(in.Tags) > 0 {
			err = need("TagResource", in.Name)
		}
	case operation == "GetRandomPassword" || operation == "ListSecrets":
		err = need(operation)
	case operation == "BatchGetSecretValue" && len(in.SecretIDList) > 0:
		if err = need(operation); err == nil {
			err = need("GetSecretValue", in.SecretIDList...)
		}
	case operation == "BatchGetSecretValue":
		err = refuse("BatchGetSecretValue with filters: give it a SecretIdList")
	default:
		err = refuse("the operation %s of Secrets Manager", operation)
	}
	return targets, err
}

// secretARN returns the ARN of a secret by what SecretId has. The six random characters at the end of an ARN, which the
// endpoint alone knows of a name, are question marks: what policies that name a secret by its name have there. An ARN
// without them is refused, as it would escape a Deny.
func secretARN(r *wire.Forwarded, id string) (string, error) {
	prefix, name := arnOf(r, "secretsmanager", "secret:"), id
	if strings.HasPrefix(id, "arn:") {
		var ok bool
		if name, ok = strings.CutPrefix(id, prefix); !ok {
			return "", notOurs(id)
		}
		if !secretSuffix.MatchString(name) {
			return "", badName("ARN of a secret: it lacks the six characters behind the name", id)
		}
	} else {
		id = prefix + id + "-??????"
	}
	if !secretName.MatchString(name) {
		return "", badName("name of a secret", name)
	}
	return id, nil
}
