package image

import (
	"net/http"
	"testing"
	"testing/synctest"
)

// The storage writes what an upload has come to after it has answered: the next request must not overtake that.
func TestAnswersWithoutABodyComeWhenTheHandlerHasEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		transport := within{handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/next")
			w.WriteHeader(http.StatusAccepted)
			<-end
		})}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, "http://registry.invalid/", nil)
		if err != nil {
			t.Fatal(err)
		}
		answered := make(chan *http.Response, 1)
		go func() {
			response, err := transport.RoundTrip(request)
			if err != nil {
				t.Error(err)
			}
			answered <- response
		}()
		synctest.Wait() // until nothing goes on but what waits for the handler
		if len(answered) != 0 {
			t.Error("the answer has come before the handler has ended")
		}
		close(end)
		response := <-answered
		defer response.Body.Close()
		if response.StatusCode != http.StatusAccepted || response.Header.Get("Location") != "/next" {
			t.Errorf("the answer is %d with %v", response.StatusCode, response.Header)
		}
	})
}
