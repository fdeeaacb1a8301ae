package image

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/coracle-eks/coracle/internal/host/machine/machinetest"
	"github.com/coracle-eks/coracle/internal/testenv"
)

func TestToolsOfFileSystemsAreInTheNodeImage(t *testing.T) {
	t.Parallel()
	testenv.NeedsSetup(t)
	root, err := machinetest.Base()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := filesystemsLayer(root)
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]bool{}
	for _, e := range entries {
		paths[e.Path] = true
		if _, err := os.Stat(e.Source); e.Source != "" && err != nil {
			t.Error(err)
		}
	}
	for _, e := range entries {
		if e.Link != "" && !paths[filepath.Join(filepath.Dir(e.Path), e.Link)] && e.Path != "etc/mtab" {
			t.Errorf("%s leads to %s, which is not there", e.Path, e.Link)
		}
	}
}
