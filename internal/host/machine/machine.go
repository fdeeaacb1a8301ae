// Package machine makes EC2 instances of Linux namespaces.
package machine

import (
	"context"
	"log/slog"

	"github.com/coracle-eks/coracle/internal/guest/rootfs"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Options are what a Controller needs.
type Options struct {
	Store *store.Store
	Owner string // datadir.Dir.Owner
	Dir   string // <data-dir>/machines: a directory for each instance
	// Processes runs the machines, and Subscribe tells what happens to them, as for control planes.
	Processes Processes
	Subscribe func(func(process.Event)) (cancel func())
	Network   Network
	// Images is what machines of an AMI are made of. Its errors are the user's: they become the instance's state reason.
	Images func(ctx context.Context, instance record.Instance) (Image, error)
	Log    *slog.Logger // slog.Default() when nil
}

// Processes is process.Supervisor, as far as machines need it.
type Processes interface {
	Ensure(ctx context.Context, spec process.Spec) (process.Status, error)
	Stop(ctx context.Context, name string) error
	List(prefix string) []process.Status
}

// Network is network.Network, as far as machines need it.
type Network interface {
	// Plugged reports whether all network interfaces of an instance are in its namespace and eth0 is configured.
	Plugged(instanceID string) (bool, error)
	// Namespace is the path of a network namespace; a machine's is named by its instance ID.
	Namespace(name string) string
	// Source tells the EC2Keys of instances for which Plugged may have changed.
	Source() reconcile.Source
}

// Image is what a machine is made of.
type Image struct {
	// Name names a version of the skeleton: what has the same name has the same content.
	Name string
	// Write makes dir the skeleton: the lower layer of root file systems (rootfs.Write).
	Write func(dir string) error
	// Mounts are the programs and directories that are bind-mounted over a skeleton in dir (rootfs.Mounts).
	Mounts func(dir string) ([]rootfs.Mount, error)
	// Containerd is a directory whose files each machine has hard-linked as its /var/lib/containerd when it is new; nil: it begins empty.
	Containerd func(ctx context.Context) (dir string, err error)
	// Node is coracle-node on the host.
	Node string
}

// Controller keeps machines as their instances want them.
// namePrefix is that of the processes that stand for machines; the instance ID follows.
const namePrefix = "machine/"

type Controller struct{ o Options }

// New makes a controller; nothing happens before it is run.
func New(o Options) *Controller {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Controller{o: o}
}

// Controllers is what reconcile.Run runs.
func (c *Controller) Controllers() []reconcile.Controller { return nil }

// Remove removes the cgroups, mounts and run directory of an owner's machines, whose processes have ended (process.Kill), for
// "coracle reset"; it needs neither a daemon nor a store. It returns what was removed.
func Remove(owner string) (removed []string, err error) { return nil, nil }
