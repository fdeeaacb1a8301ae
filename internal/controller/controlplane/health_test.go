package controlplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAComponentThatKeepsDyingIsAHealthIssue(t *testing.T) {
	dir, owner := newDataDirectory(t)
	program := filepath.Join(dir, "kube")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho 'E0101 no such flag'\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	d := start(t, dir, owner, func(o *Options) { o.Bundles = brokenBundles{minor: "1.35", program: program} })
	c := d.create(newCluster("ill", "1.35"))
	d.until("a health issue", func() bool { return len(d.plane(c).Health) > 0 })
	issue := d.plane(c).Health[0]
	if !strings.Contains(*issue.Message, "kube-apiserver has died") || !strings.Contains(*issue.Message,
		"no such flag") {
		t.Errorf("issue %q", *issue.Message)
	}
	if p := d.plane(c); p.Ready || p.Failed != "" {
		t.Errorf("observed %+v", p)
	}
	d.remove(c)
	assertNothingLeft(t, d, c)
}

func TestAVersionThatCannotBeHadFailsTheCluster(t *testing.T) {
	dir, owner := newDataDirectory(t)
	d := start(t, dir, owner, func(o *Options) { o.Bundles = brokenBundles{minor: "1.35"} })
	c := d.create(newCluster("unborn", "1.35"))
	d.until("failure", func() bool { return d.plane(c).Failed != "" })
	if f := d.plane(c).Failed; !strings.Contains(f, "1.35") || !strings.Contains(f, "compiling failed") {
		t.Errorf("failed because %q", f)
	}
	d.remove(c)
	assertNothingLeft(t, d, c)
}
