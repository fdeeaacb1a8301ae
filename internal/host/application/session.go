package application

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

// Shards of the cookie of a session.
const (
	maxShards = 4
	shardSize = 3900 // what a browser takes of a cookie, without its name and attributes
)

// session is a user who is logged in. Its client has it, sealed, in cookies.
type session struct {
	Subject      string
	AccessToken  string
	RefreshToken string          `json:",omitempty"`
	Claims       json.RawMessage // of the user info endpoint
	TokenExpires int64           `json:",omitempty"` // Unix time; 0 if the access token does not expire
	Began        int64           // Unix time
	from         string          // the text of the cookies
}

func newSession(now time.Time, token *oauth2.Token) *session {
	s := &session{AccessToken: token.AccessToken, RefreshToken: token.RefreshToken, Began: now.Unix()}
	if !token.Expiry.IsZero() {
		s.TokenExpires = token.Expiry.Unix()
	}
	return s
}

// readSession returns the session in the client's cookies; nil if there is none. It reports whether there was one that
// has expired.
func (e *exchange) readSession(l *login) (s *session, expired bool) {
	var text strings.Builder
	for i := range maxShards {
		c, err := e.r.Cookie(l.spec.Cookie + "-" + strconv.Itoa(i))
		if err != nil {
			break
		}
		text.WriteString(c.Value)
	}
	if text.Len() == 0 {
		return nil, false
	}
	plain, err := e.state.seal.open(text.String(), "session "+l.purpose)
	s = &session{from: text.String()}
	if err != nil || json.Unmarshal(plain, s) != nil {
		e.reason = "AuthInvalidCookie"
		return nil, false
	}
	if e.server.o.now().Sub(time.Unix(s.Began, 0)) >= time.Duration(l.spec.Timeout)*time.Second {
		return nil, true
	}
	return s, false
}

// refreshSession returns a session with an access token that has not expired, if the provider gives refresh tokens. It
// fails when the provider has ended the session.
func (e *exchange) refreshSession(l *login, s *session) (*session, error) {
	now := e.server.o.now()
	if s.TokenExpires == 0 || s.RefreshToken == "" || now.Unix() < s.TokenExpires {
		return s, nil
	}
	p := l.provider
	sum := sha256.Sum256([]byte(s.from))
	key := string(sum[:])
	next, known := p.refreshed.Get(key)
	if !known || next.TokenExpires != 0 && now.Unix() >= next.TokenExpires {
		// The requests of a page come together. A refresh token may be good for one of them only.
		result, err, _ := p.refreshes.Do(key, func() (any, error) {
			next, err := p.refresh(e.server, l, s)
			if err == nil {
				p.remember(key, next, int64(2*len(s.from)))
			}
			return next, err
		})
		if err != nil {
			return nil, err
		}
		next = result.(*session)
	}
	e.writeSession(l, next)
	return next, nil
}

// remember keeps a session that was refreshed, for those who still have the earlier one, and forgets it again.
func (p *provider) remember(key string, next *session, size int64) {
	p.refreshed.Add(key, next, size)
	time.AfterFunc(refreshedTime, func() { p.refreshed.Remove(key) })
}

// refresh returns a session with a new access token. It does not end with the request that it is for: others wait for
// it, too.
func (p *provider) refresh(server *Server, l *login, s *session) (*session, error) {
	ctx, cancel := context.WithTimeout(context.WithValue(server.ctx, oauth2.HTTPClient, p.client), providerTime)
	defer cancel()
	release, err := p.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	token, err := l.oauth.TokenSource(ctx, &oauth2.Token{RefreshToken: s.RefreshToken}).Token()
	if err != nil {
		return nil, tokenError(err)
	}
	next := newSession(server.o.now(), token)
	next.Began = s.Began
	if next.RefreshToken == "" {
		next.RefreshToken = s.RefreshToken
	}
	return next, p.addClaims(ctx, l, next, s.Subject)
}

// writeSession gives the client the cookies of a session. It reports whether they are not too large.
func (e *exchange) writeSession(l *login, s *session) bool {
	plain, err := json.Marshal(s)
	if err != nil {
		return false
	}
	text := e.state.seal.seal(plain, "session "+l.purpose)
	if len(text) > maxShards*shardSize {
		return false
	}
	expires, site := e.server.o.now().Add(cookieLife), http.SameSiteDefaultMode
	if e.r.Header.Get("Origin") != "" {
		site = http.SameSiteNoneMode
	}
	for i := range maxShards {
		shard := text[:min(len(text), shardSize)]
		text = text[len(shard):]
		name := l.spec.Cookie + "-" + strconv.Itoa(i)
		c := &http.Cookie{Name: name, Value: shard, Path: "/", Expires: expires, Secure: true, HttpOnly: true, SameSite: site}
		if shard == "" {
			if _, err := e.r.Cookie(name); err != nil {
				continue
			}
			c.MaxAge, c.Expires = -1, time.Time{} // of a longer one
		}
		http.SetCookie(e.w, c)
	}
	return true
}
