// Package accesspolicy holds the EKS access policies: what each lets an access entry do in Kubernetes.
//
// It is data. The EKS API lists the policies and associates them with access entries, and the authorization webhook of
// a cluster looks up here what an association allows. A rule reads as a rule of Kubernetes RBAC does: empty lists match
// nothing, "*" matches everything, and an association in namespace scope grants its rules in those namespaces only,
// where NonResourceURLs and cluster-wide resources have no place.
//
// The rules are the published ones, but for two kinds of policies. Those of EKS Auto Mode are published in prose and
// follow it; the names of the leases that they speak of are not published, and ours. So do those of the EKS capability
// for kro. Policies of AWS services whose rules are not published at all (EMR jobs, SageMaker HyperPod, the other EKS
// capabilities) are left out, for they could only be listed and grant nothing.
//
// https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html
package accesspolicy

import (
	"slices"
	"strings"
)

const arnPrefix = "arn:aws:eks::aws:cluster-access-policy/"

// ARNs that code needs by name.
const (
	ClusterAdmin = arnPrefix + "AmazonEKSClusterAdminPolicy"
	AutoNode     = arnPrefix + "AmazonEKSAutoNodePolicy"
	KRO          = arnPrefix + "AmazonEKSKROPolicy"
)

// Policy is an access policy.
type Policy struct {
	Name  string // AmazonEKSViewPolicy
	Rules []Rule
}

// ARN returns the policy's Amazon Resource Name.
func (p Policy) ARN() string { return arnPrefix + p.Name }

// Rule allows the verbs on the resources (subresources as in "pods/log") of the API groups, or on the URLs.
// ResourceNames, when there are any, limit it to objects of those names.
type Rule struct {
	APIGroups       []string
	Resources       []string
	ResourceNames   []string
	NonResourceURLs []string
	Verbs           []string
}

// All lists the policies by name. The rules are shared: don't change them.
func All() []Policy { return slices.Clone(policies) }

// Lookup finds a policy by its ARN.
func Lookup(arn string) (Policy, bool) {
	name, ok := strings.CutPrefix(arn, arnPrefix)
	if !ok {
		return Policy{}, false
	}
	i, found := slices.BinarySearchFunc(policies, name, func(p Policy, name string) int {
		return strings.Compare(p.Name,
			name)
	})
	if !found {
		return Policy{}, false
	}
	return policies[i], true
}
