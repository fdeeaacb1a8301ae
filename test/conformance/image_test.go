//go:build linux

package conformance

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/coracle-eks/coracle/internal/testenv"
)

// programs are built beside e2e.test: ginkgo, and what the images are made of.
var programs = map[string]string{
	"ginkgo":                 "github.com/onsi/ginkgo/v2/ginkgo",
	"agnhost":                "k8s.io/kubernetes/test/images/agnhost",
	"nnp":                    "k8s.io/kubernetes/test/images/nonewprivs",
	"regression-issue-74839": "k8s.io/kubernetes/test/images/regression-issue-74839",
	"sample-apiserver":       "k8s.io/sample-apiserver",
	"etcd":                   "go.etcd.io/etcd/server/v3",
}

// fromDebian are programs of Debian packages that the image of agnhost has, which "make conformance" installs here.
// They are copied with their libraries.
var fromDebian = []string{"curl", "dig", "nc.openbsd"}

// image is an image by the name that the tests' list has, without its registry.
type image struct {
	entrypoint, cmd []string
	files           map[string]string // by their paths in the image
	links           map[string]string // from path to target
	texts           map[string]string
}

// images returns the images that conformance tests run. They are not upstream's, which cannot be pulled here: agnhost
// and the other programs are built from upstream's source, shells and tools are busybox's and Debian's.
func (f *fixture) images() map[string]image {
	built := func(name string) string { return filepath.Join(f.programs, name) }
	tools := f.busybox()
	agnhost := tools.with("agnhost", built("agnhost"))
	agnhost.entrypoint, agnhost.cmd = []string{"/agnhost"}, []string{"pause"}
	agnhost.links["agnhost-2"] = "agnhost"
	agnhost.texts["etc/passwd"] = "root:x:0:0:root:/root:/bin/sh\nuser-defined-in-image:x:1000:1000::/:/bin/sh\n"
	agnhost.texts["etc/group"] = "root:x:0:\nuser-defined-in-image:x:1000:\n" +
		"group-defined-in-image:x:50000:user-defined-in-image\n"
	for _, program := range fromDebian {
		for _, file := range f.withLibraries(program) {
			agnhost.files[strings.TrimPrefix(file, "/")] = file
		}
	}
	agnhost.links["bin/nc"] = "/usr/bin/nc.openbsd"
	web := func(color string) image {
		i := agnhost.with("", "")
		i.cmd, i.texts["data.json"] = []string{"test-webserver"}, fmt.Sprintf("{\n\"image\": %q\n}\n", color+".jpg")
		i.texts[color+".jpg"] = color
		return i
	}
	server := tools.with("", "")
	server.cmd = []string{"busybox", "httpd", "-f", "-p", "80", "-h", "/usr/share/nginx/html"}
	server.texts["usr/share/nginx/html/index.html"] = "<html><body>It works!</body></html>\n"
	apache := tools.with("", "")
	apache.cmd = []string{"busybox", "httpd", "-f", "-p", "80", "-h", "/usr/local/apache2/htdocs"}
	apache.texts["usr/local/apache2/htdocs/index.html"] = "<html><body><h1>It works!</h1></body></html>\n"
	shell := tools.with("", "")
	shell.cmd = []string{"sh"}
	only := func(at, program string) image {
		return image{entrypoint: []string{"/" + at}, files: map[string]string{at: program}}
	}
	etcd := tools.with("usr/local/bin/etcd", built("etcd"))
	etcd.cmd = []string{"etcd"}
	nnp := tools.with("usr/local/bin/nnp", built("nnp"))
	nnp.cmd = []string{"nnp"}
	return map[string]image{
		"agnhost": agnhost, "jessie-dnsutils": agnhost, "busybox": shell, "nginx": server, "httpd": apache,
		"kitten": web("kitten"), "nautilus": web("nautilus"), "etcd": etcd, "nonewprivs": nnp,
		"pause": only("pause", filepath.Join(testenv.Root(), "bin", "node", "pause")), "perl": shell,
		"regression-issue-74839": only("regression-issue-74839", built("regression-issue-74839")),
		"sample-apiserver":       only("sample-apiserver", built("sample-apiserver")),
	}
}

