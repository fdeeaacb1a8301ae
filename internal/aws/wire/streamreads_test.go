package wire_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// readingTail lists rows before its stream begins, and again for the second event.
type readingTail struct {
	rows    store.Table[string]
	begun   chan struct{} // it has listed them
	proceed chan struct{}
}

func (s readingTail) StartLiveTail(ctx context.Context, in *cloudwatchlogs.StartLiveTailInput) (
	*cloudwatchlogs.StartLiveTailOutput, iter.Seq2[logstypes.StartLiveTailResponseStream, error], error) {
	if _, err := s.rows.List(ctx, ""); err != nil {
		return nil, nil, err
	}
	if in.LogGroupIdentifiers[0] == "absent" {
		return nil, nil, &logstypes.ResourceNotFoundException{Message: aws.String("The log group does not exist.")}
	}
	s.begun <- struct{}{}
	<-s.proceed
	return &cloudwatchlogs.StartLiveTailOutput{}, func(yield func(logstypes.StartLiveTailResponseStream, error) bool) {
		<-s.proceed
		if !yield(session("first"), nil) {
			return
		}
		if _, err := s.rows.List(ctx, ""); err != nil {
			yield(nil, err)
			return
		}
		s.begun <- struct{}{}
		<-s.proceed
		yield(session("second"), nil)
		<-ctx.Done()
	}, nil
}

// TestWhatStreamsReadHoldsMemory shows that what an operation reads whose answer is a stream holds memory of its
// account until the stream begins, and what is read for an event until the client has it.
func TestWhatStreamsReadHoldsMemory(t *testing.T) {
	t.Parallel()
	s := readingTail{rows: store.NewTable[string](storetest.New(t), "rows")}
	for _, key := range []string{"a", "b", "c"} {
		if _, err := s.rows.Create(t.Context(), key, strings.Repeat("x", 700<<10)); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s.begun, s.proceed = make(chan struct{}), make(chan struct{})
		m := wire.NewMux(wire.Options{ // of whose memory an account has 1 MiB for requests in this process
			Credentials: keys{}, Authorizer: allowing{}, Logger: slog.New(slog.DiscardHandler), MaxAnswers: 6 << 20,
		})
		m.Register(wire.Logs, wire.HandleStream(s.StartLiveTail, wire.OnAll))
		begin := func(group string) (*cloudwatchlogs.StartLiveTailOutput, error) {
			return cloudwatchlogs.NewFromConfig(config(m)).StartLiveTail(t.Context(),
				&cloudwatchlogs.StartLiveTailInput{LogGroupIdentifiers: []string{group}})
		}
		others := func(when string, mayRead bool) {
			t.Helper()
			_, err := begin("absent")
			var absent *logstypes.ResourceNotFoundException
			if errors.As(err, &absent) != mayRead {
				t.Errorf("%s another request is told %v", when, err)
			}
		}
		streams := make(chan *cloudwatchlogs.StartLiveTailEventStream)
		go func() {
			out, err := begin("group")
			if err != nil {
				t.Error(err)
			}
			streams <- out.GetStream()
		}()
		<-s.begun
		others("before a stream begins,", false)
		s.proceed <- struct{}{}
		stream := <-streams
		others("while a stream has nothing to tell,", true)
		s.proceed <- struct{}{}
		<-stream.Events()
		<-s.begun
		others("before an event is written,", false)
		s.proceed <- struct{}{}
		<-stream.Events()
		synctest.Wait()
		others("after an event was written,", true)
		stream.Close() //nolint:errcheck // says that the connection was closed
	})
}

// largeEvents are more than the SDK has read before they are taken of it.
const largeEvents = 5

// largeTail streams large events.
type largeTail struct{}

func (largeTail) StartLiveTail(ctx context.Context, in *cloudwatchlogs.StartLiveTailInput) (
	*cloudwatchlogs.StartLiveTailOutput, iter.Seq2[logstypes.StartLiveTailResponseStream, error], error) {
	if in.LogGroupIdentifiers[0] == "absent" {
		if err := wire.HoldAnswer(ctx, 100<<10); err != nil {
			return nil, nil, err
		}
		return nil, nil, &logstypes.ResourceNotFoundException{Message: aws.String("The log group does not exist.")}
	}
	return &cloudwatchlogs.StartLiveTailOutput{}, func(yield func(logstypes.StartLiveTailResponseStream, error) bool) {
		for range largeEvents {
			if !yield(session(strings.Repeat("x", 600<<10)), nil) {
				return
			}
		}
		<-ctx.Done()
	}, nil
}

// TestEventsThatNobodyReadsHoldMemory shows that an event of a stream holds memory of its account until its client has
// read it.
func TestEventsThatNobodyReadsHoldMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := wire.NewMux(wire.Options{ // of whose memory an account has 1 MiB for requests in this process
			Credentials: keys{}, Authorizer: allowing{}, Logger: slog.New(slog.DiscardHandler), MaxAnswers: 6 << 20,
		})
		m.Register(wire.Logs, wire.HandleStream(largeTail{}.StartLiveTail, wire.OnAll))
		begin := func(group string) (*cloudwatchlogs.StartLiveTailOutput, error) {
			return cloudwatchlogs.NewFromConfig(config(m)).StartLiveTail(t.Context(),
				&cloudwatchlogs.StartLiveTailInput{LogGroupIdentifiers: []string{group}})
		}
		out, err := begin("group")
		if err != nil {
			t.Fatal(err)
		}
		stream := out.GetStream()
		synctest.Wait()
		for _, read := range []bool{false, true} {
			if read {
				for range largeEvents {
					<-stream.Events()
				}
				synctest.Wait()
			}
			_, err := begin("absent")
			var absent *logstypes.ResourceNotFoundException
			if errors.As(err, &absent) != read {
				t.Errorf("with the events read: %t, another request is told %v", read, err)
			}
		}
		stream.Close() //nolint:errcheck // says that the connection was closed
	})
}
