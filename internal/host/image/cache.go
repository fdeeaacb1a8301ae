package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/diskspace"
)

// What is fetched from public registries is a cache. Everybody in a VPC may ask for any image, so the cache has a
// bound, and the images that were not asked for the longest make room for others. Images that were loaded or
// assembled, and those of ECR's repositories, are not of the cache.
//
// A mark is an empty file for each tag and digest that was fetched. Its modification time says when a tag was last
// compared with that of its registry, its access time when the image was last asked for.

// cacheShare is the part of the data directory's disk that the cache may have, unless Options.CacheSize is set.
const cacheShare = 4

// evictedShare is the part of the cache's bound that is made free when there is no room, beside what is needed: images
// are not listed again for each pull.
const evictedShare = 64

const (
	// maxCachedManifests bounds the manifests of the cache, in bytes: all of them are read when the cache is listed,
	// while fetches wait.
	maxCachedManifests = 512 << 20
	// What each mark, and each blob of an image, counts as of them, so that these are few, too.
	manifestOfMark, manifestOfBlob = 16 << 10, 1 << 10
)

// manifestCost returns what an image counts as whose manifest has a size.
func manifestCost(size int64, marks, blobs int) int64 {
	return size + manifestOfMark*int64(marks) + manifestOfBlob*int64(blobs)
}

// cacheSize is what images take of the cache, in bytes: their blobs, and what their manifests count as.
type cacheSize struct{ blobs, manifests int64 }

func (s cacheSize) add(o cacheSize) cacheSize {
	return cacheSize{s.blobs + o.blobs, s.manifests + o.manifests}
}

func (s cacheSize) sub(o cacheSize) cacheSize {
	return cacheSize{s.blobs - o.blobs, s.manifests - o.manifests}
}

func (s cacheSize) fits(limit cacheSize) bool {
	return s.blobs <= limit.blobs && s.manifests <= limit.manifests
}

// cache counts what is being stored.
type cache struct {
	maxManifests int64
	evicting     sync.Mutex // held while images are removed for others

	mu      sync.Mutex
	pending cacheSize      // of what is being fetched
	storing map[string]int // by repository as it is stored: how many images are being stored there
	// since has the repositories in which an image was being stored at any time since the listing under way began; nil
	// when nothing is listed
	since map[string]bool
	// removing has the repositories in which something is being removed; removed is signaled when that ends
	removing map[string]bool
	removed  sync.Cond
	// size is what the images have at most: what they had when they were listed last, and all that was fetched since. So
	// that most pulls need not list them.
	size   cacheSize
	listed bool      // size is known
	added  cacheSize // to size since the listing under way began
}

// beginStoring announces that an image is going to be stored in a repository, where nothing is removed until it ended.
// It waits for what is being removed there.
func (c *cache) beginStoring(stored string) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.addStoring(stored)
}

func (c *cache) addStoring(stored string) (end func()) {
	for c.removing[stored] {
		c.removed.Wait()
	}
	if c.storing == nil {
		c.storing = make(map[string]int)
	}
	c.storing[stored]++
	if c.since != nil {
		c.since[stored] = true
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.storing[stored]--; c.storing[stored] == 0 {
			delete(c.storing, stored)
		}
	}
}

// beginRemoving keeps images from being stored in a repository until the end; false when some are being stored there
// beside the given number, or the listing under way may not know them.
func (c *cache) beginRemoving(stored string, own int) (end func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.storing[stored] > own || own == 0 && c.since[stored] {
		return nil, false
	}
	if c.removing == nil {
		c.removing = make(map[string]bool)
	}
	c.removing[stored] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.removing, stored)
		c.removed.Broadcast()
	}, true
}

// beginListing begins a listing of all images. It ends with endListing.
func (c *cache) beginListing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since, c.added = make(map[string]bool), cacheSize{}
	for stored := range c.storing {
		c.since[stored] = true
	}
}

func (c *cache) endListing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = nil
}

// mayBeStored reports whether an image may have been stored in a repository since the listing under way began.
func (c *cache) mayBeStored(stored string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since[stored]
}

// marksDir has the marks. A mark's name begins with a colon, so that it is not that of a repository below.
func (r *Registry) marksDir() string { return filepath.Join(r.options.Dir, "pulled") }

