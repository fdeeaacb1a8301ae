package insights_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/logs/insights"
)

// audit is an audit event as an EKS cluster writes it.
func audit(verb, user, resource, namespace, name, extra string) string {
	return fmt.Sprintf(
		`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"5f0c1a52-08b5-4b0c-9a1e-%012d","stage":"ResponseComplete",`+
			`"requestURI":"/apis/apps/v1/namespaces/%s/%s/%s?fieldManager=eks","verb":"%s","user":{"username":"%s","uid":"aws-iam-authenticator:111122223333:AROAEXAMPLE",`+
			`"groups":["system:masters","system:authenticated"],"extra":{"arn":["arn:aws:sts::111122223333:assumed-role/admin/session"]}},`+
			`"sourceIPs":["10.0.12.7"],"userAgent":"kubectl/v1.36.2 (linux/amd64) kubernetes/a1b2c3d",`+
			`"objectRef":{"resource":"%s","namespace":"%s","name":"%s","apiGroup":"apps","apiVersion":"v1"},`+
			`"responseStatus":{"metadata":{},"code":200},"requestReceivedTimestamp":"2026-07-01T12:00:00.123456Z","stageTimestamp":"2026-07-01T12:00:00.130001Z",`+
			`"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":""}%s}`,
		len(verb)*len(name), namespace, resource, name, verb, user, resource, namespace, name, extra)
}

func TestQueriesOfTheIssue(t *testing.T) {
	t.Parallel()
	const nodeManager = "eks:addon-manager"
	events := log(
		audit("get", "system:node:ip-10-0-1-1", "daemonsets", "kube-system", "aws-node", ""),
		audit("patch", nodeManager, "daemonsets", "kube-system", "aws-node", ""),
		audit("patch", nodeManager, "daemonsets", "kube-system", "kube-proxy", ""),
		audit("patch", "kubernetes-admin", "configmaps", "kube-system", "aws-auth",
			`,"requestObject":{"data":{"mapRoles":"- rolearn: x"}}`),
		audit("list", "kubernetes-admin", "configmaps", "kube-system", "aws-auth", ""),
		audit("patch", "kubernetes-admin", "daemonsets", "kube-system", "aws-node", ""),
		audit("update", "eks:node-manager", "configmaps", "kube-system", "aws-auth", ""),
		"I0701 12:00:00.000000 1 controller.go:1] not JSON, aws-node daemonsets patch",
	)
	events = append(events, event{at: 9000, n: 9, stream: "kube-apiserver-1", message: audit("patch", "x", "daemonsets",
		"kube-system", "aws-node", "")})
	for _, c := range []struct {
		query string
		want  []int
	}{
		{`filter @logStream like /^kube-apiserver-audit/
 | fields @timestamp, @message
 | sort @timestamp asc
 | filter objectRef.name == 'aws-node' AND objectRef.resource == 'daemonsets' AND verb == 'patch'
 | limit 10000
`, []int{1, 5}},
		{`filter @logStream like /^kube-apiserver-audit/
 | fields @timestamp, @message
 | sort @timestamp asc
 | filter objectRef.name == 'aws-auth' AND verb != 'get' AND verb != 'list' AND verb != 'watch'
 | limit 10000
`, []int{3, 6}},
	} {
		p := compile(t, c.query, options())
		r := run(t, p, 2, events)
		if got := strings.Join(r.Columns, ","); got != "@timestamp,@message,@ptr" {
			t.Errorf("columns %s", got)
		}
		if len(r.Rows) != len(c.want) || r.Matched != int64(len(c.want)) {
			t.Fatalf("%s\ngives %d rows of %d matched, want %d:\n%s", c.query, len(r.Rows), r.Matched, len(c.want),
				table(r))
		}
		for i, n := range c.want {
			row := r.Rows[i]
			want := fmt.Sprintf("2026-07-01 12:00:0%d.000", n)
			if row[0].String() != want || row[1].String() != events[n].message ||
				row[2].String() != fmt.Sprintf("ptr-%06d", n) {
				t.Errorf("row %d is %v, want event %d", i, row, n)
			}
			if !json.Valid([]byte(row[1].String())) {
				t.Errorf("row %d: @message is not the raw message", i)
			}
		}
		if p.Where() == nil || len(p.Where().All) < 4 {
			t.Errorf("where is %+v, want each comparison", p.Where())
		}
	}
}

func TestBrokenQueryOfTheIssue(t *testing.T) {
	t.Parallel()
	const query = `filter @logStream like /^kube-apiserver-audit/
 | fields @timestamp, @message
 | sort @timestamp asc
 | filter objectRef.name == 'aws-node' AND objectRef.resource verb == 'create'
 | limit 10000`
	_, err := insights.Parse(query)
	e, ok := errors.AsType[*insights.SyntaxError](err)
	if !ok {
		t.Fatalf("Parse gives %v", err)
	}
	if got := query[e.Start:e.End]; got != "verb" || e.Line != 4 || e.Column != 63 {
		t.Errorf("the error is at %q, line %d, column %d", got, e.Line, e.Column)
	}
	if !strings.HasPrefix(e.Message,
		"unexpected symbol found verb at line 4 and position 63: expected and, or, an operator") {
		t.Errorf("the message is %q", e.Message)
	}
}
