package wire

import (
	"context"
	"log/slog"
	"net/http"
	"time"
)

// DefaultMaxBody is the largest request body that is read unless [Options] says otherwise: 10 MiB.
const DefaultMaxBody = 10 << 20

// Options configures a [Mux]. Credentials and Authorizer are required.
type Options struct {
	Credentials Credentials
	Authorizer  Authorizer
	Now         func() time.Time // time.Now unless set
	Logger      *slog.Logger     // slog.Default() unless set
	Region      string           // the region of requests without a credential scope
	MaxBody     int64            // bytes; DefaultMaxBody unless set
}

// Mux routes requests to services. Register everything before the first request; it is then safe for concurrent use.
type Mux struct {
	options Options
}

// Optional methods of a service beside its operations.
type (
	// TargetsOf names what an operation touches. Without it, or with an empty answer, a request needs "<prefix>:<Operation>" on "*".
	TargetsOf interface {
		Targets(ctx context.Context, operation string, input any) ([]Target, error)
	}
	// UnsignedOf lists operations that are served without a signature, such as AssumeRoleWithWebIdentity. They are not authorised either.
	UnsignedOf interface{ Unsigned() []string }
	// UnrestrictedOf lists operations that need a signature and no permission, such as GetCallerIdentity.
	UnrestrictedOf interface{ Unrestricted() []string }
)

// NewMux returns a Mux without services.
func NewMux(options Options) *Mux {
	return &Mux{options: options}
}

// Register serves the operations that impl has methods for. It panics when impl has an exported method that is neither an operation of the service
// nor one of the optional methods, or when a method's types are not those of the operation: wiring mistakes show at start.
func (m *Mux) Register(service *Service, impl any) {}

// Operation is an operation that the SDK knows.
type Operation struct {
	Service *Service
	Name    string
	Served  bool
}

// Operations lists every operation of every service that wire knows, by service and name.
func (m *Mux) Operations() []Operation { return nil }

// ServeHTTP answers one request. It does not route by Host or path prefix: the credential scope names the service.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	http.Error(w, "no service is registered", http.StatusServiceUnavailable)
}
