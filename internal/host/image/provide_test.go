package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/internal/upstream"
	"github.com/coracle-eks/coracle/kubernetes"
)

// beacon returns an image of a small component.
func beacon() catalog.Image {
	return catalog.Image{
		Reference: Host(region) + "/eks/beacon:v0.7.0-eksbuild.1",
		Build: &catalog.Build{
			Component: "beacon", Module: "github.com/google/go-cmp", Version: "v0.7.0",
			Sum:      "h1:wk8382ETsv4JYUZwIsn6YpYiWiBsYLSJiTsyBybVuN8=",
			Programs: map[string]string{"beacon": "./cmd/beacon"},
			Files: map[string][]byte{
				"cmd/beacon/main.go": []byte("package main\n\nfunc main() { println(\"light\") }\n")},
		},
		Recipe: catalog.Recipe{
			Files:      map[string]string{"/bin/beacon": "beacon", "/bin/pause": "node:pause"},
			Entrypoint: []string{"/bin/beacon"}, User: "65532", Ports: []string{"8080/tcp"},
		},
	}
}

func TestProvideBuildsAnImage(t *testing.T) {
	t.Parallel()
	n := newInternet()
	r := open(t, Options{Transport: n, Components: upstream.ComponentsIn(t.TempDir())})
	var all sync.WaitGroup
	for range 3 { // they wait for one build
		all.Go(func() {
			if err := r.Provide(t.Context(), beacon()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	digest := func(reference string) string {
		t.Helper()
		image, err := r.loadImage(t.Context(), reference)
		if err != nil {
			t.Fatal(err)
		}
		return hash(t, image)
	}
	image, err := r.loadImage(t.Context(), beacon().Reference)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got := config.Config; strings.Join(got.Entrypoint, " ") != "/bin/beacon" || got.User != "65532" ||
		len(got.ExposedPorts) != 1 {
		t.Errorf("its configuration is %+v", got)
	}
	first := digest(beacon().Reference)
	if err := r.Provide(t.Context(), beacon()); err != nil || digest(beacon().Reference) != first {
		t.Errorf("again: %v, %s; want %s", err, digest(beacon().Reference), first)
	}
	if n.asked.Load() > 0 {
		t.Error("a public registry was asked")
	}

	t.Run("what is built does not wait for what is not", func(t *testing.T) {
		r.making <- struct{}{} // another is being built
		defer func() { <-r.making }()
		again := beacon()
		again.Reference += "0"
		if err := r.Provide(t.Context(), again); err != nil || digest(again.Reference) != first {
			t.Errorf("%v, %s; want %s", err, digest(again.Reference), first)
		}
	})

	t.Run("what it is made of has changed", func(t *testing.T) {
		changed := beacon()
		changed.Build.Files = map[string][]byte{
			"cmd/beacon/main.go": []byte("package main\n\nfunc main() { println(\"dark\") }\n")}
		if err := r.Provide(t.Context(), changed); err != nil || digest(changed.Reference) == first {
			t.Errorf("%v, it is still %s", err, first)
		}
	})

	t.Run("it does not compile", func(t *testing.T) {
		broken := beacon()
		broken.Reference += "1"
		broken.Build.Component = "broken"
		broken.Build.Files = map[string][]byte{
			"cmd/beacon/main.go": []byte("package main\n\nfunc main() { undefined() }\n")}
		if err := r.Provide(t.Context(), broken); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(),
			"undefined: undefined") {
			t.Errorf("%v", err)
		}
		broken.Public = "docker.io/library/beacon:v1"
		want := hash(t, n.push(t, broken.Public))
		if err := r.Provide(t.Context(), broken); err != nil || digest(broken.Reference) != want {
			t.Errorf("with a public image: %v", err)
		}
	})
}

func TestABuildOutlivesWhoAskedForIt(t *testing.T) {
	t.Parallel()
	r := open(t, Options{Components: upstream.ComponentsIn(t.TempDir())})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Provide(ctx, beacon()); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	r.providing.Lock()
	p := r.provisions[beacon().Reference]
	r.providing.Unlock()
	if p == nil {
		t.Fatal("the build has ended")
	}
	<-p.done
	if there, err := r.hasReference(t.Context(), beacon().Reference); err != nil || !there {
		t.Errorf("%v, %v", there, err)
	}
}

func TestProvideFetchesAnImage(t *testing.T) {
	t.Parallel()
	n := newInternet()
	r := open(t, Options{Transport: n})
	image := catalog.Image{Reference: Host(region) + "/eks/buoy:v1.2.3-eksbuild.1",
		Public: "registry.k8s.io/buoy/buoy:v1.2.3"}
	want := hash(t, n.push(t, image.Public))
	n.cut.Store(true)
	err := r.Provide(t.Context(), image)
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(),
		"registry.k8s.io cannot be reached from here") || !strings.Contains(err.Error(), "coracle images load FILE") {
		t.Fatalf("without a network: %v", err)
	}
	n.cut.Store(false)
	r.unreached.recordError("registry.k8s.io", nil) // forgotten
	if err := r.Provide(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	if status, _, body := get(t, r, "buoy/buoy", "v1.2.3", "registry.k8s.io"); status != 200 {
		t.Errorf("under upstream's name: %d %s", status, body)
	}
	// In every region it is the same.
	if got, err := r.loadImage(t.Context(), strings.Replace(image.Reference, region, "us-east-1", 1)); err != nil ||
		hash(t, got) != want {
		t.Errorf("%v, want %s", err, want)
	}
	n.cut.Store(true)
	if err := r.Provide(t.Context(), image); err != nil {
		t.Errorf("what is here: %v", err)
	}

	image.Reference, image.Public = Host(region)+"/eks/none:v1", ""
	if err := r.Provide(t.Context(), image); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(),
		"/eks/none:v1 is not in Coracle's registry") {
		t.Errorf("an image that is nowhere: %v", err)
	}
}

func TestProvideTakesWhatWasLoadedUnderUpstreamsName(t *testing.T) {
	t.Parallel()
	n := newInternet()
	n.cut.Store(true)
	r := open(t, Options{Transport: n})
	image := catalog.Image{Reference: Host(region) + "/eks/buoy:v1.2.3-eksbuild.1",
		Public: "registry.k8s.io/buoy/buoy:v1.2.3"}
	loaded := randomImage(t)
	if err := r.storeImage(t.Context(), image.Public, loaded); err != nil {
		t.Fatal(err)
	}
	if err := r.Provide(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	if got, err := r.loadImage(t.Context(), image.Reference); err != nil || hash(t, got) != hash(t, loaded) {
		t.Errorf("%v", err)
	}
}

func TestImagesOfALoadedIndexStay(t *testing.T) {
	t.Parallel()
	r := open(t, Options{})
	image := randomImage(t)
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: image,
		Descriptor: v1.Descriptor{Platform: &platform}})
	repository := Host(region) + "/eks/buoy"
	if err := r.putIndex(t.Context(), repository+":v1", index); err != nil {
		t.Fatal(err)
	}
	replaced := randomImage(t)
	for _, image := range []v1.Image{replaced, randomImage(t)} {
		if err := r.storeImage(t.Context(), repository+":v2", image); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.dropUntagged(t.Context(), repository); err != nil {
		t.Fatal(err)
	}
	if got, err := r.loadImage(t.Context(), repository+":v1"); err != nil || hash(t, got) != hash(t, image) {
		t.Errorf("the image of the index: %v", err)
	}
	if there, err := r.hasReference(t.Context(), repository+"@"+hash(t, replaced)); err != nil || there {
		t.Errorf("what was replaced is there still: %t, %v", there, err)
	}
}

func TestProvideAssemblesWhatNodesHaveAnyway(t *testing.T) {
	t.Parallel()
	testenv.NeedsSetup(t)
	r := open(t, Options{})
	reference := References(region, kubernetes.Default)[KubeProxy]
	if err := r.Provide(t.Context(), catalog.Image{Reference: strings.Replace(reference, region, "us-east-1",
		1)}); err != nil {
		t.Fatal(err)
	}
	if there, err := r.hasReference(t.Context(), reference); err != nil || !there {
		t.Errorf("%v, %v", there, err)
	}
}

// An add-on may want its image before the cluster has nodes: that must not build a version that nobody runs.
func TestImagesOfAllVersionsAreAssembledWithWhatIsBuilt(t *testing.T) {
	t.Parallel()
	testenv.NeedsSetup(t)
	r := open(t, Options{})
	built, err := r.options.Bundles.Find("1.36")
	if err != nil {
		t.Fatal(err)
	}
	r.options.Bundles = upstream.BundlesIn(t.TempDir())
	reference := References(region, kubernetes.Default)[CoreDNS]
	if minor, own := r.assembledFor(reference); !own || minor != kubernetes.Default {
		t.Errorf("where nothing is built it is version %s, want %s", minor, kubernetes.Default)
	}
	other := t.TempDir()
	bundle := filepath.Dir(built)
	if err := os.Symlink(bundle, filepath.Join(other, filepath.Base(bundle))); err != nil {
		t.Fatal(err)
	}
	r.options.Bundles = upstream.BundlesIn(other)
	if minor, own := r.assembledFor(reference); !own || minor != "1.36" {
		t.Errorf("where 1.36 is built alone it is version %s", minor)
	}
}
