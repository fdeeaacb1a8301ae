package daemon

import (
	"context"
	"errors"
	"io"

	"github.com/coracle-eks/coracle/internal/datadir"
)

// Demo walks through what works.
func Demo(ctx context.Context, w io.Writer, dir datadir.Dir, name string, keep bool) error {
	return errors.New("the tour is not written yet")
}
