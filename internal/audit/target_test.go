package audit_test

import (
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/audit"
	"github.com/coracle-eks/coracle/internal/logs/insights"
	"github.com/coracle-eks/coracle/internal/logs/pattern"
)

func TestTargets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"daemonset/aws-node", "daemonset/aws-node in namespace shop"},
		{"ds aws-node kube-proxy", "daemonset/aws-node in namespace shop, daemonset/kube-proxy in namespace shop"},
		{"DaemonSets/aws-node", "daemonset/aws-node in namespace shop"},
		{"deploy/web svc/web", "deployment/web in namespace shop, service/web in namespace shop"},
		{"deploy.apps/web", "deployment/web in namespace shop"},
		{"deployments.v1.apps web", "deployment/web in namespace shop"},
		{"cm,secret", "configmap in namespace shop, secret in namespace shop"},
		{"pods,svc web", "pod/web in namespace shop, service/web in namespace shop"},
		{"node/ip-10-0-0-1.ec2.internal", "node/ip-10-0-0-1.ec2.internal"},
		{"ns", "namespace"},
		{"crd boats.harbour.example", "customresourcedefinition/boats.harbour.example"},
		{"clusterrole/system:node", "clusterrole/system:node"},
		{"boats.harbour.example/coracle", "boats.harbour.example/coracle in namespace shop"},
		{"policy", "policy in namespace shop"},
	} {
		targets, err := audit.Targets(words(c.args), "shop")
		var got []string
		for _, target := range targets {
			got = append(got, target.Where())
		}
		if text := strings.Join(got, ", "); err != nil || text != c.want {
			t.Errorf("%s: %s, %v, want %s", c.args, text, err, c.want)
		}
	}
	for _, c := range []struct{ args, want string }{
		{"", "which object?"},
		{"ds/aws-node web", "either all arguments are TYPE/NAME"},
		{"ds pod/web", "either all arguments are TYPE/NAME"},
		{"ds/", `"ds/" is not TYPE/NAME`},
		{"ds/a/b", `"ds/a/b" is not TYPE/NAME`},
		{"/web", `"" is not a type`},
		{"p*ds", `"p*ds" is not a type`},
		{`pod/x"y`, "is no name of an object"},
	} {
		if _, err := audit.Targets(words(c.args), "shop"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.args, err, c.want)
		}
	}
}

// A word that upstream doesn't know may be the plural or the singular of a resource.
func TestPlurals(t *testing.T) {
	t.Parallel()
	for word, resource := range map[string]string{
		"boat": "boats", "boats": "boats", "policy": "policies", "gateway": "gateways", "bus": "buses",
		"nodeclass": "nodeclasses", "box": "boxes", "securitygrouppolicies": "securitygrouppolicies",
	} {
		targets, err := audit.Targets([]string{word}, "")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(" "+strings.Join(targets[0].Resources, " ")+" ", " "+resource+" ") {
			t.Errorf("%s may be %v, not %s", word, targets[0].Resources, resource)
		}
	}
}

func TestQueryAndPatternAreUnderstood(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"ds/aws-node", "pods", "boats.harbour.example/coracle", "clusterrole/system:node",
		"boat", "deploy,svc web", "cm a b c d"} {
		for _, namespace := range []string{"", "shop"} {
			for _, reads := range []bool{false, true} {
				targets, err := audit.Targets(words(args), namespace)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := insights.Parse(audit.Query(targets, reads, 100)); err != nil {
					t.Errorf("%s: %v\n%s", args, err, audit.Query(targets, reads, 100))
				}
				if _, err := pattern.Parse(audit.Pattern(targets)); err != nil {
					t.Errorf("%s: %v\n%s", args, err, audit.Pattern(targets))
				}
			}
		}
	}
}
