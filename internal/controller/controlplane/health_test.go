package controlplane

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/upstream"
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

// slowBundles builds until it is let go, and tells how far it is.
type slowBundles struct {
	Bundles
	reports <-chan upstream.Progress
}

func (b slowBundles) Ensure(ctx context.Context, minor string, report func(upstream.Progress)) (string, error) {
	for p := range b.reports {
		report(p)
	}
	return b.Bundles.Ensure(ctx, minor, report)
}

func TestABuildIsShownWhileAClusterWaitsForIt(t *testing.T) {
	dir, owner := newDataDirectory(t)
	reports := make(chan upstream.Progress)
	d := start(t, dir, owner, func(o *Options) {
		o.Bundles = slowBundles{brokenBundles{minor: "1.35"}, reports}
	})
	c := d.create(newCluster("waiting", "1.35"))
	for _, p := range []struct {
		done int
		text string
	}{
		{100, "Kubernetes 1.35: compiling 100 of 1000 packages (9%)"},
		{500, "Kubernetes 1.35: compiling 500 of 1000 packages (45%)"},
	} {
		reports <- upstream.Progress{Title: "Kubernetes 1.35", Step: upstream.Compiling, Done: p.done, Total: 1000}
		d.until("progress", func() bool { return d.plane(c).Building == p.text })
	}
	close(reports)
	d.until("the end of the build", func() bool { return d.plane(c).Failed != "" })
	if p := d.plane(c); p.Building != "" {
		t.Errorf("after the build: %+v", p)
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
