package wire_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/eventually"
)

// tail serves StartLiveTail with the events of a test.
type tail struct {
	events func(ctx context.Context) iter.Seq2[logstypes.StartLiveTailResponseStream, error]
}

func (s tail) StartLiveTail(ctx context.Context, in *cloudwatchlogs.StartLiveTailInput) (
	*cloudwatchlogs.StartLiveTailOutput, iter.Seq2[logstypes.StartLiveTailResponseStream, error], error) {
	if in.LogGroupIdentifiers[0] == "absent" {
		return nil, nil, &logstypes.ResourceNotFoundException{
			Message: aws.String("The specified log group does not exist.")}
	}
	return &cloudwatchlogs.StartLiveTailOutput{}, s.events(ctx), nil
}

func session(id string) logstypes.StartLiveTailResponseStream {
	return &logstypes.StartLiveTailResponseStreamMemberSessionStart{Value: logstypes.LiveTailSessionStart{
		SessionId: &id}}
}

func idOf(e logstypes.StartLiveTailResponseStream) string {
	if start, ok := e.(*logstypes.StartLiveTailResponseStreamMemberSessionStart); ok {
		return *start.Value.SessionId
	}
	return ""
}

func streamMux(events func(ctx context.Context) iter.Seq2[logstypes.StartLiveTailResponseStream, error]) *wire.Mux {
	m := wire.NewMux(wire.Options{Credentials: keys{}, Authorizer: &policy{}, Logger: slog.New(slog.DiscardHandler)})
	m.Register(wire.Logs, wire.HandleStream(tail{events}.StartLiveTail, wire.OnAll))
	return m
}

// clients are one over a network, with a server whose limits are short, and one in the process.
func clients(t *testing.T, m *wire.Mux, timeout time.Duration) map[string]*cloudwatchlogs.Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := wire.Server("", m)
	s.ReadTimeout, s.WriteTimeout, s.IdleTimeout = timeout, timeout, timeout
	var serving sync.WaitGroup
	serving.Go(func() { s.Serve(l) }) //nolint:errcheck // closed below
	network := config(m)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}}
	network.HTTPClient = &http.Client{Transport: plainBody{transport}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		s.Close()
		serving.Wait()
	})
	return map[string]*cloudwatchlogs.Client{
		"network":    cloudwatchlogs.NewFromConfig(network),
		"in process": cloudwatchlogs.NewFromConfig(config(m)),
	}
}

// plainBody hides from net/http that the SDK's request bodies have a WriteTo, for a machine that is too slow for the
// head start which wire gives (see headStart).
type plainBody struct{ http.RoundTripper }

func (t plainBody) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Body = struct{ io.ReadCloser }{r.Body}
	return t.RoundTripper.RoundTrip(r)
}

func start(t *testing.T, client *cloudwatchlogs.Client) *cloudwatchlogs.StartLiveTailEventStream {
	t.Helper()
	out, err := client.StartLiveTail(t.Context(),
		&cloudwatchlogs.StartLiveTailInput{LogGroupIdentifiers: []string{"group"}})
	if err != nil {
		t.Fatal(err)
	}
	return out.GetStream()
}

// Each event is read before the next is made, and the server's limits for a request are none for a stream.
func TestEventsLeaveAtOnceAndTheStreamOutlivesTheServersLimits(t *testing.T) {
	t.Parallel()
	eventually.WithLimit(t, func(limit time.Duration) error { return streamPast(t, limit) })
}

