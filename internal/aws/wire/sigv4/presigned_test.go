package sigv4_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/coracle-eks/coracle/internal/aws/wire/sigv4"
)

func TestPresignedURLsOfTheSDKVerify(t *testing.T) {
	t.Parallel()
	for _, with := range []aws.Credentials{keys, {AccessKeyID: "ASIAEXAMPLE", SecretAccessKey: "s",
		SessionToken: "IQoJ/b3+J=="}} {
		u := presign(t,
			"https://sts.us-east-1.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Expires=60", "sts",
			with, http.Header{"X-K8s-Aws-Id": {"ironman-2022"}})
		r, err := http.NewRequest(http.MethodGet, u.String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("x-k8s-aws-id", "ironman-2022")
		travel(t, r, func(got *http.Request, body []byte) {
			s, err := sigv4.Parse(got)
			if err != nil {
				t.Fatal(err)
			}
			if !s.Presigned || s.Expires != time.Minute || s.SessionToken != with.SessionToken {
				t.Errorf("parsed %+v", s)
			}
			if err := s.Verify(body, with.SecretAccessKey, signedAt); err != nil {
				t.Error(err)
			}
		})

		// The same URL as it travels in a bearer token: detached, with the header as the verifier knows it.
		for cluster, want := range map[string]string{"ironman-2022": "", "hulk-2008": sigv4.SignatureDoesNotMatch} {
			s, err := sigv4.ParseURL(u, http.Header{"x-k8s-aws-id": {cluster}})
			if err != nil {
				t.Fatal(err)
			}
			if !s.Signs("x-k8s-aws-id") {
				t.Error("x-k8s-aws-id is not among the signed headers")
			}
			if err := s.Verify(nil, with.SecretAccessKey, signedAt.Add(14*time.Minute)); code(err) != want {
				t.Errorf("token for %s: %v", cluster, err)
			}
		}
	}
}

func presign(tb testing.TB, target, service string, with aws.Credentials, header http.Header) *url.URL {
	tb.Helper()
	r, err := http.NewRequest(http.MethodGet, target, nil)
	if err != nil {
		tb.Fatal(err)
	}
	r.Header = header.Clone()
	empty := sha256.Sum256(nil)
	signed, _, err := v4.NewSigner().PresignHTTP(context.Background(), with, r, hex.EncodeToString(empty[:]), service,
		"us-east-1", signedAt)
	if err != nil {
		tb.Fatal(err)
	}
	u, err := url.Parse(signed)
	if err != nil {
		tb.Fatal(err)
	}
	return u
}

func TestBadPresignedURLs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		service string
		change  func(url.Values)
		now     time.Time
		code    string
		says    string
	}{
		{name: "untouched", service: "eks"},
		{name: "no date", service: "sts", change: func(q url.Values) { q.Del("X-Amz-Date") },
			code: sigv4.IncompleteSignature,
			says: "AWS query-string parameters must include 'X-Amz-Date'. Re-examine the query-string parameters."},
		{name: "signature only", service: "sts", change: func(q url.Values) {
			for _, p := range []string{"Algorithm", "Credential", "SignedHeaders"} {
				q.Del("X-Amz-" + p)
			}
		}, code: sigv4.IncompleteSignature,
			says: "include 'X-Amz-Algorithm'. AWS query-string parameters must include 'X-Amz-Credential'. AWS " +
				"query-string parameters must include 'X-Amz-SignedHeaders'."},
		{name: "nothing", service: "sts", change: func(q url.Values) { clear(q) },
			code: sigv4.MissingAuthenticationToken, says: "missing"},
		{name: "algorithm", service: "sts", change: set("X-Amz-Algorithm", "MD5"), code: sigv4.IncompleteSignature,
			says: "Unsupported"},
		{name: "credential", service: "sts", change: set("X-Amz-Credential", "x"), code: sigv4.IncompleteSignature,
			says: "got 'x'"},
		{name: "altered action", service: "sts", change: set("Action", "AssumeRole"), code: sigv4.SignatureDoesNotMatch,
			says: "does not match"},
		{name: "longer life", service: "eks", change: set("X-Amz-Expires", "600"), code: sigv4.SignatureDoesNotMatch,
			says: "does not match"},
		{name: "life is a word", service: "eks", change: set("X-Amz-Expires", "soon"), code: sigv4.IncompleteSignature,
			says: "should be a number"},
		{name: "negative life", service: "eks", change: set("X-Amz-Expires", "-1"), code: sigv4.IncompleteSignature,
			says: "non-negative"},
		{name: "eight days", service: "eks", change: set("X-Amz-Expires", "691200"), code: sigv4.IncompleteSignature,
			says: "less than a week"},
		{name: "eight days in S3", service: "s3", change: set("X-Amz-Expires", "691200"),
			code: sigv4.AuthorizationQueryParametersError, says: "less than a week"},
		{name: "no life in S3", service: "s3", change: func(q url.Values) { q.Del("X-Amz-Expires") },
			code: sigv4.AuthorizationQueryParametersError, says: "X-Amz-Expires"},
		{name: "expired", service: "eks", now: signedAt.Add(61 * time.Second), code: sigv4.SignatureDoesNotMatch,
			says: "Signature expired: 20261121T083000Z is now earlier than 20261121T083001Z (20261121T083101Z - 1 min.)"},
		{name: "at the end of its life", service: "eks", now: signedAt.Add(60 * time.Second)},
		{name: "STS gives fifteen minutes", service: "sts", now: signedAt.Add(15 * time.Minute)},
		{name: "and no more", service: "sts", now: signedAt.Add(15*time.Minute + time.Second),
			code: sigv4.SignatureDoesNotMatch, says: "Signature expired"},
		{name: "from the future", service: "eks", now: signedAt.Add(-16 * time.Minute),
			code: sigv4.SignatureDoesNotMatch, says: "not yet current"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			u := presign(t, "https://sts.us-east-1.amazonaws.com/?Action=GetCallerIdentity&X-Amz-Expires=60",
				test.service, keys, http.Header{})
			if test.change != nil {
				q := u.Query()
				test.change(q)
				u.RawQuery = q.Encode()
			}
			if test.now.IsZero() {
				test.now = signedAt
			}
			s, err := sigv4.ParseURL(u, nil)
			if err == nil {
				err = s.Verify(nil, keys.SecretAccessKey, test.now)
			}
			if code(err) != test.code || (err != nil && !strings.Contains(err.Error(), test.says)) {
				t.Errorf("got %v, want %s: %s", err, test.code, test.says)
			}
		})
	}
}

func set(name, value string) func(url.Values) {
	return func(q url.Values) { q.Set(name, value) }
}
