package metadata

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/connlimit"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// listening is the server of one VPC.
type listening struct {
	namespace uint64 // identity
	server    *http.Server
	ended     chan struct{}
}

func (l *listening) close() {
	_ = l.server.Close() // connections die with it: SDKs ask again
	<-l.ended
}

func (l *listening) isAlive() bool {
	select {
	case <-l.ended:
		return false
	default:
		return true
	}
}

// reconcile listens in the VPC's router if there is one, and only there.
func (s *Service) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	row, err := record.VPCs(s.o.Store).Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		s.stopServing(key)
		return reconcile.Result{Gone: true}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	vpc := row.Value
	namespace, err := s.o.Network.Identity(vpc.ID)
	if errors.Is(err, fs.ErrNotExist) {
		s.stopServing(key)
		return reconcile.Result{}, nil // the network tells when there is one
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	s.mu.Lock()
	now := s.listening[key]
	s.mu.Unlock()
	if now != nil && now.namespace == namespace && now.isAlive() {
		return reconcile.Result{}, nil
	}
	s.stopServing(key)
	l, err := s.o.Network.Listen(ctx, vpc.ID, "tcp4", Address)
	if errors.Is(err, fs.ErrNotExist) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("listen for instances of %s: %w", vpc.ID, err)
	}
	s.serveVPC(key, namespace, connlimit.New(l, connlimit.Limits{
		Share: "metadata of " + vpc.ID, PerSource: perSource, Total: perVPC,
	}))
	return reconcile.Result{}, nil
}

// How many connections an instance may have open, and all instances of a VPC. An answer takes milliseconds.
const (
	perSource = 256
	perVPC    = 4096
)

// serveVPC answers what comes to l, as the service of a VPC.
func (s *Service) serveVPC(key string, namespace uint64, l net.Listener) {
	serving := &listening{namespace: namespace, ended: make(chan struct{})}
	serving.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Trailer = nil // names in a field, which net/http would keep while it reads a body
			s.serveRequest(w, r, key)
		}),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx,
				connection{}, c)
		},
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       10 * time.Second, // no request has a body
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.listening[key] = serving
	}
	s.mu.Unlock()
	if closed {
		l.Close()
		return
	}
	go func() {
		defer close(serving.ended)
		if err := serving.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("the metadata service of a VPC ended", "vpc", key, "error", err)
		}
	}()
}

func (s *Service) stopServing(key string) {
	s.mu.Lock()
	l := s.listening[key]
	delete(s.listening, key)
	s.mu.Unlock()
	if l != nil {
		l.close()
	}
}

// closeServers closes the servers when the controllers stop. It is a source that sends no keys.
func (s *Service) closeServers(ctx context.Context, _ func(string)) {
	s.mu.Lock()
	s.closed = false
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.closed = true
	all := s.listening
	s.listening = map[string]*listening{}
	s.mu.Unlock()
	for _, l := range all {
		l.close()
	}
}

// connection is the key of a request's connection in its context.
type connection struct{}

// keyScope returns the prefix of an EC2 resource's key that has its account and region.
func keyScope(key string) string { return key[:strings.LastIndexByte(key, '/')+1] }
