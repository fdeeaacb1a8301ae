package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

const wrongSignature = "The request signature we calculated does not match the signature you provided. " +
	"Check your AWS Secret Access Key and signing method. Consult the service documentation for details."

// Verify reports whether the request with this body was signed with the secret key, and whether it is in time.
// The body is nil for a detached URL. The comparison takes the same time whatever the difference.
func (s *Signature) Verify(body []byte, secret string, now time.Time) error {
	if err := s.CheckTime(now); err != nil {
		return err
	}
	payloadHash, err := s.payloadHash(body)
	if err != nil {
		return err
	}
	return s.verify(payloadHash, secret, now)
}

// verify reports whether a request whose payload has that hash was signed with the secret key, and whether it is in
// time.
func (s *Signature) verify(payloadHash, secret string, now time.Time) error {
	if secret == "" { // anybody could have signed with it
		return mismatch(wrongSignature)
	}
	if err := s.CheckTime(now); err != nil {
		return err
	}
	canonical := sha256.Sum256(s.canonicalRequest(payloadHash))
	toSign := Algorithm + "\n" + s.Date.Format(DateFormat) + "\n" + s.Scope() + "\n" + hex.EncodeToString(canonical[:])
	scope := signingScope{secret, s.scopeDate, s.Region, s.Service}
	key, known := signingKeys.get(scope)
	if !known {
		key = deriveKey(scope)
	}
	want := hex.EncodeToString(hmacSHA256(key, toSign))
	if subtle.ConstantTimeCompare([]byte(want), []byte(s.signature)) != 1 {
		return mismatch(wrongSignature)
	}
	if !known {
		signingKeys.remember(scope, key) // only now: a stranger cannot fill the cache
	}
	return nil
}

// CheckTime refuses what was signed too long ago, or lies ahead of our clock by more than clocks may differ. Verify
// does so, too: this is for those who want to know before they have the body.
func (s *Signature) CheckTime(now time.Time) error {
	now = now.UTC()
	if s.Date.After(now.Add(ClockSkew)) {
		return mismatch("Signature not yet current: %s is still later than %s (%s + 15 min.)",
			s.Date.Format(DateFormat), now.Add(ClockSkew).Format(DateFormat), now.Format(DateFormat))
	}
	life := ClockSkew
	// STS lets a presigned GetCallerIdentity live for fifteen minutes even when it asks for less: aws eks get-token
	// asks for sixty seconds, and its users keep the token for fourteen minutes.
	if s.Presigned && (s.Service != "sts" || s.Expires > ClockSkew) {
		life = s.Expires
	}
	if earliest := now.Add(-life); s.Date.Before(earliest.Truncate(time.Second)) {
		return mismatch("Signature expired: %s is now earlier than %s (%s - %s)",
			s.Date.Format(DateFormat), earliest.Format(DateFormat), now.Format(DateFormat), minutes(life))
	}
	return nil
}

func minutes(d time.Duration) string {
	if d%time.Minute == 0 {
		return fmt.Sprintf("%d min.", d/time.Minute)
	}
	return d.String()
}

// payloadHash returns the last line of the canonical request. We hash the body ourselves; what the client says in
// X-Amz-Content-Sha256 counts only where it leaves the body out of the signature, which no one but the signer can
// decide.
func (s *Signature) payloadHash(body []byte) (string, error) {
	declared := s.header.Get("X-Amz-Content-Sha256")
	if declared == "" && s.Presigned {
		declared = s.queryValue("X-Amz-Content-Sha256")
		if declared == "" && s.Service == "s3" {
			declared = UnsignedPayload
		}
	}
	switch {
	case declared == UnsignedPayload:
		return UnsignedPayload, nil
	case strings.HasPrefix(declared, "STREAMING-"):
		return "", &Error{Code: NotImplemented, Status: http.StatusNotImplemented,
			Message: "A header you provided implies functionality that is not implemented: x-amz-content-sha256: " +
				declared}
	}
	sum := sha256.Sum256(body)
	computed := hex.EncodeToString(sum[:])
	if s.Service == "s3" && declared != "" && declared != computed {
		return "", &Error{Code: XAmzContentSHA256Mismatch, Status: http.StatusBadRequest,
			Message: "The provided 'x-amz-content-sha256' header does not match what was computed."}
	}
	return computed, nil
}

type signingScope struct{ secret, date, region, service string }

// signingKeys remembers derived keys: deriving one costs four HMACs, and a client uses the same key for a day.
var signingKeys = keyCache{keys: map[signingScope][]byte{}}

const maxSigningKeys = 4096

type keyCache struct {
	mu   sync.RWMutex
	keys map[signingScope][]byte
}

func (c *keyCache) get(scope signingScope) ([]byte, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	key, ok := c.keys[scope]
	return key, ok
}

func (c *keyCache) remember(scope signingScope, key []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.keys) >= maxSigningKeys {
		clear(c.keys) // yesterday's keys, mostly; the live ones are back after one request each
	}
	c.keys[scope] = key
}

func deriveKey(scope signingScope) []byte {
	key := hmacSHA256([]byte("AWS4"+scope.secret), scope.date)
	for _, part := range []string{scope.region, scope.service, terminator} {
		key = hmacSHA256(key, part)
	}
	return key
}

func hmacSHA256(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
