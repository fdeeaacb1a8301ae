package forward_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/aws/wire/sigv4"
	"github.com/coracle-eks/coracle/internal/eventually"
)

// answerWith has the endpoint answer in another way than by its objects.
func (f *fixture) answerWith(h http.HandlerFunc) { f.endpoint.Config.Handler = h }

// request returns one for an object, signed by the root user.
func (f *fixture) request(t *testing.T, method, path string, body io.Reader, size int64) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, f.plain.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = size
	sign(t, r, f.Root, "s3", sigv4.UnsignedPayload)
	return r
}

// Nobody keeps an object: its beginning arrives before its end has been sent.
func TestObjectsAreStreamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const part = 1 << 20
	began := make(chan struct{})
	f.answerWith(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			if _, err := io.ReadFull(r.Body, make([]byte, part)); err != nil {
				t.Error(err)
			}
			began <- struct{}{}
			if n, err := io.Copy(io.Discard, r.Body); n != part || err != nil {
				t.Errorf("%d bytes follow: %v", n, err)
			}
			return
		}
		w.Write(make([]byte, part)) //nolint:errcheck // the client says so
		<-began
		w.Write(make([]byte, part)) //nolint:errcheck // the client says so
	})
	out, in := io.Pipe()
	var sending sync.WaitGroup
	sending.Go(func() {
		const more = 64 << 10             // some bytes are held back
		in.Write(make([]byte, part+more)) //nolint:errcheck // the endpoint says so
		<-began                           // it has the first part
		in.Write(make([]byte, part-more)) //nolint:errcheck // the endpoint says so
		in.Close()                        //nolint:errcheck // never fails
	})
	if status, body := do(t, f.request(t, http.MethodPut, "/bkt/k", out, 2*part)); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	sending.Wait()
	response, err := http.DefaultClient.Do(f.request(t, http.MethodGet, "/bkt/k", nil, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.ReadFull(response.Body, make([]byte, part)); err != nil {
		t.Error(err)
	}
	began <- struct{}{}
	if n, err := io.Copy(io.Discard, response.Body); n != part || err != nil {
		t.Errorf("%d bytes follow: %v", n, err)
	}
}

// A transfer may take longer than the server has for other requests.
func TestTransfersOutliveTheServersLimits(t *testing.T) {
	t.Parallel()
	eventually.WithLimit(t, func(limit time.Duration) error { return transferPast(t, limit) })
}

// transferPast transfers objects for longer than the limits of the servers.
func transferPast(t *testing.T, limit time.Duration) error {
	f := newFixture(t)
	f.answerWith(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) //nolint:errcheck // the client says so
		<-time.After(2 * limit)     // what is tested is time that passes
		if r.Method == http.MethodGet {
			w.Write(make([]byte, 1<<20)) //nolint:errcheck // the client says so
			<-time.After(2 * limit)
			io.WriteString(w, "end") //nolint:errcheck // the client says so
		}
	})
	for _, isHTTP2 := range []bool{false, true} {
		s := httptest.NewUnstartedServer(f.plain.Config.Handler)
		s.Config.ReadTimeout, s.Config.WriteTimeout, s.EnableHTTP2 = limit, limit, isHTTP2
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		if isHTTP2 {
			s.StartTLS()
		} else {
			s.Start()
		}
		defer s.Close()
		for _, method := range []string{http.MethodPut, http.MethodGet} {
			r := f.request(t, method, "/bkt/k", strings.NewReader("content"), int64(len("content")))
			if method == http.MethodGet {
				r = f.request(t, method, "/bkt/k", nil, 0)
			}
			at, err := url.Parse(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			r.URL.Scheme, r.URL.Host = at.Scheme, at.Host // r.Host is signed
			response, err := s.Client().Do(r)
			if err != nil {
				return fmt.Errorf("%s: %w", method, err)
			}
			body, err := io.ReadAll(response.Body)
			response.Body.Close()
			if err != nil || response.StatusCode != http.StatusOK {
				return fmt.Errorf("%s by %s: %s after %d bytes: %w", method, response.Proto, response.Status, len(body), err)
			}
		}
	}
	return nil
}

