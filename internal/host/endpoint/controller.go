package endpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"

	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Host keeps the process running. *process.Supervisor does.
type Host interface {
	Ensure(ctx context.Context, spec process.Spec) (process.Status, error)
}

// Options are what a Controller needs.
type Options struct {
	Store *store.Store
	Host  Host
	// Owner is the mark of the daemon, for its block in /etc/hosts.
	Owner string
	// Dir is the process's directory, on a short path because there are unix sockets in it: /run/coracle/<owner>/endpoint.
	Dir string
	// Log is the file for what the process has to say.
	LogFile string
	// Program is this program; the process is its command "endpoint".
	Program string
	// Namespace is the path of a network namespace by its name: "internet", a VPC's or a cluster's ID.
	Namespace func(name string) string
	// PublicRange is the daemon's range of public addresses. Its first /24 is infrastructure.
	PublicRange netip.Prefix
	// Changed tells that namespaces have come or gone (optional).
	Changed reconcile.Source
	Log     *slog.Logger // slog.Default() when nil
}

// Controller makes endpoints real.
type Controller struct{ o Options }

// New makes a controller; nothing happens before it is run.
func New(o Options) (*Controller, error) {
	if !o.PublicRange.IsValid() || !o.PublicRange.Addr().Is4() || o.PublicRange.Bits() > 24 {
		return nil, fmt.Errorf("the range of public addresses %s is not an IPv4 range of a /24 at least", o.PublicRange)
	}
	return &Controller{o: o}, nil
}

// Controllers are what reconcile.Run runs.
func (c *Controller) Controllers() []reconcile.Controller { return nil }

// Apply makes the endpoints of the cluster as its rows say, and returns once they are.
func (c *Controller) Apply(ctx context.Context, cluster record.Cluster) error {
	return errors.New("not yet")
}

// EgressSocket is the unix socket of the proxy through which the cluster's API server reaches its VPC.
func (c *Controller) EgressSocket(clusterID string) string {
	return filepath.Join(c.o.Dir, clusterID+".sock")
}

// PublicAddress chooses an address for a cluster's public endpoint that is not taken.
func (c *Controller) PublicAddress(taken []string) (string, error) { return "", errors.New("not yet") }
