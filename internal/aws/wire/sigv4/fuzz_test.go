package sigv4_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/coracle-eks/coracle/internal/aws/wire/sigv4"
)

// signedRequests are requests of every form, as the SDK signs them.
func signedRequests(tb testing.TB) []*http.Request {
	session := keys
	session.SessionToken = "FwoGZXIvYXdzEBYaDExample=="
	presigned := func(target, service string, with aws.Credentials, header http.Header) *http.Request {
		u := presign(tb, target, service, with, header)
		r, err := http.NewRequest(http.MethodGet, u.String(), nil)
		if err != nil {
			tb.Fatal(err)
		}
		r.Header = header.Clone()
		return r
	}
	return []*http.Request{
		sign(
			tb,
			http.MethodPost,
			"https://eks.us-east-1.amazonaws.com/clusters?a=b&c=d%20e",
			`{"name":"x"}`,
			"eks",
			keys,
			http.Header{"Content-Type": {"application/json"}},
		),
		sign(
			tb,
			http.MethodDelete,
			"https://eks.us-east-1.amazonaws.com/clusters/a/node-groups/b%2Fc",
			"",
			"eks",
			session,
			nil,
		),
		sign(
			tb,
			http.MethodPost,
			"https://logs.us-east-1.amazonaws.com/",
			`{"limit":1}`,
			"logs",
			session,
			http.Header{"X-Amz-Target": {"Logs_20140328.DescribeLogGroups"},
				"Content-Type": {"application/x-amz-json-1.1"}},
		),
		sign(
			tb,
			http.MethodPost,
			"https://ec2.us-east-1.amazonaws.com/",
			"Action=DescribeVpcs&Version=2016-11-15",
			"ec2",
			keys,
			http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
		),
		sign(tb, http.MethodPut, "https://s3.us-east-1.amazonaws.com/bucket/a/../b", "x", "s3", keys, nil),
		presigned(
			"https://sts.us-east-1.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Expires=60",
			"sts",
			session,
			http.Header{"X-K8s-Aws-Id": {"demo"}},
		),
		presigned(
			"https://ec2.us-east-1.amazonaws.com/?Action=DescribeRegions&Version=2016-11-15",
			"ec2",
			keys,
			http.Header{},
		),
	}
}

// FuzzMutated shows that no request is taken for signed but those that were: it begins with signed requests as they
// travel, and whatever verifies of what becomes of them must say the same as one of them, in all that is signed.
func FuzzMutated(f *testing.F) {
	signed := map[string]bool{}
	for _, r := range signedRequests(f) {
		var raw bytes.Buffer
		if err := r.Write(&raw); err != nil {
			f.Fatal(err)
		}
		said, err := authenticated(raw.Bytes())
		if err != nil || said == "" {
			f.Fatalf("%v\n%s", err, raw.Bytes())
		}
		signed[said] = true
		f.Add(raw.Bytes())
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		said, err := authenticated(raw)
		var refused *sigv4.Error
		if err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
		if said != "" && !signed[said] {
			t.Fatalf("nobody signed\n%s\nwhich says\n%s", raw, said)
		}
	})
}

// authenticated returns what a request says that is signed; "" for what is no request. The error is why it is refused.
func authenticated(raw []byte) (string, error) {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
	if err != nil {
		return "", nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return "", nil
	}
	s, err := sigv4.Parse(r)
	if err != nil {
		return "", err
	}
	if err := s.Verify(body, keys.SecretAccessKey, signedAt); err != nil {
		return "", err
	}
	return meaning(r, s, body)
}

// meaning has the values that a service reads from the signed parts of a request.
func meaning(r *http.Request, s *sigv4.Signature, body []byte) (string, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "", nil // refused by every protocol
	}
	if s.Presigned {
		query.Del("X-Amz-Signature")
	}
	for _, values := range query {
		slices.Sort(values) // of a parameter that is there twice, their order is not signed
	}
	where := r.URL.EscapedPath()
	if s.Service != "s3" {
		where = path.Clean("/" + where)
		if strings.HasSuffix(r.URL.EscapedPath(), "/") && where != "/" {
			where += "/"
		}
	} else if where, err = url.PathUnescape(where); err != nil {
		return "", nil
	}
	var b strings.Builder
	fmt.Fprintf(
		&b, "%s %s?%s\n%s %s %s %s %q\n", r.Method, where, query.Encode(), s.AccessKeyID, s.Scope(), s.Date, s.Expires,
		s.SessionToken,
	)
	headers := map[string]string{}
	for _, name := range s.SignedHeaders {
		switch name {
		case "host":
			headers[name] = r.Host
		case "content-length":
			headers[name] = fmt.Sprint(r.ContentLength)
		default:
			var values []string
			for _, value := range r.Header.Values(name) {
				values = append(values, strings.Join(strings.Fields(value), " "))
			}
			headers[name] = strings.Join(values, ",")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		fmt.Fprintf(&b, "%s: %s\n", name, headers[name])
	}
	b.Write(body)
	return b.String(), nil
}

func TestSignedHeadersAreBounded(t *testing.T) {
	t.Parallel()
	r := sign(t, http.MethodGet, "https://eks.us-east-1.amazonaws.com/clusters", "", "eks", keys, nil)
	replace("SignedHeaders=host", "SignedHeaders=host"+strings.Repeat(";a", 300))(r)
	if _, err := sigv4.Parse(r); code(err) != sigv4.IncompleteSignature ||
		!strings.Contains(err.Error(), "more than 256 headers") {
		t.Errorf("three hundred signed headers give %v", err)
	}
}
