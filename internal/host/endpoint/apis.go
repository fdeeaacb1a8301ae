package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/coracle-eks/coracle/internal/connlimit"
	"github.com/coracle-eks/coracle/internal/host/network"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// apiPorts are those of the AWS APIs inside VPCs: of their usual names with and without TLS, and of the endpoint that
// the daemon has on the host, so that an AWS_ENDPOINT_URL may look the same on both sides.
var apiPorts = []uint16{443, 80, 4566}

// How many connections to the AWS APIs a source of a VPC may have open, and all sources of a VPC to an address and port
// of them. All pods of a node may have one source. All addresses of a VPC have one share of what the daemon may have
// open.
const (
	apiPerSource  = 1024
	apiPerAddress = 8192
)

// APIOptions configures an APIs.
type APIOptions struct {
	Store *store.Store
	// Address is that of the AWS APIs in every VPC.
	Address netip.Addr
	// Namespace is the path of a network namespace by its name: "internet", or a VPC's ID.
	Namespace func(name string) string
	// Routers sends the VPCs (EC2Key) whose namespace has come, gone, or been made anew (optional: then they are looked
	// at every second).
	Routers reconcile.Source
	Log     *slog.Logger // slog.Default() when nil
}

// APIs is a [net.Listener] for the AWS APIs inside VPCs: what it accepts has come to the address of the APIs in any VPC
// that has a router, or in the namespace "internet", or to a network interface of an interface endpoint. Its controller
// opens and closes the sockets as VPCs come and go. The remote address of a connection is the caller's in its VPC; see
// [SourceOf].
type APIs struct {
	o         APIOptions
	vpcs      store.Table[record.VPC]
	endpoints store.Table[record.VPCEndpoint]
	rows      tables

	conns   chan net.Conn
	closed  chan struct{}
	closing sync.Once
	running sync.WaitGroup

	mu         sync.Mutex
	namespaces map[string]*apiNamespace // by key
}

// apiNamespace is the state of the sockets in one namespace.
type apiNamespace struct {
	identity  uint64
	listeners map[netip.AddrPort]net.Listener
}

// NewAPIs makes the listener; it hears nothing before its controller runs.
func NewAPIs(o APIOptions) *APIs {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &APIs{
		o: o, vpcs: record.VPCs(o.Store), endpoints: record.VPCEndpoints(o.Store), rows: openTables(o.Store),
		conns: make(chan net.Conn), closed: make(chan struct{}), namespaces: map[string]*apiNamespace{},
	}
}

// Controller returns the controller that reconcile.Run runs. Its keys are those of VPCs, and "internet".
func (a *APIs) Controller() reconcile.Controller {
	c := reconcile.Controller{
		Name:      "vpc-apis",
		Reconcile: a.reconcile,
		Sources: []reconcile.Source{
			func(ctx context.Context, changed func(string)) { changed(network.InternetNamespace); <-ctx.Done() },
			reconcile.Table(a.vpcs, ""),
			reconcile.Mapped(a.endpoints, "", func(string) []string { return a.listKeys() }),
		},
		Workers:    4,
		Resync:     10 * time.Second,
		MaxBackoff: 2 * time.Second,
	}
	if a.o.Routers != nil {
		c.Sources = append(c.Sources, a.o.Routers)
	}
	return c
}

func (a *APIs) listKeys() (all []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range a.namespaces {
		all = append(all, key)
	}
	return all
}

func (a *APIs) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	namespace, addresses, err := a.wantedListeners(ctx, key)
	if err != nil {
		return reconcile.Result{}, err
	}
	id, err := identity(namespace)
	if errors.Is(err, fs.ErrNotExist) {
		addresses = nil
	} else if err != nil {
		return reconcile.Result{}, err
	}
	if err := a.openSockets(ctx, key, namespace, id, addresses); err != nil {
		return reconcile.Result{}, fmt.Errorf("listen for the AWS APIs: %w", err)
	}
	if len(addresses) == 0 && (a.o.Routers == nil || key == network.InternetNamespace) {
		return reconcile.Result{After: time.Second}, nil
	}
	return reconcile.Result{Gone: namespace == ""}, nil
}

// wantedListeners returns the namespace and the addresses to listen on for a key; no addresses for a VPC that is gone.
func (a *APIs) wantedListeners(ctx context.Context, key string) (namespace string, addresses []netip.Addr, err error) {
	addresses = []netip.Addr{a.o.Address}
	if key == network.InternetNamespace {
		return a.o.Namespace(network.InternetNamespace), addresses, nil
	}
	row, err := a.vpcs.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil, nil
	} else if err != nil {
		return "", nil, err
	}
	vpc := row.Value
	endpoints, err := a.rows.endpointsOf.List(ctx, key)
	if err != nil {
		return "", nil, err
	}
	for _, e := range endpoints {
		own, err := a.rows.addressesOf(ctx, e.Value.EC2Resource, e.Value.NetworkInterfaceIDs)
		if err != nil {
			return "", nil, err
		}
		addresses = append(addresses, own...)
	}
	return a.o.Namespace(network.VPCNamespace(vpc.ID)), addresses, nil
}

// openSockets opens the sockets on the given addresses of a namespace, and closes all others.
func (a *APIs) openSockets(ctx context.Context, key, namespace string, id uint64, addresses []netip.Addr) error {
	wanted := map[netip.AddrPort]bool{}
	for _, address := range addresses {
		for _, port := range apiPorts {
			wanted[netip.AddrPortFrom(address, port)] = true
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	state := a.namespaces[key]
	if state == nil {
		state = &apiNamespace{listeners: map[netip.AddrPort]net.Listener{}}
		a.namespaces[key] = state
	}
	for at, l := range state.listeners {
		if !wanted[at] || state.identity != id {
			l.Close()
			delete(state.listeners, at)
		}
	}
	state.identity = id
	if len(wanted) == 0 {
		delete(a.namespaces, key)
		return nil
	}
	select {
	case <-a.closed:
		return nil
	default:
	}
	for at := range wanted {
		if state.listeners[at] != nil {
			continue
		}
		l, err := Listen(ctx, namespace, "tcp", at.String())
		if err != nil {
			return err
		}
		limited := connlimit.New(l, connlimit.Limits{
			Share: "APIs in " + key, PerSource: apiPerSource, Total: apiPerAddress,
		})
		state.listeners[at] = limited
		a.running.Go(func() { a.acceptConnections(key, limited) })
	}
	return nil
}

func (a *APIs) acceptConnections(key string, l net.Listener) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			a.o.Log.Warn("cannot take connections to the AWS APIs", "at", l.Addr(), "error", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if key != network.InternetNamespace {
			conn = a.identify(key, conn)
		}
		select {
		case a.conns <- conn:
		case <-a.closed:
			conn.Close()
			return
		}
	}
}

// Accept waits for the next connection from any VPC.
func (a *APIs) Accept() (net.Conn, error) {
	select {
	case conn := <-a.conns:
		return conn, nil
	case <-a.closed:
		return nil, net.ErrClosed
	}
}

// Close closes all sockets. Connections that were accepted live on.
func (a *APIs) Close() error {
	a.closing.Do(func() {
		close(a.closed)
		a.mu.Lock()
		for _, state := range a.namespaces {
			for _, l := range state.listeners {
				l.Close()
			}
		}
		a.mu.Unlock()
		a.running.Wait()
	})
	return nil
}

// Address returns the address on which the APIs take calls inside every VPC.
func (a *APIs) Address() netip.Addr { return a.o.Address }

// Addr returns the address of the AWS APIs, with its port.
func (a *APIs) Addr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(a.o.Address, httpsPort))
}
