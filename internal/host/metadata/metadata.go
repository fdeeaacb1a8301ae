// Package metadata is the instance metadata service (IMDS): it answers on 169.254.169.254 inside every VPC.
package metadata

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Options are what a Service needs.
type Options struct {
	Store   *store.Store
	Network Network
	// Dir holds the key that identity documents are signed with: <data-dir>/metadata.
	Dir string
	// Credentials are those of the role of an instance's profile, in a session named after the instance, and when they end.
	// The role's name is that which the profile holds now.
	Credentials func(ctx context.Context, instance record.Instance, role string) (aws.Credentials, error)
	Log         *slog.Logger // slog.Default() when nil
}

// Network is network.Network, as far as the metadata service needs it.
type Network interface {
	// Namespace is the path of a network namespace ("vpc-…").
	Namespace(name string) string
	// Listen listens inside a network namespace.
	Listen(ctx context.Context, namespace, network, address string) (net.Listener, error)
}

// Service answers instances.
type Service struct{ o Options }

// New makes a service; nothing happens before its controllers run.
func New(o Options) *Service {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Service{o: o}
}

// Controllers is what reconcile.Run runs: it listens wherever there is a VPC.
func (s *Service) Controllers() []reconcile.Controller { return nil }

var _ = time.Second
