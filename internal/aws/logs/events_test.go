package logs_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/record"
)

func numbered(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s%04d", prefix, i)
	}
	return out
}

// get returns one page of a stream.
func (w *fixture) get(in cloudwatchlogs.GetLogEventsInput) (messages []string, out *cloudwatchlogs.GetLogEventsOutput) {
	w.t.Helper()
	if in.LogGroupName == nil && in.LogGroupIdentifier == nil {
		in.LogGroupName = aws.String("g")
	}
	if in.LogStreamName == nil {
		in.LogStreamName = aws.String("s")
	}
	out, err := w.client.GetLogEvents(w.t.Context(), &in)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range out.Events {
		messages = append(messages, *e.Message)
	}
	return messages, out
}

// forward reads to the end: until the token that was given comes back.
func (w *fixture) forward(in cloudwatchlogs.GetLogEventsInput) (all []string, out *cloudwatchlogs.GetLogEventsOutput) {
	w.t.Helper()
	for {
		page, next := w.get(in)
		all = append(all, page...)
		if in.NextToken != nil && *in.NextToken == *next.NextForwardToken {
			return all, next
		}
		in.NextToken = next.NextForwardToken
	}
}

func (w *fixture) backward(in cloudwatchlogs.GetLogEventsInput) (all []string, out *cloudwatchlogs.GetLogEventsOutput) {
	w.t.Helper()
	for {
		page, next := w.get(in)
		all = append(page, all...)
		if in.NextToken != nil && *in.NextToken == *next.NextBackwardToken {
			return all, next
		}
		in.NextToken = next.NextBackwardToken
	}
}

// GetLogEvents goes through a stream in both directions, turns round anywhere, and at an end gives the same token back.
func TestGetLogEvents(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.group("g", "s", "other")
	all := numbered("m", 100)
	w.put("g", "other", today, numbered("x", 50)...)
	end := w.put("g", "s", today, all...)

	if got, _ := w.forward(cloudwatchlogs.GetLogEventsInput{StartFromHead: aws.Bool(true),
		Limit: aws.Int32(7)}); !slices.Equal(got, all) {
		t.Errorf("forward: %q", got)
	}
	if got, _ := w.backward(cloudwatchlogs.GetLogEventsInput{Limit: aws.Int32(7)}); !slices.Equal(got, all) {
		t.Errorf("backward: %q", got)
	}
	if got, _ := w.get(cloudwatchlogs.GetLogEventsInput{Limit: aws.Int32(3)}); !slices.Equal(got, all[97:]) {
		t.Errorf("the last three: %q", got)
	}
	if got, _ := w.get(cloudwatchlogs.GetLogEventsInput{LogGroupIdentifier: aws.String(groupARN + "g"),
		StartFromHead: aws.Bool(true)}); !slices.Equal(got, all) {
		t.Errorf("by ARN: %q", got)
	}
	// The start is inclusive, the end is not.
	ms := func(i int64) *int64 { return aws.Int64(today.UnixMilli() + i) }
	if got, _ := w.forward(cloudwatchlogs.GetLogEventsInput{StartFromHead: aws.Bool(true), StartTime: ms(10),
		EndTime: ms(20), Limit: aws.Int32(4)}); !slices.Equal(got, all[10:20]) {
		t.Errorf("a range: %q", got)
	}
	if got, _ := w.backward(cloudwatchlogs.GetLogEventsInput{StartTime: ms(10), EndTime: ms(20),
		Limit: aws.Int32(4)}); !slices.Equal(got, all[10:20]) {
		t.Errorf("a range backward: %q", got)
	}

	// Turning round in the middle repeats nothing of the page in hand.
	first, page := w.get(cloudwatchlogs.GetLogEventsInput{StartFromHead: aws.Bool(true), Limit: aws.Int32(10)})
	second, page := w.get(cloudwatchlogs.GetLogEventsInput{NextToken: page.NextForwardToken, Limit: aws.Int32(10),
		StartFromHead: aws.Bool(true)})
	again, page := w.get(cloudwatchlogs.GetLogEventsInput{NextToken: page.NextBackwardToken, Limit: aws.Int32(10)})
	if !slices.Equal(second, all[10:20]) || !slices.Equal(again, first) {
		t.Errorf("%q, then back %q", second, again)
	}
	if !strings.HasPrefix(*page.NextForwardToken, "f/") || !strings.HasPrefix(*page.NextBackwardToken, "b/") ||
		!strings.HasSuffix(*page.NextForwardToken, "/s") || len(*page.NextForwardToken) != 60 {
		t.Errorf("tokens %s and %s", *page.NextForwardToken, *page.NextBackwardToken)
	}
	// At either end one can turn round as well.
	_, last := w.forward(cloudwatchlogs.GetLogEventsInput{StartFromHead: aws.Bool(true)})
	if got, _ := w.get(cloudwatchlogs.GetLogEventsInput{NextToken: last.NextBackwardToken,
		Limit: aws.Int32(2)}); !slices.Equal(got, all[98:]) {
		t.Errorf("back from the end: %q", got)
	}
	_, start := w.backward(cloudwatchlogs.GetLogEventsInput{})
	if got, _ := w.get(cloudwatchlogs.GetLogEventsInput{NextToken: start.NextForwardToken,
		Limit: aws.Int32(2)}); !slices.Equal(got, all[:2]) {
		t.Errorf("forth from the beginning: %q", got)
	}
	// What arrives later is found with the token of the end.
	w.put("g", "s", end, "late")
	if got, _ := w.get(cloudwatchlogs.GetLogEventsInput{NextToken: last.NextForwardToken}); !slices.Equal(got,
		[]string{"late"}) {
		t.Errorf("after the end: %q", got)
	}
}

