package ecr

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/host/image"
	"github.com/coracle-eks/coracle/internal/record"
)

// maxImageIDs is the maximum number of images that a request may name.
const maxImageIDs = 100

// mayRetag refuses to move a tag that must stay where it is.
func (s *Service) mayRetag(ctx context.Context, at registry, r record.Repository, tag, digest string) error {
	if tag == "" || !immutable(r, tag) {
		return nil
	}
	there, err := s.images.Resolve(ctx, at.fullName(r.Name)+":"+tag)
	if errors.Is(err, image.ErrNotFound) {
		return nil
	}
	if err != nil || there == digest {
		return err
	}
	return &image.Refusal{Status: http.StatusBadRequest, Code: "TAG_INVALID", Message: immutableTag(r.Name, tag)}
}

func immutableTag(repository, tag string) string {
	return "The image tag '" + tag + "' already exists in the '" + repository +
		"' repository and cannot be overwritten because the tag is immutable."
}

// imagesOf returns the images of a repository that exists.
func (s *Service) imagesOf(ctx context.Context, at registry, name string) ([]image.Image, error) {
	if _, err := s.findRepository(ctx, at, name); err != nil {
		return nil, err
	}
	return s.listImages(ctx, at, name)
}

const (
	// manifestMemory is what a manifest takes in bytes while the registry reads it: 4 MiB of text, and what that is
	// decoded to.
	manifestMemory = 20 << 20
	// imageMemory is what an image, or a tag, takes in bytes in a list, and in the answer.
	imageMemory = 1 << 10
)

// holdImages takes memory for a list of the images of a repository, whose manifests are read one after the other.
func (s *Service) holdImages(ctx context.Context, at registry, name string) error {
	n, err := s.images.CountImages(at.fullName(name))
	if err != nil {
		return err
	}
	return wire.HoldAnswer(ctx, manifestMemory+imageMemory*int64(n))
}

// listImages returns the images of a repository.
func (s *Service) listImages(ctx context.Context, at registry, name string) ([]image.Image, error) {
	if err := s.holdImages(ctx, at, name); err != nil {
		return nil, err
	}
	return s.images.Images(ctx, at.fullName(name))
}

// imageHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) imageHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.ListImages, func(
			ctx context.Context, action string, in *ecr.ListImagesInput,
		) ([]wire.Target, error) {
			return s.onRepository(ctx, action, in.RegistryId, in.RepositoryName)
		}),
		wire.Handle(s.DescribeImages, func(
			ctx context.Context, action string, in *ecr.DescribeImagesInput,
		) ([]wire.Target, error) {
			return s.onRepository(ctx, action, in.RegistryId, in.RepositoryName)
		}),
		wire.Handle(s.BatchGetImage, func(
			ctx context.Context, action string, in *ecr.BatchGetImageInput,
		) ([]wire.Target, error) {
			return s.onRepository(ctx, action, in.RegistryId, in.RepositoryName)
		}),
		wire.Handle(s.PutImage, func(ctx context.Context, action string, in *ecr.PutImageInput) ([]wire.Target, error) {
			return s.onRepository(ctx, action, in.RegistryId, in.RepositoryName)
		}),
		wire.Handle(s.BatchDeleteImage, func(
			ctx context.Context, action string, in *ecr.BatchDeleteImageInput,
		) ([]wire.Target, error) {
			return s.onRepository(ctx, action, in.RegistryId, in.RepositoryName)
		}),
	}
}

