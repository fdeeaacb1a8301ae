// Package rootfstest has what tests that write base images need.
package rootfstest

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Roots are the certificate authorities of Base.
const Roots = "-----BEGIN CERTIFICATE-----\nan authority's\n"

// Base returns the directory of a node image with a few files that are no programs.
func Base(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"etc/ssl/certs/ca-certificates.crt": Roots,
		"etc/os-release":                    "ID=debian\n", "usr/bin/bash": "a shell", "usr/bin/sudo": "setuid",
		"usr/sbin/runc": "the real one",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("bash", filepath.Join(dir, "usr/bin/sh")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "usr/bin/sudo"), 0o700|fs.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	return dir
}
