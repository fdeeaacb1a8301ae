package application

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// fields splits an entry of the access log.
func fields(entry string) []string {
	all := regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(entry, -1)
	for i := range all {
		all[i] = strings.Trim(all[i], `"`)
	}
	return all
}

func TestAccessLog(t *testing.T) {
	t.Parallel()
	target := serveTarget(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "hello")
	})
	spec := forwarding(groupOf("g", target))
	spec.Log, spec.AccessLog = "app/lb/50dc6c495c0c9188", true
	spec.Rules = append([]Rule{
		{Priority: "7", Conditions: []Condition{{Field: FieldPath, Values: []string{"/r"}}},
			Actions: []Action{{Redirect: &Redirect{Host: "b", Status: 302}}}},
		{Priority: "8", Conditions: []Condition{{Field: FieldPath, Values: []string{"/t"}}},
			Actions: []Action{forwardTo("g")}, URLRewrite: &Rewrite{Regex: "^/t", Replace: "/u"}},
	}, spec.Rules...)
	spec = secure(t, spec, "a.example")
	rig := newRig(t, spec)
	address := target.Address.String()
	for i, c := range []struct {
		url  string
		h2   bool
		want map[int]string // "^" begins an expression
	}{
		{"https://a.example/x?y=1", false, map[int]string{0: "https", 1: `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`,
			2: "app/lb/50dc6c495c0c9188", 3: `^127\.0\.0\.1:\d+$`, 4: address, 5: `^0\.\d{3}$`, 6: `^0\.\d{3}$`,
			7: `^0\.\d{3}$`, 8: "418", 9: "418", 10: `^\d+$`, 11: `^\d+$`, 12: "GET https://a.example:443/x?y=1 HTTP/1.1",
			13: `it's a \x22test\x22`, 14: "TLS_AES_128_GCM_SHA256", 15: "TLSv1.3", 16: "arn:g", 17: "^Root=1-",
			18: "a.example", 19: spec.TLS.Certificates[0].ARN, 20: "0", 21: `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`,
			22: "forward", 23: "-", 24: "-", 25: address, 26: "418", 27: "-", 28: "-", 29: "^TID_[0-9a-f]{32}$", 30: "-",
			31: "-", 32: "-"}},
		{"https://a.example/r", true, map[int]string{0: "h2", 4: "-", 5: "-1", 6: "-1", 7: "-1", 8: "302", 9: "-",
			12: "GET https://a.example:443/r HTTP/2.0", 16: "-", 20: "7", 22: "redirect", 23: "https://b:443/r"}},
		{"https://a.example/t?x", false, map[int]string{8: "418", 20: "8", 31: "/u?x", 32: "TransformSuccess"}},
	} {
		get(t, rig.client(c.h2), c.url, "User-Agent", `it's a "test"`)
		got := fields(rig.logged(i))
		if len(got) != 33 {
			t.Fatalf("the entry has %d fields: %q", len(got), got)
		}
		for n, want := range c.want {
			if strings.HasPrefix(want, "^") && regexp.MustCompile(want).MatchString(got[n]) {
				continue
			}
			if got[n] != want {
				t.Errorf("%s: field %d is %q, want %q", c.url, n, got[n], want)
			}
		}
	}
}

func TestUnreadableRequestsAreLogged(t *testing.T) {
	t.Parallel()
	spec := Listener{Attributes: DefaultAttributes(), Log: "app/lb/1", AccessLog: true,
		Rules: []Rule{defaultRule(fixed("x"))}}
	rig := newRig(t, spec)
	rig.raw("GET / HTTP/1.1\r\nbad\r\n\r\n")
	if got := fields(rig.logged(0)); len(got) != 33 || got[8] != "400" || got[20] != "-" ||
		got[12] != "- http://127.0.0.1:80- -" {
		t.Errorf("the entry is %q", got)
	}
}

// TestClientsThatGo has a client close its connection before the answer.
func TestClientsThatGo(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	spec := forwarding(groupOf("g", serveTarget(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})))
	spec.AccessLog = true
	rig := newRig(t, spec)
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://a/", nil)
		if err == nil {
			_, err = rig.client(false).Do(r) //nolint:bodyclose // there is none
		}
		gone <- err
	}()
	<-arrived
	cancel()
	if err := <-gone; err == nil {
		t.Error("the client is answered")
	}
	if got := fields(rig.logged(0)); got[8] != "460" || got[9] != "-" {
		t.Errorf("the entry is %q", got)
	}
}
