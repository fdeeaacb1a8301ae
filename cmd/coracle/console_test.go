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

// TestPagesWithoutARuntimeDirectory has none, or one of somebody else.
func TestPagesWithoutARuntimeDirectory(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	for _, runtime := range []string{"", filepath.Join(temporary, "none")} {
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
