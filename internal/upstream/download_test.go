package upstream

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// newProxy makes a directory that is a module proxy with one module, and the go command download from there.
func newProxy(t *testing.T, d download) {
	t.Helper()
	proxy, cache := t.TempDir(), t.TempDir()
	versions := filepath.Join(proxy, d.module, "@v")
	if err := os.MkdirAll(versions, 0o700); err != nil {
		t.Fatal(err)
	}
	mod := "module " + d.module + "\n"
	for name, content := range map[string]string{".info": `{"Version":"` + d.version + `"}`, ".mod": mod} {
		if err := os.WriteFile(filepath.Join(versions, d.version+name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Create(filepath.Join(versions, d.version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	archive := zip.NewWriter(f)
	w, err := archive.Create(d.String() + "/go.mod")
	if err == nil {
		_, err = w.Write([]byte(mod))
	}
	if err == nil {
		err = archive.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOPROXY", "file://"+proxy)
	t.Setenv("GOMODCACHE", cache)
	t.Cleanup(func() { // its files are read-only
		clean := exec.Command("go", "clean", "-modcache")
		clean.Env = append(os.Environ(), "GOMODCACHE="+cache)
		_ = clean.Run()
	})
}

// Everybody can write to /tmp, above a directory for temporary files.
func TestADownloadReadsNoModuleOfOthers(t *testing.T) {
	d := download{module: "coracle.test/module", version: "v1.0.0", sum: "h1:other"}
	newProxy(t, d)
	everybodys := t.TempDir()
	temporary := filepath.Join(everybodys, "own")
	if err := os.Mkdir(temporary, 0o700); err != nil {
		t.Fatal(err)
	}
	other := []byte("module other\n\ngo 99.99.0\n")
	if err := os.WriteFile(filepath.Join(everybodys, "go.mod"), other, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temporary)
	t.Setenv("GOTOOLCHAIN", "auto") // the default, with which the go command reads the module file first
	// Its sum says that it was downloaded.
	if _, err := downloadModule(t.Context(), d); err == nil || !strings.Contains(err.Error(), "its sum is h1:") {
		t.Errorf("download: %v, want that the sum is another", err)
	}
	if entries, err := os.ReadDir(temporary); err != nil || len(entries) != 0 {
		t.Errorf("left in the directory: %v, %v", entries, err)
	}
}
