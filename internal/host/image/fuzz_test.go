package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const secretRepository = "111122223333.dkr.ecr.eu-west-1.amazonaws.com/team/app"

// offline returns a registry without a network, with an image in a repository of ECR and one of Docker Hub.
func offline(f *testing.F) (r *Registry, secret, public v1.Image) {
	f.Helper()
	n := newInternet()
	n.cut.Store(true)
	r = open(f, Options{Transport: n})
	images := map[string]v1.Image{}
	for _, reference := range []string{secretRepository + ":v1", "docker.io/library/nginx:1.27"} {
		img, err := random.Image(300, 1)
		if err != nil {
			f.Fatal(err)
		}
		if err := r.storeImage(f.Context(), reference, img); err != nil {
			f.Fatal(err)
		}
		images[reference] = img
	}
	return r, images[secretRepository+":v1"], images["docker.io/library/nginx:1.27"]
}

// filesBelow lists the files of a directory.
func filesBelow(t testing.TB, dir string) (all []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		all = append(all, path)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// FuzzHandler shows that clients without a token neither read what is in a repository of ECR nor change anything,
// whatever they send: it begins with requests as they travel.
func FuzzHandler(f *testing.F) {
	r, secret, public := offline(f)
	layers, err := secret.Layers()
	if err != nil {
		f.Fatal(err)
	}
	digest, manifest := hash(f, layers[0]), hash(f, secret)
	for _, request := range []string{
		"GET /v2/ HTTP/1.1\r\nHost: 111122223333.dkr.ecr.eu-west-1.amazonaws.com\r\nAuthorization: Basic " +
			"QVdTOng=\r\n\r\n",
		"GET /v2/team/app/manifests/v1?ns=111122223333.dkr.ecr.eu-west-1.amazonaws.com HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /v2/" + secretRepository + "/blobs/" + digest +
			" HTTP/1.1\r\nHost: 127.0.0.1:4566\r\nRange: bytes=0-9\r\n\r\n",
		"GET /v2/library/nginx/manifests/1.27?ns=docker.io HTTP/1.1\r\nHost: a\r\nAccept: " +
			"application/vnd.oci.image.index.v1+json\r\n\r\n",
		"GET /v2/docker.io/../" + secretRepository + "/manifests/" + manifest + " HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /v2/library/nginx/manifests/" + hash(f, public) + " HTTP/1.1\r\nHost: registry-1.docker.io\r\n\r\n",
		"HEAD /v2/team/app/blobs/" + digest + " HTTP/1.1\r\nHost: 111122223333.dkr.ecr.eu-west-1.amazonaws.com\r\n\r\n",
		"GET /v2/team/app/tags/list?n=1&last=a HTTP/1.1\r\nHost: 111122223333.dkr.ecr.eu-west-1.amazonaws.com\r\n\r\n",
		"POST /v2/library/nginx/blobs/uploads/?mount=" + digest +
			"&from=team/app HTTP/1.1\r\nHost: public.ecr.aws\r\nContent-Length: 0\r\n\r\n",
		"PATCH /v2/team/app/blobs/uploads/a-b?_state=x HTTP/1.1\r\nHost: " +
			"111122223333.dkr.ecr.eu-west-1.amazonaws.com\r\nContent-Range: 0-3\r\nContent-Length: 4\r\n\r\nabcd",
		"PUT /v2/team/app/manifests/v2 HTTP/1.1\r\nHost: " +
			"111122223333.dkr.ecr.eu-west-1.amazonaws.com\r\nContent-Type: " +
			"application/vnd.oci.image.manifest.v1+json\r\nContent-Length: 2\r\n\r\n{}",
		"GET /v2/_catalog HTTP/1.1\r\nHost: a\r\n\r\n",
		"DELETE /v2/docker.io/library/nginx/manifests/1.27 HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		f.Add([]byte(request))
	}
	handler, before := r.Handler(nobody{}), filesBelow(f, r.options.Dir)
	f.Fuzz(func(t *testing.T, raw []byte) {
		request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil || !strings.HasPrefix(request.URL.Path, "/v2/") {
			return
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, request)
		switch read := request.Method == http.MethodGet || request.Method == http.MethodHead; {
		case w.Code == http.StatusInternalServerError:
			t.Fatalf("%s\nis answered with %d\n%s", raw, w.Code, w.Body)
		case w.Code < 300 && (!read || w.Header().Get("Docker-Content-Digest") == manifest ||
			w.Header().Get("Docker-Content-Digest") == digest):
			t.Fatalf("%s\nis answered with %d %v\n%s", raw, w.Code, w.Header(), w.Body)
		}
		if after := filesBelow(t, r.options.Dir); !slices.Equal(before, after) {
			t.Fatalf("%s\nhas changed the files of the registry from\n%q to\n%q", raw, before, after)
		}
	})
}

// FuzzManifest shows that a manifest that is stored is the one that was given, and that one that is not is refused as
// such.
func FuzzManifest(f *testing.F) {
	r, secret, _ := offline(f)
	manifest, err := secret.RawManifest()
	if err != nil {
		f.Fatal(err)
	}
	mediaType, err := secret.MediaType()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(mediaType), manifest)
	f.Add(
		"application/vnd.oci.image.manifest.v1+json",
		bytes.ReplaceAll(manifest, []byte("docker.distribution.manifest.v2"), []byte("oci.image.manifest.v1")),
	)
	f.Add(
		"application/vnd.oci.image.index.v1+json",
		fmt.Appendf(
			nil,
			`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":%q,"size":%d,"digest":%q,"platform":{"os":"linux"}}]}`,
			mediaType,
			len(manifest),
			hash(f, secret),
		),
	)
	f.Add(
		"application/vnd.docker.distribution.manifest.list.v2+json",
		[]byte(`{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.list.v2+json","manifests":[]}`),
	)
	f.Add("", []byte(`{"schemaVersion":1,"layers":null,"config":{"digest":"sha256:../../x","urls":["http://a"]}}`))
	f.Fuzz(func(t *testing.T, mediaType string, payload []byte) {
		stored, err := r.PutManifest(t.Context(), secretRepository, "", mediaType, payload)
		var invalid *InvalidManifest
		if err != nil {
			if !errors.As(err, &invalid) {
				t.Fatalf("%q %q: %v", mediaType, payload, err)
			}
			invalid.Blobs()
			return
		}
		got, err := r.Manifest(t.Context(), secretRepository+"@"+Digest(payload))
		if err != nil || stored.Digest != Digest(payload) || !bytes.Equal(got.Payload, payload) {
			t.Fatalf("%q %q is stored as %s, %v: %q", mediaType, payload, stored.Digest, err, got.Payload)
		}
	})
}

