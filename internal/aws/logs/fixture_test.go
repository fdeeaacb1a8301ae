package logs_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	coracle "github.com/coracle-eks/coracle/internal/aws/logs"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
	"github.com/coracle-eks/coracle/test/awsclient"
)

const (
	account  = "111122223333"
	region   = "eu-west-1"
	rootARN  = "arn:aws:iam::" + account + ":root"
	groupARN = "arn:aws:logs:" + region + ":" + account + ":log-group:"
)

// today is the time when the tests begin.
var today = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// fixture is the CloudWatch Logs API behind the real wire.
type fixture struct {
	t       testing.TB
	store   *store.Store
	events  *events.Store
	queries *answers
	client  *cloudwatchlogs.Client
	url     string

	*awstest.Judge

	mu    sync.Mutex
	clock time.Time
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	w := &fixture{t: t, store: storetest.New(t), queries: &answers{}, clock: today,
		Judge: awstest.NewJudge()}
	var err error
	if w.events, err = events.Open(t.TempDir(), events.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.events.Close(); err != nil {
			t.Errorf("close the store of log events: %v", err)
		}
	})
	mux := wire.NewMux(wire.Options{Credentials: w.Judge, Authorizer: w.Judge, Region: region})
	coracle.New(coracle.Options{Store: w.store, Events: w.events, Queries: w.queries, Now: w.now}).Register(mux)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	w.url = server.URL
	w.client = cloudwatchlogs.New(cloudwatchlogs.Options{
		Region:           region,
		BaseEndpoint:     aws.String(server.URL),
		Credentials:      credentials.NewStaticCredentialsProvider("AKIAROOT", "secret", ""),
		RetryMaxAttempts: 1,
		HTTPClient:       awsclient.HTTP(),
	})
	return w
}

func (w *fixture) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock
}

// group creates a log group with streams.
func (w *fixture) group(name string, streams ...string) {
	w.t.Helper()
	ctx := w.t.Context()
	if _, err := w.client.CreateLogGroup(ctx, &cloudwatchlogs.CreateLogGroupInput{LogGroupName: &name}); err != nil {
		w.t.Fatalf("create log group %s: %v", name, err)
	}
	for _, s := range streams {
		if _, err := w.client.CreateLogStream(ctx, &cloudwatchlogs.CreateLogStreamInput{LogGroupName: &name,
			LogStreamName: &s}); err != nil {
			w.t.Fatalf("create log stream %s: %v", s, err)
		}
	}
}

// failure is an error as the client saw it.
type failure struct {
	code    string
	status  int
	message string
}

func failureOf(t testing.TB, err error) failure {
	t.Helper()
	var api smithy.APIError
	var response *smithyhttp.ResponseError
	if !errors.As(err, &api) || !errors.As(err, &response) {
		t.Fatalf("want an error of the service, got %v", err)
	}
	return failure{api.ErrorCode(), response.HTTPStatusCode(), api.ErrorMessage()}
}

// answers are the answers of the runner of queries.
type answers struct {
	mu   sync.Mutex
	run  record.LogQueryRun
	rows [][]types.ResultField
	most int // rows of an answer; 0: all that are wanted
}

func (a *answers) Results(_ context.Context, _ record.LogQuery, page func(int) (int, int, error),
	_ func(int64) error) (record.LogQueryRun, [][]types.ResultField, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if page == nil {
		return a.run, nil, nil
	}
	from, to, err := page(len(a.rows))
	if err != nil {
		return a.run, nil, err
	}
	if a.most > 0 {
		to = min(to, from+a.most)
	}
	return a.run, a.rows[from:to], nil
}

// put adds events, each one millisecond after the other from a time on, and returns the time of the last.
func (w *fixture) put(group, stream string, from time.Time, messages ...string) time.Time {
	w.t.Helper()
	in := &cloudwatchlogs.PutLogEventsInput{LogGroupName: &group, LogStreamName: &stream}
	for i, m := range messages {
		in.LogEvents = append(in.LogEvents, types.InputLogEvent{Message: &m,
			Timestamp: aws.Int64(from.UnixMilli() + int64(i))})
	}
	out, err := w.client.PutLogEvents(w.t.Context(), in)
	if err != nil {
		w.t.Fatalf("put %d events: %v", len(messages), err)
	}
	if out.RejectedLogEventsInfo != nil {
		w.t.Fatalf("rejected %+v", out.RejectedLogEventsInfo)
	}
	return from.Add(time.Duration(len(messages)-1) * time.Millisecond)
}

// call returns a function that makes a call of the client, for a table.
func call[In, Out any](method func(context.Context, In, ...func(*cloudwatchlogs.Options)) (Out, error),
	ctx context.Context, in In) func() error {
	return func() error {
		_, err := method(ctx, in)
		return err
	}
}

// batch returns a batch of events of today.
func batch(messages ...string) []types.InputLogEvent {
	var out []types.InputLogEvent
	for _, m := range messages {
		out = append(out, types.InputLogEvent{Message: &m, Timestamp: aws.Int64(today.UnixMilli())})
	}
	return out
}
