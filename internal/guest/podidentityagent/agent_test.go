//go:build linux

package podidentityagent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eksauth"
	"github.com/aws/aws-sdk-go-v2/service/eksauth/types"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// service is EKS Auth: it gives each token the number of the request, or fails.
type service struct {
	mu       sync.Mutex
	requests int
	lifetime time.Duration
	err      error
	wait     chan struct{} // before an answer, when set
}

func (s *service) AssumeRoleForPodIdentity(_ context.Context, in *eksauth.AssumeRoleForPodIdentityInput,
	_ ...func(*eksauth.Options)) (*eksauth.AssumeRoleForPodIdentityOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if s.wait != nil {
		<-s.wait
	}
	if s.err != nil {
		return nil, s.err
	}
	return &eksauth.AssumeRoleForPodIdentityOutput{
		AssumedRoleUser: &types.AssumedRoleUser{Arn: aws.String("arn:aws:sts::111122223333:assumed-role/app/s")},
		Credentials: &types.Credentials{AccessKeyId: aws.String(fmt.Sprintf("ASIA%d", s.requests)),
			SecretAccessKey: aws.String("secret"), SessionToken: in.Token, Expiration: aws.Time(time.Now().Add(s.lifetime))},
	}, nil
}

func (s *service) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func newTestAgent(s *service) *agent {
	return newAgent(agentOptions{cluster: "c", auth: s, log: slog.New(slog.DiscardHandler), metrics: newMetrics(),
		renewal: 3 * time.Hour, size: 2000, renewals: 3})
}

func tokenUntil(t testing.TB, expires time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(jwt.Claims{Expiry: jwt.NewNumericDate(expires)}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// get requests credentials as an SDK in a pod does.
func get(a *agent, token, host, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://"+host+path, nil)
	r.Header.Set("Authorization", token)
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w
}

// keyID returns the access key ID of an answer.
func keyID(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var c map[string]string
	if err := json.Unmarshal(w.Body.Bytes(), &c); w.Code != http.StatusOK || err != nil {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if c["AccountId"] != "111122223333" || c["SecretAccessKey"] != "secret" || c["Token"] == "" {
		t.Errorf("answered %v", c)
	}
	if _, err := time.Parse(time.RFC3339Nano, c["Expiration"]); err != nil {
		t.Error(err)
	}
	return c["AccessKeyId"]
}

// TestRequests checks what the agent refuses without asking EKS Auth, and how it passes on an error of that.
func TestRequests(t *testing.T) {
	t.Parallel()
	s := &service{lifetime: 6 * time.Hour}
	a := newTestAgent(s)
	good := tokenUntil(t, time.Now().Add(time.Hour))
	for name, test := range map[string]struct {
		token, host, path string
		status            int
		text              string
	}{
		"credentials":        {good, IPv4, "/v1/credentials", 200, "ASIA"},
		"by IPv6":            {good, "[" + IPv6 + "]", "/v1/credentials", 200, "ASIA"},
		"with a port":        {good, IPv4 + ":80", "/v1/credentials", 200, "ASIA"},
		"another path":       {good, IPv4, "/", 404, "not found"},
		"by a name":          {good, "rebound.example.com", "/v1/credentials", 403, "invalid address"},
		"by localhost":       {good, "localhost:80", "/v1/credentials", 403, "invalid address"},
		"no token":           {"", IPv4, "/v1/credentials", 400, "cannot be empty"},
		"no JWT":             {"Bearer x", IPv4, "/v1/credentials", 400, "cannot be parsed"},
		"a token too old":    {tokenUntil(t, time.Now().Add(-time.Hour)), IPv4, "/v1/credentials", 400, "basic claim"},
		"an unsigned token":  {"eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.", IPv4, "/v1/credentials", 400, "cannot be parsed"},
		"a signature as key": {"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.AAAA", IPv4, "/v1/credentials", 400, "cannot be parsed"},
	} {
		w := get(a, test.token, test.host, test.path)
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.text) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	s.set(&types.ResourceNotFoundException{Message: aws.String("no association")})
	w := get(a, tokenUntil(t, time.Now().Add(time.Hour)), IPv4, "/v1/credentials")
	if want := "(ResourceNotFoundException): no association, fault: client"; !strings.Contains(w.Body.String(), want) {
		t.Errorf("%d %s, want %s", w.Code, w.Body, want)
	}
}

// TestRenewal follows credentials for half a day: they are renewed after three hours, outlive an absence of EKS Auth as
// long as they are good, and are dropped when EKS Auth gives no more.
func TestRenewal(t *testing.T) {
	t.Parallel()
	token := tokenUntil(t, time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC))
	synctest.Test(t, func(t *testing.T) {
		s := &service{lifetime: 6 * time.Hour}
		a := newTestAgent(s)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = a.renewUntilDone(ctx) }()
		expect := func(when, want string) {
			t.Helper()
			synctest.Wait()
			if got := keyID(t, get(a, token, IPv4, "/v1/credentials")); got != want {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}
		expect("at first", "ASIA1")
		expect("again", "ASIA1")
		time.Sleep(2*time.Hour + 50*time.Minute)
		expect("before they are renewed", "ASIA1")
		time.Sleep(12 * time.Minute)
		expect("renewed", "ASIA2")
		s.set(errors.New("connection refused"))
		time.Sleep(5 * time.Hour) // two hours after they should have been renewed
		expect("while EKS Auth is away", "ASIA2")
		time.Sleep(59 * time.Minute)
		if w := get(a, token, IPv4, "/v1/credentials"); w.Code != http.StatusInternalServerError {
			t.Errorf("credentials that have expired: %d %s", w.Code, w.Body)
		}
		s.set(nil)
		first := keyID(t, get(a, token, IPv4, "/v1/credentials"))
		s.set(&types.AccessDeniedException{Message: aws.String("the role is gone")})
		time.Sleep(3*time.Hour + 2*time.Minute)
		synctest.Wait()
		if w := get(a, token, IPv4, "/v1/credentials"); w.Code == http.StatusOK {
			t.Errorf("%s are given out after EKS Auth refused to renew them", first)
		}
	})
}

// TestOneRequestForMany checks that pods that ask at the same time for one token cause one request of EKS Auth.
func TestOneRequestForMany(t *testing.T) {
	t.Parallel()
	token := tokenUntil(t, time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC))
	synctest.Test(t, func(t *testing.T) {
		s := &service{lifetime: time.Hour, wait: make(chan struct{})}
		a := newTestAgent(s)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { keyID(t, get(a, token, IPv4, "/v1/credentials")) })
		}
		synctest.Wait()
		close(s.wait)
		all.Wait()
		if s.requests != 1 {
			t.Errorf("%d requests of EKS Auth", s.requests)
		}
	})
}

