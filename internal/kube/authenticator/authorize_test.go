package authenticator

import (
	"strings"
	"testing"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/coracle-eks/coracle/internal/aws/eks/accesspolicy"
	"github.com/coracle-eks/coracle/internal/record"
)

const policyARN = "arn:aws:eks::aws:cluster-access-policy/"

func on(verb, group, resource, namespace, name string) authorizationv1.SubjectAccessReviewSpec {
	resource, subresource, _ := strings.Cut(resource, "/")
	return authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
		Verb: verb, Group: group, Resource: resource, Subresource: subresource, Namespace: namespace, Name: name,
	}}
}

func path(verb, path string) authorizationv1.SubjectAccessReviewSpec {
	return authorizationv1.SubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{
		Verb: verb, Path: path}}
}

func everywhere(policy string) record.AccessPolicyAssociation {
	return record.AccessPolicyAssociation{PolicyARN: policyARN + policy, Scope: ekstypes.AccessScopeTypeCluster}
}

func within(policy string, namespaces ...string) record.AccessPolicyAssociation {
	return record.AccessPolicyAssociation{PolicyARN: policyARN + policy, Scope: ekstypes.AccessScopeTypeNamespace,
		Namespaces: namespaces}
}

// TestManagedUserReadsForInsights shows what EKS itself may do in every cluster, whatever its authentication mode is.
func TestManagedUserReadsForInsights(t *testing.T) {
	t.Parallel()
	f := newFixture(t, onlyConfigMap)
	for _, test := range []struct {
		request authorizationv1.SubjectAccessReviewSpec
		allowed bool
	}{
		{on("list", "", "nodes", "", ""), true},
		{on("list", "apps", "daemonsets", "kube-system", ""), true},
		{on("list", "", "secrets", "kube-system", ""), false},
		{on("delete", "", "nodes", "", "n"), false},
		{on("get", "", "nodes/proxy", "", "n"), false},
		{path("get", "/metrics"), false},
	} {
		got := f.authorize(authenticationv1.UserInfo{Username: ManagedUser}, test.request)
		if got.Allowed != test.allowed || test.allowed && !strings.Contains(got.Reason, "AmazonEKSClusterInsightsPolicy") {
			t.Errorf("%+v: got %+v", test.request, got)
		}
	}
}

