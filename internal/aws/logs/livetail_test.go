package logs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	coracle "github.com/coracle-eks/coracle/internal/aws/logs"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/eventually"
)

// noHostPrefix removes the prefix of hosts, so that the SDK does not connect to stream-127.0.0.1.
func noHostPrefix(o *cloudwatchlogs.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("NoHostPrefix",
			func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
				middleware.InitializeOutput, middleware.Metadata, error,
			) {
				return next.HandleInitialize(smithyhttp.DisableEndpointHostPrefix(ctx, true), in)
			}), middleware.Before)
	})
}

// plainBody hides from net/http that the SDK's request bodies have a WriteTo, which fails when the answer comes before
// net/http has looked for the body's end.
type plainBody struct{ aws.HTTPClient }

func (c plainBody) Do(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Body = struct{ io.ReadCloser }{r.Body}
	return c.HTTPClient.Do(r)
}

func plainly(o *cloudwatchlogs.Options) { o.HTTPClient = plainBody{o.HTTPClient} }

// session is a Live Tail session of a client of its own: the streams of one client share a buffer.
type session struct {
	*cloudwatchlogs.StartLiveTailEventStream
	t testing.TB
}

func (w *fixture) tail(in *cloudwatchlogs.StartLiveTailInput) (*session, error) {
	out, err := cloudwatchlogs.New(w.client.Options(), noHostPrefix, plainly).StartLiveTail(w.t.Context(), in)
	if err != nil {
		return nil, err
	}
	s := &session{out.GetStream(), w.t}
	w.t.Cleanup(func() { s.Close() })
	return s, nil
}

// start starts a session, and returns it with its first message.
func (w *fixture) start(in *cloudwatchlogs.StartLiveTailInput) (*session, types.LiveTailSessionStart) {
	w.t.Helper()
	s, err := w.tail(in)
	if err != nil {
		w.t.Fatalf("start a Live Tail session: %v", err)
	}
	first, ok := (<-s.Events()).(*types.StartLiveTailResponseStreamMemberSessionStart)
	if !ok {
		w.t.Fatalf("the session begins with %T: %v", first, s.Err())
	}
	return s, first.Value
}

// until reads updates until one has events.
func (s *session) until() types.LiveTailSessionUpdate {
	s.t.Helper()
	for e := range s.Events() {
		update, ok := e.(*types.StartLiveTailResponseStreamMemberSessionUpdate)
		if !ok {
			s.t.Fatalf("the session goes on with %T", e)
		}
		if update.Value.SessionResults == nil || update.Value.SessionMetadata == nil {
			s.t.Fatalf("an update is %+v", update.Value)
		}
		if len(update.Value.SessionResults) > 0 {
			return update.Value
		}
	}
	s.t.Fatalf("the session ends: %v", s.Err())
	return types.LiveTailSessionUpdate{}
}

func messages(update types.LiveTailSessionUpdate) string {
	var list []string
	for _, e := range update.SessionResults {
		list = append(list, *e.LogStreamName+":"+*e.Message)
	}
	return strings.Join(list, " ")
}

