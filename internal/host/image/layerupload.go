package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/distribution/distribution/v3"
	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Layer returns the size in bytes of a layer (any blob) of a repository, or ErrNotFound when it has none of that
// digest.
func (r *Registry) Layer(ctx context.Context, repository, digestOf string) (size int64, err error) {
	repo, err := r.repository(ctx, repository)
	if err != nil {
		return 0, err
	}
	descriptor, err := repo.Blobs(ctx).Stat(ctx, digest.Digest(digestOf))
	if isUnknown(err) {
		return 0, fmt.Errorf("%s: %w", digestOf, ErrNotFound)
	}
	return descriptor.Size, err
}

// ErrUploadUnknown reports that there is no such upload, or no longer.
var ErrUploadUnknown = errors.New("no such upload")

// maxUploads bounds the unfinished uploads to the repositories of a registry, which is an account's in a region.
const maxUploads = 1000

// uploadLife is the time after which an unfinished upload is removed.
const uploadLife = 24 * time.Hour

// ErrTooManyUploads is the error of an upload that is not begun before others have ended.
var ErrTooManyUploads = fmt.Errorf(
	"the registry has %d unfinished layer uploads: complete some, or wait until they expire %s after they began",
	maxUploads, uploadLife)

// checkUploads refuses another upload to the registry of a repository when it has too many that are unfinished, or
// when the disk is nearly full.
func (r *Registry) checkUploads(repository string) error {
	host, _, _ := strings.Cut(r.storedName(repository), "/")
	uploads := 0
	err := filepath.WalkDir(r.repositoryDir(host), func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // it ended meanwhile
		case err != nil:
			return err
		case d.Name() != "_uploads":
			if strings.HasPrefix(d.Name(), "_") {
				return fs.SkipDir
			}
			return nil
		}
		all, err := os.ReadDir(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if uploads += len(all); uploads >= maxUploads {
			return ErrTooManyUploads
		}
		return fs.SkipDir
	})
	if err != nil {
		return err
	}
	release, err := r.space.reserve(r.options.Dir, nil)
	if err != nil {
		return err
	}
	release()
	return nil
}

// StartUpload begins the upload of a layer.
func (r *Registry) StartUpload(ctx context.Context, repository string) (id string, err error) {
	if err := checkWritable(repository); err != nil {
		return "", err
	}
	repo, err := r.repository(ctx, repository)
	if err != nil {
		return "", err
	}
	if err := r.checkUploads(repository); err != nil {
		return "", err
	}
	upload, err := repo.Blobs(ctx).Create(ctx)
	if err != nil {
		return "", fmt.Errorf("start an upload to %s: %w", repository, err)
	}
	return upload.ID(), upload.Close()
}

// AppendUpload adds a part, which begins at offset, and returns how much there is then. When it begins elsewhere than
// the upload ends, nothing is added and size says where that is.
func (r *Registry) AppendUpload(ctx context.Context, repository, id string, offset int64, part []byte) (size int64,
	added bool, err error) {
	upload, err := r.resumeUpload(ctx, repository, id)
	if err != nil {
		return 0, false, err
	}
	if upload.Size() != offset {
		return upload.Size(), false, upload.Close()
	}
	release, err := r.space.reserve(r.options.Dir, []v1.Descriptor{{Size: int64(len(part))}})
	if err != nil {
		return 0, false, errors.Join(err, upload.Close())
	}
	defer release()
	_, err = upload.Write(part)
	size = upload.Size()
	return size, true, errors.Join(err, upload.Close())
}

// ErrDigest reports that what was uploaded has another digest.
var ErrDigest = errors.New("the content has another digest")

// FinishUpload makes a layer of what was uploaded.
func (r *Registry) FinishUpload(ctx context.Context, repository, id, digestOf string) error {
	upload, err := r.resumeUpload(ctx, repository, id)
	if err != nil {
		return err
	}
	d, err := digest.Parse(digestOf)
	if err != nil {
		return errors.Join(fmt.Errorf("%q: %w", digestOf, ErrDigest), upload.Close())
	}
	defer r.commits.beginCommit(r.storedName(repository))()
	_, err = upload.Commit(ctx, ocispec.Descriptor{Digest: d})
	if errors.As(err, &distribution.ErrBlobInvalidDigest{}) {
		return fmt.Errorf("%s: %w", digestOf, ErrDigest)
	}
	return err
}

