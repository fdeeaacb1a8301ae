package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/fields"
)

// Daemon executes the commands.
type Daemon interface {
	Status(ctx context.Context) (Status, error)
	// Backup writes the archive of package backup, with the content of volumes and snapshots if they are wanted. It
	// returns those whose content could not be copied.
	Backup(ctx context.Context, w io.Writer, volumes bool) (missing []string, err error)
	// CreateAccount makes an account. The error of one that exists already is a *Refused.
	CreateAccount(ctx context.Context, account string) (Account, error)
	// Interrupt gives a spot instance notice that it is taken away. The error of one that cannot be is a *Refused.
	Interrupt(ctx context.Context, instance string) (Interruption, error)
	// LoadImages puts the images of an archive into the registry. The error of one that is none is a *Refused.
	LoadImages(ctx context.Context, archive io.Reader) (Loaded, error)
	Images(ctx context.Context) ([]Image, error)
	// Fields reads an object with its owners. The error of a question that nothing answers is a *Refused.
	Fields(ctx context.Context, q fields.Question) (fields.Answer, error)
	// Identity follows the way from a pod to its role. The error of a question that nothing answers is a *Refused.
	Identity(ctx context.Context, q IdentityQuestion) (Identity, error)
	// PatchFargate has Fargate pods leave their machines. The error of a cluster or profile that is not there is a
	// *Refused.
	PatchFargate(ctx context.Context, q PatchRequest) (Patched, error)
	// ConsoleLink makes a link that signs in to the console once, as the root user of an account. The error of an
	// account that is not there is a *Refused.
	ConsoleLink(ctx context.Context, account string) (ConsoleLink, error)
	// AwaitConsoleLink waits until a link has been used, or ctx ends.
	AwaitConsoleLink(ctx context.Context, l ConsoleLink) error
	// Denials returns what policies refused in an account. The error of one that is not there is a *Refused.
	Denials(ctx context.Context, account string) ([]Denial, error)
	// Metrics serves the metrics of the daemon for Prometheus.
	Metrics() http.Handler
	// Dump returns the inner state of the daemon.
	Dump(ctx context.Context) (Dump, error)
	// Stop asks the daemon to end and returns at once.
	Stop()
}

// Refused is an error that is the asker's.
type Refused struct{ Reason string }

func (r *Refused) Error() string { return r.Reason }

