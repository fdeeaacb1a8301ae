package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// download identifies a version of a published Go module, with the sum that pins it.
type download struct {
	module  string // "sigs.k8s.io/metrics-server"
	version string // "v0.9.0"
	sum     string // "h1:...", as in go.sum
}

func (d download) String() string { return d.module + "@" + d.version }

// downloadModule returns the directory of a module, as download.dir does, with the Go command on the PATH.
func downloadModule(ctx context.Context, d download) (string, error) {
	golang, err := findGoCommand()
	if err != nil {
		return "", fmt.Errorf("download %s: %w", d, err)
	}
	return d.moduleDir(ctx, golang)
}

// moduleDir returns the directory of the module in the Go module cache, after downloading the module if needed. Its
// files are read-only.
func (d download) moduleDir(ctx context.Context, golang string) (string, error) {
	work, err := os.MkdirTemp("", "coracle-download-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	// The go command looks for a module in the directories above as well, where other users of the host may have put
	// one.
	if err := os.WriteFile(filepath.Join(work, "go.mod"), []byte("module download\n"), 0o600); err != nil {
		return "", err
	}
	cmd := goCommand(ctx, work, golang, "mod", "download", "-json", d.String())
	cmd.Env = append(cmd.Env, "GO111MODULE=on", "GOSUMDB=off") // the sum is compared below
	var output strings.Builder
	kept, err := runCommand(cmd,
		func(line string) { output.WriteString(line) },
		func(line string) bool { return strings.HasPrefix(line, "go: downloading ") })
	var answer struct{ Dir, Sum, Error string }
	if jsonErr := json.Unmarshal([]byte(output.String()), &answer); jsonErr != nil {
		return "", fmt.Errorf("download %s: %w: %s", d, errors.Join(err, jsonErr), strings.Join(kept, "; "))
	}
	switch {
	case answer.Error != "":
		reason := strings.Fields(strings.TrimPrefix(answer.Error, d.String()+": "))
		return "", fmt.Errorf("download %s: %s", d, strings.Join(reason, " "))
	case answer.Sum != d.sum:
		return "", fmt.Errorf("download %s: its sum is %s, and not %s: it is not what was published; "+
			"see https://go.dev/ref/mod#authenticating", d, answer.Sum, d.sum)
	}
	return answer.Dir, nil
}
