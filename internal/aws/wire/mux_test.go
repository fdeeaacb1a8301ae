package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/store"
)

// keys knows two keys: AKIA for alice, and ASIA whose session is over.
type keys struct{}

var alice = wire.Caller{Account: "111122223333", ARN: "arn:aws:iam::111122223333:user/alice", UserID: "AIDAALICE",
	AccessKeyID: "AKIA", PrincipalARN: "arn:aws:iam::111122223333:user/alice"}

func (keys) Lookup(_ context.Context, id, _ string) (string, wire.Caller, error) {
	switch id {
	case "AKIA":
		return "secret", alice, nil
	case "ASIA":
		return "", wire.Caller{}, wire.ErrExpiredToken
	}
	return "", wire.Caller{}, fmt.Errorf("%s: %w", id, wire.ErrUnknownAccessKey)
}

// policy denies what is listed and remembers what it was asked.
type policy struct {
	deny  []string
	asked []wire.Target
}

func (p *policy) Authorize(_ context.Context, _ wire.Caller, targets []wire.Target) error {
	p.asked = append(p.asked, targets...)
	for _, t := range targets {
		if slices.Contains(p.deny, t.Action) {
			return &wire.Denied{Action: t.Action, Resource: t.Resource,
				Reason: "because no identity-based policy allows the " + t.Action + " action"}
		}
	}
	return nil
}

type eksService struct{}

func (eksService) DescribeCluster(ctx context.Context, in *eks.DescribeClusterInput) (*eks.DescribeClusterOutput,
	error) {
	switch *in.Name {
	case "absent":
		return nil, &ekstypes.ResourceNotFoundException{Message: aws.String("No cluster found for name: absent."),
			ClusterName: in.Name}
	case "broken":
		return nil, errors.New("disk full")
	case "panic":
		panic("nil map")
	case "large":
		if err := wire.HoldAnswer(ctx, 80); err != nil {
			return nil, err
		}
	case "full":
		if store.IsLimited(ctx) {
			return nil, fmt.Errorf("write: %w", &store.FullError{Account: wire.CallerFrom(ctx).Account})
		}
	}
	return &eks.DescribeClusterOutput{Cluster: &ekstypes.Cluster{Name: in.Name,
		Arn: aws.String(wire.CallerFrom(ctx).ARN), Version: aws.String(wire.RegionFrom(ctx))}}, nil
}

func (eksService) ListClusters(ctx context.Context, in *eks.ListClustersInput) (*eks.ListClustersOutput, error) {
	page, next, err := wire.Page(ctx, []string{"a", "b", "c"}, in.MaxResults, in.NextToken,
		func(s string) string { return s })
	return &eks.ListClustersOutput{Clusters: page, NextToken: next}, err
}

func (eksService) CreateCluster(ctx context.Context, in *eks.CreateClusterInput) (*eks.CreateClusterOutput, error) {
	err := wire.Authorize(ctx, wire.Target{Action: "iam:PassRole", Resource: *in.RoleArn,
		Conditions: map[string][]string{"iam:PassedToService": {"eks.amazonaws.com"}}})
	return &eks.CreateClusterOutput{}, err
}

func (s eksService) handlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeCluster, func(_ context.Context, action string, in *eks.DescribeClusterInput) (
			[]wire.Target, error) {
			return []wire.Target{{Action: action, Resource: "arn:aws:eks:us-west-2:111122223333:cluster/" + *in.Name}},
				nil
		}),
		wire.Handle(s.ListClusters, wire.OnAll),
		wire.Handle(s.CreateCluster, wire.OnAll),
	}
}

type iamService struct{}

func (iamService) GetRole(_ context.Context, in *iam.GetRoleInput) (*iam.GetRoleOutput, error) {
	return nil, &iamtypes.NoSuchEntityException{Message: aws.String("The role with name " + *in.RoleName +
		" cannot be found.")}
}

func (iamService) ListRoles(context.Context, *iam.ListRolesInput) (*iam.ListRolesOutput, error) {
	return &iam.ListRolesOutput{}, nil
}

func (s iamService) handlers() []wire.Handler {
	return []wire.Handler{wire.Handle(s.GetRole, wire.OnAll), wire.Handle(s.ListRoles, wire.OnAll)}
}

type stsService struct{}

