package authenticator

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"
	"time"
)

var testNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// presigned returns a well-formed presigned URL, changed by edit.
func presigned(edit func(u *url.URL, q url.Values)) string {
	u := &url.URL{Scheme: "http", Host: "127.0.0.1:4566", Path: "/"}
	q := url.Values{
		"Action":              {"GetCallerIdentity"},
		"Version":             {"2011-06-15"},
		"X-Amz-Algorithm":     {"AWS4-HMAC-SHA256"},
		"X-Amz-Credential":    {"AKIAIOSFODNN7EXAMPLE/20260301/eu-west-1/sts/aws4_request"},
		"X-Amz-Date":          {testNow.Format(amzDate)},
		"X-Amz-Expires":       {"60"},
		"X-Amz-SignedHeaders": {"host;x-k8s-aws-id"},
		"X-Amz-Signature":     {"0123456789abcdef"},
	}
	if edit != nil {
		edit(u, q)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

func asToken(presigned string) string {
	return tokenPrefix + base64.RawURLEncoding.EncodeToString([]byte(presigned))
}

func TestParseToken(t *testing.T) {
	t.Parallel()
	set := func(key, value string) func(*url.URL, url.Values) {
		return func(_ *url.URL, q url.Values) { q.Set(key, value) }
	}
	at := func(scheme, host string) string {
		return asToken(presigned(func(u *url.URL, _ url.Values) { u.Scheme, u.Host = scheme, host }))
	}
	for _, test := range []struct {
		name, token, wrong string // wrong: what the error says; empty for a good token
	}{
		{name: "as aws eks get-token makes it", token: asToken(presigned(nil))},
		{name: "padded", token: asToken(presigned(nil)+"&X-Amz-Security-Token=x") + "=="},
		{name: "by another name of the loopback interface", token: at("http", "localhost:4566")},
		{name: "over TLS", token: at("https", "127.0.0.1:4566")},
		{name: "of the regional STS", token: at("https", "sts.eu-west-1.amazonaws.com")},
		{name: "of the global STS", token: at("https", "sts.amazonaws.com")},
		{name: "of the FIPS STS", token: at("https", "sts-fips.us-east-1.amazonaws.com")},
		{name: "of the dual-stack STS", token: at("https", "sts.eu-west-1.api.aws")},
		{name: "parameters in lower case", token: asToken(strings.ReplaceAll(presigned(nil), "X-Amz", "x-amz"))},
		{name: "header in upper case", token: asToken(presigned(set("X-Amz-SignedHeaders", "host;X-K8S-AWS-ID")))},
		{name: "with a session token", token: asToken(presigned(set("X-Amz-Security-Token", "FwoGZXIvYXdzEM3")))},
		{name: "15 minutes old", token: asToken(
			presigned(set("X-Amz-Date", testNow.Add(-15*time.Minute).Format(amzDate))))},
		{name: "from a clock that is a little ahead",
			token: asToken(presigned(set("X-Amz-Date", testNow.Add(4*time.Minute).Format(amzDate))))},
		{name: "longest expiry", token: asToken(presigned(set("X-Amz-Expires", "900")))},
		{name: "no expiry", token: asToken(presigned(set("X-Amz-Expires", "0")))},

		{"empty", "", `missing expected "k8s-aws-v1." prefix`},
		{"a JSON web token", "eyJhbGciOiJSUzI1NiJ9.e30.x", `missing expected "k8s-aws-v1." prefix`},
		{"another version", strings.Replace(asToken(presigned(nil)), "v1", "v2", 1),
			`missing expected "k8s-aws-v1." prefix`},
		{"huge", tokenPrefix + strings.Repeat("a", maxToken), "too large"},
		{"not base64", tokenPrefix + "%%%", "illegal base64"},
		{"standard base64", tokenPrefix + "a+b/", "illegal base64"},
		{"no URL", tokenPrefix + base64.RawURLEncoding.EncodeToString([]byte("http://[")), "cannot be parsed"},
		{"only the prefix", tokenPrefix, "no host"},
		{"other scheme", at("ftp", "127.0.0.1:4566"), `unexpected scheme "ftp"`},
		{"plain HTTP to AWS", at("http", "sts.eu-west-1.amazonaws.com"), `unexpected scheme "http"`},
		{"foreign host", at("https", "sts.evil.example"), `unexpected hostname "sts.evil.example"`},
		{"host that begins like STS", at("https", "sts.eu-west-1.amazonaws.com.evil.example"), "unexpected hostname"},
		{"host that ends like STS", at("https", "evil-sts.eu-west-1.amazonaws.com"), "unexpected hostname"},
		{"another service", at("https", "iam.eu-west-1.amazonaws.com"), "unexpected hostname"},
		{"region that is none", at("https", "sts.-.amazonaws.com"), "unexpected hostname"},
		{"our host at another port", at("http", "127.0.0.1:80"), "unexpected hostname"},
		{"STS at a port", at("https", "sts.eu-west-1.amazonaws.com:444"), "unexpected hostname"},
		{"user information", asToken(presigned(func(u *url.URL, _ url.Values) { u.User = url.User("x") })),
			"user information"},
		{"path", asToken(presigned(func(u *url.URL, _ url.Values) { u.Path = "/x" })), "unexpected path"},
		{"fragment", asToken(presigned(nil) + "#x"), "unexpected fragment"},
		{"opaque URL", asToken("http:127.0.0.1:4566/?Action=GetCallerIdentity"), "no host"},
		{"malformed query", asToken(presigned(nil) + "&%zz=1"), "malformed query parameter"},
		{"semicolon in the query", asToken(presigned(nil) + "&a;b"), "malformed query parameter"},
		{"parameter that is not expected", asToken(presigned(set("RoleArn", "x"))),
			`non-whitelisted query parameter "RoleArn"`},
		{"parameter twice", asToken(presigned(nil) + "&Action=GetCallerIdentity"), "multiple values"},
		{"parameter twice in two cases", asToken(presigned(nil) + "&action=GetCallerIdentity"),
			"duplicate query parameter"},
		{"another action", asToken(presigned(set("Action", "AssumeRole"))),
			`unexpected action parameter in pre-signed URL: "AssumeRole"`},
		{"action in another case", asToken(presigned(set("Action", "getcalleridentity"))), "unexpected action"},
		{"no action", asToken(presigned(func(_ *url.URL, q url.Values) { q.Del("Action") })), "unexpected action"},
		{"header not signed", asToken(presigned(set("X-Amz-SignedHeaders", "host"))),
			"did not sign the x-k8s-aws-id header"},
		{"header only almost signed", asToken(presigned(set("X-Amz-SignedHeaders", "host;x-k8s-aws-id2"))),
			"did not sign"},
		{"expiry missing", asToken(presigned(func(_ *url.URL, q url.Values) { q.Del("X-Amz-Expires") })),
			"invalid X-Amz-Expires"},
		{"expiry no number", asToken(presigned(set("X-Amz-Expires", "1h"))),
			`invalid X-Amz-Expires parameter in pre-signed URL: "1h"`},
		{"expiry negative", asToken(presigned(set("X-Amz-Expires", "-1"))), "invalid X-Amz-Expires"},
		{"expiry too long", asToken(presigned(set("X-Amz-Expires", "901"))), "invalid X-Amz-Expires"},
		{"date missing", asToken(presigned(func(_ *url.URL, q url.Values) { q.Del("X-Amz-Date") })),
			"X-Amz-Date parameter must be present"},
		{"date in another format", asToken(presigned(set("X-Amz-Date", "2026-03-01T12:00:00Z"))),
			"error parsing X-Amz-Date"},
		{"expired", asToken(presigned(set("X-Amz-Date", testNow.Add(-15*time.Minute-time.Second).Format(amzDate)))),
			"expired (15 minute expiration)"},
		{"from the future", asToken(presigned(set("X-Amz-Date", testNow.Add(6*time.Minute).Format(amzDate)))),
			"in the future"},
		{"no credential", asToken(presigned(func(_ *url.URL, q url.Values) { q.Del("X-Amz-Credential") })),
			"X-Amz-Credential parameter must be present"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseToken(test.token, testNow, OwnHosts("127.0.0.1:4566"))
			if test.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), test.wrong) {
					t.Fatalf("got error %v, want one with %q", err, test.wrong)
				}
				if strings.Contains(err.Error(), "0123456789abcdef") {
					t.Errorf("the error repeats the signature: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.AccessKeyID != "AKIAIOSFODNN7EXAMPLE" {
				t.Errorf("access key ID is %q", got.AccessKeyID)
			}
		})
	}
}