// ListImages lists the images of a repository: each with each of its tags.
func (s *Service) ListImages(ctx context.Context, in *ecr.ListImagesInput) (*ecr.ListImagesOutput, error) {
	images, err := s.imagesOf(ctx, registryOf(ctx, in.RegistryId), aws.ToString(in.RepositoryName))
	if err != nil {
		return nil, err
	}
	status := types.TagStatusAny
	if in.Filter != nil {
		if err := onlyActive(in.Filter.ImageStatus); err != nil {
			return nil, err
		}
		status = cmp.Or(in.Filter.TagStatus, status)
	}
	ids := []types.ImageIdentifier{}
	for _, i := range images {
		if !hasStatus(i, status) {
			continue
		}
		for _, tag := range i.Tags {
			ids = append(ids, types.ImageIdentifier{ImageDigest: aws.String(i.Digest), ImageTag: aws.String(tag)})
		}
		if len(i.Tags) == 0 {
			ids = append(ids, types.ImageIdentifier{ImageDigest: aws.String(i.Digest)})
		}
	}
	page, next, err := wire.Page(ctx, ids, in.MaxResults, in.NextToken, func(i types.ImageIdentifier) string {
		return aws.ToString(i.ImageDigest) + " " + aws.ToString(i.ImageTag)
	})
	if err != nil {
		return nil, err
	}
	return &ecr.ListImagesOutput{ImageIds: page, NextToken: next}, nil
}

// onlyActive refuses to look for archived images: nothing here is ever archived.
func onlyActive(status types.ImageStatusFilter) error {
	if status == "" || status == types.ImageStatusFilterActive || status == types.ImageStatusFilterAny {
		return nil
	}
	return &types.ValidationException{Message: message(
		"coracle archives no images: imageStatus must be ACTIVE or ANY, not %s", status)}
}

func hasStatus(i image.Image, status types.TagStatus) bool {
	return status == types.TagStatusAny || (status == types.TagStatusTagged) == (len(i.Tags) > 0)
}

// findImage finds an image by its identifier among those of a repository.
func findImage(images []image.Image, id types.ImageIdentifier) (image.Image, types.ImageFailureCode, string) {
	digest, tag := aws.ToString(id.ImageDigest), aws.ToString(id.ImageTag)
	if digest == "" && tag == "" {
		return image.Image{}, types.ImageFailureCodeMissingDigestAndTag,
			"Invalid request parameters: both tag and digest cannot be null"
	}
	if digest != "" && !strings.HasPrefix(digest, "sha256:") {
		return image.Image{}, types.ImageFailureCodeInvalidImageDigest,
			"Invalid request parameters: image digest should satisfy the regex '[a-zA-Z0-9-_+.]+:[a-fA-F0-9]+'"
	}
	for _, i := range images {
		if tag != "" && slices.Contains(i.Tags, tag) {
			if digest != "" && digest != i.Digest {
				return image.Image{}, types.ImageFailureCodeImageTagDoesNotMatchDigest,
					"Requested image tag does not match the digest"
			}
			return i, "", ""
		}
		if tag == "" && digest == i.Digest {
			return i, "", ""
		}
	}
	return image.Image{}, types.ImageFailureCodeImageNotFound, "Requested image not found"
}

// DescribeImages describes the images of a repository, or some of them.
func (s *Service) DescribeImages(ctx context.Context, in *ecr.DescribeImagesInput) (*ecr.DescribeImagesOutput, error) {
	at, name := registryOf(ctx, in.RegistryId), aws.ToString(in.RepositoryName)
	images, err := s.imagesOf(ctx, at, name)
	if err != nil {
		return nil, err
	}
	if in.Filter != nil {
		if err := onlyActive(in.Filter.ImageStatus); err != nil {
			return nil, err
		}
		if in.Filter.TagStatus != "" {
			images = slices.DeleteFunc(images, func(i image.Image) bool { return !hasStatus(i, in.Filter.TagStatus) })
		}
	}
	if len(in.ImageIds) > 0 {
		if in.MaxResults != nil || in.NextToken != nil {
			return nil, invalidParameter(
				"Invalid parameter at 'maxResults' failed to satisfy constraint: 'cannot be used with imageIds'")
		}
		var chosen []image.Image
		for _, id := range in.ImageIds {
			i, failure, _ := findImage(images, id)
			if failure != "" {
				return nil, &types.ImageNotFoundException{
					Message: message(
						"The image with imageId {imageDigest:'%s', imageTag:'%s'} does not exist within the "+
							"repository with name '%s' in the registry with id '%s'",
						cmp.Or(aws.ToString(id.ImageDigest), "null"), cmp.Or(aws.ToString(id.ImageTag), "null"), name,
						at.account)}
			}
			chosen = append(chosen, i)
		}
		images = chosen
	}
	details := []types.ImageDetail{}
	for _, i := range images {
		detail := types.ImageDetail{
			RegistryId: aws.String(at.account), RepositoryName: aws.String(name), ImageDigest: aws.String(i.Digest),
			ImageTags:        i.Tags,
			ImageSizeInBytes: aws.Int64(i.Size), ImagePushedAt: aws.Time(i.Pushed),
			ImageManifestMediaType: aws.String(i.MediaType),
			ImageStatus:            types.ImageStatusActive,
		}
		if i.ConfigMediaType != "" {
			detail.ArtifactMediaType = aws.String(i.ConfigMediaType)
		}
		details = append(details, detail)
	}
	page, next, err := wire.Page(ctx, details, in.MaxResults, in.NextToken,
		func(i types.ImageDetail) string { return aws.ToString(i.ImageDigest) })
	if err != nil {
		return nil, err
	}
	return &ecr.DescribeImagesOutput{ImageDetails: page, NextToken: next}, nil
}

