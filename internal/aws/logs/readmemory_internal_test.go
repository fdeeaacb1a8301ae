package logs

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// TestReadsOfEventsHoldMemory reads events while the account has no memory left: every operation that does is refused.
func TestReadsOfEventsHoldMemory(t *testing.T) {
	t.Parallel()
	const all = 1 << 20 // that the account has
	s := New(Options{Store: storetest.New(t)})
	var err error
	if s.events, err = events.Open(t.TempDir(), events.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.events.Close() }) //nolint:errcheck // the test is over
	name := aws.String("a")
	reads := map[string]func(context.Context) error{
		"GetLogEvents": func(ctx context.Context) error {
			_, err := s.GetLogEvents(ctx, &cloudwatchlogs.GetLogEventsInput{LogGroupName: name, LogStreamName: name})
			return err
		},
		"FilterLogEvents": func(ctx context.Context) error {
			_, err := s.FilterLogEvents(ctx, &cloudwatchlogs.FilterLogEventsInput{LogGroupName: name})
			return err
		},
		"GetLogGroupFields": func(ctx context.Context) error {
			_, err := s.GetLogGroupFields(ctx, &cloudwatchlogs.GetLogGroupFieldsInput{LogGroupName: name})
			return err
		},
		"StartQuery": func(ctx context.Context) error { // what its text is compiled to
			_, err := s.StartQuery(ctx, &cloudwatchlogs.StartQueryInput{LogGroupName: name, StartTime: aws.Int64(1),
				EndTime: aws.Int64(2), QueryString: aws.String("fields " + strings.Repeat("a,", 4000) + "a")})
			return err
		},
	}
	judge := awstest.NewJudge()
	m := wire.NewMux(wire.Options{Credentials: judge, Authorizer: judge, MaxAnswers: 6 * all,
		Logger: slog.New(slog.DiscardHandler)})
	held, proceed := make(chan struct{}), make(chan struct{})
	m.Register(wire.Logs,
		wire.Handle(s.CreateLogGroup, wire.OnAll),
		wire.Handle(s.CreateLogStream, wire.OnAll),
		wire.Handle(s.PutLogEvents, wire.OnAll),
		wire.Handle(func(ctx context.Context, _ *cloudwatchlogs.DescribeLogGroupsInput) (
			*cloudwatchlogs.DescribeLogGroupsOutput, error) {
			err := wire.HoldAnswer(ctx, all)
			held <- struct{}{}
			<-proceed
			return &cloudwatchlogs.DescribeLogGroupsOutput{}, err
		}, wire.OnAll),
		wire.Handle(func(ctx context.Context, in *cloudwatchlogs.DescribeQueriesInput) (
			*cloudwatchlogs.DescribeQueriesOutput, error) {
			for operation, read := range reads {
				short, cancel := context.WithTimeout(ctx, time.Minute)
				if in.LogGroupName == nil {
					short, cancel = context.WithTimeout(ctx, 10*time.Millisecond)
				}
				err := read(short)
				if refused := err != nil && strings.Contains(err.Error(), "too many large answers"); refused !=
					(in.LogGroupName == nil) || !refused && err != nil {
					t.Errorf("%s without memory, %t: %v", operation, in.LogGroupName == nil, err)
				}
				cancel()
			}
			return &cloudwatchlogs.DescribeQueriesOutput{}, nil
		}, wire.OnAll))
	client := cloudwatchlogs.New(cloudwatchlogs.Options{Region: awstest.Region, RetryMaxAttempts: 1,
		BaseEndpoint: aws.String("http://coracle.internal"), HTTPClient: &http.Client{Transport: m.Transport()},
		Credentials: credentials.NewStaticCredentialsProvider("AKIAROOT", "secret", "")})
	ctx := t.Context()
	if _, err := client.CreateLogGroup(ctx, &cloudwatchlogs.CreateLogGroupInput{LogGroupName: name}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateLogStream(ctx, &cloudwatchlogs.CreateLogStreamInput{LogGroupName: name,
		LogStreamName: name}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.PutLogEvents(ctx, &cloudwatchlogs.PutLogEventsInput{LogGroupName: name, LogStreamName: name,
		LogEvents: []types.InputLogEvent{{Message: name, Timestamp: aws.Int64(s.now().UnixMilli())}}}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := client.DescribeLogGroups(ctx, nil)
		ended <- err
	}()
	<-held
	if _, err := client.DescribeQueries(ctx, nil); err != nil {
		t.Error(err)
	}
	close(proceed)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := client.DescribeQueries(ctx, &cloudwatchlogs.DescribeQueriesInput{LogGroupName: name}); err != nil {
		t.Error(err)
	}
}
