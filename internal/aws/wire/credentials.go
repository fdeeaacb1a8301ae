package wire

import (
	"context"
	"errors"
)

// Credentials knows the access keys.
type Credentials interface {
	// Lookup returns the secret of an access key and who it belongs to. sessionToken is what the request carried, or
	// empty. It returns ErrUnknownAccessKey for a key that does not exist, is inactive or does not fit the token, and
	// ErrExpiredToken for temporary credentials past their time. Any other error is an internal failure.
	Lookup(ctx context.Context, accessKeyID, sessionToken string) (secret string, caller Caller, err error)
}

// Errors of [Credentials].
var (
	ErrUnknownAccessKey = errors.New("the access key does not exist or is not active")
	ErrExpiredToken     = errors.New("the temporary credentials have expired")
)
