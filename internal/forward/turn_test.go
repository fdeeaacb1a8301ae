package forward_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// A transfer holds no turn of the account, whose other requests go on.
func TestTransfersHoldNoTurn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	began, finish := make(chan struct{}), make(chan struct{})
	held := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		<-finish
		io.Copy(io.Discard, r.Body) //nolint:errcheck // the client is a test
	}))
	defer held.Close()
	f.endpoint.Config.Handler = held.Config.Handler
	client := f.s3(f.Root, f.plain)
	const transfers = 70 // more than the requests of one account that are carried out at a time
	var all sync.WaitGroup
	for i := range transfers {
		all.Go(func() {
			if _, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("bkt"),
				Key: aws.String(fmt.Sprint(i)), Body: bytes.NewReader(nil)}); err != nil {
				t.Error(err)
			}
		})
	}
	for range transfers {
		<-began
	}
	if _, err := f.STS(f.Root).GetCallerIdentity(t.Context(), nil); err != nil {
		t.Error(err)
	}
	close(finish)
	all.Wait()
}

// Questions to the endpoint, which anybody's request may ask, hold no turn of the account either.
func TestQuestionsHoldNoTurn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const questions = 70
	began, finish := make(chan struct{}, 2*questions), make(chan struct{})
	serve := f.endpoint.Config.Handler
	f.endpoint.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		<-finish
		serve.ServeHTTP(w, r)
	})
	var all sync.WaitGroup
	for range questions {
		all.Go(func() {
			status, body := f.post(t, f.Root, "secretsmanager", "secretsmanager.GetSecretValue", `{"SecretId":"mine"}`)
			if status != http.StatusOK {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	for range questions {
		<-began
	}
	if _, err := f.STS(f.Root).GetCallerIdentity(t.Context(), nil); err != nil {
		t.Error(err)
	}
	close(finish)
	all.Wait()
}
