package wire

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
)

// TestLongFormsAreForgotten reads a form before a request waits for its turn, and again once it has it.
func TestLongFormsAreForgotten(t *testing.T) {
	t.Parallel()
	for _, n := range []int{10, 1000} {
		body := "Action=a"
		for i := range n {
			body += fmt.Sprintf("&p%d=1", i)
		}
		r := &request{Request: &http.Request{URL: &url.URL{}}, body: []byte(body), verified: true}
		for range 2 {
			form, err := r.parameters()
			if err != nil || len(form) != n+1 {
				t.Fatalf("%d parameters of %d: %v", len(form), n+1, err)
			}
			if r.forgetForm(); (r.form == nil) != (n > maxUnverifiedParameters) {
				t.Errorf("of %d parameters %d are kept", n, len(r.form))
			}
		}
	}
}
