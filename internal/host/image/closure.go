package image

import (
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// libraries returns the shared libraries and loaders that programs of the node image below root need, each at the path
// where the loader looks for it. An image with these files runs the programs.
func libraries(root string, programs ...string) ([]entry, error) {
	found := make(map[string]entry) // by path
	var visit func(file string) error
	visit = func(file string) error {
		needs, interpreter, err := linkedLibraries(file)
		if err != nil {
			return err
		}
		add := func(path string) error {
			if _, seen := found[path]; seen {
				return nil
			}
			found[path] = entry{Path: path, Source: filepath.Join(root, path), Mode: 0o755}
			return visit(filepath.Join(root, path))
		}
		if interpreter != "" {
			if err := add(interpreter); err != nil {
				return err
			}
		}
		for _, name := range needs {
			path, err := library(root, name)
			if err != nil {
				return fmt.Errorf("%s needs %s: %w", file, name, err)
			}
			if err := add(path); err != nil {
				return err
			}
		}
		return nil
	}
	for _, program := range programs {
		if err := visit(program); err != nil {
			return nil, err
		}
	}
	return slices.Collect(maps.Values(found)), nil
}

func linkedLibraries(file string) (libraries []string, interpreter string, err error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, "", fmt.Errorf("read what %s is linked with: %w", file, err)
	}
	defer f.Close()
	libraries, err = f.ImportedLibraries()
	if err != nil {
		return nil, "", fmt.Errorf("read what %s is linked with: %w", file, err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			name := make([]byte, p.Filesz)
			if _, err := p.ReadAt(name, 0); err != nil {
				return nil, "", err
			}
			interpreter = strings.TrimRight(string(name), "\x00")
		}
	}
	return libraries, interpreter, nil
}

// library finds a library in the directory that the loader searches by itself.
func library(root, name string) (string, error) {
	found, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu", name))
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", errors.New("no directory of libraries has it")
	}
	return strings.TrimPrefix(found[0], root), nil
}
