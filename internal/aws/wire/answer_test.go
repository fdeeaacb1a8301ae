package wire_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

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
