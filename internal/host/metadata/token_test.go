//go:build linux

package metadata

import (
	"net/http"
	"strings"
	"testing"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/record"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	const ttl, name, id = "X-aws-ec2-metadata-token-ttl-seconds", "X-aws-ec2-metadata-token",
		"/latest/meta-data/instance-id"
	token := w.do(http.MethodPut, tokenPath, ttl, "60")
	if token.status != 200 || len(token.body) != 56 || token.header.Get(ttl) != "60" {
		t.Fatalf("token: %+v", token)
	}
	if r := w.do(http.MethodGet, id, name, token.body); r.status != 200 || r.body != machineID ||
		r.header.Get(ttl) != "60" {
		t.Errorf("with a token: %+v", r)
	}
	for what, c := range map[string]struct {
		method, path string
		header       []string
		want         int
	}{
		"no lifetime":             {http.MethodPut, tokenPath, nil, 400},
		"a lifetime of nothing":   {http.MethodPut, tokenPath, []string{ttl, "0"}, 400},
		"too long":                {http.MethodPut, tokenPath, []string{ttl, "21601"}, 400},
		"no number":               {http.MethodPut, tokenPath, []string{ttl, "an hour"}, 400},
		"through a proxy":         {http.MethodPut, tokenPath, []string{ttl, "60", "X-Forwarded-For", "10.1.1.1"}, 403},
		"another PUT":             {http.MethodPut, id, []string{ttl, "60"}, 405},
		"a POST":                  {http.MethodPost, id, nil, 405},
		"a made-up token":         {http.MethodGet, id, []string{name, "AQAAAAAA"}, 401},
		"an altered token":        {http.MethodGet, id, []string{name, "B" + token.body[1:]}, 401},
		"version 1":               {http.MethodGet, id, nil, 200},
		"version 1, to no avail":  {http.MethodGet, "/latest/meta-data/x", nil, 404},
		"the token is not a path": {http.MethodGet, tokenPath, nil, 404},
	} {
		if r := w.do(c.method, c.path, c.header...); r.status != c.want {
			t.Errorf("%s: %d, want %d", what, r.status, c.want)
		}
	}

	// Another daemon honors it, until it expires; no other instance may use it.
	again := w.service()
	if left, err := again.secret.verifyToken(token.body, machineID, w.clock.Now().Unix()+50); err != nil || left != 10 {
		t.Errorf("after a restart: %d, %v", left, err)
	}
	if _, err := again.secret.verifyToken(token.body, "i-another", w.clock.Now().Unix()); err == nil {
		t.Error("another instance may use the token")
	}
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	if r := w.do(http.MethodGet, id, name, token.body); r.status != 401 || !strings.Contains(r.body,
		"401 - Unauthorized") {
		t.Errorf("with an expired token: %+v", r)
	}

	w.change(func(i *record.Instance) { i.Metadata.HTTPTokens = ec2types.HttpTokensStateRequired })
	if r := w.do(http.MethodGet, id); r.status != 401 {
		t.Errorf("version 1 where tokens are required: %d", r.status)
	}
	token = w.do(http.MethodPut, tokenPath, ttl, "21600")
	if r := w.do(http.MethodGet, id, name, token.body); r.status != 200 {
		t.Errorf("version 2 where tokens are required: %d", r.status)
	}
	w.change(func(i *record.Instance) { i.Metadata.HTTPEndpoint = ec2types.InstanceMetadataEndpointStateDisabled })
	for _, r := range []reply{w.do(http.MethodPut, tokenPath, ttl, "60"), w.do(http.MethodGet, id, name, token.body)} {
		if r.status != 403 {
			t.Errorf("where the endpoint is disabled: %d", r.status)
		}
	}
}

func TestTheHopLimitKeepsTokensFromPods(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	pod := w.client("pod", "")
	header := []string{"X-aws-ec2-metadata-token-ttl-seconds", "60"}
	// Who is known by an address of the instance may read with version 1, which has no limit.
	if r, err := w.ask(pod, http.MethodGet, "/latest/meta-data/instance-id"); err != nil || r.body != machineID {
		t.Fatalf("version 1 from a pod: %+v, %v", r, err)
	}
	impatient := w.client("pod", "")
	impatient.Timeout = time.Second // what does not come at once never does
	if r, err := w.ask(impatient, http.MethodPut, tokenPath, header...); err == nil {
		t.Errorf("a token has crossed two hops: %+v", r)
	}
	// A request behind it on the connection must not lift the limit: what is not acknowledged is sent again.
	if got := w.pipelined("pod", "PUT "+tokenPath+
		" HTTP/1.1\r\nHost: x\r\nX-aws-ec2-metadata-token-ttl-seconds: 60\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"); got != "" {
		t.Errorf("with another request behind its own, a token has crossed two hops: %q", got)
	}
	if r := w.do(http.MethodPut, tokenPath, header...); r.status != 200 {
		t.Errorf("a token for the machine itself: %d", r.status)
	}
	w.change(func(i *record.Instance) { i.Metadata.HTTPPutResponseHopLimit = 2 })
	if r, err := w.ask(pod, http.MethodPut, tokenPath, header...); err != nil || r.status != 200 {
		t.Errorf("with a limit of two hops: %+v, %v", r, err)
	}
}
