package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/zstd"
)

// tarEntry is one of a tar file.
type tarEntry struct {
	header  tar.Header
	content string
}

func file(name, content string) tarEntry {
	return tarEntry{tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(content)), Mode: 0o644}, content}
}

func symlink(name, target string) tarEntry {
	return tarEntry{header: tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}}
}

func hardLink(name, target string) tarEntry {
	return tarEntry{header: tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: target}}
}

func tarOf(t testing.TB, entries ...tarEntry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		if err := w.WriteHeader(&e.header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestUnpack(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("\x00", 1<<20)
	small := bounds{entries: 8, bytes: 1 << 19}
	gzipped := func(content []byte) []byte {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		if _, err := z.Write(content); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	zstandard := func(content []byte) []byte {
		z, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		return z.EncodeAll(content, nil)
	}
	many := []tarEntry{file("manifest.json", "[]")}
	for i := range small.entries {
		many = append(many, file(fmt.Sprint("layer", i), ""))
	}
	loop := []tarEntry{symlink("index.json", "a"), symlink("a", "b"), symlink("b", "a")}
	for name, test := range map[string]struct {
		archive []byte
		want    map[string]string // the files, where there is no error
		err     string
	}{
		"files": {
			archive: tarOf(t, file("manifest.json", "[]"), file("./a/layer.tar", "x")),
			want:    map[string]string{"manifest.json": "[]", "a/layer.tar": "x"},
		},
		"a layer that images share": {
			archive: tarOf(t, symlink("b/layer.tar", "../a/layer.tar"), file("a/layer.tar", "x"),
				hardLink("c/layer.tar", "a/layer.tar"),
				symlink("d/layer.tar", "../b/layer.tar"), file("manifest.json", "[]")),
			want: map[string]string{"manifest.json": "[]", "a/layer.tar": "x", "b/layer.tar": "x", "c/layer.tar": "x",
				"d/layer.tar": "x"},
		},
		"index.json leads to a device of the host": {archive: tarOf(t, symlink("index.json", "/dev/zero")),
			err: `the link "index.json" leads out of the archive, to "/dev/zero"`},
		"manifest.json leads to a file of the host": {archive: tarOf(t,
			symlink("manifest.json", "../../../../etc/passwd")),
			err: `the link "manifest.json" leads out of the archive`},
		"a link through a link": {archive: tarOf(t, file("index.json", "{}"),
			symlink("up", ".."), symlink("b", "up/x")), err: "no file of the archive"},
		"a hard link that leads out": {archive: tarOf(t, file("index.json", "{}"),
			hardLink("b", "../b")), err: `the link "b" leads out of the archive`},
		"a link to a directory": {archive: tarOf(t, file("index.json", "{}"), file("dir/a", ""),
			symlink("b", "dir")), err: "no file of the archive"},
		"links that lead to each other": {archive: tarOf(t, loop...), err: "no file of the archive"},
		"a file through a link": {archive: tarOf(t, file("index.json", "{}"),
			symlink("blobs", "/etc"), file("blobs/x", "")), err: `the link "blobs" leads out of the archive`},
		"a name that leads out": {archive: tarOf(t, file("../index.json", "{}")),
			err: "escapes"},
		"a device": {archive: tarOf(t,
			tarEntry{header: tar.Header{Name: "index.json", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 5}}),
			err: "neither a file, a directory nor a link"},
		"a pipe": {archive: tarOf(t,
			tarEntry{header: tar.Header{Name: "index.json", Typeflag: tar.TypeFifo}}),
			err: "neither a file, a directory nor a link"},
		"a long name": {archive: tarOf(t, file(strings.Repeat("a/", maxEntryName)+"x",
			"")), err: "longer than"},
		"too many entries": {archive: tarOf(t, many...), err: "more than 8 entries"},
		"a file that is too large": {archive: tarOf(t, file("index.json", zeros)),
			err: "unpacks to more than 512 KiB"},
		"files that are too large together": {archive: tarOf(t, file("index.json", zeros[:300<<10]),
			file("b", zeros[:300<<10])), err: "unpacks to more than 512 KiB"},
		"a gzip bomb": {archive: gzipped(tarOf(t, file("index.json", zeros))),
			err: "unpacks to more than 512 KiB"},
		"a zstd bomb": {archive: zstandard(tarOf(t, file("index.json", zeros))),
			err: "unpacks to more than 512 KiB"},
		"a bomb of headers, which no entry comes after": {
			archive: gzipped(bytes.Repeat(tarOf(t, tarEntry{header: tar.Header{Typeflag: tar.TypeXGlobalHeader,
				Name: "x", PAXRecords: map[string]string{"a": "b"}}})[:1024], 1024)), err: "more than 8 entries"},
		"the files of a container": {archive: tarOf(t, file("etc/passwd", "root"),
			symlink("bin", "/usr/bin")), err: "neither index.json nor manifest.json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, err := os.OpenRoot(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			err = extractArchive(root, bytes.NewReader(test.archive), small)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error is %v, want one with %q", err, test.err)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			got, size := make(map[string]string), int64(0)
			err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				if !d.Type().IsRegular() {
					t.Errorf("%s is %s", name, d.Type())
					return nil
				}
				content, err := root.ReadFile(name)
				got[name] = string(content)
				size += int64(len(content))
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if size > small.bytes+1 {
				t.Errorf("%d bytes are on the disk", size)
			}
			if test.err == "" && fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("unpacked %q, want %q", got, test.want)
			}
		})
	}
}

