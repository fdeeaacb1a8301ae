package networkpolicy

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/networkpolicy"
)

func TestResolveCluster(t *testing.T) {
	t.Parallel()
	v := shop(t)
	var content map[string]any
	if err := yaml.Unmarshal([]byte(`
metadata: {name: admin, uid: "1"}
spec:
  tier: Admin
  priority: 10
  subject: {namespaces: {matchLabels: {team: shop}}}
  ingress:
  - {action: Deny, from: [{pods: {namespaceSelector: {matchLabels: {team: other}},
     podSelector: {matchLabels: {app: db}}}}]}
  - {action: Accept, from: [{namespaces: {matchLabels: {team: other}}}], ports: [
     {portNumber: {protocol: TCP, port: 80}}, {portRange: {protocol: UDP, start: 1, end: 9}}, {namedPort: http}]}
  egress:
  - {action: Pass, to: [{networks: [10.0.0.0/8, 1.2.3.0/24]}]}
  - {action: Accept, to: [{domainNames: [example.com]}]}
  - {action: Deny, to: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: db}}}}]}
`), &content); err != nil {
		t.Fatal(err)
	}
	p := parseClusterPolicy(&unstructured.Unstructured{Object: content})
	if err := v.setClusterPolicy(p); err != nil {
		t.Fatal(err)
	}
	got, existing, err := v.resolveCluster(t.Context(), "admin")
	if err != nil {
		t.Fatal(err)
	}
	text := func(all []networkpolicy.ClusterEndpointInfo) map[string]bool {
		out := map[string]bool{}
		for _, e := range all {
			out[string(e.Action)+" "+format([]networkpolicy.EndpointInfo{{CIDR: e.CIDR, Ports: e.Ports}})] = true
		}
		return out
	}
	ports := ":TCP/80:TCP/8080:TCP/9090:UDP/1/9"
	for what, c := range map[string]struct {
		got  map[string]bool
		want []string
	}{
		"ingress": {text(got.ingress), []string{"Deny 10.0.1.3", "Accept 10.0.1.1" + ports, "Accept 10.0.1.3" + ports}},
		"egress": {text(got.egress), []string{"Pass 10.0.0.0/8", "Pass 1.2.3.0/24", "Deny 10.0.0.3", "Deny 10.0.1.3",
			"Deny 172.20.0.2"}},
	} {
		if len(c.got) != len(c.want) {
			t.Errorf("%s is %v, want %v", what, c.got, c.want)
		}
		for _, w := range c.want {
			if !c.got[w] {
				t.Errorf("%s is %v, without %q", what, c.got, w)
			}
		}
	}
	var pods []string
	for _, pod := range got.pods {
		pods = append(pods, pod.Name)
	}
	if strings.Join(pods, " ") != "db-1 web-1 web-2" || len(existing) != 0 {
		t.Errorf("the subject is %v, there are %d objects", pods, len(existing))
	}

	plan := func(wanted resolvedCluster, existing []*networkpolicy.ClusterPolicyEndpoint) clusterChanges {
		t.Helper()
		out, err := planCluster(p.ClusterNetworkPolicy, wanted, existing)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	made := plan(got, nil)
	if len(made.create) != 1 || made.create[0].Spec.Priority != 10 || made.create[0].OwnerReferences[0].UID != "1" {
		t.Fatalf("the first plan is %+v", made)
	}
	made.create[0].Name = "admin-1"
	if again := plan(got, made.create); fmt.Sprint(again) != fmt.Sprint(clusterChanges{}) {
		t.Errorf("once more, %+v", again)
	}
	if less := plan(resolvedCluster{}, made.create); len(less.update) != 1 {
		t.Errorf("without pods, %+v", less)
	}
	if concerned := v.removePod("other", "db-1"); len(concerned) != 1 || concerned[0] != ofCluster("admin") {
		t.Errorf("the end of a peer concerns %v", concerned)
	}
}
