//go:build linux

package mounttarget

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"time"

	efstypes "github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/coracle-eks/coracle/internal/connlimit"
	"github.com/coracle-eks/coracle/internal/filesystem"
	"github.com/coracle-eks/coracle/internal/host/endpoint"
	"github.com/coracle-eks/coracle/internal/host/mountgrant"
	"github.com/coracle-eks/coracle/internal/host/network"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/recovery"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/turn"
)

// Bounds of what clients may ask at a time, and for how long one may be at it.
const (
	mostPerSource = 64
	mostPerTarget = 512
	patience      = 20 * time.Second
)

// Network is what the controller needs of the network of machines.
type Network interface {
	// Namespace returns the path of a network namespace by its name.
	Namespace(name string) string
	// Carries reports whether the router of a VPC (EC2Key) delivers an address to that instance (EC2Key).
	Carries(vpc string, address netip.Addr, instance string) bool
	// RouterSource sends the VPCs (EC2Key) whose router has come, gone, or been made anew.
	RouterSource() reconcile.Source
}

// Options configures a Controller. All fields but those marked optional must be set.
type Options struct {
	Store      *store.Store
	Network    Network
	Authorizer filesystem.Authorizer
	Root       func(fileSystemID string) string // the directory of a file system on the host
	Machines   string                           // the directory of machines' own directories
	Log        *slog.Logger                     // slog.Default() when nil (optional)
}

// Controller listens on the addresses of mount targets.
type Controller struct {
	o        Options
	targets  store.Table[record.MountTarget]
	byVPC    store.Index[record.MountTarget]
	statuses store.Table[record.MountTargetStatus]
	served   store.Table[record.MountTargetListener]
	turns    *turn.Places // decisions of each account

	ctx    context.Context
	cancel context.CancelFunc
	mu     sync.Mutex
	open   map[string]*sockets // by EC2Key of the VPC
	vpcs   map[string]string   // the VPCs of mount targets that were seen
	ended  bool
	active sync.WaitGroup
}

// sockets are those in the router of one VPC.
type sockets struct {
	identity  uint64 // of its namespace
	listeners map[netip.Addr]net.Listener
}

