package forward

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5" //nolint:gosec // what S3 asks for
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/aws/wire/sigv4"
	"github.com/coracle-eks/coracle/internal/connlimit"
	"github.com/coracle-eks/coracle/internal/outbound"
)

const (
	connectTimeout = 3 * time.Second
	// answerTimeout limits the time until an endpoint begins its answer, once it has the whole request.
	answerTimeout = 2 * time.Minute
	idleTimeout   = 30 * time.Second
	maxIdle       = 64
	maxHeader     = 256 << 10
)

// newTransport returns the transport of requests to endpoints. Their hosts are the operator's choice, so there is no
// policy about addresses, and no proxy in between.
func newTransport() *http.Transport {
	dialer := net.Dialer{Timeout: connectTimeout, KeepAlive: idleTimeout, Control: connlimit.BoundBuffers}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    connectTimeout,
		ResponseHeaderTimeout:  answerTimeout,
		ExpectContinueTimeout:  time.Second,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConnsPerHost:    maxIdle,
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true, // answers are passed on as they are
	}
}

// sentHeaders are the headers of requests that are sent on, beside those that begin with x-amz-.
var sentHeaders = []string{
	"Accept", "Accept-Encoding", "Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language",
	"Content-Md5", "Content-Type", "Expires", "If-Match", "If-Modified-Since", "If-None-Match", "If-Unmodified-Since",
	"Range",
}

// ownHeaders are headers of S3 that are of the signature or the coding of the payload, which are made anew.
var ownHeaders = []string{
	"X-Amz-Content-Sha256", "X-Amz-Date", "X-Amz-Decoded-Content-Length", "X-Amz-Security-Token", "X-Amz-Trailer",
}

// hopHeaders are headers of one connection.
// https://www.rfc-editor.org/rfc/rfc9110#name-connection
var hopHeaders = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// send sends a request to an endpoint, and answers it by what the endpoint answers.
func (f *Forwarder) send(ctx context.Context, w http.ResponseWriter, r *wire.Forwarded, e Endpoint, c *call,
	at access) error {
	isS3 := e.Service.wire.Protocol == wire.RestXML
	// The path is encoded as signatures of S3 have it, whatever the client had.
	to := &url.URL{Scheme: e.URL.Scheme, Host: e.URL.Host, Path: c.path, RawPath: encodePath(c.path),
		RawQuery: strings.ReplaceAll(url.Values(c.query).Encode(), "+", "%20")}
	out, err := http.NewRequestWithContext(ctx, r.Method, to.String(), nil)
	if err != nil {
		return err
	}
	out.URL = to
	copyHeaders(out.Header, r.Header, c.header, isS3)
	var hash string
	if isS3 {
		hash, err = setPayload(out, r.Payload, c.body)
	} else {
		hash = setJSON(out, c.body)
	}
	if err != nil {
		return err
	}
	if isS3 {
		out.Header.Set("X-Amz-Content-Sha256", hash)
	}
	if err := at.sign(ctx, out, hash, e); err != nil {
		return err
	}
	response, err := f.transport.RoundTrip(out)
	if err != nil {
		if r.Payload != nil && r.Payload.Err() != nil {
			return wire.UnreadablePayload(r.Payload.Err())
		}
		var refused *wire.Error // the end of the payload
		if errors.As(err, &refused) {
			return refused
		}
		if r.Context().Err() != nil {
			return r.Context().Err()
		}
		return f.unavailable(ctx, e, err)
	}
	defer response.Body.Close()
	if err := f.checkCredentials(ctx, e, response); err != nil {
		return err
	}
	writeHeader(w, response)
	if r.Method == http.MethodHead {
		return nil
	}
	_, err = io.Copy(w, response.Body)
	return err
}

// maxRefusal is the number of bytes in which the code of an endpoint's error is looked for.
const maxRefusal = 16 << 10

var (
	errorCode = regexp.MustCompile(`<Code>(\w+)</Code>|"__type"\s*:\s*"(?:[^"#]*#)?(\w+)"`)
	// credentialCodes are those with which an endpoint refuses a signature, which is never the client's.
	credentialCodes = map[string]bool{
		"AuthorizationHeaderMalformed": true, "ExpiredToken": true, "ExpiredTokenException": true,
		"IncompleteSignatureException": true, "InvalidAccessKeyId": true, "InvalidClientTokenId": true,
		"InvalidSignatureException": true, "InvalidToken": true, "RequestTimeTooSkewed": true,
		"SignatureDoesNotMatch": true, "UnrecognizedClientException": true,
	}
)

