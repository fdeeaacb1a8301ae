package image

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/distribution/distribution/v3"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// TestManifestsThatCannotBeReadAgainAreRefused shows that nobody stores a manifest that the library takes and then
// cannot read, by way of the API, the registry or a pull, and that one from before ends nothing.
func TestManifestsThatCannotBeReadAgainAreRefused(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	r := open(t, Options{})
	full := "111122223333.dkr.ecr." + region + ".amazonaws.com/app"
	repo, err := r.repository(ctx, full)
	if err != nil {
		t.Fatal(err)
	}
	config, err := repo.Blobs(ctx).Put(ctx, ocispec.MediaTypeImageConfig, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	named, err := reference.WithName(r.storedName(full))
	if err != nil {
		t.Fatal(err)
	}
	unchecked, err := r.storage.Repository(ctx, named)
	if err != nil {
		t.Fatal(err)
	}
	earlier, err := unchecked.Manifests(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for name, manifest := range map[string]struct{ mediaType, payload string }{
		"a manifest that may be an index": {ocispec.MediaTypeImageManifest, fmt.Sprintf(
			`{"schemaVersion":2,"manifests":5,"manifests":null,"config":{"mediaType":%q,"digest":%q,"size":2},"layers":[]}`,
			config.MediaType, config.Digest)},
		"an index with a configuration": {ocispec.MediaTypeImageIndex, fmt.Sprintf(
			`{"schemaVersion":2,"mediaType":%q,"config":5,"config":null,"manifests":[]}`, ocispec.MediaTypeImageIndex)},
		"an index with a configuration of another digest": {ocispec.MediaTypeImageIndex, fmt.Sprintf(
			`{"schemaVersion":2,"mediaType":%q,"config":{"digest":"x"},"config":null,"manifests":[]}`,
			ocispec.MediaTypeImageIndex)},
		"a long media type": {ocispec.MediaTypeImageManifest, fmt.Sprintf(
			`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":%q,"digest":%q,"size":2},"layers":[]}`,
			ocispec.MediaTypeImageManifest, strings.Repeat("x", 256), config.Digest)},
	} {
		var invalid *InvalidManifest
		_, err := r.PutManifest(ctx, full, "v1", manifest.mediaType, []byte(manifest.payload))
		if !errors.As(err, &invalid) {
			t.Errorf("%s is put: %v", name, err)
		}
		w := httptest.NewRecorder()
		request := httptest.NewRequest(http.MethodPut, "/v2/"+r.storedName(full)+"/manifests/v1",
			strings.NewReader(manifest.payload))
		request.Header.Set("Content-Type", manifest.mediaType)
		if r.serveStorage(w, request); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(),
			"MANIFEST_INVALID") {
			t.Errorf("%s is pushed: %d %s", name, w.Code, w.Body)
		}
		m, _, err := distribution.UnmarshalManifest(manifest.mediaType, []byte(manifest.payload))
		if err != nil {
			t.Errorf("the library refuses %s: %v", name, err)
			continue
		}
		if _, err := earlier.Put(ctx, m); err != nil {
			t.Errorf("the library does not store %s: %v", name, err)
		}
	}
	if images, err := r.Images(ctx, full); err != nil || len(images) != 4 {
		t.Errorf("%d images of an earlier version are listed, %v", len(images), err)
	}
	if err := r.leaveGarbage(); err != nil {
		t.Fatal(err)
	}
	if err := r.collectGarbage(ctx); err == nil || !strings.Contains(err.Error(), errUnreadable.Error()) {
		t.Errorf("the collection of garbage says %v", err)
	}
}

// TestTheCollectionOfGarbageFollowsNoIndex shows that the collection of garbage, which precedes all else at a start,
// reads each manifest once and keeps none of what it names that is not there; and that it removes nothing that is
// named.
func TestTheCollectionOfGarbageFollowsNoIndex(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	r := open(t, Options{})
	full := "111122223333.dkr.ecr." + region + ".amazonaws.com/app"
	repo, err := r.repository(ctx, full)
	if err != nil {
		t.Fatal(err)
	}
	config, err := repo.Blobs(ctx).Put(ctx, ocispec.MediaTypeImageConfig, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	put := func(mediaType, payload string) string {
		t.Helper()
		m, err := r.PutManifest(ctx, full, "", mediaType, []byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		return m.Digest
	}
	named := put(ocispec.MediaTypeImageManifest, fmt.Sprintf(
		`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":%q,"digest":%q,"size":2},"layers":[]}`,
		ocispec.MediaTypeImageManifest, config.MediaType, config.Digest))
	for range 3 {
		named = put(ocispec.MediaTypeImageIndex, fmt.Sprintf(
			`{"schemaVersion":2,"mediaType":%q,"manifests":[{"mediaType":%q,"digest":%q,"size":2}]}`,
			ocispec.MediaTypeImageIndex, ocispec.MediaTypeImageIndex, named))
	}
	blobs := map[digest.Digest]bool{digest.Digest(named): true}
	manifests, err := sweptRepository{repo.(checkedRepository).Repository, blobs}.Manifests(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if there, err := manifests.Exists(ctx, digest.Digest(named)); there || err != nil {
		t.Errorf("an index is followed: %v", err)
	}
	if m, err := manifests.Get(ctx, digest.Digest(named)); err != nil || len(m.References()) != 0 {
		t.Errorf("what is not there is kept: %v", err)
	}
	if err := r.leaveGarbage(); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := r.collectGarbage(over); err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("a collection whose time is over says %v", err)
	}
	if _, err := os.Stat(r.garbageMark()); err != nil {
		t.Errorf("it is not repeated: %v", err)
	}
	if err := r.collectGarbage(ctx); err != nil {
		t.Fatal(err)
	}
	if images, err := r.Images(ctx, full); err != nil || len(images) != 4 {
		t.Errorf("%d images are left of 4, %v", len(images), err)
	}
	if _, err := repo.Blobs(ctx).Stat(ctx, config.Digest); err != nil {
		t.Errorf("the configuration: %v", err)
	}
}
