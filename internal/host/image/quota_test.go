package image

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Nobody makes a repository so large that it takes minutes to list.
func TestQuotasOfRepositories(t *testing.T) {
	t.Parallel()
	r, _ := openOn(t)
	r.maxImages, r.maxTags = 20, 30
	const mediaType = "application/vnd.oci.image.index.v1+json"
	manifest := func(note string) string {
		return `{"schemaVersion":2,"mediaType":"` + mediaType + `","manifests":[],"annotations":{"note":"` + note + `"}}`
	}
	put := func(tag, note string) *httptest.ResponseRecorder {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/v2/"+uploadRepository+"/manifests/"+tag,
			strings.NewReader(manifest(note)))
		request.SetBasicAuth("AWS", "token")
		request.Header.Set("Content-Type", mediaType)
		w := httptest.NewRecorder()
		r.Handler(everybody{}).ServeHTTP(w, request)
		return w
	}
	if w := put("v1", "1"); w.Code != http.StatusCreated {
		t.Fatalf("the first image: %d %s", w.Code, w.Body)
	}
	dir := filepath.Join(r.repositoryDir(r.storedName(uploadRepository)), "_manifests")
	for i := range r.maxTags - 1 {
		if err := os.Mkdir(filepath.Join(dir, "tags", fmt.Sprint("t", i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if w := put("v2", "1"); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "30 tags") {
		t.Errorf("one more tag: %d %s", w.Code, w.Body)
	}
	if err := r.CheckQuota(uploadRepository, "v2", Digest([]byte(manifest("1")))); !errors.Is(err, ErrQuota) {
		t.Errorf("one more tag by the API: %v", err)
	}
	public := "docker.io/library/app"
	if err := os.CopyFS(r.repositoryDir(r.storedName(public)), os.DirFS(filepath.Dir(dir))); err != nil {
		t.Fatal(err)
	}
	if err := r.CheckQuota(public, "v2", Digest([]byte(manifest("1")))); err != nil {
		t.Errorf("one more tag of a public image: %v", err)
	}
	if w := put("v1", "2"); w.Code != http.StatusCreated {
		t.Errorf("another image of a tag: %d %s", w.Code, w.Body)
	}
	var deleted string
	for i := range r.maxImages - 2 {
		deleted = filepath.Join(dir, "revisions/sha256", fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, i))))
		if err := errors.Join(os.Mkdir(deleted, 0o700),
			os.WriteFile(filepath.Join(deleted, "link"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if w := put("v1", "3"); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "20 images") {
		t.Errorf("one more image: %d %s", w.Code, w.Body)
	}
	if w := put("v1", "1"); w.Code != http.StatusCreated {
		t.Errorf("an image that is there: %d %s", w.Code, w.Body)
	}
	if err := os.Remove(filepath.Join(deleted, "link")); err != nil {
		t.Fatal(err)
	}
	if w := put("v1", "3"); w.Code != http.StatusCreated {
		t.Errorf("an image in the place of one that was deleted: %d %s", w.Code, w.Body)
	}
}
