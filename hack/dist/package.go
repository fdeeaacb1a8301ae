package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// nfpm makes packages for Debian and for RPM without their tools. It is run, and not linked: it brings some 80 modules.
const nfpm = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0"

// scripts is the directory of the files that only packages have.
const scripts = "hack/dist/package"

// entry is a file of a package. https://nfpm.goreleaser.com/docs/configuration/
type entry struct {
	Source      string         `json:"src"`
	Destination string         `json:"dst"`
	Type        string         `json:"type,omitempty"`
	Info        map[string]any `json:"file_info,omitempty"`
}

// writePackage writes a package in the format that the end of its path names. The unit of systemd in it starts the
// daemon at boot.
func (d distribution) writePackage(ctx context.Context, path string, files []file) error {
	work, err := os.MkdirTemp(d.output, ".package-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	mtime := d.time.UTC().Format("2006-01-02T15:04:05Z")
	info := func(mode int64) map[string]any { return map[string]any{"mode": mode, "mtime": mtime} }
	entries := []entry{
		{"/" + home + "/coracle", "/usr/bin/coracle", "symlink", info(0o777)},
		{scripts + "/coracle.service", "/usr/lib/systemd/system/coracle.service", "", info(0o644)},
		{scripts + "/coracle.default", "/etc/default/coracle", "config|noreplace", info(0o644)},
		{"LICENSE", "/usr/share/doc/coracle/copyright", "", info(0o644)},
	}
	for i, f := range files {
		source := f.source
		if source == "" {
			source = filepath.Join(work, fmt.Sprint(i))
			if err := os.WriteFile(source, f.content, 0o600); err != nil {
				return err
			}
		}
		entries = append(entries, entry{source, "/" + home + "/" + f.name, "", info(f.mode)})
	}
	config, err := json.Marshal(map[string]any{
		"name": "coracle", "arch": d.architecture, "platform": "linux", "version": packageVersion(d.version),
		"maintainer":  "The Coracle authors <coracle@localhost>",
		"description": "Amazon EKS on one machine: real clusters behind real AWS APIs",
		"homepage":    "https://github.com/coracle-eks/coracle", "license": "Apache-2.0", "section": "admin",
		"mtime": mtime, "contents": entries,
		"scripts": map[string]string{"postinstall": scripts + "/postinstall.sh", "preremove": scripts + "/preremove.sh",
			"postremove": scripts + "/postremove.sh"},
		"recommends": []string{"awscli"},
		"deb":        map[string]any{"compression": "gzip"},
		"rpm":        map[string]any{"compression": "gzip", "buildhost": "localhost"},
	})
	if err != nil {
		return err
	}
	configFile := filepath.Join(work, "nfpm.yaml") // JSON is YAML
	if err := os.WriteFile(configFile, config, 0o600); err != nil {
		return err
	}
	next := filepath.Join(work, filepath.Base(path))
	cmd := exec.CommandContext(ctx, "go", "run", nfpm, "package", "--config", configFile, "--packager",
		strings.TrimPrefix(filepath.Ext(path), "."), "--target", next)
	// It runs here, whatever the package is for.
	cmd.Env = append(os.Environ(), "GOOS=", "GOARCH=", fmt.Sprintf("SOURCE_DATE_EPOCH=%d", d.time.Unix()))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run nfpm: %w\n%s", err, out)
	}
	return os.Rename(next, path)
}

var release = regexp.MustCompile(`^v\d+\.\d+\.\d+`)

// packageVersion returns a version as packages write it: "1.0.0" for the tag v1.0.0, and for a commit without any tag
// one that is older than every release.
func packageVersion(version string) string {
	if release.MatchString(version) {
		return version[1:]
	}
	return "0.0.0-" + strings.ReplaceAll(version, "-", ".")
}
