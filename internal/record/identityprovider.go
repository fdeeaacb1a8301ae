package record

import (
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// IdentityProvider is the OpenID Connect provider with whose tokens users log in to a cluster, as its owner wants it.
//
// Writer: internal/aws/eks, as a part of [Cluster].
// https://docs.aws.amazon.com/eks/latest/userguide/authenticate-oidc-identity-provider.html
type IdentityProvider struct {
	Name string
	ID   string // a UUID

	IssuerURL string
	ClientID  string
	// What a request leaves out is empty. A prefix of "-" is none.
	UsernameClaim  string            `json:",omitempty"`
	UsernamePrefix string            `json:",omitempty"`
	GroupsClaim    string            `json:",omitempty"`
	GroupsPrefix   string            `json:",omitempty"`
	RequiredClaims map[string]string `json:",omitempty"`
	Tags           map[string]string `json:",omitempty"`

	// Removed is set when it is disassociated. Once the update has ended there is none.
	Removed bool `json:",omitempty"`
}

// ARN returns the Amazon Resource Name of the configuration in a cluster.
func (p IdentityProvider) ARN(c Cluster) string {
	return "arn:aws:eks:" + c.Region + ":" + c.Account + ":identityproviderconfig/" + c.Name + "/oidc/" + p.Name + "/" +
		p.ID
}

// TrustedProvider returns the identity provider with whose tokens users are to log in; nil without one.
func (c Cluster) TrustedProvider() *IdentityProvider {
	if c.IdentityProvider == nil || c.IdentityProvider.Removed {
		return nil
	}
	return c.IdentityProvider
}

// KnownProvider returns the identity provider of the cluster with its status; nil without one. last is the update named
// by LastUpdateID.
func (c Cluster) KnownProvider(last Update) (*IdentityProvider, ekstypes.ConfigStatus) {
	p := c.IdentityProvider
	changes := func(kind ekstypes.UpdateType) bool {
		return last.Type == kind && last.Status == ekstypes.UpdateStatusInProgress
	}
	switch {
	case p == nil:
		return nil, ""
	case p.Removed && changes(ekstypes.UpdateTypeDisassociateIdentityProviderConfig):
		return p, ekstypes.ConfigStatusDeleting
	case p.Removed:
		return nil, ""
	case changes(ekstypes.UpdateTypeAssociateIdentityProviderConfig):
		return p, ekstypes.ConfigStatusCreating
	}
	return p, ekstypes.ConfigStatusActive
}
