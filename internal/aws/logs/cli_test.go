package logs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// The unmodified aws CLI fills a log group, reads it in each way there is, and deletes it.
func TestCLI(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	now := time.Now().UTC().Truncate(time.Millisecond)
	w.mu.Lock()
	w.clock = now
	w.mu.Unlock()
	cli := awsclient.NewCLI(t, w.url, region, "logs")
	must, refused := cli.Run, cli.Refused
	second := awsclient.NewCLI(t, w.url, region, "logs")
	second.Program = secondVersion(t)
	const group = "/aws/eks/c/cluster"

	// Groups, tags, retention
	must(nil, "create-log-group", "--log-group-name", group, "--tags", "team=a")
	refused("ResourceAlreadyExistsException", "The specified log group already exists", "create-log-group",
		"--log-group-name", group)
	refused("InvalidParameterException", "failed to satisfy constraint: Member must satisfy regular expression pattern",
		"create-log-group", "--log-group-name", "a b")
	must(nil, "put-retention-policy", "--log-group-name", group, "--retention-in-days", "7")
	must(nil, "tag-resource", "--resource-arn", groupARN+group, "--tags", "x=y")
	var tags struct{ Tags map[string]string }
	if must(&tags, "list-tags-for-resource", "--resource-arn", groupARN+group); tags.Tags["team"] != "a" ||
		tags.Tags["x"] != "y" {
		t.Errorf("tags %v", tags)
	}
	var groups struct {
		LogGroups []struct {
			Arn             string
			RetentionInDays int
			StoredBytes     int
		}
	}
	if must(&groups, "describe-log-groups", "--log-group-name-prefix", "/aws/eks"); len(groups.LogGroups) != 1 ||
		groups.LogGroups[0].Arn != groupARN+group+":*" || groups.LogGroups[0].RetentionInDays != 7 {
		t.Errorf("groups %+v", groups)
	}

	// Events in
	for _, stream := range []string{"kube-apiserver-audit-1", "kube-apiserver-1"} {
		must(nil, "create-log-stream", "--log-group-name", group, "--log-stream-name", stream)
	}
	var events []string
	for i := range 10 {
		events = append(events, fmt.Sprintf("timestamp=%d,message=audit-%d",
			now.Add(-time.Duration(10-i)*time.Second).UnixMilli(), i))
	}
	put := append([]string{"put-log-events", "--log-group-name", group, "--log-stream-name", "kube-apiserver-audit-1",
		"--log-events"}, events...)
	var answer struct {
		NextSequenceToken     string
		RejectedLogEventsInfo map[string]int
	}
	if must(&answer, put...); answer.NextSequenceToken == "" || answer.RejectedLogEventsInfo != nil {
		t.Errorf("put: %+v", answer)
	}
	must(nil, "put-log-events", "--log-group-name", group, "--log-stream-name", "kube-apiserver-1", "--log-events",
		fmt.Sprintf("timestamp=%d,message=from the api server", now.UnixMilli()))
	old := now.Add(-100 * time.Hour * 24).UnixMilli()
	if must(&answer, "put-log-events", "--log-group-name", group, "--log-stream-name", "kube-apiserver-1",
		"--log-events", fmt.Sprintf("timestamp=%d,message=old",
			old)); answer.RejectedLogEventsInfo["tooOldLogEventEndIndex"] != 1 {
		t.Errorf("an old event: %+v", answer)
	}
	refused("ResourceNotFoundException", "The specified log stream does not exist.", "put-log-events",
		"--log-group-name", group, "--log-stream-name", "nobody", "--log-events", events[0])

	// Events out, in both directions
	type page struct {
		Events []struct {
			Message, EventID, LogStreamName string
			Timestamp                       int64
		}
		NextForwardToken, NextBackwardToken string
	}
	get := func(args ...string) (p page, messages string) {
		t.Helper()
		must(&p, append([]string{"get-log-events", "--log-group-name", group, "--log-stream-name",
			"kube-apiserver-audit-1", "--limit", "4"}, args...)...)
		for _, e := range p.Events {
			messages += strings.TrimPrefix(e.Message, "audit-")
		}
		return p, messages
	}
	p, text := get("--start-from-head")
	if text != "0123" {
		t.Errorf("the earliest: %q", text)
	}
	for _, want := range []string{"4567", "89", ""} {
		token := p.NextForwardToken
		if p, text = get("--start-from-head", "--next-token", token); text != want {
			t.Errorf("forward: %q, want %q", text, want)
		}
		if want == "" && p.NextForwardToken != token {
			t.Errorf("at the end %s is followed by %s", token, p.NextForwardToken)
		}
	}
	if p, text = get(); text != "6789" {
		t.Errorf("the latest: %q", text)
	}
	for _, want := range []string{"2345", "01", ""} {
		token := p.NextBackwardToken
		if p, text = get("--next-token", token); text != want {
			t.Errorf("backward: %q, want %q", text, want)
		}
		if want == "" && p.NextBackwardToken != token {
			t.Errorf("at the beginning %s is followed by %s", token, p.NextBackwardToken)
		}
	}
	var all page
	if must(&all, "filter-log-events", "--log-group-name", group, "--page-size", "3"); len(all.Events) != 11 ||
		all.Events[10].LogStreamName != "kube-apiserver-1" {
		t.Errorf("filter-log-events: %d events", len(all.Events))
	}
	if must(&all, "filter-log-events", "--log-group-name", group, "--log-stream-name-prefix", "kube-apiserver-audit",
		"--filter-pattern", `"audit-7"`); len(all.Events) != 1 || all.Events[0].Message != "audit-7" {
		t.Errorf("filter-log-events with a pattern: %+v", all.Events)
	}
	if second.Program != "" {
		if out := second.Run(nil, "tail", group, "--since", "1h", "--format", "short"); strings.Count(out,
			"\n") != 10 || !strings.Contains(out, "audit-0\n") || !strings.HasSuffix(out, "from the api server") {
			t.Errorf("tail:\n%s", out)
		}
		if out := second.Run(nil, "tail", group, "--since", "1h", "--filter-pattern", "api", "--log-stream-names",
			"kube-apiserver-1"); out == "" || strings.Contains(out, "\n") {
			t.Errorf("tail of a stream:\n%s", out)
		}
	}
	var streams struct {
		LogStreams []struct {
			LogStreamName      string
			LastEventTimestamp int64
		}
	}
	if must(&streams, "describe-log-streams", "--log-group-name", group, "--order-by", "LastEventTime",
		"--descending"); len(streams.LogStreams) != 2 || streams.LogStreams[0].LogStreamName != "kube-apiserver-1" ||
		streams.LogStreams[0].LastEventTimestamp != now.UnixMilli() {
		t.Errorf("streams %+v", streams)
	}

	// Queries
	start, end := fmt.Sprint(now.Add(-time.Hour).Unix()), fmt.Sprint(now.Unix())
	var started struct{ QueryID string }
	must(&started, "start-query", "--log-group-name", group, "--start-time", start, "--end-time", end, "--query-string",
		"fields @timestamp, @message | limit 1")
	w.queries.mu.Lock()
	w.queries.run = record.LogQueryRun{Status: types.QueryStatusComplete,
		Statistics: types.QueryStatistics{RecordsMatched: 11, RecordsScanned: 11, BytesScanned: 100}}
	w.queries.rows = [][]types.ResultField{{{Field: new("@message"), Value: new("audit-0")},
		{Field: new("@ptr"), Value: new("p")}}}
	w.queries.mu.Unlock()
	var results struct {
		Status     string
		Results    [][]struct{ Field, Value string }
		Statistics struct{ RecordsMatched float64 }
	}
	if must(&results, "get-query-results", "--query-id", started.QueryID); results.Status != "Complete" ||
		results.Results[0][0].Value != "audit-0" || results.Statistics.RecordsMatched != 11 {
		t.Errorf("results %+v", results)
	}
	refused("MalformedQueryException", "line 1", "start-query", "--log-group-name", group, "--start-time", start,
		"--end-time", end, "--query-string", "filter objectRef.resource verb == 'create'")
	must(nil, "describe-queries", "--log-group-name", group)
	must(nil, "stop-query", "--query-id", started.QueryID)
	var saved struct{ QueryDefinitionID string }
	must(&saved, "put-query-definition", "--name", "eks/audit", "--query-string", "fields @message",
		"--log-group-names", group)
	definitions := must(nil, "describe-query-definitions", "--query-definition-name-prefix", "eks/")
	if !strings.Contains(definitions, saved.QueryDefinitionID) {
		t.Errorf("query definitions:\n%s", definitions)
	}
	must(nil, "delete-query-definition", "--query-definition-id", saved.QueryDefinitionID)

	// The end
	must(nil, "delete-retention-policy", "--log-group-name", group)
	must(nil, "delete-log-stream", "--log-group-name", group, "--log-stream-name", "kube-apiserver-1")
	must(nil, "delete-log-group", "--log-group-name", group)
	refused("ResourceNotFoundException", "The specified log group does not exist.", "filter-log-events",
		"--log-group-name", group)
}

// secondVersion returns the path of an aws command line of version 2, which introduced "aws logs tail"; empty when
// there is none.
func secondVersion(t *testing.T) string {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		program := filepath.Join(dir, "aws")
		if out, err := exec.CommandContext(t.Context(), program, "--version").Output(); err == nil &&
			strings.HasPrefix(string(out), "aws-cli/2") {
			return program
		}
	}
	t.Log("there is no aws command line of version 2: aws logs tail is not tested")
	return ""
}
