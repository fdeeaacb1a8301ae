package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coracle-eks/coracle/internal/logs/vended"
)

// Serve runs the process: it applies the file in dir until ctx ends. A connection to the control socket makes it read
// the file again, and gets a report of what could not be applied.
func Serve(ctx context.Context, dir string, log *slog.Logger) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	s := newServer(dir, log)
	// What is logged while all ends is written, too.
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var writer sync.WaitGroup
	writer.Go(func() { s.logs.Run(writing) })
	defer writer.Wait()
	defer stop()
	defer s.closeAll()
	control, err := listenUnix(controlSocket(dir))
	if err != nil {
		return fmt.Errorf("listen for the daemon: %w", err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer context.AfterFunc(ctx, func() { control.Close() })()
	running.Go(func() { s.runRepairs(ctx) })
	for {
		conn, err := control.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		running.Go(func() {
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(controlTime))  //nolint:errcheck // a socket has deadlines
			json.NewEncoder(conn).Encode(s.reloadConfig()) //nolint:errcheck // the daemon has gone
		})
	}
}

// listenUnix listens on a socket that only this user can connect to, in place of that of a process that was killed.
func listenUnix(path string) (*net.UnixListener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// controlTime bounds a conversation with the daemon.
const controlTime = 20 * time.Second

// namespaceCheckInterval is the interval at which the process checks whether namespaces were created, removed or
// replaced.
const namespaceCheckInterval = 250 * time.Millisecond

// server serves the listeners and resolvers of a Config.
type server struct {
	dir      string
	log      *slog.Logger
	names    atomic.Pointer[map[string][]netip.Addr]
	upstream *upstream
	logs     *vended.Writer

	mu       sync.Mutex
	config   Config
	open     map[string]*opened
	problems map[string]string
	absent   map[string]bool // namespaces that are not there
	failed   bool            // there are problems of other kinds
	ending   sync.WaitGroup
}

// opened is one member of the Config at work.
type opened struct {
	namespace string
	identity  uint64 // of the namespace
	shape     string // what cannot be changed while it is open
	update    func(spec any)
	close     func() // ends it
	wait      func() // returns when everything of it has ended
}

func newServer(dir string, log *slog.Logger) *server {
	return &server{dir: dir, log: log, upstream: &upstream{file: "/etc/resolv.conf"}, logs: vended.NewWriter(log),
		open: map[string]*opened{}, problems: map[string]string{}}
}

// runRepairs reads the file at the start, and after that repairs what is not as the file says.
func (s *server) runRepairs(ctx context.Context) {
	s.reloadConfig()
	tick := time.NewTicker(namespaceCheckInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.mu.Lock()
			if s.failed || s.hasMovedNamespace() {
				s.applyConfig()
			}
			s.mu.Unlock()
		}
	}
}

// hasMovedNamespace reports whether a namespace in which something is open is no longer the one that has its path, or
// one that was not there has come. mu is held.
func (s *server) hasMovedNamespace() bool {
	for namespace := range s.absent {
		if _, err := identity(namespace); err == nil {
			return true
		}
	}
	seen := map[string]uint64{}
	for _, o := range s.open {
		id, known := seen[o.namespace]
		if !known {
			id, _ = identity(o.namespace) // zero when it is gone
			seen[o.namespace] = id
		}
		if id != o.identity {
			return true
		}
	}
	return false
}

// reloadConfig reads the file again and does what it says. A file that cannot be read changes nothing.
func (s *server) reloadConfig() report {
	s.mu.Lock()
	defer s.mu.Unlock()
	config, err := readConfig(s.dir)
	if err != nil {
		s.log.Error("cannot read what to do", "error", err)
		return report{Problems: map[string]string{"": err.Error()}}
	}
	s.config = config
	s.names.Store(&config.Names)
	s.logs.SetDirectory(config.LogDir)
	s.applyConfig()
	problems := make(map[string]string, len(s.problems))
	for key, why := range s.problems {
		problems[key] = why
	}
	return report{Problems: problems}
}

// applyConfig opens, changes and closes listeners until they match the Config. mu is held.
func (s *server) applyConfig() {
	wanted := make(map[string]bool, len(s.open))
	before := s.problems
	s.problems, s.absent, s.failed = map[string]string{}, map[string]bool{}, false
	ensure := func(key, namespace, shape string, spec any, open func() (*opened, error)) {
		wanted[key] = true
		id, err := identity(namespace)
		have := s.open[key]
		if have != nil && (err != nil || have.identity != id || have.shape != shape) {
			s.closeListener(key)
			have = nil
		}
		if err == nil && have == nil {
			if have, err = open(); err == nil {
				have.namespace, have.identity, have.shape = namespace, id, shape
				s.open[key] = have
				return
			}
		}
		if err != nil {
			s.problems[key] = err.Error()
			if errors.Is(err, fs.ErrNotExist) {
				s.absent[namespace] = true // who makes it is at work
				return
			}
			s.failed = true
			if before[key] != err.Error() {
				s.log.Warn("not open", "what", key, "error", err)
			}
			return
		}
		have.update(spec)
	}
	for _, spec := range s.config.Forwards {
		ensure(spec.listenerKey(), spec.Namespace, "", spec, func() (*opened, error) {
			f, err := openForward(spec, s.log)
			if err != nil {
				return nil, err
			}
			return &opened{update: func(spec any) { f.update(spec.(Forward)) }, close: f.close, wait: f.done.Wait}, nil
		})
	}
	for _, spec := range s.config.Egresses {
		// It has no socket in the namespace, and enters whichever is there.
		ensure(spec.listenerKey(), "", spec.Socket, spec, func() (*opened, error) {
			e, err := openEgress(spec, s.log)
			if err != nil {
				return nil, err
			}
			return &opened{update: func(spec any) { e.update(spec.(Egress)) }, close: e.close, wait: e.done.Wait}, nil
		})
	}
	for _, spec := range s.config.Resolvers {
		ensure(spec.listenerKey(), spec.Namespace, fmt.Sprint(spec.Addresses), spec, func() (*opened, error) {
			r, err := openResolver(spec, &s.names, s.upstream, s.log)
			if err != nil {
				return nil, err
			}
			return &opened{update: func(spec any) { r.update(spec.(Resolver)) }, close: r.close, wait: r.done.Wait}, nil
		})
	}
	for _, spec := range s.config.Balancers {
		ensure(spec.Key(), spec.Namespace, spec.immutableKey(), spec,
			func() (*opened, error) {
				b, err := openBalancer(spec, s.logs, s.log)
				if err != nil {
					return nil, err
				}
				return &opened{update: func(spec any) { b.update(spec.(Balancer)) }, close: b.close, wait: b.done.Wait}, nil
			})
	}
	for key := range s.open {
		if !wanted[key] {
			s.closeListener(key)
		}
	}
}

func (s *server) closeListener(key string) {
	o := s.open[key]
	delete(s.open, key)
	o.close()
	s.ending.Go(o.wait)
}

func (s *server) closeAll() {
	s.mu.Lock()
	s.config = Config{}
	s.applyConfig()
	s.mu.Unlock()
	s.ending.Wait()
}
