// Package metadata implements the instance metadata service (IMDS): it serves each instance data about itself at
// 169.254.169.254.
//
// The address belongs to the router of each VPC ([network.Network]), and the service listens there, inside the router's
// network namespace; so who asks is known by the address that the request comes from, which the network does not let
// anybody else use. Nothing is kept: each answer is made of the store's rows as they are. A session token says in
// itself whose it is and until when, under a key that is kept in the daemon's directory, so that tokens outlive the
// daemon.
//
// Its parts: serve.go listens, request.go judges a request (versions, tokens, hop limit), tree.go makes what there is
// to be read, credentials.go and identity.go the parts of it that are secret or signed.
//
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-metadata.html
package metadata

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"k8s.io/utils/clock"

	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Address is the address of the service for instances.
const Address = "169.254.169.254:80"

// SecureAddress is where the guests of Fargate machines ask, by TLS.
const SecureAddress = "169.254.169.254:443"

// Options configures a Service.
type Options struct {
	Store   *store.Store
	Network Network
	// Dir holds the keys that tokens and identity documents are signed with: <data-dir>/metadata.
	Dir string
	// Credentials are those of a role, the one that the profile of the instance holds now, in a session named after the
	// instance.
	Credentials func(ctx context.Context, instance record.Instance, role string) (aws.Credentials, error)
	// FargateCredentials are those of the pod execution role of a Fargate machine, in a session named after its node.
	FargateCredentials func(ctx context.Context, instance record.Instance) (aws.Credentials, error)
	// TLS has the certificate of SecureAddress, which Fargate machines trust. Nobody listens there when it is nil, and
	// they get no credentials.
	TLS *tls.Config
	// ZoneID is the ID of an availability zone: "euw1-az1" of eu-west-1a. Optional.
	ZoneID func(region, zone string) string
	Log    *slog.Logger // slog.Default() when nil
	Clock  clock.PassiveClock
}

// Network is network.Network, as far as the metadata service needs it.
type Network interface {
	// Listen listens inside a network namespace ("vpc-…"). The error wraps fs.ErrNotExist while there is none.
	Listen(ctx context.Context, namespace, network, address string) (net.Listener, error)
	// Identity distinguishes a namespace from a later one of the same name.
	Identity(namespace string) (uint64, error)
	// Carries reports whether the router of a VPC (EC2Key) delivers an address to that instance (EC2Key) and no other.
	Carries(vpc string, address netip.Addr, instance string) bool
	// RouterSource returns a source of the VPCs (EC2Key) whose namespace was created, changed or removed.
	RouterSource() reconcile.Source
}

// Service answers instances.
type Service struct {
	o   Options
	log *slog.Logger

	mu        sync.Mutex
	listening map[string]*listening // by key of the VPC
	closed    bool

	credentials cache
	secret      secret
}

// New makes a service; nothing happens before its controllers run.
func New(o Options) *Service {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.ZoneID == nil {
		o.ZoneID = func(string, string) string { return "" }
	}
	return &Service{o: o, log: o.Log, listening: map[string]*listening{}, secret: secret{dir: o.Dir}}
}

// Controllers returns the controllers of the service: it listens wherever there is a VPC.
func (s *Service) Controllers() []reconcile.Controller {
	return []reconcile.Controller{{
		Name:      "metadata",
		Reconcile: s.reconcile,
		Sources: []reconcile.Source{reconcile.Table(record.VPCs(s.o.Store), ""), s.o.Network.RouterSource(),
			s.closeServers},
		Resync: time.Minute,
	}}
}
