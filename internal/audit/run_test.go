package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/audit"
)

func at(clock string) time.Time {
	t, err := time.Parse("2006-01-02 15:04:05", "2026-11-21 "+clock)
	if err != nil {
		panic(err)
	}
	return t
}

func TestWhichCluster(t *testing.T) {
	t.Parallel()
	targets, err := audit.Targets([]string{"pods"}, "shop")
	if err != nil {
		t.Fatal(err)
	}
	const enable = `  aws eks update-cluster-config --name dev --logging '{"clusterLogging":[{"types":["audit"],"enabled":true}]}'`
	for _, c := range []struct {
		what     string
		clusters fakeClusters
		cluster  string
		missing  bool // the log group
		want     string
		notes    string
	}{
		{"none", fakeClusters{}, "", true, "there is no cluster; name one that was deleted with --cluster", ""},
		{"several", fakeClusters{"ant": true, "zebra": true}, "", false, "which cluster? Give --cluster one of: ", ""},
		{"audit log off", fakeClusters{"dev": false}, "", true,
			"the audit log of cluster dev is off. Switch it on, and what happens from then on can be told:\n" + enable,
			""},
		{"just switched on", fakeClusters{"dev": true}, "", true, "there is no log group /aws/eks/dev/cluster yet", ""},
		{"switched off", fakeClusters{"dev": false}, "", false, "",
			"The audit log of cluster dev is off now; this is what it has kept. To switch it on:\n" + enable + "\n"},
		{"deleted", fakeClusters{}, "dev", false, "",
			"There is no cluster dev any more; this is what its log has kept.\n"},
		{"unknown", fakeClusters{"dev": true}, "prod", true,
			"there is no cluster prod, and no log group /aws/eks/prod/cluster of an earlier one", ""},
	} {
		logs := corpus(t, "probe")
		logs.missing = c.missing
		var out, notes bytes.Buffer
		err := audit.Run(t.Context(), &out, &notes, c.clusters, logs, audit.Options{
			Targets: targets, Cluster: c.cluster, Now: func() time.Time { return at("12:00:00") },
			Poll: time.Millisecond})
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %s", c.what, err, c.want)
		case c.want == "" && (err != nil || !strings.Contains(out.String(), "probe")):
			t.Errorf("%s: %v\n%s", c.what, err, out.String())
		}
		if notes.String() != c.notes {
			t.Errorf("%s notes %q, want %q", c.what, notes.String(), c.notes)
		}
	}
}

func TestNothingSaysWhatWasSearched(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args, namespace string
		change          func(*audit.Options)
		want            string
	}{
		{"ds/aws-node", "default", nil,
			"nothing about daemonset/aws-node in namespace default in /aws/eks/dev/cluster, which begins " +
				"2026-11-21T10:36:00Z (reads are left out without --reads); there is something in namespace " +
				"kube-system: try -n kube-system"},
		{"ds/other", "kube-system", nil,
			"nothing about daemonset/other in namespace kube-system in /aws/eks/dev/cluster, which begins " +
				"2026-11-21T10:36:00Z (reads are left out without --reads)"},
		{"ds/aws-node", "kube-system", func(o *audit.Options) { o.Since, o.Reads = at("11:00:00"), true },
			"nothing about daemonset/aws-node in namespace kube-system in /aws/eks/dev/cluster from " +
				"2026-11-21T11:00:00Z to 2026-11-21T12:00:00Z"},
		{"ds", "kube-system", func(o *audit.Options) { o.Users, o.Verbs = []string{"mallory"}, []string{"delete"} },
			"nothing about daemonset in namespace kube-system in /aws/eks/dev/cluster, which begins " +
				"2026-11-21T10:36:00Z with verb delete by mallory (reads are left out without --reads)"},
	} {
		out, _, err := tell(t, corpus(t, "aws-node"), c.args, c.namespace, c.change)
		if err == nil || err.Error() != c.want || out != "" {
			t.Errorf("%s:\n got %v\nwant %s", c.args, err, c.want)
		}
	}
}

// headlines returns the headlines of steps: time, status, action.
func headlines(out string) []string {
	var all []string
	for line := range strings.Lines(out) {
		if len(line) > 20 && line[2] == ':' && line[5] == ':' {
			all = append(all, strings.TrimSpace(line[:20]))
		}
	}
	return all
}

func TestFilters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what   string
		change func(*audit.Options)
		want   string
	}{
		{"an action", func(o *audit.Options) { o.Verbs = []string{"apply"} },
			"10:48:03  201 apply; 10:48:04  409 apply; 10:48:05  200 apply"},
		{"a verb of the audit log", func(o *audit.Options) { o.Verbs = []string{"delete"} },
			"10:48:07  403 delete; 10:48:52  200 delete"},
		{"a session", func(o *audit.Options) { o.Users = []string{"SAM"} }, "10:48:07  403 delete"},
		{"a role", func(o *audit.Options) { o.Users = []string{"role/developer"} }, "10:48:07  403 delete"},
		{"a window", func(o *audit.Options) { o.Since, o.Until = at("10:48:08"), at("10:48:11") },
			"10:48:08  200 patch; 10:48:09  200 patch; 10:48:10  200 patch"},
	} {
		out, _, err := tell(t, corpus(t, "aws-node"), "ds/aws-node", "kube-system", c.change)
		if got := strings.Join(headlines(out), "; "); err != nil || got != c.want {
			t.Errorf("%s:\n got %s, %v\nwant %s", c.what, got, err, c.want)
		}
	}
}