func TestStartLiveTail(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.group("app", "web-1", "web-2", "db")
	w.group("other", "web-1")
	w.put("app", "db", today, "ERROR before the session")
	app, other := groupARN+"app", groupARN+"other"

	all, start := w.start(&cloudwatchlogs.StartLiveTailInput{LogGroupIdentifiers: []string{app, other, app}})
	if aws.ToString(start.SessionId) == "" || aws.ToString(start.RequestId) == "" ||
		!slices.Equal(start.LogGroupIdentifiers, []string{app, other, app}) ||
		start.LogStreamNames == nil || start.LogStreamNamePrefixes == nil ||
		aws.ToString(start.LogEventFilterPattern) != "" {
		t.Errorf("the session starts with %+v", start)
	}
	filtered, start := w.start(&cloudwatchlogs.StartLiveTailInput{LogGroupIdentifiers: []string{app},
		LogEventFilterPattern: aws.String("ERROR -disk"), LogStreamNamePrefixes: []string{"web-", "x"}})
	if aws.ToString(start.LogEventFilterPattern) != "ERROR -disk" || !slices.Equal(start.LogStreamNamePrefixes,
		[]string{"web-", "x"}) {
		t.Errorf("the session starts with %+v", start)
	}
	named, _ := w.start(&cloudwatchlogs.StartLiveTailInput{LogGroupIdentifiers: []string{app},
		LogStreamNames: []string{"web-2", "db"}})
	for _, target := range []string{app, other} {
		if !slices.ContainsFunc(w.Asked, func(t wire.Target) bool {
			return t.Action == "logs:StartLiveTail" && strings.HasPrefix(t.Resource, target)
		}) {
			t.Errorf("nobody was asked about logs:StartLiveTail on %s: %+v", target, w.Asked)
		}
	}

	in := &cloudwatchlogs.PutLogEventsInput{LogGroupName: aws.String("app"), LogStreamName: aws.String("web-1"),
		LogEvents: batch("one", "ERROR disk", "ERROR net")}
	if _, err := w.client.PutLogEvents(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	got := all.until()
	if m := messages(got); m != "web-1:one web-1:ERROR disk web-1:ERROR net" || got.SessionMetadata.Sampled {
		t.Errorf("the update is %s, %+v", m, *got.SessionMetadata)
	}
	if e := got.SessionResults[0]; *e.LogGroupIdentifier != account+":app" || *e.Timestamp != today.UnixMilli() ||
		*e.IngestionTime != today.UnixMilli() {
		t.Errorf("the event is of %s at %d, ingested at %d", *e.LogGroupIdentifier, *e.Timestamp, *e.IngestionTime)
	}
	if m := messages(filtered.until()); m != "web-1:ERROR net" {
		t.Errorf("the filtered update is %s", m)
	}

	// A stream that comes later is tailed as well.
	if _, err := w.client.CreateLogStream(t.Context(),
		&cloudwatchlogs.CreateLogStreamInput{LogGroupName: aws.String("other"),
			LogStreamName: aws.String("late")}); err != nil {
		t.Fatal(err)
	}
	w.put("other", "late", today, "two")
	w.put("app", "db", today, "three")
	if m := messages(named.until()); m != "db:three" {
		t.Errorf("the update of named streams is %s", m)
	}
	seen := messages(all.until())
	for !strings.Contains(seen, "late:two") || !strings.Contains(seen, "db:three") {
		seen += " " + messages(all.until())
	}
}

func TestLiveTailSamples(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.group("app", "web", "big")
	s, _ := w.start(&cloudwatchlogs.StartLiveTailInput{LogGroupIdentifiers: []string{groupARN + "app"}})
	var many []string
	for i := range 600 {
		many = append(many, fmt.Sprint(i))
	}
	w.put("app", "web", today, many...)
	update := s.until()
	if n := len(update.SessionResults); n != 500 || !update.SessionMetadata.Sampled {
		t.Errorf("an update for 600 events has %d, sampled: %v", n, update.SessionMetadata.Sampled)
	}
	if !slices.IsSortedFunc(update.SessionResults,
		func(a, b types.LiveTailSessionLogEvent) int { return int(*a.Timestamp - *b.Timestamp) }) {
		t.Error("the update is not in the order of time")
	}

	// Four events of 700 kB: two fit into an update, and the frame that carries the control characters six times as
	// long.
	for range 4 {
		w.put("app", "big", today, strings.Repeat("\x01", 700_000))
	}
	bytes := 0
	for seen := 0; seen == 0 || !update.SessionMetadata.Sampled && seen < 4; {
		update = s.until()
		for _, e := range update.SessionResults {
			bytes += len(*e.Message)
			seen++
		}
	}
	if bytes < 1_400_000 {
		t.Errorf("only %d bytes of 2800000 arrived", bytes)
	}
}

func TestStartLiveTailRefusals(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.group("app", "web")
	if _, err := w.client.CreateLogGroup(t.Context(),
		&cloudwatchlogs.CreateLogGroupInput{LogGroupName: aws.String("cold"),
			LogGroupClass: types.LogGroupClassInfrequentAccess}); err != nil {
		t.Fatal(err)
	}
	app := groupARN + "app"
	for _, c := range []struct {
		in            cloudwatchlogs.StartLiveTailInput
		code, message string
	}{
		{cloudwatchlogs.StartLiveTailInput{LogGroupIdentifiers: []string{"app"}}, "InvalidParameterException",
			"not the ARN of a log group"},
		{cloudwatchlogs.StartLiveTailInput{LogGroupIdentifiers: []string{app + ":*"}}, "InvalidParameterException",
			"without :* at its end"},
		{cloudwatchlogs.StartLiveTailInput{LogGroupIdentifiers: []string{groupARN + "absent"}},
			"ResourceNotFoundException", "The specified log group does not exist."},
		{cloudwatchlogs.StartLiveTailInput{LogGroupIdentifiers: []string{groupARN + "cold"}},
			"InvalidOperationException", "INFREQUENT_ACCESS"},
		{cloudwatchlogs.StartLiveTailInput{LogGroupIdentifiers: []string{app}, LogStreamNames: []string{"absent"}},
			"ResourceNotFoundException", "The specified log stream does not exist."},
		{cloudwatchlogs.StartLiveTailInput{LogGroupIdentifiers: []string{app}, LogStreamNames: []string{"web"},
			LogStreamNamePrefixes: []string{"w"}}, "InvalidParameterException", "mutually exclusive"},
		{cloudwatchlogs.StartLiveTailInput{LogGroupIdentifiers: []string{app, groupARN + "x"},
			LogStreamNamePrefixes: []string{"w"}}, "InvalidParameterException", "single log group"},
		{cloudwatchlogs.StartLiveTailInput{LogGroupIdentifiers: []string{app},
			LogEventFilterPattern: aws.String("{ $.a = }")}, "InvalidParameterException", "(character 9)"},
		{cloudwatchlogs.StartLiveTailInput{LogGroupIdentifiers: slices.Repeat([]string{app}, 11)},
			"InvalidParameterException", "less than or equal to 10"},
	} {
		s, err := w.tail(&c.in)
		if err == nil {
			s.Close()
			t.Errorf("%+v is not refused", c.in)
			continue
		}
		if f := failureOf(t, err); f.code != c.code || !strings.Contains(f.message, c.message) {
			t.Errorf("%+v: %s: %s", c.in, f.code, f.message)
		}
	}
	w.mu.Lock()
	w.Deny = func(_ wire.Caller, t wire.Target) bool { return t.Action == "logs:StartLiveTail" }
	w.mu.Unlock()
	if _, err := w.tail(&cloudwatchlogs.StartLiveTailInput{LogGroupIdentifiers: []string{app}}); err == nil {
		t.Error("a session begins without a permission")
	} else if f := failureOf(t, err); f.code != "AccessDeniedException" {
		t.Errorf("a session without a permission fails with %v", err)
	}
}

func TestLiveTailSessionsAtOnce(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.group("app", "web")
	in := &cloudwatchlogs.StartLiveTailInput{LogGroupIdentifiers: []string{groupARN + "app"}}
	var open []*session
	for range 15 {
		s, _ := w.start(in)
		open = append(open, s)
	}
	_, err := w.tail(in)
	if err == nil {
		t.Fatal("a sixteenth session begins")
	}
	if f := failureOf(t, err); f.code != "LimitExceededException" || f.status != 400 {
		t.Errorf("a sixteenth session fails with %v", err)
	}
	open[7].Close()
	eventually.Nil(t, "a session that its client has ended does not count", func() error {
		_, err := w.tail(in)
		return err
	})
}

func TestLiveTailTimesOut(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.group("app", "web")
	service := coracle.New(coracle.Options{Store: w.store, Events: w.events, Now: w.now})
	coracle.SetTailTime(service, time.Millisecond)
	mux := wire.NewMux(wire.Options{Credentials: w.Judge, Authorizer: w.Judge, Region: region})
	service.Register(mux)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	out, err := cloudwatchlogs.New(w.client.Options(), noHostPrefix, plainly,
		func(o *cloudwatchlogs.Options) { o.BaseEndpoint = &server.URL }).
		StartLiveTail(t.Context(), &cloudwatchlogs.StartLiveTailInput{LogGroupIdentifiers: []string{groupARN + "app"}})
	if err != nil {
		t.Fatal(err)
	}
	stream := out.GetStream()
	defer stream.Close()
	for range stream.Events() {
	}
	var timeout *types.SessionTimeoutException
	if err := stream.Err(); !errors.As(err, &timeout) {
		t.Errorf("a session that has lasted too long ends with %v", err)
	}
}
