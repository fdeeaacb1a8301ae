package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/distribution/distribution/v3/registry/storage/driver"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/coracle-eks/coracle/internal/recovery"
)

// within is a transport to a handler of this process: clients of the protocol use it to reach the storage
// without the network and without anybody's permission.
type within struct {
	handler http.Handler
	running *sync.WaitGroup // counts requests until they ended, which is after their clients gave up (optional)
}

func (t within) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	if request.Body == nil {
		request.Body = http.NoBody
	}
	request.RequestURI = request.URL.RequestURI()
	request.RemoteAddr = "127.0.0.1:0"
	reader, writer := io.Pipe()
	answer := &answer{header: make(http.Header), body: writer, began: make(chan struct{})}
	serve := func() {
		err := recovery.Try(func() error {
			t.handler.ServeHTTP(answer, request)
			return nil
		})
		request.Body.Close()
		answer.startResponse()
		writer.CloseWithError(err) // an error is a panic; without one the answer is whole
	}
	if t.running != nil {
		t.running.Go(serve)
	} else {
		go serve()
	}
	select {
	case <-answer.began:
	case <-request.Context().Done():
		reader.CloseWithError(request.Context().Err())
		return nil, request.Context().Err()
	}
	response := &http.Response{
		Status: http.StatusText(answer.status), StatusCode: answer.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: answer.sent, Body: reader, ContentLength: -1, Request: request,
	}
	if n, err := strconv.ParseInt(answer.sent.Get("Content-Length"), 10, 64); err == nil {
		response.ContentLength = n
	}
	return response, nil
}

// answer is a response that is read while it is written. It begins with the first byte of its body: one without a body
// begins when the handler has ended, as with a server of package http, so that a handler may finish its work after
// WriteHeader.
type answer struct {
	header, sent http.Header
	status       int
	body         *io.PipeWriter
	began        chan struct{}
	once         sync.Once
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status, a.sent = status, a.header.Clone()
	}
}

func (a *answer) startResponse() {
	a.WriteHeader(http.StatusOK)
	a.once.Do(func() { close(a.began) })
}

func (a *answer) Write(p []byte) (int, error) {
	a.startResponse()
	return a.body.Write(p)
}

// storageOptions returns the options of clients of the storage.
func (r *Registry) storageOptions(ctx context.Context) []remote.Option { return r.directly(ctx, nil) }

func (r *Registry) inside(running *sync.WaitGroup) http.RoundTripper {
	return within{http.HandlerFunc(r.serveStorage), running}
}

func (r *Registry) directly(ctx context.Context, running *sync.WaitGroup) []remote.Option {
	return []remote.Option{
		remote.WithContext(ctx), remote.WithTransport(r.inside(running)),
		remote.WithJobs(2),
		// What the storage refuses once, such as a layer with another digest, it refuses again; each try would leave
		// its bytes.
		remote.WithRetryPredicate(func(error) bool { return false }),
	}
}

// maxLayers is the maximum number of layers of an image that is fetched or loaded: overlayfs mounts 500 lower
// directories. The library reads the manifest anew for each layer.
const maxLayers = 500

// storeImage stores an image under a reference. Its configuration, which the library reads into memory, must not be
// larger than maxMetadata, and it must not have more than maxLayers, whoever made it.
func (r *Registry) storeImage(ctx context.Context, reference string, image v1.Image) error {
	return r.storeIn(ctx, reference, image, nil)
}

