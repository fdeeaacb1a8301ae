package nodeimage

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"pault.ag/go/debian/control"
	"pault.ag/go/debian/deb"
	"pault.ag/go/debian/version"

	"github.com/coracle-eks/coracle/node"
)

// EnvMirror and EnvSecurityMirror name the environment variables with the URLs of mirrors of Debian and of its security
// updates, instead of DefaultMirror and DefaultSecurityMirror.
const (
	EnvMirror         = "CORACLE_DEBIAN_MIRROR"
	EnvSecurityMirror = "CORACLE_DEBIAN_SECURITY_MIRROR"
)

// DefaultMirror and DefaultSecurityMirror are Debian's content delivery network. It is plain HTTP, as in Debian itself:
// every file is compared with a checksum that was pinned or signed, and a new machine has no certificate authorities.
const (
	DefaultMirror         = "http://deb.debian.org/debian"
	DefaultSecurityMirror = "http://deb.debian.org/debian-security"
)

const (
	maxRelease = 8 << 20   // bytes of an InRelease file
	maxIndex   = 512 << 20 // bytes of a list of packages, unpacked
	attempts   = 3         // to get a file
	// stallTimeout is the time that one file may take; the largest has 10 MB.
	stallTimeout = 5 * time.Minute
)

// errGone is returned for a file that the mirror does not have, or no longer.
var errGone = errors.New("the mirror does not have it")

// Mirror is where the packages of one suite of Debian are.
type Mirror struct {
	URL, Suite string
	// Keyring has the keys that sign its indexes, in ASCII armor.
	Keyring []byte
}

// Mirrors are those of a release of Debian, and of its updates.
type Mirrors []Mirror

// Debian returns the mirrors that the environment names, or those of Debian.
func Debian() Mirrors {
	return Mirrors{
		{cmp.Or(os.Getenv(EnvMirror), DefaultMirror), node.Suite, node.Keyring},
		{cmp.Or(os.Getenv(EnvSecurityMirror), DefaultSecurityMirror), node.SecuritySuite, node.SecurityKeyring},
	}
}

// download returns the file of a package, whose checksum it verifies.
func (m Mirrors) download(ctx context.Context, p node.Package) ([]byte, error) {
	i := slices.IndexFunc(m, func(m Mirror) bool { return m.Suite == cmp.Or(p.Suite, node.Suite) })
	if i < 0 {
		return nil, fmt.Errorf("no mirror has the suite %s", p.Suite)
	}
	content, err := m[i].get(ctx, p.Path, p.Size)
	if err != nil {
		return nil, err
	}
	return content, verify(p.Path, content, p.SHA256)
}

// URL returns the address of a package at Debian.
func URL(p node.Package) string {
	if p.Suite == node.SecuritySuite {
		return DefaultSecurityMirror + "/" + p.Path
	}
	return DefaultMirror + "/" + p.Path
}

func (m Mirror) url() string { return strings.TrimSuffix(m.URL, "/") }

func verify(path string, content []byte, want string) error {
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != want {
		return fmt.Errorf("%s has the checksum %x, and not %s: it is not what Debian published", path, sum, want)
	}
	return nil
}

// get returns a file of at most limit bytes.
func (m Mirror) get(ctx context.Context, path string, limit int64) (content []byte, err error) {
	for try := range attempts {
		if content, err = m.tryGet(ctx, path, limit); err == nil || errors.Is(err, errGone) || ctx.Err() != nil {
			return content, err
		}
		if try < attempts-1 {
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(try+1) * time.Second):
			}
		}
	}
	return nil, err
}

func (m Mirror) tryGet(ctx context.Context, path string, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, stallTimeout)
	defer cancel()
	url := m.url() + "/" + path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusGone:
		return nil, fmt.Errorf("%s: %w", url, errGone)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = fmt.Errorf("%s is larger than the %d bytes that it should have at most", url, limit)
	}
	return content, err
}

// Index has the newest packages of mirrors for an architecture, by their names.
type Index map[string]Entry

// Entry is a package of an index.
type Entry struct {
	control.BinaryIndex
	suite string
}

