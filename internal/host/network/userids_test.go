//go:build linux

package network

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/coracle-eks/coracle/internal/host/usernamespace"
)

// newOwner returns an owner whose namespaces are removed at the end of the test.
func newOwner(t *testing.T) string {
	t.Helper()
	if err := usernamespace.Check(t.TempDir()); err != nil {
		t.Skip("user namespaces:", err)
	}
	owner := fmt.Sprintf("%016x", rand.Uint64())
	t.Cleanup(func() {
		if _, err := Remove(owner); err != nil {
			t.Errorf("remove: %v", err)
		}
	})
	return owner
}

func TestMachinesHaveUserIDsOfTheirOwn(t *testing.T) {
	t.Parallel()
	owners := []string{newOwner(t), newOwner(t)}
	var (
		mu     sync.Mutex
		seen   = map[uint32]string{}
		making sync.WaitGroup
	)
	for i := range 20 {
		making.Go(func() {
			owner, holder := owners[i%2], fmt.Sprintf("i-%d", i)
			for range 2 { // the second finds everything there
				if err := makeHolder(t.Context(), owner, holder, true); err != nil {
					t.Error(err)
				}
			}
			id, err := readUserID(userIDFile(owner, holder))
			mu.Lock()
			defer mu.Unlock()
			if err != nil || id == 0 || seen[id] != "" {
				t.Errorf("%s has the IDs from %d (%v), as has %q", holder, id, err, seen[id])
			}
			seen[id] = holder
		})
	}
	making.Wait()
	f, err := os.Open(NamespacePath(owners[0], "i-0"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	namespace, err := usernamespace.Of(f)
	if err != nil || namespace == nil {
		t.Fatalf("the network namespace belongs to %v, %v", namespace, err)
	}
	namespace.Close()
}

func TestUserIDsLiveAsLongAsTheNamespace(t *testing.T) {
	t.Parallel()
	owner := newOwner(t)
	id := func() uint32 {
		t.Helper()
		id, err := readUserID(userIDFile(owner, "i-1"))
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	make := func(user bool) {
		t.Helper()
		if err := makeHolder(t.Context(), owner, "i-1", user); err != nil {
			t.Fatal(err)
		}
	}
	claimed, err := claimUserID(t.Context(), owner, "i-1") // and then the daemon is killed
	if err != nil {
		t.Fatal(err)
	}
	make(true)
	if id() != claimed {
		t.Errorf("the range is that from %d after a crash, want that from %d", id(), claimed)
	}
	if err := removeNamespace(NamespacePath(owner, "i-1")); err != nil { // as a reboot of the host does
		t.Fatal(err)
	}
	make(true)
	if id() != claimed {
		t.Errorf("the range is that from %d after a reboot, want that from %d", id(), claimed)
	}
	if err := removeNamespace(NamespacePath(owner, "i-1")); err != nil {
		t.Fatal(err)
	}
	make(false)
	if id() != 0 {
		t.Errorf("a namespace of the host's has the range from %d", id())
	}
	make(true)
	if id() != 0 {
		t.Errorf("a namespace that stays as it is has the range from %d", id())
	}
	if err := removeHolder(owner, "i-1"); err != nil {
		t.Fatal(err)
	}
	make(true)
	if err := removeHolder(owner, "i-1"); err != nil {
		t.Fatal(err)
	}
	if id() != 0 {
		t.Errorf("the range from %d was not given back", id())
	}
}

func TestDelegatedRangesAreLeftOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const second = usernamespace.First + usernamespace.Size
	subuid := fmt.Sprintf("ann:100000:65536\nbob:%d:2\n# a comment\nbroken:x:y\n", second-1)
	if err := os.WriteFile(filepath.Join(dir, "subuid"), []byte(subuid), 0o644); err != nil {
		t.Fatal(err)
	}
	used, err := delegated(filepath.Join(dir, "subuid"), filepath.Join(dir, "subgid"))
	if err != nil || len(used) != 2 || !used[usernamespace.First] || !used[second] {
		t.Errorf("in use are %v, %v", used, err)
	}
}