// storeIn stores an image, of which the blobs take room as they come; nil for one whose blobs are on this host.
func (r *Registry) storeIn(
	ctx context.Context, reference string, image v1.Image, reservation *storageReservation,
) error {
	manifest, err := image.Manifest()
	if err != nil {
		return err
	}
	if err := checkMetadataSize("the configuration of "+reference, manifest.Config.Size); err != nil {
		return err
	}
	if n := len(manifest.Layers); n > maxLayers {
		return fmt.Errorf("%s has %d layers, and nodes can mount %d", reference, n, maxLayers)
	}
	ref, err := r.insideReference(reference)
	if err != nil {
		return err
	}
	defer r.cache.beginStoring(strings.TrimPrefix(ref.Context().RepositoryStr(), "/"))()
	var running sync.WaitGroup
	options := r.directly(ctx, &running)
	if reservation != nil {
		options = append(options, remote.WithTransport(arrivals{r.inside(&running), reservation}))
	} else {
		release, err := r.space.reserve(r.options.Dir, append(manifest.Layers, manifest.Config))
		if err != nil {
			return fmt.Errorf("store %s: %w", reference, err)
		}
		defer release()
	}
	if err := remote.Write(ref, image, options...); err != nil {
		running.Wait() // for what would still be stored
		return errors.Join(err, r.dropUploads(context.WithoutCancel(ctx), ref.Context().RepositoryStr()))
	}
	return nil
}

// dropUploads removes what unfinished uploads to a repository have left. Whoever stores another image there at the same
// time fails, and tries again.
func (r *Registry) dropUploads(ctx context.Context, repository string) error {
	err := r.driver.Delete(ctx, "/docker/registry/v2/repositories/"+repository+"/_uploads")
	if errors.As(err, &driver.PathNotFoundError{}) {
		return nil
	}
	return err
}

// putIndex stores an index under a reference, and the one of its images that machines can run. The others are not
// copied; the index is unchanged, with the same digest.
func (r *Registry) putIndex(ctx context.Context, reference string, index v1.ImageIndex) error {
	image, err := imageForMachines(index)
	if err != nil {
		return err
	}
	return r.putIndexed(ctx, reference, index, image, nil)
}

// putIndexed stores an index and the image of it that is given; nil for none. See storeIn for reservation.
func (r *Registry) putIndexed(ctx context.Context, reference string, index v1.ImageIndex, image v1.Image,
	reservation *storageReservation) error {
	repository, _, err := splitReference(reference)
	if err != nil {
		return err
	}
	defer r.cache.beginStoring(r.storedName(repository))()
	if image != nil {
		digest, err := image.Digest()
		if err != nil {
			return err
		}
		if err := r.storeIn(ctx, joinReference(repository, digest.String()), image, reservation); err != nil {
			return err
		}
	}
	ref, err := r.insideReference(reference)
	if err != nil {
		return err
	}
	return remote.Put(ref, index, r.storageOptions(ctx)...)
}

// imageForMachines returns the image of an index that machines run; nil when it has none. An index may name any number
// of images, so no other manifest is fetched.
func imageForMachines(index v1.ImageIndex) (v1.Image, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var found *v1.Descriptor
	for i := range manifest.Manifests {
		m := &manifest.Manifests[i]
		if m.MediaType.IsImage() && fitness(m.Platform) > 0 &&
			(found == nil || fitness(m.Platform) > fitness(found.Platform)) {
			found = m
		}
	}
	if found == nil {
		return nil, nil
	}
	if err := checkMetadataSize("the manifest "+found.Digest.String(), found.Size); err != nil {
		return nil, err
	}
	return index.Image(found.Digest)
}

// fitness returns how well an image of a platform runs on machines: 0 means not at all. One for a newer processor of
// the architecture is worse than one for all of them, and one without a platform is the last resort.
func fitness(p *v1.Platform) int {
	switch {
	case p == nil:
		return 1
	case !p.Satisfies(platform):
		return 0
	case p.Variant == "" || p.Architecture == "arm64" && p.Variant == "v8":
		return 3
	}
	return 2
}

// loadImage finds an image in the storage.
func (r *Registry) loadImage(ctx context.Context, reference string) (v1.Image, error) {
	ref, err := r.insideReference(reference)
	if err != nil {
		return nil, err
	}
	return remote.Image(ref, append(r.storageOptions(ctx), remote.WithPlatform(platform))...)
}
