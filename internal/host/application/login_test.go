package application

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coracle-eks/coracle/internal/outbound"
	"github.com/coracle-eks/coracle/internal/sizedcache"
)

// issuer is a provider of OpenID Connect.
type issuer struct {
	*httptest.Server
	mu     sync.Mutex
	tokens []url.Values // requests to the token endpoint
	// What it answers.
	token  func(http.ResponseWriter, url.Values) // nil for tokens
	claims string
	claim  map[string]any // of the ID token
	life   int
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{claims: `{"sub":"user-1","email":"a@b.example"}`, claim: map[string]any{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		i.mu.Lock()
		i.tokens = append(i.tokens, r.PostForm)
		n := len(i.tokens)
		answer := i.token
		i.mu.Unlock()
		id, secret, ok := r.BasicAuth()
		if !ok { // as clients try where a provider refuses that
			id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
		}
		if id != "client" || secret != "secret" || !ok && answer == nil {
			t.Errorf("the client authenticates by %q %q", id, secret)
		}
		if answer != nil {
			answer(w, r.PostForm)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": fmt.Sprint("access-", n), "token_type": "Bearer",
			"expires_in": i.life, "refresh_token": fmt.Sprint("refresh-", n), "id_token": i.idToken()})
	})
	mux.HandleFunc("GET /userinfo", func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer access-") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		_, _ = io.WriteString(w, i.claims)
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	i.life = 3600
	return i
}

