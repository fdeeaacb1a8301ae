package iam

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

func (s *Service) findProvider(ctx context.Context, arn *string) (store.Row[record.OIDCProvider], error) {
	_, resource, _ := strings.Cut(*arn, ":oidc-provider/")
	row, err := s.providers.Get(ctx, record.OIDCProviderKey(account(ctx), resource))
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Value.ARN() != *arn {
		err = noSuchEntity("OpenIDConnect Provider not found for arn %s", *arn)
	}
	return row, err
}

func (s *Service) changeProvider(ctx context.Context, arn *string, edit func(*record.OIDCProvider) error) error {
	row, err := s.findProvider(ctx, arn)
	if err != nil {
		return err
	}
	_, err = s.providers.Modify(ctx, row.Key, edit)
	return err
}

// hostname is a DNS name in a top-level domain. Those begin with a letter, which tells names from addresses in any form
// that a resolver reads, "127.1" and "0x7f.0.0.1" among them.
var hostname = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?$`)

// parseIssuer checks the URL of a provider and returns it as its ARN has it: without scheme, without the port that the
// scheme implies (eksctl sends it, and looks for an ARN without it) and without a slash at the end. A URL with another
// port, with an address for a name, or with a name that resolvers answer with loopback addresses, is refused: the
// daemon would connect to it.
func parseIssuer(text string) (string, error) {
	const invalid = "Invalid Open ID Connect Provider URL"
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme == "" || u.Hostname() == "":
		return "", validation(invalid)
	case u.Scheme != "https":
		return "", invalidInput(invalid + ". The URL must begin with https://.")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#") || u.User != nil || u.Opaque != "":
		return "", invalidInput(invalid+". The URL %q must not have a query, a fragment or a user.", text)
	case u.Port() != "" && u.Port() != "443" || strings.HasSuffix(u.Host, ":"):
		return "", invalidInput(invalid+". The URL %q must not have a port number.", text)
	case !hostname.MatchString(u.Hostname()) || strings.HasSuffix(strings.ToLower(u.Hostname()), ".localhost"):
		return "", invalidInput(invalid+". The host of the URL %q must be a public DNS name, such as oidc.example.com.",
			text)
	}
	return strings.TrimSuffix(strings.TrimSuffix(u.Host, ":443")+u.EscapedPath(), "/"), nil
}

var thumbprint = regexp.MustCompile(`^[0-9a-fA-F]{40}$`)

func checkThumbprints(list []string) error {
	if len(list) > maxThumbprints {
		return invalidInput("Thumbprint list must contain fewer than %d entries.", maxThumbprints+1)
	}
	for _, t := range list {
		if !thumbprint.MatchString(t) {
			return invalidInput("Thumbprint %q is not a SHA-1 of 40 hexadecimal digits.", t)
		}
	}
	return nil
}

// oidcProviderHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) oidcProviderHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateOpenIDConnectProvider, func(
			ctx context.Context, action string, in *iam.CreateOpenIDConnectProviderInput,
		) ([]wire.Target, error) {
			return targetTagged(ctx, action, "iam:TagOpenIDConnectProvider", providerARN(ctx, in.Url), in.Tags)
		}),
		wire.Handle(s.GetOpenIDConnectProvider, func(
			ctx context.Context, action string, in *iam.GetOpenIDConnectProviderInput,
		) ([]wire.Target, error) {
			return s.onProvider(ctx, action, in.OpenIDConnectProviderArn)
		}),
		wire.Handle(s.DeleteOpenIDConnectProvider, func(
			ctx context.Context, action string, in *iam.DeleteOpenIDConnectProviderInput,
		) ([]wire.Target, error) {
			return s.onProvider(ctx, action, in.OpenIDConnectProviderArn)
		}),
		wire.Handle(s.ListOpenIDConnectProviders, targetAny[iam.ListOpenIDConnectProvidersInput]("oidc-provider/")),
		wire.Handle(s.AddClientIDToOpenIDConnectProvider, func(
			ctx context.Context, action string, in *iam.AddClientIDToOpenIDConnectProviderInput,
		) ([]wire.Target, error) {
			return s.onProvider(ctx, action, in.OpenIDConnectProviderArn)
		}),
		wire.Handle(s.RemoveClientIDFromOpenIDConnectProvider, func(
			ctx context.Context, action string, in *iam.RemoveClientIDFromOpenIDConnectProviderInput,
		) ([]wire.Target, error) {
			return s.onProvider(ctx, action, in.OpenIDConnectProviderArn)
		}),
		wire.Handle(s.UpdateOpenIDConnectProviderThumbprint, func(
			ctx context.Context, action string, in *iam.UpdateOpenIDConnectProviderThumbprintInput,
		) ([]wire.Target, error) {
			return s.onProvider(ctx, action, in.OpenIDConnectProviderArn)
		}),
		wire.Handle(s.TagOpenIDConnectProvider, func(
			ctx context.Context, action string, in *iam.TagOpenIDConnectProviderInput,
		) ([]wire.Target, error) {
			return s.onProvider(ctx, action, in.OpenIDConnectProviderArn, func(c conditions) {
				c.requestTags(in.Tags)
			})
		}),
		wire.Handle(s.UntagOpenIDConnectProvider, func(
			ctx context.Context, action string, in *iam.UntagOpenIDConnectProviderInput,
		) ([]wire.Target, error) {
			return s.onProvider(ctx, action, in.OpenIDConnectProviderArn, func(c conditions) {
				c.tagKeys(in.TagKeys)
			})
		}),
		wire.Handle(s.ListOpenIDConnectProviderTags, func(
			ctx context.Context, action string, in *iam.ListOpenIDConnectProviderTagsInput,
		) ([]wire.Target, error) {
			return s.onProvider(ctx, action, in.OpenIDConnectProviderArn)
		}),
	}
}

// CreateOpenIDConnectProvider makes an account accept the tokens of an issuer. Thumbprints may be left out, as on AWS:
// the issuer's certificate is then checked against the host's certificate authorities.
func (s *Service) CreateOpenIDConnectProvider(ctx context.Context, in *iam.CreateOpenIDConnectProviderInput) (
	*iam.CreateOpenIDConnectProviderOutput, error) {
	at, err := parseIssuer(*in.Url)
	if err != nil {
		return nil, err
	}
	if err := checkThumbprints(in.ThumbprintList); err != nil {
		return nil, err
	}
	tags, err := mergeTags(ctx, nil, in.Tags)
	if err != nil {
		return nil, err
	}
	p := record.OIDCProvider{Account: account(ctx), URL: at, Thumbprints: in.ThumbprintList, CreatedAt: s.now().UTC(),
		Tags: tags}
	for _, id := range in.ClientIDList {
		if !slices.Contains(p.ClientIDs, id) {
			p.ClientIDs = append(p.ClientIDs, id)
		}
	}
	if len(p.ClientIDs) > maxClientIDs {
		return nil, limitExceeded("Cannot exceed quota for ClientIdsPerOpenIdConnectProvider: %d", maxClientIDs)
	}
	rows, err := s.providers.List(ctx, store.Prefix(p.Account))
	if err != nil {
		return nil, err
	}
	if len(rows) >= maxProviders {
		return nil, limitExceeded("Cannot exceed quota for OpenIdConnectProvidersPerAccount: %d", maxProviders)
	}
	if _, err := s.providers.Create(ctx, record.OIDCProviderKey(p.Account, p.URL), p); err != nil {
		return nil, mapExistsError(err, "Provider with url %s already exists.", *in.Url)
	}
	return &iam.CreateOpenIDConnectProviderOutput{OpenIDConnectProviderArn: aws.String(p.ARN()), Tags: tagList(p.Tags)},
		nil
}

// GetOpenIDConnectProvider describes a provider.
func (s *Service) GetOpenIDConnectProvider(ctx context.Context, in *iam.GetOpenIDConnectProviderInput) (
	*iam.GetOpenIDConnectProviderOutput, error) {
	row, err := s.findProvider(ctx, in.OpenIDConnectProviderArn)
	if err != nil {
		return nil, err
	}
	p := row.Value
	return &iam.GetOpenIDConnectProviderOutput{
		ClientIDList: p.ClientIDs, CreateDate: aws.Time(p.CreatedAt), Tags: tagList(p.Tags),
		ThumbprintList: p.Thumbprints, Url: aws.String(p.URL),
	}, nil
}

// DeleteOpenIDConnectProvider deletes a provider. Roles that trust it stay, and can no longer be assumed with its
// tokens.
func (s *Service) DeleteOpenIDConnectProvider(ctx context.Context, in *iam.DeleteOpenIDConnectProviderInput) (
	*iam.DeleteOpenIDConnectProviderOutput, error) {
	row, err := s.findProvider(ctx, in.OpenIDConnectProviderArn)
	if err != nil {
		return nil, err
	}
	return &iam.DeleteOpenIDConnectProviderOutput{}, deleted(s.providers.Delete(ctx, row), "OpenIDConnect provider",
		row.Value.URL)
}

// ListOpenIDConnectProviders lists the ARNs of the account's providers.
func (s *Service) ListOpenIDConnectProviders(ctx context.Context, _ *iam.ListOpenIDConnectProvidersInput) (
	*iam.ListOpenIDConnectProvidersOutput, error) {
	rows, err := s.providers.List(ctx, store.Prefix(account(ctx)))
	return &iam.ListOpenIDConnectProvidersOutput{
		OpenIDConnectProviderList: mapSlice(rows,
			func(r store.Row[record.OIDCProvider]) types.OpenIDConnectProviderListEntry {
				return types.OpenIDConnectProviderListEntry{Arn: aws.String(r.Value.ARN())}
			}),
	}, err
}

// AddClientIDToOpenIDConnectProvider accepts one more audience.
func (s *Service) AddClientIDToOpenIDConnectProvider(ctx context.Context,
	in *iam.AddClientIDToOpenIDConnectProviderInput) (*iam.AddClientIDToOpenIDConnectProviderOutput, error) {
	err := s.changeProvider(ctx, in.OpenIDConnectProviderArn, func(p *record.OIDCProvider) error {
		switch {
		case slices.Contains(p.ClientIDs, *in.ClientID):
		case len(p.ClientIDs) >= maxClientIDs:
			return limitExceeded("Cannot exceed quota for ClientIdsPerOpenIdConnectProvider: %d", maxClientIDs)
		default:
			p.ClientIDs = append(p.ClientIDs, *in.ClientID)
		}
		return nil
	})
	return &iam.AddClientIDToOpenIDConnectProviderOutput{}, err
}

// RemoveClientIDFromOpenIDConnectProvider no longer accepts an audience; one that was not accepted is no error.
func (s *Service) RemoveClientIDFromOpenIDConnectProvider(ctx context.Context,
	in *iam.RemoveClientIDFromOpenIDConnectProviderInput) (*iam.RemoveClientIDFromOpenIDConnectProviderOutput, error) {
	err := s.changeProvider(ctx, in.OpenIDConnectProviderArn, func(p *record.OIDCProvider) error {
		p.ClientIDs = slices.DeleteFunc(p.ClientIDs, func(id string) bool { return id == *in.ClientID })
		return nil
	})
	return &iam.RemoveClientIDFromOpenIDConnectProviderOutput{}, err
}

// UpdateOpenIDConnectProviderThumbprint replaces the thumbprints.
func (s *Service) UpdateOpenIDConnectProviderThumbprint(ctx context.Context,
	in *iam.UpdateOpenIDConnectProviderThumbprintInput) (*iam.UpdateOpenIDConnectProviderThumbprintOutput, error) {
	if err := checkThumbprints(in.ThumbprintList); err != nil {
		return nil, err
	}
	err := s.changeProvider(ctx, in.OpenIDConnectProviderArn, func(p *record.OIDCProvider) error {
		p.Thumbprints = in.ThumbprintList
		return nil
	})
	return &iam.UpdateOpenIDConnectProviderThumbprintOutput{}, err
}

// TagOpenIDConnectProvider adds tags to a provider.
func (s *Service) TagOpenIDConnectProvider(ctx context.Context, in *iam.TagOpenIDConnectProviderInput) (
	*iam.TagOpenIDConnectProviderOutput, error) {
	err := s.changeProvider(ctx, in.OpenIDConnectProviderArn, func(p *record.OIDCProvider) (err error) {
		p.Tags, err = mergeTags(ctx, p.Tags, in.Tags)
		return err
	})
	return &iam.TagOpenIDConnectProviderOutput{}, err
}

// UntagOpenIDConnectProvider removes tags from a provider.
func (s *Service) UntagOpenIDConnectProvider(ctx context.Context, in *iam.UntagOpenIDConnectProviderInput) (
	*iam.UntagOpenIDConnectProviderOutput, error) {
	err := s.changeProvider(ctx, in.OpenIDConnectProviderArn, func(p *record.OIDCProvider) (err error) {
		p.Tags, err = removeTags(ctx, p.Tags, in.TagKeys)
		return err
	})
	return &iam.UntagOpenIDConnectProviderOutput{}, err
}

// ListOpenIDConnectProviderTags lists the tags of a provider.
func (s *Service) ListOpenIDConnectProviderTags(ctx context.Context, in *iam.ListOpenIDConnectProviderTagsInput) (
	*iam.ListOpenIDConnectProviderTagsOutput, error) {
	row, err := s.findProvider(ctx, in.OpenIDConnectProviderArn)
	if err != nil {
		return nil, err
	}
	tags, marker, truncated, err := paginate(ctx, tagList(row.Value.Tags), in.MaxItems, in.Marker, tagKey)
	return &iam.ListOpenIDConnectProviderTagsOutput{Tags: tags, Marker: marker, IsTruncated: truncated}, err
}
