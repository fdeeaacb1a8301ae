package eksctl

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
)

// recorder is an endpoint that passes requests on to a daemon, and keeps them with their answers.
type recorder struct {
	*httptest.Server

	mu        sync.Mutex
	exchanges []exchange
}

func newRecorder(t *testing.T, endpoint string) *recorder {
	t.Helper()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{}
	proxy := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(target)
		p.Out.Host = p.In.Host // which is signed
		p.Out.Header.Del("Accept-Encoding")
	}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
		body, err := io.ReadAll(in.Body)
		if err != nil {
			t.Error(err)
			return
		}
		in.Body = io.NopCloser(bytes.NewReader(body))
		answer := httptest.NewRecorder()
		proxy.ServeHTTP(answer, in)
		r.keep(t, in, string(body), answer)
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()) // a client that has gone needs no answer
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *recorder) keep(t *testing.T, in *http.Request, body string, answer *httptest.ResponseRecorder) {
	// Credential=<key>/<date>/<region>/<service>/aws4_request
	scope := strings.Split(in.Header.Get("Authorization"), "/")
	if len(scope) < 4 {
		return // not signed, so not eksctl's
	}
	e := exchange{Service: scope[3], Method: in.Method, URI: in.URL.RequestURI(), Target: in.Header.Get("X-Amz-Target"),
		Type: in.Header.Get("Content-Type"), Status: answer.Code}
	if strings.HasPrefix(e.Type, "application/x-www-form-urlencoded") {
		form, err := url.ParseQuery(body)
		if err != nil {
			t.Error(err)
		}
		e.Form = form
	} else {
		e.Body = body
	}
	var err error
	if e.Answer, err = flatten(answer.Body.Bytes()); err != nil {
		t.Errorf("%s: %v", e.operation(), err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// What a client asks until it has the answer that it waits for is asked once: a replay asks until it has that.
	for i := len(r.exchanges) - 1; i >= 0 && r.exchanges[i].asks() && e.asks(); i-- {
		if last := r.exchanges[i]; last.operation()+last.encoded() == e.operation()+e.encoded() {
			r.exchanges = append(r.exchanges[:i], r.exchanges[i+1:]...)
			break
		}
	}
	r.exchanges = append(r.exchanges, e)
}

// write writes what was recorded since the last call to a file.
func (r *recorder) write(t *testing.T, path string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	text, err := json.MarshalIndent(r.exchanges, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	r.exchanges = nil
}
