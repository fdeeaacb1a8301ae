package harness

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/coracle-eks/coracle/internal/nodeimage"
	"github.com/coracle-eks/coracle/node"
)

// AWSCLI is the reference of an image as users build them: Debian with the aws command line and boto3, unmodified,
// faketime, and a program of their own with the SDK for Go, which is whoami.
const AWSCLI = "docker.io/example/aws-cli:trixie"

// awsPackages are the packages of [AWSCLI], without their dependencies.
var awsPackages = []string{"awscli", "python3-boto3", "ca-certificates", "coreutils", "dash", "libfaketime"}

// AWSCLIArchive returns the file of a docker archive of [AWSCLI]. It is assembled of Debian packages, once for all
// tests, as no image can be pulled. It needs apt and root.
func AWSCLIArchive(t testing.TB) string {
	t.Helper()
	return madeOnce(t, "aws-cli-"+strings.Join(boto3APIs, "-")+".tar", func(file string) { writeAWSCLI(t, file) })
}

func writeAWSCLI(t testing.TB, file string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	packages := downloadPackages(t, awsPackages...)
	layer := filepath.Join(t.TempDir(), "layer.tar")
	f, err := os.Create(layer)
	must(err)
	must(writePackages(f, packages, buildProgram(t, "whoami")))
	must(f.Close())
	l, err := tarball.LayerFromFile(layer)
	must(err)
	image, err := mutate.AppendLayers(empty.Image, l)
	must(err)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{Architecture: "amd64", OS: "linux",
		Config: v1.Config{Entrypoint: []string{"/usr/bin/aws"}, Env: []string{"PATH=/usr/bin:/bin"}},
		RootFS: rootFS(t, image)})
	must(err)
	tag, err := name.NewTag(AWSCLI)
	must(err)
	must(tarball.WriteToFile(file, tag, image))
}

// downloadPackages returns the files of packages of Debian and of all that they depend on. It leaves apt of this
// machine alone.
func downloadPackages(t testing.TB, packages ...string) []string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"lists/partial", "archives/partial", "status"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name string, content []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mirror := nodeimage.DefaultMirror
	if other := os.Getenv(nodeimage.EnvMirror); other != "" {
		mirror = other
	}
	write("keys.asc", node.Keyring)
	write("status/installed", nil)
	write("sources.list", fmt.Appendf(nil, "deb [signed-by=%s/keys.asc] %s %s main\n", dir, mirror, node.Suite))
	options := []string{"-q", "-o", "Dir::Etc::sourcelist=" + dir + "/sources.list", "-o", "Dir::Etc::sourceparts=-",
		"-o", "Dir::State::lists=" + dir + "/lists", "-o", "Dir::State::status=" + dir + "/status/installed",
		"-o", "Dir::Cache::archives=" + dir + "/archives", "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=",
		"-o", "APT::Sandbox::User=root", "-o", "Acquire::Languages=none"}
	for _, args := range [][]string{{"update"}, append([]string{"install", "--download-only", "--yes",
		"--no-install-recommends"}, packages...)} {
		cmd := exec.Command("apt-get", append(slices.Clone(options), args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("apt-get %s: %v\n%s", args[0], err, out)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "archives", "*.deb"))
	if err != nil || len(files) == 0 {
		t.Fatalf("apt-get downloaded nothing: %v", err)
	}
	return files
}

// Of what the packages have, an image that runs one command for a test does without these.
var leftOut = []string{"usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/i18n",
	"usr/share/lintian", "usr/lib/python3/dist-packages/awscli/examples", "usr/share/zoneinfo", "usr/sbin", "var"}

// boto3APIs are the services whose models stay in the image for boto3. The aws command line has models of its own, and
// ends without any of them.
var boto3APIs = []string{"sts", "eks", "s3"}

// writePackages writes the files of packages and a program as one archive, in the layout of a merged /usr.
func writePackages(to io.Writer, packages []string, program string) error {
	w := tar.NewWriter(to)
	for _, link := range []string{"bin", "lib", "lib64", "sbin"} {
		err := w.WriteHeader(&tar.Header{Name: link, Typeflag: tar.TypeSymlink, Linkname: "usr/" + link})
		if err != nil {
			return err
		}
	}
	var authorities bytes.Buffer // what update-ca-certificates would make
	for _, file := range packages {
		content, err := exec.Command("dpkg-deb", "--fsys-tarfile", file).Output()
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for r := tar.NewReader(bytes.NewReader(content)); ; {
			h, err := r.Next()
			if err == io.EOF { //nolint:errorlint // a reader returns EOF itself
				break
			} else if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			h.Name = strings.TrimPrefix(path.Clean(h.Name), "/")
			if first, _, _ := strings.Cut(h.Name, "/"); slices.Contains([]string{"bin", "lib", "lib64", "sbin"}, first) {
				h.Name = "usr/" + h.Name
			}
			if h.Typeflag == tar.TypeLink {
				h.Linkname = strings.TrimPrefix(path.Clean(h.Linkname), "/")
			}
			if h.Name == "." || isLeftOut(h.Name) {
				continue
			}
			if strings.HasPrefix(h.Name, "usr/share/ca-certificates/mozilla/") {
				if _, err := io.Copy(&authorities, r); err != nil {
					return err
				}
				continue
			}
			if err := w.WriteHeader(h); err != nil {
				return err
			}
			if _, err := io.Copy(w, r); err != nil {
				return err
			}
		}
	}
	content, err := os.ReadFile(program)
	if err == nil {
		err = w.WriteHeader(&tar.Header{Name: "usr/bin/" + filepath.Base(program), Mode: 0o755, Size: int64(len(content))})
	}
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = w.WriteHeader(&tar.Header{Name: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644,
			Size: int64(authorities.Len())})
	}
	if err == nil {
		_, err = w.Write(authorities.Bytes())
	}
	if err == nil {
		err = w.WriteHeader(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777})
	}
	if err == nil {
		err = w.WriteHeader(&tar.Header{Name: "usr/bin/sh", Typeflag: tar.TypeSymlink, Linkname: "dash"})
	}
	if err != nil {
		return err
	}
	return w.Close()
}

func isLeftOut(name string) bool {
	for _, dir := range leftOut {
		if name == dir || strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	data, found := strings.CutPrefix(name, "usr/lib/python3/dist-packages/botocore/data/")
	service, _, below := strings.Cut(data, "/")
	return found && below && !slices.Contains(boto3APIs, service)
}
