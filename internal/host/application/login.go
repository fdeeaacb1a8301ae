package application

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

// loginPath is the path to which providers send clients back.
const loginPath = "/oauth2/idpresponse"

// loginTime is the time in which a client has to log in.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-authenticate-users.html
const loginTime = 15 * time.Minute

// cookieNonce is the cookie of a client that is logging in. The client that comes back must have it, so that nobody is
// logged in by a link of somebody else.
const cookieNonce = "AWSALBAuthNonce"

// login is an OIDC in the form in which requests need it.
type login struct {
	spec     OIDC
	provider *provider
	oauth    *oauth2.Config // which learns how the provider wants clients to authenticate
	purpose  string         // of what is sealed for it
}

func newLogin(spec OIDC, p *provider) *login {
	return &login{
		spec: spec, provider: p, purpose: strings.Join([]string{spec.Cookie, spec.Issuer, spec.ClientID}, "\x00"),
		oauth: &oauth2.Config{ClientID: spec.ClientID, ClientSecret: spec.ClientSecret,
			Endpoint: oauth2.Endpoint{AuthURL: spec.AuthorizationEndpoint, TokenURL: spec.TokenEndpoint}},
	}
}

// pending is a login that has begun. The provider gives it back to us as its state.
type pending struct {
	Login string // its purpose
	URL   string // where the client wanted to go
	Nonce string
	Begun int64 // Unix time
}

// failLogin answers that a login failed, with the reason for the access log.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-access-logs.html
func (e *exchange) failLogin(status int, reason string) {
	e.reason = reason
	e.answerError(status)
}

// authenticate performs an action authenticate-oidc, and reports whether the next one is to be performed.
func (e *exchange) authenticate(l *login) bool {
	s, expired := e.readSession(l)
	if s != nil {
		if s, err := e.refreshSession(l, s); err == nil {
			e.user = s
			return true
		}
		expired = true // the provider has logged the user out
	}
	switch {
	case l.spec.OnUnauthenticated == UnauthenticatedAllow:
		return true
	case l.spec.OnUnauthenticated == UnauthenticatedDeny && !expired:
		e.answerError(http.StatusUnauthorized)
		return false
	}
	e.startLogin(l)
	return false
}

// startLogin sends the client to the provider.
func (e *exchange) startLogin(l *login) {
	to, err := url.Parse(l.spec.AuthorizationEndpoint)
	if e.r.Host == "" {
		e.failLogin(http.StatusUnauthorized, "AuthMissingHostHeader")
		return
	}
	if err != nil {
		e.failLogin(http.StatusInternalServerError, "AuthUnhandledException")
		return
	}
	p := pending{Login: l.purpose, URL: "https://" + e.r.Host + e.r.URL.RequestURI(), Nonce: randomText(),
		Begun: e.server.o.now().Unix()}
	if c, err := e.r.Cookie(cookieNonce); err == nil && len(c.Value) == len(p.Nonce) {
		p.Nonce = c.Value // of a login in another window
	}
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // it has texts and numbers
	}
	if len(text) > maxLine/2 { // the provider could not give it back in a URL
		e.answerError(http.StatusRequestURITooLong)
		return
	}
	query := to.Query()
	for name, value := range l.spec.ExtraParams {
		query.Set(name, value)
	}
	query.Set("client_id", l.spec.ClientID)
	query.Set("redirect_uri", e.returnURL())
	query.Set("response_type", "code")
	query.Set("scope", l.spec.Scope)
	query.Set("state", e.state.seal.seal(text, "login"))
	to.RawQuery = query.Encode()
	http.SetCookie(e.w, &http.Cookie{Name: cookieNonce, Value: p.Nonce, Path: "/", Secure: true, HttpOnly: true,
		Expires: e.server.o.now().Add(loginTime), SameSite: http.SameSiteLaxMode})
	e.redirectTo(to.String())
}

// returnURL returns the URL to which the provider sends the client back.
func (e *exchange) returnURL() string {
	return (&url.URL{Scheme: "https", Host: e.r.Host, Path: loginPath}).String()
}

func (e *exchange) redirectTo(to string) {
	e.location = headerValue(to)
	e.w.Header().Set("Location", e.location)
	e.w.Header().Set("Cache-Control", "no-store")
	e.answerPage(http.StatusFound, "text/html", page(http.StatusFound))
}

// finishLogin logs in a client that comes back from a provider, and sends it where it wanted to go.
func (e *exchange) finishLogin() {
	e.actions = append(e.actions, "authenticate")
	query := e.r.URL.Query()
	if query.Get("state") == "" {
		e.failLogin(http.StatusUnauthorized, "AuthMissingStateParam")
		return
	}
	l, p := e.pendingLogin(query.Get("state"))
	if l == nil {
		e.failLogin(http.StatusUnauthorized, "AuthInvalidStateParam")
		return
	}
	if to, err := url.Parse(p.URL); err != nil || to.Host != e.r.Host { // it began elsewhere
		e.failLogin(http.StatusUnauthorized, "AuthInvalidStateParam")
		return
	}
	nonce, err := e.r.Cookie(cookieNonce)
	if err != nil || subtle.ConstantTimeCompare([]byte(nonce.Value), []byte(p.Nonce)) == 0 ||
		e.server.o.now().Sub(time.Unix(p.Begun, 0)) > loginTime {
		e.failLogin(http.StatusUnauthorized, "AuthInvalidCookie")
		return
	}
	switch query.Get("error") {
	case "":
	case "access_denied":
		e.answerError(http.StatusUnauthorized)
		return
	default:
		e.answerError(statusAuthentication)
		return
	}
	if query.Get("code") == "" {
		e.failLogin(http.StatusUnauthorized, "AuthMissingCodeParam")
		return
	}
	s, err := l.provider.exchangeCode(e, l, query.Get("code"))
	if err != nil {
		e.failProvider(err)
		return
	}
	if !e.writeSession(l, s) {
		e.failLogin(http.StatusInternalServerError, "AuthUserinfoResponseSizeExceeded")
		return
	}
	e.redirectTo(p.URL)
}

// pendingLogin returns the login that a state belongs to; nil if it is none of ours.
func (e *exchange) pendingLogin(sealed string) (*login, pending) {
	var p pending
	text, err := e.state.seal.open(sealed, "login")
	if err != nil || json.Unmarshal(text, &p) != nil {
		return nil, p
	}
	for _, l := range e.state.logins {
		if l.purpose == p.Login {
			return l, p
		}
	}
	return nil, p
}

// failProvider answers that a provider did not log in a user.
func (e *exchange) failProvider(err error) {
	var failure providerError
	if errors.As(err, &failure) {
		e.failLogin(failure.status, failure.reason)
		return
	}
	e.failLogin(http.StatusInternalServerError, "AuthUnhandledException")
}
