package kubernetes

import (
	"strings"
	"testing"
)

func TestApply(t *testing.T) {
	t.Parallel()
	p := Patch{Module: "example.com/m", File: "f.go", Old: "old", New: "new"}
	if got, err := p.Apply([]byte("an old text")); err != nil || string(got) != "an new text" {
		t.Errorf("%q, %v", got, err)
	}
	for _, content := range []string{"", "older than old"} {
		if got, err := p.Apply([]byte(content)); err == nil || !strings.Contains(err.Error(), "fit HostPatches") {
			t.Errorf("%q becomes %q, %v", content, got, err)
		}
	}
}
