package image

import (
	"context"

	"github.com/coracle-eks/coracle/internal/turn"
)

// maxTurns is the number of images that are fetched at a time for one source of requests, and of its requests for a
// manifest that are served, which hold some 20 MiB each. Its other requests wait.
const maxTurns = 4

// maxDecoding is the number of manifests that the library decodes at a time for requests of all sources.
const maxDecoding = 32

// acquireTurn waits for a turn of a source. The daemon's own requests have no source, and do not wait.
func acquireTurn(ctx context.Context, turns *turn.Places, source string) (end func(), err error) {
	if source == "" {
		return func() {}, nil
	}
	_, end, err = turns.Acquire(ctx, source)
	return end, err
}
