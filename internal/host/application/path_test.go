package application

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestNormalPaths(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/": "/", "/a/b": "/a/b", "/a/": "/a/", "/a//b": "/a//b", "/.a/..b/c.": "/.a/..b/c.",
		"/%61%2D%7e": "/a-~", "/%2f%c3%a9": "/%2F%C3%A9", "/a/./b/.": "/a/b/", "/a/../b": "/b", "/a/..": "/",
		"/../../a": "/a", "/a/b/../../c": "/c", "/a/%2e%2E/b": "/b", "/a/%2e": "/a/",
	} {
		if got := removeDotSegments(decodeUnreserved(path)); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// TestRulesJudgeWhatTargetsGet has ways to write a request so that a rule about it might not see what a target does.
func TestRulesJudgeWhatTargetsGet(t *testing.T) {
	t.Parallel()
	guarded := func(c Condition) Rule {
		return Rule{Priority: c.Field, Conditions: []Condition{c}, Actions: []Action{fixed("guarded")}}
	}
	r := newRig(t, Listener{Attributes: DefaultAttributes(), Rules: []Rule{
		guarded(Condition{Field: FieldPath, Values: []string{"/admin*"}}),
		guarded(Condition{Field: FieldHost, Values: []string{"admin.example", "xn--mnchen-3ya.example"}}),
		{Priority: "3", Conditions: []Condition{{Field: FieldPath, Regex: []string{"^/$"}}},
			Actions: []Action{fixed("root")}},
		defaultRule(forwardTo("g")),
	}, Groups: []TargetGroup{groupOf("g", serveTarget(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "target ", r.RequestURI)
	}))}})
	for line, want := range map[string]string{
		"GET /admin/x": "200 guarded", "GET http://a/admin": "200 guarded", "GET x:http://a/admin/x": "400 ",
		"GET x:admin/x": "400 ", "GET /a/../admin/x": "200 guarded", "GET /%61dmin/x": "200 guarded",
		"GET /a/%2e%2e/admin": "200 guarded", "GET /./admin": "200 guarded", "GET http://admin.example./x": "200 guarded",
		"GET http://a": "200 root", "GET http://a?b": "200 root", "GET *": "400 ", "OPTIONS *": "200 ",
		"GET http://xn--mnchen-3ya.example/x": "200 guarded", "GET http://münchen.example/x": "400 ",
		"GET http://m%C3%BCnchen.example/x": "400 ", "GET http://a_b-c.example:8080/x": "200 target",
		"GET http://a:b:c/x":    "400 ",
		"GET http://[::1]:80/x": "200 target", "GET http://[::1%25eth0]/x": "400 ", "GET http://a..b/x": "400 ",
		"GET http://" + strings.Repeat("a", 256) + "/x": "400 ", "GET http://a;b/x": "400 ",
		"GET /a/../b?c": "200 target /b?c", "GET /b%2fc%7e": "200 target /b%2fc%7e", "GET //b": "200 target //b",
	} {
		head, text, _ := strings.Cut(r.raw(line+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), "\r\n\r\n")
		if !strings.HasPrefix(strings.TrimPrefix(head, "HTTP/1.1 "), want[:4]) || want[4:] != "" && !strings.Contains(text,
			want[4:]) {
			t.Errorf("%s: %q %q, want %s", line, head, text, want)
		}
	}
}

// TestOnlyWebSocketsAreUpgraded has a target that switches to whatever it is asked for. No rule would see what a client
// sends it then.
func TestOnlyWebSocketsAreUpgraded(t *testing.T) {
	t.Parallel()
	r := newRig(t, forwarding(groupOf("g", serveTarget(t, func(w http.ResponseWriter, r *http.Request) {
		upgrade := r.Header.Get("Upgrade")
		if upgrade == "" {
			fmt.Fprint(w, "not asked")
			return
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+upgrade+"\r\n\r\n")
	}))))
	for request, want := range map[string]string{
		"GET / HTTP/1.1\r\nUpgrade: websocket": "101", "GET / HTTP/1.1\r\nUpgrade: WebSocket": "101",
		"GET / HTTP/1.1\r\nUpgrade: h2c": "200", "GET / HTTP/1.1\r\nUpgrade: websocket, h2c": "200",
		"GET / HTTP/1.1\r\nUpgrade: h2c\r\nUpgrade: websocket": "200",
		"POST / HTTP/1.1\r\nUpgrade: websocket":                "200",
	} {
		got := r.raw(request + "\r\nHost: a\r\nConnection: Upgrade, close\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 "+want) {
			t.Errorf("%q: %q, want %s", request, got, want)
		}
	}
}
