package metadata

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/connlimit"
	"github.com/coracle-eks/coracle/internal/handshake"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// listening are the servers of one VPC.
type listening struct {
	namespace uint64 // identity
	servers   []*server
}

// server is one that serves until it has ended.
type server struct {
	*http.Server
	ended chan struct{}
}

func (l *listening) close() {
	for _, s := range l.servers {
		_ = s.Close() // connections die with it: SDKs ask again
	}
	for _, s := range l.servers {
		<-s.ended
	}
}

func (l *listening) isAlive() bool {
	for _, s := range l.servers {
		select {
		case <-s.ended:
			return false
		default:
		}
	}
	return true
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
	listeners, err := s.listen(ctx, vpc.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("listen for instances of %s: %w", vpc.ID, err)
	}
	s.serveVPC(key, namespace, listeners...)
	return reconcile.Result{}, nil
}

// listen listens at the addresses of the service in a VPC.
func (s *Service) listen(ctx context.Context, vpcID string) (listeners []net.Listener, err error) {
	addresses := []string{Address}
	if s.o.TLS != nil {
		addresses = append(addresses, SecureAddress)
	}
	for _, address := range addresses {
		l, err := s.o.Network.Listen(ctx, vpcID, "tcp4", address)
		if err != nil {
			for _, open := range listeners {
				open.Close()
			}
			return nil, err
		}
		l = connlimit.New(l, connlimit.Limits{Share: "metadata of " + vpcID, PerSource: perSource, Total: perVPC})
		if address == SecureAddress {
			l = tls.NewListener(bounded{l}, s.o.TLS)
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// bounded is a listener whose connections read no more than handshakes may, for as long as they live: guests ask once
// on each.
type bounded struct{ net.Listener }

func (l bounded) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return handshake.Bound(c, handshake.MostOfClient), nil
}

// How many connections an instance may have open, and all instances of a VPC. An answer takes milliseconds.
const (
	perSource = 256
	perVPC    = 4096
)

// serveVPC answers what comes to the listeners, as the service of a VPC.
func (s *Service) serveVPC(key string, namespace uint64, listeners ...net.Listener) {
	serving := &listening{namespace: namespace}
	for range listeners {
		serving.servers = append(serving.servers, &server{s.newServer(key), make(chan struct{})})
	}
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.listening[key] = serving
	}
	s.mu.Unlock()
	for i, l := range listeners {
		if closed {
			l.Close()
			continue
		}
		go func() {
			defer close(serving.servers[i].ended)
			if err := serving.servers[i].Serve(l); !errors.Is(err, http.ErrServerClosed) {
				s.log.Error("the metadata service of a VPC ended", "vpc", key, "error", err)
			}
		}()
	}
}

func (s *Service) newServer(key string) *http.Server {
	return &http.Server{
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
