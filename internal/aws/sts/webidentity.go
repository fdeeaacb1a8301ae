package sts

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/aws-sdk-go-v2/service/sts/types"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// algorithms are those that AWS accepts for web identity tokens: no shared secrets, and never "none".
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.ES256, jose.ES384, jose.ES512, jose.PS256, jose.PS384, jose.PS512,
}

// tokenSkew is the time by which the clock of an issuer may be ahead of ours.
const tokenSkew = 5 * time.Minute

// claims are the claims of a token that are read.
type claims struct {
	jwt.Claims
	AuthorizedParty string          `json:"azp"`
	Methods         json.RawMessage `json:"amr"`
	AWSTags         struct {
		Tags       map[string][]string `json:"principal_tags"`
		Transitive []string            `json:"transitive_tag_keys"`
	} `json:"https://aws.amazon.com/tags"`

	others map[string]json.RawMessage // all claims
}

// maxCustomClaims is the number of claims of an issuer's own that trust policies may look at.
const maxCustomClaims = 100

// registered are the claims that are no condition keys, or have a meaning of their own.
var registered = []string{"iss", "aud", "oaud", "exp", "nbf", "iat", "azp", "amr", "sub", "https://aws.amazon.com/tags"}

// addCustom adds the claims of an issuer's own as condition keys: texts, numbers and truth values, and lists of texts.
// Claims that contain others are none.
func (c *claims) addCustom(keys map[string][]string, url string) {
	added := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(c.others)) {
		// Condition keys are compared without regard to case: "SUB" must not stand in for "sub".
		folded := strings.ToLower(name)
		if slices.Contains(registered, folded) || added[folded] || len(added) == maxCustomClaims {
			continue
		}
		var list []string
		var value any
		if json.Unmarshal(c.others[name], &list) != nil {
			decoder := json.NewDecoder(bytes.NewReader(c.others[name]))
			decoder.UseNumber()
			if decoder.Decode(&value) != nil {
				continue
			}
			switch value.(type) {
			case string, bool, json.Number:
				list = []string{fmt.Sprint(value)}
			}
		}
		if len(list) > 0 {
			keys[url+":"+name] = list
			added[folded] = true
		}
	}
}

func invalidToken(format string, args ...any) error {
	return &types.InvalidIdentityTokenException{Message: aws.String(fmt.Sprintf(format, args...))}
}

const (
	notAJWT = "The ID Token provided is not a valid JWT. (You may see this error if you sent an Access Token)"
	noKey   = "Couldn't retrieve verification key from your identity provider,  please reference " +
		"AssumeRoleWithWebIdentity documentation for requirements"
)

// webIdentityHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) webIdentityHandlers() []wire.Handler {
	return []wire.Handler{
		wire.HandleUnsigned(s.AssumeRoleWithWebIdentity),
	}
}

