package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// platform is what machines are.
var platform = v1.Platform{OS: "linux", Architecture: runtime.GOARCH}

const (
	// connectWithin is how long a public registry may take to accept a connection.
	connectWithin = 3 * time.Second
	// unreachedFor is how long a registry that did not is not asked again: a cluster asks for many images at once.
	unreachedFor = 10 * time.Second
	// freshFor is how long a tag of a public registry is believed to be what it was.
	freshFor = 5 * time.Minute
)

// publicTransport fails soon where there is no network, and leads to public addresses alone, or to the host's proxy: everybody in a VPC may
// say which registry is to be asked.
func publicTransport() http.RoundTripper {
	proxied := http.DefaultTransport.(*http.Transport).Clone()
	dialer := net.Dialer{Timeout: connectWithin, KeepAlive: 30 * time.Second}
	proxied.DialContext = dialer.DialContext
	proxied.TLSHandshakeTimeout = connectWithin
	proxied.ResponseHeaderTimeout = 30 * time.Second
	direct := proxied.Clone()
	direct.Proxy = nil
	dialer.Control = onlyPublic
	direct.DialContext = dialer.DialContext
	return choice(func(r *http.Request) (http.RoundTripper, error) {
		proxy, err := http.ProxyFromEnvironment(r)
		if proxy != nil {
			return proxied, err
		}
		return direct, err
	})
}

// choice is a transport that depends on the request.
type choice func(*http.Request) (http.RoundTripper, error)

func (c choice) RoundTrip(r *http.Request) (*http.Response, error) {
	t, err := c(r)
	if err != nil {
		return nil, err
	}
	return t.RoundTrip(r)
}

// private are, beside those that the standard library knows, the blocks in which there are no public registries: carrier-grade NAT and
// benchmarks, which also has the addresses of clusters and of the AWS APIs.
var private = []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("0.0.0.0/8")}

// onlyPublic refuses connections to this host and its neighbours, to which there is no way from a VPC either.
func onlyPublic(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	a := at.Addr().Unmap()
	closed := !a.IsGlobalUnicast() || a.IsPrivate() || slices.ContainsFunc(private, func(p netip.Prefix) bool { return p.Contains(a) })
	if !closed {
		own, err := net.InterfaceAddrs()
		if err != nil {
			return err
		}
		closed = slices.ContainsFunc(own, func(o net.Addr) bool {
			n, ok := o.(*net.IPNet)
			return ok && n.IP.Equal(a.AsSlice())
		})
	}
	if closed {
		return fmt.Errorf("%s is not an address of the public internet", a)
	}
	return nil
}

// pulledMark is a file whose time says when a tag was last compared with that of its registry.
func (r *Registry) pulledMark(repository, tag string) string {
	return filepath.Join(r.options.Dir, "pulled", r.stored(repository), tag)
}

func (r *Registry) markPulled(repository, tag string) error {
	mark := r.pulledMark(repository, tag)
	if err := os.MkdirAll(filepath.Dir(mark), 0o755); err != nil {
		return err
	}
	return os.WriteFile(mark, nil, 0o644)
}

// lookup finds a reference in the storage. It is stale when it is a tag of which its registry should be asked again.
func (r *Registry) lookup(ctx context.Context, repository, reference string) (there, stale bool, err error) {
	if _, err := r.Manifest(ctx, join(repository, reference)); errors.Is(err, ErrNotFound) {
		return false, false, nil
	} else if err != nil {
		return false, false, err
	}
	info, err := os.Stat(r.pulledMark(repository, reference))
	if errors.Is(err, fs.ErrNotExist) {
		return true, false, nil // it was loaded
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

func (u *unreached) error(host string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if time.Now().Before(u.until[host]) {
		return u.why[host]
	}
	return nil
}

func (u *unreached) set(host string, why error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.until == nil {
		u.until, u.why = make(map[string]time.Time), make(map[string]error)
	}
	u.until[host], u.why[host] = time.Now().Add(unreachedFor), why
}

// fetch brings an image of a repository of a public registry into one of the storage, which has its name or is a
// cache of it, unless it is there. Tags are compared with the registry's now and then while it can be reached; those
// that were loaded from an archive are what they are.
func (r *Registry) fetch(ctx context.Context, from, to, reference string) error {
	there, stale, err := r.lookup(ctx, to, reference)
	if err != nil || there && !stale {
		return err
	}
	// Those who ask for the same wait for one.
	result := r.pulls.DoChan(join(to, reference), func() (any, error) {
		return nil, r.pull(context.WithoutCancel(ctx), from, to, reference)
	})
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case outcome := <-result:
		if outcome.Err != nil && there {
			return nil // what is here is better than nothing
		}
		return outcome.Err
	}
}

// pull fetches an image: the one of this platform, and the index that names it.
func (r *Registry) pull(ctx context.Context, from, to, reference string) error {
	source, target := join(from, reference), join(to, reference)
	ref, err := name.ParseReference(source)
	if err != nil {
		return &Refusal{http.StatusBadRequest, "NAME_INVALID", err.Error()}
	}
	host, _, _ := strings.Cut(from, "/")
	if err := r.unreached.error(host); err != nil {
		return r.refuse(source, host, err)
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithTransport(r.options.Transport),
		remote.WithAuth(authn.Anonymous), remote.WithPlatform(platform), remote.WithRetryPredicate(func(error) bool { return false })}
	started := time.Now()
	descriptor, err := remote.Get(ref, options...)
	if err != nil {
		return r.refuse(source, host, err)
	}
	if descriptor.MediaType.IsIndex() {
		var index v1.ImageIndex
		if index, err = descriptor.ImageIndex(); err == nil {
			err = r.putIndex(ctx, target, index)
		}
	} else {
		var image v1.Image
		if image, err = descriptor.Image(); err == nil {
			err = r.put(ctx, target, image)
		}
	}
	if err != nil {
		return r.refuse(source, host, err)
	}
	if !strings.Contains(reference, ":") {
		if err := r.markPulled(to, reference); err != nil {
			return err
		}
	}
	r.options.Log.Info("fetched an image", "image", source, "took", time.Since(started).Round(time.Millisecond))
	return nil
}

// refuse says why there is no such image, in words that reach the user of a pod that wants it: containerd shows the
// message of a 403, and of no other.
func (r *Registry) refuse(full, host string, err error) error {
	var answered *transport.Error
	if errors.As(err, &answered) {
		switch answered.StatusCode {
		case http.StatusNotFound:
			return Denied(fmt.Sprintf("%s does not exist: %s says so", full, host))
		case http.StatusUnauthorized, http.StatusForbidden:
			return Denied(fmt.Sprintf("%s refuses to give %s to anybody: either it does not exist, or it wants a password; an image that you have elsewhere goes in with \"docker save IMAGE -o FILE; coracle images load FILE\"", host, full))
		}
		return Denied(fmt.Sprintf("%s could not give %s: %v", host, full, answered))
	}
	var network net.Error
	if errors.As(err, &network) {
		r.unreached.set(host, err)
		return Denied(fmt.Sprintf("%s is not in Coracle's registry, and %s cannot be reached from here (%v): \"docker save %[1]s -o FILE\" where it is, \"coracle images load FILE\" here", full, host, shortest(err)))
	}
	return Denied(fmt.Sprintf("fetch %s: %v", full, err))
}

// shortest is the innermost message of a network error: "lookup docker.io: no such host".
func shortest(err error) error {
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &dns):
		return dns
	case errors.As(err, &op):
		return op
	}
	return err
}
