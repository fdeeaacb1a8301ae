package authenticator

import (
	"fmt"
	"strings"

	awsarn "github.com/aws/aws-sdk-go-v2/aws/arn"
)

// kind is the sort of principal that signed a token.
type kind int

const (
	user kind = iota
	root
	assumedRole
	federatedUser
)

// canonicalize returns the ARN by which aws-auth and audit logs identify a principal: a session of an assumed role
// becomes its role (without the role's path, which the session's ARN does not have).
func canonicalize(arn string) (canonical string, k kind, err error) {
	parsed, err := awsarn.Parse(arn)
	if err != nil {
		return "", 0, fmt.Errorf("arn %q is invalid: %w", arn, err)
	}
	first, rest, _ := strings.Cut(parsed.Resource, "/")
	switch parsed.Service + ":" + first {
	case "iam:user":
		return arn, user, nil
	case "iam:root":
		return arn, root, nil
	case "sts:federated-user":
		return arn, federatedUser, nil
	case "sts:assumed-role":
		role, _, ok := strings.Cut(rest, "/")
		if !ok || role == "" {
			return "", 0, fmt.Errorf("assumed-role arn %q does not have a role", arn)
		}
		return "arn:" + parsed.Partition + ":iam::" + parsed.AccountID + ":role/" + role, assumedRole, nil
	}
	return "", 0, fmt.Errorf("arn %q is not that of an identity", arn)
}

// cutRole splits the ARN of an IAM role into what comes before the resource and the role's path and name. It goes by
// the place of the resource in the ARN: the path of a user or a role may contain ":role/" too.
func cutRole(arn string) (prefix, pathAndName string, ok bool) {
	parsed, err := awsarn.Parse(arn)
	if err != nil || parsed.Service != "iam" {
		return "", "", false
	}
	pathAndName, ok = strings.CutPrefix(parsed.Resource, "role/")
	return strings.TrimSuffix(arn, ":"+parsed.Resource), pathAndName, ok
}

// withoutPath returns a role's ARN without the role's path; it returns other ARNs unchanged.
func withoutPath(arn string) string {
	prefix, resource, ok := cutRole(arn)
	if !ok {
		return arn
	}
	return prefix + ":role/" + resource[strings.LastIndexByte(resource, '/')+1:]
}
