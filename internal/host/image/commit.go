package image

import (
	"io"
	"net/http"
	"sync"
)

// serveStorage serves the protocol on the storage. It holds commits for reading while a blob or a manifest becomes
// part of a repository, so that the blob is not removed between the library's look whether it is there and the link to
// it. A client may take its time to send a body, for which nobody waits.
func (r *Registry) serveStorage(w http.ResponseWriter, request *http.Request) {
	switch request.Method {
	case http.MethodPut:
		body := &committing{ReadCloser: request.Body, commits: &r.commits}
		defer body.endCommit()
		request = request.WithContext(request.Context())
		request.Body = body
	case http.MethodPost: // may mount a blob; it has no body
		r.commits.RLock()
		defer r.commits.RUnlock()
	}
	r.app.ServeHTTP(w, request)
}

// committing is the body of a request that commits something once it is read.
type committing struct {
	io.ReadCloser
	commits *sync.RWMutex
	held    bool
}

func (c *committing) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if err != nil && !c.held {
		c.commits.RLock()
		c.held = true
	}
	return n, err
}

func (c *committing) endCommit() {
	if c.held {
		c.commits.RUnlock()
	}
}