func checkImageIDs(ids []types.ImageIdentifier) error {
	if len(ids) == 0 || len(ids) > maxImageIDs {
		return invalidParameter(
			"Invalid parameter at 'imageIds' failed to satisfy constraint: 'must have 1 to %d members': %d",
			maxImageIDs, len(ids))
	}
	return nil
}

// BatchGetImage returns manifests.
func (s *Service) BatchGetImage(ctx context.Context, in *ecr.BatchGetImageInput) (*ecr.BatchGetImageOutput, error) {
	at, name := registryOf(ctx, in.RegistryId), aws.ToString(in.RepositoryName)
	if err := checkImageIDs(in.ImageIds); err != nil {
		return nil, err
	}
	images, err := s.imagesOf(ctx, at, name)
	if err != nil {
		return nil, err
	}
	out := &ecr.BatchGetImageOutput{Images: []types.Image{}, Failures: []types.ImageFailure{}}
	size := int64(0)
	for _, id := range in.ImageIds {
		i, code, reason := findImage(images, id)
		if code != "" {
			out.Failures = append(out.Failures, types.ImageFailure{ImageId: &id, FailureCode: code,
				FailureReason: aws.String(reason)})
			continue
		}
		if len(in.AcceptedMediaTypes) > 0 && !slices.Contains(in.AcceptedMediaTypes, i.MediaType) {
			return nil, &types.UnsupportedImageTypeException{
				Message: message("The image %s has the media type %s, which acceptedMediaTypes does not have", i.Digest,
					i.MediaType)}
		}
		out.Images = append(out.Images, types.Image{
			RegistryId: aws.String(at.account), RepositoryName: aws.String(name),
			ImageId: &types.ImageIdentifier{ImageDigest: aws.String(i.Digest), ImageTag: id.ImageTag},
		})
		own, err := s.images.ManifestSize(ctx, at.fullName(name)+"@"+i.Digest)
		if err != nil {
			return nil, err
		}
		size += own
	}
	if size > maxManifests {
		return nil, invalidParameter("Invalid parameter at 'imageIds' failed to satisfy constraint: 'the manifests have "+
			"%d bytes together, and may have %d': get fewer images at a time", size, maxManifests)
	}
	if err := wire.HoldAnswer(ctx, manifestBytes*size); err != nil {
		return nil, err
	}
	for n := range out.Images {
		i := &out.Images[n]
		m, err := s.images.Manifest(ctx, at.fullName(name)+"@"+*i.ImageId.ImageDigest)
		if err != nil {
			return nil, err
		}
		i.ImageManifest, i.ImageManifestMediaType = aws.String(string(m.Payload)), aws.String(m.MediaType)
	}
	return out, nil
}

const (
	maxManifests  = 32 << 20 // bytes of manifests in an answer
	manifestBytes = 2        // that a byte of them takes: as it is read, and in the answer
)

