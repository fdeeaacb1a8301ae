package nodeimage

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/node"
)

func noProgress(int, int, string) {}

// twoPackages returns a recipe of two packages of the mirror.
func twoPackages(t *testing.T, m *fakeMirror) recipe {
	t.Helper()
	shell := m.add(t, "shell", "1.0", map[string]string{
		"./bin/": "", "./bin/bash": "a shell", "./usr/bin/rbash": "-> bash", "./usr/bin/again": "= ./bin/bash",
		"./usr/share/doc/shell/README": "unwanted", "./usr/share/doc/shell/copyright": "kept",
		"./usr/bin/one.setgid": "of a group",
	})
	roots := m.add(t, "roots", "2.0", map[string]string{"./usr/share/roots/b.crt": "B\n",
		"./usr/share/roots/a.crt": "A"})
	m.publish(t)
	return recipe{
		Architecture: "amd64", Packages: []node.Package{shell, roots}, Links: map[string]string{"bin": "usr/bin",
			"usr/bin/sh": "bash"},
		Joined: map[string]string{"etc/roots": "usr/share/roots/*.crt"}, Unwanted: []string{"usr/share/doc"},
		Wanted: []string{"usr/share/doc/*/copyright"},
	}
}

func TestBuildAndUnpack(t *testing.T) {
	t.Parallel()
	m := newMirror(t)
	r := twoPackages(t, m)
	dir := t.TempDir()
	var steps []int
	manifest, err := r.build(t.Context(), Mirrors{m.Mirror}, dir, func(done, total int, _ string) {
		steps = append(steps, done*10+total)
	})
	if err != nil || !slices.Equal(steps, []int{12, 22}) {
		t.Fatalf("%v, progress %v", err, steps)
	}
	size := int64(len("a shell" + "kept" + "of a group" + "B\n" + "A" + "A\nB\n"))
	if len(manifest.Packages) != 2 || manifest.Replaced() != nil || manifest.Size != size {
		t.Errorf("the manifest has %+v", manifest)
	}
	again := t.TempDir()
	if _, err := r.build(t.Context(), Mirrors{m.Mirror}, again, noProgress); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{ArchiveName, ManifestName} {
		one, err1 := os.ReadFile(filepath.Join(dir, name))
		two, err2 := os.ReadFile(filepath.Join(again, name))
		if err1 != nil || err2 != nil || !bytes.Equal(one, two) {
			t.Errorf("%s is another one the second time (%v, %v)", name, err1, err2)
		}
	}
	if runtime.GOARCH != "amd64" {
		return
	}
	into := filepath.Join(t.TempDir(), "base")
	if err := os.MkdirAll(filepath.Join(into, "of-yesterday"), 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := Unpack(dir, into)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"usr/bin/bash": "a shell", "bin/sh": "a shell", "usr/bin/rbash": "a shell",
		"usr/bin/again": "a shell", "usr/share/doc/shell/copyright": "kept", "etc/roots": "A\nB\n"} {
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v; want %q", name, got, err, want)
		}
	}
	if info, err := os.Stat(filepath.Join(root, "usr/bin/one.setgid")); err != nil || info.Mode() != 0o755 {
		t.Errorf("a program for a group of Debian's: %v, %v", info, err)
	}
	for _, name := range []string{root + "/usr/share/doc/shell/README", into + "/of-yesterday"} {
		if _, err := os.Lstat(name); err == nil {
			t.Errorf("there is %s", name)
		}
	}
	if same, err := Unpack(dir, into); err != nil || same != root {
		t.Errorf("unpacked again: %s, %v", same, err)
	}
}

func TestAReplacedPackage(t *testing.T) {
	t.Parallel()
	m := newMirror(t)
	r := twoPackages(t, m)
	delete(m.files, r.Packages[0].Path)
	m.listed = m.listed[1:]
	m.add(t, "shell", "1.1", map[string]string{"./bin/bash": "a newer shell"})
	m.publish(t)
	manifest, err := r.build(t.Context(), Mirrors{m.Mirror}, t.TempDir(), noProgress)
	if err != nil || !slices.Equal(manifest.Replaced(), []string{"shell 1.1"}) || manifest.Packages[0].Instead != "1.0" {
		t.Errorf("%+v, %v", manifest, err)
	}
}

