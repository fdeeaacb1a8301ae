package authenticator

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/kube/authenticator/authenticatortest"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// realSTS is a fixture whose STS is ours, behind the in-process transport.
type realSTS struct {
	*fixture
	aws *iamtest.AWS
}

func newRealSTS(t testing.TB) realSTS {
	t.Helper()
	a := iamtest.New(t)
	u, err := url.Parse(a.URL)
	if err != nil {
		t.Fatal(err)
	}
	f := newFixtureOver(t, a.Store, onlyAPI, &rest.Config{Host: "http://127.0.0.1:1"}, func(o *Options) {
		o.STS, o.Own, o.Now = a.Mux.Transport(), OwnHosts(u.Host), a.Now
	})
	return realSTS{f, a}
}

func (r realSTS) config(c aws.Credentials) aws.Config {
	return aws.Config{Region: iamtest.Region, BaseEndpoint: aws.String(r.aws.URL), HTTPClient: awsclient.HTTP(),
		Credentials: credentials.StaticCredentialsProvider{Value: c}}
}

func (r realSTS) token(c aws.Credentials, cluster string, at time.Time) string {
	r.t.Helper()
	token, err := authenticatortest.TokenAt(r.t.Context(), r.config(c), cluster, at)
	r.put(err)
	return token
}

