package wire_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

func TestCallReachesHandlerWithCallerAndRegion(t *testing.T) {
	p := &policy{}
	out, err := eks.NewFromConfig(config(newMux(t, p))).DescribeCluster(t.Context(),
		&eks.DescribeClusterInput{Name: aws.String("dev")})
	if err != nil {
		t.Fatal(err)
	}
	if *out.Cluster.Name != "dev" || *out.Cluster.Arn != alice.ARN || *out.Cluster.Version != "us-west-2" {
		t.Errorf("got %s, %s, %s", *out.Cluster.Name, *out.Cluster.Arn, *out.Cluster.Version)
	}
	if len(p.asked) != 1 || p.asked[0].Action != "eks:DescribeCluster" ||
		p.asked[0].Resource != "arn:aws:eks:us-west-2:111122223333:cluster/dev" {
		t.Errorf("the authorizer was asked %+v", p.asked)
	}
	if got := p.global["aws:RequestedRegion"]; !slices.Equal(got, []string{"us-west-2"}) {
		t.Errorf("aws:RequestedRegion is %v", got)
	}
}

func TestTheQuotaIsOfUsersAndNotOfControllers(t *testing.T) {
	t.Parallel()
	m := newMux(t, &policy{})
	get := httptest.NewRequest(http.MethodGet, "http://coracle.test/clusters/full", nil)
	status, _, body := send(t, m, "eks", "secret", time.Now(), get, "")
	if status != http.StatusBadRequest || !strings.Contains(body, "quota") {
		t.Errorf("a user's write into a full account is answered with %d %s", status, body)
	}
	if _, err := eks.NewFromConfig(config(m)).DescribeCluster(t.Context(),
		&eks.DescribeClusterInput{Name: aws.String("full")}); err != nil {
		t.Errorf("a controller's write into a full account: %v", err)
	}
}

func TestUnsignedAndUnrestrictedOperations(t *testing.T) {
	p := &policy{deny: []string{"sts:GetCallerIdentity", "sts:AssumeRoleWithWebIdentity"}}
	client := sts.NewFromConfig(config(newMux(t, p)))
	if _, err := client.GetCallerIdentity(t.Context(), nil); err != nil {
		t.Errorf("GetCallerIdentity needs no permission: %v", err)
	}
	out, err := client.AssumeRoleWithWebIdentity(t.Context(), &sts.AssumeRoleWithWebIdentityInput{
		RoleArn: aws.String("arn:aws:iam::111122223333:role/pod"), RoleSessionName: aws.String("pod"),
		WebIdentityToken: aws.String("eyJhbGciOiJSUzI1NiJ9"),
	})
	if err != nil {
		t.Fatalf("AssumeRoleWithWebIdentity needs no signature: %v", err)
	}
	if *out.Provider != "eu-north-1" {
		t.Errorf("an unsigned request has region and caller %q", *out.Provider)
	}
}

// An empty list is in the answer as one, so that aws prints [] and not null.
func TestEmptyListsAreSent(t *testing.T) {
	out, err := iam.NewFromConfig(config(newMux(t, &policy{}))).ListRoles(t.Context(), nil)
	if err != nil || out.Roles == nil || len(out.Roles) != 0 || out.IsTruncated {
		t.Errorf("ListRoles: %+v, %v", out, err)
	}
}

func TestMinimalInputPassesValidation(t *testing.T) {
	m := newMux(t, &policy{})
	for _, op := range m.Operations() {
		if !op.Served {
			continue
		}
		r, err := op.NewRequest("http://coracle.test", op.MinimalInput())
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		status, _, text := send(t, m, op.Service.SigningName, "secret", time.Now(), r, string(body))
		if strings.Contains(text, "validation error") || status == 501 || status == 400 {
			t.Errorf("%s: %d %s", op.Name, status, text)
		}
	}
}

func TestIdempotency(t *testing.T) {
	input := func(name, token string) *eks.CreateClusterInput {
		return &eks.CreateClusterInput{Name: &name, ClientRequestToken: &token}
	}
	recorded := wire.Fingerprint(input("a", "t1"))
	ctx := wire.WithOperation(t.Context(), wire.EKS, "CreateCluster", nil)
	for what, c := range map[string]struct {
		name, token string
		same        bool
		code        string
	}{
		"the same request":           {"a", "t1", true, ""},
		"no token":                   {"a", "", false, ""},
		"another token":              {"a", "t2", false, ""},
		"the token of another":       {"b", "t1", false, "InvalidParameterException"},
		"another request altogether": {"b", "t2", false, ""},
	} {
		same, err := wire.Repeated(ctx, &c.token, wire.Fingerprint(input(c.name, c.token)), "t1", recorded)
		var mismatch *wire.Error
		if same != c.same || (c.code != "") != errors.As(err, &mismatch) || mismatch != nil && mismatch.Code != c.code {
			t.Errorf("%s: %v %v", what, same, err)
		}
	}
}
