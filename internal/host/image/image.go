// Package image is the registry of a daemon: it keeps container images, and serves them as Amazon ECR and as a
// mirror of the public registries.
//
// A repository is known by its full name, registry included: "111122223333.dkr.ecr.eu-west-1.amazonaws.com/app",
// "docker.io/library/nginx". Blobs, manifests and tags are in files below Options.Dir, in the layout of
// github.com/distribution/distribution, which also serves the protocol; that storage is the one record of which
// images there are. What this package adds is where images come from and who gets them:
//
//   - [Registry.Assemble] makes the images of EKS from the programs that were built (package upstream);
//   - [Registry.Provide] makes those of add-ons when they are asked for, or fetches them;
//   - [Registry.Load] takes docker and OCI archives;
//   - clients push, where ECR allows it ([Access], which internal/aws/ecr is);
//   - images of public registries are fetched when they are asked for, where there is a network.
//
// [Registry.Golden] unpacks images once for all machines, as EKS's AMIs have them in their cache.
package image

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/distribution/distribution/v3"
	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	"github.com/distribution/distribution/v3/registry/storage"
	"github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
	"github.com/moby/locker"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
	"k8s.io/utils/lru"

	"github.com/coracle-eks/coracle/internal/outbound"
	"github.com/coracle-eks/coracle/internal/turn"
	"github.com/coracle-eks/coracle/internal/upstream"
)

// Options configures a Registry.
type Options struct {
	// Dir holds everything of the registry: <data-dir>/images.
	Dir string
	// Owner names the directory below /run/coracle of the containerd that Golden runs for a while.
	Owner string
	// CA is the PEM certificate of the daemon's authority, which every assembled image trusts.
	CA       []byte
	Programs *upstream.NodePrograms
	Bundles  *upstream.Bundles
	// Base returns a directory with the files of the node image, which images have iptables and nft from.
	Base func(context.Context) (dir string, err error)
	// Components builds the components of add-on images; with nil, no add-on image is built.
	Components *upstream.Components
	// Region is the region of the assembled images; they are served in every region.
	Region string
	// CacheSize bounds what is kept of public registries, in bytes; 0: a quarter of the disk.
	CacheSize int64
	// Outbound admits the addresses of registries that users name.
	Outbound outbound.Policy
	// Transport reaches registries, at the addresses that Outbound admits when nil.
	Transport http.RoundTripper
	Log       *slog.Logger
}

// Registry keeps and serves images. Its methods may be called concurrently.
type Registry struct {
	options Options
	app     *handlers.App
	storage distribution.Namespace
	driver  *filesystem.Driver

	assembling sync.Mutex
	assembled  map[string]bool // by version of Kubernetes; while assembling is held
	unpacking  sync.Mutex
	pulls      singleflight.Group
	unreached  unreached
	turns      *turn.Places        // to fetch images, by source
	serving    *turn.Places        // of requests for manifests, by source
	decoding   *semaphore.Weighted // of manifests, by all
	metadata   memories            // of manifests and configurations
	space      space
	cache      cache
	commits    commits
	inUse      repositoryLocks
	dropping   sync.Mutex // held while blobs are removed
	tags       *locker.Locker
	// of a repository
	maxImages, maxTags int
	// descriptions has a description of each of the manifests read last, by digest
	descriptions *lru.Cache

	providing  sync.Mutex
	provisions map[string]*provision // by reference, while they run
	fetching   map[string]bool       // the images of public registries that are being fetched
	making     chan struct{}         // has whose turn it is to build
	background context.Context       // of provisions; ends with Close
	stop       context.CancelFunc
	working    sync.WaitGroup
}

