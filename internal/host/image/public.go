package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/coracle-eks/coracle/internal/outbound"
	"github.com/coracle-eks/coracle/internal/recovery"
)

// platform is the platform of machines.
var platform = v1.Platform{OS: "linux", Architecture: runtime.GOARCH}

const (
	// unreachedFor is the time for which a registry that could not be reached is not asked again: a cluster asks for
	// many images at once.
	unreachedFor = 10 * time.Second
	// freshFor is the time for which a tag of a public registry is taken to be unchanged.
	freshFor = 5 * time.Minute
	// pullTime bounds the fetching of an image.
	pullTime = 30 * time.Minute
	// maxLayer is ECR's own bound of a layer.
	// https://docs.aws.amazon.com/AmazonECR/latest/userguide/service-quotas.html
	maxLayer = 52_000 << 20
)

// findStored finds a reference in the storage. It is stale when it is a tag of which its registry should be asked
// again.
func (r *Registry) findStored(ctx context.Context, repository, reference string) (there, stale bool, err error) {
	if _, err := r.Resolve(ctx, joinReference(repository, reference)); errors.Is(err, ErrNotFound) {
		return false, false, nil
	} else if err != nil {
		return false, false, err
	}
	info, err := os.Stat(r.pulledMark(repository, reference))
	if errors.Is(err, fs.ErrNotExist) || strings.Contains(reference, ":") {
		return true, false, nil // it was loaded, or is what it is
	}
	if err != nil {
		return false, false, err
	}
	return true, time.Since(info.ModTime()) > freshFor, nil
}

// unreached remembers which registries could not be reached, until when.
type unreached struct {
	mu    sync.Mutex
	until map[string]time.Time
	why   map[string]error
}

func (u *unreached) lastError(host string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if time.Now().Before(u.until[host]) {
		return u.why[host]
	}
	return nil
}

// maxUnreached bounds how many registries are remembered: everybody in a VPC may make up names.
const maxUnreached = 1000

func (u *unreached) recordError(host string, why error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.until == nil || len(u.until) >= maxUnreached {
		u.until, u.why = make(map[string]time.Time), make(map[string]error)
	}
	for other, until := range u.until { // users choose the names
		if !time.Now().Before(until) {
			delete(u.until, other)
			delete(u.why, other)
		}
	}
	u.until[host], u.why[host] = time.Now().Add(unreachedFor), why
}

// ensurePulled fetches an image of a repository of a public registry into one of the storage, which has its name or is
// a cache of it, unless it is stored there. Tags are compared with the registry's from time to time while it can be
// reached; those that were loaded from an archive do not change. A source has a few turns at a time; see [acquireTurn].
func (r *Registry) ensurePulled(ctx context.Context, source, from, to, reference string) error {
	there, stale, err := r.findStored(ctx, to, reference)
	if err != nil {
		return err
	}
	if there {
		if err := r.markUsed(to, reference); err != nil || !stale {
			return err
		}
	}
	end, err := acquireTurn(ctx, r.turns, source)
	if err != nil {
		return err
	}
	// Those who ask for the same wait for one.
	result := r.pulls.DoChan(joinReference(to, reference), func() (any, error) {
		return nil, recovery.Try(func() error { return r.pullImage(context.WithoutCancel(ctx), source, from, to, reference) })
	})
	select {
	case <-ctx.Done():
		go func() { // it goes on, and has the turn as long
			<-result
			end()
		}()
		return context.Cause(ctx)
	case outcome := <-result:
		end()
		if outcome.Err != nil && there {
			return nil // what is here is better than nothing
		}
		return outcome.Err
	}
}

// startFetching notes that an image is being fetched, until end.
func (r *Registry) startFetching(source string) (end func()) {
	r.options.Log.Info("fetching an image", "image", source)
	r.providing.Lock()
	defer r.providing.Unlock()
	r.fetching[source] = true
	return func() {
		r.providing.Lock()
		defer r.providing.Unlock()
		delete(r.fetching, source)
	}
}

// InProgress returns the references of the images that are being built or fetched, sorted.
func (r *Registry) InProgress() []string {
	r.providing.Lock()
	defer r.providing.Unlock()
	return slices.Sorted(func(yield func(string) bool) {
		for reference := range r.provisions {
			if !yield(reference) {
				return
			}
		}
		for source := range r.fetching {
			if !yield(source) {
				return
			}
		}
	})
}