func (r *Registry) resumeUpload(ctx context.Context, repository, id string) (distribution.BlobWriter, error) {
	repo, err := r.repository(ctx, repository)
	if err != nil {
		return nil, err
	}
	upload, err := repo.Blobs(ctx).Resume(ctx, id)
	if errors.Is(err, distribution.ErrBlobUploadUnknown) || isUnknown(err) {
		return nil, fmt.Errorf("%s: %w", id, ErrUploadUnknown)
	}
	return upload, err
}

// LockTag prevents others from putting or checking a tag of a repository until unlock: between a check whether it may
// be put, and PutManifest. No other tag is locked meanwhile.
func (r *Registry) LockTag(repository, tag string) (unlock func()) {
	key := joinReference(r.storedName(repository), tag)
	r.tags.Lock(key)
	return func() { r.tags.Unlock(key) } //nolint:errcheck // only of a key that is not locked
}

// PutManifest stores a manifest in a repository, under a tag if there is one. The error is an [InvalidTag] or an
// [InvalidManifest], and nothing is stored, for what cannot be.
func (r *Registry) PutManifest(ctx context.Context, repository, tag, mediaType string, payload []byte) (Manifest,
	error) {
	if err := checkWritable(repository); err != nil {
		return Manifest{}, err
	}
	repo, err := r.repository(ctx, repository)
	if err != nil {
		return Manifest{}, err
	}
	if _, err := reference.WithTag(repo.Named(), tag); tag != "" && err != nil {
		return Manifest{}, &InvalidTag{tag}
	}
	if err := checkManifest(payload); err != nil {
		return Manifest{}, &InvalidManifest{err}
	}
	m, descriptor, err := distribution.UnmarshalManifest(mediaType, payload)
	if err != nil {
		return Manifest{}, &InvalidManifest{err}
	}
	var versioned struct{ SchemaVersion int }
	if err := json.Unmarshal(payload, &versioned); err != nil || versioned.SchemaVersion != 2 {
		return Manifest{}, &InvalidManifest{fmt.Errorf("its schemaVersion is %d and not 2", versioned.SchemaVersion)}
	}
	manifests, err := repo.Manifests(ctx)
	if err != nil {
		return Manifest{}, err
	}
	release, err := r.space.reserve(r.options.Dir, []v1.Descriptor{{Size: int64(len(payload))}})
	if err != nil {
		return Manifest{}, err
	}
	defer release()
	defer r.commits.beginCommit(r.storedName(repository))()
	if _, err := manifests.Put(ctx, m); err != nil {
		var problems distribution.ErrManifestVerification
		if errors.As(err, &problems) {
			return Manifest{}, &InvalidManifest{err}
		}
		return Manifest{}, fmt.Errorf("store a manifest in %s: %w", repository, err)
	}
	if tag != "" {
		if err := repo.Tags(ctx).Tag(ctx, tag, descriptor); err != nil {
			return Manifest{}, fmt.Errorf("tag a manifest of %s: %w", repository, err)
		}
	}
	return Manifest{Digest: descriptor.Digest.String(), MediaType: descriptor.MediaType, Payload: payload}, nil
}

// InvalidManifest is a manifest that cannot be stored: it cannot be read, or names layers or images that are not there.
type InvalidManifest struct{ Err error }

func (e *InvalidManifest) Error() string { return e.Err.Error() }

func (e *InvalidManifest) Unwrap() error { return e.Err }

// Blobs lists what is missing of an invalid manifest: digests of layers and images.
func (e *InvalidManifest) Blobs() (missing []string) {
	var problems distribution.ErrManifestVerification
	if !errors.As(e.Err, &problems) {
		return nil
	}
	for _, problem := range problems {
		var blob distribution.ErrManifestBlobUnknown
		if errors.As(problem, &blob) {
			missing = append(missing, blob.Digest.String())
		}
	}
	return missing
}

// Digest returns the digest of a manifest.
func Digest(payload []byte) string { return digest.FromBytes(payload).String() }