func (r *Registry) pulledMark(repository, identifier string) string {
	return filepath.Join(r.marksDir(), r.storedName(repository), ":"+identifier)
}

// mark marks a tag or digest as fetched; one that is marked stays as it is.
func (r *Registry) markPulled(repository, identifier string) error {
	mark := r.pulledMark(repository, identifier)
	if err := os.MkdirAll(filepath.Dir(mark), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(mark, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// markCompared notes that a tag is that of its registry.
func (r *Registry) markCompared(repository, identifier string) error {
	now := time.Now()
	return os.Chtimes(r.pulledMark(repository, identifier), now, now)
}

// markUsed notes that an image was asked for. It is nothing for one that was not fetched.
func (r *Registry) markUsed(repository, identifier string) error {
	err := os.Chtimes(r.pulledMark(repository, identifier), time.Now(), time.Time{})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// renameMarks gives the marks of earlier versions, which had no colon, their names.
func (r *Registry) renameMarks() error {
	err := filepath.WalkDir(r.marksDir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ":") {
			return err
		}
		return os.Rename(path, filepath.Join(filepath.Dir(path), ":"+d.Name()))
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// cachedImage is an image or an index of the cache.
type cachedImage struct {
	repository, digest string
	tags               []string
	marks              []string // its tags and its digest, those that have marks
	used               time.Time
	isIndex            bool
	manifests          int64 // what it counts as of maxCachedManifests
}

// makeRoom reserves room in the cache for blobs that are going to be stored in a repository, of which manifests are so
// many bytes, with so many marks. Images that were not asked for the longest are removed for them.
func (r *Registry) makeRoom(ctx context.Context, repository string, blobs []v1.Descriptor, manifests int64, marks int) (
	release func(), err error) {
	need := cacheSize{manifests: manifestCost(manifests, marks, len(blobs))}
	for _, b := range blobs {
		if b.Size < 0 || b.Size > maxLayer {
			return nil, fmt.Errorf("the size of %s is %d bytes, and may be 0 to %d", b.Digest, b.Size, int64(maxLayer))
		}
		need.blobs += b.Size
	}
	free, size, err := diskspace.Measure(r.options.Dir)
	if err != nil {
		return nil, err
	}
	limit := cacheSize{r.options.CacheSize, r.cache.maxManifests}
	if limit.blobs == 0 {
		limit.blobs = size / cacheShare
	}
	if !need.fits(limit) {
		return nil, fmt.Errorf(
			"it has %s, %s of them manifests, and all images of public registries may have %s, and %s: load it with "+
				"\"coracle images load\"",
			humanize.IBytes(uint64(need.blobs)),
			humanize.IBytes(uint64(manifests)),
			humanize.IBytes(uint64(limit.blobs)),
			humanize.IBytes(uint64(limit.manifests)),
		)
	}
	c := &r.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.hasRoom(need, limit, free) {
		err := func() error {
			c.mu.Unlock()
			defer c.mu.Lock()
			return r.evict(ctx, need, limit)
		}()
		if err != nil {
			return nil, err
		}
	}
	if !c.size.add(c.pending).add(need).fits(limit) {
		return nil, fmt.Errorf(
			"it has %s, and the images of public registries that are being fetched leave no room for it: try again later",
			humanize.IBytes(uint64(need.blobs)),
		)
	}
	c.pending = c.pending.add(need)
	end := c.addStoring(r.storedName(repository))
	return func() {
		c.mu.Lock()
		c.pending, c.size, c.added = c.pending.sub(need), c.size.add(need), c.added.add(need)
		c.mu.Unlock()
		end()
	}, nil
}

// hasRoom reports whether there certainly is room for an image of a size, on a disk with so much free. The caller holds
// mu.
func (c *cache) hasRoom(need, limit cacheSize, free int64) bool {
	return c.listed && c.size.add(c.pending).add(need).fits(limit) && need.blobs+diskspace.Reserve <= free
}

// cachedBlob is a blob of the cache, and how many of its images have it.
type cachedBlob struct{ size, images int64 }

// evict removes the images that were not asked for the longest until the cache and the disk have room for an image.
// Images of other repositories can be stored meanwhile. An image stays while others are being stored in its repository.
func (r *Registry) evict(ctx context.Context, need, limit cacheSize) error {
	c := &r.cache
	c.evicting.Lock()
	defer c.evicting.Unlock()
	free, err := diskspace.Free(r.options.Dir)
	if err != nil {
		return err
	}
	c.mu.Lock()
	enough := c.hasRoom(need, limit, free)
	c.mu.Unlock()
	if enough { // since somebody else has evicted
		return nil
	}
	c.beginListing()
	defer c.endListing()
	images, blobs, err := r.listCached(ctx)
	if err != nil {
		return err
	}
	var total cacheSize
	for _, b := range blobs {
		total.blobs += b.size
	}
	for _, image := range images {
		total.manifests += image.manifests
	}
	c.mu.Lock()
	short := total.add(c.added).add(c.pending).add(need).sub(limit)
	c.mu.Unlock()
	short.blobs = max(short.blobs, need.blobs+diskspace.Reserve-free)
	if short.blobs > 0 {
		short.blobs += limit.blobs / evictedShare
	}
	if short.manifests > 0 {
		short.manifests += limit.manifests / evictedShare
	}
	gone := make(map[string][]digest.Digest) // manifests, by repository
	for _, image := range images {
		if short.fits(cacheSize{}) {
			break
		}
		if gone[image.repository] == nil {
			end, ok := c.beginRemoving(r.storedName(image.repository), 0)
			if !ok {
				continue
			}
			defer end()
		}
		removed, err := r.removeCached(ctx, image, blobs)
		if err != nil {
			return err
		}
		short, total = short.sub(removed), total.sub(removed)
		gone[image.repository] = append(gone[image.repository], digest.Digest(image.digest))
		r.options.Log.Info(
			"removed an image of a public registry to make room",
			"image",
			joinReference(image.repository, image.digest),
			"used",
			image.used,
		)
	}
	for repository, manifests := range gone {
		if err := r.dropUnnamed(ctx, repository, manifests); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size, c.listed = total.add(c.added), true
	return nil
}

// listCached lists the images of the cache, those first that were not asked for the longest, and the blobs of all of
// them.
func (r *Registry) listCached(ctx context.Context) (all []cachedImage, blobs map[digest.Digest]cachedBlob, err error) {
	marks := make(map[string]map[string]time.Time) // when each was used, by repository and identifier
	err = filepath.WalkDir(r.marksDir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		var stat unix.Stat_t
		if err := unix.Lstat(path, &stat); err != nil {
			return err
		}
		dir, err := filepath.Rel(r.marksDir(), filepath.Dir(path))
		if err != nil {
			return err
		}
		repository := fullName(dir)
		if marks[repository] == nil {
			marks[repository] = make(map[string]time.Time)
		}
		marks[repository][strings.TrimPrefix(d.Name(), ":")] = time.Unix(stat.Atim.Unix())
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("list the images of public registries: %w", err)
	}
	blobs = make(map[digest.Digest]cachedBlob)
	for repository, used := range marks {
		if host, _, _ := strings.Cut(repository, "/"); isECRHost(host) {
			continue // an account's own
		}
		images, err := r.cachedOf(ctx, repository, used)
		if err != nil {
			return nil, nil, err
		}
		for i, image := range images {
			size, own, err := r.cachedBlobs(ctx, image)
			if err != nil {
				return nil, nil, err
			}
			images[i].manifests = manifestCost(size, len(image.marks), len(own))
			for d, size := range own {
				blobs[d] = cachedBlob{size, blobs[d].images + 1}
			}
		}
		all = append(all, images...)
	}
	slices.SortFunc(all, func(a, b cachedImage) int { return a.used.Compare(b.used) })
	return all, blobs, nil
}

func isECRHost(host string) bool {
	_, _, ok := ECR(host)
	return ok
}

// cachedOf lists those of a repository. An image that is there under a name without a mark was loaded, and stays.
func (r *Registry) cachedOf(ctx context.Context, repository string, used map[string]time.Time) ([]cachedImage, error) {
	images, err := r.Images(ctx, repository)
	if err != nil {
		return nil, err
	}
	loaded, found := make(map[string]bool), make(map[string]bool)
	var all []cachedImage
	for _, image := range images {
		one := cachedImage{
			repository: repository,
			digest:     image.Digest,
			tags:       image.Tags,
			isIndex:    image.ConfigMediaType == "",
		}
		for _, identifier := range append(image.Tags, image.Digest) {
			at, ok := used[identifier]
			switch {
			case ok:
				found[identifier] = true
				one.marks = append(one.marks, identifier)
				if at.After(one.used) {
					one.used = at
				}
			case identifier != image.Digest:
				loaded[image.Digest] = true
			}
		}
		if len(one.marks) == 0 {
			loaded[image.Digest] = true
		}
		all = append(all, one)
		if !one.isIndex || !loaded[image.Digest] {
			continue // an index that is not read takes no time, however many images it names
		}
		_, parts, err := r.manifestParts(ctx, repository, image.Digest)
		if errors.Is(err, ErrNotFound) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		for _, part := range parts {
			loaded[part.Digest.String()] = true
		}
	}
	for identifier := range used { // of what could not be stored, or was deleted
		if found[identifier] || r.cache.mayBeStored(r.storedName(repository)) {
			continue
		}
		err := os.Remove(r.pulledMark(repository, identifier))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return slices.DeleteFunc(all, func(image cachedImage) bool { return loaded[image.digest] }), nil
}

// cachedBlobs returns the size of an image's manifest, and the blobs that the image consists of, by size: of an index,
// its manifest alone.
func (r *Registry) cachedBlobs(
	ctx context.Context,
	image cachedImage,
) (manifest int64, blobs map[digest.Digest]int64, err error) {
	var parts []v1.Descriptor
	if image.isIndex {
		manifest, err = r.ManifestSize(ctx, joinReference(image.repository, image.digest))
	} else {
		manifest, parts, err = r.manifestParts(ctx, image.repository, image.digest)
	}
	if err != nil && !errors.Is(err, ErrNotFound) { // otherwise it was deleted meanwhile
		return 0, nil, err
	}
	blobs = map[digest.Digest]int64{digest.Digest(image.digest): manifest}
	for _, part := range parts {
		blobs[digest.Digest(part.Digest.String())] = part.Size
	}
	return manifest, blobs, nil
}

// manifestParts are what the manifest of an image or an index names. size is that of the manifest.
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

// removeCached removes the names of an image, and counts it out of the blobs of all. Its layers go with dropUnnamed.
func (r *Registry) removeCached(
	ctx context.Context,
	image cachedImage,
	blobs map[digest.Digest]cachedBlob,
) (removed cacheSize, err error) {
	_, own, err := r.cachedBlobs(ctx, image)
	if err != nil {
		return cacheSize{}, err
	}
	if err := r.deleteManifest(ctx, image.repository, image.digest, image.tags); err != nil {
		return cacheSize{}, err
	}
	for _, identifier := range image.marks {
		if err := os.Remove(r.pulledMark(image.repository, identifier)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return cacheSize{}, err
		}
	}
	removed.manifests = image.manifests
	for d := range own {
		of := blobs[d]
		if of.images--; of.images == 0 {
			removed.blobs += of.size
		}
		blobs[d] = of
	}
	return removed, nil
}

// dropUnnamed removes the layers of a repository that none of its manifests names, and from the disk those of them,
// and of the given manifests, that no repository has. Nothing may be being stored in the repository.
func (r *Registry) dropUnnamed(ctx context.Context, repository string, manifests []digest.Digest) error {
	images, err := r.Images(ctx, repository)
	if err != nil {
		return err
	}
	named := make(map[string]bool)
	for _, image := range images {
		_, parts, err := r.manifestParts(ctx, repository, image.Digest)
		if err != nil {
			return err
		}
		for _, part := range parts {
			named[part.Digest.String()] = true
		}
	}
	unnamed := manifests
	layers := filepath.Join(r.repositoryDir(r.storedName(repository)), "_layers")
	links, err := filepath.Glob(filepath.Join(layers, "*", "*"))
	if err != nil {
		return err
	}
	for _, link := range links {
		d := digest.NewDigestFromEncoded(digest.Algorithm(filepath.Base(filepath.Dir(link))), filepath.Base(link))
		if named[d.String()] {
			continue
		}
		if err := os.RemoveAll(link); err != nil {
			return err
		}
		unnamed = append(unnamed, d)
	}
	if len(images) == 0 {
		if err := r.DeleteRepository(ctx, repository); err != nil {
			return err
		}
		removeEmpty(r.repositoryDir(r.storedName(repository)), r.repositoryDir(""))
		removeEmpty(filepath.Join(r.marksDir(), r.storedName(repository)), r.marksDir())
	}
	return r.dropBlobs(unnamed)
}

// removeEmpty removes a directory and those above it, up to a root, as long as they are empty.
func removeEmpty(dir, root string) {
	for ; dir != root && os.Remove(dir) == nil; dir = filepath.Dir(dir) {
	}
}

// repositoryDir has a repository, by its name in the storage.
func (r *Registry) repositoryDir(stored string) string {
	return filepath.Join(r.options.Dir, "registry/docker/registry/v2/repositories", stored)
}

// repositoryDirs are those of all repositories. The library lists those that have layers, which an index alone has not.
func (r *Registry) repositoryDirs() (all []string, err error) {
	err = filepath.WalkDir(r.repositoryDir(""), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if !strings.HasPrefix(d.Name(), "_") {
			return nil
		}
		if dir := filepath.Dir(path); len(all) == 0 || all[len(all)-1] != dir {
			all = append(all, dir)
		}
		return fs.SkipDir
	})
	return all, err
}

// dropBlobs removes the blobs that no repository has. It looks through all repositories once, while others commit, and
// then waits for those that are just committing: what they have made part of their repositories stays, too.
func (r *Registry) dropBlobs(blobs []digest.Digest) error {
	unlinked := make(map[string]bool, len(blobs)) // by algorithm and digest, as paths
	for _, d := range blobs {
		if err := d.Validate(); err != nil {
			return err
		}
		unlinked[filepath.Join(d.Algorithm().String(), d.Encoded())] = true
	}
	if len(unlinked) == 0 {
		return nil
	}
	r.dropping.Lock()
	defer r.dropping.Unlock()
	r.commits.watch()
	repositories, err := r.repositoryDirs()
	if err == nil {
		err = deleteLinked(unlinked, repositories)
	}
	if err != nil {
		r.commits.unwatch()
		return err
	}
	r.commits.Lock()
	defer r.commits.Unlock()
	committed := r.commits.unwatch()
	if !committed[""] { // otherwise somewhere
		repositories = nil
		for stored := range committed {
			repositories = append(repositories, r.repositoryDir(stored))
		}
	} else if repositories, err = r.repositoryDirs(); err != nil {
		return err
	}
	if err := deleteLinked(unlinked, repositories); err != nil {
		return err
	}
	for path := range unlinked {
		algorithm, encoded := filepath.Split(path)
		dir := filepath.Join(r.options.Dir, "registry/docker/registry/v2/blobs", algorithm, encoded[:2], encoded)
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// deleteLinked deletes from a set of blobs those that one of the repositories has. It reads the directories of a
// repository once, however many blobs there are.
func deleteLinked(blobs map[string]bool, repositories []string) error {
	algorithms := make(map[string]bool)
	for path := range blobs {
		algorithms[filepath.Dir(path)] = true
	}
	for _, repository := range repositories {
		for _, links := range []string{"_layers", "_manifests/revisions"} {
			for algorithm := range algorithms {
				names, err := readNames(filepath.Join(repository, links, algorithm))
				if err != nil {
					return err
				}
				for _, name := range names {
					path := filepath.Join(algorithm, name)
					if !blobs[path] {
						continue
					}
					// Of a manifest that was deleted the directory is left.
					_, err := os.Lstat(filepath.Join(repository, links, path, "link"))
					if err == nil {
						delete(blobs, path)
					} else if !errors.Is(err, fs.ErrNotExist) {
						return err
					}
				}
			}
		}
	}
	return nil
}

// readNames are the names in a directory; none when it is not there.
func readNames(dir string) ([]string, error) {
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

// dropFailed removes what an image has left that could not be fetched, and those of its marks that are of nothing.
func (r *Registry) dropFailed(ctx context.Context, repository string, marks []string) error {
	end, ok := r.cache.beginRemoving(r.storedName(repository), 1)
	if !ok {
		return r.leaveGarbage() // of another one
	}
	defer end()
	for _, identifier := range marks {
		if there, err := r.hasReference(ctx, joinReference(repository, identifier)); err != nil {
			return err
		} else if there {
			continue
		}
		if err := os.Remove(r.pulledMark(repository, identifier)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return r.dropUnnamed(ctx, repository, nil)
}