func TestSecurityUpdates(t *testing.T) {
	t.Parallel()
	release, security := newMirror(t), newMirror(t)
	security.Suite = node.SecuritySuite
	r := twoPackages(t, release)
	updated := security.add(t, "shell", "1.0+deb13u1", map[string]string{"./bin/bash": "a mended shell"})
	security.add(t, r.Packages[1].Name, "0.1", map[string]string{"./bin/old": "of a release before"})
	release.publish(t)
	security.publish(t)
	mirrors := Mirrors{release.Mirror, security.Mirror}
	index, err := mirrors.Index(t.Context(), "amd64")
	if err != nil {
		t.Fatal(err)
	}
	packages, err := Resolve(index, r.Packages, []string{r.Packages[0].Name, r.Packages[1].Name}, nil)
	if err != nil {
		t.Fatal(err)
	}
	updated.Suite = node.SecuritySuite
	want := []node.Package{r.Packages[1], updated}
	slices.SortFunc(want, func(a, b node.Package) int { return strings.Compare(a.Name, b.Name) })
	if !slices.Equal(packages, want) {
		t.Fatalf("got %+v, want %+v", packages, want)
	}
	r.Packages = packages
	manifest, err := r.build(t.Context(), mirrors, t.TempDir(), noProgress)
	if err != nil || len(manifest.Replaced()) > 0 {
		t.Errorf("%+v, %v", manifest, err)
	}
	// An update that became part of the release is there instead.
	delete(security.files, updated.Path)
	security.listed = nil
	security.publish(t)
	release.add(t, "shell", "1.0+deb13u1+b1", map[string]string{"./bin/bash": "a mended shell, built again"})
	release.publish(t)
	manifest, err = r.build(t.Context(), mirrors, t.TempDir(), noProgress)
	if err != nil || !slices.Equal(manifest.Replaced(), []string{"shell 1.0+deb13u1+b1"}) {
		t.Errorf("%+v, %v", manifest, err)
	}
	if _, err := r.build(t.Context(), Mirrors{release.Mirror}, t.TempDir(), noProgress); err == nil ||
		!strings.Contains(err.Error(), "no mirror has the suite trixie-security") {
		t.Errorf("without the mirror of updates: %v", err)
	}
}

func TestBuildRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(t *testing.T, m *fakeMirror, r *recipe)
		want   string
	}{
		"a package that was changed": {func(_ *testing.T, m *fakeMirror, r *recipe) {
			content := m.files[r.Packages[0].Path]
			content[len(content)-1] ^= 1
		}, "it is not what Debian published"},
		"a package that is larger": {func(_ *testing.T, m *fakeMirror, r *recipe) {
			m.files[r.Packages[0].Path] = append(m.files[r.Packages[0].Path], 0)
		}, "is larger than"},
		"a package that is gone": {func(t *testing.T, m *fakeMirror, r *recipe) {
			delete(m.files, r.Packages[0].Path)
			m.listed = m.listed[1:]
			m.publish(t)
		}, "nor anything that replaces it"},
		"an index with an older package": {func(t *testing.T, m *fakeMirror, r *recipe) {
			delete(m.files, r.Packages[0].Path)
			m.listed = m.listed[1:]
			m.add(t, "shell", "1.0~rc1", map[string]string{"./bin/bash": "an old shell"})
			m.publish(t)
		}, "which is not newer than 1.0"},
		"an index with another package of the version": {func(t *testing.T, m *fakeMirror, r *recipe) {
			delete(m.files, r.Packages[0].Path)
			m.listed = m.listed[1:]
			m.add(t, "shell", "1.0", map[string]string{"./bin/bash": "another shell"})
			delete(m.files, r.Packages[0].Path)
			m.publish(t)
		}, "which is not newer than 1.0"},
		"an index of another suite": {func(t *testing.T, m *fakeMirror, r *recipe) {
			delete(m.files, r.Packages[0].Path)
			m.codename = "bookworm"
			m.publish(t)
		}, `of the suite "bookworm"`},
		"an index that somebody else signed": {func(t *testing.T, m *fakeMirror, r *recipe) {
			delete(m.files, r.Packages[0].Path)
			m.key = newMirror(t).key
			m.publish(t)
		}, "verify the signature"},
		"an index without a signature": {func(_ *testing.T, m *fakeMirror, r *recipe) {
			delete(m.files, r.Packages[0].Path)
			m.files["dists/trixie/InRelease"] = []byte("Suite: stable\n")
		}, "it is not signed"},
		"an index that was changed": {func(_ *testing.T, m *fakeMirror, r *recipe) {
			delete(m.files, r.Packages[0].Path)
			for name, content := range m.files {
				if strings.Contains(name, "by-hash") {
					content[len(content)/2] ^= 1
				}
			}
		}, "it is not what Debian published"},
		"nothing to join": {func(_ *testing.T, _ *fakeMirror, r *recipe) {
			r.Joined = map[string]string{"etc/roots": "none/*"}
		}, "no package has none/*"},
		"a library that is missing": {func(t *testing.T, m *fakeMirror, r *recipe) {
			program, err := os.ReadFile("/bin/sh")
			if err != nil || !bytes.HasPrefix(program, []byte("\x7fELF")) {
				t.Skip("/bin/sh is no program with libraries here")
			}
			r.Packages = append(r.Packages, m.add(t, "linked", "1", map[string]string{"./bin/linked": string(program)}))
		}, "usr/bin/linked needs libc.so"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMirror(t)
			r := twoPackages(t, m)
			c.change(t, m, &r)
			dir := t.TempDir()
			_, err := r.build(t.Context(), Mirrors{m.Mirror}, dir, noProgress)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
				t.Errorf("left behind: %v, %v", entries, err)
			}
		})
	}
}

