package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/distribution/distribution/v3"
	_ "github.com/distribution/distribution/v3/manifest/manifestlist" // the forms of manifests that are read
	_ "github.com/distribution/distribution/v3/manifest/ocischema"
	_ "github.com/distribution/distribution/v3/manifest/schema2"
	"github.com/distribution/distribution/v3/registry/storage/driver"
	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
)

// ErrNotFound reports that a repository has no such image, or layer.
var ErrNotFound = errors.New("no such image")

// Manifest is an image's manifest as it was put.
type Manifest struct {
	Digest    string
	MediaType string
	Payload   []byte
}

// Repositories returns the full names of the repositories that have or had images, sorted.
func (r *Registry) Repositories(ctx context.Context) ([]string, error) {
	var names []string
	page := make([]string, 100)
	for last := ""; ; {
		n, err := r.storage.Repositories(ctx, page, last)
		for _, name := range page[:n] {
			names = append(names, fullName(name))
			last = name
		}
		switch {
		case errors.Is(err, io.EOF):
			slices.Sort(names)
			return names, nil
		case errors.As(err, &driver.PathNotFoundError{}):
			return nil, nil // nothing was ever stored
		case err != nil:
			return nil, fmt.Errorf("list the repositories: %w", err)
		}
	}
}

// List lists all images, by repository and the time at which they came.
func (r *Registry) List(ctx context.Context) ([]Image, error) {
	repositories, err := r.Repositories(ctx)
	if err != nil {
		return nil, err
	}
	var all []Image
	for _, repository := range repositories {
		images, err := r.Images(ctx, repository)
		if err != nil {
			return nil, err
		}
		all = append(all, images...)
	}
	return all, nil
}

// Images returns the images of a repository ("111122223333.dkr.ecr.eu-west-1.amazonaws.com/app"), in the order of their
// arrival; none when nothing was ever pushed.
func (r *Registry) Images(ctx context.Context, repository string) ([]Image, error) {
	fail := func(err error) ([]Image, error) {
		return nil, fmt.Errorf("list the images of %s: %w", repository, err)
	}
	repo, err := r.repository(ctx, repository)
	if err != nil {
		return fail(err)
	}
	manifests, err := repo.Manifests(ctx)
	if err != nil {
		return fail(err)
	}
	tags, err := r.tagsByManifest(ctx, repo)
	if err != nil {
		return fail(err)
	}
	var images []Image
	err = manifests.(distribution.ManifestEnumerator).Enumerate(ctx, func(d digest.Digest) error {
		about, err := r.describe(ctx, manifests, d)
		if errors.Is(err, errUnreadable) { // the others can be listed, and this one deleted
			about, err = description{}, nil
		}
		if err != nil {
			return err
		}
		image := Image{Repository: repository, Digest: d.String(), Tags: tags[d], Size: about.size,
			MediaType: about.mediaType, ConfigMediaType: about.configType}
		info, err := r.driver.Stat(ctx, path.Join(manifestsDir(repo), "revisions", d.Algorithm().String(), d.Encoded(),
			"link"))
		if err != nil {
			return err
		}
		image.Pushed = info.ModTime().UTC()
		images = append(images, image)
		return nil
	})
	if err != nil && !isUnknown(err) {
		return fail(err)
	}
	slices.SortStableFunc(images, func(a, b Image) int { return a.Pushed.Compare(b.Pushed) })
	return images, nil
}

func manifestsDir(repo distribution.Repository) string {
	return "/docker/registry/v2/repositories/" + repo.Named().Name() + "/_manifests"
}