// with returns a copy with one file more.
func (i image) with(at, file string) image {
	c := image{entrypoint: i.entrypoint, cmd: i.cmd, files: maps.Clone(i.files), links: maps.Clone(i.links),
		texts: maps.Clone(i.texts)}
	if at != "" {
		c.files[at] = file
	}
	return c
}

// busybox returns an image with all that busybox can do.
func (f *fixture) busybox() image {
	f.t.Helper()
	program, err := exec.LookPath("busybox")
	if err != nil {
		f.t.Fatalf("the tests' pods need a static busybox (scripts/setup installs it): %v", err)
	}
	names, err := exec.CommandContext(f.t.Context(), program, "--list").Output()
	if err != nil {
		f.t.Fatalf("%s --list: %v", program, err)
	}
	i := image{files: map[string]string{"bin/busybox": program}, links: map[string]string{}, texts: map[string]string{}}
	for _, name := range strings.Fields(string(names)) {
		if name != "busybox" {
			i.links["bin/"+name] = "busybox"
		}
	}
	return i
}

// withLibraries returns the paths of a program of this host and of the libraries that it is linked with.
func (f *fixture) withLibraries(program string) (files []string) {
	f.t.Helper()
	file, err := exec.LookPath(program)
	if err != nil {
		f.t.Fatalf("the image of agnhost needs %s (\"make conformance\" installs it): %v", program, err)
	}
	out, err := exec.CommandContext(f.t.Context(), "ldd", file).Output()
	if err != nil {
		f.t.Fatalf("ldd %s: %v", file, err)
	}
	files = []string{file}
	for _, word := range strings.Fields(string(out)) {
		if strings.HasPrefix(word, "/") {
			files = append(files, word)
		}
	}
	return files
}

// imageArchive returns the file of an archive of all images that this version's tests know and that are made here.
func (f *fixture) imageArchive() string {
	f.t.Helper()
	made := f.images()
	all := map[name.Reference]v1.Image{}
	layers := map[string]v1.Image{} // by the name of the image
	for _, reference := range strings.Fields(string(f.ask("-list-images"))) {
		tag, err := name.NewTag(reference)
		if err != nil {
			continue // by digest, of no conformance test
		}
		base := path.Base(tag.RepositoryStr())
		i, ok := made[base]
		if !ok {
			continue
		}
		if layers[base] == nil {
			layers[base] = write(f.t, i)
		}
		all[tag] = layers[base]
	}
	file := filepath.Join(f.t.TempDir(), "images.tar")
	if err := tarball.MultiRefWriteToFile(file, all); err != nil {
		f.t.Fatal(err)
	}
	return file
}

// write makes an image of one layer.
func write(t testing.TB, i image) v1.Image {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, at := range slices.Sorted(maps.Keys(i.files)) {
		content, err := os.ReadFile(i.files[at])
		must(err)
		mode := int64(0o755)
		if path.Base(at) == "nnp" {
			mode |= 0o4000
		}
		must(w.WriteHeader(&tar.Header{Name: at, Mode: mode, Size: int64(len(content))}))
		_, err = w.Write(content)
		must(err)
	}
	for _, at := range slices.Sorted(maps.Keys(i.texts)) {
		must(w.WriteHeader(&tar.Header{Name: at, Mode: 0o644, Size: int64(len(i.texts[at]))}))
		_, err := io.WriteString(w, i.texts[at])
		must(err)
	}
	for _, at := range slices.Sorted(maps.Keys(i.links)) {
		must(w.WriteHeader(&tar.Header{Name: at, Typeflag: tar.TypeSymlink, Linkname: i.links[at]}))
	}
	for _, dir := range []string{"tmp/", "uploads/"} {
		must(w.WriteHeader(&tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o1777}))
	}
	must(w.Close())
	content := layer.Bytes()
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	must(err)
	made, err := mutate.AppendLayers(empty.Image, l)
	must(err)
	config, err := made.ConfigFile()
	must(err)
	config = config.DeepCopy()
	config.Architecture, config.OS = "amd64", "linux"
	config.Config = v1.Config{Entrypoint: i.entrypoint, Cmd: i.cmd, WorkingDir: "/",
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/"}}
	made, err = mutate.ConfigFile(made, config)
	must(err)
	return made
}
