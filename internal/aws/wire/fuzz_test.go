package wire_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/smithy-go"
)

// FuzzRequest shows that a request that nobody signed is answered with an error that can be read, and never with what
// it asks for: it begins with requests as they travel, signed with a wrong secret, with none, or presigned.
func FuzzRequest(f *testing.F) {
	for _, seed := range []struct{ service, method, uri, target, body string }{
		{"eks", "GET", "/clusters/a?x=y", "", ""}, {"eks", "POST", "/clusters", "",
			`{"name":"x","roleArn":"arn:aws:iam::111122223333:role/r","resourcesVpcConfig":{}}`},
		{"", "GET", "/clusters", "", ""},
		{"iam", "POST", "/", "", "Action=ListRoles&Version=2010-05-08"},
		{"sts", "POST", "/", "", "Action=GetCallerIdentity&Version=2011-06-15"},
		{"", "POST", "/", "", "Action=DescribeVpcs&Version=2016-11-15"},
		{"", "POST", "/", "",
			"Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn:aws:iam::111122223333:role/x&RoleSessionName=pod&WebIdentityToken=abcdef&PolicyArns.member.1.arn=a"},
		{"kms", "POST", "/", "TrentService.ListKeys", "{}"}, {"", "POST", "/", "TrentService.ListKeys", "{}"},
		{"", "GET",
			"/?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIA%2F20261121%2Fus-east-1%2Fsts%2Faws4_request" +
				"&X-Amz-Date=20261121T083000Z&X-Amz-SignedHeaders=host&X-Amz-Signature=00&Action=GetCallerIdentity", "",
			""},
	} {
		r := httptest.NewRequest(seed.method, "http://coracle.test"+seed.uri, strings.NewReader(seed.body))
		if seed.target != "" {
			r.Header.Set("X-Amz-Target", seed.target)
		} else if seed.body != "" && seed.body[0] == 'A' {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		if seed.service != "" {
			if err := v4.NewSigner().SignHTTP(f.Context(), aws.Credentials{AccessKeyID: "AKIA",
				SecretAccessKey: "guess"}, r, hash(seed.body), seed.service, "us-west-2", time.Now()); err != nil {
				f.Fatal(err)
			}
		}
		raw, err := httputil.DumpRequest(r, true)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	m := newMux(f, &policy{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return
		}
		w := httptest.NewRecorder()
		m.ServeHTTP(w, r)
		text := w.Body.String()
		switch served := strings.Contains(text, "<AssumeRoleWithWebIdentityResponse"); {
		case w.Code == http.StatusOK && !served, w.Code == http.StatusInternalServerError:
			t.Fatalf("%s\nis answered with %d\n%s", raw, w.Code, text)
		case r.Method == http.MethodHead:
		case strings.Contains(w.Header().Get("Content-Type"), "json"):
			if !json.Valid([]byte(text)) {
				t.Fatalf("%s\nis answered with what is no JSON:\n%s", raw, text)
			}
		default:
			tokens := xml.NewDecoder(strings.NewReader(text))
			for err == nil {
				_, err = tokens.Token()
			}
			if !errors.Is(err, io.EOF) {
				t.Fatalf("%s\nis answered with what is no XML: %v\n%s", raw, err, text)
			}
		}
	})
}

// FuzzPageToken shows that a token of a page leads to the rest of the list, or is refused.
func FuzzPageToken(f *testing.F) {
	client := eks.NewFromConfig(config(newMux(f, &policy{})))
	out, err := client.ListClusters(f.Context(), &eks.ListClustersInput{MaxResults: aws.Int32(1)})
	if err != nil {
		f.Fatal(err)
	}
	plain, err := base64.RawURLEncoding.DecodeString(*out.NextToken)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(plain, true)
	f.Add([]byte(*out.NextToken), false)
	f.Add([]byte("%%%"), false)
	f.Fuzz(func(t *testing.T, token []byte, encode bool) {
		if encode {
			token = []byte(base64.RawURLEncoding.EncodeToString(token))
		}
		out, err := client.ListClusters(t.Context(), &eks.ListClustersInput{NextToken: aws.String(string(token))})
		var refused smithy.APIError
		switch {
		case err != nil && (!errors.As(err, &refused) || refused.ErrorCode() != "InvalidParameterException"):
			t.Fatalf("%q: %v", token, err)
		case err == nil && len(token) > 0 && !slices.Equal(out.Clusters, []string{"a", "b", "c"}[3-len(out.Clusters):]):
			t.Fatalf("%q: %v", token, out.Clusters)
		}
	})
}