// PutImage stores a manifest, whose layers have been uploaded, or puts a tag on one that is there.
func (s *Service) PutImage(ctx context.Context, in *ecr.PutImageInput) (*ecr.PutImageOutput, error) {
	at, name, tag := registryOf(ctx, in.RegistryId), aws.ToString(in.RepositoryName), aws.ToString(in.ImageTag)
	if err := wire.HoldAnswer(ctx, manifestMemory); err != nil { // before anybody waits for the repository
		return nil, err
	}
	defer s.images.HoldRepository(at.fullName(name))()
	row, err := s.findRepository(ctx, at, name)
	if err != nil {
		return nil, err
	}
	if image.OfEKS(at.account) {
		return nil, readOnly()
	}
	if in.ImageTag != nil && tag == "" {
		return nil,
			invalidParameter(
				"Invalid parameter at 'imageTag' failed to satisfy constraint: 'must have a length of 1 or more'")
	}
	payload := []byte(aws.ToString(in.ImageManifest))
	mediaType := aws.ToString(in.ImageManifestMediaType)
	if mediaType == "" {
		var manifest struct{ MediaType string }
		if err := json.Unmarshal(payload, &manifest); err != nil || manifest.MediaType == "" {
			return nil, invalidParameter(
				"Invalid parameter at 'ImageManifest' failed to satisfy constraint: 'Invalid JSON syntax', or it " +
					"names no mediaType: give imageManifestMediaType")
		}
		mediaType = manifest.MediaType
	}
	digest := image.Digest(payload)
	if want := aws.ToString(in.ImageDigest); want != "" && want != digest {
		return nil, &types.ImageDigestDoesNotMatchException{
			Message: message("The provided digest '%s' does not match the calculated digest '%s'", want, digest)}
	}
	defer s.images.LockTag(at.fullName(name), tag)()
	there, err := s.images.Has(ctx, at.fullName(name), tag, digest)
	if err != nil {
		return nil, err
	}
	if there {
		return nil, &types.ImageAlreadyExistsException{
			Message: message(
				"Image with digest '%s' and tag '%s' already exists in the repository with name '%s' in registry "+
					"with id '%s'", digest, cmp.Or(tag, "null"), name, at.account)}
	}
	if err := s.mayRetag(ctx, at, row, tag, digest); err != nil {
		if errors.As(err, new(*image.Refusal)) {
			return nil, &types.ImageTagAlreadyExistsException{Message: message("%v", err)}
		}
		return nil, err
	}
	if err := s.images.CheckQuota(at.fullName(name), tag, digest); err != nil {
		return nil, limitExceeded(err)
	}
	m, err := s.images.PutManifest(ctx, at.fullName(name), tag, mediaType, payload)
	if invalid := (*image.InvalidTag)(nil); errors.As(err, &invalid) {
		return nil, invalidParameter("Invalid parameter at 'imageTag' failed to satisfy constraint: %v", invalid)
	}
	if invalid := (*image.InvalidManifest)(nil); errors.As(err, &invalid) {
		if missing := invalid.Blobs(); len(missing) > 0 {
			return nil, &types.LayersNotFoundException{
				Message: message(
					"Layers with digests '%v' required for pushing image into repository with name '%s' in the "+
						"registry with id '%s' do not exist", missing, name, at.account)}
		}
		return nil, invalidParameter("Invalid parameter at 'ImageManifest' failed to satisfy constraint: %v", invalid)
	}
	if err != nil {
		return nil, limitExceeded(err)
	}
	return &ecr.PutImageOutput{Image: &types.Image{
		RegistryId: aws.String(at.account), RepositoryName: aws.String(name), ImageManifest: in.ImageManifest,
		ImageManifestMediaType: aws.String(m.MediaType),
		ImageId:                &types.ImageIdentifier{ImageDigest: aws.String(m.Digest), ImageTag: in.ImageTag},
	}}, nil
}

