package ecr

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecr/types"
	godigest "github.com/opencontainers/go-digest"

	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/host/image"
)

// Parts of a layer, in bytes: what a client should send, and may.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/service-quotas.html
const (
	partSize        = 20971520
	maxLayerDigests = 100
)

// layerHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) layerHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.BatchCheckLayerAvailability, func(
			ctx context.Context, action string, in *ecr.BatchCheckLayerAvailabilityInput,
		) ([]wire.Target, error) {
			return s.onRepository(ctx, action, in.RegistryId, in.RepositoryName)
		}),
		wire.Handle(s.GetDownloadUrlForLayer, func(
			ctx context.Context, action string, in *ecr.GetDownloadUrlForLayerInput,
		) ([]wire.Target, error) {
			return s.onRepository(ctx, action, in.RegistryId, in.RepositoryName)
		}),
		wire.Handle(s.InitiateLayerUpload, func(
			ctx context.Context, action string, in *ecr.InitiateLayerUploadInput,
		) ([]wire.Target, error) {
			return s.onRepository(ctx, action, in.RegistryId, in.RepositoryName)
		}),
		wire.Handle(s.UploadLayerPart, func(
			ctx context.Context, action string, in *ecr.UploadLayerPartInput,
		) ([]wire.Target, error) {
			return s.onRepository(ctx, action, in.RegistryId, in.RepositoryName)
		}),
		wire.Handle(s.CompleteLayerUpload, func(
			ctx context.Context, action string, in *ecr.CompleteLayerUploadInput,
		) ([]wire.Target, error) {
			return s.onRepository(ctx, action, in.RegistryId, in.RepositoryName)
		}),
	}
}

// BatchCheckLayerAvailability reports which layers a repository has.
func (s *Service) BatchCheckLayerAvailability(ctx context.Context, in *ecr.BatchCheckLayerAvailabilityInput) (
	*ecr.BatchCheckLayerAvailabilityOutput, error) {
	at, name := registryOf(ctx, in.RegistryId), aws.ToString(in.RepositoryName)
	if len(in.LayerDigests) > maxLayerDigests {
		return nil,
			invalidParameter(
				"Invalid parameter at 'layerDigests' failed to satisfy constraint: 'must have at most %d members': %d",
				maxLayerDigests, len(in.LayerDigests))
	}
	if _, err := s.findRepository(ctx, at, name); err != nil {
		return nil, err
	}
	out := &ecr.BatchCheckLayerAvailabilityOutput{Layers: []types.Layer{}, Failures: []types.LayerFailure{}}
	for _, digest := range in.LayerDigests {
		if !isLayerDigest(digest) {
			out.Failures = append(out.Failures, types.LayerFailure{LayerDigest: aws.String(digest),
				FailureCode:   types.LayerFailureCodeInvalidLayerDigest,
				FailureReason: aws.String("Layer digest should satisfy the regex '[a-zA-Z0-9-_+.]+:[a-fA-F0-9]+'")})
			continue
		}
		layer := types.Layer{LayerDigest: aws.String(digest), LayerAvailability: types.LayerAvailabilityUnavailable}
		size, err := s.images.Layer(ctx, at.fullName(name), digest)
		switch {
		case err == nil:
			layer.LayerAvailability, layer.LayerSize = types.LayerAvailabilityAvailable, aws.Int64(size)
		case !errors.Is(err, image.ErrNotFound):
			return nil, err
		}
		out.Layers = append(out.Layers, layer)
	}
	return out, nil
}

// isLayerDigest reports whether a text is the digest of something.
func isLayerDigest(text string) bool {
	_, err := godigest.Parse(text)
	return err == nil && strings.HasPrefix(text, "sha256:")
}

// urlLife is the lifetime of the URL of a layer.
const urlLife = time.Hour

// GetDownloadUrlForLayer returns a URL of a layer, for a client without credentials. Like a presigned URL of AWS's it
// downloads the layer for as long as its maker may, and ends with the credentials that it was made with.
func (s *Service) GetDownloadUrlForLayer(ctx context.Context, in *ecr.GetDownloadUrlForLayerInput) (
	*ecr.GetDownloadUrlForLayerOutput, error) {
	at, name, digest := registryOf(ctx, in.RegistryId), aws.ToString(in.RepositoryName), aws.ToString(in.LayerDigest)
	if _, err := s.findRepository(ctx, at, name); err != nil {
		return nil, err
	}
	if !isLayerDigest(digest) {
		return nil,
			invalidParameter(
				"Invalid parameter at 'layerDigest' failed to satisfy constraint: 'must be sha256: and 64 "+
					"hexadecimal digits': '%s'", digest)
	}
	if _, err := s.images.Layer(ctx, at.fullName(name), digest); errors.Is(err, image.ErrNotFound) {
		return nil, &types.LayersNotFoundException{
			Message: message(
				"Layer with digest '%s' does not exist in the repository with name '%s' in the registry with id '%s'",
				digest, name, at.account)}
	} else if err != nil {
		return nil, err
	}
	token, _, err := s.identity.SealBearer(ctx, wire.CallerFrom(ctx), identity.LayerURL, at.layerName(name, digest),
		urlLife)
	if err != nil {
		return nil, err
	}
	host, path, _ := strings.Cut(at.fullName(name), "/")
	base := "https://" + host + "/v2/" + path
	if ip := net.ParseIP(wire.SourceIPFrom(ctx)); ip != nil && ip.IsLoopback() && s.endpoint != "" {
		base = s.endpoint + "/v2/" + at.fullName(name) // on the host, that name is somebody else's
	}
	return &ecr.GetDownloadUrlForLayerOutput{LayerDigest: in.LayerDigest, DownloadUrl: aws.String(base + "/blobs/" +
		digest + "?" + image.LayerQuery(token))}, nil
}

