package record

import (
	"time"

	"github.com/coracle-eks/coracle/internal/store"
)

// OIDCProvider is an OpenID Connect provider whose tokens an account accepts in AssumeRoleWithWebIdentity.
//
// Writer: internal/aws/iam.
type OIDCProvider struct {
	Account     string
	URL         string   // without "https://": oidc.eks.us-east-1.amazonaws.com/id/0123...
	ClientIDs   []string // accepted audiences
	Thumbprints []string // SHA-1 of certificates of the issuer's CA, hexadecimal
	CreatedAt   time.Time
	Tags        map[string]string
}

// ARN returns the provider's Amazon Resource Name.
func (p OIDCProvider) ARN() string {
	return "arn:aws:iam::" + p.Account + ":oidc-provider/" + p.URL
}

// OIDCProviderKey returns the key of a provider.
func OIDCProviderKey(account, url string) string { return store.Key(account, url) }

// OIDCProviders returns the table of providers, by OIDCProviderKey.
func OIDCProviders(s *store.Store) store.Table[OIDCProvider] {
	return store.NewTable[OIDCProvider](s, "oidcproviders")
}
