//go:build linux

package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/host/filetree"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// A machine can have made so many files that their removal takes hours. Its directory gets another name first, which is
// done at once, and a controller of its own removes it: others are launched and terminated meanwhile.

// turn is the time for which one directory is removed. Other accounts have their turns then.
const turn = time.Minute

// hiddenPrefix is that of the names of directories that are being removed. The account and the instance ID follow.
const hiddenPrefix = "deleted-"

// hiddenDir returns the name that the directory of a machine has while it is removed.
func (c *Controller) hiddenDir(key, id string) string {
	return filepath.Join(c.o.Dir, hiddenPrefix+store.Parts(key)[0]+"-"+id)
}

// removalKey returns the key of a removal. An earlier daemon's directory has no region in its name.
func removalKey(account, id string) string { return record.EC2Key(account, "", id) }

// removeMachine stops a machine and has its directory removed. It reports whether nothing is left; when something is,
// the key is reconciled again as soon as it has been removed.
func (c *Controller) removeMachine(ctx context.Context, key, id string) (removed bool, err error) {
	dir, hidden := c.machineDir(id), c.hiddenDir(key, id)
	exists, err := isThere(dir)
	if err != nil {
		return false, err
	}
	if exists || len(c.o.Processes.List(namePrefix+id)) > 0 {
		if err := c.stopProcess(ctx, id); err != nil {
			return false, err
		}
		c.files.remove(dir)
		crashDiscarding.Here()
	}
	left, err := isThere(hidden)
	if err != nil {
		return false, err
	}
	if exists && !left {
		if err := os.Rename(dir, hidden); err != nil {
			return false, fmt.Errorf("hide the disk of %s: %w", id, err)
		}
		crashHidden.Here()
		left = true
	}
	if !left {
		return true, nil
	}
	select {
	case c.hidden <- removalKey(store.Parts(key)[0], id):
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return false, nil
}

func isThere(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// hiddenLeftovers sends the keys of machines whose removal an earlier daemon has begun.
func (c *Controller) hiddenLeftovers(ctx context.Context, changed func(string)) {
	entries, _ := os.ReadDir(c.o.Dir)
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), hiddenPrefix)
		if account, id, both := strings.Cut(name, "-"); ok && both {
			changed(removalKey(account, id))
		}
	}
	<-ctx.Done()
}

// reconcileRemoval removes the directory of a machine, and has the machine reconciled then.
func (c *Controller) reconcileRemoval(ctx context.Context, key string) (reconcile.Result, error) {
	parts := store.Parts(key)
	id := parts[len(parts)-1]
	err := filetree.RemoveAllContext(ctx, c.hiddenDir(key, id), func(int) error { return nil })
	if err != nil && ctx.Err() != nil { // there is more than a turn removes
		return reconcile.Result{After: time.Second}, nil //nolint:nilerr // the next turn goes on
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("remove the disk of %s: %w", id, err)
	}
	if known, ok := c.keys.Load(id); ok { // others are found by the resync
		select {
		case c.removed <- known.(string):
		case <-ctx.Done():
		}
	}
	return reconcile.Result{Gone: true}, nil
}
