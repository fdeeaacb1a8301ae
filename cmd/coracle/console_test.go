package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/eventually"
)

const secretLink = "http://127.0.0.1:4566/console/#code=secret"

// fakeOpener returns a program that keeps its arguments, and what it finds where they lead.
func fakeOpener(t *testing.T, then string) (opener, dir string) {
	t.Helper()
	dir = t.TempDir()
	opener = filepath.Join(dir, "opener")
	script := "#!/bin/sh\ncd " + dir + "\necho \"$@\" >arguments\n" +
		"page=\"${1#file://}\"\ncat \"$page\" >page\nstat -c %a \"$page\" \"${page%/*}\" >modes\n" + then + "\n"
	if err := os.WriteFile(opener, []byte(script), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return opener, dir
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestNobodySeesTheLink opens a browser: the code is in a file of the user's until it is redeemed, and in no argument.
func TestNobodySeesTheLink(t *testing.T) {
	runtime := t.TempDir()
	if err := os.Chmod(runtime, 0o700); err != nil { //nolint:gosec // a directory
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	for _, test := range []struct {
		name, then string
		used       func(ctx context.Context, opened func()) error
		failed     bool
	}{
		{"redeemed", "touch done", func(_ context.Context, opened func()) error { opened(); return nil }, false},
		{"the daemon ends", "touch done", func(_ context.Context, opened func()) error {
			opened()
			return errors.New("EOF")
		}, false},
		{"no browser", "exit 3", func(ctx context.Context, _ func()) error { <-ctx.Done(); return ctx.Err() }, true},
	} {
		opener, dir := fakeOpener(t, test.then)
		err := openBrowser(t.Context(), opener, secretLink, func(ctx context.Context) error {
			return test.used(ctx, func() {
				eventually.True(t, "a browser is opened", func() bool {
					_, err := os.Stat(filepath.Join(dir, "done"))
					return err == nil
				})
			})
		})
		if (err != nil) != test.failed {
			t.Errorf("%s: %v", test.name, err)
		}
		arguments := read(t, dir, "arguments")
		if strings.Contains(arguments, "secret") || !strings.HasPrefix(arguments, "file://"+runtime+"/coracle-console-") {
			t.Errorf("%s: everybody sees the arguments %q", test.name, arguments)
		}
		if got := read(t, dir, "modes"); got != "600\n700\n" {
			t.Errorf("%s: the modes are %q", test.name, got)
		}
		if page := read(t, dir, "page"); !strings.Contains(page, `content="0; url=`+secretLink+`"`) {
			t.Errorf("%s: the page leads elsewhere: %s", test.name, page)
		}
		if left, err := os.ReadDir(runtime); err != nil || len(left) > 0 {
			t.Errorf("%s: %v is left (%v)", test.name, left, err)
		}
	}
}

// TestPagesWithoutARuntimeDirectory has none, or one that others may enter, or somebody else's.
func TestPagesWithoutARuntimeDirectory(t *testing.T) {
	temporary, shared := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temporary)
	elsewhere := filepath.Join(shared, "link")
	//nolint:gosec // a directory
	if err := errors.Join(os.Chmod(shared, 0o755), os.Symlink(shared, elsewhere)); err != nil {
		t.Fatal(err)
	}
	all := []string{"", filepath.Join(temporary, "none"), shared, elsewhere}
	if os.Geteuid() == 0 {
		foreign := t.TempDir()
		//nolint:gosec // likewise
		if err := errors.Join(os.Chmod(foreign, 0o700), os.Chown(foreign, 12345, 12345)); err != nil {
			t.Fatal(err)
		}
		all = append(all, foreign)
	}
	for _, runtime := range all {
		dir, page, err := writePage(runtime, secretLink+`"><script>`)
		if err != nil || filepath.Dir(dir) != temporary {
			t.Fatalf("%q: %s, %v", runtime, dir, err)
		}
		text, err := os.ReadFile(page)
		if err != nil || strings.Contains(string(text), "<script>") {
			t.Errorf("%s (%v)", text, err)
		}
	}
}

// TestPagesOverwriteNothing has somebody put another directory in the place of the one that was made.
func TestPagesOverwriteNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // what is refused
		t.Fatal(err)
	}
	if err := writePrivate(dir, "page", "new"); err == nil {
		t.Error("a page is in a directory that others may enter")
	}
	page, target := filepath.Join(dir, "page"), filepath.Join(dir, "target")
	if err := errors.Join(os.Chmod(dir, 0o700), os.WriteFile(target, []byte("old"), 0o600), //nolint:gosec // a directory
		os.Symlink("target", page)); err != nil {
		t.Fatal(err)
	}
	if err := writePrivate(dir, "page", "new"); err == nil || read(t, dir, "target") != "old" {
		t.Errorf("%q is written (%v)", read(t, dir, "target"), err)
	}
}
