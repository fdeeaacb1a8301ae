package harness

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/coracle-eks/coracle/internal/filelock"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// Agnhost is the reference of the image that the tests' pods run: upstream's agnhost, the tools of busybox, and fetch.
const Agnhost = "registry.k8s.io/e2e-test-images/agnhost:2.53"

// Pause is the reference of an image that only waits.
const Pause = "registry.k8s.io/pause:3.10"

// AgnhostArchive returns the file of a docker archive of [Agnhost]. The tests cannot pull images, so it is assembled
// here, once for all tests.
func AgnhostArchive(t testing.TB) string {
	t.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatalf("the tests' pods need a static busybox (scripts/setup installs it): %v", err)
	}
	programs := map[string]string{
		"agnhost": filepath.Join(testenv.Root(), "bin", "node", "agnhost"), "bin/busybox": busybox,
		"bin/fetch": buildProgram(t, "fetch"),
	}
	sum := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(programs)) {
		content, err := os.Open(programs[path])
		if err == nil {
			_, err = io.Copy(sum, content)
			err = errors.Join(err, content.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return madeOnce(t, fmt.Sprintf("agnhost-%x.tar", sum.Sum(nil)[:8]), func(file string) {
		archive(t, file, []string{Agnhost}, []string{"/agnhost"}, programs, "sh", "sleep", "cat", "ls", "ip", "ping", "true",
			"echo", "hostname", "nc", "env", "touch", "kill", "id")
	})
}

// madeOnce returns the path of a file of bin/test, which is made when no test has made it before. make writes another
// file.
func madeOnce(t testing.TB, name string, make func(file string)) string {
	t.Helper()
	file := filepath.Join(testenv.Root(), "bin", "test", name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := filelock.Lock(t.Context(), file+".lock", func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if _, err := os.Stat(file); err == nil {
		return file
	}
	make(file + ".new")
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	return file
}

// buildProgram builds a program of the tests' pods, and returns its file.
func buildProgram(t testing.TB, name string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", file, "./test/"+name)
	build.Dir, build.Env = testenv.Root(), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s of the tests' pods: %v\n%s", name, err, out)
	}
	return file
}

// PauseArchive returns the file of a docker archive of [Pause], or of the same under another name.
func PauseArchive(t testing.TB, name ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pause.tar")
	archive(t, file, append(name, Pause)[:1], []string{"/pause"},
		map[string]string{"pause": filepath.Join(testenv.Root(), "bin", "node", "pause")})
	return file
}

// Whoami is the reference of an image with a program that asks AWS who it is by the SDK for Go, and knows neither where
// the AWS APIs are nor whom to trust.
const Whoami = "docker.io/example/whoami:v1"

// WhoamiArchive returns the file of a docker archive of [Whoami].
func WhoamiArchive(t testing.TB) string {
	t.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatalf("the tests' pods need a static busybox (scripts/setup installs it): %v", err)
	}
	file := filepath.Join(t.TempDir(), "whoami.tar")
	archive(t, file, []string{Whoami}, []string{"/bin/whoami"}, map[string]string{"bin/busybox": busybox,
		"bin/whoami": buildProgram(t, "whoami"), "bin/fetch": buildProgram(t, "fetch")}, "sh", "sleep", "env")
	return file
}

// ToolsArchive returns the file of a docker archive of one image under all these references: upstream's agnhost, which
// is its entrypoint, with all that busybox can do. It stands for the images of Kubernetes' own tests.
func ToolsArchive(t testing.TB, references ...string) string {
	t.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatalf("the tests' pods need a static busybox (scripts/setup installs it): %v", err)
	}
	links, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		t.Fatalf("%s --list: %v", busybox, err)
	}
	file := filepath.Join(t.TempDir(), "tools.tar")
	programs := map[string]string{"bin/busybox": busybox,
		"agnhost": filepath.Join(testenv.Root(), "bin", "node", "agnhost")}
	addDebian(t, programs, "dd", "bash")
	programs["bin/sh"] = programs["bin/bash"]
	archive(t, file, references, []string{"/agnhost"}, programs, slices.DeleteFunc(strings.Fields(string(links)),
		func(name string) bool { return slices.Contains([]string{"busybox", "dd", "sh"}, name) })...)
	return file
}

// addDebian adds programs of the host with the libraries that they are linked to. The dd of busybox knows no nocache,
// with which Kubernetes' tests write, and its shell runs that one whatever is in the PATH; dash has no let.
func addDebian(t testing.TB, programs map[string]string, names ...string) {
	t.Helper()
	for _, name := range names {
		program, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		libraries, err := exec.Command("ldd", program).Output()
		if err != nil {
			t.Fatalf("ldd %s: %v", program, err)
		}
		programs["bin/"+name] = program
		for word := range strings.FieldsSeq(string(libraries)) {
			if strings.HasPrefix(word, "/") {
				programs[strings.TrimPrefix(word, "/")] = word
			}
		}
	}
}

// archive writes a docker archive of an image of one layer: programs by their path in it, and links of busybox. The
// image has all the references.
func archive(t testing.TB, file string, references, entrypoint []string, programs map[string]string,
	links ...string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for path, file := range programs {
		content, err := os.ReadFile(file)
		must(err)
		must(w.WriteHeader(&tar.Header{Name: path, Mode: 0o755, Size: int64(len(content))}))
		_, err = w.Write(content)
		must(err)
	}
	for _, link := range links {
		must(w.WriteHeader(&tar.Header{Name: "bin/" + link, Typeflag: tar.TypeSymlink, Linkname: "busybox"}))
	}
	must(w.WriteHeader(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}))
	must(w.Close())
	content := slices.Clone(layer.Bytes())
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)),
			nil
	})
	must(err)
	image, err := mutate.AppendLayers(empty.Image, l)
	must(err)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		Architecture: "amd64", OS: "linux", Config: v1.Config{Entrypoint: entrypoint, Env: []string{"PATH=/bin:/"}},
		RootFS: rootFS(t, image),
	})
	must(err)
	images := make(map[name.Reference]v1.Image)
	for _, reference := range references {
		tag, err := name.NewTag(reference)
		must(err)
		images[tag] = image
	}
	must(tarball.MultiRefWriteToFile(file, images))
}

func rootFS(t testing.TB, image v1.Image) v1.RootFS {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return config.RootFS
}