// BatchDeleteImage removes tags, and images: all of one that is named by its digest, and one whose last tag goes.
func (s *Service) BatchDeleteImage(ctx context.Context, in *ecr.BatchDeleteImageInput) (
	*ecr.BatchDeleteImageOutput, error) {
	at, name := registryOf(ctx, in.RegistryId), aws.ToString(in.RepositoryName)
	if err := checkImageIDs(in.ImageIds); err != nil {
		return nil, err
	}
	if _, err := s.findRepository(ctx, at, name); err != nil {
		return nil, err
	}
	if image.OfEKS(at.account) {
		return nil, readOnly()
	}
	out := &ecr.BatchDeleteImageOutput{ImageIds: []types.ImageIdentifier{}, Failures: []types.ImageFailure{}}
	var by map[string][]string                 // referrers
	images, err := s.listImages(ctx, at, name) // without what the loop deletes
	if err != nil {
		return nil, err
	}
	for _, id := range in.ImageIds {
		i, code, reason := findImage(images, id)
		if code == "" && (id.ImageTag == nil || len(i.Tags) == 1) {
			if by == nil {
				wanted := make(map[string]bool)
				for _, id := range in.ImageIds {
					if i, code, _ := findImage(images, id); code == "" {
						wanted[i.Digest] = true
					}
				}
				if by, err = referrers(ctx, s.images, images, wanted); err != nil {
					return nil, err
				}
			}
			for _, index := range by[i.Digest] {
				// One that this request has deleted does not count.
				if index != i.Digest && slices.ContainsFunc(images, func(i image.Image) bool { return i.Digest == index }) {
					code, reason = types.ImageFailureCodeImageReferencedByManifestList,
						"Requested image referenced by manifest list: ["+index+"]"
				}
			}
		}
		if code != "" {
			out.Failures = append(out.Failures, types.ImageFailure{ImageId: &id, FailureCode: code,
				FailureReason: aws.String(reason)})
			continue
		}
		if id.ImageTag != nil {
			if err := s.images.DeleteTag(ctx, at.fullName(name), *id.ImageTag); err != nil {
				return nil, err
			}
			out.ImageIds = append(out.ImageIds, types.ImageIdentifier{ImageDigest: aws.String(i.Digest),
				ImageTag: id.ImageTag})
			if len(i.Tags) > 1 {
				at := slices.IndexFunc(images, func(of image.Image) bool { return of.Digest == i.Digest })
				images[at].Tags = slices.DeleteFunc(images[at].Tags, func(t string) bool { return t == *id.ImageTag })
				continue
			}
		}
		if err := s.images.DeleteImage(ctx, at.fullName(name), i.Digest, i.Tags); err != nil {
			return nil, err
		}
		images = slices.DeleteFunc(images, func(of image.Image) bool { return of.Digest == i.Digest })
		if id.ImageTag == nil {
			out.ImageIds = append(out.ImageIds, types.ImageIdentifier{ImageDigest: aws.String(i.Digest)})
			for _, tag := range i.Tags {
				out.ImageIds = append(out.ImageIds, types.ImageIdentifier{ImageDigest: aws.String(i.Digest),
					ImageTag: aws.String(tag)})
			}
		}
	}
	return out, nil
}

// referrers returns the indexes among images that name one of the wanted digests, by that digest. It reads each index
// once.
func referrers(ctx context.Context, registry *image.Registry, images []image.Image, wanted map[string]bool) (
	map[string][]string, error) {
	by := make(map[string][]string)
	for _, i := range images {
		if i.ConfigMediaType != "" {
			continue // no index
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m, err := registry.Manifest(ctx, i.Repository+"@"+i.Digest)
		if errors.Is(err, image.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var index struct {
			Manifests []struct{ Digest string }
			Subject   struct{ Digest string }
		}
		if err := json.Unmarshal(m.Payload, &index); err != nil {
			return nil, fmt.Errorf("read the index %s@%s: %w", i.Repository, i.Digest, err)
		}
		for _, of := range append(index.Manifests, index.Subject) {
			if wanted[of.Digest] && !slices.Contains(by[of.Digest], i.Digest) {
				by[of.Digest] = append(by[of.Digest], i.Digest)
			}
		}
	}
	return by, nil
}
