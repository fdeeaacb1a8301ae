package admin

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"net/url"
	"strconv"
	"time"
)

// Dump is the information that a developer asks for first about a daemon that does not work as it should. It contains
// no secrets.
type Dump struct {
	Time       time.Time `json:"time"`
	Version    string    `json:"version"`
	Go         string    `json:"go"`
	Started    time.Time `json:"started"`
	Goroutines int       `json:"goroutines"`
	HeapBytes  uint64    `json:"heapBytes"`
	// OpenFiles is the number of file descriptors in use, and MaxOpenFiles their limit (RLIMIT_NOFILE).
	OpenFiles    int    `json:"openFiles"`
	MaxOpenFiles uint64 `json:"maxOpenFiles"`
	// Settings are the choices that the data directory remembers.
	Settings any `json:"settings"`
	// Controllers are the names of those that run, and Failures the keys that they failed at last.
	Controllers []string    `json:"controllers"`
	Failures    []Failure   `json:"failures"`
	Processes   []Component `json:"processes"`
}

// Failure is a key at which a controller failed when it last tried.
type Failure struct {
	Controller string    `json:"controller"`
	Key        string    `json:"key"`
	Failures   int       `json:"failures"` // in a row
	Since      time.Time `json:"since"`
	Error      string    `json:"error"`
}

// Profiles are those of the Go runtime that can be asked for, beside "trace". https://pkg.go.dev/runtime/pprof#Profile
var Profiles = []string{"allocs", "block", "goroutine", "heap", "mutex", "profile", "threadcreate", "trace"}

// registerDebug registers handlers for developers: metrics, profiles and a dump.
func registerDebug(mux *http.ServeMux, d Daemon, answer func(http.ResponseWriter, any, error)) {
	mux.Handle("GET /metrics", d.Metrics())
	mux.HandleFunc("GET /debug/dump", func(w http.ResponseWriter, r *http.Request) {
		dump, err := d.Dump(r.Context())
		answer(w, dump, err)
	})
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
}

// Dump returns the state of the daemon.
func (c *Client) Dump(ctx context.Context) (d Dump, err error) {
	return d, c.callJSON(ctx, http.MethodGet, "/debug/dump", nil, &d)
}

// Metrics copies the daemon's metrics to w, in the text format of Prometheus.
func (c *Client) Metrics(ctx context.Context, w io.Writer) error {
	return c.copyResponse(ctx, "/metrics", w)
}

// Profile copies one of the [Profiles] to w, as "go tool pprof" and "go tool trace" read it. Those of a span of time
// take that long.
func (c *Client) Profile(ctx context.Context, name string, span time.Duration, w io.Writer) error {
	query := url.Values{"seconds": {strconv.Itoa(max(1, int(span.Seconds())))}}
	if name != "profile" && name != "trace" {
		query = nil
	}
	return c.copyResponse(ctx, "/debug/pprof/"+url.PathEscape(name)+"?"+query.Encode(), w)
}

func (c *Client) copyResponse(ctx context.Context, path string, w io.Writer) error {
	resp, err := c.sendJSON(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return fmt.Errorf("read the daemon's answer: %w", err)
	}
	return nil
}
