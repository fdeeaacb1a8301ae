package logs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
)

// insights is a daemon with the log group of a cluster that never was, and its audit log.
type insights struct {
	*testing.T
	*harness.Daemon
	logs *cloudwatchlogs.Client
}

const auditStream = "kube-apiserver-audit-0123456789abcdef0123456789abcdef"

func newInsights(t *testing.T) *insights {
	d := harness.Start(t)
	i := &insights{t, d, cloudwatchlogs.NewFromConfig(d.Config())}
	if _, err := i.logs.CreateLogGroup(t.Context(),
		&cloudwatchlogs.CreateLogGroupInput{LogGroupName: new(group)}); err != nil {
		t.Fatal(err)
	}
	_, err := i.logs.CreateLogStream(t.Context(), &cloudwatchlogs.CreateLogStreamInput{LogGroupName: new(group),
		LogStreamName: new(auditStream)})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// put appends messages, the first a minute ago and one each millisecond.
func (i *insights) put(messages ...string) {
	i.Helper()
	at := time.Now().Add(-time.Minute).UnixMilli()
	in := &cloudwatchlogs.PutLogEventsInput{LogGroupName: new(group), LogStreamName: new(auditStream)}
	for n, m := range messages {
		in.LogEvents = append(in.LogEvents, logstypes.InputLogEvent{Message: new(m), Timestamp: new(at + int64(n))})
	}
	if _, err := i.logs.PutLogEvents(i.Context(), in); err != nil {
		i.Fatal(err)
	}
}

func (i *insights) start(query string) (id string) {
	i.Helper()
	out, err := i.logs.StartQuery(i.Context(), &cloudwatchlogs.StartQueryInput{
		LogGroupName: new(group), QueryString: &query, StartTime: new(time.Now().Add(-time.Hour).Unix()),
		EndTime: new(time.Now().Unix()),
	})
	if err != nil {
		i.Fatal(err)
	}
	return *out.QueryId
}

// await waits until the query has one of the statuses.
func (i *insights) await(id string, status ...logstypes.QueryStatus) (last *cloudwatchlogs.GetQueryResultsOutput) {
	i.Helper()
	eventually.Nil(i.T, fmt.Sprintf("the query becomes one of %s", status), func() (err error) {
		if last, err = i.logs.GetQueryResults(i.Context(),
			&cloudwatchlogs.GetQueryResultsInput{QueryId: &id}); err != nil {
			return err
		}
		for _, s := range status {
			if last.Status == s {
				return nil
			}
		}
		return fmt.Errorf("it is %s", last.Status)
	})
	return last
}

func patch(name, user string) string {
	return fmt.Sprintf(
		`{"kind":"Event","verb":"patch","user":{"username":%q},"objectRef":{"resource":"daemonsets","name":%q}}`, user,
		name)
}

func TestWhoPatchedIt(t *testing.T) {
	t.Parallel()
	i := newInsights(t)
	i.put(patch("aws-node", "alice"), patch("coredns", "bob"), strings.ReplaceAll(patch("aws-node", "carol"), `"patch"`,
		`"get"`), patch("aws-node", "eks:addon-manager"))
	var query struct{ QueryID string }
	i.AWS(&query, "logs", "start-query", "--log-group-name", group, "--start-time",
		fmt.Sprint(time.Now().Add(-time.Hour).Unix()), "--end-time", fmt.Sprint(time.Now().Unix()),
		"--query-string", `filter @logStream like /^kube-apiserver-audit/
 | fields @timestamp, @message
 | sort @timestamp asc
 | filter objectRef.name == 'aws-node' AND objectRef.resource == 'daemonsets' AND verb == 'patch'
 | limit 10000`)
	out := i.await(query.QueryID, logstypes.QueryStatusComplete)
	if len(out.Results) != 2 || *out.Results[0][1].Value != patch("aws-node", "alice") ||
		*out.Results[1][1].Value != patch("aws-node", "eks:addon-manager") {
		t.Errorf("found %s", harness.Text(out.Results))
	}
	if s := out.Statistics; s.RecordsMatched != 2 || s.RecordsScanned != 4 || s.LogGroupsScanned != 1 {
		t.Errorf("statistics are %s", harness.Text(s))
	}

	_, refused, err := i.Try("", "aws", "logs", "start-query", "--log-group-name", group, "--start-time", "1",
		"--end-time", fmt.Sprint(time.Now().Unix()),
		"--query-string", `filter objectRef.name == 'aws-auth' AND objectRef.resource verb == 'create'`)
	if err == nil || !strings.Contains(refused, "MalformedQueryException") || !strings.Contains(refused, "line 1") {
		t.Errorf("the broken query: %v, %s", err, refused)
	}
	_, err = i.logs.StartQuery(t.Context(), &cloudwatchlogs.StartQueryInput{LogGroupName: new(group),
		StartTime: new(int64(1)), EndTime: new(time.Now().Unix()),
		QueryString: new(`filter objectRef.name == 'aws-auth' AND objectRef.resource verb == 'create'`)})
	var malformed *logstypes.MalformedQueryException
	if !errors.As(err, &malformed) || malformed.QueryCompileError == nil ||
		*malformed.QueryCompileError.Location.StartCharOffset != 59 {
		t.Errorf("the broken query: %v %s", err, harness.Text(malformed))
	}
}

// Queries that the daemon's death interrupts are run by the next one, and can be stopped.
func TestQueriesOutliveTheDaemon(t *testing.T) {
	t.Parallel()
	i := newInsights(t)
	messages := make([]string, 200)
	for n := range messages {
		messages[n] = strings.Repeat("ab", 2000)
	}
	i.put(messages...)
	const endless = `filter @message like /(a|b)+[ab]{450}[^ab]/ | stats count(*)`
	done := i.start("stats count(*) as n")
	i.await(done, logstypes.QueryStatusComplete)
	interrupted := i.start(endless)
	i.await(interrupted, logstypes.QueryStatusRunning)
	i.Restart()
	if out := i.await(done, logstypes.QueryStatusComplete); len(out.Results) != 1 || *out.Results[0][0].Value != "200" {
		t.Errorf("the results of a query are %s after a restart", harness.Text(out.Results))
	}
	i.await(interrupted, logstypes.QueryStatusRunning, logstypes.QueryStatusComplete)
	out, err := i.logs.StopQuery(t.Context(), &cloudwatchlogs.StopQueryInput{QueryId: &interrupted})
	var ended *logstypes.InvalidParameterException
	if err != nil && !errors.As(err, &ended) || err == nil && !out.Success {
		t.Errorf("stop the query: %v", err)
	}
	i.await(interrupted, logstypes.QueryStatusCancelled, logstypes.QueryStatusComplete)
}
