package authenticator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/coracle-eks/coracle/internal/aws/eks/accesspolicy"
	"github.com/coracle-eks/coracle/internal/record"
)

// authorize serves the authorization webhook of one cluster. It allows what an access policy
// of the caller's access entry allows and has no opinion on everything else; it never denies.
// https://kubernetes.io/docs/reference/access-authn-authz/webhook/
func (a *Authenticator) authorize(w http.ResponseWriter, r *http.Request, c record.Cluster) {
	var review authorizationv1.SubjectAccessReview
	if !decodeReview(w, r, &review) {
		return
	}
	reason, err := a.evaluatePolicies(r.Context(), c, review.Spec)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	out := &authorizationv1.SubjectAccessReview{
		Status: authorizationv1.SubjectAccessReviewStatus{Allowed: reason != "", Reason: reason},
	}
	out.SetGroupVersionKind(authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"))
	writeReview(w, out)
}

// evaluatePolicies returns the reason why access policies allow a request, in the words of EKS's audit log; empty when
// they do not.
func (a *Authenticator) evaluatePolicies(ctx context.Context, c record.Cluster,
	spec authorizationv1.SubjectAccessReviewSpec) (string, error) {
	if spec.User == ManagedUser {
		return allowManaged(c, spec), nil
	}
	if !usesEntries(c) {
		return "", nil
	}
	entry, principalID, err := a.entryOfCaller(ctx, c, spec)
	if errors.Is(err, errNotMapped) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for _, p := range entry.Policies {
		policy, ok := accesspolicy.Lookup(p.PolicyARN)
		if !ok || !anyRuleAllows(policy.Rules, spec) {
			continue
		}
		// EKS names the bindings that stand for an association after what it associates.
		binding := entry.PrincipalARN + "+" + p.PolicyARN
		if p.Scope == ekstypes.AccessScopeTypeCluster {
			return fmt.Sprintf("EKS Access Policy: allowed by ClusterRoleBinding %q of ClusterRole %q to User %q",
				binding, p.PolicyARN, principalID), nil
		}
		// Requests outside of namespaces are not for namespaced associations.
		if attributes := spec.ResourceAttributes; attributes != nil && inScope(attributes.Namespace, p.Namespaces) {
			return fmt.Sprintf("EKS Access Policy: allowed by RoleBinding %q of ClusterRole %q to User %q",
				binding+"/"+attributes.Namespace, p.PolicyARN, principalID), nil
		}
	}
	return "", nil
}

// ManagedUser is the name of EKS in the access entry that it creates for its service-linked role in every cluster. EKS
// makes cluster insights by this name, with a certificate; the entry is there whatever the authentication mode is.
// https://docs.aws.amazon.com/eks/latest/userguide/cluster-insights.html
const ManagedUser = "eks:managed"

// insightRules are those of AmazonEKSClusterInsightsPolicy, which only that entry has.
// https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html
var insightRules = []accesspolicy.Rule{
	{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list"}},
	{APIGroups: []string{"apps"}, Resources: []string{"daemonsets"}, Verbs: []string{"get", "list"}},
}

// allowManaged returns the reason why [ManagedUser] may do what it does for insights; empty for anything else.
func allowManaged(c record.Cluster, spec authorizationv1.SubjectAccessReviewSpec) string {
	if !anyRuleAllows(insightRules, spec) {
		return ""
	}
	const policy = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterInsightsPolicy"
	role := "arn:aws:iam::" + c.Account + ":role/aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS"
	return fmt.Sprintf("EKS Access Policy: allowed by ClusterRoleBinding %q of ClusterRole %q to User %q",
		role+"+"+policy, policy, ManagedUser)
}

// entryOfCaller finds the access entry of a user whom this authenticator let in. It goes by the
// principal and never by the user name alone, which aws-auth may give to anyone.
//
// The extra fields prove nothing alone: who may impersonate some user can send any of them, in any
// case, with a letter of the key percent-encoded. So the user name and the UID must be those that
// authenticate gives this principal, too: who may impersonate these may be this user.
func (a *Authenticator) entryOfCaller(ctx context.Context, c record.Cluster,
	spec authorizationv1.SubjectAccessReviewSpec) (record.AccessEntry, string, error) {
	one := func(key string) string {
		v, ok := spec.Extra[key]
		if !ok {
			v = spec.Extra[strings.ToLower(key)] // an aggregated API server asks, which gets them in headers
		}
		if len(v) == 1 {
			return v[0]
		}
		return ""
	}
	id := Identity{ARN: one(extraARN), PrincipalID: one(extraPrincipal), SessionName: one(extraSessionName),
		AccessKeyID: one(extraAccessKeyID)}
	if id.ARN == "" || id.PrincipalID == "" {
		return record.AccessEntry{}, "", errNotMapped
	}
	var err error
	id.CanonicalARN, id.kind, err = canonicalize(id.ARN)
	if err != nil {
		return record.AccessEntry{}, "", errNotMapped // not an identity that we made
	}
	id.AccountID = strings.Split(id.CanonicalARN, ":")[4]
	if spec.UID != userUID(id) {
		return record.AccessEntry{}, "", errNotMapped
	}
	entry, err := a.entryOf(ctx, c, id)
	if err != nil || len(entry.Policies) == 0 {
		return entry, id.PrincipalID, err
	}
	if user, err := a.resolveEntry(ctx, c, entry, id); err != nil || user.Username != spec.User {
		return record.AccessEntry{}, "", errNotMapped
	}
	return entry, id.PrincipalID, nil
}

// inScope reports whether a namespaced association holds in a namespace. A namespace of the
// association may end in *.
func inScope(namespace string, scope []string) bool {
	if namespace == "" {
		return false
	}
	for _, s := range scope {
		prefix, wild := strings.CutSuffix(s, "*")
		if s == namespace || wild && strings.HasPrefix(namespace, prefix) {
			return true
		}
	}
	return false
}