// Open makes or opens the registry below Options.Dir. Close it.
func Open(o Options) (*Registry, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Transport == nil {
		o.Transport = outbound.Transport(outbound.Options{Policy: o.Outbound, MaxBody: maxLayer})
	}
	r := &Registry{
		options:      o,
		tags:         locker.New(),
		maxImages:    maxImages,
		maxTags:      maxTags,
		turns:        turn.Each(maxTurns),
		serving:      turn.Each(maxTurns),
		decoding:     semaphore.NewWeighted(maxDecoding),
		descriptions: lru.New(maxDescriptions),
		assembled:    make(map[string]bool),
		provisions:   make(map[string]*provision),
		fetching:     make(map[string]bool),
		making:       make(chan struct{}, 1),
	}
	r.cache.removed.L = &r.cache.mu
	r.cache.maxManifests = maxCachedManifests
	r.background, r.stop = context.WithCancel(context.Background())
	root := filepath.Join(o.Dir, "registry")
	for _, dir := range []string{root, r.scratchDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("open the registry of images: %w", err)
		}
	}
	if err := errors.Join(r.cleanScratch(), r.renameMarks()); err != nil {
		return nil, fmt.Errorf("open the registry of images: %w", err)
	}
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return nil, err
	}
	config := &configuration.Configuration{
		Storage: configuration.Storage{
			"filesystem": configuration.Parameters{"rootdirectory": root},
			"delete":     configuration.Parameters{"enabled": true},
			"redirect":   configuration.Parameters{"disable": true},
			"maintenance": configuration.Parameters{"uploadpurging": map[any]any{
				"enabled": true, "age": uploadLife.String(), "interval": "1h", "dryrun": false,
			}},
		},
		// An index may name images of platforms that were not fetched.
		Validation: configuration.Validation{Manifests: configuration.ValidationManifests{
			Indexes: configuration.ValidationIndexes{Platforms: "none"}}},
	}
	config.HTTP.RelativeURLs = true
	config.HTTP.Secret = hex.EncodeToString(secret) // of uploads that are under way
	r.driver = filesystem.New(filesystem.DriverParameters{RootDirectory: root, MaxThreads: 100})
	ctx := context.Background()
	var err error
	if r.storage, err = storage.NewRegistry(ctx, r.driver, storage.EnableDelete); err != nil {
		return nil, fmt.Errorf("open the registry of images: %w", err)
	}
	collecting, cancel := context.WithTimeout(ctx, garbageTime)
	defer cancel()
	if err := errors.Join(r.collectGarbage(collecting), r.dropGolden()); err != nil {
		// no reason not to serve the others
		o.Log.Warn("images that nobody needs take space: it is tried again at the next start", "error", err)
	}
	r.app = handlers.NewApp(ctx, config)
	return r, nil
}

// Close ends what goes on in the background.
func (r *Registry) Close() error {
	r.providing.Lock()
	r.stop()
	r.providing.Unlock()
	r.working.Wait()
	return r.app.Shutdown()
}

// scratchDir returns the directory in which layers and archives are prepared. It is beside the registry, because they
// may be large.
func (r *Registry) scratchDir() string { return filepath.Join(r.options.Dir, "scratch") }

// scratch makes a directory that its user removes.
func (r *Registry) scratch(pattern string) (string, error) {
	return os.MkdirTemp(r.scratchDir(), pattern)
}

// cleanScratch removes what a daemon that was killed has left. The directory has one daemon at a time.
func (r *Registry) cleanScratch() error {
	left, err := os.ReadDir(r.scratchDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, entry := range left {
		if err := os.RemoveAll(filepath.Join(r.scratchDir(), entry.Name())); err != nil {
			return err
		}
	}
	states, err := filepath.Glob(filepath.Join(r.runtimeDir(), unpackingPattern+"*"))
	if err != nil {
		return err
	}
	for _, state := range states {
		if err := os.RemoveAll(state); err != nil {
			return err
		}
	}
	return nil
}

// Image is one manifest of a repository.
type Image struct {
	Repository string // "111122223333.dkr.ecr.eu-west-1.amazonaws.com/app"
	Digest     string // "sha256:..."
	Tags       []string
	MediaType  string // of the manifest
	// ConfigMediaType is the type of what the image's configuration is; empty for an index.
	ConfigMediaType string
	// Size is that of the manifest's configuration and layers, in bytes; for an index that of its manifest.
	Size   int64
	Pushed time.Time
}
