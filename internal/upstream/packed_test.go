package upstream

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// packedVersion is the version of what writePacked writes.
const packedVersion = "v1.35.4-eks-packed0"

// packedTime is its time.
var packedTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// writePacked writes a bundle as the archive of "make dist" has it, with a file of data beside the program.
func writePacked(t *testing.T, bundles string) (dir string) {
	t.Helper()
	dir = filepath.Join(bundles, "v1.35")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for name, mode := range map[string]fs.FileMode{"kube": 0o755, "data": 0o644} {
		path := filepath.Join(dir, name+PackedSuffix)
		if err := os.WriteFile(path, z.EncodeAll(contentOf(name), nil), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, packedTime, packedTime); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, versionName), []byte(packedVersion+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func contentOf(name string) []byte { return []byte(strings.Repeat("this is "+name+"\n", 10000)) }

// checkUnpacked checks that a directory has what writePacked packed, and nothing else.
func checkUnpacked(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != ".lock data kube version" {
		t.Errorf("%s has %s", dir, got)
	}
	for name, mode := range map[string]fs.FileMode{"kube": 0o755, "data": 0o644} {
		path := filepath.Join(dir, name)
		content, err := os.ReadFile(path)
		if err != nil || string(content) != string(contentOf(name)) {
			t.Errorf("%s has %d bytes, %v", path, len(content), err)
			continue
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode() != mode || !info.ModTime().Equal(packedTime) {
			t.Errorf("%s has mode %v and time %v, %v", path, info.Mode(), info.ModTime(), err)
		}
	}
}

// What is packed is unpacked where it is, once, whoever looks for it first.
func TestPackedProgramsAreUnpackedInTheirPlace(t *testing.T) {
	t.Parallel()
	bundles := filepath.Join(t.TempDir(), "coracle [1]")
	dir := writePacked(t, bundles)
	a := tiny("1.35", packedVersion).artifact()
	var wg sync.WaitGroup
	for range 2 {
		c := newCacheIn(bundles, EnvBundles)
		for range 5 {
			wg.Go(func() {
				path, err := c.ensureBuilt(t.Context(), a, nil)
				if want := filepath.Join(dir, "kube"); err != nil || path != want {
					t.Errorf("Ensure = %q, %v, want %s", path, err, want)
				}
			})
		}
	}
	wg.Wait()
	checkUnpacked(t, dir)
	path, err := newCacheIn(bundles, EnvBundles).findFile(a, "data")
	if err != nil || path != filepath.Join(dir, "data") {
		t.Errorf("the data is at %q, %v", path, err)
	}
}

// A crash may leave a part of everything: it is unpacked again.
func TestUnpackingIsDoneAgainAfterACrash(t *testing.T) {
	t.Parallel()
	bundles := t.TempDir()
	dir := writePacked(t, bundles)
	for _, name := range []string{workPattern + "1/kube", "kube"} {
		writeProgram(t, filepath.Join(dir, name), 0o755)
	}
	path, err := newCacheIn(bundles, EnvBundles).findFirst(tiny("1.35", packedVersion).artifact())
	if err != nil || path != filepath.Join(dir, "kube") {
		t.Errorf("Find = %q, %v", path, err)
	}
	checkUnpacked(t, dir)
}

func TestPackedProgramsOfAnotherVersionAreLeftAlone(t *testing.T) {
	t.Parallel()
	bundles := t.TempDir()
	dir := writePacked(t, bundles)
	_, err := newCacheIn(bundles, EnvBundles).findFirst(tiny("1.35", "v1.35.5").artifact())
	if !errors.Is(err, ErrNotBuilt) || !strings.Contains(err.Error(), packedVersion) {
		t.Errorf("error is %v, want ErrNotBuilt with %s", err, packedVersion)
	}
	if _, err := os.Stat(filepath.Join(dir, "kube")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was unpacked: %v", err)
	}
}

func TestDamagedProgramsAreRefused(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(packed []byte) []byte{
		"a byte": func(packed []byte) []byte {
			packed[len(packed)-1] ^= 1 // of the checksum
			return packed
		},
		"the end":   func(packed []byte) []byte { return packed[:len(packed)-5] },
		"the start": func(packed []byte) []byte { return packed[1:] },
		"all":       func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bundles := t.TempDir()
			dir := writePacked(t, bundles)
			packed := filepath.Join(dir, "kube"+PackedSuffix)
			content, err := os.ReadFile(packed)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(packed, damage(content), 0o755); err != nil {
				t.Fatal(err)
			}
			a := tiny("1.35", packedVersion).artifact()
			_, err = newCacheIn(bundles, EnvBundles).ensureBuilt(t.Context(), a, nil)
			if err == nil || !strings.Contains(err.Error(), packed) || !strings.Contains(err.Error(), "is damaged") {
				t.Errorf("error is %v, want one that says that %s is damaged", err, packed)
			}
			for _, name := range []string{"kube", "data"} {
				if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("there is %s: %v", name, err)
				}
			}
			if left := leftovers(t, bundles, "1.35"); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
