package principal

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// Pods is whom a role has to trust that pods are to have by EKS Pod Identity.
// https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html
const Pods = "pods.eks.amazonaws.com"

// PodTags returns the session tags of the pods of a service account, but those of one pod alone.
// https://docs.aws.amazon.com/eks/latest/userguide/pod-id-abac.html
func PodTags(c record.Cluster, namespace, serviceAccount string) map[string]string {
	return map[string]string{
		"eks-cluster-arn": c.ARN(), "eks-cluster-name": c.Name,
		"kubernetes-namespace": namespace, "kubernetes-service-account": serviceAccount,
	}
}

// PodTrust returns the condition keys and the actions for which the trust policy of an association's role is asked when
// its session gets tags.
func PodTrust(p record.PodIdentityAssociation, tags map[string]string) (keys policy.Context, actions []string) {
	cluster := record.Cluster{Account: p.Account, Region: p.Region, Name: p.Cluster}
	keys = policy.Context{
		"aws:PrincipalIsAWSService": {"true"}, "aws:PrincipalServiceName": {Pods},
		"aws:SourceAccount": {p.Account}, "aws:SourceArn": {cluster.ARN()},
	}
	if len(tags) == 0 {
		return keys, []string{"sts:AssumeRole"}
	}
	names := slices.Sorted(maps.Keys(tags))
	keys["aws:TagKeys"], keys["sts:TransitiveTagKeys"] = names, names
	for name, value := range tags {
		keys["aws:RequestTag/"+name] = []string{value}
	}
	return keys, []string{"sts:AssumeRole", "sts:TagSession"}
}

// CheckPodRole demands that the caller may see a role and pass it to pods, and that the role lets EKS Pod Identity
// assume it for an association.
func (d *Directory) CheckPodRole(
	ctx context.Context, about exception.About, p record.PodIdentityAssociation, role Principal,
) error {
	if err := PassRole(ctx, role, Pods, p.ARN()); err != nil {
		return err
	}
	if err := wire.Authorize(ctx, wire.Target{Action: "iam:GetRole", Resource: role.ARN}); err != nil {
		return err
	}
	var tags map[string]string
	if !p.DisableSessionTags {
		tags = PodTags(record.Cluster{Account: p.Account, Region: p.Region, Name: p.Cluster}, p.Namespace, p.ServiceAccount)
	}
	keys, actions := PodTrust(p, tags)
	exists, trusts, err := d.Assumable(ctx, role, Pods, keys, actions...)
	switch {
	case err != nil:
		return err
	case !exists:
		return about.InvalidParameter("Role provided in the request does not exist.")
	case !trusts:
		return about.InvalidParameter(
			"Trust policy of the role provided is invalid. Follow the official documentation to resolve the issue.",
		)
	}
	return nil
}

// longestSessionPolicy is the length of a session policy, in characters without white space.
const longestSessionPolicy = 2048

// CheckSessionPolicy demands that a text is a policy that can restrict a session.
func CheckSessionPolicy(about exception.About, text string) error {
	var parsed any
	if err := json.Unmarshal([]byte(text), &parsed); err == nil {
		if compact, err := json.Marshal(parsed); err == nil && len(compact) > longestSessionPolicy {
			return about.InvalidParameter("policy can't be longer than %d characters, but has %d", longestSessionPolicy,
				len(compact))
		}
	}
	if _, err := policy.Parse(policy.Identity, text); err != nil {
		return about.InvalidParameter("policy is not a valid IAM policy: %v", err)
	}
	return nil
}

// NewAssociationID returns "a-" and seventeen letters and digits.
func NewAssociationID() string {
	const symbols = "0123456789abcdefghijklmnopqrstuvwxyz"
	id := make([]byte, 17)
	_, _ = rand.Read(id) // never fails
	for i, b := range id {
		id[i] = symbols[int(b)%len(symbols)]
	}
	return "a-" + string(id)
}