// tagsByManifest returns all tags of a repository, by manifest.
func (r *Registry) tagsByManifest(ctx context.Context, repo distribution.Repository) (
	map[digest.Digest][]string, error) {
	service := repo.Tags(ctx)
	names, err := service.All(ctx)
	if isUnknown(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	tags := make(map[digest.Digest][]string)
	for _, name := range names {
		descriptor, err := service.Get(ctx, name)
		if errors.As(err, &distribution.ErrTagUnknown{}) {
			continue // it went meanwhile
		}
		if err != nil {
			return nil, err
		}
		tags[descriptor.Digest] = append(tags[descriptor.Digest], name)
	}
	return tags, nil
}

// description is the summary of a manifest in a list of images.
type description struct {
	size                  int64
	mediaType, configType string
}

// maxDescriptions is the maximum number of cached descriptions. Their types are short; see describe.
const maxDescriptions = 20_000

// describe describes a manifest, whose content never changes. It is read once, as long as it is one of the last
// maxDescriptions.
func (r *Registry) describe(ctx context.Context, manifests distribution.ManifestService, d digest.Digest) (
	description, error) {
	if known, ok := r.descriptions.Get(d); ok {
		return known.(description), nil
	}
	m, err := manifests.Get(ctx, d)
	if err != nil {
		return description{}, err
	}
	of, err := describe(m)
	if err != nil {
		return description{}, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	of.mediaType, of.configType = strings.Clone(of.mediaType), strings.Clone(of.configType)
	r.descriptions.Add(digest.Digest(strings.Clone(d.String())), of)
	return of, nil
}

// maxMediaType is the maximum length of a media type: RFC 6838 allows 127 characters for each of its halves.
const maxMediaType = 255

func describe(m distribution.Manifest) (description, error) {
	mediaType, payload, err := m.Payload()
	if err != nil {
		return description{}, err
	}
	return describePayload(mediaType, payload)
}

func describePayload(mediaType string, payload []byte) (description, error) {
	var content struct {
		Config    *v1.Descriptor  `json:"config"`
		Layers    []v1.Descriptor `json:"layers"`
		Manifests []v1.Descriptor `json:"manifests"`
	}
	if err := json.Unmarshal(payload, &content); err != nil {
		return description{}, err
	}
	of := description{size: int64(len(payload)), mediaType: mediaType}
	if content.Config != nil {
		of.size, of.configType = content.Config.Size, string(content.Config.MediaType)
		for _, layer := range content.Layers {
			of.size += layer.Size
		}
	}
	if n := max(len(of.mediaType), len(of.configType)); n > maxMediaType {
		return description{}, fmt.Errorf("a media type has %d characters, and %d are allowed", n, maxMediaType)
	}
	return of, nil
}

// Resolve returns the digest of the manifest behind a full reference with a tag or a digest; ErrNotFound when there is
// none. It does not read the manifest.
func (r *Registry) Resolve(ctx context.Context, full string) (digestOf string, err error) {
	_, d, err := r.resolve(ctx, full)
	return d.String(), err
}

// Has reports whether a repository has a manifest, under a tag if there is one. It lists nothing.
func (r *Registry) Has(ctx context.Context, repository, tag, digestOf string) (bool, error) {
	_, _, err := r.resolve(ctx, repository+"@"+digestOf)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil || tag == "" {
		return err == nil, err
	}
	repo, err := r.repository(ctx, repository)
	if err != nil {
		return false, err
	}
	descriptor, err := repo.Tags(ctx).Get(ctx, tag)
	if isUnknown(err) {
		return false, nil
	}
	return descriptor.Digest.String() == digestOf, err
}

// ManifestSize returns the size of a manifest in bytes, without reading it; ErrNotFound when there is none.
func (r *Registry) ManifestSize(ctx context.Context, full string) (int64, error) {
	_, d, err := r.resolve(ctx, full)
	if err != nil {
		return 0, err
	}
	descriptor, err := r.storage.BlobStatter().Stat(ctx, d)
	if err != nil {
		return 0, notFound(full, err)
	}
	return descriptor.Size, nil
}

func (r *Registry) resolve(ctx context.Context, full string) (distribution.ManifestService, digest.Digest, error) {
	fail := func(err error) (distribution.ManifestService, digest.Digest, error) {
		return nil, "", notFound(full, err)
	}
	repository, identifier, err := splitReference(full)
	if err != nil {
		return nil, "", err
	}
	repo, err := r.repository(ctx, repository)
	if err != nil {
		return fail(err)
	}
	d := digest.Digest(identifier)
	if d.Validate() != nil {
		descriptor, err := repo.Tags(ctx).Get(ctx, identifier)
		if err != nil {
			return fail(err)
		}
		d = descriptor.Digest
	}
	manifests, err := repo.Manifests(ctx)
	if err != nil {
		return fail(err)
	}
	there, err := manifests.Exists(ctx, d)
	if err != nil {
		return fail(err)
	}
	if !there {
		return fail(distribution.ErrBlobUnknown)
	}
	return manifests, d, nil
}

// notFound returns the error for a reference that leads to no manifest.
func notFound(full string, err error) error {
	if isUnknown(err) {
		return fmt.Errorf("%s: %w", full, ErrNotFound)
	}
	return fmt.Errorf("find %s: %w", full, err)
}

// Manifest returns the manifest of a full reference with a tag or a digest, or ErrNotFound when there is none.
func (r *Registry) Manifest(ctx context.Context, full string) (Manifest, error) {
	manifests, d, err := r.resolve(ctx, full)
	if err != nil {
		return Manifest{}, err
	}
	m, err := manifests.Get(ctx, d)
	if err != nil {
		return Manifest{}, notFound(full, err)
	}
	mediaType, payload, err := m.Payload()
	if err != nil {
		return Manifest{}, notFound(full, err)
	}
	return Manifest{Digest: d.String(), MediaType: mediaType, Payload: payload}, nil
}

// DeleteTag takes a tag off its image; no error when there is none.
func (r *Registry) DeleteTag(ctx context.Context, repository, tag string) error {
	if err := checkWritable(repository); err != nil {
		return err
	}
	repo, err := r.repository(ctx, repository)
	if err != nil {
		return err
	}
	if err := repo.Tags(ctx).Untag(ctx, tag); err != nil && !isUnknown(err) {
		return fmt.Errorf("untag %s:%s: %w", repository, tag, err)
	}
	return nil
}

// DeleteImage removes a manifest and the tags that are on it, which [Registry.Images] tells; no error when there is
// none.
func (r *Registry) DeleteImage(ctx context.Context, repository, digestOf string, tags []string) error {
	if err := checkWritable(repository); err != nil {
		return err
	}
	return r.deleteImage(ctx, repository, digestOf, tags)
}

func (r *Registry) deleteImage(ctx context.Context, repository, digestOf string, tags []string) error {
	if err := r.leaveGarbage(); err != nil {
		return err
	}
	fail := func(err error) error { return fmt.Errorf("delete %s@%s: %w", repository, digestOf, err) }
	repo, err := r.repository(ctx, repository)
	if err != nil {
		return fail(err)
	}
	d, err := digest.Parse(digestOf)
	if err != nil {
		return fail(err)
	}
	for _, tag := range tags {
		if err := repo.Tags(ctx).Untag(ctx, tag); err != nil && !isUnknown(err) {
			return fail(err)
		}
	}
	manifests, err := repo.Manifests(ctx)
	if err != nil {
		return fail(err)
	}
	if err := manifests.Delete(ctx, d); err != nil && !isUnknown(err) {
		return fail(err)
	}
	return nil
}

// DeleteRepository removes a repository with its images; no error when there is none.
func (r *Registry) DeleteRepository(_ context.Context, repository string) error {
	if err := checkWritable(repository); err != nil {
		return err
	}
	return r.deleteRepository(repository)
}

func (r *Registry) deleteRepository(repository string) error {
	for _, name := range []string{"_manifests", "_layers", "_uploads"} {
		// another repository may be below it: "app" and "app/web"
		dir := filepath.Join(r.repositoryDir(r.storedName(repository)), name)
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := r.leaveGarbage(); err != nil {
			return err
		}
		if err := os.RemoveAll(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("delete the images of %s: %w", repository, err)
		}
	}
	return nil
}

// repository opens one by its full name.
func (r *Registry) repository(ctx context.Context, full string) (distribution.Repository, error) {
	named, err := reference.WithName(r.storedName(full))
	if err != nil {
		return nil, fmt.Errorf("%q is no repository: %w", full, err)
	}
	repo, err := r.storage.Repository(ctx, named)
	if err != nil {
		return nil, fmt.Errorf("open repository %q: %w", full, err)
	}
	return checkedRepository{repo}, nil
}

// isUnknown recognizes the ways in which the library says that something is not there.
func isUnknown(err error) bool {
	return errors.Is(err, distribution.ErrBlobUnknown) ||
		errors.As(err, &distribution.ErrTagUnknown{}) ||
		errors.As(err, &distribution.ErrRepositoryUnknown{}) ||
		errors.As(err, &distribution.ErrManifestUnknown{}) ||
		errors.As(err, &distribution.ErrManifestUnknownRevision{}) ||
		errors.As(err, &driver.PathNotFoundError{})
}

// manifestParts returns the descriptors in the manifest of an image or an index. size is the size of the manifest.
func (r *Registry) manifestParts(
	ctx context.Context,
	repository, digestOf string,
) (size int64, parts []v1.Descriptor, err error) {
	m, err := r.Manifest(ctx, joinReference(repository, digestOf))
	if err != nil {
		return 0, nil, err
	}
	var content struct {
		Config    *v1.Descriptor  `json:"config"`
		Layers    []v1.Descriptor `json:"layers"`
		Manifests []v1.Descriptor `json:"manifests"`
	}
	if err := json.Unmarshal(m.Payload, &content); err != nil {
		return 0, nil, fmt.Errorf("read the manifest %s@%s: %w", repository, digestOf, err)
	}
	parts = slices.Concat(content.Layers, content.Manifests)
	if content.Config != nil {
		parts = append(parts, *content.Config)
	}
	return int64(len(m.Payload)), parts, nil
}
