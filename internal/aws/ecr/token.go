package ecr

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/host/image"
)

// tokenLife is the lifetime of an authorization token.
const tokenLife = 12 * time.Hour

// tokenHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) tokenHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.GetAuthorizationToken, wire.OnAll),
	}
}

// GetAuthorizationToken returns a token with which "docker login" opens every registry that the caller may use. As on
// AWS it outlives the session and the access key that it was got with, but not the role or the user.
func (s *Service) GetAuthorizationToken(ctx context.Context, in *ecr.GetAuthorizationTokenInput) (
	*ecr.GetAuthorizationTokenOutput, error) {
	token, expires, err := s.identity.SealBearer(ctx, wire.CallerFrom(ctx), identity.RegistryPassword, "", tokenLife)
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
			ProxyEndpoint:      aws.String("https://" + strings.TrimSuffix(at.fullName(""), "/")),
		})
	}
	return &ecr.GetAuthorizationTokenOutput{AuthorizationData: data}, nil
}

// resolveBearer returns whom the token in a request of the registry's protocol names.
func (s *Service) resolveBearer(ctx context.Context, at registry, r image.Request) (wire.Caller, error) {
	purpose, resource, token := identity.RegistryPassword, "", r.Password
	if r.LayerToken != "" {
		if !slices.Equal(r.Actions, layerActions) || r.Layer == "" {
			return wire.Caller{}, invalidToken
		}
		purpose, resource, token = identity.LayerURL, at.layerName(r.Repository, r.Layer), r.LayerToken
	}
	caller, err := s.identity.OpenBearer(ctx, purpose, resource, token)
	switch {
	case errors.Is(err, wire.ErrExpiredToken):
		return wire.Caller{}, image.Expired
	case errors.Is(err, wire.ErrUnknownAccessKey):
		return wire.Caller{}, invalidToken
	}
	return caller, err
}

// layerActions are all that the token in a layer's URL is good for.
var layerActions = []string{"ecr:GetDownloadUrlForLayer"}

var invalidToken = &image.Refusal{Status: http.StatusForbidden, Code: "DENIED",
	Message: "Your Authorization Token is invalid."}

func (s *Service) timestamp() time.Time { return s.now().UTC().Truncate(time.Millisecond) }