// TestManyTokensAreLimited checks that a pod with many tokens cannot make the agent flood EKS Auth.
func TestManyTokensAreLimited(t *testing.T) {
	t.Parallel()
	s := &service{lifetime: time.Hour}
	a := newTestAgent(s)
	a.passing.SetBurst(2)
	a.passing.SetLimit(0)
	for i, want := range []int{200, 200, 429} {
		if w := get(a, tokenUntil(t, time.Now().Add(time.Hour)), IPv4, "/v1/credentials"); w.Code != want {
			t.Errorf("request %d: %d %s", i, w.Code, w.Body)
		}
	}
}

// TestPodsDoNotTakeWhatOthersHave checks that a pod that makes up tokens leaves the others of its node their requests.
func TestPodsDoNotTakeWhatOthersHave(t *testing.T) {
	t.Parallel()
	s := &service{lifetime: time.Hour}
	a := newTestAgent(s)
	from := func(address string) int {
		r := httptest.NewRequest(http.MethodGet, "http://"+IPv4+"/v1/credentials", nil)
		r.Header.Set("Authorization", tokenUntil(t, time.Now().Add(time.Hour)))
		r.RemoteAddr = address
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		return w.Code
	}
	a.sourceOf("10.0.0.1").SetLimit(0)
	for range ofPodBurst {
		from("10.0.0.1:1")
	}
	a.passing.SetLimit(0)
	a.passing.SetBurst(1)
	for _, port := range []string{":1", ":2"} {
		if got := from("10.0.0.1" + port); got != http.StatusTooManyRequests {
			t.Errorf("a pod that asked too often: %d", got)
		}
	}
	if got := from("10.0.0.2:1"); got != http.StatusOK {
		t.Errorf("another pod: %d", got)
	}
}

// TestProbes checks that the agent is healthy while it answers on all hosts.
func TestProbes(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(newTestAgent(&service{}))
	host, text, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var port uint
	if _, err := fmt.Sscan(text, &port); err != nil {
		t.Fatal(err)
	}
	probes := newProbes([]string{host}, port)
	for _, want := range []int{http.StatusOK, http.StatusInternalServerError} {
		for _, path := range []string{"/healthz", "/readyz"} {
			w := httptest.NewRecorder()
			probes.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			if w.Code != want {
				t.Errorf("%s: %d %s, want %d", path, w.Code, w.Body, want)
			}
		}
		server.Close()
	}
}

// TestAClockThatIsOff checks the agent of a node whose clock is an hour off.
func TestAClockThatIsOff(t *testing.T) {
	t.Parallel()
	a := newTestAgent(&service{lifetime: 6 * time.Hour})
	token := tokenUntil(t, time.Now().Add(24*time.Hour))
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		a.now = func() time.Time { return time.Now().Add(off) }
		keyID(t, get(a, token, IPv4, "/v1/credentials"))
	}
	a.now = func() time.Time { return time.Now().Add(25 * time.Hour) }
	if got := get(a, token, IPv4, "/v1/credentials"); got.Code != http.StatusBadRequest ||
		!strings.Contains(got.Body.String(), "expired") {
		t.Errorf("a day ahead: %d %s", got.Code, got.Body)
	}
}
