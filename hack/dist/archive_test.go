package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/upstream"
	"github.com/coracle-eks/coracle/kubernetes"
	"github.com/coracle-eks/coracle/node"
)

// writeBuilt writes a directory of what was built, in which every program is a line with its name.
func writeBuilt(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	v, ok := kubernetes.Lookup(kubernetes.Default)
	if !ok {
		t.Fatal("the default version does not exist")
	}
	bundle := "bundles/v" + v.Minor
	files := map[string]string{
		"coracle": "coracle", bundle + "/kube": "kube", bundle + "/version": v.GitVersion() + "\n",
		"node/version": node.Version() + "\n", "node/image/node-image.tar.zst": "image", "node/image/version": "image\n",
		"node/10-aws.conflist": "10-aws.conflist", "node/.lock": "", "node/components/x/v1/x": "x",
		"bundles/v1.1/kube": "of another version",
	}
	for name := range node.Programs() {
		files["node/"+name] = name
	}
	for name := range upstream.OwnPrograms {
		files["node/"+name] = name
	}
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		mode := os.FileMode(0o755)
		if strings.Contains(name, "version") || strings.Contains(name, "image/") || strings.Contains(name, "conflist") {
			mode = 0o644
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// An archive has the same bytes whenever and wherever it is made, and coracle finds in it what it needs.
func TestArchive(t *testing.T) {
	t.Parallel()
	var archives [][]byte
	var path string
	for range 2 {
		d := distribution{version: "v1.2.3", architecture: "amd64", built: writeBuilt(t), time: time.Unix(1e9, 0),
			minors: []string{kubernetes.Default}}
		files, err := d.collect()
		if err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(t.TempDir(), "archive.tar.gz")
		if err := d.writeArchive(t.Context(), path, files); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, content)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same files differ")
	}

	// As users do.
	home := t.TempDir()
	if out, err := exec.Command("tar", "xzf", path, "-C", home).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	home = filepath.Join(home, "coracle-v1.2.3-linux-amd64")
	var names []string
	for _, pattern := range []string{"*", "*/*", "*/*/*"} {
		found, err := filepath.Glob(filepath.Join(home, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			names = append(names, strings.TrimPrefix(f, home+"/"))
		}
	}
	bundle := "bundles/v" + kubernetes.Default
	for _, want := range []string{"coracle", bundle + "/kube.zst", bundle + "/version", "node/containerd.zst",
		"node/10-aws.conflist.zst", "node/coracle-node", "node/coracle-csi", "node/version", "node/image/node-image.tar.zst",
		"node/image/version"} {
		if !slices.Contains(names, want) {
			t.Errorf("the archive has no %s: %v", want, names)
		}
	}
	for _, unwanted := range []string{bundle + "/kube", "node/containerd", "node/components", "bundles/v1.1"} {
		if slices.Contains(names, unwanted) {
			t.Errorf("the archive has %s", unwanted)
		}
	}
	kube, err := upstream.BundlesIn(filepath.Join(home, "bundles")).Find(kubernetes.Default)
	check := func(path, want string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil || string(content) != want {
			t.Errorf("%s has %q, %v; want %q", path, content, err, want)
		}
		if info, err := os.Stat(path); err != nil || !info.ModTime().Equal(time.Unix(1e9, 0)) {
			t.Errorf("%s is not of the time of the commit: %v, %v", path, info.ModTime(), err)
		}
	}
	check(kube, "kube", err)
	programs := upstream.NodeProgramsIn(filepath.Join(home, "node"))
	for _, name := range []string{"containerd", "10-aws.conflist", "coracle-node"} {
		path, err := programs.Path(name)
		check(path, name, err)
	}
}
