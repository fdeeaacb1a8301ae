package console

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/kube/clusterproxy"
	"github.com/coracle-eks/coracle/internal/originguard"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// owners are the accounts of tokens.
var owners = map[string]string{"k8s-aws-v1.mine": account, "k8s-aws-v1.theirs": "444455556666"}

// serveCluster serves a console with the clusters "web", of a real account, and "private", whose endpoint has no public
// access. Both have an API server that answers by a function.
func serveCluster(t *testing.T, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	upstream := httptest.NewTLSServer(answer)
	t.Cleanup(upstream.Close)
	s := storetest.New(t)
	for i, name := range []string{"web", "private"} {
		id := strings.Repeat(fmt.Sprint(i), 32)
		cluster := record.Cluster{Account: account, Region: "eu-west-1", Name: name, ID: id,
			EndpointPublicAccess: name == "web"}
		create(t, record.Clusters(s), cluster.Key(), cluster)
		create(t, record.Issuers(s), store.Key(id), record.Issuer{Account: account, Region: "eu-west-1", Cluster: name})
		create(t, record.ControlPlanes(s), cluster.Key(), record.ControlPlane{ClusterID: id, Ready: true,
			Endpoint: upstream.URL, CertificateAuthority: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
				Bytes: upstream.Certificate().Raw})})
	}
	log := slog.New(slog.DiscardHandler)
	front := httptest.NewServer(newConsole(func(o *Options) {
		o.Clusters, o.APIServers, o.Log = record.Clusters(s), clusterproxy.New(s, log), log
		o.Account = func(_ context.Context, token, cluster string) (string, bool, error) {
			switch owner, ok := owners[token]; {
			case token == "k8s-aws-v1.later":
				return "", false, errors.New("STS does not answer")
			case !ok:
				return "", true, errors.New("input token was not properly formatted")
			default:
				return owner, false, nil
			}
		}
	}))
	t.Cleanup(front.Close)
	return front
}

func create[T any](t *testing.T, table store.Table[T], key string, value T) {
	t.Helper()
	if _, err := table.Create(t.Context(), key, value); err != nil {
		t.Fatal(err)
	}
}

