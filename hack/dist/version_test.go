package main

import (
	"strings"
	"testing"
)

// A version that is not released yet is older, for package managers, than the next release, and has the notes of what
// is not released.
func TestVersions(t *testing.T) {
	t.Parallel()
	const changelog = "# Changelog\n\n## Unreleased\n\n### Added\n\n- a\n\n" +
		"## [1.1.0] - 2026-11-30\n\n- b\n\n## 1.0.0\n\n- c\n"
	for _, c := range []struct{ version, packaged, notes string }{
		{"v1.1.0", "1.1.0", "- b\n"},
		{"v1.0.0", "1.0.0", "- c\n"},
		{"v1.1.0-3-gabcdef0", "1.1.0-3-gabcdef0", "### Added\n\n- a\n"},
		{"abcdef0-dirty", "0.0.0-abcdef0.dirty", "### Added\n\n- a\n"},
	} {
		if got := packageVersion(c.version); got != c.packaged {
			t.Errorf("the package of %s has the version %s, want %s", c.version, got, c.packaged)
		}
		if got, err := notesOf(changelog, c.version); got != c.notes || err != nil {
			t.Errorf("the notes of %s are %q, %v; want %q", c.version, got, err, c.notes)
		}
	}
	if _, err := notesOf(changelog, "v2.0.0"); err == nil || !strings.Contains(err.Error(), `no section "## 2.0.0"`) {
		t.Errorf("the notes of a release without a section: %v", err)
	}
}