// signedChunks encodes a payload as clients do that sign each chunk.
func signedChunks(r *http.Request, secret string, chunks ...string) string {
	mac := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	sum := func(text string) string {
		s := sha256.Sum256([]byte(text))
		return hex.EncodeToString(s[:])
	}
	signature, _ := sigv4.Parse(r)
	key := []byte("AWS4" + secret)
	for part := range strings.SplitSeq(signature.Scope(), "/") {
		key = mac(key, part)
	}
	_, previous, _ := strings.Cut(r.Header.Get("Authorization"), "Signature=")
	var b strings.Builder
	for _, chunk := range append(chunks, "") {
		previous = hex.EncodeToString(mac(key, strings.Join([]string{"AWS4-HMAC-SHA256-PAYLOAD",
			signature.Date.Format(sigv4.DateFormat), signature.Scope(), previous, sum(""), sum(chunk)}, "\n")))
		fmt.Fprintf(&b, "%x;chunk-signature=%s\r\n%s\r\n", len(chunk), previous, chunk)
	}
	return b.String()
}

func TestSignedChunks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	chunks := []string{strings.Repeat("a", 64<<10), strings.Repeat("b", 64<<10), "c"}
	send := func(path string, change func(body string) string) (int, string) {
		r, err := http.NewRequest(http.MethodPut, f.plain.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Amz-Decoded-Content-Length", fmt.Sprint(len(strings.Join(chunks, ""))))
		r.Header.Set("Content-Encoding", "aws-chunked,gzip")
		sign(t, r, f.Root, "s3", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD")
		body := change(signedChunks(r, f.Root.SecretAccessKey, chunks...))
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		return do(t, r)
	}
	if status, body := send("/bkt/k", func(body string) string { return body }); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	if got := f.endpoint.objects["/bkt/k"]; got != strings.Join(chunks, "") {
		t.Errorf("the endpoint has %d bytes", len(got))
	}
	for name, change := range map[string]func(string) string{
		"another byte":     func(body string) string { return strings.Replace(body, "aa", "ax", 1) },
		"the last is gone": func(body string) string { return body[:strings.LastIndex(body, "0;chunk")] },
	} {
		if status, body := send("/bkt/other", change); status/100 != 4 {
			t.Errorf("%s: %d %s", name, status, body)
		}
		if _, ok := f.endpoint.objects["/bkt/other"]; ok {
			t.Errorf("%s: the endpoint has it", name)
		}
	}
}

// A trailer whose value is no checksum is the client's fault.
func TestTrailersThatAreNoChecksums(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r, err := http.NewRequest(http.MethodPut, f.plain.URL+"/bkt/k", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Decoded-Content-Length", "1")
	r.Header.Set("X-Amz-Trailer", "x-amz-checksum-crc32")
	sign(t, r, f.Root, "s3", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
	body := "1\r\na\r\n0\r\nx-amz-checksum-crc32:AAA=\r\n\r\n"
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	if status, answer := do(t, r); status != http.StatusBadRequest || !strings.Contains(answer, "x-amz-checksum-crc32") {
		t.Errorf("%d %s", status, answer)
	}
	if _, ok := f.endpoint.objects["/bkt/k"]; ok {
		t.Error("the endpoint has it")
	}
}

// The SDK finds a bucket by its name in DNS.
func TestBucketsInNames(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.endpoint.objects["/bkt/a/b c"] = "content"
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		if address != "bkt.s3.us-east-1.amazonaws.com:80" {
			t.Errorf("the SDK calls %s", address)
		}
		return new(net.Dialer).DialContext(ctx, "tcp", f.plain.Listener.Addr().String())
	}
	client := s3.New(s3.Options{Region: iamtest.Region, BaseEndpoint: aws.String("http://s3.us-east-1.amazonaws.com"),
		HTTPClient:  &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}},
		Credentials: credentials.StaticCredentialsProvider{Value: f.Root}, RetryMaxAttempts: 1})
	out, err := client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("bkt"), Key: aws.String("a/b c")})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Body.Close()
	if got, err := io.ReadAll(out.Body); string(got) != "content" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// What is between a client and Coracle stays there, and so does what is between Coracle and the endpoint.
func TestHeadersOfOneConnection(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a redirect was followed")
	}))
	defer elsewhere.Close()
	var got *http.Request
	f.answerWith(func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "x")
		w.Header().Set("Keep-Alive", "timeout=5")
		w.Header().Set("Etag", `"x"`)
		w.Header().Set("Location", elsewhere.URL)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	session, err := f.STS(f.Root).GetSessionToken(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	with := aws.Credentials{AccessKeyID: *session.Credentials.AccessKeyId,
		SecretAccessKey: *session.Credentials.SecretAccessKey, SessionToken: *session.Credentials.SessionToken}
	r, err := http.NewRequest(http.MethodGet, f.plain.URL+"/bkt/k", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Cookie": "a=b", "Connection": "X-Hop", "X-Hop": "x", "Te": "trailers",
		"X-Forwarded-Host": "evil", "Proxy-Authorization": "x", "X-Minio-Force-Delete": "true", "Origin": "http://evil",
		"X-Amz-Meta-A": "b", "Range": "bytes=0-1"} {
		r.Header.Set(name, value)
	}
	sign(t, r, with, "s3", sigv4.UnsignedPayload)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusTemporaryRedirect || response.Header.Get("Etag") != `"x"` ||
		response.Header.Get("X-Hop")+response.Header.Get("Keep-Alive") != "" {
		t.Errorf("%s %v", response.Status, response.Header)
	}
	var names []string
	for name := range got.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{"Authorization", "Range", "User-Agent", "X-Amz-Content-Sha256", "X-Amz-Date",
		"X-Amz-Meta-A"}; !slices.Equal(names, want) {
		t.Errorf("the endpoint got %q", names)
	}
	if strings.Contains(fmt.Sprint(got.Header), with.AccessKeyID) || got.Host != f.endpoint.Listener.Addr().String() {
		t.Errorf("the endpoint got %v for %s", got.Header, got.Host)
	}
}

