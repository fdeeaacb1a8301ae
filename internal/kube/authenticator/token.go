package authenticator

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	tokenPrefix = "k8s-aws-v1."
	// clusterHeader binds a token to one cluster.
	clusterHeader = "x-k8s-aws-id"
	// maxToken is far above what a presigned URL with a session token needs, in bytes.
	maxToken = 16 << 10
	// tokenLife is the lifetime that STS gives a presigned GetCallerIdentity whatever its X-Amz-Expires.
	tokenLife = 15 * time.Minute
	// clockSkew is the time by which the signer's clock may be ahead of ours; STS allows as much.
	clockSkew = 5 * time.Minute
	amzDate   = "20060102T150405Z"
)

// Token is a bearer token that has the right form. Only STS can say whether it is genuine.
type Token struct {
	URL         string // the presigned request
	Host        string // as signed, with its port if it has one
	AccessKeyID string
	SignedAt    time.Time
}

// TokenError describes a malformed token.
type TokenError struct{ reason string }

func (e *TokenError) Error() string { return "input token was not properly formatted: " + e.reason }

func malformed(format string, args ...any) error {
	return &TokenError{fmt.Sprintf(format, args...)}
}

// parameters are the query parameters that a token may have, in lower case.
var parameters = map[string]bool{
	"action": true, "version": true,
	"x-amz-algorithm": true, "x-amz-credential": true, "x-amz-date": true, "x-amz-expires": true,
	"x-amz-security-token": true, "x-amz-signature": true, "x-amz-signedheaders": true,
}

// ParseToken checks the form of a token. own tells which hosts are this daemon's endpoint; the
// names of AWS's STS are always allowed, because a client may have them signed and resolve them
// to us. Errors are of type *[TokenError].
func ParseToken(text string, now time.Time, own func(host string) bool) (Token, error) {
	if len(text) > maxToken {
		return Token{}, malformed("token is too large: %d bytes, at most %d are accepted", len(text), maxToken)
	}
	encoded, ok := strings.CutPrefix(text, tokenPrefix)
	if !ok {
		return Token{}, malformed("token is missing expected %q prefix", tokenPrefix)
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(encoded, "="))
	if err != nil {
		return Token{}, malformed("%v", err)
	}
	u, err := url.Parse(string(raw))
	if err != nil {
		// The URL itself carries a signature: it is not repeated in errors.
		return Token{}, malformed("the pre-signed URL cannot be parsed")
	}
	if err := checkEndpoint(u, own); err != nil {
		return Token{}, err
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Token{}, malformed("malformed query parameter")
	}
	values := map[string]string{}
	for key, all := range query {
		lower := strings.ToLower(key)
		if !parameters[lower] {
			return Token{}, malformed("non-whitelisted query parameter %q", key)
		}
		if _, seen := values[lower]; seen {
			return Token{}, malformed("duplicate query parameter found: %q", key)
		}
		if len(all) != 1 {
			return Token{}, malformed("query parameter with multiple values not supported: %q", key)
		}
		values[lower] = all[0]
	}
	if action := values["action"]; action != "GetCallerIdentity" {
		return Token{}, malformed("unexpected action parameter in pre-signed URL: %q", action)
	}
	if !isSignedHeader(values["x-amz-signedheaders"], clusterHeader) {
		return Token{}, malformed("client did not sign the %s header in the pre-signed URL", clusterHeader)
	}
	expires, err := strconv.Atoi(values["x-amz-expires"])
	if err != nil || expires < 0 || expires > int(tokenLife.Seconds()) {
		return Token{}, malformed("invalid X-Amz-Expires parameter in pre-signed URL: %q", values["x-amz-expires"])
	}
	date := values["x-amz-date"]
	if date == "" {
		return Token{}, malformed("X-Amz-Date parameter must be present in pre-signed URL")
	}
	signedAt, err := time.Parse(amzDate, date)
	if err != nil {
		return Token{}, malformed("error parsing X-Amz-Date parameter %q into format %s", date, amzDate)
	}
	if now.After(signedAt.Add(tokenLife)) {
		return Token{}, malformed("X-Amz-Date parameter is expired (%.f minute expiration) %s", tokenLife.Minutes(),
			signedAt)
	}
	if signedAt.After(now.Add(clockSkew)) {
		return Token{}, malformed("X-Amz-Date parameter is in the future: %s", signedAt)
	}
	accessKeyID, _, _ := strings.Cut(values["x-amz-credential"], "/")
	if accessKeyID == "" {
		return Token{}, malformed("X-Amz-Credential parameter must be present in pre-signed URL")
	}
	return Token{URL: u.String(), Host: u.Host, AccessKeyID: accessKeyID, SignedAt: signedAt}, nil
}

// checkEndpoint checks where the presigned request is addressed to. The request never leaves
// the process, so a foreign host could not answer it; it is refused because it shows that the
// token was made for something else.
func checkEndpoint(u *url.URL, own func(string) bool) error {
	sts := isSTSHost(u.Host)
	switch {
	case u.Host == "" || u.Opaque != "":
		return malformed("the pre-signed URL has no host")
	case u.User != nil:
		return malformed("unexpected user information in pre-signed URL")
	case !sts && (own == nil || !own(u.Host)):
		return malformed("unexpected hostname %q in pre-signed URL", u.Host)
	case u.Scheme != "https" && (sts || u.Scheme != "http"):
		return malformed("unexpected scheme %q in pre-signed URL", u.Scheme)
	case u.Path != "/" && (u.Path != "" || sts):
		// An SDK whose endpoint was given without a trailing slash may leave the path empty.
		return malformed("unexpected path in pre-signed URL")
	case u.Fragment != "":
		return malformed("unexpected fragment in pre-signed URL")
	}
	return nil
}

// isSTSHost reports whether host is a name of AWS's STS: global, regional, FIPS or dual-stack.
// https://docs.aws.amazon.com/general/latest/gr/sts.html
func isSTSHost(host string) bool {
	if host == "sts.amazonaws.com" {
		return true
	}
	name, rest, ok := strings.Cut(host, ".")
	if !ok || name != "sts" && name != "sts-fips" {
		return false
	}
	region, domain, ok := strings.Cut(rest, ".")
	if !ok || !isRegion(region) {
		return false
	}
	switch domain {
	case "amazonaws.com", "amazonaws.com.cn", "api.aws":
		return true
	}
	return false
}

func isRegion(s string) bool {
	if s == "" || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

func isSignedHeader(signedHeaders, header string) bool {
	for h := range strings.SplitSeq(signedHeaders, ";") {
		if strings.EqualFold(h, header) {
			return true
		}
	}
	return false
}
