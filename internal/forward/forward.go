// Package forward sends requests for AWS services that Coracle does not serve to endpoints of the operator's, such as a
// MinIO for Amazon S3.
//
// A request is verified and authorized here, as one for a service that is served: its signature, the policies of its
// caller, the record of denials. It is then signed again with the credentials of the endpoint. Where it goes follows
// from the service in its signature alone; nothing else in a request chooses a host. What is sent is made anew from
// what was authorized, so that the endpoint reads the same operation and resource in it, and an operation that is not
// known here is refused.
//
//	endpoint.go        the endpoints that flags name
//	s3.go, s3operation.go
//	                   operations of Amazon S3: actions, resources, parameters
//	dynamodb.go, secretsmanager.go, body.go
//	                   operations of the services whose requests are JSON
//	resolve.go         questions to the endpoint before a request is authorized
//	upstream.go        the request to the endpoint, and its answer
//	chunk.go           aws-chunked, in which payloads with trailers are sent
package forward

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/aws/wire/sigv4"
	"github.com/coracle-eks/coracle/internal/s3name"
)

// Options configures a [Forwarder]. All fields must be set.
type Options struct {
	Mux       *wire.Mux
	Endpoints []Endpoint
	// Credentials returns those of an account at the endpoint of a service, and the region to sign for, which is empty
	// where it is that of the request. They are [NoCredentialsError] where the account may not use the endpoint.
	Credentials func(service, account string) (c aws.Credentials, region string, err error)
	Log         *slog.Logger
}

// NoCredentialsError reports that an account has no credentials at an endpoint.
type NoCredentialsError struct{ Remedy string }

func (e *NoCredentialsError) Error() string { return "no credentials: " + e.Remedy }

// Forwarder forwards requests.
type Forwarder struct {
	options   Options
	endpoints map[string]Endpoint // by service
	transport http.RoundTripper
}

// New returns a Forwarder.
func New(o Options) *Forwarder {
	f := &Forwarder{options: o, endpoints: map[string]Endpoint{}, transport: newTransport()}
	for _, e := range o.Endpoints {
		f.endpoints[e.Service.Name] = e
	}
	return f
}

// Find returns a handler for a request of a service that is forwarded; nil for all others.
func (f *Forwarder) Find(r *http.Request) http.HandlerFunc {
	if len(f.endpoints) == 0 {
		return nil
	}
	name := ""
	if signature, _ := sigv4.Parse(r); signature.Service != "" {
		name = signature.Service
	} else if _, isS3 := s3name.ParseHost(hostOf(r)); isS3 || sigv4.IsVersion2(r) {
		name = "s3" // says what it thinks of that
	}
	e, ok := f.endpoints[name]
	if !ok {
		return nil
	}
	return func(w http.ResponseWriter, r *http.Request) {
		f.options.Mux.Forward(w, r, e.Service.wire, func(w http.ResponseWriter, request *wire.Forwarded) error {
			return f.forward(w, request, e)
		})
	}
}

// forward authorizes a request, and answers it by the endpoint.
func (f *Forwarder) forward(w http.ResponseWriter, r *wire.Forwarded, e Endpoint) error {
	call, err := e.Service.read(r)
	if err != nil {
		return err
	}
	r.SetOperation(call.operation)
	ctx := r.Context()
	if len(call.first) > 0 {
		if err := wire.Authorize(ctx, call.first...); err != nil {
			return err
		}
	}
	at, refused := f.accessTo(ctx, e)
	if refused == nil && call.resolve != nil {
		refused = f.resolve(r, e, call, at)
	}
	if err := wire.Authorize(ctx, call.targets...); err != nil {
		return call.hideResolved(err)
	}
	if refused != nil {
		return refused
	}
	if call.encode != nil {
		if call.body, err = call.encode(); err != nil {
			return err
		}
	}
	if err := r.BeginTransfer(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // who still sends the body stops
	return f.send(ctx, w, r, e, call, at)
}

// call is what a request asks for.
type call struct {
	operation string
	targets   []wire.Target
	// first is authorized before resolve, which asks the endpoint what targets are by what the client named (optional).
	// The error of resolve is that of the request if targets, as they are then, are allowed: who may nothing learns
	// nothing of the endpoint.
	first   []wire.Target
	resolve func(context.Context, asker) error
	// resolved has what the client named, by the resource that resolve has found for it.
	resolved map[string]string
	// path is that of the request to the endpoint, decoded; query is its query.
	path  string
	query map[string][]string
	// header replaces headers of the request; those without a value are left out.
	header map[string]string
	// body replaces the payload of a request of Amazon S3 (optional), and is the body of other requests. encode makes it
	// once the request is authorized (optional).
	body   []byte
	encode func() ([]byte, error)
}

// refuse returns the error for a request that Coracle does not forward.
func refuse(format string, args ...any) error {
	return &wire.Error{Code: "NotImplemented", Message: "Coracle does not forward " + fmt.Sprintf(format, args...),
		Status: http.StatusNotImplemented}
}

// hostOf returns the name that a request was made to, in lower case.
func hostOf(r *http.Request) string {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}
