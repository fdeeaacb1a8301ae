package sigv4_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/coracle-eks/coracle/internal/aws/wire/sigv4"
)

var (
	signedAt = time.Date(2026, 11, 21, 8, 30, 0, 0, time.UTC)
	keys     = aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
)

// sign signs a request with the SDK's signer and returns it as a server sees it.
func sign(tb testing.TB, method, target, body, service string, with aws.Credentials, header http.Header) *http.Request {
	tb.Helper()
	r, err := http.NewRequest(method, target, strings.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	hash := sha256.Sum256([]byte(body))
	disableEscaping := func(o *v4.SignerOptions) { o.DisableURIPathEscaping = service == "s3" }
	if err := v4.NewSigner(disableEscaping).SignHTTP(context.Background(), with, r, hex.EncodeToString(hash[:]),
		service, "us-east-1", signedAt); err != nil {
		tb.Fatal(err)
	}
	return r
}

// travel sends the request through a real server and hands what arrives to check.
func travel(tb testing.TB, r *http.Request, check func(*http.Request, []byte)) {
	tb.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, got *http.Request) {
		body, err := io.ReadAll(got.Body)
		if err != nil {
			tb.Error(err)
		}
		check(got, body)
	}))
	defer server.Close()
	at, err := url.Parse(server.URL)
	if err != nil {
		tb.Fatal(err)
	}
	r.Host, r.URL.Host, r.URL.Scheme = r.URL.Host, at.Host, "http"
	response, err := server.Client().Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	response.Body.Close()
}

func verify(r *http.Request, body []byte, secret string, now time.Time) error {
	s, err := sigv4.Parse(r)
	if err != nil {
		return err
	}
	return s.Verify(body, secret, now)
}

func TestRequestsOfTheSDKVerify(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(4, 2))
	word := func(alphabet []rune) string {
		b := make([]rune, random.IntN(12))
		for i := range b {
			b[i] = alphabet[random.IntN(len(alphabet))]
		}
		return string(b)
	}
	names := []rune("abcXYZ019-_.~")
	text := []rune("abcXYZ019-_.~ +/%:=&?#[]@!$'()*,;äß→🛶\"<>\\^`{|}\t")
	printable := []rune("abcXYZ019 -_.~+/%:=&?#")
	for i := range 500 {
		service := []string{"eks", "iam", "sts", "ec2", "s3"}[i%5]
		var path, query strings.Builder
		for range random.IntN(4) {
			segment := word(text)
			if service == "s3" { // the S3 client encodes all that RFC 3986 does not call unreserved
				segment = strings.ReplaceAll(url.QueryEscape(segment), "+", "%20")
			} else {
				segment = url.PathEscape(segment)
			}
			path.WriteString("/a" + segment)
		}
		for j := range random.IntN(5) {
			if j > 0 {
				query.WriteByte('&')
			}
			query.WriteString(url.QueryEscape("k"+word(names)) + "=" + url.QueryEscape(word(text)))
		}
		target := "https://eks.us-east-1.amazonaws.com" + path.String()
		if query.Len() > 0 {
			target += "?" + query.String()
		}
		with := keys
		if i%3 == 0 {
			with.SessionToken = "token/+" + word(names) + "=="
		}
		header := http.Header{"Content-Type": {"application/json"}, "X-Amz-Target": {"  a   b  " + word(printable)},
			"X-Twice": {"one", " two  2 "}}
		method := []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete}[i%4]
		body := ""
		if method == http.MethodPost || method == http.MethodPut {
			body = word(text)
		}
		r := sign(t, method, target, body, service, with, header)
		travel(t, r, func(got *http.Request, body []byte) {
			s, err := sigv4.Parse(got)
			if err != nil {
				t.Fatalf("%d: parse %s %s: %v", i, method, target, err)
			}
			if s.AccessKeyID != keys.AccessKeyID || s.SessionToken != with.SessionToken || s.Region != "us-east-1" ||
				s.Service != service ||
				!s.Date.Equal(signedAt) || s.Presigned || !s.Signs("Host") {
				t.Errorf("%d: parsed %+v", i, s)
			}
			if err := s.Verify(body, keys.SecretAccessKey, signedAt); err != nil {
				t.Errorf("%d: verify %s %s as %s: %v", i, method, got.RequestURI, service, err)
			}
			if err := s.Verify(body, "another secret", signedAt); code(err) != sigv4.SignatureDoesNotMatch {
				t.Errorf("%d: a wrong secret gives %v", i, err)
			}
			if err := s.Verify(append(body, 'x'), keys.SecretAccessKey, signedAt); err == nil {
				t.Errorf("%d: an altered body verifies", i)
			}
		})
	}
}