// Clients would take the refusal for one of their own signature.
func TestEndpointRefusesItsCredentials(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for answer, status := range map[string]int{
		"<Error><Code>SignatureDoesNotMatch</Code><AWSAccessKeyId>ENDPOINT</AWSAccessKeyId></Error>": 403,
		`{"__type":"com.amazonaws#UnrecognizedClientException"}`:                                     400,
	} {
		f.answerWith(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			io.WriteString(w, answer) //nolint:errcheck // the client says so
		})
		status, body := do(t, f.request(t, http.MethodGet, "/bkt/k", nil, 0))
		if status != http.StatusServiceUnavailable || !strings.Contains(body, "forward-credentials") ||
			strings.Contains(body, "AWSAccessKeyId") {
			t.Errorf("%s: %d %s", answer, status, body)
		}
	}
	const denied = "<Error><Code>AccessDenied</Code></Error>"
	f.answerWith(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, denied) //nolint:errcheck // the client says so
	})
	if status, body := do(t, f.request(t, http.MethodGet, "/bkt/k", nil, 0)); status != 403 || body != denied {
		t.Errorf("another refusal: %d %s", status, body)
	}
}

// The operator may write another secret at any time.
func TestCredentialsAreThoseOfNow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.endpoint.objects["/bkt/k"] = "content"
	for _, test := range []struct {
		secret string
		status int
	}{{secret, http.StatusOK}, {"another", http.StatusServiceUnavailable}, {secret, http.StatusOK}} {
		f.secret.Store(test.secret)
		if status, body := do(t, f.request(t, http.MethodGet, "/bkt/k", nil, 0)); status != test.status {
			t.Errorf("%s: %d %s", test.secret, status, body)
		}
	}
}

// A Deny by what only the endpoint knows is none that could be passed over.
func TestConditionsThatAreNotKnown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user := f.NewUser(t, "ada", `{"Statement":[
		{"Effect":"Allow","Action":"s3:*","Resource":"*"},
		{"Effect":"Deny","Action":"s3:GetObject","Resource":"arn:aws:s3:::bkt/*",
			"Condition":{"StringEquals":{"s3:ExistingObjectTag/secret":"yes"}}},
		{"Effect":"Deny","Action":"s3:PutObjectTagging","Resource":"*",
			"Condition":{"StringEquals":{"s3:RequestObjectTag/a":"b"}}},
		{"Effect":"Deny","Action":"s3:PutObject","Resource":"*",
			"Condition":{"StringNotEquals":{"s3:x-amz-server-side-encryption":"AES256"}}}]}`)
	for request, want := range map[string]string{
		"GET /bkt/k": "s3:ExistingObjectTag/secret", "GET /other/k": "NoSuchKey",
		"PUT /other/k?tagging": "s3:RequestObjectTag/a", "PUT /other/k": "explicit deny",
	} {
		method, path, _ := strings.Cut(request, " ")
		r, err := http.NewRequest(method, f.plain.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		sign(t, r, user, "s3", sigv4.UnsignedPayload)
		if status, body := do(t, r); !strings.Contains(body, want) {
			t.Errorf("%s: %d %s, want %q", request, status, body, want)
		}
	}
}

// A header that is not known might make another request of one.
func TestHeadersThatAreNotKnown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r, err := http.NewRequest(http.MethodPut, f.plain.URL+"/bkt/k", bytes.NewReader(nil))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Rename-Source", "/bkt/other")
	sign(t, r, f.Root, "s3", sigv4.UnsignedPayload)
	if status, body := do(t, r); status != http.StatusNotImplemented {
		t.Errorf("%d %s", status, body)
	}
	if got := f.endpoint.last(); got != "" {
		t.Errorf("the endpoint got %q", got)
	}
}