// pullImage fetches an image for a source of requests: the one of this platform, and the index that names it.
func (r *Registry) pullImage(ctx context.Context, asking, from, to, reference string) error {
	ctx, cancel := context.WithTimeout(ctx, pullTime)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	source := joinReference(from, reference)
	ref, err := name.ParseReference(source)
	if err != nil {
		return &Refusal{http.StatusBadRequest, "NAME_INVALID", err.Error()}
	}
	host, _, _ := strings.Cut(from, "/")
	if err := r.unreached.lastError(host); err != nil {
		return r.refusalFor(source, host, err)
	}
	defer r.startFetching(source)()
	holder := networkOf(asking)
	memory := &memory{of: &r.metadata, holder: holder}
	defer memory.release()
	options := []remote.Option{remote.WithContext(ctx),
		remote.WithTransport(boundedMetadata{r.options.Transport, memory, stop}),
		remote.WithAuth(authn.Anonymous), remote.WithPlatform(platform),
		remote.WithRetryPredicate(func(error) bool { return false })}
	started := time.Now()
	descriptor, err := remote.Get(ref, options...)
	if err != nil {
		return r.refusalFor(source, host, err)
	}
	pull := &pull{holder: holder, repository: to, reference: reference, memory: memory, stop: stop}
	if err := r.storePulled(ctx, pull, descriptor); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause // and not what has come of it
		}
		return r.refusalFor(source, host, err)
	}
	r.options.Log.Info("fetched an image", "image", source, "took", time.Since(started).Round(time.Millisecond))
	return nil
}

// pull is an image that is being fetched.
type pull struct {
	holder                string // of memory and room
	repository, reference string // where it is stored
	memory                *memory
	stop                  context.CancelCauseFunc
}

// networkOf returns whose network a source of requests is in: the address of the daemon there.
func networkOf(source string) string {
	if _, local, ok := strings.Cut(source, " "); ok {
		return local
	}
	return source
}

// storePulled stores what a registry has under a reference.
func (r *Registry) storePulled(ctx context.Context, p *pull, descriptor *remote.Descriptor) (err error) {
	repository, reference := p.repository, p.reference
	var index v1.ImageIndex
	var image v1.Image
	if descriptor.MediaType.IsIndex() {
		if index, err = descriptor.ImageIndex(); err != nil {
			return err
		}
		image, err = imageForMachines(index)
	} else {
		image, err = descriptor.Image()
	}
	if err != nil {
		return err
	}
	blobs := []v1.Descriptor{descriptor.Descriptor}
	manifests := descriptor.Size
	var digest v1.Hash
	if image != nil {
		manifest, err := image.Manifest()
		if err != nil {
			return err
		}
		if err := checkMetadataSize("the configuration", manifest.Config.Size); err != nil {
			return err
		}
		if err := p.memory.take(byteOfManifest * manifest.Config.Size); err != nil {
			return err
		}
		if digest, err = image.Digest(); err != nil {
			return err
		}
		own, err := image.Size()
		if err != nil {
			return err
		}
		blobs = append(append(blobs, manifest.Layers...), manifest.Config, v1.Descriptor{Digest: digest, Size: own})
		manifests += own
	}
	marks := []string{reference}
	host, _, _ := strings.Cut(repository, "/")
	cached := !isECRHost(host)
	if cached {
		marks = append(marks, descriptor.Digest.String())
		if image != nil {
			marks = append(marks, digest.String())
		}
	} else if strings.Contains(reference, ":") {
		marks = nil
	}
	reservation, err := r.reserveStorage(ctx, p.stop, p.holder, repository, blobs, manifests, len(marks), cached)
	if err != nil {
		return err
	}
	defer reservation.close()
	if cached {
		defer func() {
			if err != nil {
				err = errors.Join(err, r.dropFailed(context.WithoutCancel(ctx), repository, marks))
			}
		}()
	}
	// An image without a mark would be one that was loaded.
	for _, identifier := range marks {
		if err := r.markPulled(repository, identifier); err != nil {
			return err
		}
	}
	if index != nil {
		err = r.putIndexed(ctx, joinReference(repository, reference), index, image, reservation)
	} else {
		err = r.storeIn(ctx, joinReference(repository, reference), image, reservation)
	}
	if err != nil || strings.Contains(reference, ":") {
		return err
	}
	return r.markCompared(repository, reference)
}

// refusalFor returns the reason why there is no such image, in words that reach the user of a pod that wants it:
// containerd shows the message of a 403, and of no other status.
func (r *Registry) refusalFor(full, host string, err error) error {
	var answered *transport.Error
	if errors.As(err, &answered) {
		switch answered.StatusCode {
		case http.StatusNotFound:
			return Denied(fmt.Sprintf("%s does not exist: %s says so", full, host))
		case http.StatusUnauthorized, http.StatusForbidden:
			return Denied(
				fmt.Sprintf(
					"%s refuses to give %s to anybody: either it does not exist, or it wants a password; an image "+
						"that you have elsewhere goes in with \"docker save IMAGE -o FILE; coracle images load FILE\"",
					host, full))
		}
		return Denied(fmt.Sprintf("%s could not give %s: %v", host, full, answered))
	}
	var network net.Error
	var refused *outbound.RefusedError
	if errors.As(err, &network) || errors.As(err, &refused) {
		r.unreached.recordError(host, err)
		return Denied(
			fmt.Sprintf(
				"%s is not in Coracle's registry, and %s cannot be reached from here (%s): \"docker save %[1]s -o "+
					"FILE\" where it is, \"coracle images load FILE\" here", full, host, outbound.Reason(err)))
	}
	return Denied(fmt.Sprintf("fetch %s: %s", full, outbound.Reason(err)))
}