// TestCanonicalForm pins the canonical request by signing it here, word for word.
func TestCanonicalForm(t *testing.T) {
	t.Parallel()
	const emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for _, test := range []struct {
		name, service, target string
		path, query           string // canonical
	}{
		{"root", "sts", "/", "/", ""},
		{"escaped slash is escaped again", "eks", "/tags/arn%3Aaws%3Aeks%3Acluster%2Fx",
			"/tags/arn%253Aaws%253Aeks%253Acluster%252Fx", ""},
		{"colon sent bare", "eks", "/tags/arn:aws:eks", "/tags/arn%3Aaws%3Aeks", ""},
		{"space", "eks", "/a%20b", "/a%2520b", ""},
		{"plus in a path is a plus", "eks", "/a+b", "/a%2Bb", ""},
		{"unicode", "eks", "/%E1%88%B4", "/%25E1%2588%25B4", ""},
		{"dot segments", "eks", "/a/./b/../c", "/a/c", ""},
		{"dot segments above the root", "eks", "/../../x", "/x", ""},
		{"only dots", "eks", "/a/..", "/", ""},
		{"double slash", "eks", "//a//b//", "/a/b/", ""},
		{"S3 keeps the path", "s3", "/a//../b%20c", "/a//../b%20c", ""},
		{"S3 encodes once", "s3", "/a:b%2Fc", "/a%3Ab%2Fc", ""},
		{"sorted by name then value", "iam", "/?b=2&a=3&a=1&B=0", "/", "B=0&a=1&a=3&b=2"},
		{"sorted after encoding", "iam", "/?a%3A=1&a0=2", "/", "a%3A=1&a0=2"},
		{"empty value", "iam", "/?Action=&x", "/", "Action=&x="},
		{"plus in a query is a space", "iam", "/?q=a+b%2Bc", "/", "q=a%20b%2Bc"},
		{"lower-case escape", "iam", "/?q=%2f%7e", "/", "q=%2F~"},
		{"equals in a value", "iam", "/?q=a=b", "/", "q=a%3Db"},
		{"malformed escape", "iam", "/?q=100%", "/", "q=100%25"},
		{"semicolon", "iam", "/?q=a;b", "/", "q=a%3Bb"},
		{"unicode query", "iam", "/?%E1%88%B4=bar", "/", "%E1%88%B4=bar"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			canonical := "GET\n" + test.path + "\n" + test.query +
				"\nhost:example.amazonaws.com\nx-amz-date:20261121T083000Z\n\nhost;x-amz-date\n" + emptyHash
			r := httptest.NewRequest(http.MethodGet, "http://example.amazonaws.com/", nil)
			r.RequestURI = test.target
			_, r.URL.RawQuery, _ = strings.Cut(test.target, "?")
			r.Header.Set("X-Amz-Date", "20261121T083000Z")
			r.Header.Set("Authorization", authorization(test.service, "host;x-amz-date",
				signText(canonical, test.service)))
			if err := verify(r, nil, keys.SecretAccessKey, signedAt); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestHeadersAreTrimmed(t *testing.T) {
	t.Parallel()
	canonical := "POST\n/\n\ncontent-length:2\nhost:example.amazonaws.com\nmy-header1:a b c,x\nmy-header2:\"a b " +
		"c\"\nmissing:\nx-amz-date:20261121T083000Z\n\n" +
		"content-length;host;my-header1;my-header2;missing;x-amz-date\n" +
		fmt.Sprintf("%x", sha256.Sum256([]byte("hi")))
	r := httptest.NewRequest(http.MethodPost, "http://example.amazonaws.com/", strings.NewReader("hi"))
	r.Header = http.Header{"My-Header1": {"  a   b   c ", "x"}, "My-Header2": {`"a   b   c"`},
		"X-Amz-Date": {"20261121T083000Z"}}
	r.Header.Set("Authorization", authorization("iam", "content-length;host;my-header1;my-header2;missing;x-amz-date",
		signText(canonical, "iam")))
	if err := verify(r, []byte("hi"), keys.SecretAccessKey, signedAt); err != nil {
		t.Error(err)
	}
}

// signText signs a canonical request written by hand.
func signText(canonical, service string) string {
	mac := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	key := []byte("AWS4" + keys.SecretAccessKey)
	for _, part := range []string{"20261121", "us-east-1", service, "aws4_request"} {
		key = mac(key, part)
	}
	hash := sha256.Sum256([]byte(canonical))
	return hex.EncodeToString(mac(key, "AWS4-HMAC-SHA256\n20261121T083000Z\n20261121/us-east-1/"+service+
		"/aws4_request\n"+hex.EncodeToString(hash[:])))
}

func authorization(service, signedHeaders, signature string) string {
	return "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261121/us-east-1/" + service + "/aws4_request, SignedHeaders=" +
		signedHeaders + ", Signature=" + signature
}

func TestBadHeaders(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(*http.Request)
		now    time.Time
		code   string
		says   string
	}{
		{name: "no signature", change: func(r *http.Request) { r.Header.Del("Authorization") },
			code: sigv4.MissingAuthenticationToken, says: "Request is missing Authentication Token"},
		{name: "basic authentication", change: func(r *http.Request) {
			r.Header.Set("Authorization",
				"Basic dXNlcjpwYXNz")
		}, code: sigv4.IncompleteSignature, says: "missing equal-sign"},
		{name: "scheme only", change: func(r *http.Request) { r.Header.Set("Authorization", "AWS4-HMAC-SHA256") },
			code: sigv4.IncompleteSignature,
			says: "Authorization header requires 'Credential' parameter. Authorization header requires 'Signature' " +
				"parameter. Authorization header requires 'SignedHeaders' parameter. (Hashed"},
		{name: "no date", change: func(r *http.Request) { r.Header.Del("X-Amz-Date") }, code: sigv4.IncompleteSignature,
			says: "requires existence of either a 'X-Amz-Date' or a 'Date' header."},
		{name: "other algorithm", change: replace("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"),
			code: sigv4.IncompleteSignature, says: "Unsupported AWS 'algorithm': 'AWS4-ECDSA-P256-SHA256'"},
		{name: "no SignedHeaders", change: replace("SignedHeaders", "Headers"), code: sigv4.IncompleteSignature,
			says: "requires 'SignedHeaders' parameter."},
		{name: "no Signature", change: replace("Signature=", "Sig="), code: sigv4.IncompleteSignature,
			says: "requires 'Signature' parameter."},
		{name: "short scope", change: replace("/aws4_request", ""), code: sigv4.IncompleteSignature,
			says: "exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, got " +
				"'AKIDEXAMPLE/20261121/us-east-1/eks'"},
		{name: "long scope", change: replace("AKIDEXAMPLE", "AKID/EXAMPLE"), code: sigv4.IncompleteSignature,
			says: "exactly 5"},
		{name: "terminator", change: replace("aws4_request", "aws5_request"), code: sigv4.SignatureDoesNotMatch,
			says: "valid terminator: 'aws4_request', not 'aws5_request'."},
		{name: "malformed date", change: func(r *http.Request) { r.Header.Set("X-Amz-Date", "2026-11-21") },
			code: sigv4.IncompleteSignature, says: "Date must be in ISO-8601 'basic format'. Got '2026-11-21'."},
		{name: "scope of another day", change: replace("/20261121/", "/20261120/"), code: sigv4.SignatureDoesNotMatch,
			says: "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: " +
				"'20261120' != '20261121', from '20261121T083000Z'."},
		{name: "host unsigned", change: replace("host;", ""), code: sigv4.SignatureDoesNotMatch,
			says: "'Host' or ':authority' must be a 'SignedHeader'"},
		{name: "added x-amz header", change: func(r *http.Request) { r.Header.Set("X-Amz-Acl", "public") },
			code: sigv4.SignatureDoesNotMatch, says: "'X-Amz-Acl' must be a 'SignedHeader'"},
		{name: "other region", change: replace("us-east-1", "eu-west-1"), code: sigv4.SignatureDoesNotMatch,
			says: "does not match the signature you provided"},
		{name: "other service", change: replace("/eks/", "/iam/"), code: sigv4.SignatureDoesNotMatch,
			says: "does not match the signature you provided"},
		{name: "other method", change: func(r *http.Request) { r.Method = http.MethodPut },
			code: sigv4.SignatureDoesNotMatch, says: "does not match"},
		{name: "other path", change: func(r *http.Request) { r.URL.Path = "/clusters/other" },
			code: sigv4.SignatureDoesNotMatch, says: "does not match"},
		{name: "added parameter", change: func(r *http.Request) { r.URL.RawQuery += "&x=1" },
			code: sigv4.SignatureDoesNotMatch, says: "does not match"},
		{name: "other host", change: func(r *http.Request) { r.Host = "evil.example" },
			code: sigv4.SignatureDoesNotMatch, says: "does not match"},
		{name: "other signed header", change: func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
			code: sigv4.SignatureDoesNotMatch, says: "does not match"},
		{name: "upper-case signature", change: func(r *http.Request) {
			a, s, _ := strings.Cut(r.Header.Get("Authorization"), "Signature=")
			r.Header.Set("Authorization", a+"Signature="+strings.ToUpper(s))
		}, code: sigv4.SignatureDoesNotMatch, says: "does not match"},
		{name: "declared unsigned after the fact", change: func(r *http.Request) {
			r.Header.Set("X-Amz-Content-Sha256",
				"UNSIGNED-PAYLOAD")
		}, code: sigv4.SignatureDoesNotMatch, says: "does not match"},
		{name: "streamed", change: func(r *http.Request) {
			r.Header.Set("X-Amz-Content-Sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD")
		}, code: sigv4.NotImplemented, says: "not implemented"},
		{name: "too old", now: signedAt.Add(15*time.Minute + time.Second), code: sigv4.SignatureDoesNotMatch,
			says: "Signature expired: 20261121T083000Z is now earlier than 20261121T083001Z (20261121T084501Z - 15 min.)"},
		{name: "from the future", now: signedAt.Add(-15*time.Minute - time.Second), code: sigv4.SignatureDoesNotMatch,
			says: "Signature not yet current: 20261121T083000Z is still later than 20261121T082959Z " +
				"(20261121T081459Z + 15 min.)"},
		{name: "just young enough", now: signedAt.Add(15 * time.Minute)},
		{name: "just not too early", now: signedAt.Add(-15 * time.Minute)},
		{name: "untouched"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := sign(t, http.MethodPost, "https://eks.us-east-1.amazonaws.com/clusters?a=b", "{}", "eks", keys,
				http.Header{"Content-Type": {"application/json"}})
			if test.change != nil {
				test.change(r)
			}
			if test.now.IsZero() {
				test.now = signedAt
			}
			err := verify(r, []byte("{}"), keys.SecretAccessKey, test.now)
			if code(err) != test.code || (err != nil && !strings.Contains(err.Error(), test.says)) {
				t.Errorf("got %v, want %s: %s", err, test.code, test.says)
			}
		})
	}
}

func TestUnsignedPayload(t *testing.T) {
	t.Parallel()
	canonical := "POST\n/\n\nhost:example.amazonaws.com\nx-amz-content-sha256:UNSIGNED-PAYLOAD\nx-amz-date:20261121T083000Z\n\nhost;x-amz-content-sha256;x-amz-date\nUNSIGNED-PAYLOAD"
	r := httptest.NewRequest(http.MethodPost, "http://example.amazonaws.com/", nil)
	r.Header.Set("X-Amz-Date", "20261121T083000Z")
	r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
	r.Header.Set("Authorization", authorization("logs", "host;x-amz-content-sha256;x-amz-date",
		signText(canonical, "logs")))
	if err := verify(r, []byte("anything"), keys.SecretAccessKey, signedAt); err != nil {
		t.Error(err)
	}
}

func TestDateHeader(t *testing.T) {
	t.Parallel()
	canonical := "GET\n/\n\ndate:Sat, 21 Nov 2026 08:30:00 " +
		"GMT\nhost:example.amazonaws.com\n\ndate;host\ne3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	r := httptest.NewRequest(http.MethodGet, "http://example.amazonaws.com/", nil)
	r.Header.Set("Date", "Sat, 21 Nov 2026 08:30:00 GMT")
	r.Header.Set("Authorization", authorization("iam", "date;host", signText(canonical, "iam")))
	if err := verify(r, nil, keys.SecretAccessKey, signedAt); err != nil {
		t.Error(err)
	}
}

func TestJSONCodes(t *testing.T) {
	t.Parallel()
	for query, json := range map[string]string{
		sigv4.SignatureDoesNotMatch:      "InvalidSignatureException",
		sigv4.IncompleteSignature:        "IncompleteSignatureException",
		sigv4.MissingAuthenticationToken: "MissingAuthenticationTokenException",
		sigv4.NotImplemented:             "NotImplemented",
	} {
		if got := (&sigv4.Error{Code: query}).JSONCode(); got != json {
			t.Errorf("%s is %s in JSON, want %s", query, got, json)
		}
	}
}

func code(err error) string {
	var refused *sigv4.Error
	if errors.As(err, &refused) {
		return refused.Code
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func replace(old, with string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), old, with, 1))
	}
}

