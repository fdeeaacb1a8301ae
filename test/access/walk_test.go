// Package access shows that nobody gets in without a valid signature and a policy that allows it.
package access

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/daemon"
	"github.com/coracle-eks/coracle/test/harness"
)

// code finds the error code in any protocol's body.
var code = regexp.MustCompile(`<Code>([^<]+)</Code>|"__type" ?: ?"(?:[^"#]*#)?([^"]+)"`)

// answer is the response: the HTTP status and AWS's error code.
type answer struct {
	status int
	code   string
	body   string
}

func ask(t *testing.T, r *http.Request) answer {
	t.Helper()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{status: resp.StatusCode, code: resp.Header.Get("X-Amzn-Errortype"), body: string(body)}
	if m := code.FindSubmatch(body); m != nil && a.code == "" {
		a.code = string(m[1]) + string(m[2])
	}
	a.code, _, _ = strings.Cut(a.code, ":")
	return a
}

// TestEveryOperationRefusesStrangers walks every operation that is served and asks for it
// unsigned, with a wrong secret, with a signature of half an hour ago, with a key that nobody
// has, and as a user without any policy.
func TestEveryOperationRefusesStrangers(t *testing.T) {
	t.Parallel()
	d := harness.Start(t)
	ctx := t.Context()
	users := iam.NewFromConfig(d.Config())
	if _, err := users.CreateUser(ctx, &iam.CreateUserInput{UserName: aws.String("nobody")}); err != nil {
		t.Fatal(err)
	}
	key, err := users.CreateAccessKey(ctx, &iam.CreateAccessKeyInput{UserName: aws.String("nobody")})
	if err != nil {
		t.Fatal(err)
	}
	nobody := aws.Credentials{AccessKeyID: *key.AccessKey.AccessKeyId, SecretAccessKey: *key.AccessKey.SecretAccessKey}
	root, err := d.Config().Credentials.Retrieve(ctx)
	if err != nil {
		t.Fatal(err)
	}

	signer := v4.NewSigner()
	request := func(op wire.Operation, with *aws.Credentials, at time.Time) *http.Request {
		t.Helper()
		r, err := op.NewRequest(d.Endpoint, op.MinimalInput())
		if err != nil {
			t.Fatal(err)
		}
		if with == nil {
			return r
		}
		var body []byte
		if r.Body != nil {
			if body, err = io.ReadAll(r.Body); err != nil {
				t.Fatal(err)
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		hash := sha256.Sum256(body)
		if err := signer.SignHTTP(context.Background(), *with, r, hex.EncodeToString(hash[:]), op.Service.SigningName,
			harness.Region, at); err != nil {
			t.Fatal(err)
		}
		return r
	}
	stranger := aws.Credentials{AccessKeyID: "AKIAIOSFODNN7EXAMPLE", SecretAccessKey: root.SecretAccessKey}
	forger := aws.Credentials{AccessKeyID: root.AccessKeyID, SecretAccessKey: strings.Repeat("x", 40)}
	now := time.Now()
	before := inventory(t, d)

	served, checks := map[string]int{}, 0
	for _, op := range daemon.Operations() {
		if !op.Served {
			continue
		}
		served[op.Service.Name]++
		expect := func(what string, r *http.Request, codes ...string) {
			t.Helper()
			checks++
			got := ask(t, r)
			for _, c := range codes {
				if got.code == c && got.status >= 400 && got.status < 500 {
					return
				}
			}
			t.Errorf("%s:%s %s: %d %s, want one of %s\n%s", op.Service.ActionPrefix, op.Name, what, got.status,
				got.code, codes, got.body)
		}
		if op.Unsigned {
			continue // the token in the request is the proof: the tests of sts refuse bad ones
		}
		expect("unsigned", request(op, nil, now), "MissingAuthenticationToken", "MissingAuthenticationTokenException")
		expect("with a wrong secret", request(op, &forger, now), "SignatureDoesNotMatch", "InvalidSignatureException",
			"AuthFailure")
		expect("expired", request(op, &root, now.Add(-30*time.Minute)), "SignatureDoesNotMatch",
			"InvalidSignatureException", "AuthFailure")
		expect("with nobody's key", request(op, &stranger, now), "InvalidClientTokenId", "UnrecognizedClientException",
			"AuthFailure")
		if !op.Unrestricted {
			expect("without a policy", request(op, &nobody, now), "AccessDenied", "AccessDeniedException",
				"UnauthorizedOperation")
		}
	}
	t.Logf("%d refusals of %v operations", checks, served)
	if after := inventory(t, d); after != before {
		t.Errorf("a refused request changed something:\n%s\n%s", before, after)
	}
	for _, service := range []*wire.Service{wire.EKS, wire.IAM, wire.STS, wire.EC2, wire.Logs} {
		if served[service.Name] == 0 {
			t.Errorf("no operation of %s is served", service.Name)
		}
	}
}

// inventory returns a listing of what the account has.
func inventory(t *testing.T, d *harness.Daemon) string {
	t.Helper()
	var b strings.Builder
	for _, args := range [][]string{
		{"iam", "get-account-authorization-details"}, {"iam", "list-access-keys", "--user-name", "nobody"},
		{"ec2", "describe-vpcs"}, {"ec2", "describe-subnets"}, {"ec2", "describe-security-groups"},
		{"ec2", "describe-network-interfaces"},
		{"ec2", "describe-addresses"}, {"ec2", "describe-key-pairs"}, {"ec2", "describe-tags"},
		{"eks", "list-clusters"},
		{"logs", "describe-log-groups"}, {"logs", "describe-queries"}, {"logs", "describe-query-definitions"},
	} {
		fmt.Fprintln(&b, d.AWS(nil, args...))
	}
	return b.String()
}
