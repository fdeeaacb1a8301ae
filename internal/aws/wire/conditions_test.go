package wire_test

import (
	"bufio"
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// conditionsOf returns the global condition keys with which the authorizer was asked about the last request.
func conditionsOf(t *testing.T, p *policy) map[string][]string {
	t.Helper()
	if len(p.asked) == 0 {
		t.Fatal("the authorizer was not asked")
	}
	return p.global
}

func TestSecureTransportIsNotTheClientsToSay(t *testing.T) {
	t.Parallel()
	list := func(t *testing.T, client *http.Client, endpoint string, m *wire.Mux) {
		t.Helper()
		c := config(m)
		c.BaseEndpoint, c.HTTPClient = &endpoint, client
		if _, err := eks.NewFromConfig(c).ListClusters(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		send func(t *testing.T, m *wire.Mux)
		want string
	}{
		"plain text": {func(t *testing.T, m *wire.Mux) {
			server := httptest.NewServer(m)
			defer server.Close()
			list(t, server.Client(), server.URL, m)
		}, "false"},
		"TLS": {func(t *testing.T, m *wire.Mux) {
			server := httptest.NewTLSServer(m)
			defer server.Close()
			list(t, server.Client(), server.URL, m)
		}, "true"},
		"in process": {func(t *testing.T, m *wire.Mux) {
			list(t, &http.Client{Transport: m.Transport()}, "http://coracle.test", m)
		}, "true"},
		"https as the target": {func(t *testing.T, m *wire.Mux) { sendTarget(t, m, "https://%s/clusters", "") },
			"false"},
		"X-Forwarded-Proto": {func(t *testing.T, m *wire.Mux) {
			sendTarget(t, m, "/clusters",
				"X-Forwarded-Proto: https\r\n")
		}, "false"},
		"Forwarded with a proto": {func(t *testing.T, m *wire.Mux) {
			sendTarget(t, m, "/clusters",
				"Forwarded: proto=https\r\n")
		}, "false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &policy{}
			test.send(t, newMux(t, p))
			if got := conditionsOf(t, p)["aws:SecureTransport"]; !slices.Equal(got, []string{test.want}) {
				t.Errorf("aws:SecureTransport is %v, want %s", got, test.want)
			}
		})
	}
}

// sendTarget sends a signed GET /clusters over plain TCP with that request target, in which %s is the host, and more
// headers.
func sendTarget(t *testing.T, m *wire.Mux, target, headers string) {
	t.Helper()
	server := httptest.NewServer(m)
	defer server.Close()
	host := server.Listener.Addr().String()
	signed, err := http.NewRequest(http.MethodGet, server.URL+"/clusters", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: "AKIA", SecretAccessKey: "secret"},
		signed, hash(""), "eks", "us-west-2", time.Now()); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	request := "GET " + strings.ReplaceAll(target, "%s", host) + " HTTP/1.1\r\nHost: " + host +
		"\r\nConnection: close\r\n" + headers
	for name, values := range signed.Header {
		request += name + ": " + values[0] + "\r\n"
	}
	if _, err := conn.Write([]byte(request + "\r\n")); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", target, response.Status)
	}
}

// What a request names costs memory before its caller is known to have any permission.
func TestTargetsAreBounded(t *testing.T) {
	t.Parallel()
	p := &policy{}
	m := wire.NewMux(wire.Options{Credentials: keys{}, Authorizer: p})
	m.Register(wire.EKS, wire.Handle(eksService{}.ListClusters, func(context.Context, string, *eks.ListClustersInput) (
		[]wire.Target, error) {
		return make([]wire.Target, 10001), nil
	}))
	_, err := eks.NewFromConfig(config(m)).ListClusters(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(),
		"InvalidParameterException: The request concerns 10001 resources, and may concern 10000") {
		t.Errorf("ListClusters: %v", err)
	}
	if p.asked != nil {
		t.Errorf("the policy was asked about %d targets", len(p.asked))
	}
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	err = wire.Authorize(wire.NewContext(request, alice, "us-west-2", p, time.Now()), make([]wire.Target, 10001)...)
	if err == nil || !strings.Contains(err.Error(), "may concern 10000") {
		t.Errorf("Authorize: %v", err)
	}
}

// A request that no Mux serves is authorized with the condition keys of one that it serves.
func TestNewContextHasTheConditionsOfTheMux(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, server := range []func(http.Handler) *httptest.Server{httptest.NewServer, httptest.NewTLSServer} {
		served, other := &policy{}, &policy{}
		m := wire.NewMux(wire.Options{Credentials: keys{}, Authorizer: served, Now: func() time.Time { return now }})
		m.Register(wire.EKS, eksService{}.handlers()...)
		s := server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx := wire.NewContext(r, alice, "us-west-2", other, now)
			if err := wire.Authorize(ctx, wire.Target{Action: "eks:ListClusters", Resource: "*"}); err != nil {
				t.Error(err)
			}
			if got := wire.CallerFrom(ctx); got.ARN != alice.ARN {
				t.Errorf("the caller is %+v", got)
			}
			m.ServeHTTP(w, r)
		}))
		c := config(m)
		c.BaseEndpoint, c.HTTPClient = &s.URL, s.Client()
		if _, err := eks.NewFromConfig(c).ListClusters(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		s.Close()
		want, got := conditionsOf(t, served), conditionsOf(t, other)
		if !maps.EqualFunc(want, got, slices.Equal) || len(want) != 6 {
			t.Errorf("the condition keys are %v, those of the Mux %v", got, want)
		}
	}
}
