package authenticator

import (
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/coracle-eks/coracle/internal/aws/eks/accesspolicy"
)

// anyRuleAllows matches a request against rules as the RBAC authorizer does.
// https://kubernetes.io/docs/reference/access-authn-authz/rbac/
func anyRuleAllows(rules []accesspolicy.Rule, spec authorizationv1.SubjectAccessReviewSpec) bool {
	return slices.ContainsFunc(rules, func(rule accesspolicy.Rule) bool {
		switch {
		case spec.ResourceAttributes != nil:
			return resourceAllowed(rule, spec.ResourceAttributes)
		case spec.NonResourceAttributes != nil:
			return hasValue(rule.Verbs, spec.NonResourceAttributes.Verb) &&
				pathAllowed(rule, spec.NonResourceAttributes.Path)
		}
		return false
	})
}

func resourceAllowed(rule accesspolicy.Rule, request *authorizationv1.ResourceAttributes) bool {
	resource := request.Resource
	if request.Subresource != "" {
		resource += "/" + request.Subresource
	}
	return hasValue(rule.Verbs, request.Verb) &&
		hasValue(rule.APIGroups, request.Group) &&
		(hasValue(rule.Resources, resource) || request.Subresource != "" && slices.Contains(rule.Resources,
			"*/"+request.Subresource)) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, request.Name))
}

// pathAllowed matches /a/b against /a/b, /a/* and *.
func pathAllowed(rule accesspolicy.Rule, path string) bool {
	return slices.ContainsFunc(rule.NonResourceURLs, func(url string) bool {
		prefix, wild := strings.CutSuffix(url, "*")
		return url == path || wild && strings.HasPrefix(path, prefix)
	})
}

func hasValue(list []string, value string) bool {
	return slices.Contains(list, "*") || slices.Contains(list, value)
}
