package rundir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/testenv"
)

func TestCreate(t *testing.T) {
	t.Parallel()
	mkdir := func(mode os.FileMode) func(string) error {
		return func(name string) error { return errors.Join(os.Mkdir(name, 0o700), os.Chmod(name, mode)) }
	}
	for _, c := range []struct {
		name    string
		prepare map[string]func(name string) error
		err     string
	}{
		{"nothing is there", nil, ""},
		{"open to others, as an earlier version made it", map[string]func(string) error{"run": mkdir(0o755),
			"run/owner": mkdir(0o777)}, ""},
		{"a symbolic link", map[string]func(string) error{"run": func(name string) error {
			return os.Symlink("/tmp",
				name)
		}}, "symbolic link"},
		{"a symbolic link below", map[string]func(string) error{
			"run": mkdir(0o700), "run/owner": func(name string) error { return os.Symlink("/tmp", name) }},
			"symbolic link"},
		{"a file", map[string]func(string) error{"run": func(name string) error {
			return os.WriteFile(name, nil,
				0o600)
		}}, "file"},
		{"somebody else's", map[string]func(string) error{"run": func(name string) error {
			return errors.Join(os.Mkdir(name, 0o700), os.Chown(name, 65534, -1))
		}}, "belongs to user 65534"},
		{"somebody else's below", map[string]func(string) error{"run": mkdir(0o700),
			"run/owner": func(name string) error {
				return errors.Join(os.Mkdir(name, 0o700), os.Chown(name, 65534, -1))
			}}, "belongs to user 65534"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if strings.HasPrefix(c.name, "somebody") {
				testenv.NeedsRoot(t)
			}
			dir := t.TempDir()
			for _, name := range []string{"run", "run/owner"} {
				if prepare := c.prepare[name]; prepare != nil {
					if err := prepare(filepath.Join(dir, name)); err != nil {
						t.Fatal(err)
					}
				}
			}
			path, err := createPath(filepath.Join(dir, "run"), "owner", "endpoint")
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), dir) {
					t.Errorf("error is %v, want one about %s that says %q", err, dir, c.err)
				}
				return
			}
			if err != nil || path != filepath.Join(dir, "run/owner/endpoint") {
				t.Fatalf("created %s, %v", path, err)
			}
			for _, name := range []string{"run", "run/owner", "run/owner/endpoint"} {
				if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o700 {
					t.Errorf("%s: %v, %v", name, info.Mode(), err)
				}
			}
		})
	}
}
