package runcspec_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/coracle-eks/coracle/internal/guest/runcspec"
)

func TestOption(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"apart":    {[]string{"create", "--bundle", "/b", "id"}, "/b"},
		"joined":   {[]string{"create", "--bundle=/b", "id"}, "/b"},
		"short":    {[]string{"-b", "/b"}, "/b"},
		"none":     {[]string{"create", "id"}, ""},
		"no value": {[]string{"create", "--bundle"}, ""},
	} {
		if got := runcspec.Option(test.args, "--bundle", "-b"); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestRewrite(t *testing.T) {
	t.Parallel()
	const spec = `{"a": 1, "b": {"c": 2}}`
	failed := errors.New("no")
	for name, test := range map[string]struct {
		content string
		change  func(runcspec.Object) (bool, error)
		want    string
		fails   bool
	}{
		"changed": {spec, func(o runcspec.Object) (bool, error) { return true, o.Set("a", 3) }, `{"a":3,"b":{"c":2}}`, false},
		"not changed": {spec, func(o runcspec.Object) (bool, error) {
			var a int
			err := o.Get("a", &a)
			return a != 1, err
		}, spec, false},
		"missing":    {spec, func(o runcspec.Object) (bool, error) { return false, o.Get("d", nil) }, spec, false},
		"not of use": {spec, func(o runcspec.Object) (bool, error) { return true, o.Get("a", new(string)) }, spec, true},
		"failed":     {spec, func(runcspec.Object) (bool, error) { return true, failed }, spec, true},
		"no object":  {`[]`, func(runcspec.Object) (bool, error) { return true, nil }, `[]`, true},
	} {
		file := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(file, []byte(test.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := runcspec.Rewrite(file, test.change); (err != nil) != test.fails {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != test.want {
			t.Errorf("%s: %s (%v), want %s", name, got, err, test.want)
		}
	}
}