// AssumeRoleWithWebIdentity gives the bearer of an OpenID Connect token credentials of a role: IAM roles for service
// accounts. Nobody signs the request.
func (s *Service) AssumeRoleWithWebIdentity(ctx context.Context, in *sts.AssumeRoleWithWebIdentityInput) (
	*sts.AssumeRoleWithWebIdentityOutput, error) {
	if in.ProviderId != nil {
		return nil,
			wireValidation(
				"ProviderId is for OAuth 2.0 access tokens, which coracle does not accept; leave it out for an " +
					"OpenID Connect token.")
	}
	token, err := jwt.ParseSigned(*in.WebIdentityToken, algorithms)
	if err != nil {
		return nil, invalidToken(notAJWT)
	}
	var c claims
	if err := token.UnsafeClaimsWithoutVerification(&c); err != nil {
		return nil, invalidToken(notAJWT)
	}
	provider, err := s.provider(ctx, accountOf(*in.RoleArn), c.Issuer)
	if err != nil {
		return nil, err
	}
	if err := s.verifyToken(ctx, token, provider, c.Issuer, &c); err != nil {
		return nil, err
	}
	audience, err := s.checkClaims(&c, provider)
	if err != nil {
		return nil, err
	}

	role, err := s.identity.RoleByARN(ctx, *in.RoleArn)
	if errors.Is(err, store.ErrNotFound) {
		return nil, accessDenied("Not authorized to perform sts:AssumeRoleWithWebIdentity")
	}
	if err != nil {
		return nil, err
	}
	now := s.now().UTC().Truncate(time.Second)
	session := &identity.Session{
		Account: role.Account, Role: role.Name, PrincipalID: role.ID, Name: *in.RoleSessionName, Issued: now,
		Provider: provider.ARN(),
	}
	tags := c.sessionTags()
	if err := s.trusted(ctx, role, provider, &c, audience, session, tags); err != nil {
		return nil, err
	}
	duration := defaultRoleSession
	if in.DurationSeconds != nil {
		duration = time.Duration(*in.DurationSeconds) * time.Second
	}
	if duration > role.MaxSession {
		return nil, wireValidation("The requested DurationSeconds exceeds the MaxSessionDuration set for this role.")
	}
	session.Expires = now.Add(duration)
	packed, err := s.restrictSession(ctx, session, in.Policy, in.PolicyArns, tags)
	if err != nil {
		return nil, err
	}
	if err := addTransitive(session, c.AWSTags.Transitive); err != nil {
		return nil, err
	}
	credentials, err := s.credentials(ctx, session)
	return &sts.AssumeRoleWithWebIdentityOutput{
		AssumedRoleUser: assumed(session), Audience: aws.String(audience), Credentials: credentials,
		PackedPolicySize: packed,
		Provider:         aws.String(provider.ARN()), SubjectFromWebIdentityToken: aws.String(c.Subject),
	}, err
}

// provider finds the OpenID Connect provider of the role's account for an issuer.
func (s *Service) provider(ctx context.Context, account, issuer string) (record.OIDCProvider, error) {
	if issuer == "" {
		return record.OIDCProvider{}, invalidToken("Missing a required claim: iss")
	}
	url := strings.TrimSuffix(strings.TrimPrefix(issuer, "https://"), "/")
	row, err := s.providers.Get(ctx, record.OIDCProviderKey(account, url))
	if errors.Is(err, store.ErrNotFound) {
		return record.OIDCProvider{}, invalidToken("No OpenIDConnect provider found in your account for %s", issuer)
	}
	return row.Value, err
}

// maxCandidates limits the keys of a set that a token is verified with: an unsigned request causes that work.
const maxCandidates = 4

// verifyToken checks the signature of the token and reads its claims again, now trusted.
func (s *Service) verifyToken(ctx context.Context, token *jwt.JSONWebToken, provider record.OIDCProvider, issuer string,
	c *claims) error {
	header := token.Headers[0]
	var tried []jose.JSONWebKey
	// An issuer that has changed its keys is asked again, once.
	for _, again := range []bool{false, true} {
		keys, err := s.keys.Keys(ctx, issuer, provider.Thumbprints, again)
		var unreachable *UnreachableError
		switch {
		case errors.As(err, &unreachable):
			return invalidToken(noKey) // the reason is in the log
		case err != nil:
			return err
		}
		candidates := slices.DeleteFunc(slices.Clone(keys.Keys), func(key jose.JSONWebKey) bool {
			return header.KeyID != "" && key.KeyID != header.KeyID || !mayVerify(key, header.Algorithm) ||
				slices.ContainsFunc(tried, func(old jose.JSONWebKey) bool { return samePublic(old.Key, key.Key) })
		})
		if len(candidates) > maxCandidates {
			return invalidToken("%d keys of %s may have signed the token, and %d are tried: its header must have the kid "+
				"of one", len(candidates), issuer, maxCandidates)
		}
		for _, key := range candidates {
			if ctx.Err() != nil { // nobody waits for it
				return ctx.Err()
			}
			var verified claims
			if err := token.Claims(key.Key, &verified, &verified.others); err == nil {
				*c = verified
				return nil
			}
		}
		if len(candidates) > 0 && header.KeyID != "" {
			return invalidToken("The signature of the token does not verify with the key %s of %s", header.KeyID, issuer)
		}
		tried = candidates
	}
	return invalidToken(noKey)
}

