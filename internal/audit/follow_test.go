package audit_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/audit"
)

// hanging is a log whose queries run for ever.
type hanging struct {
	*fakeLogs
	started func()
	stopped bool
}

func (h *hanging) GetQueryResults(context.Context, *cloudwatchlogs.GetQueryResultsInput,
	...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.GetQueryResultsOutput, error) {
	h.started()
	return &cloudwatchlogs.GetQueryResultsOutput{Status: logstypes.QueryStatusRunning}, nil
}

func (h *hanging) StopQuery(ctx context.Context, in *cloudwatchlogs.StopQueryInput,
	_ ...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.StopQueryOutput, error) {
	h.stopped = true
	return &cloudwatchlogs.StopQueryOutput{Success: true}, nil
}

// following follows a pod's timeline; look waits until the log was looked at n times more.
func following(t *testing.T, logs *fakeLogs, output string) (look func(n int), end func() (out, notes string)) {
	t.Helper()
	logs.looked = make(chan int)
	targets, err := audit.Targets([]string{"pod/web"}, "shop")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var out, notes bytes.Buffer
	done := make(chan error, 1)
	go func() {
		done <- audit.Run(ctx, &out, &notes, fakeClusters{"dev": true}, logs, audit.Options{
			Targets: targets, Follow: true, Output: output, Now: func() time.Time { return at("10:41:00") },
			Poll: time.Millisecond, Every: time.Millisecond, Style: audit.Style{Width: 80}})
	}()
	look = func(n int) {
		for range n {
			select {
			case <-logs.looked:
			case err := <-done:
				t.Fatalf("it ended: %v", err)
			}
		}
	}
	return look, func() (string, string) {
		cancel()
		for {
			select {
			case <-logs.looked: // the last look
			case err := <-done:
				if err != nil {
					t.Error(err)
				}
				return out.String(), notes.String()
			}
		}
	}
}

// Nothing is told twice, however often it is found, and nothing is left out, even if it was logged
// late, between the query and the first look, or while looks failed.
func TestFollow(t *testing.T) {
	t.Parallel()
	logs := corpus(t)
	next := 0
	log := func(clock string) {
		logs.add(podEvent(next, at(clock).Add(time.Duration(next)*time.Millisecond)))
		next++
	}
	for range 5 {
		log("10:40:30")
	}
	look, end := following(t, logs, "json")
	look(2)
	log("10:41:00")
	look(2)
	log("10:40:40") // late
	log("10:41:01")
	look(2)
	logs.mu.Lock()
	logs.broken = 3
	logs.mu.Unlock()
	log("10:41:02")
	look(6)
	log("10:41:03")
	look(3)
	out, notes := end()
	seen := map[int]int{}
	for _, n := range numbers(t, out) {
		seen[n]++
	}
	for n := range next {
		if seen[n] != 1 {
			t.Errorf("event %d was told %d times", n, seen[n])
		}
	}
	if strings.Count(notes, "connection refused (trying again)") != 1 {
		t.Errorf("notes: %q", notes)
	}
}

// What comes again and again takes a line at most while one watches.
func TestFollowFoldsWhatRepeats(t *testing.T) {
	t.Parallel()
	logs := corpus(t)
	next := 0
	log := func(verb, user, subresource string, code int) {
		e := podEvent(next, at("10:41:00").Add(time.Duration(next)*time.Second))
		e = strings.Replace(e, `"verb":"patch"`, `"verb":"`+verb+`"`, 1)
		e = strings.Replace(e, `"username":"bob"`, `"username":"`+user+`"`, 1)
		if subresource != "" {
			e = strings.Replace(e, `"name":"web"`, `"name":"web","subresource":"`+subresource+`"`, 1)
		}
		if code == 403 {
			e = strings.Replace(e, `{"code":200}`,
				`{"code":403,"status":"Failure","reason":"Forbidden","message":"no"}`, 1)
		}
		logs.add(e)
		next++
	}
	log("create", "bob", "", 200)
	look, end := following(t, logs, "")
	for range 3 {
		log("update", "system:kube-scheduler", "status", 200)
		look(2)
	}
	for range 3 {
		log("delete", "bob", "", 403)
		look(2)
	}
	out, _ := end()
	golden(t, "follow.txt", out)
}

// Even where the log has the content of a secret, the timeline doesn't.
func TestSecretsAreNotTold(t *testing.T) {
	t.Parallel()
	logs := corpus(t)
	for i, verb := range []string{"create", "patch"} {
		e := podEvent(i, at("10:41:00"))
		e = strings.Replace(e, `"verb":"patch"`, `"verb":"`+verb+`"`, 1)
		e = strings.Replace(e, `"resource":"pods"`, `"resource":"secrets"`, 1)
		e = strings.Replace(e, `"responseStatus"`,
			`"requestObject":{"data":{"password":"aHVudGVyMg=="}},"responseObject":{"kind":"Secret","apiVersion":"v1","metadata":{"name":"web","uid":"1","resourceVersion":"`+
				string(rune('1'+i))+`"},"data":{"password":"aHVudGVyMg=="}},"responseStatus"`, 1)
		logs.add(e)
	}
	for _, output := range []string{"", "wide", "json"} {
		out, _, err := tell(t, logs, "secret/web", "shop", func(o *audit.Options) { o.Output = output })
		if err != nil || !strings.Contains(out, "create") || strings.Contains(out, "aHVudGVyMg") {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