// streamPast streams events for longer than the limits of the servers.
func streamPast(t *testing.T, limit time.Duration) error {
	next := make(chan string)
	m := streamMux(func(ctx context.Context) iter.Seq2[logstypes.StartLiveTailResponseStream, error] {
		return func(yield func(logstypes.StartLiveTailResponseStream, error) bool) {
			for {
				select {
				case <-ctx.Done():
					return
				case id := <-next:
					if !yield(session(id), nil) || id == "last" {
						return
					}
				}
			}
		}
	})
	for name, client := range clients(t, m, limit) {
		out, err := client.StartLiveTail(t.Context(),
			&cloudwatchlogs.StartLiveTailInput{LogGroupIdentifiers: []string{"group"}})
		if err != nil {
			return err
		}
		stream := out.GetStream()
		for _, id := range []string{"first", "last"} {
			<-time.After(2 * limit) // what is tested is time that passes
			select {
			case next <- id:
			case <-stream.Events():
				return fmt.Errorf("%s: the stream ends before %s: %w", name, id, stream.Err())
			}
			if e, ok := <-stream.Events(); !ok || idOf(e) != id {
				return fmt.Errorf("%s: got %v for %s: %w", name, e, id, stream.Err())
			}
		}
		if e, ok := <-stream.Events(); ok {
			return fmt.Errorf("%s: there is an event behind the last: %v", name, e)
		}
		if err := stream.Close(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func TestStreamEndsWithItsClientAndWithTheServer(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	m := streamMux(func(ctx context.Context) iter.Seq2[logstypes.StartLiveTailResponseStream, error] {
		return func(yield func(logstypes.StartLiveTailResponseStream, error) bool) {
			if yield(session("x"), nil) {
				<-ctx.Done()
			}
			ended <- ctx.Err()
			yield(nil, ctx.Err())
		}
	})
	// A client of the SDK has one buffer for all of its streams: each needs a client of its own.
	for name, client := range clients(t, m, eventually.Limit) {
		stream := start(t, client)
		<-stream.Events()
		stream.Close() //nolint:errcheck // says that the connection was closed
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: the context of a stream whose client has gone says %v", name, err)
		}
	}
	for name, client := range clients(t, m, eventually.Limit) {
		stream := start(t, client)
		<-stream.Events()
		m.EndStreams()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: the context of a stream that ends with the server says %v", name, err)
		}
		if e, ok := <-stream.Events(); ok {
			t.Errorf("%s: there is an event behind the end: %v", name, e)
		}
		if err := stream.Close(); err != nil {
			t.Errorf("%s: a stream that ends with the server is in error: %v", name, err)
		}
	}
}

func TestStreamFailures(t *testing.T) {
	t.Parallel()
	m := streamMux(func(context.Context) iter.Seq2[logstypes.StartLiveTailResponseStream, error] {
		return func(yield func(logstypes.StartLiveTailResponseStream, error) bool) {
			yield(session("x"), nil)
			panic("nil map")
		}
	})
	for name, client := range clients(t, m, eventually.Limit) {
		stream := start(t, client)
		<-stream.Events()
		if _, ok := <-stream.Events(); ok {
			t.Errorf("%s: there is an event behind a panic", name)
		}
		var api smithy.APIError
		if err := stream.Err(); !errors.As(err, &api) || api.ErrorCode() != "InternalFailure" {
			t.Errorf("%s: a panic in the stream arrives as %v", name, err)
		}
		stream.Close() //nolint:errcheck // the same error

		_, err := client.StartLiveTail(t.Context(),
			&cloudwatchlogs.StartLiveTailInput{LogGroupIdentifiers: []string{"absent"}})
		var absent *logstypes.ResourceNotFoundException
		if !errors.As(err, &absent) {
			t.Errorf("%s: an error before the stream arrives as %v", name, err)
		}
	}
}

// A client that goes away before it has read anything still lets the iterator run, which may have something to clean
// up.
func TestIteratorAlwaysRuns(t *testing.T) {
	t.Parallel()
	ran := make(chan bool, 1)
	m := streamMux(func(ctx context.Context) iter.Seq2[logstypes.StartLiveTailResponseStream, error] {
		return func(yield func(logstypes.StartLiveTailResponseStream, error) bool) {
			<-ctx.Done()
			ran <- yield(session("x"), nil)
		}
	})
	stream := start(t, clients(t, m, eventually.Limit)["in process"])
	stream.Close() //nolint:errcheck // says that the connection was closed
	if <-ran {
		t.Error("yield asks for more than the client reads")
	}
}

type wrongStream struct{}

func (wrongStream) StartLiveTail(context.Context, *cloudwatchlogs.StartLiveTailInput) (
	*cloudwatchlogs.StartLiveTailOutput, error) {
	return nil, io.EOF
}

func TestRegisterWantsTheIteratorOfTheOperation(t *testing.T) {
	t.Parallel()
	defer func() {
		if p, _ := recover().(string); !strings.Contains(p, "iter.Seq2[types.StartLiveTailResponseStream, error]") {
			t.Errorf("the panic says %q", p)
		}
	}()
	wire.NewMux(wire.Options{Credentials: keys{}, Authorizer: &policy{}}).Register(wire.Logs,
		wire.Handle(wrongStream{}.StartLiveTail, wire.OnAll))
}
