package nodeimage

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ulikunitz/xz"

	"github.com/coracle-eks/coracle/node"
)

// fakeMirror is a mirror of Debian with packages of the test.
type fakeMirror struct {
	Mirror
	files  map[string][]byte
	key    *openpgp.Entity
	listed []string // paragraphs of the index
	asked  atomic.Int64
	// codename is that of the suite which the index is of; that of the mirror when empty.
	codename string
}

func newMirror(t *testing.T) *fakeMirror {
	t.Helper()
	key, err := openpgp.NewEntity("Archive", "", "archive@example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	m := &fakeMirror{files: make(map[string][]byte), key: key, Mirror: Mirror{Suite: node.Suite}}
	var public bytes.Buffer
	w, err := armor.Encode(&public, openpgp.PublicKeyType, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := key.Serialize(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	m.Keyring = public.Bytes()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.asked.Add(1)
		content, ok := m.files[strings.TrimPrefix(r.URL.Path, "/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(content)
	}))
	t.Cleanup(server.Close)
	m.URL = server.URL
	return m
}

// add adds a package with files by name, of which those that end with "/" are directories and those that begin with
// "-> " links.
func (m *fakeMirror) add(t *testing.T, name, version string, files map[string]string, fields ...string) node.Package {
	t.Helper()
	content := debianPackage(t, name, version, files)
	p := node.Package{Name: name, Version: version, Path: "pool/" + name + "_" + version + ".deb",
		SHA256: checksum(content), Size: int64(len(content))}
	m.files[p.Path] = content
	m.listed = append(m.listed, fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: amd64\nFilename: %s\nSize: %d\n"+
		"SHA256: %s\n%s", name, version, p.Path, p.Size, p.SHA256, strings.Join(append(fields, ""), "\n")))
	return p
}

// publish signs the index of what was added.
func (m *fakeMirror) publish(t *testing.T) {
	t.Helper()
	var packed bytes.Buffer
	z, err := xz.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(z, strings.Join(m.listed, "\n")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	sum := checksum(packed.Bytes())
	m.files["dists/"+m.Suite+"/main/binary-amd64/by-hash/SHA256/"+sum] = packed.Bytes()
	var release bytes.Buffer
	signer, err := clearsign.Encode(&release, m.key.PrivateKey, nil)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(signer, "Suite: stable\nCodename: %s\nSHA256:\n %s %d main/binary-amd64/Packages.xz\n",
		cmp.Or(m.codename, m.Suite), sum, packed.Len())
	if err := signer.Close(); err != nil {
		t.Fatal(err)
	}
	m.files["dists/"+m.Suite+"/InRelease"] = release.Bytes()
}

func checksum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// debianPackage makes a package: an ar archive of two tar archives.
// https://manpages.debian.org/deb.5
func debianPackage(t *testing.T, name, version string, files map[string]string) []byte {
	t.Helper()
	var archive bytes.Buffer
	archive.WriteString("!<arch>\n")
	member := func(name string, content []byte) {
		fmt.Fprintf(&archive, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", name, 0, 0, 0, "100644", len(content))
		archive.Write(content)
		if len(content)%2 == 1 {
			archive.WriteByte('\n')
		}
	}
	member("debian-binary", []byte("2.0\n"))
	control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: amd64\nMaintainer: us\nDescription: a package\n", name,
		version)
	member("control.tar.gz", tarball(t, map[string]string{"./control": control}))
	member("data.tar.gz", tarball(t, files))
	return archive.Bytes()
}

func tarball(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	archive := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{Name: name, Mode: 0o755, Size: int64(len(files[name])), Typeflag: tar.TypeReg}
		content := files[name]
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			header.Typeflag, header.Linkname, header.Size, content = tar.TypeSymlink, target, 0, ""
		}
		if target, ok := strings.CutPrefix(content, "= "); ok {
			header.Typeflag, header.Linkname, header.Size, content = tar.TypeLink, target, 0, ""
		}
		if strings.HasSuffix(name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if strings.HasSuffix(name, ".setgid") {
			header.Mode, header.Gid = 0o2755, 42
		}
		if err := archive.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}