func (stsService) GetCallerIdentity(ctx context.Context, _ *sts.GetCallerIdentityInput) (*sts.GetCallerIdentityOutput,
	error) {
	return &sts.GetCallerIdentityOutput{Arn: aws.String(wire.CallerFrom(ctx).ARN)}, nil
}

func (stsService) AssumeRoleWithWebIdentity(ctx context.Context, in *sts.AssumeRoleWithWebIdentityInput) (
	*sts.AssumeRoleWithWebIdentityOutput, error) {
	return &sts.AssumeRoleWithWebIdentityOutput{Provider: aws.String(wire.RegionFrom(ctx) + wire.CallerFrom(ctx).ARN)},
		nil
}

func (s stsService) handlers() []wire.Handler {
	return []wire.Handler{wire.HandleUnrestricted(s.GetCallerIdentity),
		wire.HandleUnsigned(s.AssumeRoleWithWebIdentity)}
}

func newMux(t testing.TB, p *policy) *wire.Mux {
	t.Helper()
	m := wire.NewMux(wire.Options{Credentials: keys{}, Authorizer: p, Region: "eu-north-1",
		Logger: slog.New(slog.DiscardHandler), MaxBody: 1 << 16})
	m.Register(wire.EKS, eksService{}.handlers()...)
	m.Register(wire.IAM, iamService{}.handlers()...)
	m.Register(wire.STS, stsService{}.handlers()...)
	return m
}

