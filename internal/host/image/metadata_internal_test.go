package image

import "testing"

// A repository that is called blobs has manifests like any other, and those are bounded.
func TestOnlyBlobsAreUnbounded(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/v2/library/nginx/blobs/sha256:0123":      true,
		"/v2/library/nginx/manifests/latest":       false,
		"/v2/attacker/blobs/manifests/latest":      false,
		"/v2/attacker/blobs/manifests/sha256:0123": false,
		"/v2/attacker/blobs/blobs/sha256:0123":     true,
		"/v2/blobs/tags/list":                      false,
		"/v2/attacker/blobs/uploads":               false,
	} {
		if got := isBlobPath(path); got != want {
			t.Errorf("%s is a blob: %v", path, got)
		}
	}
}
