package image

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/opencontainers/go-digest"

	"github.com/coracle-eks/coracle/internal/eventually"
)

// bytesOfBlobs returns the total size of the blobs of a registry.
func bytesOfBlobs(t *testing.T, r *Registry) (total int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(r.options.Dir, "registry/docker/registry/v2/blobs/sha256/*/*/data"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	return total
}

// used sets the time when an image was last requested.
func used(t *testing.T, r *Registry, reference string, ago time.Duration) {
	t.Helper()
	repository, tag, err := splitReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.Manifest(t.Context(), reference)
	if err != nil {
		t.Fatal(err)
	}
	for _, identifier := range []string{tag, m.Digest} {
		if err := os.Chtimes(r.pulledMark(repository, identifier), time.Now().Add(-ago), time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
}

func has(t *testing.T, r *Registry, reference string) bool {
	t.Helper()
	there, err := r.hasReference(t.Context(), reference)
	if err != nil {
		t.Fatal(err)
	}
	return there
}

// TestTheCacheIsBounded fetches images until the oldest have to go, beside images that are not of the cache and share
// layers with it.
func TestTheCacheIsBounded(t *testing.T) {
	t.Parallel()
	n := newInternet()
	r := open(t, Options{Transport: n, CacheSize: 56 << 10})
	push := func(reference string, size int64) v1.Image {
		t.Helper()
		img, err := random.Image(size, 2)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := name.ParseReference(reference)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, img, remote.WithTransport(n)); err != nil {
			t.Fatal(err)
		}
		return img
	}
	shared := push("docker.io/library/a:1", 8<<10)
	if status, _, body := get(t, r, "library/a", "1", "docker.io"); status != 200 {
		t.Fatal(body)
	}
	// The account has pushed the same image, and somebody loaded one beside it.
	loaded := randomImage(t)
	for reference, img := range map[string]v1.Image{secretRepository + ":v1": shared,
		"docker.io/library/a:loaded": loaded, "docker.io/library/b:loaded": shared} {
		if err := r.storeImage(t.Context(), reference, img); err != nil {
			t.Fatal(err)
		}
	}
	push("docker.io/library/a:2", 8<<10)
	push("docker.io/library/a/b:3", 8<<10)
	for _, one := range [][2]string{{"library/a", "2"}, {"library/a/b", "3"}} {
		if status, _, body := get(t, r, one[0], one[1], "docker.io"); status != 200 {
			t.Fatal(body)
		}
	}
	used(t, r, "docker.io/library/a:1", 3*time.Hour)
	used(t, r, "docker.io/library/a:2", 2*time.Hour)
	used(t, r, "docker.io/library/a/b:3", time.Hour)
	if status, _, _ := get(t, r, "library/a", "2", "docker.io"); status != 200 { // which is used now
		t.Fatal("the image is gone")
	}
	for i := range 3 {
		push(fmt.Sprintf("quay.io/team/app:%d", i), 8<<10)
		if status, _, body := get(t, r, "team/app", fmt.Sprint(i), "quay.io"); status != 200 {
			t.Fatal(body)
		}
		if i == 0 {
			used(t, r, "quay.io/team/app:0", time.Minute)
		}
	}
	for reference, want := range map[string]bool{
		"docker.io/library/a:1": false, "docker.io/library/a/b:3": false, "docker.io/library/a:2": true,
		"docker.io/library/a:loaded": true, "docker.io/library/b:loaded": true,
		secretRepository + ":v1": true, "quay.io/team/app:0": false, "quay.io/team/app:1": true,
		"quay.io/team/app:2": true,
	} {
		if want != has(t, r, reference) {
			t.Errorf("%s is there: %v", reference, !want)
		}
	}
	// Their layers are gone as well, but for those that others have.
	if got, most := bytesOfBlobs(t, r), int64(56<<10+18<<10); got > most {
		t.Errorf("the blobs have %d bytes, want %d at most", got, most)
	}
	for _, reference := range []string{secretRepository + ":v1", "docker.io/library/b:loaded"} {
		img, err := r.loadImage(t.Context(), reference)
		if err != nil {
			t.Fatal(err)
		}
		if err := validImage(img); err != nil {
			t.Errorf("%s: %v", reference, err)
		}
	}
	// What has gone can be fetched again, and what is larger than all cannot be.
	if status, _, body := get(t, r, "library/a", "1", "docker.io"); status != 200 {
		t.Errorf("an image that was removed: %s", body)
	}
	push("docker.io/library/large:1", 30<<10)
	before := bytesOfBlobs(t, r)
	if status, _, body := get(t, r, "library/large", "1", "docker.io"); status != http.StatusForbidden ||
		!strings.Contains(body, "all images of public registries may have 56 KiB") {
		t.Errorf("an image that is larger than the cache: %d %s", status, body)
	}
	if after := bytesOfBlobs(t, r); after != before {
		t.Errorf("it has changed the blobs from %d to %d bytes", before, after)
	}
	if r.cache.pending.total != (cacheSize{}) || len(r.cache.pending.by) != 0 || len(r.cache.storing) != 0 ||
		r.turns.Holders() != 0 {
		t.Errorf("left: %v, %v, %d sources", r.cache.pending, r.cache.storing, r.turns.Holders())
	}
}

// validImage reads all layers.
func validImage(img v1.Image) error {
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			return err
		}
		content.Close()
	}
	return nil
}

