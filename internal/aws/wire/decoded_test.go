package wire_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// TestFormsOfStrangersAreShort sends forms of many parameters, each of which takes a hundred bytes for as long as the
// request waits, without a signature.
func TestFormsOfStrangersAreShort(t *testing.T) {
	t.Parallel()
	m := newMux(t, &policy{})
	for _, c := range []struct{ parameters, status int }{{50, http.StatusOK}, {200, http.StatusForbidden}} {
		body := "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn:aws:iam::111122223333:role/app&" +
			"RoleSessionName=name&WebIdentityToken=text"
		for i := range c.parameters {
			body += fmt.Sprintf("&%x", i)
		}
		for target, body := range map[string]string{"http://coracle.test/": body, "http://coracle.test/?" + body: ""} {
			r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if status, _, text := send(t, m, "", "", time.Now(), r, body); status != c.status {
				t.Errorf("%d parameters: %d %s", c.parameters, status, text)
			}
		}
	}
}

// memoryService has an operation that holds all the memory that an account may have for answers.
type memoryService struct{ heldService }

func (s memoryService) DescribeCluster(ctx context.Context, _ *eks.DescribeClusterInput) (
	*eks.DescribeClusterOutput, error) {
	if err := wire.HoldAnswer(ctx, 2<<20); err != nil {
		return nil, err
	}
	<-s.until
	return &eks.DescribeClusterOutput{}, nil
}

// TestDecodingHoldsMemory sends requests whose short texts are decoded to much, while their account has no memory left:
// they are told to come again, and those that need little go on.
func TestDecodingHoldsMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := wire.NewMux(wire.Options{
			Credentials: keys{}, Authorizer: allowing{}, Logger: slog.New(slog.DiscardHandler), MaxAnswers: 6 << 20,
		})
		service := memoryService{heldService{until: make(chan struct{})}}
		m.Register(wire.EKS, wire.Handle(service.DescribeCluster, wire.OnAll))
		m.Register(wire.EC2, wire.Handle(func(context.Context, *ec2.DescribeInstancesInput) (
			*ec2.DescribeInstancesOutput, error) {
			return &ec2.DescribeInstancesOutput{}, nil
		}, wire.OnAll))
		m.Register(wire.Logs, wire.Handle(func(context.Context, *cloudwatchlogs.PutLogEventsInput) (
			*cloudwatchlogs.PutLogEventsOutput, error) {
			return &cloudwatchlogs.PutLogEventsOutput{}, nil
		}, wire.OnAll))
		put := func(events int) string {
			body := `{"logGroupName":"a","logStreamName":"b","logEvents":[{"message":"x","timestamp":1}` +
				strings.Repeat(`,{"message":"x","timestamp":1}`, events-1) + `]}`
			r := httptest.NewRequest(http.MethodPost, "http://coracle.test/", strings.NewReader(body))
			r.Header.Set("X-Amz-Target", "Logs_20140328.PutLogEvents")
			_, _, text := send(t, m, "logs", "secret", time.Now(), r, body)
			return text
		}
		describe := func(parts int) string {
			body := "Action=DescribeInstances&Version=2016-11-15&"
			for i := range parts / 60 {
				body += fmt.Sprintf("x%d%s=&", i, strings.Repeat(".a", 60))
			}
			r := httptest.NewRequest(http.MethodPost, "http://coracle.test/", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			_, _, text := send(t, m, "ec2", "secret", time.Now(), r, body)
			return text
		}
		ended := make(chan struct{})
		go func() {
			r := httptest.NewRequest(http.MethodGet, "http://coracle.test/clusters/held", nil)
			send(t, m, "eks", "secret", time.Now(), r, "")
			close(ended)
		}()
		synctest.Wait()
		const throttled = "too many large answers"
		for name, c := range map[string]struct{ small, large string }{
			"JSON": {put(10), put(5000)}, "query": {describe(100), describe(5000)},
		} {
			if strings.Contains(c.small, throttled) || !strings.Contains(c.large, throttled) {
				t.Errorf("%s, beside a large answer:\nsmall: %.300s\nlarge: %.300s", name, c.small, c.large)
			}
		}
		close(service.until)
		<-ended
		for range 3 { // what a request holds while it is decoded is given back
			if text := put(5000); strings.Contains(text, "__type") {
				t.Errorf("afterwards: %.300s", text)
			}
		}
	})
}
