package trust

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/pki"
	"github.com/coracle-eks/coracle/internal/testenv"
)

func newAuthority(t *testing.T, name string) []byte {
	t.Helper()
	a, err := pki.OpenAuthority(t.TempDir(), "ca", name)
	if err != nil {
		t.Fatal(err)
	}
	return a.PEM
}

// newDebian returns a trust store as Debian has it, in a directory of its own, and the file that programs read.
func newDebian(t *testing.T) (s System, bundle string) {
	t.Helper()
	testenv.NeedsRoot(t) // for the lock
	program, err := exec.LookPath("update-ca-certificates")
	if text, err2 := os.ReadFile(program); err != nil || err2 != nil ||
		!strings.Contains(string(text), "--localcertsdir") {
		t.Skip("this host has no update-ca-certificates of Debian")
	}
	dir := t.TempDir()
	for _, name := range []string{"local", "etc", "certs", "hooks"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// Without a line the program lists nothing of the distribution's.
	if err := os.WriteFile(filepath.Join(dir, "conf"), []byte("!none.crt\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return System{
		Directory: filepath.Join(dir, "local"), Suffix: ".crt", Links: filepath.Join(dir, "etc"),
		Update: []string{program, "--localcertsdir", filepath.Join(dir, "local"), "--etccertsdir",
			filepath.Join(dir, "etc"), "--certsdir", filepath.Join(dir, "certs"), "--certsconf",
			filepath.Join(dir, "conf"), "--hooksdir", filepath.Join(dir, "hooks")},
	}, filepath.Join(dir, "etc", "ca-certificates.crt")
}

func TestDaemonsComeAndGoInTheTrustStore(t *testing.T) {
	t.Parallel()
	s, bundle := newDebian(t)
	first, second := newAuthority(t, "first"), newAuthority(t, "second")
	trusted := func(authority []byte) bool {
		t.Helper()
		text, err := os.ReadFile(bundle)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(text), strings.TrimSpace(string(authority)))
	}
	for owner, authority := range map[string][]byte{"aaaa": first, "bbbb": second} {
		for range 2 { // the second time changes nothing
			if err := s.Install(t.Context(), owner, authority); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !trusted(first) || !trusted(second) {
		t.Fatal("not both are trusted")
	}
	if had, err := s.Remove(t.Context(), "aaaa"); !had || err != nil {
		t.Errorf("remove: %v, %v", had, err)
	}
	if trusted(first) || !trusted(second) {
		t.Error("not the second alone is trusted")
	}
	links, err := os.ReadDir(s.Links)
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if _, err := os.Stat(filepath.Join(s.Links, link.Name())); err != nil {
			t.Errorf("a link leads nowhere: %v", err)
		}
	}
	if had, err := s.Remove(t.Context(), "aaaa"); had || err != nil {
		t.Errorf("remove again: %v, %v", had, err)
	}
}

func TestNothingStaysOfAFailedInstallation(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	s := System{Directory: t.TempDir(), Suffix: ".crt", Update: []string{"sh", "-c", "echo out of order >&2; exit 3"}}
	err := s.Install(t.Context(), "aaaa", newAuthority(t, "a"))
	if err == nil || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(s.File("aaaa")); !os.IsNotExist(err) {
		t.Errorf("the file is there: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Install(ended, "aaaa", newAuthority(t, "a")); err == nil {
		t.Error("installed after the end")
	}
}

func TestBundle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	company, own, other := newAuthority(t, "company"), newAuthority(t, "own"), newAuthority(t, "other")
	roots := write("company.pem", append([]byte("# of the company\n"), company...))
	file := filepath.Join(dir, "ca-bundle.pem")
	check := func(configured string, authorities [][]byte, want ...[]byte) {
		t.Helper()
		if err := WriteBundle(file, configured, authorities...); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "BEGIN CERTIFICATE"); n != len(want) {
			t.Errorf("%d certificates, want %d", n, len(want))
		}
		for _, w := range want {
			if strings.Count(string(text), strings.TrimSpace(string(w))) != 1 {
				t.Errorf("a certificate is missing, or there twice:\n%s", text)
			}
		}
	}
	check(roots, [][]byte{own}, company, own)
	check(roots, [][]byte{own, other, own}, company, own, other) // the others come twice
	check("", [][]byte{own}, company, own)                       // the daemon starts again, elsewhere
	check(file, [][]byte{own}, company, own)                     // the shell names the bundle itself

	// Another daemon's bundle in the shell is not what programs trust without Coracle.
	second := filepath.Join(dir, "second.pem")
	if err := WriteBundle(second, file, other); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(second)
	if err != nil || strings.Count(string(text), "BEGIN CERTIFICATE") != 2 ||
		strings.Contains(string(text), strings.TrimSpace(string(own))) {
		t.Errorf("%v: %s", err, text)
	}

	// What the shell names may be gone with its daemon.
	if err := WriteBundle(filepath.Join(dir, "third.pem"), filepath.Join(dir, "gone.pem"), own); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteBundle(file, "", own); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(file); err != nil || !os.SameFile(info, after) {
		t.Errorf("a bundle that says so already was written again: %v", err)
	}
}