func TestAccessPolicies(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		mode     ekstypes.AuthenticationMode // API unless set
		policies []record.AccessPolicyAssociation
		request  authorizationv1.SubjectAccessReviewSpec
		allowed  bool
	}{
		{name: "no policy", request: on("get", "", "pods", "default", "")},
		{name: "cluster admin reads", policies: []record.AccessPolicyAssociation{
			everywhere("AmazonEKSClusterAdminPolicy")}, request: on("list", "", "nodes", "", ""), allowed: true},
		{name: "cluster admin makes cluster roles",
			policies: []record.AccessPolicyAssociation{everywhere("AmazonEKSClusterAdminPolicy")},
			request:  on("create", "rbac.authorization.k8s.io", "clusterroles", "", ""), allowed: true},
		{name: "cluster admin gives more than he has by RBAC",
			policies: []record.AccessPolicyAssociation{everywhere("AmazonEKSClusterAdminPolicy")},
			request:  on("escalate", "rbac.authorization.k8s.io", "clusterroles", "", "x"), allowed: true},
		{name: "cluster admin binds", policies: []record.AccessPolicyAssociation{
			everywhere("AmazonEKSClusterAdminPolicy")}, request: on("bind", "rbac.authorization.k8s.io", "roles",
			"default", "x"), allowed: true},
		{name: "cluster admin and custom resources",
			policies: []record.AccessPolicyAssociation{everywhere("AmazonEKSClusterAdminPolicy")},
			request:  on("patch", "example.com", "widgets/status", "default", "w"), allowed: true},
		{name: "cluster admin and URLs",
			policies: []record.AccessPolicyAssociation{everywhere("AmazonEKSClusterAdminPolicy")},
			request:  path("get", "/metrics"), allowed: true},
		{name: "cluster admin in a namespace",
			policies: []record.AccessPolicyAssociation{within("AmazonEKSClusterAdminPolicy", "dev")},
			request:  on("escalate", "rbac.authorization.k8s.io", "roles", "dev", "x"), allowed: true},
		{name: "cluster admin outside his namespace",
			policies: []record.AccessPolicyAssociation{within("AmazonEKSClusterAdminPolicy", "dev")},
			request:  on("get", "", "pods", "prod", "x")},
		{name: "cluster admin of a namespace and the cluster's resources",
			policies: []record.AccessPolicyAssociation{within("AmazonEKSClusterAdminPolicy", "dev")},
			request:  on("list", "", "nodes", "", "")},
		{name: "cluster admin of a namespace and all namespaces",
			policies: []record.AccessPolicyAssociation{within("AmazonEKSClusterAdminPolicy", "dev")},
			request:  on("list", "", "pods", "", "")},
		{name: "cluster admin of a namespace and URLs",
			policies: []record.AccessPolicyAssociation{within("AmazonEKSClusterAdminPolicy", "*")},
			request:  path("get", "/metrics")},
		{name: "the namespace itself", policies: []record.AccessPolicyAssociation{within("AmazonEKSViewPolicy", "dev")},
			request: on("get", "", "namespaces", "dev", "dev"), allowed: true},
		{name: "all namespaces that begin so", policies: []record.AccessPolicyAssociation{within("AmazonEKSViewPolicy",
			"prod", "dev-*")}, request: on("get", "", "pods", "dev-alice", "x"), allowed: true},
		{name: "a namespace that begins otherwise",
			policies: []record.AccessPolicyAssociation{within("AmazonEKSViewPolicy", "dev-*")},
			request:  on("get", "", "pods", "dev", "x")},
		{name: "any namespace", policies: []record.AccessPolicyAssociation{within("AmazonEKSViewPolicy", "*")},
			request: on("get", "", "pods", "x", "x"), allowed: true},
		{name: "view does not change", policies: []record.AccessPolicyAssociation{everywhere("AmazonEKSViewPolicy")},
			request: on("delete", "", "pods", "default", "x")},
		{name: "view does not see Secrets",
			policies: []record.AccessPolicyAssociation{everywhere("AmazonEKSViewPolicy")},
			request:  on("get", "", "secrets", "default", "x")},
		{name: "view sees logs", policies: []record.AccessPolicyAssociation{everywhere("AmazonEKSViewPolicy")},
			request: on("get", "", "pods/log", "default", "x"), allowed: true},
		{name: "view does not exec", policies: []record.AccessPolicyAssociation{everywhere("AmazonEKSViewPolicy")},
			request: on("create", "", "pods/exec", "default", "x")},
		{name: "edit execs", policies: []record.AccessPolicyAssociation{everywhere("AmazonEKSEditPolicy")},
			request: on("create", "", "pods/exec", "default", "x"), allowed: true},
		{name: "edit in another API group",
			policies: []record.AccessPolicyAssociation{everywhere("AmazonEKSEditPolicy")},
			request:  on("get", "example.com", "pods", "default", "x")},
		{name: "edit makes no roles", policies: []record.AccessPolicyAssociation{everywhere("AmazonEKSEditPolicy")},
			request: on("create", "rbac.authorization.k8s.io", "roles", "default", "x")},
		{name: "admin makes roles", policies: []record.AccessPolicyAssociation{everywhere("AmazonEKSAdminPolicy")},
			request: on("create", "rbac.authorization.k8s.io", "roles", "default", "x"), allowed: true},
		{name: "admin does not give more than he has",
			policies: []record.AccessPolicyAssociation{everywhere("AmazonEKSAdminPolicy")},
			request:  on("escalate", "rbac.authorization.k8s.io", "roles", "default", "x")},
		{name: "the second policy", policies: []record.AccessPolicyAssociation{within("AmazonEKSAdminPolicy", "dev"),
			everywhere("AmazonEKSViewPolicy")}, request: on("get", "", "pods", "prod", "x"), allowed: true},
		{name: "policies do not add up over scopes",
			policies: []record.AccessPolicyAssociation{within("AmazonEKSAdminPolicy", "dev"),
				everywhere("AmazonEKSViewPolicy")}, request: on("delete", "", "pods", "prod", "x")},
		{name: "policy that is not known",
			policies: []record.AccessPolicyAssociation{everywhere("AmazonEKSNoSuchPolicy")},
			request:  on("get", "", "pods", "default", "x")},
		{name: "entries do not count", mode: onlyConfigMap,
			policies: []record.AccessPolicyAssociation{everywhere("AmazonEKSClusterAdminPolicy")},
			request:  on("get", "", "pods", "default", "x")},
		{name: "neither resource nor URL",
			policies: []record.AccessPolicyAssociation{everywhere("AmazonEKSClusterAdminPolicy")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.mode == "" {
				test.mode = onlyAPI
			}
			f := newFixture(t, onlyAPI)
			f.entry(record.AccessEntry{PrincipalARN: "arn:aws:iam::111122223333:role/teams/Ops",
				Policies: test.policies})
			user := f.authenticate(f.role("/teams/", "Ops", "alice")).User
			_, err := record.Clusters(f.store).Modify(t.Context(), record.ClusterKey(account, region, name),
				func(c *record.Cluster) error {
					c.AuthenticationMode = test.mode
					return nil
				})
			f.put(err)
			got := f.authorize(user, test.request)
			if got.Allowed != test.allowed || got.Denied || got.EvaluationError != "" ||
				(got.Reason != "") != test.allowed {
				t.Errorf("got %+v, want allowed %t", got, test.allowed)
			}
		})
	}
}