// Serve takes commands on the socket until ctx ends.
func Serve(ctx context.Context, socket string, d Daemon, log *slog.Logger) error {
	l, err := listenUnix(socket)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           handler(d, log),
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := server.Shutdown(shutdown); err != nil {
		server.Close()
	}
	<-ended
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func handler(d Daemon, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any, err error) {
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			code := http.StatusInternalServerError
			var refused *Refused
			if errors.As(err, &refused) {
				code = http.StatusBadRequest
			}
			w.WriteHeader(code)
			v = failure{err.Error()}
		}
		if err := json.NewEncoder(w).Encode(v); err != nil {
			log.Debug("could not answer a command", "error", err)
		}
	}
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		s, err := d.Status(r.Context())
		answer(w, s, err)
	})
	registerDebug(mux, d, answer)
	mux.HandleFunc("GET /ping", func(w http.ResponseWriter, r *http.Request) { answer(w, struct{}{}, nil) })
	mux.HandleFunc("POST /stop", func(w http.ResponseWriter, r *http.Request) {
		answer(w, struct{}{}, nil)
		d.Stop()
	})
	mux.HandleFunc("POST /accounts", func(w http.ResponseWriter, r *http.Request) {
		var a Account
		if err := decodeRequest(w, r, &a); err != nil {
			answer(w, nil, err)
			return
		}
		made, err := d.CreateAccount(r.Context(), a.Account)
		answer(w, made, err)
	})
	mux.HandleFunc("POST /interruptions", func(w http.ResponseWriter, r *http.Request) {
		var i Interruption
		if err := decodeRequest(w, r, &i); err != nil {
			answer(w, nil, err)
			return
		}
		given, err := d.Interrupt(r.Context(), i.Instance)
		answer(w, given, err)
	})
	mux.HandleFunc("POST /images", func(w http.ResponseWriter, r *http.Request) {
		loaded, err := d.LoadImages(r.Context(), r.Body)
		answer(w, loaded, err)
	})
	mux.HandleFunc("GET /images", func(w http.ResponseWriter, r *http.Request) {
		all, err := d.Images(r.Context())
		answer(w, all, err)
	})
	mux.HandleFunc("POST /fields", func(w http.ResponseWriter, r *http.Request) {
		var q fields.Question
		if err := decodeRequest(w, r, &q); err != nil {
			answer(w, nil, err)
			return
		}
		a, err := d.Fields(r.Context(), q)
		answer(w, a, err)
	})
	mux.HandleFunc("POST /identity", func(w http.ResponseWriter, r *http.Request) {
		var q IdentityQuestion
		if err := decodeRequest(w, r, &q); err != nil {
			answer(w, nil, err)
			return
		}
		i, err := d.Identity(r.Context(), q)
		answer(w, i, err)
	})
	mux.HandleFunc("POST /fargate/patches", func(w http.ResponseWriter, r *http.Request) {
		var q PatchRequest
		if err := decodeRequest(w, r, &q); err != nil {
			answer(w, nil, err)
			return
		}
		p, err := d.PatchFargate(r.Context(), q)
		answer(w, p, err)
	})
	mux.HandleFunc("POST /console", func(w http.ResponseWriter, r *http.Request) {
		var q consoleRequest
		if err := decodeRequest(w, r, &q); err != nil {
			answer(w, nil, err)
			return
		}
		link, err := d.ConsoleLink(r.Context(), q.Account)
		answer(w, link, err)
	})
	mux.HandleFunc("POST /console/await", func(w http.ResponseWriter, r *http.Request) {
		var l ConsoleLink
		if err := decodeRequest(w, r, &l); err != nil {
			answer(w, nil, err)
			return
		}
		answer(w, struct{}{}, d.AwaitConsoleLink(r.Context(), l))
	})
	mux.HandleFunc("GET /denials", func(w http.ResponseWriter, r *http.Request) {
		all, err := d.Denials(r.Context(), r.URL.Query().Get("account"))
		answer(w, all, err)
	})
	backup := func(volumes bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			started := &startedWriter{ResponseWriter: w}
			w.Header().Set("Trailer", missingTrailer)
			missing, err := d.Backup(r.Context(), started, volumes)
			switch {
			case err == nil:
				w.Header().Set(missingTrailer, listMissing(missing))
			case !started.wrote:
				w.Header().Del("Trailer")
				answer(w, nil, err)
			default:
				// The answer has begun: cut it off, so that nobody takes a part for the whole.
				log.Error("backup failed", "error", err)
				panic(http.ErrAbortHandler)
			}
		}
	}
	mux.HandleFunc("GET /backup", backup(false))
	mux.HandleFunc("GET /backup/volumes", backup(true))
	return mux
}

// missingTrailer names the volumes that a backup lacks, when it has been written.
const missingTrailer = "Coracle-Missing"

// listMissing returns the names of a few volumes, and how many more there are: a trailer is short.
func listMissing(ids []string) string {
	const few = 100
	if len(ids) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(ids[:few], ", "), len(ids)-few)
	}
	return strings.Join(ids, ", ")
}

// maxRequest is the maximum size of a request in JSON, in bytes.
const maxRequest = 1 << 20

// decodeRequest reads a request in JSON. The error of one that is not is a *Refused.
func decodeRequest(w http.ResponseWriter, r *http.Request, into any) error {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(into); err != nil {
		return &Refused{"the request is not JSON: " + err.Error()}
	}
	return nil
}

type failure struct {
	Error string `json:"error"`
}

type startedWriter struct {
	http.ResponseWriter
	wrote bool
}

func (s *startedWriter) Write(p []byte) (int, error) {
	s.wrote = true
	return s.ResponseWriter.Write(p)
}