// New returns a Controller, which does nothing until it is run.
func New(o Options) *Controller {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	c := &Controller{o: o, targets: record.MountTargets(o.Store), byVPC: record.MountTargetsByVPC(o.Store),
		statuses: record.MountTargetStatuses(o.Store), served: record.MountTargetListeners(o.Store),
		turns: turn.Each(mostDeciding), open: map[string]*sockets{}, vpcs: map[string]string{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Controllers returns the controllers that reconcile.Run runs. The keys are those of VPCs, in which it listens, and of
// MountTargetListeners, whose mount target may have gone.
func (c *Controller) Controllers() []reconcile.Controller {
	return []reconcile.Controller{{
		Name:      "mount-target-listeners",
		Reconcile: c.reconcile,
		Sources: []reconcile.Source{
			reconcile.Mapped(c.targets, "", c.vpcsOf),
			reconcile.Table(c.targets, ""),
			reconcile.Table(c.served, ""),
			c.o.Network.RouterSource(),
			func(ctx context.Context, _ func(string)) { <-ctx.Done(); c.close() },
		},
		Workers: 2, AccountWorkers: 1,
		Resync:     10 * time.Second,
		MaxBackoff: 2 * time.Second,
	}}
}

// vpcsOf returns the VPC of a mount target, also of one whose record has gone since it was seen.
func (c *Controller) vpcsOf(key string) (vpcs []string) {
	row, err := c.targets.Get(context.Background(), key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.vpcs[key] = record.EC2Key(row.Value.Account, row.Value.Region, row.Value.VPCID)
	}
	vpc, known := c.vpcs[key]
	if errors.Is(err, store.ErrNotFound) {
		delete(c.vpcs, key)
	}
	if !known {
		return nil
	}
	return []string{vpc}
}

func (c *Controller) reconcile(ctx context.Context, vpc string) (reconcile.Result, error) {
	parts := store.Parts(vpc)
	switch {
	case len(parts) != 3: // the namespace "internet"
		return reconcile.Result{Gone: true}, nil
	case strings.HasPrefix(parts[2], "fsmt-"):
		return reconcile.Result{Gone: true}, c.forget(ctx, vpc)
	}
	rows, err := c.byVPC.List(ctx, vpc)
	if err != nil {
		return reconcile.Result{}, err
	}
	wanted := map[netip.Addr]bool{}
	for _, row := range rows {
		for _, text := range []string{row.Value.IPAddress, row.Value.IPv6Address} {
			if address, err := netip.ParseAddr(text); err == nil && row.Value.Deleted.IsZero() {
				wanted[address] = true
			}
		}
	}
	namespace := c.o.Network.Namespace(network.VPCNamespace(parts[2]))
	identity, err := network.Identity(namespace)
	if errors.Is(err, fs.ErrNotExist) {
		clear(wanted) // the router comes with the first machine, and tells
	} else if err != nil {
		return reconcile.Result{}, err
	}
	failures := c.listen(ctx, vpc, namespace, identity, wanted)
	var failure error
	for _, row := range rows {
		if !row.Value.Deleted.IsZero() {
			continue
		}
		var own error
		for address, err := range failures {
			if row.Value.IPAddress == address.String() || row.Value.IPv6Address == address.String() {
				own = fmt.Errorf("listen for mounts at %s in %s: %w", row.Value.ID, parts[2], err)
			}
		}
		failure = errors.Join(failure, own, c.report(ctx, row.Value, own))
	}
	return reconcile.Result{Gone: len(rows) == 0}, failure
}

// report records whether a mount target is served. As long as its VPC has no router, nobody is there who could mount.
func (c *Controller) report(ctx context.Context, t record.MountTarget, failure error) error {
	now := record.MountTargetListener{MountTargetID: t.ID, Listening: failure == nil}
	if failure != nil {
		now.Failure = record.Reason(failure.Error())
	}
	row, err := c.served.Get(ctx, t.Key())
	if err == nil && row.Value == now {
		return nil
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	_, err = c.served.Put(ctx, t.Key(), now)
	return err
}

// forget deletes the record of a mount target that has gone.
func (c *Controller) forget(ctx context.Context, key string) error {
	if _, err := c.targets.Get(ctx, key); !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if _, err := c.served.Get(ctx, key); err != nil {
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	}
	return c.o.Store.Txn(ctx, c.served.RemoveOp(key))
}

// listen opens the sockets on the given addresses of a namespace, and closes all others. It returns the errors of those
// on which it cannot listen.
func (c *Controller) listen(ctx context.Context, vpc, namespace string, identity uint64,
	wanted map[netip.Addr]bool) map[netip.Addr]error {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.open[vpc]
	if state == nil {
		state = &sockets{listeners: map[netip.Addr]net.Listener{}}
		c.open[vpc] = state
	}
	for at, l := range state.listeners {
		if !wanted[at] || state.identity != identity || c.ended {
			l.Close()
			delete(state.listeners, at)
		}
	}
	state.identity = identity
	if len(wanted) == 0 || c.ended {
		delete(c.open, vpc)
		return nil
	}
	failures := map[netip.Addr]error{}
	for at := range wanted {
		if state.listeners[at] != nil {
			continue
		}
		l, err := endpoint.Listen(ctx, namespace, "tcp", netip.AddrPortFrom(at, mountgrant.Port).String())
		if err != nil {
			failures[at] = err
			continue
		}
		limited := connlimit.New(l, connlimit.Limits{Share: "mount targets in " + vpc, PerSource: mostPerSource,
			Total: mostPerTarget})
		state.listeners[at] = limited
		c.active.Go(func() { c.accept(vpc, limited) })
	}
	return failures
}

func (c *Controller) accept(vpc string, l net.Listener) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			c.o.Log.Warn("cannot take connections to a mount target", "at", l.Addr(), "error", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		c.active.Go(func() {
			defer conn.Close()
			if err := recovery.Try(func() error { return c.serve(vpc, conn) }); err != nil {
				// Port scanners and NFS clients of another kind come here, too.
				c.o.Log.Debug("connection to a mount target", "from", conn.RemoteAddr(), "error", err)
			}
		})
	}
}

func (c *Controller) serve(vpc string, conn net.Conn) error {
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	asked, err := mountgrant.Receive(conn, func(instanceID string) ([]byte, error) {
		return mountgrant.ReadKey(filepath.Join(c.o.Machines, instanceID))
	})
	if err != nil {
		return err
	}
	return asked.Answer(conn, c.decide(ctx, vpc, addressOf(conn.LocalAddr()), addressOf(conn.RemoteAddr()), asked))
}

func addressOf(a net.Addr) netip.Addr {
	at, _ := netip.ParseAddrPort(a.String())
	return at.Addr().Unmap()
}

// close closes all sockets, and returns when nobody is served any more.
func (c *Controller) close() {
	c.mu.Lock()
	c.ended = true
	for _, state := range c.open {
		for _, l := range state.listeners {
			l.Close()
		}
	}
	clear(c.open)
	c.mu.Unlock()
	c.cancel()
	c.active.Wait()
}

// available reports whether a mount target may be used.
func (c *Controller) available(ctx context.Context, t record.MountTarget) (efstypes.LifeCycleState, error) {
	status, err := c.statuses.Get(ctx, t.Key())
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", err
	}
	return t.State(status.Value), nil
}