// session returns the credentials of a session of a new role with that path.
func (r realSTS) session(path, roleName, session string) aws.Credentials {
	r.t.Helper()
	trust := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"` + account +
		`"},"Action":"sts:AssumeRole"}]}`
	role, err := r.aws.IAM(r.aws.Root).CreateRole(r.t.Context(), &iam.CreateRoleInput{RoleName: &roleName, Path: &path,
		AssumeRolePolicyDocument: &trust})
	r.put(err)
	caller := r.aws.NewUser(r.t, "caller-of-"+roleName,
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole","Resource":"*"}]}`)
	out, err := r.aws.STS(caller).AssumeRole(r.t.Context(), &sts.AssumeRoleInput{RoleArn: role.Role.Arn,
		RoleSessionName: &session})
	r.put(err)
	return aws.Credentials{AccessKeyID: *out.Credentials.AccessKeyId, SecretAccessKey: *out.Credentials.SecretAccessKey,
		SessionToken: *out.Credentials.SessionToken}
}

func TestOurSTSVerifiesTokens(t *testing.T) {
	t.Parallel()
	r := newRealSTS(t)
	for _, arn := range []string{"root", "user/bob", "role/teams/Ops"} {
		r.entry(record.AccessEntry{PrincipalARN: "arn:aws:iam::" + account + ":" + arn,
			CreatedAt: time.Now().Add(time.Hour)})
	}
	bob := r.aws.NewUser(t, "bob", "")
	ops := r.session("/teams/", "Ops", "alice@example.com")
	now := time.Now()
	elsewhere := strings.Replace(r.token(bob, name, now), "k8s-aws-v1.", "", 1)
	for _, test := range []struct {
		name, token, username, denied string
	}{
		{name: "root", token: r.token(r.aws.Root, name, now), username: "arn:aws:iam::111122223333:root"},
		{name: "user", token: r.token(bob, name, now), username: "arn:aws:iam::111122223333:user/bob"},
		{name: "session of a role", token: r.token(ops, name, now),
			username: "arn:aws:sts::111122223333:assumed-role/Ops/alice-example.com"},
		{name: "by the cluster's ID", token: r.token(bob, clusterID, now),
			username: "arn:aws:iam::111122223333:user/bob"},
		{name: "14 minutes old, although it asks for one", token: r.token(bob, name, now.Add(-14*time.Minute)),
			username: "arn:aws:iam::111122223333:user/bob"},
		{name: "16 minutes old", token: r.token(bob, name, now.Add(-16*time.Minute)), denied: "expired"},
		{name: "for another cluster", token: r.token(bob, "another", now), denied: "SignatureDoesNotMatch"},
		{name: "with a wrong secret", token: r.token(aws.Credentials{AccessKeyID: bob.AccessKeyID,
			SecretAccessKey: "x"}, name, now), denied: "SignatureDoesNotMatch"},
		{name: "with a key that nobody has", token: r.token(aws.Credentials{AccessKeyID: "AKIAIOSFODNN7EXAMPLE",
			SecretAccessKey: "x"}, name, now), denied: "InvalidClientTokenId"},
		{name: "of a session without its session token", token: r.token(aws.Credentials{AccessKeyID: ops.AccessKeyID,
			SecretAccessKey: ops.SecretAccessKey}, name, now), denied: "InvalidClientTokenId"},
		{name: "without its prefix", token: elsewhere, denied: "missing expected"},
	} {
		got := r.authenticate(test.token)
		if test.denied != "" {
			if got.Authenticated || !strings.Contains(got.Error, test.denied) {
				t.Errorf("%s: got %+v, want denial with %q", test.name, got, test.denied)
			}
			continue
		}
		if !got.Authenticated || got.User.Username != test.username {
			t.Errorf("%s: got %q (%s), want %q", test.name, got.User.Username, got.Error, test.username)
		}
	}

	// A request that was signed for something else cannot be passed off as a token.
	client := sts.NewPresignClient(sts.NewFromConfig(r.config(bob)))
	plain, err := client.PresignGetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
	r.put(err)
	if got := r.authenticate(asToken(plain.URL)); got.Authenticated || !strings.Contains(got.Error,
		"did not sign the x-k8s-aws-id header") {
		t.Errorf("presigned for itself: %+v", got)
	}

	// A key that was taken away counts no more.
	_, err = r.aws.IAM(r.aws.Root).DeleteAccessKey(t.Context(), &iam.DeleteAccessKeyInput{UserName: aws.String("bob"),
		AccessKeyId: &bob.AccessKeyID})
	r.put(err)
	if got := r.authenticate(r.token(bob, name, now)); got.Authenticated {
		t.Errorf("with a deleted key: %+v", got)
	}
}

// busy is a service whose requests last until the test lets them go on.
type busy struct{ begun, proceed chan struct{} }

func (b busy) DescribeCluster(context.Context, *eks.DescribeClusterInput) (*eks.DescribeClusterOutput, error) {
	b.begun <- struct{}{}
	<-b.proceed
	return &eks.DescribeClusterOutput{}, nil
}

// TestReviewsWaitForNoTurnsOfTheSigner signs more tokens than a cluster has turns with a key of another account, for
// which the daemon carries out as many requests as it may.
func TestReviewsWaitForNoTurnsOfTheSigner(t *testing.T) {
	t.Parallel()
	r := newRealSTS(t)
	b := busy{make(chan struct{}), make(chan struct{})}
	r.aws.Mux.Register(wire.EKS, wire.Handle(b.DescribeCluster, wire.OnAll))
	stranger := r.aws.NewAccount(t, iamtest.Other)
	config := r.config(stranger)
	config.HTTPClient = &http.Client{Transport: r.aws.Mux.Transport()}
	var requests sync.WaitGroup
	defer requests.Wait()
	defer close(b.proceed)
	describe := func() {
		if _, err := eks.NewFromConfig(config).DescribeCluster(t.Context(),
			&eks.DescribeClusterInput{Name: aws.String("x")}); err != nil {
			t.Error(err)
		}
	}
	for range 16 { // see wire
		requests.Go(describe)
		<-b.begun
	}
	now := time.Now()
	var reviews sync.WaitGroup
	for i := range 2 * maxClusterReviews {
		token := r.token(stranger, name, now.Add(-time.Duration(i)*time.Second))
		reviews.Go(func() {
			if got := r.authenticate(token); got.Authenticated || !strings.Contains(got.Error, errNotMapped.Error()) {
				t.Errorf("a token of a stranger: %+v", got)
			}
		})
	}
	reviews.Wait()
}

func TestAWSCommandLineMakesTokens(t *testing.T) {
	t.Parallel()
	testenv.NeedsSetup(t)
	command, err := exec.LookPath("aws")
	if err != nil {
		t.Fatal("the aws command line is not installed: run \"make setup\"")
	}
	r := newRealSTS(t)
	r.entry(record.AccessEntry{PrincipalARN: "arn:aws:iam::" + account + ":root"})
	for _, args := range [][]string{{"--cluster-name", name}, {"--cluster-id", clusterID}} {
		cmd := exec.CommandContext(t.Context(), command, append([]string{"eks", "get-token", "--output", "json"},
			args...)...)
		cmd.Env = append(os.Environ(),
			"AWS_ENDPOINT_URL="+r.aws.URL, "AWS_DEFAULT_REGION="+iamtest.Region, "HOME="+t.TempDir(),
			"AWS_EC2_METADATA_DISABLED=true",
			"AWS_ACCESS_KEY_ID="+r.aws.Root.AccessKeyID, "AWS_SECRET_ACCESS_KEY="+r.aws.Root.SecretAccessKey)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("aws eks get-token: %v\n%s", err, stderr.String())
		}
		var credential struct{ Status struct{ Token string } }
		r.put(json.Unmarshal(out, &credential))
		if got := r.authenticate(credential.Status.Token); !got.Authenticated ||
			got.User.Username != "arn:aws:iam::111122223333:root" {
			t.Errorf("aws eks get-token %v: got %+v", args, got)
		}
	}
}
