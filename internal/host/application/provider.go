package application

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"os"
	"reflect"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/coracle-eks/coracle/internal/outbound"
	"github.com/coracle-eks/coracle/internal/sizedcache"
)

// Bounds of what providers answer, and of the requests to them.
const (
	providerTime = 10 * time.Second
	providerBody = 64 << 10
	// providerHeader bounds the header of an answer, which stays while its body comes. Decoded, it has room in what a
	// request counts for (internal/connlimit).
	providerHeader = 16 << 10
	// mostLogins is the number of requests to providers that a listener has under way.
	mostLogins = 16
	// maxClaims is the size of the access token and the claims of a user together.
	// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-authenticate-users.html
	maxClaims = 11 << 10
	// refreshedSize bounds the sessions of a listener that were refreshed and whose clients do not have the new cookie
	// yet, and refreshedTime the time for which they are kept.
	refreshedSize = 256 << 10
	refreshedTime = time.Minute
)

// provider sends requests to the providers of a listener.
type provider struct {
	policy    outbound.Policy
	client    *http.Client
	count     func() (release func(), ok bool) // a connection, for the load balancer
	slots     chan struct{}
	refreshes singleflight.Group
	refreshed *sizedcache.Cache[string, *session]
}

// closing sends each request by a connection of its own: one that waits for the next would count for nobody.
type closing struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (c closing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Close = true
	return c.RoundTripper.RoundTrip(r)
}

// providerFor returns the provider for a policy. mu is held.
func (s *Server) providerFor(policy outbound.Policy) *provider {
	if s.provider == nil || !reflect.DeepEqual(s.provider.policy, policy) {
		client := outbound.Client(outbound.Options{Policy: policy, MaxBody: providerBody, MaxHeader: providerHeader,
			Timeout: providerTime})
		client.Transport = closing{client.Transport}
		client.CheckRedirect = outbound.NoRedirects // secrets and tokens are for the endpoints that were configured
		s.provider = &provider{
			policy:    policy,
			client:    client,
			count:     func() (func(), bool) { return s.o.Acquire(netip.Addr{}) },
			slots:     make(chan struct{}, mostLogins),
			refreshed: sizedcache.New[string, *session](refreshedSize),
		}
	}
	return s.provider
}

// providerError reports what a provider did wrong, with the status that the client gets.
type providerError struct {
	status int
	reason string
	error
}

// acquire waits until the listener may send requests to a provider for one more user. The caller calls release.
func (p *provider) acquire(ctx context.Context) (release func(), err error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	leave, ok := p.count()
	if !ok {
		<-p.slots
		return nil, errShare
	}
	return func() { leave(); <-p.slots }, nil
}

// exchangeCode returns the session of a user by the code of a provider.
func (p *provider) exchangeCode(e *exchange, l *login, code string) (*session, error) {
	ctx, cancel := context.WithTimeout(context.WithValue(e, oauth2.HTTPClient, p.client), providerTime)
	defer cancel()
	release, err := p.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	token, err := l.oauth.Exchange(ctx, code, oauth2.SetAuthURLParam("redirect_uri", e.returnURL()))
	if err != nil {
		return nil, tokenError(err)
	}
	subject, err := l.verify(ctx, e.server.o.now, token)
	if err != nil {
		return nil, providerError{http.StatusUnauthorized, "AuthInvalidIdToken", err}
	}
	s := newSession(e.server.o.now(), token)
	return s, p.addClaims(ctx, l, s, subject)
}

// verify returns the subject of the ID token in the answer of a token endpoint. It came from there by TLS, so that its
// signature says no more: https://openid.net/specs/openid-connect-core-1_0.html#IDTokenValidation
func (l *login) verify(ctx context.Context, now func() time.Time, token *oauth2.Token) (subject string, err error) {
	text, ok := token.Extra("id_token").(string)
	if !ok {
		return "", errors.New("the provider returns no ID token")
	}
	verifier := oidc.NewVerifier(l.spec.Issuer, nil, &oidc.Config{ClientID: l.spec.ClientID,
		InsecureSkipSignatureCheck: true, Now: now})
	id, err := verifier.Verify(ctx, text)
	if err != nil {
		return "", err
	}
	return id.Subject, nil
}

// addClaims adds the claims of the user info endpoint to a session.
func (p *provider) addClaims(ctx context.Context, l *login, s *session, subject string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, l.spec.UserInfoEndpoint, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+s.AccessToken)
	r.Header.Set("Accept", "application/json")
	answer, err := p.client.Do(r)
	if err != nil {
		return userInfoError(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if errors.Is(err, outbound.ErrTooLarge) {
		return providerError{http.StatusInternalServerError, "AuthUserinfoResponseSizeExceeded", err}
	}
	if err != nil {
		return userInfoError(err)
	}
	if answer.StatusCode/100 != 2 {
		return providerError{statusAuthentication, "AuthUserinfoEpRequestFailed",
			fmt.Errorf("the user info endpoint answers %s", answer.Status)}
	}
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	var claims map[string]json.RawMessage
	var sub string
	if kind == "application/jwt" || json.Unmarshal(text, &claims) != nil ||
		json.Unmarshal(claims["sub"], &sub) != nil || sub == "" || subject != "" && sub != subject {
		return providerError{statusAuthentication, "AuthInvalidUserinfoResponse",
			errors.New("the user info endpoint answers no claims of the user")}
	}
	if len(text)+len(s.AccessToken) > maxClaims {
		return providerError{http.StatusInternalServerError, "AuthUserinfoResponseSizeExceeded", outbound.ErrTooLarge}
	}
	s.Subject, s.Claims = sub, text
	return nil
}

// tokenError returns the failure of a request to a token endpoint.
func tokenError(err error) error {
	var answered *oauth2.RetrieveError
	switch {
	case errors.As(err, &answered) && answered.ErrorCode == "invalid_grant":
		return providerError{statusAuthentication, "AuthInvalidGrantError", err}
	case errors.As(err, &answered) && answered.Response.StatusCode/100 != 2:
		return providerError{statusAuthentication, "AuthTokenEpRequestFailed", err}
	case timedOut(err):
		return providerError{http.StatusInternalServerError, "AuthTokenEpRequestTimeout", err}
	case unreachable(err):
		return providerError{http.StatusInternalServerError, "AuthTokenEpRequestFailed", err}
	}
	return providerError{statusAuthentication, "AuthInvalidTokenResponse", err}
}

// userInfoError returns the failure of a request to a user info endpoint.
func userInfoError(err error) error {
	if timedOut(err) {
		return providerError{http.StatusInternalServerError, "AuthUserinfoEpRequestTimeout", err}
	}
	return providerError{http.StatusInternalServerError, "AuthUserinfoEpRequestFailed", err}
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// unreachable reports whether no answer came.
func unreachable(err error) bool {
	var op *net.OpError
	var refused *outbound.RefusedError
	var name *net.DNSError
	return errors.As(err, &op) || errors.As(err, &refused) || errors.As(err, &name)
}
