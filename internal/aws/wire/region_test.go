package wire_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

func TestRegionsThatDoNotExist(t *testing.T) {
	t.Parallel()
	for name, region := range map[string]string{
		"no region":           "mars-1",
		"empty":               "",
		"line in /etc/hosts":  "a\n6.6.6.6 evil.test #",
		"part of an ARN":      "us-east-1:111122223333:cluster",
		"wildcard":            "us-east-*",
		"upper case":          "US-EAST-1",
		"part of a host name": "us-east-1.evil.test",
		"zone":                "us-east-1a",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, service := range []struct {
				name, method, path, body, code string
				status                         int
			}{
				{"eks", http.MethodGet, "/clusters", "", "InvalidSignatureException", http.StatusForbidden},
				{"iam", http.MethodPost, "/", "Action=ListRoles&Version=2010-05-08", "SignatureDoesNotMatch",
					http.StatusForbidden},
				{"sts", http.MethodPost, "/", "Action=GetCallerIdentity&Version=2011-06-15", "SignatureDoesNotMatch",
					http.StatusForbidden},
				{"ec2", http.MethodPost, "/", "Action=DescribeVpcs&Version=2016-11-15", "AuthFailure",
					http.StatusUnauthorized},
			} {
				p := &policy{}
				r := httptest.NewRequest(service.method, "http://coracle.test"+service.path,
					strings.NewReader(service.body))
				if err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: "AKIA",
					SecretAccessKey: "secret"}, r, hash(service.body), service.name, region, time.Now()); err != nil {
					t.Fatal(err)
				}
				w := httptest.NewRecorder()
				newMux(t, p).ServeHTTP(w, r)
				text := w.Header().Get("X-Amzn-Errortype") + w.Body.String()
				if w.Code != service.status || !strings.Contains(text, service.code) || region == "mars-1" &&
					!strings.Contains(text, "Credential should be scoped to a valid region, not") || len(p.asked) > 0 {
					t.Errorf("%s: %d %s, the authorizer was asked %v", service.name, w.Code, text, p.asked)
				}
			}
		})
	}
}

// AWS has IAM in one region and STS in all; here they answer in every region that there is, because clients sign for
// their own when they are given an endpoint.
func TestGlobalServicesAnswerInEveryRegion(t *testing.T) {
	t.Parallel()
	for _, region := range []string{"us-east-1", "eu-west-1", "ap-southeast-2"} {
		r := httptest.NewRequest(http.MethodPost, "http://coracle.test/",
			strings.NewReader("Action=ListRoles&Version=2010-05-08"))
		if err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: "AKIA", SecretAccessKey: "secret"},
			r, hash("Action=ListRoles&Version=2010-05-08"), "iam", region, time.Now()); err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		newMux(t, &policy{}).ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", region, w.Code, w.Body)
		}
	}
}
