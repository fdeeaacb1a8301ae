package controlplane

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/record"
)

// The API server maps tokens as its flags --oidc-* would, reaches the provider through the proxy for addresses of
// users, and takes no name of Kubernetes' own or EKS's from it.
func TestTokensOfAnIdentityProvider(t *testing.T) {
	t.Parallel()
	rules := userRules
	const url = "https://dex.example.com"
	for _, c := range []struct {
		name     string
		provider *record.IdentityProvider
		minor    string
		direct   bool
		want     any // the "jwt"
	}{
		{"none", nil, "1.35", false, nil},
		{"removed", &record.IdentityProvider{IssuerURL: url, ClientID: "k", Removed: true}, "1.35", false, nil},
		{"of a version that would connect anywhere", &record.IdentityProvider{IssuerURL: url, ClientID: "k"}, "1.33",
			false, nil},
		{"defaults", &record.IdentityProvider{IssuerURL: url, ClientID: "k"}, "1.34", false, []any{map[string]any{
			"issuer":              map[string]any{"url": url, "audiences": []any{"k"}, "egressSelectorType": "controlplane"},
			"claimMappings":       map[string]any{"username": map[string]any{"claim": "sub", "prefix": url + "#"}},
			"userValidationRules": rules,
		}}},
		{"email, without an egress selector", &record.IdentityProvider{IssuerURL: url, ClientID: "k",
			UsernameClaim: "email"}, "1.36", true, []any{map[string]any{
			"issuer":              map[string]any{"url": url, "audiences": []any{"k"}},
			"claimMappings":       map[string]any{"username": map[string]any{"claim": "email", "prefix": ""}},
			"userValidationRules": rules,
		}}},
		{"everything", &record.IdentityProvider{IssuerURL: url, ClientID: "k", UsernameClaim: "name",
			UsernamePrefix: "-", GroupsClaim: "groups", GroupsPrefix: "dex:",
			RequiredClaims: map[string]string{"b": "2", "a": "1"}}, "1.35", false, []any{map[string]any{
			"issuer": map[string]any{"url": url, "audiences": []any{"k"}, "egressSelectorType": "controlplane"},
			"claimMappings": map[string]any{
				"username": map[string]any{"claim": "name", "prefix": ""},
				"groups":   map[string]any{"claim": "groups", "prefix": "dex:"},
			},
			"claimValidationRules": []any{
				map[string]any{"claim": "a", "requiredValue": "1"}, map[string]any{"claim": "b", "requiredValue": "2"},
			},
			"userValidationRules": rules,
		}}},
	} {
		text, err := authentication(plane{minor: c.minor, cluster: record.Cluster{IdentityProvider: c.provider}}, !c.direct)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := yaml.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, got["jwt"]); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

// Whoever has rights in every cluster has a name that no token of an identity provider can have.
func TestTokensNameNobodyOfEKS(t *testing.T) {
	t.Parallel()
	for _, o := range standard() {
		subjects, _ := o.Object["subjects"].([]any)
		for _, subject := range subjects {
			s := subject.(map[string]any)
			name, _ := s["name"].(string)
			if s["kind"] != "ServiceAccount" && !strings.HasPrefix(name, "eks:") && !strings.HasPrefix(name, "system:") {
				t.Errorf("%s %s gives rights to %s %q, which a token may say it is", o.GetKind(), o.GetName(), s["kind"], name)
			}
		}
	}
}
