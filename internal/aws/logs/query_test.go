package logs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/logs/insights/value"
	"github.com/coracle-eks/coracle/internal/record"
)

func (w *fixture) query(text string, groups ...string) (string, error) {
	in := &cloudwatchlogs.StartQueryInput{QueryString: &text, StartTime: aws.Int64(today.Add(-time.Hour).Unix()),
		EndTime: aws.Int64(today.Unix()), LogGroupNames: groups}
	out, err := w.client.StartQuery(w.t.Context(), in)
	if err != nil {
		return "", err
	}
	return *out.QueryId, nil
}

func (w *fixture) end(id string, status types.QueryStatus) {
	w.t.Helper()
	run := record.LogQueryRun{Status: status, EndedAt: today.Add(time.Second),
		Statistics: types.QueryStatistics{BytesScanned: 7}}
	if _, err := record.LogQueryRuns(w.store).Put(w.t.Context(), record.LogQueryKey(account, region, id),
		run); err != nil {
		w.t.Fatal(err)
	}
}

// StartQuery records whose groups are to be read, when, by whom; DescribeQueries lists the latest first.
func TestQueriesAreRecorded(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	w.group("/aws/eks/a/cluster")
	w.group("/aws/eks/b/cluster")
	w.group("other")
	sourced, err := w.query("SOURCE logGroups(namePrefix: ['/aws/eks/']) | fields @message")
	if err != nil {
		t.Fatal(err)
	}
	row, err := record.LogQueries(w.store).Get(ctx, record.LogQueryKey(account, region, sourced))
	if err != nil {
		t.Fatal(err)
	}
	q := row.Value
	if !slices.Equal(q.Groups, []string{"/aws/eks/a/cluster", "/aws/eks/b/cluster"}) || len(q.GroupIDs) != 2 ||
		q.Start != today.Unix()-3600 || q.End != today.Unix() || q.CallerARN != rootARN ||
		q.Language != types.QueryLanguageCwli {
		t.Errorf("%+v", q)
	}
	if out, err := w.client.ListLogGroupsForQuery(ctx,
		&cloudwatchlogs.ListLogGroupsForQueryInput{QueryId: &sourced}); err != nil ||
		!slices.Equal(out.LogGroupIdentifiers, q.Groups) {
		t.Errorf("%v %v", out, err)
	}
	// Milliseconds are understood, too.
	ms, err := w.client.StartQuery(ctx, &cloudwatchlogs.StartQueryInput{LogGroupName: aws.String("other"),
		QueryString: aws.String("fields a"), StartTime: aws.Int64(today.UnixMilli()),
		EndTime: aws.Int64(today.UnixMilli() + 1)})
	if err != nil {
		t.Fatal(err)
	}
	if row, err := record.LogQueries(w.store).Get(ctx, record.LogQueryKey(account, region, *ms.QueryId)); err != nil ||
		row.Value.Start != today.Unix() || row.Value.End != today.Unix()+1 {
		t.Errorf("%+v %v", row.Value, err)
	}

	w.end(sourced, types.QueryStatusComplete)
	list := func(in cloudwatchlogs.DescribeQueriesInput) (ids []string) {
		t.Helper()
		for {
			page, err := w.client.DescribeQueries(ctx, &in)
			if err != nil {
				t.Fatal(err)
			}
			for _, q := range page.Queries {
				ids = append(ids, *q.QueryId)
			}
			if in.NextToken = page.NextToken; in.NextToken == nil {
				break
			}
		}
		return ids
	}
	if got := list(cloudwatchlogs.DescribeQueriesInput{MaxResults: aws.Int32(1)}); len(got) != 2 {
		t.Errorf("all: %q", got)
	}
	if got := list(cloudwatchlogs.DescribeQueriesInput{Status: types.QueryStatusComplete}); !slices.Equal(got,
		[]string{sourced}) {
		t.Errorf("complete: %q", got)
	}
	w.queries.mu.Lock()
	w.queries.run.Status = types.QueryStatusScheduled // the other one waits
	w.queries.mu.Unlock()
	if got := list(cloudwatchlogs.DescribeQueriesInput{Status: types.QueryStatusScheduled}); !slices.Equal(got,
		[]string{*ms.QueryId}) {
		t.Errorf("scheduled: %q", got)
	}
	if got := list(cloudwatchlogs.DescribeQueriesInput{LogGroupName: aws.String("other")}); !slices.Equal(got,
		[]string{*ms.QueryId}) {
		t.Errorf("of a group: %q", got)
	}
}