// An empty stream has tokens, too, and they find what comes.
func TestAnEmptyStreamHasTokens(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.group("g", "s")
	_, page := w.get(cloudwatchlogs.GetLogEventsInput{})
	w.put("g", "s", today, "first")
	if got, _ := w.get(cloudwatchlogs.GetLogEventsInput{NextToken: page.NextForwardToken}); !slices.Equal(got,
		[]string{"first"}) {
		t.Errorf("forward %q", got)
	}
	if got, back := w.get(cloudwatchlogs.GetLogEventsInput{NextToken: page.NextBackwardToken}); len(got) != 0 ||
		*back.NextBackwardToken != *page.NextBackwardToken {
		t.Errorf("backward %q", got)
	}
}

// A page has 1 MiB of events at most, and one event at least.
func TestPagesEndAtAMegabyte(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.group("g", "s")
	large := strings.Repeat("x", 1<<20-26)
	third := strings.Repeat("y", 400<<10)
	for i, m := range []string{large, large, third, third, third} {
		w.put("g", "s", today.Add(time.Duration(i)*time.Second), m)
	}
	var sizes []int
	in := cloudwatchlogs.GetLogEventsInput{StartFromHead: aws.Bool(true)}
	for {
		page, out := w.get(in)
		if len(page) == 0 {
			break
		}
		sizes = append(sizes, len(page))
		in.NextToken = out.NextForwardToken
	}
	if !slices.Equal(sizes, []int{1, 1, 2, 1}) {
		t.Errorf("pages of %v", sizes)
	}
	pages := cloudwatchlogs.NewFilterLogEventsPaginator(w.client,
		&cloudwatchlogs.FilterLogEventsInput{LogGroupName: aws.String("g")})
	sizes = nil
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(page.Events))
	}
	if !slices.Equal(sizes, []int{1, 1, 2, 1}) {
		t.Errorf("filtered pages of %v", sizes)
	}
}

