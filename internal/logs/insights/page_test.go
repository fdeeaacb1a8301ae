package insights_test

import (
	"os"
	"strings"
	"testing"
)

// The queries of docs/logs-insights.md run.
func TestQueriesOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/logs-insights.md")
	if err != nil {
		t.Fatal(err)
	}
	events := log(
		audit("patch", "kubernetes-admin", "daemonsets", "kube-system", "aws-node", ""),
		audit("update", "kubernetes-admin", "configmaps", "kube-system", "aws-auth",
			`,"requestObject":{"data":{"mapRoles":"- rolearn: x"}}`),
		strings.NewReplacer(`"code":200`, `"code":403,"message":"no"`, `decision":"allow"`,
			`decision":"forbid"`).Replace(audit("create", "bob", "pods", "default", "web", "")),
	)
	events = append(events, event{at: 5000, n: 5, stream: "kube-scheduler-1",
		message: "I0701 12:00:05.000000 1 scheduler.go:1] started"})
	parts := strings.Split(string(page), "```insights\n")
	if len(parts) < 10 {
		t.Fatalf("the page has %d queries", len(parts)-1)
	}
	for _, part := range parts[1:] {
		query, _, _ := strings.Cut(part, "```")
		if r := run(t, compile(t, query, options()), 2, events); len(r.Rows) == 0 {
			t.Errorf("%s\ngives no row for the events of this test", query)
		}
	}
}
