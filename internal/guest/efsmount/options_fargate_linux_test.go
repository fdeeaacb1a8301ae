package efsmount

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// TestOptionsOnFargate has volumes name files of the machine, which mount.efs would read as its root and send away.
func TestOptionsOnFargate(t *testing.T) {
	t.Parallel()
	none := errors.New("no credentials")
	o := Options{Credentials: func(context.Context) (aws.Credentials, error) { return aws.Credentials{}, none }}
	for options, want := range map[string]string{
		"tls,iam,mounttargetip=127.0.0.1,region=eu-west-1":  none.Error(),
		"tls,iam,rolearn=r,jwtpath=/run/host/fargate-token": "not supported on Fargate",
		"tls,iam,awsprofile=p":                              "not supported on Fargate",
		"tls,iam,awscredsuri=/x":                            "not supported on Fargate",
		"tls,region=example.com/":                           "is malformed",
		"tls,az=a.example.com/":                             "is malformed",
	} {
		var stdout, stderr bytes.Buffer
		status := Run(o, []string{"fs-0123456789abcdef0:/", "/nowhere", "-f", "-o", options}, &stdout, &stderr)
		if status == 0 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: %d, %s, want %q", options, status, &stderr, want)
		}
	}
}

// TestCredentialsOnFargate mounts with those of the pod execution role, whatever the environment has.
func TestCredentialsOnFargate(t *testing.T) {
	t.Parallel()
	called, _, err := run(t, source{
		env: func(name string) string {
			return map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "SERVER/container"}[name]
		},
		fixed: func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "ASIAOFEXECUTIONROLE", SecretAccessKey: "secret", SessionToken: "token"}, nil
		},
	}, "fs-0123456789abcdef0 /mnt -o tls,iam")
	if err != nil || len(called) != 4 {
		t.Fatalf("mount %q: %v", called, err)
	}
	_, encoded, _ := strings.Cut(called[3], "connect=")
	if got := decode(t, encoded).Get("X-Amz-Credential"); !strings.HasPrefix(got, "ASIAOFEXECUTIONROLE/") {
		t.Errorf("the client is %s", got)
	}
}