// FuzzLoad shows that an archive of images changes no file but those of the registry, and leaves none behind. Its
// images have names that cannot be loaded, which is known when the archive has been read: storing them, which waits for
// the disk, would take all of the time.
func FuzzLoad(f *testing.F) {
	img, err := random.Image(100, 1)
	if err != nil {
		f.Fatal(err)
	}
	var docker bytes.Buffer
	if err := tarball.Write(name.MustParseReference(secretRepository+":v1"), img, &docker); err != nil {
		f.Fatal(err)
	}
	var oci, zipped bytes.Buffer
	if err := writeLayout(&oci, map[string]v1.Image{secretRepository + ":v1": img}); err != nil {
		f.Fatal(err)
	}
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(docker.Bytes()); err != nil {
		f.Fatal(err)
	}
	if err := z.Close(); err != nil {
		f.Fatal(err)
	}
	var links bytes.Buffer
	w := tar.NewWriter(&links)
	for _, header := range []tar.Header{
		{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "../../.."}, {Name: "a/b", Typeflag: tar.TypeReg},
		{Name: "index.json", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
		{Name: "c", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}, {Name: "/d", Typeflag: tar.TypeReg},
		{Name: "blobs/sha256/e", Typeflag: tar.TypeFifo},
	} {
		if err := w.WriteHeader(&header); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	for _, archive := range [][]byte{docker.Bytes(), oci.Bytes(), zipped.Bytes(), links.Bytes()} {
		f.Add(archive)
	}
	around := f.TempDir()
	if err := os.WriteFile(filepath.Join(around, "other"), []byte("other"), 0o600); err != nil {
		f.Fatal(err)
	}
	n := newInternet()
	n.cut.Store(true)
	r := open(f, Options{Dir: filepath.Join(around, "images"), Transport: n})
	f.Fuzz(func(t *testing.T, archive []byte) {
		_, _ = r.Load(t.Context(), bytes.NewReader(archive), nobody{})
		if left := filesBelow(t, r.scratchDir()); len(left) != 1 {
			t.Fatalf("%q leaves %q", archive, left)
		}
		entries, err := os.ReadDir(around)
		if content, readErr := os.ReadFile(filepath.Join(around, "other")); err != nil || readErr != nil ||
			len(entries) != 2 ||
			string(content) != "other" {
			t.Fatalf("%q changes what is around the registry: %v, %q", archive, entries, content)
		}
	})
}

// FuzzReference shows that no reference of an image leads to a file beside those of the registry.
func FuzzReference(f *testing.F) {
	for _, reference := range []string{"nginx", "docker.io/library/nginx:1.27", "localhost:5000/app@sha256:" +
		strings.Repeat("a", 64), secretRepository + ":v1", "docker.io/../../x:..", "x/./y", "../x", "a.b//c"} {
		f.Add(reference)
	}
	r := &Registry{options: Options{Dir: "/var/lib/coracle/images", Region: region}}
	f.Fuzz(func(t *testing.T, reference string) {
		repository, identifier, err := splitReference(reference)
		if err != nil {
			return
		}
		if mark := r.pulledMark(repository, identifier); !strings.HasPrefix(mark, "/var/lib/coracle/images/pulled/") ||
			strings.Count(mark, "/") != strings.Count("/var/lib/coracle/images/pulled/"+repository+"/"+identifier,
				"/") {
			t.Fatalf("%q is the file %s", reference, mark)
		}
		if again := fullName(r.storedName(repository)); !strings.EqualFold(again, repository) &&
			!strings.Contains(r.canonical(strings.SplitN(repository, "/", 2)[0]), "docker.io") &&
			!strings.Contains(repository, "dkr") {
			t.Fatalf("%q is stored as the repository %s", repository, again)
		}
	})
}