func config(m *wire.Mux) aws.Config {
	return aws.Config{
		Region: "us-west-2", BaseEndpoint: aws.String("http://coracle.test"),
		HTTPClient: &http.Client{Transport: m.Transport()},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "AKIA", SecretAccessKey: "secret"}, nil
		}),
		Retryer: func() aws.Retryer { return aws.NopRetryer{} },
	}
}

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
	if got := p.asked[0].Conditions["aws:RequestedRegion"]; !slices.Equal(got, []string{"us-west-2"}) {
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

// send signs a request as AKIA with that secret and returns status, headers and body.
func send(t *testing.T, m *wire.Mux, service, secret string, at time.Time, r *http.Request, body string) (int,
	http.Header, string) {
	t.Helper()
	id := "AKIA"
	if secret == "expired" {
		id = "ASIA"
	} else if secret == "unknown" {
		id = "AKIAUNKNOWN"
	}
	if service != "" {
		creds := aws.Credentials{AccessKeyID: id, SecretAccessKey: secret}
		if err := v4.NewSigner().SignHTTP(t.Context(), creds, r, hash(body), service, "us-west-2", at); err != nil {
			t.Fatal(err)
		}
	}
	w := httptest.NewRecorder()
	m.ServeHTTP(w, r)
	return w.Code, w.Header(), w.Body.String()
}

func TestErrorsInTheFormOfEachProtocol(t *testing.T) {
	p := &policy{deny: []string{"eks:DeleteCluster", "iam:PassRole", "iam:ListRoles", "eks:ListClusters"}}
	m := newMux(t, p)
	form := "application/x-www-form-urlencoded"
	tests := []struct {
		name, service, secret      string
		age                        time.Duration
		method, path, target, body string
		status                     int
		errorType                  string
		contains                   []string
	}{
		{name: "modeled exception, restJson1", service: "eks", secret: "secret", method: "GET",
			path:   "/clusters/absent",
			status: 404, errorType: "ResourceNotFoundException",
			contains: []string{`"message":"No cluster found for name: absent."`, `"clusterName":"absent"`}},
		{name: "modeled exception, awsQuery", service: "iam", secret: "secret", method: "POST", path: "/",
			body:   "Action=GetRole&RoleName=r&Version=2010-05-08",
			status: 404, contains: []string{"<ErrorResponse xmlns=", "<Type>Sender</Type>", "<Code>NoSuchEntity</Code>",
				"<Message>The role with name r cannot be found.</Message>", "<RequestId>"}},
		{name: "internal failure hides its cause", service: "eks", secret: "secret", method: "GET",
			path: "/clusters/broken", status: 500, errorType: "InternalFailure", contains: []string{"request id"}},
		{name: "panic", service: "eks", secret: "secret", method: "GET", path: "/clusters/panic", status: 500,
			errorType: "InternalFailure"},
		{name: "denied, restJson1", service: "eks", secret: "secret", method: "GET", path: "/clusters", status: 403,
			errorType: "AccessDeniedException",
			contains: []string{
				"User: arn:aws:iam::111122223333:user/alice is not authorized to perform: eks:ListClusters on " +
					"resource: * because no identity-based policy allows the eks:ListClusters action"}},
		{name: "denied, awsQuery", service: "iam", secret: "secret", method: "POST", path: "/",
			body: "Action=ListRoles&Version=2010-05-08", status: 403, contains: []string{"<Code>AccessDenied</Code>"}},
		{name: "PassRole denied inside the handler", service: "eks", secret: "secret", method: "POST",
			path: "/clusters",
			body: `{"name":"x","roleArn":"arn:aws:iam::111122223333:role/r","resourcesVpcConfig":{}}`, status: 403,
			errorType: "AccessDeniedException",
			contains:  []string{"iam:PassRole on resource: arn:aws:iam::111122223333:role/r"}},
		{name: "unsigned, restJson1", method: "GET", path: "/clusters", status: 403,
			errorType: "MissingAuthenticationTokenException"},
		{name: "unsigned, awsQuery", method: "POST", path: "/", body: "Action=ListRoles&Version=2010-05-08",
			status: 403, contains: []string{"<Code>MissingAuthenticationToken</Code>"}},
		{name: "unsigned, ec2Query", method: "POST", path: "/", body: "Action=DescribeVpcs&Version=2016-11-15",
			status: 403, contains: []string{"<Response><Errors><Error><Code>MissingAuthenticationToken</Code>"}},
		{name: "unsigned, awsJson1.1", method: "POST", path: "/", target: "TrentService.ListKeys", body: "{}",
			status: 400, contains: []string{`"__type":"MissingAuthenticationTokenException"`}},
		{name: "wrong secret, restJson1", service: "eks", secret: "guess", method: "GET", path: "/clusters",
			status: 403, errorType: "InvalidSignatureException"},
		{name: "wrong secret, awsQuery", service: "iam", secret: "guess", method: "POST", path: "/",
			body: "Action=ListRoles&Version=2010-05-08", status: 403,
			contains: []string{"<Code>SignatureDoesNotMatch</Code>"}},
		{name: "wrong secret, ec2Query", service: "ec2", secret: "guess", method: "POST", path: "/",
			body: "Action=DescribeVpcs&Version=2016-11-15", status: 401,
			contains: []string{"<Code>AuthFailure</Code>"}},
		{name: "unknown key, awsJson1.1", service: "kms", secret: "unknown", method: "POST", path: "/",
			target: "TrentService.ListKeys", body: "{}", status: 400,
			contains: []string{`"__type":"UnrecognizedClientException"`}},
		{name: "unknown key, awsQuery", service: "sts", secret: "unknown", method: "POST", path: "/",
			body: "Action=GetCallerIdentity&Version=2011-06-15", status: 403,
			contains: []string{"<Code>InvalidClientTokenId</Code>"}},
		{name: "expired session, restJson1", service: "eks", secret: "expired", method: "GET", path: "/clusters",
			status: 403, errorType: "ExpiredTokenException"},
		{name: "expired session, ec2Query", service: "ec2", secret: "expired", method: "POST", path: "/",
			body: "Action=DescribeVpcs&Version=2016-11-15", status: 400,
			contains: []string{"<Code>RequestExpired</Code>"}},
		{name: "old signature", service: "iam", secret: "secret", age: time.Hour, method: "POST", path: "/",
			body: "Action=ListRoles&Version=2010-05-08", status: 403,
			contains: []string{"<Code>SignatureDoesNotMatch</Code>", "Signature expired"}},
		{name: "not served, restJson1", service: "eks", secret: "secret", method: "DELETE", path: "/clusters/x",
			status: 501, errorType: "NotImplemented",
			contains: []string{"DeleteCluster is not implemented by coracle"}},
		{name: "not served, ec2Query", service: "ec2", secret: "secret", method: "POST", path: "/",
			body: "Action=DescribeVpcs&Version=2016-11-15", status: 501,
			contains: []string{"<Code>UnsupportedOperation</Code>", "DescribeVpcs is not implemented by coracle"}},
		{name: "unknown path", service: "eks", secret: "secret", method: "GET", path: "/unicorns", status: 404,
			errorType: "UnknownOperationException"},
		{name: "unknown action", service: "iam", secret: "secret", method: "POST", path: "/",
			body: "Action=GetUnicorn&Version=2010-05-08", status: 400, contains: []string{"<Code>InvalidAction</Code>",
				"Could not find operation GetUnicorn for version 2010-05-08"}},
		{name: "unknown target", service: "kms", secret: "secret", method: "POST", path: "/",
			target: "TrentService.Unicorn", body: "{}", status: 400, contains: []string{"UnknownOperationException"}},
		{name: "unknown service", service: "braket", secret: "secret", method: "GET", path: "/", status: 501,
			errorType: "UnknownService", contains: []string{"braket"}},
		{name: "not JSON", service: "eks", secret: "secret", method: "POST", path: "/clusters", body: `{"name":`,
			status: 400, errorType: "SerializationException"},
		{name: "wrong type", service: "eks", secret: "secret", method: "POST", path: "/clusters", body: `{"name":7}`,
			status: 400, errorType: "SerializationException"},
		{name: "missing members", service: "eks", secret: "secret", method: "POST", path: "/clusters",
			body: `{"name":"x"}`, status: 400, errorType: "InvalidParameterException",
			contains: []string{
				"2 validation errors detected: Value null at 'resourcesVpcConfig' failed to satisfy constraint: " +
					"Member must not be null; Value null at 'roleArn'"}},
		{name: "pattern", service: "iam", secret: "secret", method: "POST", path: "/",
			body: "Action=GetRole&RoleName=a%20b&Version=2010-05-08", status: 400,
			contains: []string{"<Code>ValidationError</Code>",
				"1 validation error detected: Value &#39;a b&#39; at &#39;roleName&#39; failed to satisfy " +
					"constraint: Member must satisfy regular expression pattern: [\\w+=,.@-]+"}},
		{name: "body too large", service: "eks", secret: "secret", method: "POST", path: "/clusters",
			body: strings.Repeat(" ", 1<<16+1), status: 413, errorType: "RequestEntityTooLarge"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(tt.method, "http://coracle.test"+tt.path, strings.NewReader(tt.body))
			switch {
			case tt.target != "":
				r.Header.Set("X-Amz-Target", tt.target)
				r.Header.Set("Content-Type", "application/x-amz-json-1.1")
			case strings.HasPrefix(tt.body, "Action="):
				r.Header.Set("Content-Type", form)
			}
			status, header, body := send(t, m, tt.service, tt.secret, time.Now().Add(-tt.age), r, tt.body)
			if status != tt.status || header.Get("X-Amzn-Errortype") != tt.errorType {
				t.Errorf("status %d, error type %q; want %d, %q\n%s", status, header.Get("X-Amzn-Errortype"), tt.status,
					tt.errorType, body)
			}
			for _, c := range tt.contains {
				if !strings.Contains(body, c) {
					t.Errorf("the body lacks %s\n%s", c, body)
				}
			}
			if strings.Contains(body, "disk full") || strings.Contains(body, "nil map") {
				t.Errorf("the cause is shown to the caller: %s", body)
			}
			if header.Get("X-Amzn-Requestid") == "" {
				t.Error("no request id")
			}
		})
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

func TestPagesToTheEnd(t *testing.T) {
	client := eks.NewFromConfig(config(newMux(t, &policy{})))
	var all []string
	pages := eks.NewListClustersPaginator(client, &eks.ListClustersInput{MaxResults: aws.Int32(2)})
	for pages.HasMorePages() {
		out, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, out.Clusters...)
	}
	if !slices.Equal(all, []string{"a", "b", "c"}) {
		t.Errorf("the pages hold %v", all)
	}
	var invalid *ekstypes.InvalidParameterException
	if _, err := client.ListClusters(t.Context(), &eks.ListClustersInput{NextToken: aws.String("forged")}); !errors.As(
		err, &invalid) {
		t.Errorf("a forged token gives %v", err)
	}
}

// An empty list is in the answer as one, so that aws prints [] and not null.
func TestEmptyListsAreSent(t *testing.T) {
	out, err := iam.NewFromConfig(config(newMux(t, &policy{}))).ListRoles(t.Context(), nil)
	if err != nil || out.Roles == nil || len(out.Roles) != 0 || out.IsTruncated {
		t.Errorf("ListRoles: %+v, %v", out, err)
	}
}

func TestGenericErrorKeepsItsCode(t *testing.T) {
	_, err := eks.NewFromConfig(config(newMux(t, &policy{}))).DeleteCluster(t.Context(),
		&eks.DeleteClusterInput{Name: aws.String("x")})
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != "NotImplemented" {
		t.Errorf("got %v", err)
	}
}

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

func TestRegisterRefusesWhatIsNoOperation(t *testing.T) {
	for name, handler := range map[string]wire.Handler{
		"unknown operation": wire.HandleFunc("Frobnicate", eksService{}.ListClusters),
		"wrong input":       wire.HandleFunc("DeleteCluster", eksService{}.CreateCluster),
		"wrong output":      wire.Handle(deletesWithoutOutput, wire.OnAll),
		"served twice":      wire.Handle(eksService{}.ListClusters, wire.OnAll),
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("Register accepted it")
				}
			}()
			newMux(t, &policy{}).Register(wire.EKS, handler)
		})
	}
}

