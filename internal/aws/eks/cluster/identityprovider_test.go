package cluster_test

import (
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
)

// provider returns a good request, with an edit (optional).
func provider(
	cluster string, edit func(*eks.AssociateIdentityProviderConfigInput),
) *eks.AssociateIdentityProviderConfigInput {
	in := &eks.AssociateIdentityProviderConfigInput{
		ClusterName: &cluster,
		Oidc: &types.OidcIdentityProviderConfigRequest{
			IdentityProviderConfigName: aws.String("dex"), IssuerUrl: aws.String("https://dex.example.com/auth"),
			ClientId: aws.String("kubernetes"),
		},
	}
	if edit != nil {
		edit(in)
	}
	return in
}

func named(name string) *types.IdentityProviderConfig {
	return &types.IdentityProviderConfig{Type: aws.String("oidc"), Name: &name}
}

// An identity provider is created, tagged and removed by updates, and shows their status.
func TestIdentityProviderLife(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c")
	ctx, c := t.Context(), aws.String("c")
	describe := func() (*types.OidcIdentityProviderConfig, error) {
		out, err := w.Client.DescribeIdentityProviderConfig(ctx, &eks.DescribeIdentityProviderConfigInput{ClusterName: c,
			IdentityProviderConfig: named("dex")})
		if err != nil {
			return nil, err
		}
		return out.IdentityProviderConfig.Oidc, nil
	}
	names := func() (all []string) {
		t.Helper()
		out, err := w.Client.ListIdentityProviderConfigs(ctx, &eks.ListIdentityProviderConfigsInput{ClusterName: c})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range out.IdentityProviderConfigs {
			all = append(all, *p.Type+"/"+*p.Name)
		}
		return all
	}

	in := provider("c", func(in *eks.AssociateIdentityProviderConfigInput) {
		in.Oidc.UsernameClaim, in.Oidc.UsernamePrefix = aws.String("email"), aws.String("dex:")
		in.Oidc.GroupsClaim, in.Oidc.GroupsPrefix = aws.String("groups"), aws.String("dex:")
		in.Oidc.RequiredClaims = map[string]string{"hd": "example.com"}
		in.Tags, in.ClientRequestToken = map[string]string{"team": "a"}, aws.String("once")
	})
	out, err := w.Client.AssociateIdentityProviderConfig(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	if u := out.Update; u.Type != types.UpdateTypeAssociateIdentityProviderConfig ||
		u.Status != types.UpdateStatusInProgress || out.Tags["team"] != "a" ||
		ekstest.Params(u)[types.UpdateParamTypeIdentityProviderConfig] != `[{"type":"oidc","name":"dex"}]` {
		t.Errorf("answer %+v", out)
	}
	if d := cmp.Diff(map[string]string{"eks:clientId": "kubernetes", "eks:issuerUrl": "https://dex.example.com/auth",
		"aws:RequestTag/team": "a", "aws:TagKeys": "team"},
		ekstest.OwnConditions(w.Target("eks:AssociateIdentityProviderConfig"))); d != "" {
		t.Errorf("conditions:\n%s", d)
	}
	again, err := w.Client.AssociateIdentityProviderConfig(ctx, in)
	if err != nil || *again.Update.Id != *out.Update.Id {
		t.Errorf("the same request again: %v, %v", again, err)
	}
	p, err := describe()
	if err != nil || p.Status != types.ConfigStatusCreating {
		t.Fatalf("while it is associated: %+v, %v", p, err)
	}
	w.Finish("c", *out.Update.Id, types.UpdateStatusSuccessful)
	if p, err = describe(); err != nil {
		t.Fatal(err)
	}
	arn := aws.ToString(p.IdentityProviderConfigArn)
	want := &types.OidcIdentityProviderConfig{
		IdentityProviderConfigName: aws.String("dex"), IdentityProviderConfigArn: &arn, ClusterName: c,
		IssuerUrl: aws.String("https://dex.example.com/auth"), ClientId: aws.String("kubernetes"),
		UsernameClaim: aws.String("email"), UsernamePrefix: aws.String("dex:"), GroupsClaim: aws.String("groups"),
		GroupsPrefix: aws.String("dex:"), RequiredClaims: map[string]string{"hd": "example.com"},
		Tags: map[string]string{"team": "a"}, Status: types.ConfigStatusActive,
	}
	if d := cmp.Diff(want, p, ekstest.IgnoreUnexported()); d != "" {
		t.Errorf("describe (-want +got):\n%s", d)
	}
	if !strings.HasPrefix(arn, "arn:aws:eks:"+ekstest.Region+":"+ekstest.Account+":identityproviderconfig/c/oidc/dex/") ||
		w.Target("eks:DescribeIdentityProviderConfig").Resource != arn {
		t.Errorf("ARN %s", arn)
	}
	if d := cmp.Diff([]string{"oidc/dex"}, names()); d != "" {
		t.Error(d)
	}

	if _, err := w.Client.TagResource(ctx, &eks.TagResourceInput{ResourceArn: &arn,
		Tags: map[string]string{"stage": "dev"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Client.UntagResource(ctx, &eks.UntagResourceInput{ResourceArn: &arn,
		TagKeys: []string{"team"}}); err != nil {
		t.Fatal(err)
	}
	tags, err := w.Client.ListTagsForResource(ctx, &eks.ListTagsForResourceInput{ResourceArn: &arn})
	if err != nil || cmp.Diff(map[string]string{"stage": "dev"}, tags.Tags) != "" {
		t.Errorf("tags %v, %v", tags, err)
	}
	w.Refuses("a second provider", func(ctx context.Context, c *eks.Client) error {
		_, err := c.AssociateIdentityProviderConfig(ctx, provider("c",
			func(in *eks.AssociateIdentityProviderConfigInput) {
				in.Oidc.IdentityProviderConfigName = aws.String("x")
			}))
		return err
	}, "InvalidRequestException", "Cluster c already has identity provider config dex associated: a cluster can have one")

	gone, err := w.Client.DisassociateIdentityProviderConfig(ctx, &eks.DisassociateIdentityProviderConfigInput{
		ClusterName: c, IdentityProviderConfig: named("dex")})
	if err != nil {
		t.Fatal(err)
	}
	if u := gone.Update; u.Type != types.UpdateTypeDisassociateIdentityProviderConfig ||
		ekstest.Params(u)[types.UpdateParamTypeIdentityProviderConfig] != `[{"type":"oidc","name":"dex"}]` {
		t.Errorf("answer %+v", u)
	}
	if p, err := describe(); err != nil || p.Status != types.ConfigStatusDeleting {
		t.Errorf("while it is disassociated: %+v, %v", p, err)
	}
	w.Finish("c", *gone.Update.Id, types.UpdateStatusSuccessful)
	if _, err := describe(); ekstest.FailureOf(t, err).Code != "ResourceNotFoundException" || names() != nil {
		t.Errorf("after it was disassociated: %v, %v", err, names())
	}
	if _, err := w.Client.ListTagsForResource(ctx, &eks.ListTagsForResourceInput{ResourceArn: &arn}); err == nil {
		t.Error("its tags are still there")
	}
	if _, err := w.Client.AssociateIdentityProviderConfig(ctx, provider("c", nil)); err != nil {
		t.Errorf("another one: %v", err)
	}
}

func TestIdentityProviderRefusals(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c")
	w.Create("old", func(in *eks.CreateClusterInput) { in.Version = aws.String("1.33") })
	w.Create("busy")
	busy, err := w.Client.AssociateIdentityProviderConfig(t.Context(), provider("busy", nil))
	if err != nil {
		t.Fatal(err)
	}
	own := *w.Describe("c").Identity.Oidc.Issuer
	type in = eks.AssociateIdentityProviderConfigInput
	associate := func(edit func(*in)) ekstest.Call {
		return func(ctx context.Context, c *eks.Client) error {
			_, err := c.AssociateIdentityProviderConfig(ctx, provider("c", edit))
			return err
		}
	}
	issuer := func(url string) ekstest.Call { return associate(func(in *in) { in.Oidc.IssuerUrl = &url }) }
	long := strings.Repeat("x", 256)
	const (
		parameter = "InvalidParameterException"
		invalid   = "InvalidRequestException"
		missing   = "ResourceNotFoundException"
	)
	name := "identityProviderConfigName must have between 1 and 100 letters, digits, hyphens, underscores and periods, " +
		"and begin with a letter or digit"
	for _, r := range []struct {
		name          string
		do            ekstest.Call
		code, message string
	}{
		{"no cluster", associate(func(in *in) { in.ClusterName = aws.String("nobody") }), missing,
			"No cluster found for name: nobody."},
		{"empty name", associate(func(in *in) { in.Oidc.IdentityProviderConfigName = aws.String("") }), parameter, name},
		{"name with a slash", associate(func(in *in) { in.Oidc.IdentityProviderConfigName = aws.String("a/b") }),
			parameter, name},
		{"long name", associate(func(in *in) { in.Oidc.IdentityProviderConfigName = &long }), parameter, name},
		{"empty client", associate(func(in *in) { in.Oidc.ClientId = aws.String(" ") }), parameter,
			"clientId can't be empty"},
		{"long client", associate(func(in *in) { in.Oidc.ClientId = &long }), parameter,
			"clientId can't be longer than 255 characters, but has 256"},
		{"client with a line feed", associate(func(in *in) { in.Oidc.ClientId = aws.String("a\nb") }), parameter,
			"clientId can't contain control characters"},
		{"empty issuer", issuer(""), parameter, "issuerUrl must be specified"},
		{"issuer without TLS", issuer("http://dex.example.com"), parameter, "issuerUrl must begin with https://"},
		{"issuer without a scheme", issuer("dex.example.com"), parameter, "issuerUrl must begin with https://"},
		{"issuer without a host", issuer("https:///auth"), parameter, "issuerUrl must have a host name"},
		{"issuer with a password", issuer("https://a:b@dex.example.com"), parameter,
			"issuerUrl can't contain a username or password"},
		{"issuer with a query", issuer("https://dex.example.com?x=1"), parameter,
			"issuerUrl can't contain query parameters"},
		{"issuer with an empty query", issuer("https://dex.example.com?"), parameter,
			"issuerUrl can't contain query parameters"},
		{"issuer with a fragment", issuer("https://dex.example.com#x"), parameter,
			"issuerUrl can't contain a fragment"},
		{"issuer with an empty fragment", issuer("https://dex.example.com#"), parameter,
			"issuerUrl can't contain a fragment"},
		{"issuer with an empty port", issuer("https://dex.example.com:"), parameter, "issuerUrl has an empty port"},
		{"issuer with a port beyond all", issuer("https://dex.example.com:65536"), parameter,
			"issuerUrl has an invalid port"},
		{"issuer with a space", issuer("https://dex.example.com/a b"), parameter, "issuerUrl is not a valid URL"},
		{"issuer with a bad escape", issuer("https://dex.example.com/%zz"), parameter, "issuerUrl is not a valid URL"},
		{"long issuer", issuer("https://dex.example.com/" + strings.Repeat("x", 1024)), parameter,
			"issuerUrl can't be longer than 1024 characters, but has 1048"},
		{"the cluster's own issuer", issuer(own), parameter, "Incorrect Identity Provider URL configuration. The " +
			"Identity Provider URL cannot be same as OpenID Connect (OIDC) issuer URL"},
		{"username prefix of Kubernetes", associate(func(in *in) { in.Oidc.UsernamePrefix = aws.String("system:") }),
			parameter, "usernamePrefix can't contain system:"},
		{"username prefix of EKS", associate(func(in *in) { in.Oidc.UsernamePrefix = aws.String("eks:") }),
			parameter, "usernamePrefix can't begin with eks:, as the names of EKS do"},
		{"groups prefix of Kubernetes", associate(func(in *in) {
			in.Oidc.GroupsClaim, in.Oidc.GroupsPrefix = aws.String("groups"), aws.String("x-system:y")
		}), parameter, "groupsPrefix can't contain system:"},
		{"groups prefix without groups", associate(func(in *in) { in.Oidc.GroupsPrefix = aws.String("dex:") }),
			parameter, "groupsPrefix can't be specified without groupsClaim"},
		{"empty username claim", associate(func(in *in) { in.Oidc.UsernameClaim = aws.String("") }), parameter,
			"usernameClaim can't be empty"},
		{"empty groups claim", associate(func(in *in) { in.Oidc.GroupsClaim = aws.String("") }), parameter,
			"groupsClaim can't be empty"},
		{"six required claims", associate(func(in *in) {
			in.Oidc.RequiredClaims = map[string]string{"a": "1", "b": "1", "c": "1", "d": "1", "e": "1", "f": "1"}
		}), parameter, "requiredClaims can have at most 5 claims, but has 6"},
		{"long required claim", associate(func(in *in) {
			in.Oidc.RequiredClaims = map[string]string{strings.Repeat("x", 64): "1"}
		}), parameter, "…63"},
		{"long value of a required claim", associate(func(in *in) {
			in.Oidc.RequiredClaims = map[string]string{"x": strings.Repeat("x", 254)}
		}), parameter, "…253"},
		{"empty value of a required claim", associate(func(in *in) {
			in.Oidc.RequiredClaims = map[string]string{"x": ""}
		}), parameter, "…"},
		{"tag of AWS", associate(func(in *in) { in.Tags = map[string]string{"aws:x": "y"} }), parameter, "…reserved"},
		{"a version whose API server connects anywhere", associate(func(in *in) { in.ClusterName = aws.String("old") }),
			invalid, "…not implemented by Coracle for Kubernetes 1.33"},
		{"while an update is in progress", associate(func(in *in) { in.ClusterName = aws.String("busy") }),
			"ResourceInUseException", "Cannot AssociateIdentityProviderConfig because cluster busy currently has update " +
				*busy.Update.Id + " in progress"},

		{"describe none", func(ctx context.Context, c *eks.Client) error {
			_, err := c.DescribeIdentityProviderConfig(ctx, &eks.DescribeIdentityProviderConfigInput{
				ClusterName: aws.String("c"), IdentityProviderConfig: named("dex")})
			return err
		}, missing, "No identity provider config found for name: dex in cluster: c"},
		{"describe in no cluster", func(ctx context.Context, c *eks.Client) error {
			_, err := c.DescribeIdentityProviderConfig(ctx, &eks.DescribeIdentityProviderConfigInput{
				ClusterName: aws.String("nobody"), IdentityProviderConfig: named("dex")})
			return err
		}, missing, "No cluster found for name: nobody."},
		{"describe of another type", func(ctx context.Context, c *eks.Client) error {
			_, err := c.DescribeIdentityProviderConfig(ctx, &eks.DescribeIdentityProviderConfigInput{
				ClusterName: aws.String("busy"), IdentityProviderConfig: &types.IdentityProviderConfig{
					Type: aws.String("saml"), Name: aws.String("dex")}})
			return err
		}, parameter, "Identity provider config type saml is invalid: the only supported type is oidc"},
		{"disassociate none", func(ctx context.Context, c *eks.Client) error {
			_, err := c.DisassociateIdentityProviderConfig(ctx, &eks.DisassociateIdentityProviderConfigInput{
				ClusterName: aws.String("c"), IdentityProviderConfig: named("dex")})
			return err
		}, missing, "No identity provider config found for name: dex in cluster: c"},
		{"disassociate another type", func(ctx context.Context, c *eks.Client) error {
			_, err := c.DisassociateIdentityProviderConfig(ctx, &eks.DisassociateIdentityProviderConfigInput{
				ClusterName: aws.String("c"), IdentityProviderConfig: &types.IdentityProviderConfig{
					Type: aws.String("OIDC"), Name: aws.String("dex")}})
			return err
		}, parameter, "Identity provider config type OIDC is invalid: the only supported type is oidc"},
		{"disassociate without a name", func(ctx context.Context, c *eks.Client) error {
			_, err := c.DisassociateIdentityProviderConfig(ctx, &eks.DisassociateIdentityProviderConfigInput{
				ClusterName: aws.String("c"), IdentityProviderConfig: named("")})
			return err
		}, parameter, "The name of the identity provider config can't be empty"},
		{"disassociate while an update is in progress", func(ctx context.Context, c *eks.Client) error {
			_, err := c.DisassociateIdentityProviderConfig(ctx, &eks.DisassociateIdentityProviderConfigInput{
				ClusterName: aws.String("busy"), IdentityProviderConfig: named("dex")})
			return err
		}, "ResourceInUseException", "…currently has update"},
	} {
		w.Refuses(r.name, r.do, r.code, r.message)
	}
}
