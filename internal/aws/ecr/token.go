package ecr

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/host/image"
)

// tokenLife is how long an authorization token is good.
const tokenLife = 12 * time.Hour

// GetAuthorizationToken returns a token with which "docker login" opens every registry that the caller may use.
func (s *Service) GetAuthorizationToken(ctx context.Context, in *ecr.GetAuthorizationTokenInput) (*ecr.GetAuthorizationTokenOutput, error) {
	token, expires, err := s.token(ctx, tokenLife)
	if err != nil {
		return nil, err
	}
	ids := in.RegistryIds
	if len(ids) == 0 {
		ids = []string{wire.CallerFrom(ctx).Account}
	}
	var data []types.AuthorizationData
	for _, id := range ids {
		at := registryOf(ctx, &id)
		data = append(data, types.AuthorizationData{
			AuthorizationToken: aws.String(base64.StdEncoding.EncodeToString([]byte("AWS:" + token))),
			ExpiresAt:          aws.Time(expires),
			ProxyEndpoint:      aws.String("https://" + strings.TrimSuffix(at.full(""), "/")),
		})
	}
	return &ecr.GetAuthorizationTokenOutput{AuthorizationData: data}, nil
}

// token is a password that says who the caller is. Like AWS's, it outlives the session that it was got in, but not the role or the user.
func (s *Service) token(ctx context.Context, life time.Duration) (token string, expires time.Time, err error) {
	caller := wire.CallerFrom(ctx)
	now := s.now().UTC().Truncate(time.Second)
	session := &identity.Session{Account: caller.Account, PrincipalID: caller.UserID}
	if from := identity.SessionOf(caller); from != nil {
		*session = *from
	} else if _, user, ok := strings.Cut(caller.ARN, ":user/"); ok {
		session.User = user[strings.LastIndexByte(user, '/')+1:]
	} else {
		session.PrincipalID = caller.Account // the root user
	}
	session.Issued, session.Expires = now, now.Add(life)
	sealed, err := s.identity.Seal(ctx, session)
	if err != nil {
		return "", time.Time{}, err
	}
	return base64.StdEncoding.EncodeToString([]byte(session.AccessKeyID + ":" + sealed)), session.Expires, nil
}

// bearer is whom a token names.
func (s *Service) bearer(ctx context.Context, token string) (wire.Caller, error) {
	text, err := base64.StdEncoding.DecodeString(token)
	if err != nil {
		return wire.Caller{}, invalidToken
	}
	accessKeyID, sealed, ok := strings.Cut(string(text), ":")
	if !ok {
		return wire.Caller{}, invalidToken
	}
	_, caller, err := s.identity.Lookup(ctx, accessKeyID, sealed)
	switch {
	case errors.Is(err, wire.ErrExpiredToken):
		return wire.Caller{}, image.Expired
	case errors.Is(err, wire.ErrUnknownAccessKey):
		return wire.Caller{}, invalidToken
	}
	return caller, err
}

var invalidToken = &image.Refusal{Status: http.StatusForbidden, Code: "DENIED", Message: "Your Authorization Token is invalid."}

func (s *Service) timestamp() time.Time { return s.now().UTC().Truncate(time.Millisecond) }