func TestOwnHosts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		listening, host string
		own             bool
	}{
		{"127.0.0.1:4566", "127.0.0.1:4566", true},
		{"127.0.0.1:4566", "localhost:4566", true},
		{"127.0.0.1:4566", "[::1]:4566", true},
		{"127.0.0.1:4566", "127.0.0.1", false},
		{"127.0.0.1:4566", "10.0.0.7:4566", false},
		{"0.0.0.0:4566", "coracle.internal:4566", true},
		{":4566", "10.0.0.7:4566", true},
		{"[::]:4566", "coracle.internal:80", false},
		{"10.0.0.7:443", "10.0.0.7", true},
		{"10.0.0.7:80", "10.0.0.7", true},
	} {
		if got := OwnHosts(test.listening)(test.host); got != test.own {
			t.Errorf("listening on %s, host %s: got %t, want %t", test.listening, test.host, got, test.own)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(asToken(presigned(nil)))
	f.Add(tokenPrefix)
	f.Add(asToken("http:127.0.0.1:4566/?Action=GetCallerIdentity"))
	own := OwnHosts("127.0.0.1:4566")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := ParseToken(text, testNow, own)
		if err != nil {
			return
		}
		u, err := url.Parse(token.URL)
		if err != nil {
			t.Fatalf("accepted a token with URL %q: %v", token.URL, err)
		}
		if !own(u.Host) && !isSTSHost(u.Host) {
			t.Fatalf("accepted host %q", u.Host)
		}
		if u.Query().Get("Action") != "GetCallerIdentity" && u.Query().Get("action") != "GetCallerIdentity" &&
			!strings.Contains(strings.ToLower(u.RawQuery), "action=getcalleridentity") {
			t.Fatalf("accepted %q", token.URL)
		}
	})
}