func TestKubernetesRequests(t *testing.T) {
	t.Parallel()
	front := serveCluster(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src *")
		fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.RequestURI(), r.Header.Get("Authorization"))
	})
	own := strings.TrimPrefix(front.URL, "http://")
	for _, test := range []struct {
		name, path string
		headers    []string
		status     int
		body       string
	}{
		{name: "a token of the owner", path: "eu-west-1/web/api/v1/namespaces/a%2Fb/pods?watch=1&x=%3B",
			headers: []string{"Authorization: Bearer k8s-aws-v1.mine", "Origin: http://" + own,
				"Sec-Fetch-Site: same-origin"}, status: http.StatusOK,
			body: "GET /api/v1/namespaces/a%2Fb/pods?watch=1&x=%3B Bearer k8s-aws-v1.mine"},
		{name: "no token", path: "eu-west-1/web/api", status: http.StatusUnauthorized, body: "no token of EKS"},
		{name: "a signature of AWS", path: "eu-west-1/web/api", headers: []string{"Authorization: AWS4-HMAC-SHA256 x"},
			status: http.StatusUnauthorized, body: "no token of EKS"},
		{name: "a bad token", path: "eu-west-1/web/api", headers: []string{"Authorization: Bearer x"},
			status: http.StatusUnauthorized, body: "input token was not properly formatted"},
		{name: "a token in a subprotocol of no encoding", path: "eu-west-1/web/api",
			headers: []string{"Sec-WebSocket-Protocol: " + bearerProtocol + "%, v5.channel.k8s.io"},
			status:  http.StatusUnauthorized, body: "no token of EKS"},
		{name: "STS is not there", path: "eu-west-1/web/api", headers: []string{"Authorization: Bearer k8s-aws-v1.later"},
			status: http.StatusBadGateway, body: "STS does not answer"},
		{name: "a token of another account", path: "eu-west-1/web/api",
			headers: []string{"Authorization: Bearer k8s-aws-v1.theirs"}, status: http.StatusNotFound,
			body: `account 444455556666 has no cluster \"web\" in region \"eu-west-1\"`},
		{name: "another region", path: "us-east-1/web/api", headers: []string{"Authorization: Bearer k8s-aws-v1.mine"},
			status: http.StatusNotFound, body: "has no cluster"},
		{name: "no cluster", path: "eu-west-1", headers: []string{"Authorization: Bearer k8s-aws-v1.mine"},
			status: http.StatusNotFound, body: "has no cluster"},
		{name: "a name that hides in an escape", path: "eu-west-1/we%62/api",
			headers: []string{"Authorization: Bearer k8s-aws-v1.mine"}, status: http.StatusNotFound},
		{name: "no public access", path: "eu-west-1/private/api",
			headers: []string{"Authorization: Bearer k8s-aws-v1.mine"}, status: http.StatusServiceUnavailable,
			body: "endpointPublicAccess is false"},
		{name: "another origin", path: "eu-west-1/web/api", headers: []string{"Authorization: Bearer k8s-aws-v1.mine",
			"Origin: http://example.com"}, status: http.StatusForbidden, body: "another origin"},
		{name: "another site", path: "eu-west-1/web/api", headers: []string{"Authorization: Bearer k8s-aws-v1.mine",
			"Sec-Fetch-Site: cross-site"}, status: http.StatusForbidden, body: "another origin"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL+kubernetesPrefix+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range test.headers {
			name, value, _ := strings.Cut(h, ": ")
			r.Header.Set(name, value)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != test.status || !strings.Contains(string(body), test.body) {
			t.Errorf("%s: %d %s (%v), want %d %s", test.name, response.StatusCode, body, err, test.status, test.body)
		}
		policies := response.Header.Values("Content-Security-Policy")
		if test.status == http.StatusOK {
			if !slices.Contains(policies, originguard.Policy) {
				t.Errorf("%s: an answer of the cluster has the policies %q", test.name, policies)
			}
			continue
		}
		var status metav1.Status
		if response.StatusCode != http.StatusNotFound || test.body != "" {
			if err := json.Unmarshal(body, &status); err != nil || status.Kind != "Status" {
				t.Errorf("%s: %s is no status of Kubernetes (%v)", test.name, body, err)
			}
		}
	}
}

// TestAnswersOfClustersChangeNothing has a program in a cluster answer what changes what a browser keeps for the
// console: in hints, in the answer, and in that to an upgrade.
func TestAnswersOfClustersChangeNothing(t *testing.T) {
	t.Parallel()
	front := serveCluster(t, func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Set-Cookie", "Clear-Site-Data", "Strict-Transport-Security", "Refresh",
			"Service-Worker-Allowed", "Report-To", "WWW-Authenticate", "Some-Later-State"} {
			w.Header().Set(name, "hostile")
		}
		w.Header().Set("Cache-Control", "public, max-age=31536000")
		w.Header().Set("Audit-Id", "kept")
		if r.Header.Get("Upgrade") == "" {
			w.WriteHeader(http.StatusEarlyHints)
			return
		}
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		w.WriteHeader(http.StatusSwitchingProtocols)
	})
	for _, headers := range []map[string]string{{}, {"Connection": "Upgrade", "Upgrade": "websocket"}} {
		trace := &httptrace.ClientTrace{Got1xxResponse: func(status int, _ textproto.MIMEHeader) error {
			t.Errorf("an answer %d", status)
			return nil
		}}
		r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet,
			front.URL+kubernetesPrefix+"eu-west-1/web/api", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer k8s-aws-v1.mine")
		for name, value := range headers {
			r.Header.Set(name, value)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		h := response.Header
		for name, values := range h {
			if slices.Contains(values, "hostile") {
				t.Errorf("%s: %s passes", response.Status, name)
			}
		}
		if h.Get("Audit-Id") != "kept" || !slices.Contains(h.Values("Content-Security-Policy"), originguard.Policy) {
			t.Errorf("%s: %v", response.Status, h)
		}
		if response.StatusCode == http.StatusSwitchingProtocols {
			continue
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin"} {
			if got := h.Values(name); !slices.Equal(got, []string{want}) {
				t.Errorf("%s: %s is %q, want %q", response.Status, name, got, want)
			}
		}
	}
}

