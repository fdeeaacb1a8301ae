package main

import (
	"bytes"
	"cmp"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/google/licenseclassifier/v2/assets"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"

	"github.com/coracle-eks/coracle/internal/nodeimage"
	"github.com/coracle-eks/coracle/internal/upstream"
)

// module is a Go module that is linked into a program of the archive.
type module struct{ path, version, sum string }

// describe returns the list of all that is in the archive (SPDX 2.3), and the licenses of the Go modules. Those of
// Debian's packages are in the node image.
func (d distribution) describe(ctx context.Context, files []file) (notices []file, err error) {
	document := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: d.name(),
		DocumentNamespace: "https://github.com/coracle-eks/coracle/" + d.name(),
		CreationInfo: &spdx.CreationInfo{Created: d.time.UTC().Format("2006-01-02T15:04:05Z"),
			Creators: []spdx.Creator{{CreatorType: "Tool", Creator: "coracle-hack-dist"}}},
	}
	licenses, err := newLicenses(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range modulesOf(files) {
		texts, expression, err := licenses.of(m)
		if err != nil {
			return nil, err
		}
		notices = append(notices, texts...)
		document.Packages = append(document.Packages, &spdx.Package{
			PackageName: m.path, PackageVersion: m.version, PackageSPDXIdentifier: identifier("go", m.path, m.version),
			PackageDownloadLocation: "https://proxy.golang.org/" + m.path + "/@v/" + m.version + ".zip",
			PackageLicenseConcluded: expression, PackageLicenseDeclared: expression,
			PackageCopyrightText: "NOASSERTION", PackageComment: "go.sum: " + cmp.Or(m.sum, "none"),
		})
	}
	for _, f := range files {
		if path.Base(f.name) != nodeimage.ManifestName {
			continue
		}
		image, err := nodeimage.ReadManifest(filepath.Dir(f.source))
		if err != nil {
			return nil, err
		}
		for _, p := range image.Packages {
			document.Packages = append(document.Packages, &spdx.Package{
				PackageName: p.Name, PackageVersion: p.Version, PackageSPDXIdentifier: identifier("deb", p.Name, p.Version),
				PackageDownloadLocation: nodeimage.URL(p.Package),
				PackageChecksums:        []spdx.Checksum{{Algorithm: spdx.SHA256, Value: p.SHA256}},
				PackageLicenseConcluded: "NOASSERTION", PackageLicenseDeclared: "NOASSERTION",
				PackageCopyrightText: "NOASSERTION",
				PackageComment:       "its license is in /usr/share/doc/" + p.Name + "/copyright of the node image",
			})
		}
	}
	for _, p := range document.Packages {
		document.Relationships = append(document.Relationships, &spdx.Relationship{
			RefA: common.MakeDocElementID("", "DOCUMENT"), RefB: common.MakeDocElementID("", string(p.PackageSPDXIdentifier)),
			Relationship: "DESCRIBES"})
	}
	content, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("LICENSE")
	if err != nil {
		return nil, err
	}
	return append(notices, file{name: "sbom.spdx.json", content: append(content, '\n'), mode: 0o644},
		file{name: "LICENSE", content: own, mode: 0o644}), nil
}

var notIdentifier = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func identifier(kind, name, version string) spdx.ElementID {
	return spdx.ElementID("Package-" + kind + "-" + notIdentifier.ReplaceAllString(name+"-"+version, "-"))
}

// modulesOf returns the modules that are linked into the programs, without those of this repository.
func modulesOf(files []file) []module {
	sums := make(map[module]string) // a patched copy has none
	for _, f := range files {
		info, err := buildinfo.ReadFile(f.source)
		if err != nil {
			continue // no Go program
		}
		for _, dependency := range info.Deps {
			if dependency.Replace != nil {
				dependency = dependency.Replace
			}
			if origin, version, ok := upstream.PatchedModule(dependency.Path); ok {
				dependency = &debug.Module{Path: origin, Version: version}
			}
			if dependency.Version == "" || strings.HasPrefix(dependency.Path, ".") {
				continue // a directory
			}
			key := module{path: dependency.Path, version: dependency.Version}
			sums[key] = cmp.Or(sums[key], dependency.Sum)
		}
	}
	all := make([]module, 0, len(sums))
	for m, sum := range sums {
		m.sum = sum
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b module) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.version, b.version))
	})
	return all
}

// licenses finds the licenses of modules.
type licenses struct {
	cache      string // the Go module cache
	identified map[string]string
	classify   func([]byte) string
}

func newLicenses(ctx context.Context) (*licenses, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMODCACHE").Output()
	if err != nil {
		return nil, fmt.Errorf("ask go for its module cache: %w", err)
	}
	classifier, err := assets.DefaultClassifier()
	if err != nil {
		return nil, err
	}
	classify := func(text []byte) string {
		var names []string
		for _, match := range classifier.Match(text).Matches {
			if match.MatchType == "License" && !slices.Contains(names, match.Name) {
				names = append(names, match.Name)
			}
		}
		slices.Sort(names)
		return strings.Join(names, " AND ")
	}
	return &licenses{cache: strings.TrimSpace(string(out)), identified: make(map[string]string), classify: classify}, nil
}

var licenseNames = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice|unlicense)`)

// of returns the texts of a module's licenses and notices, and an SPDX expression of the licenses.
func (l *licenses) of(m module) (texts []file, expression string, err error) {
	dir := filepath.Join(l.cache, escape(m.path)+"@"+escape(m.version))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, "", fmt.Errorf("find the license of %s %s: %w", m.path, m.version, err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() || !licenseNames.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, "", err
		}
		texts = append(texts, file{name: "licenses/" + m.path + "@" + m.version + "/" + e.Name(), content: text,
			mode: 0o644})
		key := string(bytes.TrimSpace(text))
		name, ok := l.identified[key]
		if !ok {
			name = l.classify(text)
			l.identified[key] = name
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return texts, cmp.Or(strings.Join(names, " AND "), "NOASSERTION"), nil
}

// escape writes a path as the module cache does: an exclamation mark before the lower-case letter for each upper-case
// one. https://go.dev/ref/mod#goproxy-protocol
func escape(path string) string {
	return regexp.MustCompile("[A-Z]").ReplaceAllStringFunc(path, func(upper string) string {
		return "!" + strings.ToLower(upper)
	})
}
