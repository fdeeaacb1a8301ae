package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestLoad(t *testing.T) {
	t.Parallel()
	img, err := random.Image(300, 3)
	if err != nil {
		t.Fatal(err)
	}
	docker := func(names ...string) []byte {
		images := make(map[name.Tag]v1.Image)
		for _, n := range names {
			tag, err := name.NewTag(n)
			if err != nil {
				t.Fatal(err)
			}
			images[tag] = img
		}
		var archive bytes.Buffer
		if err := tarball.MultiWrite(images, &archive); err != nil {
			t.Fatal(err)
		}
		return archive.Bytes()
	}
	var oci bytes.Buffer
	if err := writeLayout(&oci, map[string]v1.Image{"quay.io/team/app:v1": img,
		"docker.io/library/busybox:1": img}); err != nil {
		t.Fatal(err)
	}
	zipped := func(b []byte) []byte {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		if _, err := z.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	var escaping bytes.Buffer
	w := tar.NewWriter(&escaping)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "../../escaped", Size: 1, Mode: 0o644}),
		func() error { _, err := w.Write([]byte("x")); return err }(), w.Close()); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		archive []byte
		want    []string
		err     string
	}{
		"docker with two tags": {docker("nginx:1.27", "nginx:latest"), []string{"docker.io/library/nginx:1.27",
			"docker.io/library/nginx:latest"}, ""},
		"docker, compressed":   {zipped(docker("ghcr.io/x/y:z")), []string{"ghcr.io/x/y:z"}, ""},
		"a registry with port": {docker("localhost:5000/app:v1"), []string{"localhost:5000/app:v1"}, ""},
		"OCI":                  {oci.Bytes(), []string{"quay.io/team/app:v1", "docker.io/library/busybox:1"}, ""},
		"no tar file":          {[]byte("what is this?"), nil, "no tar file"},
		"empty":                {nil, nil, "no beginning"},
		"out of the directory": {escaping.Bytes(), nil, "escapes"},
		"no repository": {docker("111122223333.dkr.ecr.eu-west-1.amazonaws.com/app:v1"), nil,
			"aws ecr create-repository --repository-name app --region eu-west-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newInternet()
			n.cut.Store(true)
			r := open(t, Options{Transport: n})
			loaded, err := r.Load(t.Context(), bytes.NewReader(test.archive), nobody{})
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error is %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil || len(loaded) != len(test.want) {
				t.Fatalf("loaded %v, %v; want %v", loaded, err, test.want)
			}
			for _, reference := range test.want {
				repository, tag, err := splitReference(reference)
				if err != nil {
					t.Fatal(err)
				}
				host, path, _ := strings.Cut(repository, "/")
				if status, got, body := get(t, r, path, tag, host); status != 200 || got != hash(t, img) {
					t.Errorf("%s: %d %s %s", reference, status, got, body)
				}
			}
			if left, err := os.ReadDir(r.scratchDir()); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestOnlyLoadAndECRPutImages(t *testing.T) {
	t.Parallel()
	r := open(t, Options{})
	w := httptest.NewRecorder()
	r.Handler(nobody{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost,
		"/v2/docker.io/library/nginx/blobs/uploads/", nil))
	if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "coracle images load") {
		t.Errorf("a push to Docker Hub: %d %s", w.Code, w.Body)
	}
	for path, want := range map[string]int{"/v2/": 401, "/v2/nothing": 404, "/v2/app/manifests/v1": 404,
		"/v2/_catalog": 404} {
		w := httptest.NewRecorder()
		r.Handler(nobody{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d: %s", path, w.Code, want, w.Body)
		}
	}
}

// A killed daemon leaves what it was preparing, and the next removes it.
func TestLeftoversAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	left := filepath.Join(dir, "scratch", "golden-1", "root")
	if err := os.MkdirAll(left, 0o755); err != nil {
		t.Fatal(err)
	}
	open(t, Options{Dir: dir})
	if _, err := os.Stat(filepath.Dir(left)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}