// The words are those of EKS's audit log.
func TestReasons(t *testing.T) {
	t.Parallel()
	f := newFixture(t, onlyAPI)
	f.entry(record.AccessEntry{PrincipalARN: "arn:aws:iam::111122223333:role/teams/Ops",
		Policies: []record.AccessPolicyAssociation{
			within("AmazonEKSEditPolicy", "dev-*"), everywhere("AmazonEKSViewPolicy"),
		}})
	user := f.authenticate(f.role("/teams/", "Ops", "alice")).User
	for _, test := range []struct {
		request authorizationv1.SubjectAccessReviewSpec
		want    string
	}{
		{on("list", "", "namespaces", "", ""),
			`EKS Access Policy: allowed by ClusterRoleBinding "arn:aws:iam::111122223333:role/teams/Ops+arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy" of ClusterRole "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy" to User "AROAOPS"`},
		{on("delete", "", "pods", "dev-1", "x"),
			`EKS Access Policy: allowed by RoleBinding "arn:aws:iam::111122223333:role/teams/Ops+arn:aws:eks::aws:cluster-access-policy/AmazonEKSEditPolicy/dev-1" of ClusterRole "arn:aws:eks::aws:cluster-access-policy/AmazonEKSEditPolicy" to User "AROAOPS"`},
	} {
		if got := f.authorize(user, test.request).Reason; got != test.want {
			t.Errorf("reason is\n%s, want\n%s", got, test.want)
		}
	}
}

