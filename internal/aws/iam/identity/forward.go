package identity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// A service that goes on working for a caller after their request, as CloudFormation does with a stack, acts with a
// forward access session: credentials with the caller's policies, and the service's name in aws:CalledVia. Such
// credentials are found for requests inside this process only: a token that got out would be of no use.
//
// https://docs.aws.amazon.com/IAM/latest/UserGuide/access_forward_access_sessions.html

// forwardedSession is the lifetime of credentials of a service that acts for a caller; the SDK requests new ones before
// they expire.
const forwardedSession = 15 * time.Minute

// Forward returns what is recorded of a caller, for a service to act on their behalf.
func (i *Identity) Forward(caller wire.Caller) record.ForwardedSession {
	from := SessionOf(caller)
	if from == nil {
		f := record.ForwardedSession{Account: caller.Account, PrincipalID: caller.UserID, LongTerm: true,
			AccessKeyID: caller.AccessKeyID}
		if _, user, ok := strings.Cut(caller.PrincipalARN, ":user/"); ok {
			f.User = user[strings.LastIndexByte(user, '/')+1:]
		}
		return f
	}
	return record.ForwardedSession{
		Account: from.Account, Role: from.Role, User: from.User, PrincipalID: from.PrincipalID, Name: from.Name,
		Federated: from.Federated, LongTerm: from.LongTerm, Issued: from.Issued, Policies: slices.Clone(from.Policies),
		AccessKeyID: from.Key, PolicyARNs: slices.Clone(from.PolicyARNs), Tags: maps.Clone(from.Tags),
		TransitiveTags: slices.Clone(from.TransitiveTags), SourceIdentity: from.SourceIdentity, Provider: from.Provider,
	}
}

// ForwardedCredentials returns the credentials of a service, such as "cloudformation.amazonaws.com", that acts on
// behalf of a caller. They are renewed for as long as the service asks, and end with the user or role, and with the
// access key that the caller signed with, if it was one.
func (i *Identity) ForwardedCredentials(from record.ForwardedSession, service string) aws.CredentialsProvider {
	return i.serviceCredentials(func(context.Context) (*Session, error) {
		return &Session{
			Account: from.Account, Role: from.Role, User: from.User, PrincipalID: from.PrincipalID, Name: from.Name,
			Federated: from.Federated, LongTerm: from.LongTerm, Issued: from.Issued, Policies: from.Policies,
			PolicyARNs: from.PolicyARNs, Tags: from.Tags, TransitiveTags: from.TransitiveTags,
			SourceIdentity: from.SourceIdentity, Provider: from.Provider, Service: service, Forwarded: true,
			Key: from.AccessKeyID,
		}, nil
	})
}

// PassedRoleCredentials returns the credentials of a service that acts under a role which a caller has passed to it for
// a resource, such as a stack. Retrieving them fails when the role does not exist or does not trust the service any
// more: [ErrNotTrusted].
func (i *Identity) PassedRoleCredentials(roleARN, service, sessionName, resourceARN string) aws.CredentialsProvider {
	return i.serviceCredentials(func(ctx context.Context) (*Session, error) {
		role, err := i.TrustedRole(ctx, roleARN, service, resourceARN)
		if err != nil {
			return nil, err
		}
		return &Session{Account: role.Account, Role: role.Name, PrincipalID: role.ID, Name: sessionName,
			Issued: i.now(), Service: service}, nil
	})
}

// ErrNotTrusted reports that a role does not let a service assume it, or does not exist.
var ErrNotTrusted = errors.New("the role does not exist or does not trust the service")

// TrustedRole returns the role that a service assumes for a resource. It is ErrNotTrusted when the role does not exist
// or its trust policy does not let the service assume it.
func (i *Identity) TrustedRole(ctx context.Context, roleARN, service, resourceARN string) (record.Role, error) {
	role, err := i.RoleByARN(ctx, roleARN)
	if errors.Is(err, store.ErrNotFound) {
		return role, fmt.Errorf("role %q: %w", roleARN, ErrNotTrusted)
	}
	if err != nil {
		return role, err
	}
	d, err := TrustDecision(ctx, role, policy.Principal{Type: policy.Service, Name: service}, "sts:AssumeRole",
		policy.Context{
			"aws:PrincipalIsAWSService": {"true"}, "aws:PrincipalServiceName": {service},
			"aws:SourceAccount": {role.Account}, "aws:SourceArn": {resourceARN},
		})
	if err == nil && !d.Allowed() {
		err = fmt.Errorf("role %q: %w", roleARN, ErrNotTrusted)
	}
	return role, err
}

func (i *Identity) serviceCredentials(begin func(context.Context) (*Session, error)) aws.CredentialsProvider {
	return aws.NewCredentialsCache(aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		session, err := begin(ctx)
		if err != nil {
			return aws.Credentials{}, err
		}
		session.Expires = i.now().Add(forwardedSession)
		token, err := i.Seal(ctx, session)
		if err != nil {
			return aws.Credentials{}, fmt.Errorf("credentials of %s for %s: %w", session.Service, session.Account, err)
		}
		return aws.Credentials{
			AccessKeyID: session.AccessKeyID, SecretAccessKey: session.Secret, SessionToken: token,
			CanExpire: true, Expires: session.Expires, Source: "CoracleForwarded", AccountID: session.Account,
		}, nil
	}), func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = 5 * time.Minute })
}
