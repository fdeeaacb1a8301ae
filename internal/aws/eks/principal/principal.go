// Package principal reads the IAM users and roles that requests of the EKS API name: who they are, whether the caller
// may pass them to a service, and whether the service may assume them.
package principal

import (
	"regexp"
	"strings"
)

// Principal is an IAM user, role or root user, from its ARN.
type Principal struct {
	ARN, Account string
	Kind         string // role, user or root
	path         string // "/" or "/teams/tooling/"; of a role or user
	Name         string // without the path; empty for root
}

var principalARN = regexp.MustCompile(
	`^arn:aws[a-z-]*:iam::(\d{12}):(?:(root)|(role|user)(/(?:[\x21-\x7e]+/)?)([\w+=,.@-]{1,64}))$`,
)

// Parse reads the ARN of a user, a role or a root user; ok is false for any other.
func Parse(arn string) (p Principal, ok bool) {
	m := principalARN.FindStringSubmatch(arn)
	if m == nil {
		return Principal{}, false
	}
	if m[2] != "" {
		return Principal{ARN: arn, Account: m[1], Kind: m[2]}, true
	}
	return Principal{ARN: arn, Account: m[1], Kind: m[3], path: m[4], Name: m[5]}, true
}

// HasPath reports whether p is a user or role with a path other than "/".
func (p Principal) HasPath() bool { return len(p.path) > len("/") }

// ServiceLinked reports whether p is a service-linked role, which only its service manages.
func (p Principal) ServiceLinked() bool {
	return p.Kind == "role" && strings.HasPrefix(p.path, "/aws-service-role/")
}