func TestPoliciesFollowThePrincipal(t *testing.T) {
	t.Parallel()
	f := newFixture(t, both)
	arn := "arn:aws:iam::111122223333:role/Ops"
	admin := []record.AccessPolicyAssociation{everywhere("AmazonEKSClusterAdminPolicy")}
	f.entry(record.AccessEntry{PrincipalARN: arn, Username: "ops", Policies: admin})
	user := f.authenticate(f.role("/", "Ops", "alice")).User
	request := on("delete", "", "nodes", "", "n")
	allowed := func(u authenticationv1.UserInfo) bool { return f.authorize(u, request).Allowed }
	change := func(edit func(*authenticationv1.UserInfo)) authenticationv1.UserInfo {
		u := *user.DeepCopy()
		edit(&u)
		return u
	}
	if !allowed(user) {
		t.Fatal("the administrator is not allowed")
	}
	for _, test := range []struct {
		name string
		user authenticationv1.UserInfo
		want bool
	}{
		{"impersonated: another user name with the same extra fields",
			change(func(u *authenticationv1.UserInfo) { u.Username = "x" }), false},
		{"impersonated: the same user name and extra fields without the UID",
			change(func(u *authenticationv1.UserInfo) { u.UID = "" }), false},
		{"impersonated: the same user name and groups alone", authenticationv1.UserInfo{Username: user.Username,
			UID: user.UID, Groups: user.Groups}, false},
		{"another principal",
			change(func(u *authenticationv1.UserInfo) {
				u.Extra[extraPrincipal] = authenticationv1.ExtraValue{
					"AROAOTHER"}
			}), false},
		{"another role", change(func(u *authenticationv1.UserInfo) {
			u.Extra[extraARN] = authenticationv1.ExtraValue{"arn:aws:sts::111122223333:assumed-role/Other/alice"}
		}), false},
		{"ARN that is none",
			change(func(u *authenticationv1.UserInfo) { u.Extra[extraARN] = authenticationv1.ExtraValue{"x"} }), false},
		{"two principals", change(func(u *authenticationv1.UserInfo) {
			u.Extra[extraPrincipal] = append(u.Extra[extraPrincipal], "AROAOTHER")
		}), false},
		{"keys in lower case, as an aggregated API server gets them", change(func(u *authenticationv1.UserInfo) {
			for k, v := range user.Extra {
				delete(u.Extra, k)
				u.Extra[strings.ToLower(k)] = v
			}
		}), true},
		{"keys in lower case without the UID, as from impersonation headers",
			change(func(u *authenticationv1.UserInfo) {
				u.UID = ""
				for k, v := range user.Extra {
					delete(u.Extra, k)
					u.Extra[strings.ToLower(k)] = v
				}
			}), false},
		{"a service account", authenticationv1.UserInfo{Username: "system:serviceaccount:default:ops"}, false},
	} {
		if got := allowed(test.user); got != test.want {
			t.Errorf("%s: allowed is %t, want %t", test.name, got, test.want)
		}
	}
	f.entry(record.AccessEntry{PrincipalARN: arn, Username: "ops"})
	if allowed(user) {
		t.Error("allowed although the policy was disassociated")
	}
	f.entry(record.AccessEntry{PrincipalARN: arn, Username: "ops", Policies: admin})
	if !allowed(user) {
		t.Error("not allowed although the policy was associated again")
	}
	f.removeEntry(arn)
	if allowed(user) {
		t.Error("allowed although the entry was deleted")
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		rule    accesspolicy.Rule
		request authorizationv1.SubjectAccessReviewSpec
		want    bool
	}{
		{"exact", accesspolicy.Rule{APIGroups: []string{"apps"}, Resources: []string{"deployments"},
			Verbs: []string{"get"}}, on("get", "apps", "deployments", "n", "x"), true},
		{"other verb", accesspolicy.Rule{APIGroups: []string{"apps"}, Resources: []string{"deployments"},
			Verbs: []string{"get"}}, on("list", "apps", "deployments", "n", "x"), false},
		{"other group", accesspolicy.Rule{APIGroups: []string{"apps"}, Resources: []string{"deployments"},
			Verbs: []string{"get"}}, on("get", "", "deployments", "n", "x"), false},
		{"core group only", accesspolicy.Rule{APIGroups: []string{""}, Resources: []string{"pods"},
			Verbs: []string{"*"}}, on("get", "metrics.k8s.io", "pods", "n", "x"), false},
		{"any group", accesspolicy.Rule{APIGroups: []string{"*"}, Resources: []string{"pods"}, Verbs: []string{"*"}},
			on("get", "metrics.k8s.io", "pods", "n", "x"), true},
		{"resource does not include subresources", accesspolicy.Rule{APIGroups: []string{""},
			Resources: []string{"pods"}, Verbs: []string{"*"}}, on("get", "", "pods/log", "n", "x"), false},
		{"subresource does not include the resource", accesspolicy.Rule{APIGroups: []string{""},
			Resources: []string{"pods/log"}, Verbs: []string{"*"}}, on("get", "", "pods", "n", "x"), false},
		{"subresource of any resource", accesspolicy.Rule{APIGroups: []string{"*"}, Resources: []string{"*/scale"},
			Verbs: []string{"*"}}, on("update", "apps", "deployments/scale", "n", "x"), true},
		{"another subresource of any resource", accesspolicy.Rule{APIGroups: []string{"*"},
			Resources: []string{"*/scale"}, Verbs: []string{"*"}}, on("update", "apps", "deployments/status", "n", "x"),
			false},
		{"any resource includes subresources", accesspolicy.Rule{APIGroups: []string{"*"}, Resources: []string{"*"},
			Verbs: []string{"*"}}, on("update", "apps", "deployments/status", "n", "x"), true},
		{"by name", accesspolicy.Rule{APIGroups: []string{""}, Resources: []string{"configmaps"},
			ResourceNames: []string{"a"}, Verbs: []string{"get"}}, on("get", "", "configmaps", "n", "a"), true},
		{"by another name", accesspolicy.Rule{APIGroups: []string{""}, Resources: []string{"configmaps"},
			ResourceNames: []string{"a"}, Verbs: []string{"get"}}, on("get", "", "configmaps", "n", "b"), false},
		{"by name, none given", accesspolicy.Rule{APIGroups: []string{""}, Resources: []string{"configmaps"},
			ResourceNames: []string{"a"}, Verbs: []string{"list"}}, on("list", "", "configmaps", "n", ""), false},
		{"empty rule", accesspolicy.Rule{}, on("get", "", "pods", "n", "x"), false},
		{"resource rule and URL", accesspolicy.Rule{APIGroups: []string{"*"}, Resources: []string{"*"},
			Verbs: []string{"*"}}, path("get", "/metrics"), false},
		{"URL rule and resource", accesspolicy.Rule{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}},
			on("get", "", "pods", "n", "x"), false},
		{"URL", accesspolicy.Rule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}},
			path("get", "/metrics"), true},
		{"URL below", accesspolicy.Rule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}},
			path("get", "/metrics/x"), false},
		{"URLs that begin so", accesspolicy.Rule{NonResourceURLs: []string{"/logs/*"}, Verbs: []string{"get"}},
			path("get", "/logs/x/y"), true},
		{"URLs that do not", accesspolicy.Rule{NonResourceURLs: []string{"/logs/*"}, Verbs: []string{"get"}},
			path("get", "/log"), false},
		{"URL, other verb", accesspolicy.Rule{NonResourceURLs: []string{"*"}, Verbs: []string{"get"}},
			path("post", "/logs"), false},
	} {
		if got := anyRuleAllows([]accesspolicy.Rule{test.rule}, test.request); got != test.want {
			t.Errorf("%s: got %t, want %t", test.name, got, test.want)
		}
	}
}
