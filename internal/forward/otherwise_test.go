package forward_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// What an endpoint could read as more than was authorized is not sent.
func TestRequestsThatEndpointsReadOtherwise(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, test := range map[string]struct {
		method, path, body string
		header             http.Header
		code               string // empty: it is sent
	}{
		"a payload of DELETE": {method: http.MethodDelete, path: "/bkt/k", body: `{"versionId":"1"}`,
			code: "InvalidArgument"},
		"a payload of GET": {method: http.MethodGet, path: "/bkt/k", body: "versionId=1", code: "InvalidArgument"},
		"a payload of a copy": {method: http.MethodPut, path: "/bkt/k", body: "x",
			header: http.Header{"X-Amz-Copy-Source": {"/bkt/l"}}, code: "InvalidArgument"},
		"a form": {method: http.MethodPut, path: "/bkt/k", body: "acl=&x=y",
			header: http.Header{"Content-Type": {"Application/X-WWW-Form-Urlencoded; charset=utf-8"}}, code: "NotImplemented"},
		"a header twice": {method: http.MethodPut, path: "/bkt/k", body: "x",
			header: http.Header{"If-None-Match": {"*", "*"}}, code: "InvalidArgument"},
		"a region in the name of the client": {method: http.MethodPut, path: "/bkt/agent", body: "x",
			header: http.Header{"User-Agent": {"x region/us-west-2"}}},
		"a type without a payload": {method: http.MethodHead, path: "/bkt/agent",
			header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}},
		"too many elements": {method: http.MethodPost, path: "/bkt?delete", code: "MalformedXML",
			body: "<Delete>" + strings.Repeat("<Object/>", 10_000) + "</Delete>"},
		"a tag of attributes": {method: http.MethodPost, path: "/bkt?delete", code: "MalformedXML",
			body: `<Delete><Object` + strings.Repeat(` a=""`, 100) + `><Key>k</Key></Object></Delete>`},
		"a large body": {method: http.MethodPost, path: "/bkt?delete", code: "EntityTooLarge",
			body: strings.Repeat(" ", 2<<20+1)},
	} {
		r, err := http.NewRequest(test.method, f.plain.URL+test.path, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		for name, values := range test.header {
			r.Header[name] = values
		}
		sign(t, r, f.Root, "s3", "UNSIGNED-PAYLOAD")
		f.endpoint.last()
		status, answer := do(t, r)
		header := f.endpoint.header
		switch sent := f.endpoint.last(); {
		case test.code != "" && (sent != "" || !strings.Contains(answer, "<Code>"+test.code+"</Code>")):
			t.Errorf("%s: %d %s; sent %q", name, status, answer, sent)
		case test.code == "" && sent == "":
			t.Errorf("%s: %d %s", name, status, answer)
		case test.code == "" && (header.Get("User-Agent") != "coracle" || header.Get("Content-Type") != ""):
			t.Errorf("%s: sent with %v", name, header)
		}
	}
}

// Bodies that do not come, of requests without any permission, hold no turns of the account.
func TestBodiesThatDoNotComeHoldNoTurn(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"POST /bkt?delete", "PUT /bkt/k"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			user := f.NewUser(t, "nobody", `{"Statement":[{"Effect":"Deny","Action":"*","Resource":"*"}]}`)
			method, path, _ := strings.Cut(target, " ")
			var ended atomic.Int32
			const all = 64 // the requests of an account that run at a time
			for range all {
				out, in := io.Pipe()
				t.Cleanup(func() { in.Close() })
				r, err := http.NewRequest(method, f.plain.URL+path, out)
				if err != nil {
					t.Fatal(err)
				}
				r.ContentLength = 100
				sign(t, r, user, "s3", "UNSIGNED-PAYLOAD")
				go func() {
					if answer, err := http.DefaultTransport.RoundTrip(r); err == nil {
						answer.Body.Close()
					}
					ended.Add(1)
				}()
				if _, err := in.Write([]byte("<")); err != nil { // once the request is on its way
					t.Fatal(err)
				}
			}
			for range 50 { // long enough for the others to see that they have ended, if they have
				if _, err := f.STS(f.Root).GetCallerIdentity(t.Context(), nil); err != nil || ended.Load() > 0 {
					t.Fatalf("the root user waited for %d of them: %v", ended.Load(), err)
				}
			}
		})
	}
}
