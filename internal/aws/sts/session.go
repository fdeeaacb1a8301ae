package sts

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

const (
	defaultTokenSeconds = 43200
	maxRootSeconds      = 3600
	maxTags             = 50
	// packedSize is the size that policies and tags of a session may have together; AWS packs them in a form of its own
	// and returns the percentage. We count characters, and so refuse no session that AWS would accept.
	packedSize = 8192
)

// sessionHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) sessionHandlers() []wire.Handler {
	return []wire.Handler{
		wire.HandleUnrestricted(s.GetSessionToken),
		wire.Handle(s.GetFederationToken, federationTargets),
	}
}

// GetSessionToken gives a user or a root user temporary credentials of their own.
func (s *Service) GetSessionToken(ctx context.Context, in *sts.GetSessionTokenInput) (
	*sts.GetSessionTokenOutput, error) {
	if err := rejectMFA(in.SerialNumber, in.TokenCode); err != nil {
		return nil, err
	}
	session, err := s.ownSession(ctx, "GetSessionToken", in.DurationSeconds)
	if err != nil {
		return nil, err
	}
	credentials, err := s.credentials(ctx, session)
	return &sts.GetSessionTokenOutput{Credentials: credentials}, err
}

// federationTargets returns the federated user that a request creates a session of, and its tags, as authorization
// targets.
func federationTargets(ctx context.Context, action string, in *sts.GetFederationTokenInput) ([]wire.Target, error) {
	t := wire.Target{
		Action: action, Resource: "arn:aws:sts::" + wire.CallerFrom(ctx).Account + ":federated-user/" + *in.Name,
		Conditions: map[string][]string{},
	}
	addTags(t.Conditions, in.Tags)
	if len(in.Tags) == 0 {
		return []wire.Target{t}, nil
	}
	// The tags become aws:PrincipalTag, which policies go by.
	return []wire.Target{t, {Action: "sts:TagSession", Resource: t.Resource, Conditions: t.Conditions}}, nil
}

// GetFederationToken gives a named user from elsewhere a part of the caller's permissions: what the session policies
// and the caller's policies both allow. Without session policies that is nothing.
func (s *Service) GetFederationToken(ctx context.Context, in *sts.GetFederationTokenInput) (
	*sts.GetFederationTokenOutput, error) {
	session, err := s.ownSession(ctx, "GetFederationToken", in.DurationSeconds)
	if err != nil {
		return nil, err
	}
	session.Name, session.Federated = *in.Name, true
	packed, err := s.restrictSession(ctx, session, in.Policy, in.PolicyArns, in.Tags)
	if err != nil {
		return nil, err
	}
	credentials, err := s.credentials(ctx, session)
	return &sts.GetFederationTokenOutput{
		Credentials: credentials, PackedPolicySize: packed,
		FederatedUser: &types.FederatedUser{
			Arn:             aws.String("arn:aws:sts::" + session.Account + ":federated-user/" + session.Name),
			FederatedUserId: aws.String(session.Account + ":" + session.Name),
		},
	}, err
}

// ownSession returns a session of the caller, who must not be in one already.
func (s *Service) ownSession(ctx context.Context, operation string, seconds *int32) (*identity.Session, error) {
	caller := wire.CallerFrom(ctx)
	if identity.SessionOf(caller) != nil {
		return nil, &wire.Error{Code: "AccessDenied", Message: "Cannot call " + operation + " with session credentials",
			Status: 403}
	}
	now := s.now().UTC().Truncate(time.Second)
	session := &identity.Session{Account: caller.Account, PrincipalID: caller.UserID, Issued: now}
	duration := aws.ToInt32(seconds)
	if seconds == nil {
		duration = defaultTokenSeconds
	}
	if _, resource, ok := strings.Cut(caller.ARN, ":user/"); ok {
		session.User = resource[strings.LastIndexByte(resource, '/')+1:]
	} else {
		duration = min(duration, maxRootSeconds)
	}
	session.Expires = now.Add(time.Duration(duration) * time.Second)
	return session, nil
}

// rejectMFA refuses one-time codes: no user has a device to make them.
func rejectMFA(serial, code *string) error {
	if serial == nil && code == nil {
		return nil
	}
	return &wire.Error{Code: "AccessDenied",
		Message: "MultiFactorAuthentication failed with invalid MFA one time pass code.", Status: 403}
}

// restrictSession adds session policies and tags to a session, and says how much of the room for them they take, in
// percent.
func (s *Service) restrictSession(ctx context.Context, session *identity.Session, document *string,
	arns []types.PolicyDescriptorType, tags []types.Tag) (*int32, error) {
	size := 0
	if document != nil {
		if _, err := policy.Parse(policy.Identity, *document); err != nil {
			return nil, malformedPolicy(err)
		}
		session.Policies = []string{*document}
		size += policy.Size(*document)
	}
	for _, d := range arns {
		arn := aws.ToString(d.Arn)
		ok, err := s.identity.HasManagedPolicy(ctx, session.Account, arn)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, &types.MalformedPolicyDocumentException{Message: aws.String("Policy " + arn +
				" does not exist or is not attachable.")}
		}
		session.PolicyARNs = append(session.PolicyARNs, arn)
		size += len(arn)
	}
	if err := addSessionTags(session, tags); err != nil {
		return nil, err
	}
	for key, value := range session.Tags {
		size += len(key) + len(value)
	}
	if size == 0 {
		return nil, nil
	}
	percent := int32((size*100 + packedSize - 1) / packedSize)
	if percent > 100 {
		return nil, wire.Errorf("PackedPolicyTooLarge",
			"Packed policy consumes %d%% of allotted space, please use smaller policy.", percent)
	}
	return aws.Int32(percent), nil
}

func malformedPolicy(err error) error {
	var m *policy.MalformedError
	if errors.As(err, &m) {
		return &types.MalformedPolicyDocumentException{Message: aws.String(m.Message)}
	}
	return err
}

func addSessionTags(session *identity.Session, tags []types.Tag) error {
	if len(tags) > 0 && session.Tags == nil {
		session.Tags = map[string]string{}
	}
	var seen []string
	isKey := func(key string) func(string) bool { return func(k string) bool { return policy.SameKey(k, key) } }
	for _, t := range tags {
		key := aws.ToString(t.Key)
		switch {
		case slices.ContainsFunc(seen, isKey(key)):
			return wire.Errorf("InvalidParameterValue",
				"Duplicate tag keys found. Please note that Tag keys are case insensitive.")
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			return wire.Errorf("InvalidParameterValue",
				"Tag keys beginning with aws: are reserved for system use. Got %q.", key)
		case slices.ContainsFunc(session.TransitiveTags, isKey(key)):
			return wire.Errorf("InvalidParameterValue",
				"One of the specified transitive tag keys can't be set because it conflicts with a transitive tag "+
					"key from the calling session.")
		}
		seen = append(seen, key)
		session.Tags[key] = aws.ToString(t.Value)
	}
	if len(session.Tags) > maxTags {
		return wire.Errorf("InvalidParameterValue", "A session can have at most %d tags, got %d.", maxTags,
			len(session.Tags))
	}
	return nil
}

// addTags adds the condition keys of tags in a request.
func addTags(keys map[string][]string, tags []types.Tag) {
	for _, t := range tags {
		keys["aws:RequestTag/"+aws.ToString(t.Key)] = []string{aws.ToString(t.Value)}
		keys["aws:TagKeys"] = append(keys["aws:TagKeys"], aws.ToString(t.Key))
	}
}