func (i *issuer) idToken() string {
	claims := map[string]any{"iss": i.URL, "aud": "client", "sub": "user-1", "exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range i.claim {
		claims[name] = value
	}
	text, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"RS256"}`)) + "." + part(text) + "." + part([]byte("signed"))
}

func (i *issuer) requests() []url.Values {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.tokens
}

// loginRig is a rig whose default rule authenticates, with a browser.
type loginRig struct {
	*rig
	issuer  *issuer
	browser *http.Client
	key     *ecdsa.PrivateKey
}

func newLoginRig(t *testing.T, change ...func(*OIDC)) *loginRig {
	t.Helper()
	l := &loginRig{issuer: newIssuer(t)}
	action := OIDC{Issuer: l.issuer.URL, AuthorizationEndpoint: l.issuer.URL + "/authorize?a=b",
		TokenEndpoint: l.issuer.URL + "/token", UserInfoEndpoint: l.issuer.URL + "/userinfo",
		ClientID: "client", ClientSecret: "secret", Scope: "openid", Cookie: "AWSELBAuthSessionCookie", Timeout: 604800,
		OnUnauthenticated: UnauthenticatedAuthenticate, ExtraParams: map[string]string{"prompt": "login"}}
	for _, f := range change {
		f(&action)
	}
	target := serveTarget(t, func(w http.ResponseWriter, r *http.Request) {
		for name, values := range r.Header {
			if strings.HasPrefix(name, "X-Amzn-Oidc-") {
				w.Header()[name] = values
			}
		}
		_, _ = io.WriteString(w, r.RequestURI)
	})
	spec := secure(t, forwarding(groupOf("g", target)), "a.example")
	block, _ := pem.Decode([]byte(spec.TLS.Certificates[0].Key))
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	l.key = key.(*ecdsa.PrivateKey)
	spec.Identity = &Identity{KeyID: "key-1", Key: spec.TLS.Certificates[0].Key}
	spec.LoadBalancer = "arn:lb"
	spec.AccessLog = true
	spec.Outbound = outbound.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	spec.Rules = []Rule{defaultRule(Action{OIDC: &action}, forwardTo("g"))}
	l.rig = newRig(t, spec)
	l.browser = l.client(false)
	if l.browser.Jar, err = cookiejar.New(nil); err != nil {
		t.Fatal(err)
	}
	return l
}

// begin asks for a page, and returns where the provider sends the browser back.
func (l *loginRig) begin() (*url.URL, url.Values) {
	l.t.Helper()
	answer, _ := get(l.t, l.browser, "https://a.example/page?x=1")
	to, err := answer.Location()
	if answer.StatusCode != http.StatusFound || err != nil {
		l.t.Fatalf("a client that is not logged in gets %d: %v", answer.StatusCode, err)
	}
	query := to.Query()
	for name, want := range map[string]string{"client_id": "client", "response_type": "code", "scope": "openid",
		"prompt": "login", "a": "b", "redirect_uri": "https://a.example/oauth2/idpresponse"} {
		if query.Get(name) != want {
			l.t.Errorf("%s is %q, want %q", name, query.Get(name), want)
		}
	}
	back, err := url.Parse(query.Get("redirect_uri"))
	if err != nil {
		l.t.Fatal(err)
	}
	return back, url.Values{"state": query["state"], "code": {"code-1"}}
}

// login logs the browser in, and returns the answer to its return.
func (l *loginRig) login() *http.Response {
	l.t.Helper()
	back, query := l.begin()
	back.RawQuery = query.Encode()
	answer, _ := get(l.t, l.browser, back.String())
	return answer
}

func TestLogin(t *testing.T) {
	t.Parallel()
	l := newLoginRig(t)
	answer := l.login()
	if to := answer.Header.Get("Location"); answer.StatusCode != 302 || to != "https://a.example/page?x=1" {
		t.Fatalf("after the login the client gets %d to %s", answer.StatusCode, to)
	}
	for _, c := range answer.Cookies() {
		if !c.Secure || !c.HttpOnly || !strings.HasPrefix(c.Name, "AWSELBAuthSessionCookie-") {
			t.Errorf("the cookie is %v", c)
		}
	}
	if asked := l.issuer.requests()[0]; asked.Get("grant_type") != "authorization_code" || asked.Get("code") != "code-1" ||
		asked.Get("redirect_uri") != "https://a.example/oauth2/idpresponse" {
		t.Errorf("the token endpoint is asked for %v", asked)
	}
	answer, text := get(t, l.browser, "https://a.example/page?x=1")
	if text != "/page?x=1" || answer.Header.Get(headerAccessToken) != "access-1" ||
		answer.Header.Get(headerIdentity) != "user-1" {
		t.Fatalf("the target sees %q with %v", text, answer.Header)
	}
	parts := strings.Split(answer.Header.Get(headerData), ".")
	decoded := make([]map[string]any, 2)
	for i := range decoded {
		text, err := base64.URLEncoding.DecodeString(parts[i])
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &decoded[i]); err != nil {
			t.Fatal(err)
		}
	}
	if h := decoded[0]; h["alg"] != "ES256" || h["kid"] != "key-1" || h["signer"] != "arn:lb" || h["client"] != "client" ||
		h["iss"] != l.issuer.URL {
		t.Errorf("the header is %v", h)
	}
	if decoded[1]["email"] != "a@b.example" || decoded[1]["sub"] != "user-1" {
		t.Errorf("the claims are %v", decoded[1])
	}
	signature, err := base64.URLEncoding.DecodeString(parts[2])
	if err != nil || len(signature) != 64 {
		t.Fatalf("the signature is %q: %v", parts[2], err)
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if !ecdsa.Verify(&l.key.PublicKey, sum[:], new(big.Int).SetBytes(signature[:32]),
		new(big.Int).SetBytes(signature[32:])) {
		t.Error("the signature is wrong")
	}
	// The session ends with its timeout.
	l.passed.Store(int64(604801 * time.Second))
	if answer, _ := get(t, l.browser, "https://a.example/"); answer.StatusCode != 302 {
		t.Errorf("after the session a client gets %d", answer.StatusCode)
	}
}

func TestUnauthenticatedRequests(t *testing.T) {
	t.Parallel()
	deny := newLoginRig(t, func(o *OIDC) { o.OnUnauthenticated = UnauthenticatedDeny })
	if answer, text := get(t, deny.browser, "https://a.example/"); answer.StatusCode != 401 ||
		!strings.Contains(text, "401 Authorization Required") {
		t.Errorf("deny answers %d %q", answer.StatusCode, text)
	}
	allow := newLoginRig(t, func(o *OIDC) { o.OnUnauthenticated = UnauthenticatedAllow })
	answer, text := get(t, allow.browser, "https://a.example/x", headerIdentity, "forged", headerData, "forged")
	if text != "/x" || answer.Header.Get(headerIdentity) != "" || answer.Header.Get(headerData) != "" {
		t.Errorf("allow answers %q with %v", text, answer.Header)
	}
	if answer, _ := get(t, allow.browser, "https://a.example/", "Cookie", "AWSELBAuthSessionCookie-0=forged"); answer.
		StatusCode != 200 || answer.Header.Get(headerIdentity) != "" {
		t.Errorf("a forged session gets %d with %v", answer.StatusCode, answer.Header)
	}
}

// TestClientsTellNoIdentity has clients that tell one in other words, and by a rule without a login.
func TestClientsTellNoIdentity(t *testing.T) {
	t.Parallel()
	var seen atomic.Pointer[http.Header]
	target := serveTarget(t, func(_ http.ResponseWriter, r *http.Request) { seen.Store(&r.Header) })
	allow := newLoginRig(t, func(o *OIDC) { o.OnUnauthenticated = UnauthenticatedAllow })
	spec := allow.spec
	spec.Groups = []TargetGroup{groupOf("g", target)}
	spec.Attributes.TLSHeaders = true
	spec.Rules = append([]Rule{{Priority: "1", Conditions: []Condition{{Field: FieldPath, Values: []string{"/open"}}},
		Actions: []Action{forwardTo("g")}}}, spec.Rules...)
	if err := allow.Update(spec); err != nil {
		t.Fatal(err)
	}
	forged := []string{"X-Amzn-Oidc-Identity", "x_amzn_oidc_identity", "X-Amzn_Oidc-Data", "x.amzn.oidc.accesstoken",
		"X_Forwarded_For", "X_Forwarded_Proto", "X_Amzn_Tls_Version", "X-Amzn-Tls-Version"}
	headers := []string{"A_B", "mine"}
	for _, name := range forged {
		headers = append(headers, name, "forged")
	}
	for _, path := range []string{"/", "/open"} {
		get(t, allow.browser, "https://a.example"+path, headers...)
		if all := fmt.Sprint(*seen.Load()); strings.Contains(all, "forged") || !strings.Contains(all, "mine") {
			t.Errorf("%s: the target sees %s", path, all)
		}
	}
	// Nor by a listener that logs in nobody, of a load balancer that does elsewhere.
	other := forwarding(groupOf("g", target))
	for _, authenticates := range []bool{false, true} {
		other.Authenticates = authenticates
		get(t, newRig(t, other).client(false), "http://a.example/", "X-Amzn-Oidc-Identity", "forged")
		if got := seen.Load().Get("X-Amzn-Oidc-Identity"); (got == "") != authenticates {
			t.Errorf("another listener logs in users: %v, and the target sees the identity %q", authenticates, got)
		}
	}
	// Without TLS there is no version of it.
	plain := forwarding(groupOf("g", target))
	plain.Attributes.TLSHeaders = true
	get(t, newRig(t, plain).client(false), "http://a.example/", "X-Amzn-Tls-Version", "forged")
	if got := seen.Load().Get("X-Amzn-Tls-Version"); got != "" {
		t.Errorf("the target is told TLS %s of a client without", got)
	}
}

// TestFailedLogins has each failure with its status, and its reason in the access log.
func TestFailedLogins(t *testing.T) {
	t.Parallel()
	answer := func(status int, text string) func(*loginRig) {
		return func(l *loginRig) {
			l.issuer.token = func(w http.ResponseWriter, _ url.Values) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, text)
			}
		}
	}
	claim := func(name string, value any) func(*loginRig) {
		return func(l *loginRig) { l.issuer.claim[name] = value }
	}
	claims := func(text string) func(*loginRig) { return func(l *loginRig) { l.issuer.claims = text } }
	set := func(name, value string) func(url.Values) { return func(q url.Values) { q.Set(name, value) } }
	for _, c := range []struct {
		name   string
		change func(*loginRig)
		query  func(url.Values)
		want   int
		reason string
	}{
		{"no state", nil, func(q url.Values) { q.Del("state") }, 401, "AuthMissingStateParam"},
		{"another state", nil, set("state", "x"), 401, "AuthInvalidStateParam"},
		{"no code", nil, func(q url.Values) { q.Del("code") }, 401, "AuthMissingCodeParam"},
		{"the user refuses", nil, set("error", "access_denied"), 401, "-"},
		{"the provider fails", nil, set("error", "server_error"), 561, "-"},
		{"another browser", func(l *loginRig) { l.browser.Jar, _ = cookiejar.New(nil) }, nil, 401, "AuthInvalidCookie"},
		{"too late", func(l *loginRig) { l.passed.Store(int64(16 * time.Minute)) }, nil, 401, "AuthInvalidCookie"},
		{"a code that is used", answer(400, `{"error":"invalid_grant"}`), nil, 561, "AuthInvalidGrantError"},
		{"no tokens", answer(503, `{}`), nil, 561, "AuthTokenEpRequestFailed"},
		{"no JSON", answer(200, `hello`), nil, 561, "AuthInvalidTokenResponse"},
		{"no ID token", answer(200, `{"access_token":"access-1"}`), nil, 401, "AuthInvalidIdToken"},
		{"tokens of another issuer", claim("iss", "https://other.example"), nil, 401, "AuthInvalidIdToken"},
		{"tokens for another client", claim("aud", "other"), nil, 401, "AuthInvalidIdToken"},
		{"old tokens", claim("exp", 1), nil, 401, "AuthInvalidIdToken"},
		{"no claims", claims("[]"), nil, 561, "AuthInvalidUserinfoResponse"},
		{"claims of another user", claims(`{"sub":"user-2"}`), nil, 561, "AuthInvalidUserinfoResponse"},
		{"many claims", claims(`{"sub":"user-1","x":"` + strings.Repeat("x", 11<<10) + `"}`), nil, 500,
			"AuthUserinfoResponseSizeExceeded"},
		{"more claims", claims(`{"sub":"user-1","x":"` + strings.Repeat("x", 65<<10) + `"}`), nil, 500,
			"AuthUserinfoResponseSizeExceeded"},
		{"nobody there", func(l *loginRig) { l.issuer.Close() }, nil, 500, "AuthTokenEpRequestFailed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLoginRig(t)
			back, query := l.begin()
			if c.change != nil {
				c.change(l)
			}
			if c.query != nil {
				c.query(query)
			}
			back.RawQuery = query.Encode()
			answer, _ := get(t, l.browser, back.String())
			if answer.StatusCode != c.want {
				t.Errorf("the client gets %d, want %d", answer.StatusCode, c.want)
			}
			if got := fields(l.logged(1)); got[24] != c.reason || got[22] != "authenticate" {
				t.Errorf("the reason is %s of %s, want %s", got[24], got[22], c.reason)
			}
		})
	}
}

// TestProvidersAreInThePublicInternet has a provider at an address that nobody allowed.
func TestProvidersAreInThePublicInternet(t *testing.T) {
	t.Parallel()
	l := newLoginRig(t)
	back, query := l.begin()
	next := l.spec
	next.Outbound = outbound.Policy{}
	if err := l.Update(next); err != nil {
		t.Fatal(err)
	}
	back.RawQuery = query.Encode()
	if answer, _ := get(t, l.browser, back.String()); answer.StatusCode != 500 || len(l.issuer.requests()) > 0 {
		t.Errorf("the client gets %d, the provider %d requests", answer.StatusCode, len(l.issuer.requests()))
	}
}

func TestRefreshedSessions(t *testing.T) {
	t.Parallel()
	l := newLoginRig(t)
	l.login()
	l.passed.Store(int64(2 * time.Hour)) // the access token has expired
	l.issuer.life = 3 * 3600
	var requests sync.WaitGroup
	for range 8 { // of one page
		requests.Go(func() {
			if answer, _ := get(t, l.browser, "https://a.example/"); answer.Header.Get(headerAccessToken) != "access-2" {
				t.Errorf("the client gets %d, the target %v", answer.StatusCode, answer.Header)
			}
		})
	}
	requests.Wait()
	all := l.issuer.requests()
	if len(all) != 2 || all[1].Get("grant_type") != "refresh_token" || all[1].Get("refresh_token") != "refresh-1" {
		t.Errorf("the token endpoint is asked for %v", all)
	}
	// The provider ends the session.
	l.issuer.mu.Lock()
	l.issuer.token = func(w http.ResponseWriter, _ url.Values) { w.WriteHeader(http.StatusBadRequest) }
	l.issuer.mu.Unlock()
	l.passed.Store(int64(6 * time.Hour))
	if answer, _ := get(t, l.browser, "https://a.example/"); answer.StatusCode != 302 {
		t.Errorf("a user whom the provider has logged out gets %d", answer.StatusCode)
	}
}

// TestRefreshedSessionsAreForgotten has a client that goes on with the cookies from before its session was refreshed.
func TestRefreshedSessionsAreForgotten(t *testing.T) {
	t.Parallel()
	l := newLoginRig(t)
	var old []string
	for _, c := range l.login().Cookies() {
		old = append(old, c.Name+"="+c.Value)
	}
	ask := func() int {
		answer, _ := get(t, l.client(false), "https://a.example/", "Cookie", strings.Join(old, "; "))
		return answer.StatusCode
	}
	l.passed.Store(int64(2 * time.Hour))
	l.issuer.life = 3 * 3600
	if status := ask(); status != 200 {
		t.Fatalf("a session that can be refreshed gets %d", status)
	}
	l.issuer.mu.Lock()
	l.issuer.token = func(w http.ResponseWriter, _ url.Values) { w.WriteHeader(http.StatusBadRequest) } // it has ended
	l.issuer.mu.Unlock()
	if status := ask(); status != 200 {
		t.Errorf("while the new token has not expired, a client with the old cookies gets %d", status)
	}
	l.passed.Store(int64(6 * time.Hour))
	if status := ask(); status != 302 {
		t.Errorf("a user whom the provider has logged out gets %d", status)
	}
	synctest.Test(t, func(t *testing.T) {
		p := &provider{refreshed: sizedcache.New[string, *session](refreshedSize)}
		p.remember("a", &session{}, 1)
		time.Sleep(refreshedTime - 1)
		if p.refreshed.Size() != 1 {
			t.Error("a session is forgotten at once")
		}
		time.Sleep(2 * time.Nanosecond)
		if p.refreshed.Size() != 0 {
			t.Error("a session is kept")
		}
	})
}

// TestProvidersAnswerThemselves has a provider that sends the load balancer elsewhere, and one with a long header.
func TestProvidersAnswerThemselves(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"nothing": func(http.ResponseWriter, *http.Request) bool { return true },
		"a redirect": func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/token" {
				r.URL.Path = "/token"
				return true
			}
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return false
		},
		"a long header": func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("A", strings.Repeat("a", 2*providerHeader))
			return true
		},
	} {
		l := newLoginRig(t)
		handler := l.issuer.Config.Handler
		l.issuer.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, _, ok := r.BasicAuth(); !ok && r.URL.Path != "/userinfo" {
				w.WriteHeader(http.StatusBadRequest) // they have tried another way to authenticate
			} else if !ok || before(w, r) {
				handler.ServeHTTP(w, r)
			}
		})
		if in := l.login().StatusCode == http.StatusFound; in != (name == "nothing") {
			t.Errorf("%s: the client is logged in: %v", name, in)
		}
	}
}

// TestLoginsEndWhereTheyBegan has a login that begins at another host.
func TestLoginsEndWhereTheyBegan(t *testing.T) {
	t.Parallel()
	l := newLoginRig(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a.example/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "b.example"
	answer, _ := do(t, l.browser, r)
	to, err := answer.Location()
	if err != nil {
		t.Fatal(err)
	}
	back := "https://a.example/oauth2/idpresponse?code=code-1&state=" + url.QueryEscape(to.Query().Get("state"))
	nonce := answer.Cookies()[0]
	if answer, _ := get(t, l.client(false), back, "Cookie", nonce.Name+"="+nonce.Value); answer.StatusCode != 401 {
		t.Errorf("the client gets %d to %s", answer.StatusCode, answer.Header.Get("Location"))
	}
}

func TestLargeSessionsHaveSeveralCookies(t *testing.T) {
	t.Parallel()
	l := newLoginRig(t)
	l.issuer.claims = `{"sub":"user-1","x":"` + strings.Repeat("x", 10<<10) + `"}`
	if n := len(l.login().Cookies()); n != 4 {
		t.Errorf("the session has %d cookies", n)
	}
	answer, text := get(t, l.browser, "https://a.example/")
	if text != "/" || answer.Header.Get(headerIdentity) != "user-1" {
		t.Errorf("the target sees %q with %v", text, answer.Header)
	}
	// A shorter session leaves nothing of a longer one.
	l.issuer.claims = `{"sub":"user-1"}`
	l.passed.Store(int64(2 * time.Hour))
	get(t, l.browser, "https://a.example/")
	if answer, _ := get(t, l.browser, "https://a.example/"); answer.Header.Get(headerIdentity) != "user-1" {
		t.Errorf("the target sees %v", answer.Header)
	}
}
