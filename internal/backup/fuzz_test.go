package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzExtract shows that no archive writes beside the directory that it is unpacked into, or anything but plain files
// that their owner alone reads: it begins with a backup, before it is compressed.
func FuzzExtract(f *testing.F) {
	z, err := gzip.NewReader(bytes.NewReader(written(f, "snapshot")))
	if err != nil {
		f.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		f.Fatal(err)
	}
	var odd bytes.Buffer
	w := tar.NewWriter(&odd)
	for _, header := range []tar.Header{
		{Name: "files/a", Typeflag: tar.TypeSymlink, Linkname: "../.."}, {Name: "files/a/b", Typeflag: tar.TypeReg},
		{Name: "files/../c", Typeflag: tar.TypeReg}, {Name: "files//d", Typeflag: tar.TypeReg},
		{Name: "files/e", Typeflag: tar.TypeFifo, Mode: 0o4777}, {Name: "/f", Typeflag: tar.TypeReg},
		{Name: sumsName, Typeflag: tar.TypeReg},
	} {
		if err := w.WriteHeader(&header); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(plain)
	f.Add(odd.Bytes())
	around := f.TempDir()
	dir := filepath.Join(around, "dir")
	f.Fuzz(func(t *testing.T, plain []byte) {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		var archive bytes.Buffer
		z := gzip.NewWriter(&archive)
		if _, err := z.Write(plain); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		_, failed := extract(&archive, dir)
		files := 0
		if err := filepath.WalkDir(around, func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			files++
			info, err := e.Info()
			if err == nil && (!strings.HasPrefix(name, dir+"/") || info.Mode() != 0o600) {
				err = errors.New(name + " is " + info.Mode().String())
			}
			return err
		}); err != nil {
			t.Fatalf("%q: %v", plain, err)
		}
		if failed == nil && files == 0 {
			t.Fatalf("%q is a backup of nothing", plain)
		}
	})
}

func TestTheManifestOfABackupIsBounded(t *testing.T) {
	t.Parallel()
	var archive bytes.Buffer
	z := gzip.NewWriter(&archive)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: manifestName, Typeflag: tar.TypeReg, Size: maxManifest + 1}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Flush(), z.Close()); err != nil && !strings.Contains(err.Error(), "missed writing") {
		t.Fatal(err)
	}
	if _, err := extract(&archive, t.TempDir()); err == nil || !strings.Contains(err.Error(), "bytes long") {
		t.Errorf("got %v", err)
	}
}
