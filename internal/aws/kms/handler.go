package kms

import (
	"context"
	"errors"

	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// handle serves an operation whose targets cannot be found where a request is malformed: what is wrong with it is only
// said to callers who have permission for the operation on all keys. Others have no access, as with a key that does not
// exist.
func handle[In, Out any](run func(context.Context, *In) (*Out, error), targets wire.Targets[In]) wire.Handler {
	return wire.Handle(
		func(ctx context.Context, in *In) (*Out, error) {
			if _, err := targets(ctx, "", in); isMalformed(err) {
				return nil, err
			}
			return run(ctx, in)
		},
		func(ctx context.Context, action string, in *In) ([]wire.Target, error) {
			found, err := targets(ctx, action, in)
			if isMalformed(err) {
				return wire.OnAll(ctx, action, in)
			}
			return found, err
		})
}

// isMalformed reports whether an error is the fault of the client.
func isMalformed(err error) bool {
	var api smithy.APIError
	return errors.As(err, &api) && api.ErrorFault() == smithy.FaultClient
}
