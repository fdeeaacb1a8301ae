package image

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
)

// commits are the requests that just make a blob or a manifest part of a repository.
type commits struct {
	sync.RWMutex // held for reading by each of them

	mu     sync.Mutex
	active map[string]int // by repository, as it is stored
	// since has the repositories of those that went on at any time since watch was called; nil when nobody watches
	since map[string]bool
}

// beginCommit waits until no blobs are removed, and lets none be removed until the end.
func (c *commits) beginCommit(stored string) (end func()) {
	c.RLock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active == nil {
		c.active = make(map[string]int)
	}
	c.active[stored]++
	if c.since != nil {
		c.since[stored] = true
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.active[stored]--; c.active[stored] == 0 {
			delete(c.active, stored)
		}
		c.RUnlock()
	}
}

// watch records the repositories of commits from now on, until unwatch returns them. There is one watch at a time.
func (c *commits) watch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = make(map[string]bool)
	for stored := range c.active {
		c.since[stored] = true
	}
}

func (c *commits) unwatch() (stored map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stored, c.since = c.since, nil
	return stored
}

// serveStorage serves the protocol on the storage. It holds commits for reading while a blob or a manifest becomes
// part of a repository, so that the blob is not removed between the library's look whether it is there and the link to
// it. A client may take its time to send a body, for which nobody waits.
func (r *Registry) serveStorage(w http.ResponseWriter, request *http.Request) {
	stored, what := "", ""
	if match := route.FindStringSubmatch(request.URL.Path); match != nil {
		stored, what = match[1], match[2]
	}
	switch request.Method {
	case http.MethodPut:
		if strings.HasPrefix(what, "manifests/") {
			payload, err := io.ReadAll(io.LimitReader(request.Body, maxManifest+1))
			if err == nil && len(payload) <= maxManifest { // the library refuses more
				err = checkManifest(payload)
			}
			if err != nil {
				(&Refusal{http.StatusBadRequest, "MANIFEST_INVALID", err.Error()}).writeResponse(w, request)
				return
			}
			tag := strings.TrimPrefix(what, "manifests/")
			if strings.Contains(tag, ":") {
				tag = "" // it is the digest
			}
			if err := r.checkQuota(stored, tag, digest.FromBytes(payload)); errors.Is(err, ErrQuota) {
				Denied(err.Error()).writeResponse(w, request)
				return
			} else if err != nil {
				r.options.Log.ErrorContext(request.Context(), "check the quota of a repository", "error", err)
				(&Refusal{http.StatusInternalServerError, "UNKNOWN",
					"The registry could not answer because of an internal error. Its log says more."}).writeResponse(w, request)
				return
			}
			request = request.WithContext(request.Context())
			request.Body = io.NopCloser(io.MultiReader(bytes.NewReader(payload), request.Body))
		}
		body := &committing{ReadCloser: request.Body, commits: &r.commits, stored: stored}
		defer body.endCommit()
		request = request.WithContext(request.Context())
		request.Body = body
	case http.MethodPost: // may mount a blob; it has no body
		defer r.commits.beginCommit(stored)()
	}
	r.app.ServeHTTP(w, request)
}

// committing is the body of a request that commits something once it is read.
type committing struct {
	io.ReadCloser
	commits *commits
	stored  string
	end     func() // nil before
}

func (c *committing) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if err != nil && c.end == nil {
		c.end = c.commits.beginCommit(c.stored)
	}
	return n, err
}

func (c *committing) endCommit() {
	if c.end != nil {
		c.end()
	}
}