// InitiateLayerUpload begins the upload of a layer.
func (s *Service) InitiateLayerUpload(ctx context.Context, in *ecr.InitiateLayerUploadInput) (
	*ecr.InitiateLayerUploadOutput, error) {
	at, name := registryOf(ctx, in.RegistryId), aws.ToString(in.RepositoryName)
	if err := s.writable(ctx, at, name); err != nil {
		return nil, err
	}
	id, err := s.images.StartUpload(ctx, at.fullName(name))
	if err != nil {
		return nil, limitExceeded(err)
	}
	return &ecr.InitiateLayerUploadOutput{UploadId: aws.String(id), PartSize: aws.Int64(partSize)}, nil
}

func (s *Service) writable(ctx context.Context, at registry, name string) error {
	if image.OfEKS(at.account) {
		return readOnly()
	}
	_, err := s.findRepository(ctx, at, name)
	return err
}

func uploadNotFound(at registry, name, id string) error {
	return &types.UploadNotFoundException{
		Message: message(
			"Upload with id '%s' could not be found for repository with name '%s' in registry with id '%s'", id, name,
			at.account)}
}

// UploadLayerPart adds a part to an upload.
func (s *Service) UploadLayerPart(ctx context.Context, in *ecr.UploadLayerPartInput) (
	*ecr.UploadLayerPartOutput, error) {
	at, name, id := registryOf(ctx, in.RegistryId), aws.ToString(in.RepositoryName), aws.ToString(in.UploadId)
	if err := s.writable(ctx, at, name); err != nil {
		return nil, err
	}
	first, last := aws.ToInt64(in.PartFirstByte), aws.ToInt64(in.PartLastByte)
	if n := int64(len(in.LayerPartBlob)); last-first+1 != n {
		return nil,
			invalidParameter(
				"Invalid parameter at 'partLastByte' failed to satisfy constraint: 'bytes %d to %d are %d, but "+
					"layerPartBlob has %d'", first, last, last-first+1, n)
	}
	size, added, err := s.images.AppendUpload(ctx, at.fullName(name), id, first, in.LayerPartBlob)
	switch {
	case errors.Is(err, image.ErrUploadUnknown):
		return nil, uploadNotFound(at, name, id)
	case err != nil:
		return nil, limitExceeded(err)
	case !added:
		return nil, &types.InvalidLayerPartException{
			Message:    message("The part begins at byte %d, but the last byte received was %d", first, size-1),
			RegistryId: aws.String(at.account), RepositoryName: aws.String(name), UploadId: aws.String(id),
			LastValidByteReceived: aws.Int64(size - 1)}
	}
	return &ecr.UploadLayerPartOutput{RegistryId: aws.String(at.account), RepositoryName: aws.String(name),
		UploadId: aws.String(id), LastByteReceived: aws.Int64(size - 1)}, nil
}

// CompleteLayerUpload makes a layer of an upload.
func (s *Service) CompleteLayerUpload(ctx context.Context, in *ecr.CompleteLayerUploadInput) (
	*ecr.CompleteLayerUploadOutput, error) {
	at, name, id := registryOf(ctx, in.RegistryId), aws.ToString(in.RepositoryName), aws.ToString(in.UploadId)
	if err := s.writable(ctx, at, name); err != nil {
		return nil, err
	}
	if len(in.LayerDigests) != 1 {
		return nil,
			invalidParameter(
				"Invalid parameter at 'layerDigests' failed to satisfy constraint: 'must have one digest': %d",
				len(in.LayerDigests))
	}
	digest := in.LayerDigests[0]
	if !isLayerDigest(digest) {
		return nil,
			invalidParameter(
				"Invalid parameter at 'layerDigests' failed to satisfy constraint: 'must be sha256: and 64 "+
					"hexadecimal digits': '%s'", digest)
	}
	if _, err := s.images.Layer(ctx, at.fullName(name), digest); err == nil {
		return nil, &types.LayerAlreadyExistsException{
			Message: message(
				"Layer with digest '%s' already exists in the repository with name '%s' in the registry with id '%s'",
				digest, name, at.account)}
	}
	err := s.images.FinishUpload(ctx, at.fullName(name), id, digest)
	switch {
	case errors.Is(err, image.ErrUploadUnknown):
		return nil, uploadNotFound(at, name, id)
	case errors.Is(err, image.ErrDigest):
		return nil, &types.InvalidLayerException{
			Message: message("The calculated digest of the layer does not match the provided digest '%s'", digest)}
	case err != nil:
		return nil, err
	}
	return &ecr.CompleteLayerUploadOutput{RegistryId: aws.String(at.account), RepositoryName: aws.String(name),
		UploadId: aws.String(id), LayerDigest: aws.String(digest)}, nil
}
