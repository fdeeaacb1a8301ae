package accesspolicy

import (
	"slices"
	"strings"
	"testing"
)

func TestLookup(t *testing.T) {
	t.Parallel()
	for _, p := range All() {
		if got, ok := Lookup(p.ARN()); !ok || got.Name != p.Name {
			t.Errorf("Lookup(%s) = %s, %t", p.ARN(), got.Name, ok)
		}
	}
	for _, arn := range []string{"", "AmazonEKSViewPolicy", "arn:aws:iam::aws:policy/AmazonEKSViewPolicy", arnPrefix,
		arnPrefix + "AmazonEKSNoPolicy"} {
		if p, ok := Lookup(arn); ok {
			t.Errorf("Lookup(%q) found %s", arn, p.Name)
		}
	}
	for _, arn := range []string{ClusterAdmin, AutoNode} {
		if _, ok := Lookup(arn); !ok {
			t.Errorf("%s is not in the table", arn)
		}
	}
}

func TestRulesAreWellFormed(t *testing.T) {
	t.Parallel()
	verbs := []string{"*", "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection",
		"impersonate"}
	seen := map[string]bool{}
	for _, p := range All() {
		if seen[p.Name] || !strings.HasPrefix(p.Name, "Amazon") || len(p.Rules) == 0 {
			t.Errorf("policy %q: named twice, oddly, or without a rule", p.Name)
		}
		seen[p.Name] = true
		for _, r := range p.Rules {
			if len(r.Verbs) == 0 || (len(r.NonResourceURLs) == 0) == (len(r.Resources) == 0) ||
				(len(r.Resources) == 0) != (len(r.APIGroups) == 0) {
				t.Errorf("%s: rule %+v must have verbs, and either resources of API groups or URLs", p.Name, r)
			}
			for _, v := range r.Verbs {
				if !slices.Contains(verbs, v) {
					t.Errorf("%s: no verb %q in Kubernetes", p.Name, v)
				}
			}
		}
	}
	if !slices.IsSortedFunc(All(), func(a, b Policy) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("policies are not sorted by name")
	}
}

// The four policies that stand for Kubernetes's user-facing roles grow out of one another.
func TestWhatThePoliciesOfPeopleGrant(t *testing.T) {
	t.Parallel()
	grants := func(policy, verb, group, resource string) bool {
		p, ok := Lookup(arnPrefix + policy)
		if !ok {
			t.Fatalf("no policy %s", policy)
		}
		has := func(list []string, v string) bool { return slices.Contains(list, v) || slices.Contains(list, "*") }
		return slices.ContainsFunc(p.Rules, func(r Rule) bool {
			return has(r.Verbs, verb) && has(r.APIGroups, group) && has(r.Resources, resource)
		})
	}
	for _, c := range []struct {
		verb, group, resource        string
		view, edit, admin, adminView bool
	}{
		{"get", "", "pods", true, true, true, true},
		{"list", "apps", "deployments", true, true, true, true},
		{"get", "", "pods/log", true, true, true, true},
		{"get", "", "secrets", false, true, true, true},
		{"create", "", "pods/exec", false, true, true, false},
		{"delete", "apps", "deployments", false, true, true, false},
		{"create", "", "serviceaccounts", false, true, true, false},
		{"impersonate", "", "serviceaccounts", false, true, true, false},
		{"create", "rbac.authorization.k8s.io", "rolebindings", false, false, true, false},
		{"get", "rbac.authorization.k8s.io", "roles", false, false, true, true},
		{"create", "authorization.k8s.io", "localsubjectaccessreviews", false, false, true, false},
		{"create", "", "namespaces", false, false, false, false},
		{"get", "", "nodes", false, false, false, true},
		{"list", "rbac.authorization.k8s.io", "clusterroles", false, false, false, true},
		{"delete", "", "nodes", false, false, false, false},
	} {
		for policy, want := range map[string]bool{
			"AmazonEKSViewPolicy": c.view, "AmazonEKSEditPolicy": c.edit, "AmazonEKSAdminPolicy": c.admin,
			"AmazonEKSAdminViewPolicy": c.adminView, "AmazonEKSClusterAdminPolicy": true,
		} {
			if got := grants(policy, c.verb, c.group, c.resource); got != want {
				t.Errorf("%s grants %s %s.%s: %t, want %t", policy, c.verb, c.resource, c.group, got, want)
			}
		}
	}
}
