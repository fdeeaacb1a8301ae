package wire

import (
	"context"
	"iter"
	"reflect"
	"strings"
)

// Targets returns what a caller needs permission for to make a request: actions, resources and condition keys. action
// is "<prefix>:<Operation>"; a request without targets needs it on "*". The request has been validated, and nothing in
// it needs to exist: only who may ask may learn that.
type Targets[In any] func(ctx context.Context, action string, in *In) ([]Target, error)

// Handler serves one operation. [Handle] and its siblings make one, none without saying who may call the operation.
type Handler struct {
	name string // of the operation
	// func(ctx, *Input) (*Output, error), or with events (*Output, iter.Seq2[Event, error], error)
	method       reflect.Value
	targets      func(ctx context.Context, action string, input any) ([]Target, error)
	unsigned     bool
	unrestricted bool
	checksDryRun bool
}

// Handle serves the operation whose input is In with a function, to callers who have permission for the targets.
func Handle[In, Out any](run func(context.Context, *In) (*Out, error), targets Targets[In]) Handler {
	return newHandler(run, targets)
}

// HandleStream is [Handle] for an operation whose answer has a stream of events.
func HandleStream[In, Out, Event any](
	run func(context.Context, *In) (*Out, iter.Seq2[Event, error], error), targets Targets[In],
) Handler {
	return newHandler(run, targets)
}

func newHandler[In any](run any, targets Targets[In]) Handler {
	h := Handler{name: strings.TrimSuffix(reflect.TypeFor[In]().Name(), "Input"), method: reflect.ValueOf(run)}
	if targets == nil {
		panic("wire: " + h.name + " says nothing of who may call it")
	}
	h.targets = func(ctx context.Context, action string, input any) ([]Target, error) {
		return targets(ctx, action, input.(*In))
	}
	return h
}

// HandleUnrestricted serves an operation to everybody who has credentials, such as GetCallerIdentity.
func HandleUnrestricted[In, Out any](run func(context.Context, *In) (*Out, error)) Handler {
	h := newHandler(run, OnAll[In])
	h.unrestricted = true
	return h
}

// HandleUnsigned serves an operation to everybody, without a signature, such as AssumeRoleWithWebIdentity.
func HandleUnsigned[In, Out any](run func(context.Context, *In) (*Out, error)) Handler {
	h := newHandler(run, OnAll[In])
	h.unsigned = true
	return h
}

// HandleFunc serves an operation with a function whose types are known at run time only, to callers who have permission
// for the operation on "*".
func HandleFunc(operation string, function any) Handler {
	return Handler{
		name: operation, method: reflect.ValueOf(function),
		targets: func(context.Context, string, any) ([]Target, error) { return nil, nil },
	}
}

// CheckingDryRun returns h for an operation of EC2 that answers DryRunOperation itself, after its own checks. For
// others the Mux answers it before the function, once the request is authorized.
func (h Handler) CheckingDryRun() Handler {
	h.checksDryRun = true
	return h
}

// OnAll asks for permission on "*": for operations to which AWS gives no resource.
func OnAll[In any](_ context.Context, action string, _ *In) ([]Target, error) {
	return []Target{{Action: action, Resource: "*"}}, nil
}