func (w *fixture) filter(in cloudwatchlogs.FilterLogEventsInput) (messages, streams []string) {
	w.t.Helper()
	if in.LogGroupName == nil && in.LogGroupIdentifier == nil {
		in.LogGroupName = aws.String("g")
	}
	ids := map[string]bool{}
	for pages := cloudwatchlogs.NewFilterLogEventsPaginator(w.client, &in); pages.HasMorePages(); {
		page, err := pages.NextPage(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range page.Events {
			messages, streams = append(messages, *e.Message), append(streams, *e.LogStreamName)
			if ids[*e.EventId] || len(*e.EventId) != 56 {
				w.t.Errorf("event ID %s of %s", *e.EventId, *e.Message)
			}
			ids[*e.EventId] = true
		}
	}
	return messages, streams
}

// FilterLogEvents interleaves streams by time, page after page.
func TestFilterLogEvents(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.group("g", "a-1", "a-2", "b")
	var want, wantA []string
	for i := range 60 {
		stream := []string{"a-1", "a-2", "b"}[i%3]
		m := fmt.Sprintf("n%02d", i)
		if i%10 == 0 {
			m += " ERROR"
		}
		w.put("g", stream, today.Add(time.Duration(i)*time.Second), m)
		want = append(want, m)
		if stream != "b" {
			wantA = append(wantA, m)
		}
	}
	limit := aws.Int32(7)
	if got, streams := w.filter(cloudwatchlogs.FilterLogEventsInput{Limit: limit}); !slices.Equal(got, want) ||
		streams[1] != "a-2" {
		t.Errorf("all: %q", got)
	}
	if got, _ := w.filter(cloudwatchlogs.FilterLogEventsInput{Limit: limit,
		LogStreamNamePrefix: aws.String("a-")}); !slices.Equal(got, wantA) {
		t.Errorf("by prefix: %q", got)
	}
	if got, _ := w.filter(cloudwatchlogs.FilterLogEventsInput{Limit: limit, LogStreamNames: []string{"a-2",
		"a-1"}}); !slices.Equal(got, wantA) {
		t.Errorf("by name: %q", got)
	}
	if got, _ := w.filter(cloudwatchlogs.FilterLogEventsInput{Limit: aws.Int32(2),
		FilterPattern: aws.String("ERROR")}); len(got) != 6 || got[5] != "n50 ERROR" {
		t.Errorf("by pattern: %q", got)
	}
	if got, _ := w.filter(cloudwatchlogs.FilterLogEventsInput{LogStreamNamePrefix: aws.String("c")}); len(got) != 0 {
		t.Errorf("of no stream: %q", got)
	}
	// Both ends of the range are inclusive.
	from, to := today.Add(5*time.Second).UnixMilli(), today.Add(9*time.Second).UnixMilli()
	if got, _ := w.filter(cloudwatchlogs.FilterLogEventsInput{LogGroupIdentifier: aws.String(groupARN + "g"),
		StartTime: &from, EndTime: &to}); !slices.Equal(got, want[5:10]) {
		t.Errorf("a range: %q", got)
	}
	down := slices.Clone(want)
	slices.Reverse(down)
	if got, _ := w.filter(cloudwatchlogs.FilterLogEventsInput{Limit: limit, StartFromHead: aws.Bool(false),
		StartTime: aws.Int64(today.UnixMilli())}); !slices.Equal(got, down) {
		t.Errorf("the latest first: %q", got)
	}
	// A token is for its own request.
	out, err := w.client.FilterLogEvents(t.Context(),
		&cloudwatchlogs.FilterLogEventsInput{LogGroupName: aws.String("g"), Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.client.FilterLogEvents(t.Context(), &cloudwatchlogs.FilterLogEventsInput{LogGroupName: aws.String("g"),
		NextToken: out.NextToken, FilterPattern: aws.String("ERROR")})
	if f := failureOf(t, err); f.code != "InvalidParameterException" {
		t.Errorf("another's token: %v", f)
	}
}

// What arrives between two pages neither repeats an event nor hides one that was there, in both directions.
func TestPagingWhileEventsArrive(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.group("g", "s", "t")
	old := numbered("old", 300)
	w.put("g", "s", today, old...)
	stop, done := make(chan struct{}), sync.WaitGroup{}
	done.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				w.put("g", []string{"s", "t"}[i%2], today.Add(time.Duration(rand.IntN(400))*time.Millisecond),
					fmt.Sprintf("new%06d", i))
			}
		}
	})
	check := func(what string, got []string) {
		t.Helper()
		seen := map[string]bool{}
		var kept []string
		for _, m := range got {
			if seen[m] {
				t.Errorf("%s: %s came twice", what, m)
			}
			seen[m] = true
			if strings.HasPrefix(m, "old") {
				kept = append(kept, m)
			}
		}
		if !slices.Equal(kept, old) {
			t.Errorf("%s: %d of %d", what, len(kept), len(old))
		}
	}
	ends := aws.Int64(today.UnixMilli() + 300) // else the reader may never catch up
	forward, _ := w.forward(cloudwatchlogs.GetLogEventsInput{StartFromHead: aws.Bool(true), Limit: aws.Int32(11),
		EndTime: ends})
	check("forward", forward)
	backward, _ := w.backward(cloudwatchlogs.GetLogEventsInput{Limit: aws.Int32(11), EndTime: ends})
	check("backward", backward)
	filtered, _ := w.filter(cloudwatchlogs.FilterLogEventsInput{Limit: aws.Int32(11), EndTime: ends})
	check("filtered", filtered)
	close(stop)
	done.Wait()
}