// refusedCredentials returns the code of the error with which an endpoint refuses the signature of a request; empty
// when it does not. Clients would take it for a refusal of theirs, and such errors quote parts of what was signed.
func refusedCredentials(response *http.Response) string {
	switch response.StatusCode {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
	default:
		return ""
	}
	begin, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusal)) // who reads on gets the error again
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(begin), response.Body), response.Body}
	if code := codeIn(begin); credentialCodes[code] {
		return code
	}
	return ""
}

// codeIn returns the code of an endpoint's error; empty when it has none.
func codeIn(answer []byte) string {
	found := errorCode.FindSubmatch(answer)
	if found == nil {
		return ""
	}
	return string(found[1]) + string(found[2])
}

// checkCredentials returns the error for an endpoint that refuses the signature of a request.
func (f *Forwarder) checkCredentials(ctx context.Context, e Endpoint, response *http.Response) error {
	code := refusedCredentials(response)
	if code == "" {
		return nil
	}
	f.options.Log.WarnContext(ctx, "an endpoint refuses its credentials", "service", e.Service.Name, "endpoint",
		e.URL.String(), "code", code)
	return &wire.Error{Code: "ServiceUnavailable", Status: http.StatusServiceUnavailable, Message: fmt.Sprintf(
		"The endpoint %s, to which coracle forwards requests for %s, refuses the credentials that coracle has for it "+
			"(%s): its operator finds them in forward-credentials", e.URL, e.Service.Name, code)}
}

// unavailable returns the error for an endpoint that does not answer.
func (f *Forwarder) unavailable(ctx context.Context, e Endpoint, err error) error {
	f.options.Log.WarnContext(ctx, "cannot forward a request", "service", e.Service.Name, "endpoint", e.URL.String(),
		"error", err)
	return &wire.Error{Code: "ServiceUnavailable", Status: http.StatusServiceUnavailable, Message: fmt.Sprintf(
		"The endpoint %s, to which coracle forwards requests for %s, does not answer: %s", e.URL, e.Service.Name,
		outbound.Reason(err))}
}

// access is what an account has at an endpoint.
type access struct {
	credentials aws.Credentials
	region      string // that requests are signed for
}

// accessTo returns what the caller's account has at an endpoint.
func (f *Forwarder) accessTo(ctx context.Context, e Endpoint) (access, error) {
	caller := wire.CallerFrom(ctx)
	credentials, region, err := f.options.Credentials(e.Service.Name, caller.Account)
	if err != nil {
		return access{}, noCredentials(e, caller.Account, err)
	}
	asked := wire.RegionFrom(ctx)
	if region != "" && region != asked && e.Service.Name != "s3" { // whose ARNs have no region
		return access{}, refuse("requests for %s in %s: forward-credentials has the endpoint in %s", e.Service.Name, asked,
			region)
	}
	return access{credentials, cmp.Or(region, asked)}, nil
}

// sign signs a request to an endpoint.
func (a access) sign(ctx context.Context, out *http.Request, hash string, e Endpoint) error {
	// A signer keeps the secret that it has seen of a key for a day, in which the operator may have written another.
	signer := v4.NewSigner(func(o *v4.SignerOptions) {
		o.DisableURIPathEscaping = e.Service.wire.Protocol == wire.RestXML
	})
	if err := signer.SignHTTP(ctx, a.credentials, out, hash, e.Service.Name, a.region, time.Now()); err != nil {
		return fmt.Errorf("sign a request for %s: %w", e.URL, err)
	}
	return nil
}

// noCredentials returns the error for an account that may not use an endpoint.
func noCredentials(e Endpoint, account string, err error) error {
	var none *NoCredentialsError
	if errors.As(err, &none) {
		code, status := "AccessDenied", http.StatusForbidden
		if e.Service.wire.Protocol != wire.RestXML {
			code, status = "AccessDeniedException", http.StatusBadRequest
		}
		return &wire.Error{Code: code, Status: status, Message: fmt.Sprintf("The account %s has no credentials at the "+
			"endpoint to which coracle forwards requests for %s: %s", account, e.Service.Name, none.Remedy)}
	}
	return fmt.Errorf("credentials of the account %s for %s: %w", account, e.URL, err)
}

