// Package sigv4 verifies AWS Signature Version 4 on requests that arrive.
//
// The life of a check has two steps, with the caller's look-up of the secret key between them:
//
//	sig, err := sigv4.Parse(req)              // who claims to have signed this, when, and for what?
//	secret := lookUp(sig.AccessKeyID)         // the caller's business
//	err = sig.Verify(body, secret, now)       // is the claim true, and is it in time?
//
// Both forms are understood: the Authorization header, and the presigned query string. ParseURL takes a presigned URL
// that was not sent to us as a request, such as the one inside a k8s-aws-v1 token.
//
// Every error is an *Error with AWS's own code and wording. The package reads the request and nothing else: which
// access keys exist, which regions and services are right, and what session tokens mean is decided by its callers.
//
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
package sigv4

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// Algorithm is the only signing algorithm that is accepted.
	Algorithm = "AWS4-HMAC-SHA256"
	// UnsignedPayload in X-Amz-Content-Sha256 says that the body is not covered by the signature.
	UnsignedPayload = "UNSIGNED-PAYLOAD"
	// DateFormat is ISO 8601 basic format, as in X-Amz-Date; always UTC.
	DateFormat = "20060102T150405Z"

	// ClockSkew limits the difference between the date of a request and our clock, in either direction.
	ClockSkew = 15 * time.Minute
	// MaxExpires is the longest life that a presigned URL may ask for.
	MaxExpires = 7 * 24 * time.Hour

	// maxSignedHeaders bounds the work that a stranger's request makes: each signed header is looked for among all that
	// it has.
	maxSignedHeaders = 256

	terminator  = "aws4_request"
	shortFormat = "20060102"
)

// Signature holds what a request declares about its signature, none of it proven before Verify returns nil.
type Signature struct {
	AccessKeyID   string
	Date          time.Time // when it was signed, from X-Amz-Date or Date
	Region        string    // from the credential scope
	Service       string    // signing name from the credential scope: "eks", "sts", ...
	SignedHeaders []string  // lower case, in the order of the request
	Presigned     bool
	Expires       time.Duration // presigned only: what X-Amz-Expires says, ClockSkew without it
	SessionToken  string        // X-Amz-Security-Token; empty for long-term keys

	scopeDate string // YYYYMMDD of the credential scope
	signature string // lower-case hex

	method, path, query, host string // as sent; path and query are still percent-encoded
	header                    http.Header
	contentLength             int64
	transferEncoding          []string
}

// Parse reads the signature of a request. It does not touch the body.
// A request without any signature is an *Error with code MissingAuthenticationToken.
func Parse(r *http.Request) (*Signature, error) {
	s := &Signature{
		method: r.Method, path: r.URL.EscapedPath(), query: r.URL.RawQuery, host: r.Host, header: r.Header,
		contentLength: r.ContentLength, transferEncoding: r.TransferEncoding,
	}
	if s.method == "" {
		s.method = http.MethodGet
	}
	if s.host == "" {
		s.host = r.URL.Host
	}
	// The path of the request line was signed; URL.EscapedPath normalizes the encoding of some bytes.
	if strings.HasPrefix(r.RequestURI, "/") {
		s.path, _, _ = strings.Cut(r.RequestURI, "?")
	}
	if authorization := r.Header.Get("Authorization"); authorization != "" {
		return s, s.parseHeader(authorization)
	}
	return s, s.parseQuery()
}

// IsVersion2 reports whether a request is signed by version 2, as botocore still presigns URLs of Amazon S3 at
// endpoints that are not Amazon's.
func IsVersion2(r *http.Request) bool {
	query := r.URL.Query()
	return strings.HasPrefix(r.Header.Get("Authorization"), "AWS ") ||
		query.Has("AWSAccessKeyId") && query.Has("Signature") && !query.Has("SignatureVersion") // that of other services
}

// ParseURL reads the signature of a presigned GET that travels detached from a request. The header set holds what the
// holder of the URL says was signed beside it, for example x-k8s-aws-id; Host comes from the URL.
func ParseURL(u *url.URL, header http.Header) (*Signature, error) {
	s := &Signature{method: http.MethodGet, path: u.EscapedPath(), query: u.RawQuery, host: u.Host, header: header,
		contentLength: -1}
	return s, s.parseQuery()
}

// Signs reports whether the named header is covered by the signature.
func (s *Signature) Signs(header string) bool {
	return slices.Contains(s.SignedHeaders, strings.ToLower(header))
}

// Scope returns the credential scope, for example "20261121/us-east-1/eks/aws4_request".
func (s *Signature) Scope() string {
	return s.scopeDate + "/" + s.Region + "/" + s.Service + "/" + terminator
}

func (s *Signature) parseHeader(authorization string) error {
	algorithm, rest, _ := strings.Cut(authorization, " ")
	if algorithm != Algorithm && strings.HasPrefix(algorithm, "AWS") {
		return incomplete("Unsupported AWS 'algorithm': '%s' (only %s is accepted).", algorithm, Algorithm)
	}
	var credential, signedHeaders string
	for part := range strings.SplitSeq(rest, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			return incomplete(
				"Invalid key=value pair (missing equal-sign) in Authorization header (hashed with SHA-256 and "+
					"encoded with Base64): '%s'.", headerDigest(authorization))
		}
		switch key {
		case "Credential":
			credential = value
		case "SignedHeaders":
			signedHeaders = value
		case "Signature":
			s.signature = value
		}
	}
	var missing []string
	for _, p := range []struct{ name, value string }{{"Credential", credential}, {"Signature", s.signature},
		{"SignedHeaders", signedHeaders}} {
		if p.value == "" {
			missing = append(missing, "Authorization header requires '"+p.name+"' parameter.")
		}
	}
	date := s.header.Get("X-Amz-Date")
	if date == "" {
		date = s.header.Get("Date")
	}
	if date == "" {
		missing = append(missing,
			"Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header.")
	}
	if len(missing) > 0 {
		return incomplete("%s (Hashed with SHA-256 and encoded with Base64) Authorization=%s",
			strings.Join(missing, " "), headerDigest(authorization))
	}
	s.SessionToken = s.header.Get("X-Amz-Security-Token")
	return s.parseParts(credential, signedHeaders, date)
}

