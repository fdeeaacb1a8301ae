package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// oidcType is the type of all identity providers.
const oidcType = "oidc"

// Bounds of an identity provider configuration, in characters. Those of claims are of the model and the quotas of EKS.
// https://docs.aws.amazon.com/eks/latest/userguide/service-quotas.html
const (
	maxRequiredClaims     = 5
	longestClaimName      = 63
	longestRequiredValue  = 253
	longestProviderName   = 100
	longestProviderMember = 255
	longestIssuerURL      = 1024
)

// providerName has what may be between the slashes of an ARN.
var providerName = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_.-]*$`)

// identityProviderHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) identityProviderHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.AssociateIdentityProviderConfig, func(
			ctx context.Context, action string, in *eks.AssociateIdentityProviderConfigInput,
		) ([]wire.Target, error) {
			var p record.IdentityProvider
			targets, err := s.OnCluster(ctx, action, in.ClusterName, func(c resource.Conditions) {
				c.RequestTags(in.Tags)
				if in.Oidc != nil {
					c.Text("eks:clientId", aws.ToString(in.Oidc.ClientId))
					c.Text("eks:issuerUrl", aws.ToString(in.Oidc.IssuerUrl))
				}
			})
			if in.Oidc != nil {
				p = record.IdentityProvider{Name: aws.ToString(in.Oidc.IdentityProviderConfigName), ID: "*"}
			}
			at := resource.ScopeOf(ctx)
			arn := p.ARN(record.Cluster{Account: at.Account, Region: at.Region, Name: aws.ToString(in.ClusterName)})
			return resource.WithTagging(targets, arn, in.Tags), err
		}),
		wire.Handle(s.DisassociateIdentityProviderConfig, func(
			ctx context.Context, action string, in *eks.DisassociateIdentityProviderConfigInput,
		) ([]wire.Target, error) {
			return s.onProvider(ctx, action, in.ClusterName, in.IdentityProviderConfig)
		}),
		wire.Handle(s.DescribeIdentityProviderConfig, func(
			ctx context.Context, action string, in *eks.DescribeIdentityProviderConfigInput,
		) ([]wire.Target, error) {
			return s.onProvider(ctx, action, in.ClusterName, in.IdentityProviderConfig)
		}),
		wire.Handle(s.ListIdentityProviderConfigs, func(
			ctx context.Context, action string, in *eks.ListIdentityProviderConfigsInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.ClusterName)
		}),
	}
}

// onProvider returns an identity provider configuration as the target. The ARN of one that does not exist ends in a "*"
// for its ID.
func (s *Service) onProvider(
	ctx context.Context, action string, cluster *string, of *types.IdentityProviderConfig,
) ([]wire.Target, error) {
	at := resource.ScopeOf(ctx)
	c := record.Cluster{Account: at.Account, Region: at.Region, Name: aws.ToString(cluster)}
	p := record.IdentityProvider{ID: "*"}
	if of != nil {
		p.Name = aws.ToString(of.Name)
	}
	row, err := s.Clusters.Get(ctx, c.Key())
	switch known := row.Value.IdentityProvider; {
	case err == nil && known != nil && known.Name == p.Name:
		p = *known
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return nil, err
	}
	t := resource.NewTarget(action, p.ARN(c))
	resource.Conditions(t.Conditions).ResourceTags(p.Tags)
	return []wire.Target{t}, nil
}

// AssociateIdentityProviderConfig has the API server of a cluster accept the tokens of an OpenID Connect provider.
// https://docs.aws.amazon.com/eks/latest/userguide/authenticate-oidc-identity-provider.html
func (s *Service) AssociateIdentityProviderConfig(
	ctx context.Context, in *eks.AssociateIdentityProviderConfigInput,
) (*eks.AssociateIdentityProviderConfigOutput, error) {
	name := aws.ToString(in.ClusterName)
	provider, err := newIdentityProvider(ctx, name, in)
	if err != nil {
		return nil, err
	}
	update, err := s.startUpdate(ctx, change{
		cluster: name, token: in.ClientRequestToken, request: in,
		kind: types.UpdateTypeAssociateIdentityProviderConfig,
		apply: func(c *record.Cluster, _ record.ControlPlane, u *record.Update) ([]store.Op, error) {
			if known := c.TrustedProvider(); known != nil {
				return nil, exception.InvalidRequest(
					name, "Cluster %s already has identity provider config %s associated: a cluster can have one",
					name, known.Name,
				)
			}
			if provider.IssuerURL == c.Issuer() {
				return nil, exception.InvalidParameter(
					name, "Incorrect Identity Provider URL configuration. The Identity Provider URL cannot be same as "+
						"OpenID Connect (OIDC) issuer URL",
				)
			}
			if c.Version == "1.33" {
				return nil, exception.InvalidRequest(
					name, "Identity providers are not implemented by Coracle for Kubernetes 1.33: its API server can't "+
						"be kept from connecting to addresses of this host. Update the cluster first.",
				)
			}
			added := provider
			c.IdentityProvider = &added
			u.Params = providerParams(provider.Name)
			return nil, nil
		},
	})
	if err != nil {
		return nil, err
	}
	tags := in.Tags
	if tags == nil {
		tags = map[string]string{}
	}
	return &eks.AssociateIdentityProviderConfigOutput{Update: update, Tags: tags}, nil
}

// DisassociateIdentityProviderConfig has the API server of a cluster no longer accept the tokens of its provider.
func (s *Service) DisassociateIdentityProviderConfig(
	ctx context.Context, in *eks.DisassociateIdentityProviderConfigInput,
) (*eks.DisassociateIdentityProviderConfigOutput, error) {
	name := aws.ToString(in.ClusterName)
	if err := checkProviderType(name, in.IdentityProviderConfig); err != nil {
		return nil, err
	}
	update, err := s.startUpdate(ctx, change{
		cluster: name, token: in.ClientRequestToken, request: in,
		kind: types.UpdateTypeDisassociateIdentityProviderConfig,
		apply: func(c *record.Cluster, _ record.ControlPlane, u *record.Update) ([]store.Op, error) {
			wanted := aws.ToString(in.IdentityProviderConfig.Name)
			if known := c.TrustedProvider(); known == nil || known.Name != wanted {
				return nil, providerNotFound(name, wanted)
			}
			c.IdentityProvider.Removed = true
			u.Params = providerParams(wanted)
			return nil, nil
		},
	})
	if err != nil {
		return nil, err
	}
	return &eks.DisassociateIdentityProviderConfigOutput{Update: update}, nil
}

// DescribeIdentityProviderConfig describes the identity provider of a cluster.
func (s *Service) DescribeIdentityProviderConfig(
	ctx context.Context, in *eks.DescribeIdentityProviderConfigInput,
) (*eks.DescribeIdentityProviderConfigOutput, error) {
	name := aws.ToString(in.ClusterName)
	row, err := s.Cluster(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := checkProviderType(name, in.IdentityProviderConfig); err != nil {
		return nil, err
	}
	_, last, err := s.Observe(ctx, row.Value)
	if err != nil {
		return nil, err
	}
	wanted := aws.ToString(in.IdentityProviderConfig.Name)
	p, status := row.Value.KnownProvider(last)
	if p == nil || p.Name != wanted {
		return nil, providerNotFound(name, wanted)
	}
	out := &types.OidcIdentityProviderConfig{
		IdentityProviderConfigName: new(p.Name), IdentityProviderConfigArn: new(p.ARN(row.Value)),
		ClusterName: new(name), IssuerUrl: new(p.IssuerURL), ClientId: new(p.ClientID),
		UsernameClaim: resource.OrNil(p.UsernameClaim), UsernamePrefix: resource.OrNil(p.UsernamePrefix),
		GroupsClaim: resource.OrNil(p.GroupsClaim), GroupsPrefix: resource.OrNil(p.GroupsPrefix),
		RequiredClaims: p.RequiredClaims, Tags: p.Tags, Status: status,
	}
	if out.RequiredClaims == nil {
		out.RequiredClaims = map[string]string{}
	}
	if out.Tags == nil {
		out.Tags = map[string]string{}
	}
	return &eks.DescribeIdentityProviderConfigOutput{
		IdentityProviderConfig: &types.IdentityProviderConfigResponse{Oidc: out},
	}, nil
}

// ListIdentityProviderConfigs lists the identity provider of a cluster, if it has one.
func (s *Service) ListIdentityProviderConfigs(
	ctx context.Context, in *eks.ListIdentityProviderConfigsInput,
) (*eks.ListIdentityProviderConfigsOutput, error) {
	row, err := s.Cluster(ctx, aws.ToString(in.ClusterName))
	if err != nil {
		return nil, err
	}
	_, last, err := s.Observe(ctx, row.Value)
	if err != nil {
		return nil, err
	}
	all := []types.IdentityProviderConfig{}
	if p, _ := row.Value.KnownProvider(last); p != nil {
		all = append(all, types.IdentityProviderConfig{Name: new(p.Name), Type: new(oidcType)})
	}
	page, next, err := wire.Page(
		ctx, all, in.MaxResults, in.NextToken, func(p types.IdentityProviderConfig) string { return *p.Name },
	)
	if err != nil {
		return nil, err
	}
	return &eks.ListIdentityProviderConfigsOutput{IdentityProviderConfigs: page, NextToken: next}, nil
}

func providerParams(name string) []types.UpdateParam {
	type config struct {
		Type string `json:"type"`
		Name string `json:"name"`
	}
	return []types.UpdateParam{
		resource.UpdateParam(types.UpdateParamTypeIdentityProviderConfig, resource.JSON([]config{{oidcType, name}})),
	}
}

func providerNotFound(cluster, name string) error {
	return exception.NotFound(cluster, "No identity provider config found for name: %s in cluster: %s", name, cluster)
}

// checkProviderType refuses requests for a provider that name none of a type that there is.
func checkProviderType(cluster string, of *types.IdentityProviderConfig) error {
	switch {
	case of == nil:
		return exception.InvalidParameter(cluster, "identityProviderConfig must be specified")
	case aws.ToString(of.Type) != oidcType:
		return exception.InvalidParameter(
			cluster, "Identity provider config type %s is invalid: the only supported type is oidc",
			aws.ToString(of.Type),
		)
	case aws.ToString(of.Name) == "":
		return exception.InvalidParameter(cluster, "The name of the identity provider config can't be empty")
	}
	return nil
}

// newIdentityProvider returns the provider that a request describes.
func newIdentityProvider(ctx context.Context, cluster string, in *eks.AssociateIdentityProviderConfigInput) (
	p record.IdentityProvider, err error,
) {
	if in.Oidc == nil {
		return p, exception.InvalidParameter(cluster, "oidc must be specified")
	}
	if fault := resource.TagFault(ctx, in.Tags); fault != "" {
		return p, exception.InvalidParameter(cluster, "%s", fault)
	}
	if fault := providerFault(in.Oidc); fault != "" {
		return p, exception.InvalidParameter(cluster, "%s", fault)
	}
	return record.IdentityProvider{
		Name: aws.ToString(in.Oidc.IdentityProviderConfigName), ID: uuid.NewString(),
		IssuerURL: aws.ToString(in.Oidc.IssuerUrl), ClientID: aws.ToString(in.Oidc.ClientId),
		UsernameClaim: aws.ToString(in.Oidc.UsernameClaim), UsernamePrefix: aws.ToString(in.Oidc.UsernamePrefix),
		GroupsClaim: aws.ToString(in.Oidc.GroupsClaim), GroupsPrefix: aws.ToString(in.Oidc.GroupsPrefix),
		RequiredClaims: in.Oidc.RequiredClaims, Tags: in.Tags,
	}, nil
}

// providerFault returns what is wrong with a provider as a user gives it; "" when nothing is. What passes the API
// server takes, too.
func providerFault(in *types.OidcIdentityProviderConfigRequest) string {
	name := aws.ToString(in.IdentityProviderConfigName)
	if len(name) > longestProviderName || !providerName.MatchString(name) {
		return fmt.Sprintf(
			"identityProviderConfigName must have between 1 and %d letters, digits, hyphens, underscores and periods, "+
				"and begin with a letter or digit", longestProviderName,
		)
	}
	if in.ClientId == nil {
		return "clientId must be specified"
	}
	for _, m := range []struct {
		name  string
		value *string
	}{
		{"clientId", in.ClientId}, {"usernameClaim", in.UsernameClaim}, {"usernamePrefix", in.UsernamePrefix},
		{"groupsClaim", in.GroupsClaim}, {"groupsPrefix", in.GroupsPrefix},
	} {
		if m.value == nil {
			continue
		}
		if fault := textFault(m.name, *m.value, longestProviderMember); fault != "" {
			return fault
		}
		if strings.HasSuffix(m.name, "Prefix") && strings.Contains(*m.value, "system:") {
			return m.name + " can't contain system:"
		}
		if strings.HasSuffix(m.name, "Prefix") && strings.HasPrefix(*m.value, "eks:") {
			return m.name + " can't begin with eks:, as the names of EKS do"
		}
	}
	if in.GroupsPrefix != nil && in.GroupsClaim == nil {
		return "groupsPrefix can't be specified without groupsClaim"
	}
	if len(in.RequiredClaims) > maxRequiredClaims {
		return fmt.Sprintf("requiredClaims can have at most %d claims, but has %d", maxRequiredClaims,
			len(in.RequiredClaims))
	}
	for claim, value := range in.RequiredClaims {
		if fault := textFault("A key of requiredClaims", claim, longestClaimName); fault != "" {
			return fault
		}
		if fault := textFault("A value of requiredClaims", value, longestRequiredValue); fault != "" {
			return fault
		}
	}
	return issuerFault(aws.ToString(in.IssuerUrl))
}

// textFault returns what is wrong with a member of a provider; "" when nothing is.
func textFault(member, value string, longest int) string {
	switch n := utf8.RuneCountInString(value); {
	case strings.TrimSpace(value) == "":
		return member + " can't be empty"
	case n > longest:
		return fmt.Sprintf("%s can't be longer than %d characters, but has %d", member, longest, n)
	case strings.ContainsFunc(value, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }):
		return member + " can't contain control characters"
	}
	return ""
}

// issuerFault returns what is wrong with the URL of an issuer; "" when nothing is.
func issuerFault(text string) string {
	if text == "" {
		return "issuerUrl must be specified"
	}
	if len(text) > longestIssuerURL {
		return fmt.Sprintf("issuerUrl can't be longer than %d characters, but has %d", longestIssuerURL, len(text))
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || strings.ContainsFunc(text, unicode.IsSpace):
		return "issuerUrl is not a valid URL"
	case u.Scheme != "https":
		return "issuerUrl must begin with https://"
	case u.Hostname() == "":
		return "issuerUrl must have a host name"
	case u.User != nil:
		return "issuerUrl can't contain a username or password"
	case u.RawQuery != "" || u.ForceQuery:
		return "issuerUrl can't contain query parameters"
	case u.Fragment != "" || strings.Contains(text, "#"):
		return "issuerUrl can't contain a fragment"
	case strings.HasSuffix(u.Host, ":"):
		return "issuerUrl has an empty port"
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "issuerUrl has an invalid port"
		}
	}
	return ""
}
