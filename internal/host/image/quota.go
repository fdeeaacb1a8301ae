package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
)

// maxImages and maxTags bound the images and the tags of a repository that users push to: to list its images takes a
// read of a file for each. ECR allows 100,000 images, each with 1,000 tags.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/service-quotas.html
const (
	maxImages = 20_000
	maxTags   = 20_000
)

// ErrQuota is the error of an image or a tag for which its repository has no room.
var ErrQuota = errors.New("the repository is full")

// CheckQuota refuses a manifest and a tag, if there is one, that a repository does not have yet when it has as many as
// it may.
func (r *Registry) CheckQuota(repository, tag, digestOf string) error {
	return r.checkQuota(r.storedName(repository), tag, digest.Digest(digestOf))
}

// CountImages returns how many images and tags a repository has or had. It reads none of them.
func (r *Registry) CountImages(repository string) (int, error) {
	dir := filepath.Join(r.repositoryDir(r.storedName(repository)), "_manifests")
	tags, err := linksBelow(filepath.Join(dir, "tags"))
	if err != nil {
		return 0, err
	}
	images, err := linksBelow(filepath.Join(dir, "revisions", digest.SHA256.String()))
	return len(tags) + len(images), err
}

func (r *Registry) checkQuota(stored, tag string, d digest.Digest) error {
	host, _, _ := strings.Cut(stored, "/")
	if _, _, ok := ECR(host); !ok {
		return nil // the cache of public images, which all share, makes room
	}
	dir := filepath.Join(r.repositoryDir(stored), "_manifests")
	if tag != "" {
		tags, err := linksBelow(filepath.Join(dir, "tags"))
		if err != nil {
			return err
		}
		if len(tags) >= r.maxTags && !slices.Contains(tags, tag) {
			return fmt.Errorf("%w: it has %d tags, the most that a repository may have: delete some", ErrQuota,
				len(tags))
		}
	}
	revisions := filepath.Join(dir, "revisions", d.Algorithm().String())
	images, err := linksBelow(revisions)
	if err != nil || len(images) < r.maxImages {
		return err
	}
	// Of images that have been deleted a directory is left.
	images = slices.DeleteFunc(images, func(name string) bool {
		_, err := os.Lstat(filepath.Join(revisions, name, "link"))
		return errors.Is(err, fs.ErrNotExist)
	})
	if len(images) >= r.maxImages && !slices.Contains(images, d.Encoded()) {
		return fmt.Errorf("%w: it has %d images, the most that a repository may have: delete some", ErrQuota,
			len(images))
	}
	return nil
}

// linksBelow returns the names in a directory, none when it is not there.
func linksBelow(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}