func deletesWithoutOutput(context.Context, *eks.DeleteClusterInput) (*eks.CreateClusterOutput, error) {
	return nil, nil
}

func TestNobodyServesAnOperationForEverybodyByMistake(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("an operation is served that says nothing of who may call it")
		}
	}()
	wire.Handle(eksService{}.ListClusters, nil)
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

func TestErrorBodyIsJSON(t *testing.T) {
	m := newMux(t, &policy{})
	r := httptest.NewRequest("GET", "http://coracle.test/clusters/absent", nil)
	_, _, body := send(t, m, "eks", "secret", time.Now(), r, "")
	var v map[string]any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Errorf("%s: %v", body, err)
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

func TestPageTokens(t *testing.T) {
	at := func(op, prefix string) context.Context {
		return wire.WithOperation(t.Context(), wire.IAM, op, &iam.ListRolesInput{PathPrefix: &prefix})
	}
	list := func(ctx context.Context, token *string, items ...string) ([]string, *string, error) {
		return wire.Page(ctx, items, aws.Int32(2), token, func(s string) string { return s })
	}
	first, token, err := list(at("ListRoles", "/"), nil, "a", "c", "e")
	if err != nil || !slices.Equal(first, []string{"a", "c"}) || token == nil {
		t.Fatalf("first page: %v, %v, %v", first, token, err)
	}
	// Between the pages b and d came, c went: nothing that stayed is lost or comes twice.
	second, next, err := list(at("ListRoles", "/"), token, "a", "b", "d", "e")
	if err != nil || !slices.Equal(second, []string{"d", "e"}) || next != nil {
		t.Errorf("second page: %v, %v, %v", second, next, err)
	}
	for name, ctx := range map[string]context.Context{"another operation": at("ListUsers", "/"),
		"other filters": at("ListRoles", "/x")} {
		var invalid *wire.Error
		if _, _, err := list(ctx, token, "a", "c", "e"); !errors.As(err, &invalid) ||
			invalid.Code != "ValidationError" {
			t.Errorf("a token for %s gives %v", name, err)
		}
	}
	if all, next, err := wire.Page(at("ListRoles", "/"), []string{"a"}, nil, nil,
		func(s string) string { return s }); err != nil || next != nil || len(all) != 1 {
		t.Errorf("without a maximum: %v, %v, %v", all, next, err)
	}
}

func TestMethodsThatNoServiceHas(t *testing.T) {
	m := newMux(t, &policy{})
	for _, method := range []string{http.MethodHead, http.MethodOptions, http.MethodTrace} {
		status, _, body := send(t, m, "eks", "secret", time.Now(),
			httptest.NewRequest(method, "http://coracle.test/clusters", nil), "")
		if status != http.StatusNotFound || method == http.MethodHead && body != "" {
			t.Errorf("%s: %d %s", method, status, body)
		}
	}
}

func TestOperationsListsWhatIsServed(t *testing.T) {
	var served []string
	total := 0
	for _, op := range newMux(t, &policy{}).Operations() {
		total++
		if op.Served {
			served = append(served, op.Service.ActionPrefix+":"+op.Name)
		}
	}
	want := []string{"eks:CreateCluster", "eks:DescribeCluster", "eks:ListClusters", "iam:GetRole", "iam:ListRoles",
		"sts:AssumeRoleWithWebIdentity", "sts:GetCallerIdentity"}
	if !slices.Equal(served, want) || total < 1600 {
		t.Errorf("%d operations, of which are served %v", total, served)
	}
}
