package wire_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
	"github.com/coracle-eks/coracle/internal/turn"
)

// holding is a service whose requests last until the test lets them go on.
type holding struct {
	rows    store.Table[string]
	m       *wire.Mux
	begun   chan struct{}
	proceed chan struct{}
}

func (h *holding) DescribeCluster(ctx context.Context, in *eks.DescribeClusterInput) (
	*eks.DescribeClusterOutput, error) {
	switch *in.Name {
	case "rows":
		if _, err := h.rows.List(ctx, ""); err != nil {
			return nil, err
		}
	case "read":
		_, err := h.rows.List(ctx, "")
		return &eks.DescribeClusterOutput{}, err
	case "outer": // another request in this process, as one of CloudFormation makes one of EC2
		if _, err := eks.NewFromConfig(config(h.m)).DescribeCluster(ctx,
			&eks.DescribeClusterInput{Name: aws.String("short")}); err != nil {
			return nil, err
		}
	case "short":
		return &eks.DescribeClusterOutput{}, nil
	}
	h.begun <- struct{}{}
	<-h.proceed
	return &eks.DescribeClusterOutput{}, nil
}

func newHolding(t *testing.T, maxAnswers int64) *holding {
	t.Helper()
	h := &holding{begun: make(chan struct{}), proceed: make(chan struct{})}
	h.m = wire.NewMux(wire.Options{
		Credentials: keys{}, Authorizer: allowing{}, Logger: slog.New(slog.DiscardHandler), MaxAnswers: maxAnswers,
	})
	h.m.Register(wire.EKS, wire.Handle(h.DescribeCluster, wire.OnAll))
	return h
}

// inProcess makes a request as controllers do.
func (h *holding) inProcess(ctx context.Context, name string) error {
	_, err := eks.NewFromConfig(config(h.m)).DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &name})
	return err
}

// fromUser makes a request as users do.
func (h *holding) fromUser(t *testing.T, name string) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://coracle.test/clusters/"+name, nil)
	creds := aws.Credentials{AccessKeyID: "AKIA", SecretAccessKey: "secret"}
	if err := v4.NewSigner().SignHTTP(t.Context(), creds, r, hash(""), "eks", "us-west-2", time.Now()); err != nil {
		t.Error(err)
	}
	w := httptest.NewRecorder()
	h.m.ServeHTTP(w, r)
	return w.Body.String()
}

// TestOwnRequestsAreMetered shows that what a controller has an operation read for an account holds memory, as what a
// user reads does: an account has a share of its own of it, and users do not wait for that.
func TestOwnRequestsAreMetered(t *testing.T) {
	t.Parallel()
	h := newHolding(t, 6<<20) // of which an account has 1 MiB for the daemon's own requests
	h.rows = store.NewTable[string](storetest.New(t), "rows")
	for _, key := range []string{"a", "b", "c"} {
		if _, err := h.rows.Create(t.Context(), key, strings.Repeat("x", 700<<10)); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error)
	go func() { ended <- h.inProcess(t.Context(), "rows") }()
	<-h.begun
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := h.inProcess(short, "rows"); err == nil {
		t.Error("two requests of controllers read more at a time than their account may have")
	}
	go func() {
		if answer := h.fromUser(t, "rows"); strings.Contains(answer, "Rate exceeded") {
			t.Errorf("a user waits for controllers: %s", answer)
		}
		ended <- nil
	}()
	<-h.begun
	close(h.proceed)
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	go func() { <-h.begun }()
	if err := h.inProcess(t.Context(), "rows"); err != nil {
		t.Errorf("after the first has ended: %v", err)
	}
	if err := h.inProcess(store.Bounded(t.Context(), 1000), "read"); err == nil {
		t.Error("a request of a webhook reads more than its bound")
	}
}

// TestOwnRequestsTakeTurns shows that few requests that the daemon makes for one account run at a time, however many
// stacks it has; that users have turns apart from those; and that a request which makes another has one turn for both,
// and so has a webhook, whose reads are bounded.
func TestOwnRequestsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most = 16
		h := newHolding(t, 0)
		ended := make(chan error)
		for range most + 1 {
			go func() { ended <- h.inProcess(t.Context(), "outer") }()
		}
		for range most {
			<-h.begun
		}
		synctest.Wait()
		select {
		case <-h.begun:
			t.Error("more requests of controllers run for one account than may")
		default:
		}
		if answer := h.fromUser(t, "short"); strings.Contains(answer, "Rate exceeded") {
			t.Errorf("a user waits for controllers: %s", answer)
		}
		if err := h.inProcess(store.Bounded(t.Context(), 1000), "short"); err != nil {
			t.Errorf("a webhook, which has turns of its own, waits for controllers: %v", err)
		}
		// Whoever has a place that all accounts share does not wait for these turns: a request within a bound has none,
		// and others are refused.
		held, release, err := turn.Shared(2, 1).Acquire(t.Context(), "111122223333")
		if err != nil {
			t.Fatal(err)
		}
		if err := h.inProcess(store.Bounded(held, 1000), "short"); err != nil {
			t.Errorf("who has a shared place waits for turns of an account: %v", err)
		}
		if err := h.inProcess(held, "short"); err == nil || strings.Contains(err.Error(), "Rate exceeded") {
			t.Errorf("who has a shared place is told to wait: %v", err)
		}
		release()
		h.proceed <- struct{}{}
		<-h.begun // the last one
		for range most {
			h.proceed <- struct{}{}
		}
		for range most + 1 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}