// copyHeaders copies the headers of a request for Amazon S3 that are sent on. Those in changed replace others, and are
// all that other services get.
func copyHeaders(out, in http.Header, changed map[string]string, isS3 bool) {
	for name, values := range in {
		ofS3 := strings.HasPrefix(name, "X-Amz-") && !slices.Contains(ownHeaders, name)
		if isS3 && (ofS3 || slices.Contains(sentHeaders, name)) {
			out[name] = slices.Clone(values)
		}
	}
	for name, value := range changed {
		if value == "" {
			out.Del(name)
		} else {
			out.Set(name, value)
		}
	}
	out.Set("User-Agent", "coracle") // endpoints read more than a name in that of the client
	if encodings := out.Values("Content-Encoding"); isS3 && len(encodings) > 0 {
		var kept []string
		for one := range strings.SplitSeq(strings.Join(encodings, ","), ",") {
			if one = strings.TrimSpace(one); one != "" && !strings.EqualFold(one, awsChunked) {
				kept = append(kept, one)
			}
		}
		out.Del("Content-Encoding")
		if len(kept) > 0 {
			out.Set("Content-Encoding", strings.Join(kept, ","))
		}
	}
}

// awsChunked is the coding of payloads that have trailers, or signatures of their own.
const awsChunked = "aws-chunked"

// setBody gives a request a body, and returns its hash.
func setBody(out *http.Request, body []byte) string {
	out.Body, out.ContentLength = http.NoBody, int64(len(body))
	if len(body) > 0 {
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		out.Body = io.NopCloser(bytes.NewReader(body))
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// setPayload gives a request for Amazon S3 the payload of the client's, or body in its place, and returns what is
// signed of it.
func setPayload(out *http.Request, p *sigv4.Payload, body []byte) (hash string, err error) {
	if body != nil {
		for name := range out.Header {
			if strings.HasPrefix(name, "X-Amz-Checksum-") || name == "X-Amz-Sdk-Checksum-Algorithm" {
				out.Header.Del(name) // of what the client wrote
			}
		}
		sum := md5.Sum(body) //nolint:gosec // S3 asks for it
		out.Header.Set("Content-Md5", base64.StdEncoding.EncodeToString(sum[:]))
		return setBody(out, body), nil
	}
	switch {
	case p.Length < 0:
		return "", &wire.Error{Code: "MissingContentLength", Status: http.StatusLengthRequired,
			Message: "You must provide the Content-Length HTTP header."}
	case p.Length > maxObject:
		return "", &wire.Error{Code: "EntityTooLarge", Status: http.StatusBadRequest,
			Message: "Your proposed upload exceeds the maximum allowed size"}
	}
	if len(p.TrailerNames) > 0 {
		body := newChunked(p)
		length, ok := body.length()
		if !ok {
			return "", refuse("the trailers %s of S3", strings.Join(p.TrailerNames, ", "))
		}
		out.Body, out.ContentLength = io.NopCloser(body), length
		out.Header.Set("X-Amz-Decoded-Content-Length", strconv.FormatInt(p.Length, 10))
		out.Header.Set("X-Amz-Trailer", strings.Join(p.TrailerNames, ","))
		encoding := awsChunked
		if more := out.Header.Get("Content-Encoding"); more != "" {
			encoding += "," + more
		}
		out.Header.Set("Content-Encoding", encoding)
		return "STREAMING-UNSIGNED-PAYLOAD-TRAILER", nil
	}
	if p.Length == 0 {
		if _, err := io.Copy(io.Discard, p); err != nil { // verifies that it is empty
			return "", wire.UnreadablePayload(err)
		}
		out.Body = http.NoBody
		return p.Hash, nil
	}
	out.Body, out.ContentLength = io.NopCloser(p), p.Length
	return p.Hash, nil
}

// writeHeader begins the answer with that of an endpoint.
func writeHeader(w http.ResponseWriter, response *http.Response) {
	header := w.Header()
	skipped := slices.Clone(hopHeaders)
	for one := range strings.SplitSeq(strings.Join(response.Header.Values("Connection"), ","), ",") {
		skipped = append(skipped, http.CanonicalHeaderKey(strings.TrimSpace(one)))
	}
	for name, values := range response.Header {
		if !slices.Contains(skipped, name) {
			header[name] = slices.Clone(values)
		}
	}
	header.Add("Via", "1.1 coracle") // says whose answer it is
	w.WriteHeader(response.StatusCode)
}

const upperHex = "0123456789ABCDEF"

// encodePath encodes a path as signatures of S3 have it: all but the unreserved characters and slashes.
func encodePath(path string) string {
	var b strings.Builder
	for i := range len(path) {
		c := path[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.~/", c) >= 0 {
			b.WriteByte(c)
		} else {
			b.WriteString("%" + string(upperHex[c>>4]) + string(upperHex[c&15]))
		}
	}
	return b.String()
}
