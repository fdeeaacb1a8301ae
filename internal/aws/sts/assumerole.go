package sts

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const (
	defaultRoleSession = time.Hour
	maxChainedSession  = time.Hour // of a role assumed by a role
)

// assumeRoleHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) assumeRoleHandlers() []wire.Handler {
	return []wire.Handler{
		wire.HandleUnrestricted(s.AssumeRole), // which asks itself: the trust policy has a say
	}
}

// AssumeRole gives the caller credentials of a role, if the role's trust policy and the caller's own policies agree.
func (s *Service) AssumeRole(ctx context.Context, in *sts.AssumeRoleInput) (*sts.AssumeRoleOutput, error) {
	if err := rejectMFA(in.SerialNumber, in.TokenCode); err != nil {
		return nil, err
	}
	if len(in.ProvidedContexts) > 0 {
		return nil, wire.Errorf("ValidationError", "ProvidedContexts is not supported by coracle.")
	}
	caller := wire.CallerFrom(ctx)
	if session := identity.SessionOf(caller); session != nil && session.Federated {
		return nil, accessDenied("Cannot call AssumeRole with the credentials of a federated user")
	}
	role, err := s.identity.RoleByARN(ctx, *in.RoleArn)
	if errors.Is(err, store.ErrNotFound) {
		// as for a role that exists: strangers learn nothing
		return nil, &wire.Denied{Action: "sts:AssumeRole", Resource: *in.RoleArn}
	}
	if err != nil {
		return nil, err
	}

	now := s.now().UTC().Truncate(time.Second)
	session := &identity.Session{Account: role.Account, Role: role.Name, PrincipalID: role.ID,
		Name: *in.RoleSessionName, Issued: now}
	inherit(session, identity.SessionOf(caller))
	if in.SourceIdentity != nil {
		if session.SourceIdentity != "" && session.SourceIdentity != *in.SourceIdentity {
			return nil, &wire.Denied{Action: "sts:SetSourceIdentity", Resource: *in.RoleArn}
		}
		session.SourceIdentity = *in.SourceIdentity
	}
	if err := s.mayAssume(ctx, caller, role, session, in); err != nil {
		return nil, err
	}
	duration, err := s.duration(in.DurationSeconds, role, caller)
	if err != nil {
		return nil, err
	}
	session.Expires = now.Add(duration)
	packed, err := s.restrictSession(ctx, session, in.Policy, in.PolicyArns, in.Tags)
	if err != nil {
		return nil, err
	}
	if err := addTransitive(session, in.TransitiveTagKeys); err != nil {
		return nil, err
	}
	credentials, err := s.credentials(ctx, session)
	if err != nil {
		return nil, err
	}
	s.identity.Used(ctx, caller)
	return &sts.AssumeRoleOutput{
		AssumedRoleUser: assumed(session), Credentials: credentials, PackedPolicySize: packed,
		SourceIdentity: nonEmpty(session.SourceIdentity),
	}, nil
}

// inherit hands what a session must keep on to the next one in a chain.
func inherit(session, from *identity.Session) {
	if from == nil {
		return
	}
	session.SourceIdentity = from.SourceIdentity
	for _, key := range from.TransitiveTags {
		if session.Tags == nil {
			session.Tags = map[string]string{}
		}
		session.Tags[key] = from.Tags[key]
		session.TransitiveTags = append(session.TransitiveTags, key)
	}
}

func addTransitive(session *identity.Session, keys []string) error {
	for _, key := range keys {
		if _, ok := session.Tags[key]; !ok {
			return wire.Errorf("InvalidParameterValue",
				"The specified transitive tag key %s must be included in the requested tags.", key)
		}
		if !slices.Contains(session.TransitiveTags, key) {
			session.TransitiveTags = append(session.TransitiveTags, key)
		}
	}
	return nil
}

// mayAssume asks for the permission to assume the role and, where they are used, to tag the session and to set a source
// identity.
func (s *Service) mayAssume(ctx context.Context, caller wire.Caller, role record.Role, session *identity.Session,
	in *sts.AssumeRoleInput) error {
	keys := wire.GlobalConditions(ctx)
	keys["sts:RoleSessionName"] = []string{*in.RoleSessionName}
	if in.ExternalId != nil {
		keys["sts:ExternalId"] = []string{*in.ExternalId}
	}
	if session.SourceIdentity != "" {
		keys["sts:SourceIdentity"] = []string{session.SourceIdentity}
	}
	if len(in.TransitiveTagKeys) > 0 {
		keys["sts:TransitiveTagKeys"] = in.TransitiveTagKeys
	}
	addTags(keys, in.Tags)
	for key, value := range role.Tags {
		keys["aws:ResourceTag/"+key] = []string{value}
		keys["iam:ResourceTag/"+key] = []string{value}
	}
	actions := []string{"sts:AssumeRole"}
	if len(session.Tags) > 0 || len(in.Tags) > 0 { // its own, or those that it inherits in a chain
		actions = append(actions, "sts:TagSession")
	}
	if session.SourceIdentity != "" {
		actions = append(actions, "sts:SetSourceIdentity")
	}
	for _, action := range actions {
		d, err := s.identity.AuthorizeAssume(ctx, caller, role, wire.Target{Action: action, Resource: role.ARN(),
			Conditions: keys})
		if err != nil {
			return err
		}
		if !d.Allowed() {
			return &wire.Denied{Action: action, Resource: role.ARN(), Reason: d.Reason()}
		}
	}
	return nil
}

func (s *Service) duration(seconds *int32, role record.Role, caller wire.Caller) (time.Duration, error) {
	if seconds == nil {
		return defaultRoleSession, nil
	}
	wanted := time.Duration(*seconds) * time.Second
	switch from := identity.SessionOf(caller); {
	case from != nil && from.Role != "" && wanted > maxChainedSession:
		return 0, wire.Errorf("ValidationError",
			"The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining")
	case wanted > role.MaxSession:
		return 0, wire.Errorf("ValidationError",
			"The requested DurationSeconds exceeds the MaxSessionDuration set for this role.")
	}
	return wanted, nil
}

func assumed(session *identity.Session) *types.AssumedRoleUser {
	return &types.AssumedRoleUser{
		Arn: aws.String("arn:aws:sts::" + session.Account + ":assumed-role/" + session.Role + "/" +
			session.Name),
		AssumedRoleId: aws.String(session.PrincipalID + ":" + session.Name),
	}
}

func nonEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// accountOf returns the account in an ARN; empty for a text that is not an ARN.
func accountOf(arn string) string {
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) < 6 {
		return ""
	}
	return parts[4]
}

func accessDenied(message string) error {
	return &wire.Error{Code: "AccessDenied", Message: message, Status: http.StatusForbidden}
}

func wireValidation(message string) error { return wire.Errorf("ValidationError", "%s", message) }