func TestUnpackRefuses(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("the packages of this test are for amd64")
	}
	for name, c := range map[string]struct {
		change func(content []byte) []byte
		file   string
		want   string
	}{
		"half an archive": {func(content []byte) []byte { return content[:len(content)/2] }, ArchiveName,
			"remove both, and they are built again"},
		"a changed archive": {func(content []byte) []byte { content[100] ^= 1; return content }, ArchiveName,
			"remove both, and they are built again"},
		"half a manifest": {func(content []byte) []byte { return content[:len(content)/2] }, ManifestName,
			"is damaged: remove the directory"},
		"another architecture": {func(content []byte) []byte {
			return bytes.Replace(content, []byte(`"amd64"`), []byte(`"arm64"`), 1)
		}, ManifestName, "is for arm64"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMirror(t)
			r := twoPackages(t, m)
			dir, into := t.TempDir(), filepath.Join(t.TempDir(), "base")
			if _, err := r.build(t.Context(), Mirrors{m.Mirror}, dir, noProgress); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, c.file)
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, c.change(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if root, err := Unpack(dir, into); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %v; want %s", root, err, c.want)
			}
			// When it is whole again, what was left behind is in nobody's way.
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := r.build(t.Context(), Mirrors{m.Mirror}, dir, noProgress); err != nil {
				t.Fatal(err)
			}
			if _, err := Unpack(dir, into); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	m := newMirror(t)
	none := map[string]string{}
	m.add(t, "a", "1", none, "Depends: b (>= 1), mta | c, python3")
	m.add(t, "b", "1", none, "Pre-Depends: d")
	m.add(t, "c", "1", none)
	m.add(t, "d", "1", none, "Depends: a")
	m.add(t, "mailer", "1", none, "Provides: mta (= 1), other")
	m.add(t, "broken", "1", none, "Depends: nothing")
	m.add(t, "old", "1", none)
	m.add(t, "other", "1", none)
	m.publish(t)
	pinned := []node.Package{{Name: "c", Version: "0.9"}, {Name: "old", Version: "1.1"}, {Name: "gone", Version: "1"},
		{Name: "other", Version: "1", SHA256: "0123"}}
	index, err := Mirrors{m.Mirror}.Index(t.Context(), "amd64")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		wanted, unwanted []string
		want, err        string
	}{
		"a virtual package":         {wanted: []string{"a"}, unwanted: []string{"python3"}, want: "a b d mailer"},
		"one that is there already": {wanted: []string{"c", "a"}, unwanted: []string{"python3"}, want: "a b c d"},
		"an unwanted one":           {wanted: []string{"a"}, unwanted: []string{"python3", "mta"}, want: "a b d"},
		"one that is missing":       {wanted: []string{"broken"}, err: "broken: no package satisfies [nothing]"},
		"a name that is none":       {wanted: []string{"z"}, err: "there is no package z"},
		"one that was newer":        {wanted: []string{"old"}, err: "old 1 instead, which is not newer than 1.1"},
		"another of the version":    {wanted: []string{"other"}, err: "other 1 instead, which is not newer than 1:"},
	} {
		packages, err := Resolve(index, pinned, c.wanted, c.unwanted)
		var names []string
		for _, p := range packages {
			names = append(names, p.Name)
		}
		if got := strings.Join(names, " "); got != c.want || (err == nil) != (c.err == "") ||
			err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

func TestPackagesOfEachArchitecture(t *testing.T) {
	t.Parallel()
	versions := make(map[string]bool)
	for _, architecture := range []string{"amd64", "arm64"} {
		packages, err := node.Packages(architecture)
		if err != nil {
			t.Fatal(err)
		}
		for _, wanted := range node.WantedPackages {
			if !slices.ContainsFunc(packages, func(p node.Package) bool { return p.Name == wanted }) {
				t.Errorf("%s lacks %s: go run ./hack/build packages", architecture, wanted)
			}
		}
		version, err := Version(architecture)
		if err != nil {
			t.Fatal(err)
		}
		versions[version] = true
	}
	if len(versions) != 2 {
		t.Errorf("the versions are %v", versions)
	}
	if _, err := Version("riscv64"); err == nil {
		t.Error("there is a node image of riscv64")
	}
}

// An archive leads nowhere out of the directory, whatever its names.
func TestUnpackStaysInside(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("the packages of this test are for amd64")
	}
	m := newMirror(t)
	r := twoPackages(t, m)
	outside := t.TempDir()
	r.Packages = append(r.Packages, m.add(t, "climbing", "1", map[string]string{"./opt/link": "-> " + outside,
		"./opt/link/file": "outside"}))
	dir := t.TempDir()
	if _, err := r.build(t.Context(), Mirrors{m.Mirror}, dir, noProgress); err != nil {
		t.Fatal(err)
	}
	if _, err := Unpack(dir, filepath.Join(t.TempDir(), "base")); err == nil {
		t.Error("it was unpacked")
	}
	if entries, err := fs.Glob(os.DirFS(outside), "*"); err != nil || len(entries) > 0 {
		t.Errorf("outside are %v, %v", entries, err)
	}
}