// TestIndexesOfTheCacheAreRemoved moves a tag from index to index.
func TestIndexesOfTheCacheAreRemoved(t *testing.T) {
	t.Parallel()
	n := newInternet()
	r := open(t, Options{Transport: n, CacheSize: 40 << 10})
	for i := range 4 {
		img, err := random.Image(8<<10, 2)
		if err != nil {
			t.Fatal(err)
		}
		index := mutate.AppendManifests(
			empty.Index,
			mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &platform}},
		)
		if err := remote.WriteIndex(name.MustParseReference("registry.k8s.io/pause:3.10"), index,
			remote.WithTransport(n)); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			old := time.Now().Add(-freshFor - time.Minute)
			if err := os.Chtimes(r.pulledMark("registry.k8s.io/pause", "3.10"), old, old); err != nil {
				t.Fatal(err)
			}
		}
		if status, got, body := get(t, r, "pause", "3.10", "registry.k8s.io"); status != 200 || got != hash(t, index) {
			t.Fatalf("%d %s %s", status, got, body)
		}
		if status, _, body := get(t, r, "pause", hash(t, img), "registry.k8s.io"); status != 200 {
			t.Fatal(body)
		}
	}
	if got := bytesOfBlobs(t, r); got > 40<<10 {
		t.Errorf("the blobs have %d bytes", got)
	}
}

// TestManifestsOfTheCacheAreBounded fetches images that are small, and whose manifests are large, until the oldest have
// to go; and one image by more and more tags.
func TestManifestsOfTheCacheAreBounded(t *testing.T) {
	t.Parallel()
	n := newInternet()
	r := open(t, Options{Transport: n, CacheSize: 1 << 30})
	r.cache.maxManifests = 1 << 20
	push := func(reference string, annotation int) {
		t.Helper()
		img := mutate.Annotations(randomImage(t), map[string]string{"a": strings.Repeat("x", annotation)}).(v1.Image)
		ref, err := name.ParseReference(reference)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, img, remote.WithTransport(n)); err != nil {
			t.Fatal(err)
		}
	}
	bound := func() {
		t.Helper()
		images, _, err := r.listCached(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var total int64
		for _, image := range images {
			if total += image.manifests; image.manifests < 4<<10 {
				t.Errorf("%s counts as %d bytes", image.digest, image.manifests)
			}
		}
		if total > 1<<20 || total < 1<<18 {
			t.Errorf("the manifests have %d bytes", total)
		}
	}
	for i := range 12 {
		push(fmt.Sprintf("docker.io/library/a:%d", i), 200<<10)
		if status, _, body := get(t, r, "library/a", fmt.Sprint(i), "docker.io"); status != 200 {
			t.Fatal(body)
		}
	}
	bound()
	if there := has(t, r, "docker.io/library/a:11"); !there || has(t, r, "docker.io/library/a:0") {
		t.Errorf("the newest is there: %v, and the oldest stays", there)
	}
	push("docker.io/library/a:tags", 0)
	ref := name.MustParseReference("docker.io/library/a:tags")
	for i := range 80 {
		img, err := remote.Image(ref, remote.WithTransport(n))
		if err != nil {
			t.Fatal(err)
		}
		tag := fmt.Sprintf("tag%d", i)
		if err := remote.Tag(ref.Context().Tag(tag), img, remote.WithTransport(n)); err != nil {
			t.Fatal(err)
		}
		if status, _, body := get(t, r, "library/a", tag, "docker.io"); status != 200 {
			t.Fatal(body)
		}
	}
	bound()
	push("docker.io/library/a:large", 1<<20)
	if status, _, body := get(t, r, "library/a", "large", "docker.io"); status != http.StatusForbidden ||
		!strings.Contains(body, "all images of public registries may have 1.0 GiB, and 1.0 MiB") {
		t.Errorf("an image with a large manifest: %d %s", status, body)
	}
}

