package upstream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/durable"
)

// downloadTimeout is the time that Data waits for the download of one module.
const downloadTimeout = time.Minute

// Data returns the content of one of a component's files of data, after downloading the module that the file comes with
// if needed. Package catalog reads files with it.
func (c *Components) Data(b catalog.Build, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), downloadTimeout,
		fmt.Errorf("the Go proxy did not deliver within %s", downloadTimeout))
	defer cancel()
	path, err := c.DataFile(ctx, b, name)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// DataFile returns the path of one of a component's files of data, after downloading it as Data does.
func (c *Components) DataFile(ctx context.Context, b catalog.Build, name string) (string, error) {
	data, ok := b.Data[name]
	if !ok {
		return "", fmt.Errorf("%s %s has no data %q", b.Component, b.Version, name)
	}
	// The name of the file identifies its content, so that it never has to be written again.
	key := sha256.Sum256(fmt.Appendf(nil, "%s@%s %s %s", data.Module, data.Version, data.Sum, data.Path))
	file := filepath.Join("data", hex.EncodeToString(key[:])[:12]+"-"+filepath.Base(name))
	dirs := c.cache.searchPaths()
	for _, dir := range dirs {
		path := filepath.Join(dir, file)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	from, err := downloadModule(ctx, download{module: data.Module, version: data.Version, sum: data.Sum})
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("%s of %s %s: %w", name, b.Component, b.Version, err)
	}
	content, err := readData(filepath.Join(from, filepath.FromSlash(data.Path)))
	if err != nil {
		return "", fmt.Errorf("%s of %s %s: %w", name, b.Component, b.Version, err)
	}
	path := filepath.Join(dirs[len(dirs)-1], file)
	// Open to others: users of one host may share what was built (CORACLE_NODE).
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, durable.WriteFile(path, content, 0o644) // open to others, like its directory
}

// readData reads a file, or all YAML files of a directory as one of several documents.
func readData(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return os.ReadFile(path)
	}
	entries, err := os.ReadDir(path) // sorted
	if err != nil {
		return nil, err
	}
	var documents [][]byte
	for _, e := range entries {
		isYAML := slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(e.Name()))
		if !isYAML || strings.HasPrefix(e.Name(), "kustomization.") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(path, e.Name()))
		if err != nil {
			return nil, err
		}
		documents = append(documents, append(bytes.TrimRight(content, "\n"), '\n'))
	}
	if len(documents) == 0 {
		return nil, fmt.Errorf("%s has no YAML files", path)
	}
	return bytes.Join(documents, []byte("---\n")), nil
}
