package logs

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// probe is a service with a session of Live Tail, whose next update it makes.
type probe struct {
	session *tail
	made    chan struct{}
	proceed chan struct{}
}

func (p probe) DescribeLogGroups(ctx context.Context, in *cloudwatchlogs.DescribeLogGroupsInput) (
	*cloudwatchlogs.DescribeLogGroupsOutput, error) {
	if aws.ToString(in.LogGroupNamePrefix) == "other" {
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		return &cloudwatchlogs.DescribeLogGroupsOutput{}, wire.HoldAnswer(short, tailMemory)
	}
	_, err := p.session.nextUpdate(ctx)
	p.made <- struct{}{}
	<-p.proceed
	return &cloudwatchlogs.DescribeLogGroupsOutput{}, err
}

// TestUpdatesHoldMemory makes an update of a session, which holds memory of its account until the client has it, if the
// group has events, and none otherwise.
func TestUpdatesHoldMemory(t *testing.T) {
	t.Parallel()
	s := New(Options{Store: storetest.New(t)})
	var err error
	if s.events, err = events.Open(t.TempDir(), events.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.events.Close() }) //nolint:errcheck // the test is over
	all, err := parsePattern("")
	if err != nil {
		t.Fatal(err)
	}
	p := probe{session: &tail{service: s, filter: all, wanted: func(string) bool { return true },
		groups: []*tailed{{LogGroup: record.LogGroup{ID: 7}}}}, made: make(chan struct{}), proceed: make(chan struct{})}
	judge := awstest.NewJudge()
	m := wire.NewMux(wire.Options{Credentials: judge, Authorizer: judge, MaxAnswers: 6 * tailMemory})
	m.Register(wire.Logs, wire.Handle(p.DescribeLogGroups, wire.OnAll))
	describe := func(prefix string) error {
		_, err := cloudwatchlogs.New(cloudwatchlogs.Options{Region: "eu-west-1", RetryMaxAttempts: 1,
			BaseEndpoint: aws.String("http://coracle.internal"), HTTPClient: &http.Client{Transport: m.Transport()},
			Credentials: credentials.NewStaticCredentialsProvider("AKIAROOT", "secret", ""),
		}).DescribeLogGroups(t.Context(), &cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: &prefix})
		return err
	}
	for _, some := range []bool{false, true} {
		if some {
			if _, err := s.events.Append(t.Context(), events.Batch{Group: 7,
				Events: []events.Event{{Stream: 1, Timestamp: 1, Message: "one"}}}); err != nil {
				t.Fatal(err)
			}
		}
		ended := make(chan error)
		go func() { ended <- describe("update") }()
		<-p.made
		if err := describe("other"); (err != nil) != some {
			t.Errorf("with events: %t: another request of the account that needs memory is told %v", some, err)
		}
		p.proceed <- struct{}{}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestSessionsOfAllRegionsAreBounded begins sessions in more regions than have all that they may.
func TestSessionsOfAllRegionsAreBounded(t *testing.T) {
	t.Parallel()
	var all tails
	ctx, end := context.WithCancel(t.Context())
	begin := func(account string, region int) error {
		return all.beginSession(ctx, scope{account: account, region: fmt.Sprint(region)})
	}
	for i := range maxAllTails {
		if err := begin("111122223333", i/maxTails); err != nil {
			t.Fatal(err)
		}
	}
	if begin("111122223333", maxAllTails) == nil {
		t.Error("an account has more sessions than it may have in all regions")
	}
	if err := begin("444455556666", 0); err != nil {
		t.Errorf("another account: %v", err)
	}
	end()
	eventually.True(t, "nothing is kept of sessions that have ended", func() bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		return len(all.open)+len(all.all) == 0
	})
}
