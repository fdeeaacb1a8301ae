package image

import (
	"net/http"
	"testing"
	"time"
)

// The storage writes what an upload has come to after it has answered: the next request must not overtake that.
func TestAnswersWithoutABodyComeWhenTheHandlerHasEnded(t *testing.T) {
	t.Parallel()
	ended := false
	transport := within{handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/next")
		w.WriteHeader(http.StatusAccepted)
		time.Sleep(10 * time.Millisecond) // time for the client to go on
		ended = true
	})}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, "http://registry.invalid/", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if !ended || response.StatusCode != http.StatusAccepted || response.Header.Get("Location") != "/next" {
		t.Errorf("the handler has ended: %v; the answer is %d with %v", ended, response.StatusCode, response.Header)
	}
}
