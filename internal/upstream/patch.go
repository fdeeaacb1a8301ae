package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// patchedDir is the directory of copies of modules with patches, beside the sources: patched/k8s.io/client-go@v0.35.4.
// The path is in the programs: they tell what they are built from.
const patchedDir = "./patched/"

// PatchedModule returns the module, and its version, that a directory has a patched copy of: "./patched/k8s.io/x@v1".
func PatchedModule(dir string) (module, version string, ok bool) {
	rest, ok := strings.CutPrefix(dir, patchedDir)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "@")
}

// applyPatches has the program built from patched copies of required modules. The Go command compiles no file of its
// module cache otherwise than it is (-overlay); of a copy, it compiles only what differs and what depends on that.
func (m module) applyPatches(ctx context.Context, work, golang string) error {
	copies := make(map[string]string) // by module
	for _, p := range m.patches {
		dir, ok := copies[p.Module]
		if !ok {
			var err error
			if dir, err = copyRequired(ctx, work, golang, p.Module); err != nil {
				return fmt.Errorf("copy %s to patch it: %w", p.Module, err)
			}
			copies[p.Module] = dir
		}
		file := filepath.Join(dir, p.File)
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("patch %s: %w", p.Module, err)
		}
		if content, err = p.Apply(content); err != nil {
			return err
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// copyRequired replaces a required module by a copy of it, below the sources in work, and returns the copy's directory.
func copyRequired(ctx context.Context, work, golang, module string) (string, error) {
	run := func(args ...string) (string, error) {
		var output strings.Builder
		kept, err := runCommand(goCommand(ctx, work, golang, args...), func(line string) { output.WriteString(line) },
			func(line string) bool { return strings.HasPrefix(line, "go: downloading ") })
		if err != nil {
			return "", fmt.Errorf("go %s: %w: %s", args[0], err, strings.Join(append(kept, output.String()), "; "))
		}
		return output.String(), nil
	}
	output, err := run("mod", "download", "-json", module)
	if err != nil {
		return "", err
	}
	var found struct{ Path, Version, Dir string }
	if err := json.Unmarshal([]byte(output), &found); err != nil {
		return "", err
	}
	replacement := patchedDir + module + "@" + found.Version
	dir := filepath.Join(work, replacement)
	if err := os.CopyFS(dir, os.DirFS(found.Dir)); err != nil {
		return "", err
	}
	_, err = run("mod", "edit", "-replace="+module+"="+replacement)
	return dir, err
}
