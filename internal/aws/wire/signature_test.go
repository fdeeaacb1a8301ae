package wire_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// A signature is of the path without empty segments, "." and "..": a request that was seen must not become another by
// adding some.
func TestTheSignedPathIsTheOneThatIsServed(t *testing.T) {
	t.Parallel()
	m := newMux(t, &policy{})
	for _, path := range []string{"/clusters/x/../addons", "/clusters/./addons", "/./clusters/addons",
		"//clusters/addons", "/clusters//addons"} {
		r := httptest.NewRequest(http.MethodGet, "http://coracle.test/clusters/addons", nil)
		if err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: "AKIA", SecretAccessKey: "secret"},
			r, hash(""), "eks", "us-west-2", time.Now()); err != nil {
			t.Fatal(err)
		}
		r.URL.Path = path
		w := httptest.NewRecorder()
		if m.ServeHTTP(w, r); w.Code != http.StatusNotFound ||
			w.Header().Get("X-Amzn-Errortype") != "UnknownOperationException" {
			t.Errorf("%s, signed as /clusters/addons: %d %s", path, w.Code, w.Body)
		}
	}
}

// A presigned URL carries the operation and the signature in its query: what a k8s-aws-v1 token holds.
func TestPresignedGet(t *testing.T) {
	m := newMux(t, &policy{})
	presigned, err := sts.NewPresignClient(sts.NewFromConfig(config(m))).PresignGetCallerIdentity(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, url := range map[string]string{"as it is": presigned.URL, "altered": presigned.URL + "&x=y"} {
		r := httptest.NewRequest(http.MethodGet, url, nil)
		w := httptest.NewRecorder()
		m.ServeHTTP(w, r)
		if good := w.Code == http.StatusOK && strings.Contains(w.Body.String(),
			alice.ARN); good != (name == "as it is") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// Whoever holds a presigned URL cannot make another operation of it, even if its signer left the body out of the
// signature.
func TestTheBodyDoesNotReplaceSignedParameters(t *testing.T) {
	m := newMux(t, &policy{})
	r := httptest.NewRequest(http.MethodPost,
		"http://coracle.test/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Content-Sha256=UNSIGNED-PAYLOAD", nil)
	creds := aws.Credentials{AccessKeyID: "AKIA", SecretAccessKey: "secret"}
	signed, _, err := v4.NewSigner().PresignHTTP(t.Context(), creds, r, "UNSIGNED-PAYLOAD", "sts", "us-west-2",
		time.Now())
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(http.MethodPost, signed,
		strings.NewReader(
			"Action=AssumeRoleWithWebIdentity&RoleArn=arn:aws:iam::111122223333:role/pod&RoleSessionName=pod&WebIdentityToken=eyJhbGciOiJSUzI1NiJ9")))
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "<GetCallerIdentityResult>") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