// TestWatches reads an event of an answer that goes on.
func TestWatches(t *testing.T) {
	t.Parallel()
	next := make(chan string)
	defer close(next)
	front := serveCluster(t, func(w http.ResponseWriter, r *http.Request) {
		for event := range next {
			fmt.Fprintln(w, event)
			if err := http.NewResponseController(w).Flush(); err != nil {
				return
			}
		}
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL+kubernetesPrefix+
		"eu-west-1/web/api/v1/pods?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer k8s-aws-v1.mine")
	go func() { next <- "first" }()
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	for _, want := range []string{"first\n", "second\n"} {
		if want == "second\n" {
			next <- "second"
		}
		if got, err := lines.ReadString('\n'); err != nil || got != want {
			t.Fatalf("got %q (%v), want %q", got, err, want)
		}
	}
}

// TestWebSockets opens a stream as browsers do, and sends bytes both ways.
func TestWebSockets(t *testing.T) {
	t.Parallel()
	front := serveCluster(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Sec-WebSocket-Protocol"); !strings.Contains(got, bearerProtocol) {
			t.Errorf("the API server gets the subprotocols %q, without the token", got)
		}
		if got := r.URL.RequestURI(); got != "/api/v1/namespaces/default/pods/p/exec?command=sh" {
			t.Errorf("the API server is asked for %s", got)
		}
		conn, both, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(both, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		both.Flush()
		line, err := both.ReadString('\n')
		if err != nil {
			t.Error(err)
		}
		fmt.Fprint(both, "echo "+line)
		both.Flush()
	})
	for _, test := range []struct {
		token  string
		status int
	}{{"k8s-aws-v1.mine", http.StatusSwitchingProtocols}, {"k8s-aws-v1.theirs", http.StatusNotFound},
		{"x", http.StatusUnauthorized}} {
		conn, err := net.Dial("tcp", front.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET %seu-west-1/web/api/v1/namespaces/default/pods/p/exec?command=sh HTTP/1.1\r\nHost: %s\r\n"+
			"Connection: Upgrade\r\nUpgrade: websocket\r\nOrigin: %s\r\nSec-WebSocket-Version: 13\r\n"+
			"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io, %s%s\r\n\r\n",
			kubernetesPrefix, front.Listener.Addr(), front.URL, bearerProtocol,
			base64.RawURLEncoding.EncodeToString([]byte(test.token)))
		reader := bufio.NewReader(conn)
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != test.status {
			t.Errorf("with the token %s: %s", test.token, response.Status)
		}
		if response.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		fmt.Fprint(conn, "hello\n")
		if got, err := reader.ReadString('\n'); err != nil || got != "echo hello\n" {
			t.Errorf("got %q (%v)", got, err)
		}
	}
}

// TestPublicAccessCIDRs sends requests of clients inside and outside of the list.
func TestPublicAccessCIDRs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		from    string
		cidrs   []string
		allowed bool
	}{
		{"192.0.2.9:1", nil, true},
		{"192.0.2.9:1", []string{"0.0.0.0/0"}, true},
		{"192.0.2.9:1", []string{"203.0.113.0/24", "192.0.2.0/28"}, true},
		{"192.0.2.9:1", []string{"192.0.2.9/24"}, true}, // the bits behind the mask do not matter
		{"[::ffff:192.0.2.9]:1", []string{"192.0.2.0/28"}, true},
		{"192.0.2.99:1", []string{"203.0.113.0/24", "192.0.2.0/28"}, false},
		{"[2001:db8::1]:1", []string{"0.0.0.0/0"}, false},
		{"[2001:db8::1]:1", []string{"0.0.0.0/0", "2001:db8::/64"}, true},
		{"127.0.0.1:1", []string{"203.0.113.0/24"}, true}, // the endpoint decides, about the host
		{"[::1]:1", []string{"203.0.113.0/24"}, true},
		{"@", []string{"203.0.113.0/24"}, false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = test.from
		r.Header.Set("X-Forwarded-For", "203.0.113.1") // anybody may say so
		err := checkSource(r, record.Cluster{Name: "web", PublicAccessCIDRs: test.cidrs})
		if (err == nil) != test.allowed || err != nil && !strings.Contains(err.Error(), "publicAccessCidrs") {
			t.Errorf("%s, %v: %v", test.from, test.cidrs, err)
		}
	}
}

// TestPublicAccessCIDRsOfRequests sends one to a cluster whose list has others.
func TestPublicAccessCIDRsOfRequests(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	cluster := record.Cluster{Account: account, Region: "eu-west-1", Name: "web", EndpointPublicAccess: true,
		PublicAccessCIDRs: []string{"203.0.113.0/24"}}
	create(t, record.Clusters(s), cluster.Key(), cluster)
	log := slog.New(slog.DiscardHandler)
	c := newConsole(func(o *Options) {
		o.Clusters, o.APIServers = record.Clusters(s), clusterproxy.New(s, log)
		o.ServedUnder = ServedUnder(true)
		o.Account = func(context.Context, string, string) (string, bool, error) { return account, false, nil }
	})
	for from, status := range map[string]int{"192.0.2.9:1": http.StatusForbidden, "203.0.113.9:1": http.StatusNotFound} {
		w := ask(c, http.MethodGet, kubernetesPrefix+"eu-west-1/web/api", "", "Authorization: Bearer x", "TLS: on",
			"From: "+from)
		if w.Code != status {
			t.Errorf("%s: %d %s, want %d", from, w.Code, w.Body, status)
		}
	}
}
