package audit_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/logs/insights"
	"github.com/coracle-eks/coracle/internal/logs/insights/value"
	"github.com/coracle-eks/coracle/internal/logs/pattern"
)

// logged is an event of the log.
type logged struct {
	at      int64 // ms since 1970
	message string
}

// fakeLogs is a log group with the real query language and filter patterns over it.
type fakeLogs struct {
	t  testing.TB
	mu sync.Mutex

	events  []logged
	missing bool // no such log group
	queries []string
	results map[string]*insights.Result
	looks   int
	// broken makes that many looks of FilterLogEvents fail.
	broken int
	// looked is told of every look of FilterLogEvents.
	looked chan int
}

// corpus returns the log of recorded events: testdata/<name>.jsonl.
func corpus(t testing.TB, names ...string) *fakeLogs {
	t.Helper()
	f := &fakeLogs{t: t, results: map[string]*insights.Result{}}
	for _, name := range names {
		file, err := os.Open(filepath.Join("testdata", name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 4<<20)
		for lines.Scan() {
			f.add(lines.Text())
		}
		if err := errors.Join(lines.Err(), file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// add logs a message, at the time at which its stage was reached.
func (f *fakeLogs) add(message string) {
	f.t.Helper()
	var e struct{ StageTimestamp time.Time }
	if err := json.Unmarshal([]byte(message), &e); err != nil {
		f.t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, logged{e.StageTimestamp.UnixMilli(), message})
	slices.SortStableFunc(f.events, func(a, b logged) int { return int(a.at - b.at) })
}

// event is a logged event as a plan reads it.
type event struct {
	logged
	fields []string
	doc    value.Document
	parsed bool
}

func (e *event) Value(i int) value.Value {
	switch name := e.fields[i]; name {
	case "@timestamp":
		return value.Time(e.at)
	case "@message":
		return value.String(e.message)
	case "@logStream":
		return value.String("kube-apiserver-audit-0123456789abcdef0123456789abcdef")
	case "@ptr":
		return value.String("ptr")
	default:
		if !e.parsed && !e.doc.Parse([]byte(e.message)) {
			return value.Value{}
		}
		e.parsed = true
		return e.doc.Field(value.ParsePath(name))
	}
}

func (f *fakeLogs) DescribeLogGroups(_ context.Context, in *cloudwatchlogs.DescribeLogGroupsInput,
	_ ...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.DescribeLogGroupsOutput, error) {
	if f.missing {
		return &cloudwatchlogs.DescribeLogGroupsOutput{}, nil
	}
	created := time.Date(2026, 11, 21, 10, 36, 0, 0, time.UTC).UnixMilli()
	return &cloudwatchlogs.DescribeLogGroupsOutput{LogGroups: []logstypes.LogGroup{
		{LogGroupName: aws.String(*in.LogGroupNamePrefix + "-blue"), CreationTime: aws.Int64(1)},
		{LogGroupName: in.LogGroupNamePrefix, CreationTime: &created},
	}}, nil
}

func (f *fakeLogs) StartQuery(_ context.Context, in *cloudwatchlogs.StartQueryInput,
	_ ...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.StartQueryOutput, error) {
	q, err := insights.Parse(*in.QueryString)
	if err != nil {
		return nil, err
	}
	plan, err := insights.Compile(q, insights.Options{Start: *in.StartTime * 1000, End: *in.EndTime*1000 + 999,
		Now: time.Now().UnixMilli()})
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	worker := plan.NewWorker()
	for _, l := range f.events {
		if l.at < *in.StartTime*1000 || l.at > *in.EndTime*1000+999 {
			continue
		}
		if err := worker.Push(&event{logged: l, fields: plan.Fields()}); err != nil {
			return nil, err
		}
	}
	result, err := plan.Finish([]*insights.Worker{worker})
	if err != nil {
		return nil, err
	}
	id := strconv.Itoa(len(f.queries))
	f.queries = append(f.queries, *in.QueryString)
	f.results[id] = result
	return &cloudwatchlogs.StartQueryOutput{QueryId: &id}, nil
}

// GetQueryResults answers Running the first time, as a query of any length does, then up to 500 rows at a time, as if
// they were long.
func (f *fakeLogs) GetQueryResults(_ context.Context, in *cloudwatchlogs.GetQueryResultsInput,
	_ ...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.GetQueryResultsOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if in.NextToken == nil {
		f.looks++
	}
	if in.NextToken == nil && f.looks%2 == 1 {
		return &cloudwatchlogs.GetQueryResultsOutput{Status: logstypes.QueryStatusRunning}, nil
	}
	r := f.results[*in.QueryId]
	out := &cloudwatchlogs.GetQueryResultsOutput{Status: logstypes.QueryStatusComplete}
	from, err := strconv.Atoi(aws.ToString(in.NextToken))
	if in.NextToken != nil && err != nil {
		return nil, err
	}
	to := min(from+500, len(r.Rows))
	if to < len(r.Rows) {
		out.NextToken = aws.String(strconv.Itoa(to))
	}
	for _, row := range r.Rows[from:to] {
		var fields []logstypes.ResultField
		for i, c := range r.Columns {
			if !row[i].IsNull() {
				fields = append(fields, logstypes.ResultField{Field: aws.String(c), Value: aws.String(row[i].String())})
			}
		}
		out.Results = append(out.Results, fields)
	}
	return out, nil
}

func (f *fakeLogs) StopQuery(context.Context, *cloudwatchlogs.StopQueryInput, ...func(*cloudwatchlogs.Options)) (
	*cloudwatchlogs.StopQueryOutput, error) {
	return &cloudwatchlogs.StopQueryOutput{Success: true}, nil
}

// FilterLogEvents answers with pages of two events.
func (f *fakeLogs) FilterLogEvents(_ context.Context, in *cloudwatchlogs.FilterLogEventsInput,
	_ ...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.FilterLogEventsOutput, error) {
	p, err := pattern.Parse(*in.FilterPattern)
	if err != nil {
		return nil, err
	}
	if in.NextToken == nil && f.looked != nil {
		f.looked <- 1
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken > 0 && in.NextToken != nil {
		f.broken--
		return nil, errors.New("connection refused")
	}
	var found []logstypes.FilteredLogEvent
	for _, l := range f.events {
		if l.at >= *in.StartTime && p.Match(l.message) {
			found = append(found, logstypes.FilteredLogEvent{Message: aws.String(l.message),
				Timestamp: aws.Int64(l.at)})
		}
	}
	begin, err := strconv.Atoi(aws.ToString(in.NextToken) + "0")
	if err != nil {
		return nil, err
	}
	begin /= 10
	out := &cloudwatchlogs.FilterLogEventsOutput{Events: found[min(begin, len(found)):min(begin+2, len(found))]}
	if begin+2 < len(found) {
		out.NextToken = aws.String(strconv.Itoa(begin + 2))
	}
	return out, nil
}

// fakeClusters are the clusters by name, and whether their audit log is on.
type fakeClusters map[string]bool

func (f fakeClusters) ListClusters(_ context.Context, in *eks.ListClustersInput, _ ...func(*eks.Options)) (
	*eks.ListClustersOutput, error) {
	out := &eks.ListClustersOutput{}
	for name := range f {
		out.Clusters = append(out.Clusters, name)
	}
	if len(out.Clusters) > 1 && in.NextToken == nil { // a page of its own for the last
		out.Clusters, out.NextToken = out.Clusters[:len(out.Clusters)-1], aws.String("more")
		return out, nil
	}
	if in.NextToken != nil {
		return &eks.ListClustersOutput{Clusters: []string{"zebra"}}, nil
	}
	return out, nil
}

func (f fakeClusters) DescribeCluster(_ context.Context, in *eks.DescribeClusterInput, _ ...func(*eks.Options)) (
	*eks.DescribeClusterOutput, error) {
	on, ok := f[*in.Name]
	if !ok {
		return nil, &ekstypes.ResourceNotFoundException{Message: aws.String("No cluster found for name: " + *in.Name +
			".")}
	}
	return &eks.DescribeClusterOutput{Cluster: &ekstypes.Cluster{Name: in.Name,
		Logging: &ekstypes.Logging{ClusterLogging: []ekstypes.LogSetup{
			{Types: []ekstypes.LogType{ekstypes.LogTypeAudit}, Enabled: &on},
			{Types: []ekstypes.LogType{ekstypes.LogTypeApi}, Enabled: aws.Bool(!on)},
		}}}}, nil
}

func words(s string) []string { return strings.Fields(s) }