// What is too old, has expired or is too new is left out and told; the rest is taken.
func TestRejectedEvents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		retention int32
		ages      []time.Duration // before now
		want      types.RejectedLogEventsInfo
		kept      int
	}{
		"too old": {ages: []time.Duration{360 * time.Hour, 337 * time.Hour, time.Hour},
			want: types.RejectedLogEventsInfo{TooOldLogEventEndIndex: aws.Int32(2)}, kept: 1},
		"too new": {ages: []time.Duration{time.Hour, -time.Hour, -3 * time.Hour, -4 * time.Hour},
			want: types.RejectedLogEventsInfo{TooNewLogEventStartIndex: aws.Int32(2)}, kept: 2},
		"expired": {retention: 3, ages: []time.Duration{80 * time.Hour, 73 * time.Hour, time.Hour},
			want: types.RejectedLogEventsInfo{ExpiredLogEventEndIndex: aws.Int32(2)}, kept: 1},
		"all of it": {retention: 3, ages: []time.Duration{400 * time.Hour, 100 * time.Hour, time.Hour,
			-3 * time.Hour}, want: types.RejectedLogEventsInfo{TooOldLogEventEndIndex: aws.Int32(1),
			ExpiredLogEventEndIndex: aws.Int32(2), TooNewLogEventStartIndex: aws.Int32(3)}, kept: 1},
		"nothing is left": {ages: []time.Duration{400 * time.Hour, -3 * time.Hour},
			want: types.RejectedLogEventsInfo{TooOldLogEventEndIndex: aws.Int32(1),
				TooNewLogEventStartIndex: aws.Int32(1)}},
		"a long retention is no help": {retention: 365, ages: []time.Duration{400 * time.Hour},
			want: types.RejectedLogEventsInfo{TooOldLogEventEndIndex: aws.Int32(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			w.group("g", "s")
			if c.retention > 0 {
				if _, err := w.client.PutRetentionPolicy(t.Context(),
					&cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: aws.String("g"),
						RetentionInDays: &c.retention}); err != nil {
					t.Fatal(err)
				}
			}
			in := &cloudwatchlogs.PutLogEventsInput{LogGroupName: aws.String("g"), LogStreamName: aws.String("s"),
				SequenceToken: aws.String("whatever")}
			for _, age := range c.ages {
				in.LogEvents = append(in.LogEvents, types.InputLogEvent{Message: aws.String("m"),
					Timestamp: aws.Int64(today.Add(-age).UnixMilli())})
			}
			out, err := w.client.PutLogEvents(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(&c.want, out.RejectedLogEventsInfo,
				cmpopts.IgnoreUnexported(types.RejectedLogEventsInfo{})); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if len(aws.ToString(out.NextSequenceToken)) != 56 {
				t.Errorf("next sequence token %v", out.NextSequenceToken)
			}
			if got, _ := w.get(cloudwatchlogs.GetLogEventsInput{}); len(got) != c.kept {
				t.Errorf("kept %q", got)
			}
		})
	}
}

// What a retention has ended stays ended when the retention becomes longer: such events are refused, not taken and
// hidden.
func TestALongerRetentionBringsNothingBack(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.group("g", "s")
	w.put("g", "s", today, "m")
	row, err := record.LogGroups(w.store).Get(t.Context(), record.LogGroupKey(account, region, "g"))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.events.Expire(events.GroupID(row.Value.ID), today.Add(-24*time.Hour).UnixMilli()); err != nil {
		t.Fatal(err)
	}
	out, err := w.client.PutLogEvents(t.Context(), &cloudwatchlogs.PutLogEventsInput{LogGroupName: aws.String("g"),
		LogStreamName: aws.String("s"), LogEvents: []types.InputLogEvent{
			{Message: aws.String("old"), Timestamp: aws.Int64(today.Add(-25 * time.Hour).UnixMilli())},
			{Message: aws.String("new"), Timestamp: aws.Int64(today.Add(-23 * time.Hour).UnixMilli())},
		}})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := w.get(cloudwatchlogs.GetLogEventsInput{}); out.RejectedLogEventsInfo == nil ||
		aws.ToInt32(out.RejectedLogEventsInfo.ExpiredLogEventEndIndex) != 1 ||
		!slices.Equal(got, []string{"new", "m"}) {
		t.Errorf("rejected %+v, kept %q", out.RejectedLogEventsInfo, got)
	}
}