// TestWhatCannotBeFetchedLeavesNothing pulls from a registry that never sends the last layer.
func TestWhatCannotBeFetchedLeavesNothing(t *testing.T) {
	t.Parallel()
	n := newInternet()
	img := n.push(t, "docker.io/library/broken:1")
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	for _, missing := range []string{hash(t, layers[1]), config.String()} {
		r := open(t, Options{Transport: without{n, missing}})
		if status, _, body := get(t, r, "library/broken", "1", "docker.io"); status != http.StatusForbidden {
			t.Errorf("without %s: %d %s", missing, status, body)
		}
		for _, dir := range []string{"registry", "pulled"} {
			for _, path := range filesBelow(t, filepath.Join(r.options.Dir, dir)) {
				if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
					t.Errorf("without %s: %s is left", missing, path)
				}
			}
		}
	}
}

// without is a network in which a blob is missing.
type without struct {
	*internet
	digest string
}

func (w without) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, w.digest) {
		return nil, errors.New("the connection broke")
	}
	return w.internet.RoundTrip(r)
}

// TestASourceHasAFewPullsAtATime pulls from a registry that does not answer.
func TestASourceHasAFewPullsAtATime(t *testing.T) {
	t.Parallel()
	var waiting atomic.Int32
	answer := make(chan struct{})
	r := open(t, Options{Transport: roundTripper(func(request *http.Request) (*http.Response, error) {
		waiting.Add(1)
		<-answer
		return nil, errors.New("closed")
	})})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error)
	for i := range maxTurns + 3 {
		repository := fmt.Sprintf("host%d.example.com/a", i)
		go func() { ended <- r.ensurePulled(ctx, "10.0.0.1", repository, repository, "v1") }()
	}
	reached := func(want int32) {
		t.Helper()
		eventually.Nil(t, "pulls are under way", func() error {
			if got := waiting.Load(); got != want {
				return fmt.Errorf("%d are, want %d", got, want)
			}
			return nil
		})
	}
	reached(maxTurns)
	go func() { ended <- r.ensurePulled(ctx, "10.0.0.2", "other.example.com/a", "other.example.com/a", "v1") }()
	reached(maxTurns + 1)
	cancel() // who asked has gone, and the pulls go on
	for range maxTurns + 4 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("who has gone gets %v", err)
		}
	}
	late, stop := context.WithCancel(t.Context())
	stop()
	if _, err := acquireTurn(late, r.turns, "10.0.0.1"); !errors.Is(err, context.Canceled) {
		t.Errorf("a source whose pulls go on gets another turn: %v", err)
	}
	close(answer)
	eventually.Nil(t, "all turns are given back", func() error {
		if n := r.turns.Holders(); n > 0 {
			return fmt.Errorf("%d sources have some", n)
		}
		return nil
	})
	if got := waiting.Load(); got != maxTurns+1 {
		t.Errorf("there were %d pulls", got)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestMarksOfEarlierVersions opens a registry with a mark whose name has no colon.
func TestMarksOfEarlierVersions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := filepath.Join(dir, "pulled/docker.io/library/nginx")
	if err := os.MkdirAll(old, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(old, "1.27"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := open(t, Options{Dir: dir})
	if _, err := os.Stat(r.pulledMark("docker.io/library/nginx", "1.27")); err != nil {
		t.Error(err)
	}
}

// corrupt makes the manifest of an image unreadable.
func corrupt(t *testing.T, r *Registry, digestOf string) {
	t.Helper()
	_, encoded, _ := strings.Cut(digestOf, ":")
	path := filepath.Join(r.options.Dir, "registry/docker/registry/v2/blobs/sha256", encoded[:2], encoded, "data")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestAPullListsTheCacheOnlyForRoom pulls into a cache that cannot be listed, and into one whose images are being
// removed.
func TestAPullListsTheCacheOnlyForRoom(t *testing.T) {
	t.Parallel()
	n := newInternet()
	r := open(t, Options{Transport: n, CacheSize: 1 << 20})
	first := n.push(t, "docker.io/library/first:1")
	n.push(t, "docker.io/library/second:1")
	if status, _, body := get(t, r, "library/first", "1", "docker.io"); status != 200 {
		t.Fatal(body)
	}
	corrupt(t, r, hash(t, first))
	r.cache.evicting.Lock()
	defer r.cache.evicting.Unlock()
	if status, _, body := get(t, r, "library/second", "1", "docker.io"); status != 200 {
		t.Error(body)
	}
}

// TestManifestsAreReadOnce lists images, and asks for one, whose manifests cannot be read any more.
func TestManifestsAreReadOnce(t *testing.T) {
	t.Parallel()
	r := open(t, Options{})
	img := randomImage(t)
	if err := r.storeImage(t.Context(), secretRepository+":v1", img); err != nil {
		t.Fatal(err)
	}
	before, err := r.Images(t.Context(), secretRepository)
	if err != nil || len(before) != 1 {
		t.Fatal(before, err)
	}
	corrupt(t, r, hash(t, img))
	if after, err := r.Images(t.Context(), secretRepository); err != nil || !reflect.DeepEqual(after, before) {
		t.Errorf("%v, %v; want %v", after, err, before)
	}
	if d, err := r.Resolve(t.Context(), secretRepository+":v1"); err != nil || d != hash(t, img) {
		t.Errorf("%s, %v", d, err)
	}
	if _, err := r.Resolve(t.Context(), secretRepository+":v2"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

// TestBlobsOfCommitsStay drops blobs of which one becomes part of a repository behind the look at that repository.
func TestBlobsOfCommitsStay(t *testing.T) {
	t.Parallel()
	r := open(t, Options{})
	dir := func(d digest.Digest) string {
		return filepath.Join(r.options.Dir, "registry/docker/registry/v2/blobs/sha256", d.Encoded()[:2], d.Encoded())
	}
	link := func(stored string, d digest.Digest) {
		t.Helper()
		path := filepath.Join(r.repositoryDir(stored), "_layers/sha256", d.Encoded(), "link")
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(d), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	var blobs []digest.Digest
	for _, text := range []string{"linked", "of a commit", "of another commit", "nobody's"} {
		d := digest.FromString(text)
		if err := os.MkdirAll(dir(d), 0o700); err != nil {
			t.Fatal(err)
		}
		blobs = append(blobs, d)
	}
	link("a", blobs[0])
	endOne, endOther := r.commits.beginCommit("b"), r.commits.beginCommit("c/d")
	dropped := make(chan error)
	go func() { dropped <- r.dropBlobs(blobs) }()
	eventually.Nil(t, "the commits are waited for", func() error {
		if r.commits.TryRLock() {
			r.commits.RUnlock()
			return errors.New("nobody waits")
		}
		return nil
	})
	link("b", blobs[1])
	link("c/d", blobs[2])
	endOne()
	endOther()
	if err := <-dropped; err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, true, true, false} {
		if _, err := os.Stat(dir(blobs[i])); (err == nil) != want {
			t.Errorf("blob %d is there: %v", i, !want)
		}
	}
}
