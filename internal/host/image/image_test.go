package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"

	"github.com/coracle-eks/coracle/internal/host/machine/machinetest"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/internal/upstream"
	"github.com/coracle-eks/coracle/kubernetes"
)

const region = "eu-west-1"

// open makes a registry with the programs that were built.
func open(t testing.TB, o Options) *Registry {
	t.Helper()
	repository, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	o.Region, o.CA = region, []byte("the daemon's authority\n")
	sum := sha256.Sum256([]byte(o.Dir))
	o.Owner = hex.EncodeToString(sum[:8])
	t.Cleanup(func() {
		if err := os.Remove(filepath.Join("/run/coracle", o.Owner)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("left behind: %v", err)
		}
	})
	o.Programs = upstream.NodeProgramsIn(filepath.Join(repository, "bin/node"))
	o.Bundles = upstream.BundlesIn(filepath.Join(repository, "bin/bundles"))
	if dir := os.Getenv(upstream.EnvNode); dir != "" {
		o.Programs = upstream.NodeProgramsIn(dir)
	}
	if dir := os.Getenv(upstream.EnvBundles); dir != "" {
		o.Bundles = upstream.BundlesIn(dir)
	}
	o.Base = func(context.Context) (string, error) { return machinetest.Base() }
	r, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close the registry: %v", err)
		}
	})
	return r
}

func TestImagesOfEKSAreAssembledAndUnpacked(t *testing.T) {
	t.Parallel()
	testenv.NeedsSetup(t)
	r := open(t, Options{})
	if err := r.Assemble(t.Context(), kubernetes.Default); err != nil {
		t.Fatal(err)
	}
	digests := func(r *Registry) map[string]string {
		t.Helper()
		all, err := r.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found := make(map[string]string)
		for _, image := range all {
			for _, tag := range image.Tags {
				found[image.Repository+":"+tag] = image.Digest
			}
		}
		return found
	}
	first := digests(r)
	references := slices.Sorted(func(yield func(string) bool) {
		for _, reference := range References(region, kubernetes.Default) {
			if !yield(reference) {
				return
			}
		}
	})
	for _, reference := range append(references, Agnhost) {
		if first[reference] == "" {
			t.Errorf("there is no %s among %v", reference, first)
		}
	}
	if v, _ := kubernetes.Lookup(kubernetes.Default); !slices.Contains(references, Host(region)+"/eks/kube-proxy:v"+
		v.Patch()+"-minimal-eksbuild.1") {
		t.Errorf("kube-proxy is not of the version of the cluster: %v", references)
	}

	t.Run("again and elsewhere they are the same", func(t *testing.T) {
		if err := r.Assemble(t.Context(), kubernetes.Default); err != nil {
			t.Fatal(err)
		}
		elsewhere := open(t, Options{})
		if err := elsewhere.Assemble(t.Context(), kubernetes.Default); err != nil {
			t.Fatal(err)
		}
		for reference, digest := range digests(elsewhere) {
			if first[reference] != digest {
				t.Errorf("%s is %s here and %s there", reference, first[reference], digest)
			}
		}
	})

	t.Run("unpacked for machines", func(t *testing.T) {
		testenv.NeedsRoot(t)
		dir, err := r.Golden(t.Context(), references)
		if err != nil {
			t.Fatal(err)
		}
		again, err := r.Golden(t.Context(), append(references, references[0]))
		if err != nil || again != dir {
			t.Errorf("again it is %s, %v; want %s", again, err, dir)
		}
		for _, file := range []string{"app/aws-k8s-agent", "app/10-aws.conflist", "init/aws-vpc-cni-init", "pause",
			"coredns", "usr/local/bin/kube-proxy", "usr/libexec/kubernetes/kube-proxy", "usr/sbin/xtables-nft-multi",
			"etc/ssl/certs/ca-certificates.crt"} {
			found, err := filepath.Glob(filepath.Join(dir, "io.containerd.snapshotter.v1.overlayfs/snapshots/*/fs",
				file))
			if err != nil || len(found) != 1 {
				t.Errorf("%s is unpacked at %v, %v", file, found, err)
			}
		}
		err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err == nil && info.Sys().(*syscall.Stat_t).Nlink > 1 {
				t.Errorf("%s is a file of the host as well", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(r.scratchDir()); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil || strings.Contains(string(mounts), r.options.Dir) {
			t.Errorf("something is still mounted, or %v", err)
		}
		if _, err := r.Golden(t.Context(), []string{Host(region) + "/eks/missing:v1"}); err == nil ||
			!strings.Contains(err.Error(), "eks/missing:v1") {
			t.Errorf("an image that is not there: %v", err)
		}
	})
}

func TestAssembleNeedsThePrograms(t *testing.T) {
	t.Parallel()
	r := open(t, Options{})
	r.options.Programs = upstream.NodeProgramsIn(t.TempDir())
	if err := r.Assemble(t.Context(), kubernetes.Default); !errors.Is(err, upstream.ErrNotBuilt) {
		t.Errorf("without programs: %v", err)
	}
	if err := r.Assemble(t.Context(), "1.12"); err == nil || !strings.Contains(err.Error(), "1.12") {
		t.Errorf("of an unknown version: %v", err)
	}
}

func TestWhatIsDeletedGivesItsSpaceBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := open(t, Options{Dir: dir})
	var archive bytes.Buffer
	keep, drop := randomImage(t), randomImage(t)
	if err := writeLayout(&archive, map[string]v1.Image{"quay.io/team/keep:v1": keep,
		"quay.io/team/drop:v1": drop}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Load(t.Context(), &archive, nobody{}); err != nil {
		t.Fatal(err)
	}
	blobs := func() int {
		found, err := filepath.Glob(filepath.Join(dir, "registry/docker/registry/v2/blobs/sha256/*/*/data"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	before := blobs()
	if err := r.DeleteImage(t.Context(), "quay.io/team/drop", hash(t, drop), nil); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(dir, "golden", "old")
	if err := os.MkdirAll(old, 0o755); err != nil {
		t.Fatal(err)
	}
	yesterday := time.Now().Add(-goldenUnused - time.Hour)
	if err := os.Chtimes(old, yesterday, yesterday); err != nil {
		t.Fatal(err)
	}

	again := open(t, Options{Dir: dir})
	if after := blobs(); after != before/2 {
		t.Errorf("%d blobs of %d are left, want half", after, before)
	}
	if image, err := again.loadImage(t.Context(), "quay.io/team/keep:v1"); err != nil ||
		hash(t, image) != hash(t, keep) {
		t.Errorf("the other image: %v", err)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an unused golden directory is still there: %v", err)
	}
}

func randomImage(t *testing.T) v1.Image {
	t.Helper()
	image, err := random.Image(300, 2)
	if err != nil {
		t.Fatal(err)
	}
	return image
}
