package addon

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.Copy(w, io.LimitReader(endless{}, 2*maxAnswer)) // the client hangs up
	}))
	defer server.Close()
	r := &requester{host: server.URL, http: server.Client()}
	if _, _, err := r.send(t.Context(), http.MethodGet, "/apis/example.com/v1/things/x", nil, "", nil); err == nil || !strings.Contains(err.Error(), "larger than 32 MiB") {
		t.Errorf("an answer without end: %v", err)
	}
}