// FuzzParse shows that nothing a stranger sends panics, and that nothing unsigned verifies.
func FuzzParse(f *testing.F) {
	good := sign(f, http.MethodPost, "https://eks.us-east-1.amazonaws.com/clusters?a=b", "{}", "eks", keys, nil)
	f.Add("POST", "/clusters?a=b", good.Header.Get("Authorization"), good.Header.Get("X-Amz-Date"))
	f.Add("GET", "/a/../%zz?X-Amz-Signature=1&%=&+", "", "")
	f.Add("GET", "/?"+presign(f, "https://sts.us-east-1.amazonaws.com/?X-Amz-Expires=60", "sts", keys,
		http.Header{}).RawQuery, "", "")
	f.Fuzz(func(t *testing.T, method, target, authorization, date string) {
		path, query, _ := strings.Cut(target, "?")
		r := &http.Request{Method: method, Host: "eks.us-east-1.amazonaws.com", RequestURI: target,
			URL:    &url.URL{Path: path, RawQuery: query},
			Header: http.Header{"Authorization": {authorization}, "X-Amz-Date": {date}}, ContentLength: 2}
		s, err := sigv4.Parse(r)
		if err != nil {
			return
		}
		if err := s.Verify([]byte("{}"), "not the secret that anyone has", s.Date); err == nil {
			t.Errorf("%s %s verified with %q", method, target, authorization)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	body := bytes.Repeat([]byte("x"), 200)
	r := sign(b, http.MethodPost, "https://eks.us-east-1.amazonaws.com/clusters?a=b", string(body), "eks", keys,
		http.Header{"Content-Type": {"application/json"}})
	b.ReportAllocs()
	for b.Loop() {
		if err := verify(r, body, keys.SecretAccessKey, signedAt); err != nil {
			b.Fatal(err)
		}
	}
}

// A credential without a secret, such as a bearer token, signs nothing: anybody could.
func TestAnEmptySecretSignsNothing(t *testing.T) {
	t.Parallel()
	r := sign(t, http.MethodGet, "https://eks.us-east-1.amazonaws.com/clusters", "", "eks",
		aws.Credentials{AccessKeyID: "ASIAEXAMPLE", SessionToken: "token"}, http.Header{})
	s, err := sigv4.Parse(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(nil, "", signedAt); code(err) != sigv4.SignatureDoesNotMatch {
		t.Errorf("got %v", err)
	}
}

// TestWhatIsRememberedKeepsNoRequest shows that what callers keep of a signature is no part of a header or URL, which
// may be much longer.
func TestWhatIsRememberedKeepsNoRequest(t *testing.T) {
	t.Parallel()
	with := keys
	with.SessionToken = "token"
	r := sign(t, http.MethodGet, "http://eks.test/clusters", "", "eks", keys, nil)
	header := r.Header.Get("Authorization")
	u, _, err := v4.NewSigner().PresignHTTP(t.Context(), with,
		httptest.NewRequest(http.MethodGet, "http://sts.test/", nil),
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "sts", "us-east-1", signedAt)
	if err != nil {
		t.Fatal(err)
	}
	presigned := httptest.NewRequest(http.MethodGet, u, nil)
	for name, c := range map[string]struct {
		request *http.Request
		text    string
	}{"a header": {r, header}, "a URL": {presigned, presigned.URL.RawQuery}} {
		s, err := sigv4.Parse(c.request)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if s.AccessKeyID != keys.AccessKeyID || s.Presigned && s.SessionToken != with.SessionToken {
			t.Errorf("%s: the signature is of %s with %q", name, s.AccessKeyID, s.SessionToken)
		}
		begin := uintptr(unsafe.Pointer(unsafe.StringData(c.text)))
		for _, part := range []string{s.AccessKeyID, s.Region, s.Service, s.SessionToken} {
			at := uintptr(unsafe.Pointer(unsafe.StringData(part)))
			if part != "" && at >= begin && at < begin+uintptr(len(c.text)) {
				t.Errorf("%s: %q is a part of it", name, part)
			}
		}
	}
}
