package accesspolicy

import "strings"

// reservedPrefixes begin the names that belong to Kubernetes and AWS.
// https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html
var reservedPrefixes = []string{"system:", "eks:", "aws:", "amazon:", "iam:"}

// ReservedPrefix returns the reserved prefix that a username or group begins with. A STANDARD access entry must not
// give such a name. The EKS API asks when an entry is written, and the authenticator again when its templates are
// rendered.
func ReservedPrefix(name string) (prefix string, reserved bool) {
	for _, prefix := range reservedPrefixes {
		if strings.HasPrefix(name, prefix) {
			return prefix, true
		}
	}
	return "", false
}