// Index downloads the lists of packages for an architecture, and verifies that Debian signed them.
func (m Mirrors) Index(ctx context.Context, architecture string) (Index, error) {
	index := make(Index)
	for _, mirror := range m {
		list, err := mirror.index(ctx, architecture)
		if err != nil {
			return nil, err
		}
		for _, p := range list {
			if found, ok := index[p.Package]; !ok || version.Compare(p.Version, found.Version) > 0 {
				index[p.Package] = Entry{p, mirror.Suite}
			}
		}
	}
	return index, nil
}

func (m Mirror) index(ctx context.Context, architecture string) ([]control.BinaryIndex, error) {
	suite := m.Suite
	release, err := m.get(ctx, "dists/"+suite+"/InRelease", maxRelease)
	if err != nil {
		return nil, err
	}
	signed, err := m.verifySignature(release)
	if err != nil {
		return nil, fmt.Errorf("verify the signature of %s/dists/%s/InRelease: %w", m.url(), suite, err)
	}
	if codename := fieldOf(signed, "Codename"); codename != suite { // Debian signs those of other suites, too
		return nil, fmt.Errorf("%s/dists/%s/InRelease is of the suite %.50q: use another mirror", m.url(), suite, codename)
	}
	name := "main/binary-" + architecture + "/Packages.xz"
	sum, size, err := checksumOf(signed, name)
	if err != nil {
		return nil, err
	}
	packed, err := m.get(ctx, "dists/"+suite+"/main/binary-"+architecture+"/by-hash/SHA256/"+sum, size)
	if err != nil {
		return nil, err
	}
	if err := verify(name, packed, sum); err != nil {
		return nil, err
	}
	unpacked, err := deb.DecompressorFor(".xz")(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	defer unpacked.Close()
	list, err := control.ParseBinaryIndex(bufio.NewReader(io.LimitReader(unpacked, maxIndex)))
	if err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", name, suite, err)
	}
	return list, nil
}

// verifySignature returns what is signed of a file.
func (m Mirror) verifySignature(file []byte) ([]byte, error) {
	keys, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(m.Keyring))
	if err != nil {
		return nil, err
	}
	block, _ := clearsign.Decode(file)
	if block == nil {
		return nil, errors.New("it is not signed")
	}
	_, err = openpgp.CheckDetachedSignature(keys, bytes.NewReader(block.Bytes), block.ArmoredSignature.Body, nil)
	return block.Plaintext, err
}

// fieldOf returns the value of a field of a Release file, which is on one line.
func fieldOf(release []byte, name string) string {
	for line := range bytes.Lines(release) {
		if value, ok := bytes.CutPrefix(line, []byte(name+":")); ok {
			return string(bytes.TrimSpace(value))
		}
	}
	return ""
}

// checksumOf finds the SHA-256 and the size of a file in a Release file.
// https://wiki.debian.org/DebianRepository/Format#MD5Sum.2C_SHA1.2C_SHA256
func checksumOf(release []byte, name string) (sum string, size int64, err error) {
	_, sums, _ := bytes.Cut(release, []byte("\nSHA256:"))
	for line := range bytes.Lines(sums) {
		if fields := strings.Fields(string(line)); len(fields) == 3 && fields[2] == name {
			size, err := strconv.ParseInt(fields[1], 10, 64)
			return fields[0], size, err
		}
	}
	return "", 0, fmt.Errorf("the Release file does not name %s", name)
}

// replaces returns an error unless a package of an index may come instead of one that is pinned. An index that Debian
// has signed may be old, of packages with faults that are known by now.
func replaces(p Entry, pinned node.Package) error {
	than, err := version.Parse(pinned.Version)
	if err != nil {
		return fmt.Errorf("the version %q of the package %s: %w", pinned.Version, pinned.Name, err)
	}
	if c := version.Compare(p.Version, than); c < 0 || c == 0 && p.SHA256 != pinned.SHA256 {
		return fmt.Errorf("the mirror has %s %s instead, which is not newer than %s: use another mirror (%s, %s)", p.Package,
			p.Version, pinned.Version, EnvMirror, EnvSecurityMirror)
	}
	return nil
}

// lock returns what is to be recorded of a package.
func lock(p Entry) node.Package {
	locked := node.Package{Name: p.Package, Version: p.Version.String(), Path: p.Filename, SHA256: p.SHA256,
		Size: int64(p.Size)}
	if p.suite != node.Suite {
		locked.Suite = p.suite
	}
	return locked
}