// With --since, the version before is looked for, so that the first step has its changes and owners.
func TestSinceKnowsTheVersionBefore(t *testing.T) {
	t.Parallel()
	out, _, err := tell(t, corpus(t, "aws-node"), "ds/aws-node", "kube-system", func(o *audit.Options) {
		o.Since,
			o.Verbs = at("10:48:05"), []string{"apply"}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{": v1.20.4 -> v1.21.1\n", `"true" -> "false"`, "no longer by kubectl-set"} {
		if !strings.Contains(out, want) {
			t.Errorf("the timeline since 10:48:05 lacks %q:\n%s", want, out)
		}
	}
}

// podEvent returns a made-up event about a pod.
func podEvent(n int, when time.Time) string {
	return fmt.Sprintf(
		`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"id-%d","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/shop/pods/web?n=%d","verb":"patch",`+
			`"user":{"username":"bob"},"sourceIPs":["10.0.0.1"],"userAgent":"kubectl/v1.35.4","objectRef":{"resource":"pods","namespace":"shop","name":"web","apiVersion":"v1"},"responseStatus":{"code":200},`+
			`"requestReceivedTimestamp":%q,"stageTimestamp":%q}`, n, n, when.Format("2006-01-02T15:04:05.000000Z"),
		when.Format("2006-01-02T15:04:05.000000Z"))
}

// numbers returns the numbers of made-up events in JSON output.
func numbers(t testing.TB, out string) []int {
	t.Helper()
	var all []int
	d := json.NewDecoder(strings.NewReader(out))
	for d.More() {
		var s audit.Step
		if err := d.Decode(&s); err != nil {
			t.Fatal(err)
		}
		var n int
		if _, err := fmt.Sscanf(s.URI, "/api/v1/namespaces/shop/pods/web?n=%d", &n); err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// What is more than one query gives is read in windows of time, each event once.
func TestManyEvents(t *testing.T) {
	t.Parallel()
	const n = 6100
	logs := corpus(t)
	for i := range n {
		// Pages end inside of seconds; in the second minute, 3000 events share one.
		when := at("10:40:00").Add(time.Duration(i) * 20 * time.Millisecond)
		if i >= 3000 && i < 6000 {
			when = at("10:41:00").Add(time.Duration(i-3000) * 100 * time.Microsecond)
		} else if i >= 6000 {
			when = at("10:42:00").Add(time.Duration(i) * time.Millisecond)
		}
		logs.events = append(logs.events, logged{when.UnixMilli(), podEvent(i, when)})
	}
	out, _, err := tell(t, logs, "pod/web", "shop", func(o *audit.Options) { o.Output = "json" })
	if err != nil {
		t.Fatal(err)
	}
	got := numbers(t, out)
	if len(got) != n {
		t.Fatalf("%d events are told of %d", len(got), n)
	}
	for i, x := range got {
		if x != i {
			t.Fatalf("event %d is told at place %d", x, i)
		}
	}
	if len(logs.queries) > 8 {
		t.Errorf("%d queries for %d events", len(logs.queries), n)
	}
}

func TestMoreInASecondThanAQueryGives(t *testing.T) {
	t.Parallel()
	logs := corpus(t)
	for i := range 10001 {
		logs.events = append(logs.events, logged{at("10:40:00").UnixMilli(), podEvent(i, at("10:40:00"))})
	}
	_, _, err := tell(t, logs, "pod/web", "shop", nil)
	if err == nil || !strings.Contains(err.Error(),
		"more than 10000 events about this are in the second after 2026-11-21T10:40:00Z") {
		t.Error(err)
	}
}

func TestParseTime(t *testing.T) {
	t.Parallel()
	now := at("12:00:00")
	for text, want := range map[string]string{
		"90m": "2026-11-21T10:30:00Z", "1h30m": "2026-11-21T10:30:00Z", "2d": "2026-11-19T12:00:00Z",
		"0s": "2026-11-21T12:00:00Z", "0.5d": "2026-11-21T00:00:00Z",
		"2026-11-21T10:00:00Z": "2026-11-21T10:00:00Z", "2026-11-21T12:00:00+02:00": "2026-11-21T10:00:00Z",
		"2026-11-20": "2026-11-20T00:00:00Z", "2026-11-21 10:48": "2026-11-21T10:48:00Z",
	} {
		got, err := audit.ParseTime(text, now)
		if err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%s is %s, %v, want %s", text, got.Format(time.RFC3339), err, want)
		}
	}
	for _, text := range []string{"yesterday", "-1h", "-2d", "10:00", "d"} {
		if got, err := audit.ParseTime(text, now); err == nil || !strings.Contains(err.Error(),
			"is no time: give how long ago") {
			t.Errorf("%s is %s, %v", text, got, err)
		}
	}
}

// A query that is waited for no more is stopped, and the command ends.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	logs := &hanging{fakeLogs: corpus(t, "web"), started: cancel}
	targets, err := audit.Targets([]string{"deploy/web"}, "shop")
	if err != nil {
		t.Fatal(err)
	}
	err = audit.Run(ctx, &bytes.Buffer{}, &bytes.Buffer{}, fakeClusters{"dev": true}, logs,
		audit.Options{Targets: targets, Now: time.Now, Poll: time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "context canceled") || !logs.stopped {
		t.Errorf("%v, stopped: %v", err, logs.stopped)
	}
}