// mayVerify reports whether a key is for signatures, and of the kind of an algorithm.
func mayVerify(key jose.JSONWebKey, algorithm string) bool {
	if key.Use != "" && key.Use != "sig" {
		return false
	}
	_, curve := key.Key.(*ecdsa.PublicKey)
	return curve == strings.HasPrefix(algorithm, "ES")
}

// samePublic reports whether two public keys are equal.
func samePublic(a, b any) bool {
	key, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && key.Equal(b)
}

// checkClaims checks times and audience, and returns the audience that is meant.
func (s *Service) checkClaims(c *claims, provider record.OIDCProvider) (audience string, err error) {
	now := s.now()
	switch {
	case c.Subject == "":
		return "", invalidToken("Missing a required claim: sub")
	case c.Expiry == nil:
		return "", invalidToken("Missing a required claim: exp")
	case c.IssuedAt == nil:
		return "", invalidToken("Missing a required claim: iat")
	case !now.Before(c.Expiry.Time()):
		return "", &types.ExpiredTokenException{Message: aws.String(fmt.Sprintf(
			"Token expired: current date/time %d must be before the expiration date/time %d", now.Unix(),
			c.Expiry.Time().Unix()))}
	case c.NotBefore != nil && c.NotBefore.Time().After(now.Add(tokenSkew)),
		c.IssuedAt.Time().After(now.Add(tokenSkew)):
		return "", invalidToken("Token is not valid yet: current date/time %d", now.Unix())
	}
	for _, a := range c.Audience {
		if slices.Contains(provider.ClientIDs, a) {
			return a, nil
		}
	}
	return "", invalidToken("Incorrect token audience")
}

func (c *claims) sessionTags() []types.Tag {
	var tags []types.Tag
	for key, values := range c.AWSTags.Tags {
		if len(values) == 1 {
			tags = append(tags, types.Tag{Key: aws.String(key), Value: aws.String(values[0])})
		}
	}
	return tags
}

// trusted asks the role's trust policy, which may look into the token: "<issuer>:sub", "<issuer>:aud".
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_iam-condition-keys.html#condition-keys-wif
func (s *Service) trusted(ctx context.Context, role record.Role, provider record.OIDCProvider, c *claims,
	audience string, session *identity.Session, tags []types.Tag) error {
	keys := wire.GlobalConditions(ctx)
	c.addCustom(keys, provider.URL)
	keys["sts:RoleSessionName"] = []string{session.Name}
	keys["aws:FederatedProvider"] = []string{provider.ARN()}
	keys["aws:PrincipalIsAWSService"] = []string{"false"}
	keys[provider.URL+":sub"] = []string{c.Subject}
	keys[provider.URL+":aud"] = []string{audience}
	keys[provider.URL+":oaud"] = c.Audience
	if c.AuthorizedParty != "" {
		keys[provider.URL+":aud"], keys[provider.URL+":azp"] = []string{c.AuthorizedParty}, []string{c.AuthorizedParty}
	}
	var methods []string
	if json.Unmarshal(c.Methods, &methods) == nil && len(methods) > 0 {
		keys[provider.URL+":amr"] = methods
	}
	addTags(keys, tags)
	actions := []string{"sts:AssumeRoleWithWebIdentity"}
	if len(tags) > 0 {
		actions = append(actions, "sts:TagSession")
	}
	for _, action := range actions {
		d, err := s.identity.AuthorizeTrusted(ctx, role, policy.Principal{Type: policy.WebIdentity, Name: provider.ARN()},
			c.Subject, action, policy.Context(keys))
		if err != nil {
			return err
		}
		if !d.Allowed() {
			return accessDenied("Not authorized to perform " + action)
		}
	}
	return nil
}