// A hundred queries may be under way in an account; who ends makes room. A query that has ended can't be stopped.
func TestConcurrentQueries(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	w.group("g")
	var ids []string
	for range 100 {
		id, err := w.query("fields @message", "g")
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	_, err := w.query("fields @message", "g")
	if f := failureOf(t, err); f.code != "LimitExceededException" {
		t.Errorf("query 101: %v", f)
	}
	if out, err := w.client.StopQuery(ctx, &cloudwatchlogs.StopQueryInput{QueryId: &ids[0]}); err != nil ||
		!out.Success {
		t.Errorf("stop: %v %v", out, err)
	}
	if row, err := record.LogQueries(w.store).Get(ctx, record.LogQueryKey(account, region, ids[0])); err != nil ||
		!row.Value.Stop {
		t.Errorf("%+v %v", row.Value, err)
	}
	w.end(ids[0], types.QueryStatusCancelled)
	_, err = w.client.StopQuery(ctx, &cloudwatchlogs.StopQueryInput{QueryId: &ids[0]})
	if f := failureOf(t, err); f.code != "InvalidParameterException" {
		t.Errorf("stopped twice: %v", f)
	}
	if _, err := w.query("fields @message", "g"); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

// Results come in pages when they are asked for in pages, or when rows are so long that not all that were asked for are
// given.
func TestResultsInPages(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.group("g")
	id, err := w.query("fields @message", "g")
	if err != nil {
		t.Fatal(err)
	}
	w.queries.run.Status = types.QueryStatusComplete
	for i := range 25 {
		w.queries.rows = append(w.queries.rows, []types.ResultField{{Field: new("n"), Value: new(fmt.Sprint(i))}})
	}
	for _, c := range []struct {
		most  int
		max   *int32
		pages int
	}{{0, nil, 1}, {0, aws.Int32(10), 3}, {4, nil, 7}, {4, aws.Int32(10), 7}, {4, aws.Int32(3), 9},
		{25, aws.Int32(25), 1}} {
		w.queries.most = c.most
		in := &cloudwatchlogs.GetQueryResultsInput{QueryId: &id, MaxItems: c.max}
		var got []string
		pages := 0
		for {
			out, err := w.client.GetQueryResults(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			pages++
			for _, row := range out.Results {
				got = append(got, *row[0].Value)
			}
			if in.NextToken = out.NextToken; in.NextToken == nil {
				break
			}
		}
		if len(got) != 25 || got[0] != "0" || got[24] != "24" || pages != c.pages {
			t.Errorf("at most %d: %d pages, %q", c.most, pages, got)
		}
	}
}

// An answer that is too long to be written before it is sent is complete.
func TestLongResults(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.group("g")
	id, err := w.query("fields @message", "g")
	if err != nil {
		t.Fatal(err)
	}
	w.queries.run.Status = types.QueryStatusComplete
	for i := range 300 {
		w.queries.rows = append(w.queries.rows,
			[]types.ResultField{{Field: new("n"), Value: new(fmt.Sprint(i, strings.Repeat(` "long" \n`, 2000)))}})
	}
	out, err := w.client.GetQueryResults(t.Context(), &cloudwatchlogs.GetQueryResultsInput{QueryId: &id})
	if err != nil {
		t.Fatal(err)
	}
	if out.Status != types.QueryStatusComplete || len(out.Results) != 300 {
		t.Fatalf("%s, %d rows", out.Status, len(out.Results))
	}
	for i, row := range out.Results {
		if *row[0].Value != *w.queries.rows[i][0].Value {
			t.Fatalf("row %d is %.40q", i, *row[0].Value)
		}
	}
}

// A saved query is changed by its ID, found by its folder, and saved once however often a request comes.
func TestQueryDefinitions(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	in := &cloudwatchlogs.PutQueryDefinitionInput{
		Name: aws.String("eks/who"), QueryString: aws.String("filter verb = '{{verb}}'"),
		ClientToken: aws.String("0123456789abcdef0123456789abcdef0123"), LogGroupNames: []string{"g"},
		Parameters: []types.QueryParameter{{Name: aws.String("verb"), DefaultValue: aws.String("patch")}},
	}
	first, err := w.client.PutQueryDefinition(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.client.PutQueryDefinition(ctx, in)
	if err != nil || *again.QueryDefinitionId != *first.QueryDefinitionId {
		t.Errorf("sent twice: %v %v", again, err)
	}
	if _, err := w.client.PutQueryDefinition(ctx, &cloudwatchlogs.PutQueryDefinitionInput{Name: aws.String("other"),
		QueryString: aws.String("fields a")}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.PutQueryDefinition(ctx,
		&cloudwatchlogs.PutQueryDefinitionInput{QueryDefinitionId: first.QueryDefinitionId,
			Name: aws.String("eks/what"), QueryString: aws.String("fields b")}); err != nil {
		t.Fatal(err)
	}
	out, err := w.client.DescribeQueryDefinitions(ctx,
		&cloudwatchlogs.DescribeQueryDefinitionsInput{QueryDefinitionNamePrefix: aws.String("eks/")})
	if err != nil || len(out.QueryDefinitions) != 1 {
		t.Fatalf("%v %v", out, err)
	}
	if d := out.QueryDefinitions[0]; *d.Name != "eks/what" || *d.QueryString != "fields b" ||
		len(d.LogGroupNames) != 0 || len(d.Parameters) != 0 || *d.LastModified != today.UnixMilli() {
		t.Errorf("%+v", d)
	}
	if out, err := w.client.DeleteQueryDefinition(ctx,
		&cloudwatchlogs.DeleteQueryDefinitionInput{QueryDefinitionId: first.QueryDefinitionId}); err != nil ||
		!out.Success {
		t.Errorf("%v %v", out, err)
	}
}

// GetLogRecord shows what a @ptr points at, with the fields of its JSON; GetLogGroupFields says which there are.
func TestDiscoveredFields(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	w.group("g", "s")
	w.put("g", "s", today.Add(-time.Minute), `{"verb":"get","user":{"groups":["a"]}}`, "text")
	row, err := record.LogGroups(w.store).Get(ctx, record.LogGroupKey(account, region, "g"))
	if err != nil {
		t.Fatal(err)
	}
	ptr := record.LogPointer{GroupID: row.Value.ID, Timestamp: today.Add(-time.Minute).UnixMilli(), Seq: 1}.String()
	out, err := w.client.GetLogRecord(ctx, &cloudwatchlogs.GetLogRecordInput{LogRecordPointer: &ptr})
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]string{
		"verb": "get", "user.groups.0": "a", "@logStream": "s", "@log": account + ":g", "@ptr": ptr,
		"@timestamp": fmt.Sprint(today.Add(-time.Minute).UnixMilli()),
		"@message":   `{"verb":"get","user":{"groups":["a"]}}`,
	} {
		if out.LogRecord[field] != want {
			t.Errorf("%s is %q, want %q", field, out.LogRecord[field], want)
		}
	}
	fields, err := w.client.GetLogGroupFields(ctx,
		&cloudwatchlogs.GetLogGroupFieldsInput{LogGroupName: aws.String("g")})
	if err != nil {
		t.Fatal(err)
	}
	percent := map[string]int32{}
	for _, f := range fields.LogGroupFields {
		percent[*f.Name] = f.Percent
	}
	if percent["@message"] != 100 || percent["verb"] != 50 || percent["user.groups.0"] != 50 ||
		*fields.LogGroupFields[len(fields.LogGroupFields)-1].Name != "verb" {
		t.Errorf("%v", percent)
	}
	matches, err := w.client.TestMetricFilter(ctx,
		&cloudwatchlogs.TestMetricFilterInput{FilterPattern: aws.String("[client, status=404]"),
			LogEventMessages: []string{"10.0.0.1 200", "10.0.0.2 404"}})
	if err != nil || len(matches.Matches) != 1 || matches.Matches[0].EventNumber != 2 ||
		matches.Matches[0].ExtractedValues["$status"] != "404" {
		t.Errorf("%+v %v", matches, err)
	}
}

// A long key above many values, and many fields, take no more memory than a message does.
func TestFewFieldsAreDiscovered(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	w.group("g", "s")
	at := today.Add(-time.Minute)
	w.put("g", "s", at, `{"`+strings.Repeat("k", 400<<10)+`":[`+strings.Repeat("1,", 200<<10)+`1],"a":1}`)
	var many strings.Builder
	for i := range 500 {
		fmt.Fprintf(&many, `"f%d":1,`, i)
	}
	w.put("g", "s", at.Add(time.Millisecond), "{"+many.String()+`"last":1}`)
	row, err := record.LogGroups(w.store).Get(ctx, record.LogGroupKey(account, region, "g"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{1 + 6, value.MaxDiscovered + 6} {
		p := record.LogPointer{GroupID: row.Value.ID, Timestamp: at.UnixMilli() + int64(i), Seq: uint64(i + 1)}
		out, err := w.client.GetLogRecord(ctx, &cloudwatchlogs.GetLogRecordInput{LogRecordPointer: new(p.String())})
		if err != nil {
			t.Fatal(err)
		}
		if len(out.LogRecord) != want {
			t.Errorf("event %d has %d fields, want %d", i, len(out.LogRecord), want)
		}
	}
	fields, err := w.client.GetLogGroupFields(ctx,
		&cloudwatchlogs.GetLogGroupFieldsInput{LogGroupName: aws.String("g")})
	if err != nil || len(fields.LogGroupFields) != value.MaxDiscovered+1+5 {
		t.Errorf("%d fields, %v", len(fields.LogGroupFields), err)
	}
}

func TestExpensivePatternsGetLess(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	expensive := aws.String("-%0[a-z]{0,249}%")
	long := strings.Repeat("a", 200<<10)
	_, err := w.client.TestMetricFilter(ctx, &cloudwatchlogs.TestMetricFilterInput{FilterPattern: expensive,
		LogEventMessages: []string{long, long, long}})
	if f := failureOf(t, err); f.code != "InvalidParameterException" || !strings.Contains(f.message, "fewer or shorter") {
		t.Errorf("%+v", f)
	}
	if _, err := w.client.TestMetricFilter(ctx, &cloudwatchlogs.TestMetricFilterInput{FilterPattern: aws.String("a"),
		LogEventMessages: []string{long, long, long}}); err != nil {
		t.Error(err)
	}

	w.group("g", "s")
	for i := range 20 {
		w.put("g", "s", today.Add(time.Duration(i-60)*time.Second), strings.Repeat(" ", 1_000_000))
	}
	pages, found := 0, 0
	for pager := cloudwatchlogs.NewFilterLogEventsPaginator(w.client, &cloudwatchlogs.FilterLogEventsInput{
		LogGroupName: aws.String("g"), FilterPattern: expensive}); pager.HasMorePages(); pages++ {
		page, err := pager.NextPage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		found += len(page.Events)
	}
	if found != 20 || pages < 3 {
		t.Errorf("%d events in %d pages", found, pages)
	}
}

// A query reads no group that nobody has decided about: one is created while the others that SOURCE selects are.
func TestAQueryReadsWhatWasDecidedAbout(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.group("/app/a")
	late := record.LogGroup{Account: account, Region: region, Name: "/app/late", ID: 99,
		Class: types.LogGroupClassStandard}
	w.Mu.Lock()
	w.Deny = func(_ wire.Caller, target wire.Target) bool {
		if _, err := record.LogGroups(w.store).Put(t.Context(), record.LogGroupKey(account, region, late.Name),
			late); err != nil {
			t.Error(err)
		}
		return strings.Contains(target.Resource, late.Name)
	}
	w.Mu.Unlock()
	_, err := w.query("SOURCE logGroups(namePrefix: ['/app/']) | fields @message")
	if code := awstest.Code(err); code != "AccessDeniedException" {
		t.Errorf("a query of a group that is denied: %v", err)
	}
	if n := record.LogQueries(w.store).Count(""); n != 0 {
		t.Errorf("%d queries are recorded", n)
	}
}