func (s *Signature) parseQuery() error {
	get := s.queryValue
	algorithm, credential, signature := get("X-Amz-Algorithm"), get("X-Amz-Credential"), get("X-Amz-Signature")
	if algorithm == "" && credential == "" && signature == "" {
		return &Error{Code: MissingAuthenticationToken, Message: "Request is missing Authentication Token",
			Status: http.StatusForbidden}
	}
	s.Presigned = true
	s.signature = signature
	signedHeaders, date, expires := get("X-Amz-SignedHeaders"), get("X-Amz-Date"), get("X-Amz-Expires")
	if date == "" {
		date = s.header.Get("X-Amz-Date")
	}
	var missing []string
	for _, p := range []struct{ name, value string }{
		{"Algorithm", algorithm}, {"Credential", credential}, {"Signature", signature},
		{"SignedHeaders", signedHeaders}, {"Date", date},
	} {
		if p.value == "" {
			missing = append(missing, "AWS query-string parameters must include 'X-Amz-"+p.name+"'.")
		}
	}
	if len(missing) > 0 {
		return incomplete("%s Re-examine the query-string parameters.", strings.Join(missing, " "))
	}
	if algorithm != Algorithm {
		return incomplete("Unsupported AWS 'algorithm': '%s' (only %s is accepted).", algorithm, Algorithm)
	}
	s.SessionToken = strings.Clone(get("X-Amz-Security-Token")) // as the credential
	if s.SessionToken == "" {
		s.SessionToken = s.header.Get("X-Amz-Security-Token")
	}
	if err := s.parseParts(credential, signedHeaders, date); err != nil {
		return err
	}
	if expires == "" {
		if s.Service == "s3" {
			return queryError(s.Service,
				"Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, "+
					"X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters.")
		}
		s.Expires = ClockSkew
		return nil
	}
	seconds, err := strconv.ParseInt(expires, 10, 64)
	switch {
	case err != nil:
		return queryError(s.Service, "X-Amz-Expires should be a number")
	case seconds < 0:
		return queryError(s.Service, "X-Amz-Expires must be non-negative")
	case seconds > int64(MaxExpires/time.Second):
		return queryError(s.Service,
			"X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than "+
				"604800 seconds")
	}
	s.Expires = time.Duration(seconds) * time.Second
	return nil
}

// parseParts reads what both forms have.
func (s *Signature) parseParts(credential, signedHeaders, date string) error {
	// Of their own: who signed is remembered, and a part of the header would keep all of that in memory.
	scope := strings.Split(strings.Clone(credential), "/")
	if len(scope) != 5 || scope[0] == "" {
		return incomplete(
			"Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, got '%s'",
			credential)
	}
	s.AccessKeyID, s.scopeDate, s.Region, s.Service = scope[0], scope[1], scope[2], scope[3]
	if scope[4] != terminator {
		return mismatch("Credential should be scoped with a valid terminator: '%s', not '%s'.", terminator, scope[4])
	}
	t, err := parseDate(date)
	if err != nil {
		return incomplete(
			"Date must be in ISO-8601 'basic format'. Got '%s'. See http://en.wikipedia.org/wiki/ISO_8601", date)
	}
	s.Date = t
	if day := t.Format(shortFormat); day != s.scopeDate {
		return mismatch(
			"Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '%s' != '%s', "+
				"from '%s'.",
			s.scopeDate, day, t.Format(DateFormat))
	}
	s.SignedHeaders = strings.SplitN(strings.ToLower(signedHeaders), ";", maxSignedHeaders+1)
	if len(s.SignedHeaders) > maxSignedHeaders {
		return incomplete("SignedHeaders has more than %d headers; sign fewer of them.", maxSignedHeaders)
	}
	return s.checkCoverage()
}

// checkCoverage refuses a signature that leaves out a header which changes what the request means: an attacker who saw
// one request could otherwise add, say, another X-Amz-Target to it.
func (s *Signature) checkCoverage() error {
	if !s.Signs("host") && !s.Signs(":authority") {
		return mismatch("'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization.")
	}
	for name := range s.header {
		// The payload hash is part of the canonical request whether or not its header is listed.
		if !hasPrefixFold(name, "x-amz-") || strings.EqualFold(name, "x-amz-content-sha256") || s.Signs(name) {
			continue
		}
		return mismatch("'%s' must be a 'SignedHeader' in the AWS Authorization.", name)
	}
	return nil
}

// parseDate accepts ISO 8601 basic format, and what RFC 9110 allows in a Date header.
func parseDate(date string) (time.Time, error) {
	t, err := time.Parse(DateFormat, date)
	if err == nil {
		return t, nil
	}
	if t, httpErr := http.ParseTime(date); httpErr == nil {
		return t.UTC(), nil
	}
	return time.Time{}, err
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
