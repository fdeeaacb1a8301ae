package machinetest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/coracle-eks/coracle/internal/filelock"
	"github.com/coracle-eks/coracle/internal/nodeimage"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/internal/upstream"
)

// Base returns the directory with the files of the node image that "make node" has built. It is one for all tests, in
// bin/test, and stays there.
var Base = sync.OnceValues(func() (string, error) {
	image, err := upstream.OpenNodePrograms(upstream.Options{Dir: cmp.Or(os.Getenv(upstream.EnvNode),
		filepath.Join(testenv.Root(), "bin/node"))}).Image()
	if err != nil {
		return "", fmt.Errorf("run \"make node\": %w", err)
	}
	dir := filepath.Join(testenv.Root(), "bin/test/node-image")
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	unlock, err := filelock.Lock(context.Background(), dir+".lock", func() {})
	if err != nil {
		return "", err
	}
	defer unlock()
	return nodeimage.Unpack(image, dir)
})
