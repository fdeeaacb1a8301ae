package authenticator

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver/load"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	kubeuser "k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	authenticatorwebhook "k8s.io/apiserver/plugin/pkg/authenticator/token/webhook"
	authorizerwebhook "k8s.io/apiserver/plugin/pkg/authorizer/webhook"
	authorizermetrics "k8s.io/apiserver/plugin/pkg/authorizer/webhook/metrics"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/coracle-eks/coracle/internal/record"
)

// asAPIServer has the configuration that an API server reads from the files and flags, with its own code.
type asAPIServer struct {
	tokens     *authenticatorwebhook.WebhookTokenAuthenticator
	authorizer *authorizerwebhook.WebhookAuthorizer
}

func newAPIServer(t *testing.T, f *fixture) asAPIServer {
	t.Helper()
	flags := apiServerFlags(t, f)
	value := func(flag string) string {
		for _, fl := range flags {
			if v, ok := strings.CutPrefix(fl, "--"+flag+"="); ok {
				return v
			}
		}
		t.Fatalf("no flag --%s in %q", flag, flags)
		return ""
	}
	config := func(kubeconfig string) *rest.Config {
		c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		f.put(err)
		return c
	}
	once := wait.Backoff{Steps: 1}
	var s asAPIServer
	var err error
	s.tokens, err = authenticatorwebhook.New(config(value("authentication-token-webhook-config-file")),
		value("authentication-token-webhook-version"), nil, once)
	f.put(err)

	c, err := load.LoadFromFile(value("authorization-config"))
	f.put(err)
	compiler := authorizationcel.NewDefaultCompiler()
	if errs := validation.ValidateAuthorizationConfiguration(compiler, nil, c, sets.New("Node", "RBAC", "Webhook"),
		sets.New("Webhook")); len(errs) > 0 {
		t.Fatalf("authorization configuration: %v", errs.ToAggregate())
	}
	var types []string
	for _, a := range c.Authorizers {
		types = append(types, string(a.Type))
	}
	if !slices.Equal(types, []string{"Node", "RBAC", "Webhook"}) {
		t.Errorf("authorizers are %v", types)
	}
	hook := c.Authorizers[2].Webhook
	if hook.FailurePolicy != "Deny" || hook.AuthorizedTTL.Duration > time.Second ||
		hook.UnauthorizedTTL.Duration > time.Second {
		t.Errorf("webhook is %+v", hook)
	}
	s.authorizer, err = authorizerwebhook.New(config(*hook.ConnectionInfo.KubeConfigFile),
		hook.SubjectAccessReviewVersion,
		hook.AuthorizedTTL.Duration, hook.UnauthorizedTTL.Duration, once, authorizer.DecisionDeny, hook.MatchConditions,
		c.Authorizers[2].Name, authorizermetrics.NoopAuthorizerMetrics{}, compiler)
	f.put(err)
	return s
}

func TestAPIServerUsesTheFiles(t *testing.T) {
	t.Parallel()
	f := newFixture(t, onlyAPI)
	f.entry(record.AccessEntry{PrincipalARN: "arn:aws:iam::111122223333:role/Ops",
		Policies: []record.AccessPolicyAssociation{everywhere("AmazonEKSClusterAdminPolicy")}})
	api := newAPIServer(t, f)

	got, ok, err := api.tokens.AuthenticateToken(t.Context(), f.role("/", "Ops", "alice"))
	if err != nil || !ok {
		t.Fatalf("authenticated is %t: %v", ok, err)
	}
	if got.User.GetName() != "arn:aws:sts::111122223333:assumed-role/Ops/alice" {
		t.Errorf("user is %q", got.User.GetName())
	}
	if _, ok, err := api.tokens.AuthenticateToken(t.Context(), f.user("/", "bob")); ok || err == nil ||
		!strings.Contains(err.Error(), "identity is not mapped") {
		t.Errorf("a user without an entry: authenticated is %t: %v", ok, err)
	}

	decide := func(ctx context.Context, u kubeuser.Info, verb string) authorizer.Decision {
		t.Helper()
		d, _, _ := api.authorizer.Authorize(ctx, authorizer.AttributesRecord{
			User: u, Verb: verb, APIGroup: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "x",
			ResourceRequest: true,
		})
		return d
	}
	if d := decide(t.Context(), got.User, "escalate"); d != authorizer.DecisionAllow {
		t.Errorf("the administrator: decision %v", d)
	}
	f.server.Close()
	if d := decide(t.Context(), got.User, "bind"); d != authorizer.DecisionDeny {
		t.Errorf("the administrator while the webhook is down: decision %v, want a denial", d)
	}
	// Users who cannot have an access entry do not depend on the webhook.
	for _, u := range []kubeuser.Info{
		&kubeuser.DefaultInfo{Name: "system:kube-controller-manager", Groups: []string{"system:authenticated"}},
		&kubeuser.DefaultInfo{Name: "system:serviceaccount:kube-system:x",
			Extra: map[string][]string{"authentication.kubernetes.io/pod-name": {"p"}}},
		&kubeuser.DefaultInfo{Name: "system:anonymous"},
	} {
		if d := decide(t.Context(), u, "get"); d != authorizer.DecisionNoOpinion {
			t.Errorf("%s while the webhook is down: decision %v, want no opinion", u.GetName(), d)
		}
	}
	if _, ok, err := api.tokens.AuthenticateToken(t.Context(), f.root()); ok || err == nil {
		t.Errorf("token while the webhook is down: authenticated is %t: %v", ok, err)
	}
}

// apiServerFlags writes the files of the fixture's webhooks, as the control plane does, and gives
// the flags that name them.
func apiServerFlags(t *testing.T, f *fixture) []string {
	t.Helper()
	dir := t.TempDir()
	cert, key, err := f.authority.Ensure(dir, "client", ClientLeaf(clusterID))
	f.put(err)
	e := Endpoint{ClusterID: clusterID, URL: f.server.URL, CA: f.authority.PEM, CertificateFile: cert, KeyFile: key}
	write := func(name string, data []byte, err error) string {
		f.put(err)
		path := filepath.Join(dir, name)
		f.put(os.WriteFile(path, data, 0o600))
		return path
	}
	authentication, err := e.Kubeconfig("authenticate")
	tokens := write("authentication.kubeconfig", authentication, err)
	authorization, err := e.Kubeconfig("authorize")
	configuration, err2 := AuthorizationConfiguration(write("authorization.kubeconfig", authorization, err))
	return append(TokenWebhookFlags(tokens), "--authorization-config="+write("authorization.yaml", configuration, err2))
}

func TestAuthorizationWithoutWebhook(t *testing.T) {
	t.Parallel()
	data, err := AuthorizationConfiguration("")
	if err != nil {
		t.Fatal(err)
	}
	c, err := load.LoadFromData(data)
	if err != nil {
		t.Fatal(err)
	}
	if errs := validation.ValidateAuthorizationConfiguration(authorizationcel.NewDefaultCompiler(), nil, c,
		sets.New("Node", "RBAC", "Webhook"), sets.New("Webhook")); len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	if len(c.Authorizers) != 2 {
		t.Errorf("authorizers are %+v", c.Authorizers)
	}
}
