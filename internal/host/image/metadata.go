package image

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

const (
	// metadataTime bounds the reading of a manifest, so that a slow registry does not hold the memory of others.
	metadataTime = time.Minute
	// maxPullMetadata is the memory that manifests and configurations of all pulls may take.
	maxPullMetadata = 192 << 20
	// What a byte, an object and a member of a manifest take in memory once it is read.
	byteOfManifest, objectOfManifest, memberOfManifest = 2, 300, 100
)

// memories is the memory that pulls have.
type memories struct {
	mu    sync.Mutex
	taken pending
}

// memory is the memory that manifests and configurations of a pull take. It grows as they arrive.
type memory struct {
	of     *memories
	holder string
	held   cacheSize
}

func (m *memory) take(bytes int64) error {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	need := cacheSize{manifests: bytes}
	if !m.of.taken.leavesShare(m.holder, need, cacheSize{manifests: maxPullMetadata}) {
		return errors.New("too many images are being fetched: try again later")
	}
	m.of.taken.add(m.holder, need)
	m.held = m.held.add(need)
	return nil
}

func (m *memory) release() {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	m.of.taken.sub(m.holder, m.held)
	m.held = cacheSize{}
}

// boundedMetadata is a transport to registries for a pull that bounds the bodies of all answers but those to requests
// for blobs: the library reads manifests of 100 MiB into memory. It reads blobs as long as their descriptors say, and
// here they must not come too slowly.
type boundedMetadata struct {
	http.RoundTripper
	memory *memory
	stop   context.CancelCauseFunc // of the pull
}

func (t boundedMetadata) RoundTrip(request *http.Request) (*http.Response, error) {
	asked := request // by the library, which may have been redirected
	for asked.Response != nil && asked.Response.Request != nil {
		asked = asked.Response.Request
	}
	if isBlobPath(asked.URL.Path) {
		response, err := t.RoundTripper.RoundTrip(request)
		if err == nil {
			response.Body = &paced{ReadCloser: response.Body, stop: t.stop}
		}
		return response, err
	}
	ctx, cancel := context.WithTimeout(request.Context(), metadataTime)
	response, err := t.RoundTripper.RoundTrip(request.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	response.Request = request // not the one with the context that ends
	response.Body = &metadataBody{ReadCloser: response.Body, of: asked.URL.Path, left: maxMetadata, memory: t.memory,
		cancel: cancel}
	return response, nil
}

// isBlobPath reports whether a path is that of a blob: /v2/<repository>/blobs/<digest>. A repository may have any name.
func isBlobPath(path string) bool {
	parent, digest := filepath.Split(path)
	return strings.HasSuffix(parent, "/blobs/") && strings.Contains(digest, ":")
}

// checkMetadataSize refuses metadata of a size that is not read into memory.
func checkMetadataSize(of string, size int64) error {
	if size < 0 || size > maxMetadata {
		return fmt.Errorf(
			"%s has %d bytes, and indexes, manifests and configurations may have %s", of, size, humanize.IBytes(maxMetadata),
		)
	}
	return nil
}

// maxObjects is the maximum number of objects in a manifest, an index or a configuration, and maxMembers that of the
// members and elements of lists they have, or about: colons and commas are counted. In memory one takes 100 bytes and
// more, however short it is as text. ECR takes 4,200 layers.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/service-quotas.html
const (
	maxObjects = 10_000
	maxMembers = 150_000
)

// countObjects returns how many objects and members a JSON document has at most.
func countObjects(document []byte) (objects, members int) {
	return bytes.Count(document, []byte("{")), bytes.Count(document, []byte(":")) + bytes.Count(document, []byte(","))
}

// checkObjects refuses a document that takes more memory than a manifest should.
func checkObjects(document []byte) error {
	objects, members := countObjects(document)
	if objects > maxObjects {
		return fmt.Errorf("it has %d objects, and indexes, manifests and configurations may have %d", objects, maxObjects)
	}
	if members > maxMembers {
		return fmt.Errorf("it has %d members, and indexes, manifests and configurations may have %d", members, maxMembers)
	}
	return nil
}

// checkManifest refuses a manifest or an index that takes more memory than it should, or that cannot be read again once
// it is stored. The library looks at some members as they are written last, and reads them as they are written first;
// what it then cannot read makes it panic.
func checkManifest(payload []byte) error {
	if err := checkObjects(payload); err != nil {
		return err
	}
	var members struct { // of manifests and of indexes, since the library may take one for the other
		SchemaVersion int                  `json:"schemaVersion"`
		MediaType     string               `json:"mediaType"`
		ArtifactType  string               `json:"artifactType"`
		Config        ocispec.Descriptor   `json:"config"`
		Subject       *ocispec.Descriptor  `json:"subject"`
		Layers        []ocispec.Descriptor `json:"layers"`
		Manifests     []ocispec.Descriptor `json:"manifests"`
		Annotations   map[string]string    `json:"annotations"`
	}
	if err := json.Unmarshal(payload, &members); err != nil {
		return fmt.Errorf("it cannot be read: %w", err)
	}
	if _, err := describePayload(members.MediaType, payload); err != nil {
		return fmt.Errorf("it cannot be read: %w", err)
	}
	return nil
}

type metadataBody struct {
	io.ReadCloser
	of     string
	left   int64
	spent  int // objects
	named  int // members
	memory *memory
	cancel context.CancelFunc
}

func (b *metadataBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf(
			"%s is longer than %s, which indexes, manifests and configurations may have", b.of, humanize.IBytes(maxMetadata),
		)
	}
	objects, members := countObjects(p[:max(n, 0)])
	b.spent, b.named = b.spent+objects, b.named+members
	if b.spent > maxObjects {
		return 0, fmt.Errorf("%s has more than %d objects, which indexes, manifests and configurations may have", b.of,
			maxObjects)
	}
	if b.named > maxMembers {
		return 0, fmt.Errorf("%s has more than %d members, which indexes, manifests and configurations may have", b.of,
			maxMembers)
	}
	takes := byteOfManifest*max(n, 0) + objectOfManifest*objects + memberOfManifest*members
	if err := b.memory.take(int64(takes)); err != nil {
		return 0, err
	}
	return n, err
}

func (b *metadataBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