// TestLoadLinkedLayers loads docker's form with layers as links, as docker wrote it before version 25 and podman does.
func TestLoadLinkedLayers(t *testing.T) {
	t.Parallel()
	img, err := random.Image(300, 2)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("quay.io/team/linked:v1")
	if err != nil {
		t.Fatal(err)
	}
	var plain bytes.Buffer
	if err := tarball.MultiWrite(map[name.Tag]v1.Image{tag: img}, &plain); err != nil {
		t.Fatal(err)
	}
	var entries []tarEntry
	for source := tar.NewReader(&plain); ; {
		header, err := source.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(source)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(header.Name, ".tar.gz") {
			stored := "layers/" + header.Name
			entries = append(entries, symlink(header.Name, stored))
			header.Name = stored
		}
		entries = append(entries, file(header.Name, string(content)))
	}
	r := open(t, Options{Transport: newInternet()})
	loaded, err := r.Load(t.Context(), bytes.NewReader(tarOf(t, entries...)), nobody{})
	if err != nil || len(loaded) != 1 {
		t.Fatalf("loaded %v, %v", loaded, err)
	}
	if status, got, body := get(t, r, "team/linked", "v1", "quay.io"); status != 200 || got != hash(t, img) {
		t.Errorf("%d %s %s", status, got, body)
	}
}

// TestLoadBoundsMetadata loads archives whose metadata would be read into memory as a whole.
func TestLoadBoundsMetadata(t *testing.T) {
	t.Parallel()
	large := strings.Repeat(" ", maxMetadata+1)
	digest := func(content string) string {
		h, _, err := v1.SHA256(strings.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		return h.String()
	}
	blob := func(content string) tarEntry {
		return file(path.Join("blobs", "sha256", strings.TrimPrefix(digest(content), "sha256:")), content)
	}
	index := func(mediaType, manifest string) tarEntry {
		return file("index.json", fmt.Sprintf(
			`{"schemaVersion":2,"manifests":[{"mediaType":%q,"size":9,"digest":%q,"annotations":{"io.containerd.image.name":"a.example/b:c"}}]}`, mediaType, digest(manifest)))
	}
	const (
		imageType = "application/vnd.oci.image.manifest.v1+json"
		indexType = "application/vnd.oci.image.index.v1+json"
	)
	manifestOf := func(config string) string {
		return fmt.Sprintf(
			`{"schemaVersion":2,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","size":9,"digest":%q},"layers":[]}`, digest(config))
	}
	nested := fmt.Sprintf(`{"schemaVersion":2,"manifests":[{"mediaType":%q,"size":9,"digest":%q}]}`, imageType,
		digest(manifestOf(large)))
	for name, entries := range map[string][]tarEntry{
		"index.json":                  {file("index.json", "{}"+large)},
		"manifest.json":               {file("manifest.json", "[]"+large)},
		"a manifest":                  {index(imageType, large), blob(large)},
		"an index":                    {index(indexType, large), blob(large)},
		"a configuration":             {index(imageType, manifestOf(large)), blob(manifestOf(large)), blob(large)},
		"a configuration in an index": {index(indexType, nested), blob(nested), blob(manifestOf(large)), blob(large)},
		"docker's configuration": {file("manifest.json",
			`[{"Config":"./c.json","RepoTags":["a.example/b:c"],"Layers":[]}]`), file("c.json", large)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t, Options{Transport: newInternet()})
			_, err := r.Load(t.Context(), bytes.NewReader(tarOf(t, entries...)), nobody{})
			if err == nil || !strings.Contains(err.Error(), "may have 4.0 MiB") {
				t.Errorf("error is %v", err)
			}
		})
	}
}
