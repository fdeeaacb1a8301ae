//go:build linux

package network

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/coracle-eks/coracle/internal/testenv"
)

func TestNamespacesMadeAtOnceAreAllThere(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	for range 5 {
		owner := fmt.Sprintf("%016x", rand.Uint64())
		defer Remove(owner)
		var wait sync.WaitGroup
		for i := range 8 {
			wait.Go(func() {
				if made, err := makeNamespace(NamespacePath(owner, fmt.Sprint(i))); !made || err != nil {
					t.Errorf("made %v, %v", made, err)
				}
			})
		}
		wait.Wait()
		seen := map[uint64]bool{}
		for i := range 8 {
			id, err := Identity(NamespacePath(owner, fmt.Sprint(i)))
			if err != nil || seen[id] {
				t.Errorf("namespace %d: %v", i, err)
			}
			seen[id] = true
		}
		mounts, err := os.ReadFile("/proc/self/mounts")
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(mounts), " /run/coracle/"+owner+"/netns "); n != 1 {
			t.Errorf("the directory is mounted %d times", n)
		}
		if made, err := makeNamespace(NamespacePath(owner, "0")); made || err != nil {
			t.Errorf("once more: made %v, %v", made, err)
		}
	}
	if err := In("/run/coracle/nobody/netns/nothing", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a namespace that is not there: %v", err)
	}
}
