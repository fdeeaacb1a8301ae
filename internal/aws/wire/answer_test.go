package wire_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// slowReader is a client that reads nothing of its answer until it is told to.
type slowReader struct {
	*httptest.ResponseRecorder
	read chan struct{}
}

func (s slowReader) Write(b []byte) (int, error) {
	<-s.read
	return s.ResponseRecorder.Write(b)
}

// TestLargeAnswersShareTheirMemory shows that a large answer holds memory until it is read, that others of the account
// wait meanwhile and are told to come again, and that those who need little do not wait.
func TestLargeAnswersShareTheirMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := wire.NewMux(wire.Options{
			Credentials: keys{}, Authorizer: &policy{}, Logger: slog.New(slog.DiscardHandler), MaxAnswers: 300,
		})
		m.Register(wire.EKS, eksService{}.handlers()...)
		describe := func(w http.ResponseWriter, cluster string) {
			r := httptest.NewRequest(http.MethodGet, "http://coracle.test/clusters/"+cluster, nil)
			creds := aws.Credentials{AccessKeyID: "AKIA", SecretAccessKey: "secret"}
			if err := v4.NewSigner().SignHTTP(t.Context(), creds, r, hash(""), "eks", "us-west-2",
				time.Now()); err != nil {
				t.Error(err)
			}
			m.ServeHTTP(w, r)
		}
		slow := slowReader{httptest.NewRecorder(), make(chan struct{})}
		ended := make(chan struct{})
		go func() {
			describe(slow, "large")
			close(ended)
		}()
		synctest.Wait()
		second := httptest.NewRecorder()
		describe(second, "large")
		if text := second.Body.String(); second.Code != http.StatusBadRequest ||
			second.Header().Get("X-Amzn-Errortype") != "ThrottlingException" || !strings.Contains(text, "large answers") {
			t.Errorf("beside a large answer there is room for another: %d %s", second.Code, text)
		}
		small := httptest.NewRecorder()
		if describe(small, "other"); small.Code != http.StatusOK {
			t.Errorf("a small answer: %d %s", small.Code, small.Body)
		}
		close(slow.read)
		<-ended
		for range 2 {
			after := httptest.NewRecorder()
			if describe(after, "large"); after.Code != http.StatusOK {
				t.Errorf("after the large answer was read: %d %s", after.Code, after.Body)
			}
		}
	})
}

// wideService has answers that are larger than the requests.
type wideService struct{ eksService }

func (wideService) DescribeCluster(
	_ context.Context,
	in *eks.DescribeClusterInput,
) (*eks.DescribeClusterOutput, error) {
	return &eks.DescribeClusterOutput{Cluster: &ekstypes.Cluster{Name: in.Name,
		Version: aws.String(strings.Repeat("x", 100<<10))}}, nil
}

// TestAnswersThatNobodyReadsHoldMemory shows that the answer of any operation that reads counts against the memory of
// its account until it is read, wherever its content comes from.
func TestAnswersThatNobodyReadsHoldMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := wire.NewMux(wire.Options{
			Credentials: keys{}, Authorizer: allowing{}, Logger: slog.New(slog.DiscardHandler), MaxAnswers: 450 << 10,
		})
		m.Register(wire.EKS, wire.Handle(wideService{}.DescribeCluster, wire.OnAll))
		describe := func(w http.ResponseWriter) {
			r := httptest.NewRequest(http.MethodGet, "http://coracle.test/clusters/wide", nil)
			creds := aws.Credentials{AccessKeyID: "AKIA", SecretAccessKey: "secret"}
			if err := v4.NewSigner().SignHTTP(t.Context(), creds, r, hash(""), "eks", "us-west-2",
				time.Now()); err != nil {
				t.Error(err)
			}
			m.ServeHTTP(w, r)
		}
		slow := slowReader{httptest.NewRecorder(), make(chan struct{})}
		ended := make(chan struct{})
		go func() {
			describe(slow)
			close(ended)
		}()
		synctest.Wait()
		second := httptest.NewRecorder()
		if describe(second); second.Header().Get("X-Amzn-Errortype") != "ThrottlingException" {
			t.Errorf("beside an answer that nobody reads there is room for another: %d", second.Code)
		}
		close(slow.read)
		<-ended
		after := httptest.NewRecorder()
		if describe(after); after.Code != http.StatusOK || after.Body.Len() < 100<<10 {
			t.Errorf("after it was read: %d, %d bytes", after.Code, after.Body.Len())
		}
	})
}

// heldService answers nothing until it is told to.
type heldService struct {
	eksService
	until chan struct{}
}

func (s heldService) DescribeCluster(ctx context.Context, in *eks.DescribeClusterInput) (
	*eks.DescribeClusterOutput, error) {
	if *in.Name == "held" {
		<-s.until
	}
	return s.eksService.DescribeCluster(ctx, in)
}

// twoAccounts knows the key AKIA, and AKIB of another account.
type twoAccounts struct{ keys }

func (k twoAccounts) Lookup(ctx context.Context, id, token string) (string, wire.Caller, error) {
	secret, caller, err := k.keys.Lookup(ctx, "AKIA", token)
	if id == "AKIB" {
		caller.Account = "222222222222"
	}
	return secret, caller, err
}

// allowing allows everything.
type allowing struct{}

func (allowing) Authorize(context.Context, wire.Caller, []wire.Target) error { return nil }

// TestRequestsOfAnAccountAreBounded shows that an account has a bounded number of requests carried out at a time, that
// the next one waits and is told to come again, and that other accounts do not wait.
func TestRequestsOfAnAccountAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := wire.NewMux(wire.Options{
			Credentials: twoAccounts{}, Authorizer: allowing{}, Logger: slog.New(slog.DiscardHandler),
		})
		service := heldService{until: make(chan struct{})}
		m.Register(wire.EKS, wire.Handle(service.DescribeCluster, wire.OnAll))
		describe := func(key, cluster string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, "http://coracle.test/clusters/"+cluster, nil)
			creds := aws.Credentials{AccessKeyID: key, SecretAccessKey: "secret"}
			if err := v4.NewSigner().SignHTTP(t.Context(), creds, r, hash(""), "eks", "us-west-2",
				time.Now()); err != nil {
				t.Error(err)
			}
			m.ServeHTTP(w, r)
			return w
		}
		var running sync.WaitGroup
		for range 64 {
			running.Go(func() {
				if w := describe("AKIA", "held"); w.Code != http.StatusOK {
					t.Errorf("one of 64: %d %s", w.Code, w.Body)
				}
			})
		}
		synctest.Wait()
		if w := describe("AKIA", "next"); w.Code != http.StatusBadRequest ||
			w.Header().Get("X-Amzn-Errortype") != "ThrottlingException" {
			t.Errorf("the 65th: %d %s", w.Code, w.Body)
		}
		var waiting sync.WaitGroup
		for range 512 {
			waiting.Go(func() { describe("AKIA", "waits") })
		}
		synctest.Wait()
		began := time.Now()
		if w := describe("AKIA", "beyond"); w.Code != http.StatusBadRequest || time.Since(began) > 0 {
			t.Errorf("beyond those that wait: %d after %s", w.Code, time.Since(began))
		}
		if w := describe("AKIB", "other"); w.Code != http.StatusOK {
			t.Errorf("of another account: %d %s", w.Code, w.Body)
		}
		close(service.until)
		running.Wait()
		waiting.Wait()
		if w := describe("AKIA", "next"); w.Code != http.StatusOK {
			t.Errorf("after the others: %d %s", w.Code, w.Body)
		}
	})
}
