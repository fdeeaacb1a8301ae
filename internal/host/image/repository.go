package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/distribution/distribution/v3"
	"github.com/distribution/reference"
	"github.com/google/uuid"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// checkedRepository is a repository of the library whose callers may name any tag and any upload. The library makes
// paths of both and validates neither, because its HTTP routes do: "../.." would lead into the repositories of other
// accounts.
type checkedRepository struct{ distribution.Repository }

// Tags returns the tags of the repository.
func (r checkedRepository) Tags(ctx context.Context) distribution.TagService {
	return checkedTags{r.Repository.Tags(ctx), r.Named()}
}

// Blobs returns the layers of the repository.
func (r checkedRepository) Blobs(ctx context.Context) distribution.BlobStore {
	return checkedBlobs{r.Repository.Blobs(ctx)}
}

// Manifests returns the manifests of the repository.
func (r checkedRepository) Manifests(ctx context.Context, options ...distribution.ManifestServiceOption) (
	distribution.ManifestService, error) {
	return checkManifests(ctx, r.Repository, options...)
}

func checkManifests(ctx context.Context, repository distribution.Repository,
	options ...distribution.ManifestServiceOption) (checkedManifests, error) {
	manifests, err := repository.Manifests(ctx, options...)
	if err != nil {
		return checkedManifests{}, err
	}
	enumerator, _ := manifests.(distribution.ManifestEnumerator)
	return checkedManifests{manifests, enumerator}, nil
}

// errUnreadable is the error of a manifest that is stored and cannot be read. None is stored since checkManifest.
var errUnreadable = errors.New("the manifest cannot be read")

// checkedManifests are manifests of which one that the library cannot read does not end the program.
type checkedManifests struct {
	distribution.ManifestService
	distribution.ManifestEnumerator
}

// Get returns a manifest.
func (m checkedManifests) Get(ctx context.Context, d digest.Digest, options ...distribution.ManifestServiceOption) (
	manifest distribution.Manifest, err error) {
	defer func() {
		if p := recover(); p != nil {
			manifest, err = nil, fmt.Errorf("%w: %v", errUnreadable, p)
		}
	}()
	manifest, err = m.ManifestService.Get(ctx, d, options...)
	if errors.As(err, new(*json.UnmarshalTypeError)) || errors.As(err, new(*json.SyntaxError)) {
		err = fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return manifest, err
}

// swept is the library's storage for its collection of garbage, which would follow an index to what it names, and
// that on, and would keep all that it reads meanwhile and all digests that tenants have made up.
type swept struct {
	distribution.Namespace
	distribution.RepositoryEnumerator
	blobs map[digest.Digest]bool // all that there are
}

// Repository returns a repository.
func (s swept) Repository(ctx context.Context, named reference.Named) (distribution.Repository, error) {
	repository, err := s.Namespace.Repository(ctx, named)
	if err != nil {
		return nil, err
	}
	return sweptRepository{repository, s.blobs}, nil
}

// sweptRepository is a repository of swept.
type sweptRepository struct {
	distribution.Repository
	blobs map[digest.Digest]bool
}

// Manifests returns the manifests of the repository.
func (r sweptRepository) Manifests(ctx context.Context, options ...distribution.ManifestServiceOption) (
	distribution.ManifestService, error) {
	manifests, err := checkManifests(ctx, r.Repository, options...)
	return sweptManifests{manifests, r.blobs}, err
}

// sweptManifests are those of a sweptRepository.
type sweptManifests struct {
	checkedManifests
	blobs map[digest.Digest]bool
}

// Exists reports that a manifest is not there, to which an index leads: the enumeration comes to all of them anyway.
func (m sweptManifests) Exists(context.Context, digest.Digest) (bool, error) { return false, nil }

// Get returns a manifest, with what it names as far as that is there.
func (m sweptManifests) Get(ctx context.Context, d digest.Digest, options ...distribution.ManifestServiceOption) (
	distribution.Manifest, error) {
	if err := ctx.Err(); err != nil { // of which the library takes no notice
		return nil, err
	}
	manifest, err := m.checkedManifests.Get(ctx, d, options...)
	if err != nil {
		return nil, err
	}
	return sweptManifest{manifest, m.blobs}, nil
}

type sweptManifest struct {
	distribution.Manifest
	blobs map[digest.Digest]bool
}

// References returns the blobs that the manifest names and that are there.
func (m sweptManifest) References() []ocispec.Descriptor {
	var there []ocispec.Descriptor
	for _, d := range m.Manifest.References() {
		if m.blobs[d.Digest] {
			there = append(there, ocispec.Descriptor{MediaType: d.MediaType, Digest: d.Digest})
		}
	}
	return there
}

// InvalidTag is the error of a tag that no image can have.
type InvalidTag struct{ Tag string }

func (e *InvalidTag) Error() string {
	return fmt.Sprintf(
		"%.150q is no tag: a tag has 1 to 128 letters, digits, '_', '-' and '.', and does not begin with '-' or '.'",
		e.Tag)
}

type checkedTags struct {
	distribution.TagService
	named reference.Named
}

func (t checkedTags) valid(tag string) bool {
	_, err := reference.WithTag(t.named, tag)
	return err == nil
}

// Get returns what a tag names. No image has an invalid one.
func (t checkedTags) Get(ctx context.Context, tag string) (distribution.Descriptor, error) {
	if !t.valid(tag) {
		return distribution.Descriptor{}, distribution.ErrTagUnknown{Tag: tag}
	}
	return t.TagService.Get(ctx, tag)
}

// Tag gives an image a tag. The error is an [InvalidTag] for what is none.
func (t checkedTags) Tag(ctx context.Context, tag string, image distribution.Descriptor) error {
	if !t.valid(tag) {
		return &InvalidTag{tag}
	}
	return t.TagService.Tag(ctx, tag, image)
}

// Untag removes a tag. No image has an invalid one.
func (t checkedTags) Untag(ctx context.Context, tag string) error {
	if !t.valid(tag) {
		return distribution.ErrTagUnknown{Tag: tag}
	}
	return t.TagService.Untag(ctx, tag)
}

type checkedBlobs struct{ distribution.BlobStore }

// Resume returns an upload that was begun. Their IDs are UUIDs, written as the library writes them.
func (b checkedBlobs) Resume(ctx context.Context, id string) (distribution.BlobWriter, error) {
	if parsed, err := uuid.Parse(id); err != nil || parsed.String() != id {
		return nil, distribution.ErrBlobUploadUnknown
	}
	return b.BlobStore.Resume(ctx, id)
}

// Stat describes a layer. None has an invalid digest.
func (b checkedBlobs) Stat(ctx context.Context, layer digest.Digest) (distribution.Descriptor, error) {
	if layer.Validate() != nil {
		return distribution.Descriptor{}, distribution.ErrBlobUnknown
	}
	return b.BlobStore.Stat(ctx, layer)
}