// A deleted stream's or group's events are gone, also when the name is used again.
func TestDeletedEventsStayAway(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	w.group("g", "s", "kept")
	w.put("g", "s", today, "one")
	w.put("g", "kept", today, "two")
	if _, err := w.client.DeleteLogStream(ctx, &cloudwatchlogs.DeleteLogStreamInput{LogGroupName: aws.String("g"),
		LogStreamName: aws.String("s")}); err != nil {
		t.Fatal(err)
	}
	if got, _ := w.filter(cloudwatchlogs.FilterLogEventsInput{}); !slices.Equal(got, []string{"two"}) {
		t.Errorf("of the group: %q", got)
	}
	if _, err := w.client.CreateLogStream(ctx, &cloudwatchlogs.CreateLogStreamInput{LogGroupName: aws.String("g"),
		LogStreamName: aws.String("s")}); err != nil {
		t.Fatal(err)
	}
	if got, _ := w.get(cloudwatchlogs.GetLogEventsInput{}); len(got) != 0 {
		t.Errorf("of the new stream: %q", got)
	}
	if _, err := w.client.DeleteLogGroup(ctx,
		&cloudwatchlogs.DeleteLogGroupInput{LogGroupName: aws.String("g")}); err != nil {
		t.Fatal(err)
	}
	w.group("g")
	if out, err := w.client.DescribeLogStreams(ctx,
		&cloudwatchlogs.DescribeLogStreamsInput{LogGroupName: aws.String("g")}); err != nil ||
		len(out.LogStreams) != 0 {
		t.Errorf("streams of the new group: %v %v", out, err)
	}
	if got, _ := w.filter(cloudwatchlogs.FilterLogEventsInput{}); len(got) != 0 {
		t.Errorf("of the new group: %q", got)
	}
}

// Streams are listed by name or by their last event, up and down, in pages.
func TestStreams(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	names := numbered("s", 120)
	w.group("g", names...)
	for i, n := range []string{"s0007", "s0003", "s0011"} {
		w.put("g", n, today.Add(time.Duration(i)*time.Second), "m")
	}
	list := func(in cloudwatchlogs.DescribeLogStreamsInput) (got []string) {
		t.Helper()
		in.LogGroupName = aws.String("g")
		for pages := cloudwatchlogs.NewDescribeLogStreamsPaginator(w.client, &in); pages.HasMorePages(); {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range page.LogStreams {
				got = append(got, *s.LogStreamName)
			}
		}
		return got
	}
	down := slices.Clone(names)
	slices.Reverse(down)
	if got := list(cloudwatchlogs.DescribeLogStreamsInput{}); !slices.Equal(got, names) {
		t.Errorf("by name: %q", got)
	}
	if got := list(cloudwatchlogs.DescribeLogStreamsInput{Descending: aws.Bool(true),
		Limit: aws.Int32(7)}); !slices.Equal(got, down) {
		t.Errorf("by name, descending: %q", got)
	}
	if got := list(cloudwatchlogs.DescribeLogStreamsInput{LogStreamNamePrefix: aws.String("s001")}); !slices.Equal(got,
		names[10:20]) {
		t.Errorf("by prefix: %q", got)
	}
	if got := list(cloudwatchlogs.DescribeLogStreamsInput{OrderBy: types.OrderByLastEventTime,
		Limit: aws.Int32(50)}); len(got) != 120 || !slices.Equal(got[117:], []string{"s0007", "s0003", "s0011"}) {
		t.Errorf("by time: %q", got)
	}
	if got := list(cloudwatchlogs.DescribeLogStreamsInput{OrderBy: types.OrderByLastEventTime,
		Descending: aws.Bool(true), Limit: aws.Int32(2)}); len(got) != 120 || !slices.Equal(got[:3],
		[]string{"s0011", "s0003", "s0007"}) {
		t.Errorf("by time, descending: %q", got)
	}
	out, err := w.client.DescribeLogStreams(t.Context(),
		&cloudwatchlogs.DescribeLogStreamsInput{LogGroupIdentifier: aws.String(groupARN + "g"),
			LogStreamNamePrefix: aws.String("s0003")})
	if err != nil {
		t.Fatal(err)
	}
	last := today.Add(time.Second).UnixMilli()
	want := []types.LogStream{{
		Arn: aws.String(groupARN + "g:log-stream:s0003"), LogStreamName: aws.String("s0003"),
		CreationTime: aws.Int64(today.UnixMilli()), StoredBytes: aws.Int64(0),
		FirstEventTimestamp: &last, LastEventTimestamp: &last, LastIngestionTime: aws.Int64(today.UnixMilli()),
	}}
	if d := cmp.Diff(want, out.LogStreams, cmpopts.IgnoreUnexported(types.LogStream{}),
		cmpopts.IgnoreFields(types.LogStream{}, "UploadSequenceToken")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
