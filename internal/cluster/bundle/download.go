package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Download is a version of a Go module that is published, with the sum that pins it.
type Download struct {
	Module  string // "sigs.k8s.io/metrics-server"
	Version string // "v0.9.0"
	Sum     string // "h1:...", as in go.sum
}

func (d Download) String() string { return d.Module + "@" + d.Version }

// Dir is the directory of the module in the Go module cache, into which it is downloaded when it is not there. Its files are read-only.
func (d Download) Dir(ctx context.Context) (string, error) {
	golang, err := exec.LookPath("go")
	if err != nil {
		return "", fmt.Errorf("download %s: there is no go command on the PATH: install Go (https://go.dev/dl)", d)
	}
	return d.dir(ctx, golang)
}

func (d Download) dir(ctx context.Context, golang string) (string, error) {
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
	cmd := command(ctx, work, golang, "mod", "download", "-json", d.String())
	cmd.Env = append(cmd.Env, "GO111MODULE=on", "GOSUMDB=off") // the sum is compared below
	var output strings.Builder
	kept, err := run(cmd, func(line string) { output.WriteString(line) }, func(line string) bool { return strings.HasPrefix(line, "go: downloading ") })
	var answer struct{ Dir, Sum, Error string }
	if jsonErr := json.Unmarshal([]byte(output.String()), &answer); jsonErr != nil {
		return "", fmt.Errorf("download %s: %w: %s", d, errors.Join(err, jsonErr), strings.Join(kept, "; "))
	}
	switch {
	case answer.Error != "":
		return "", fmt.Errorf("download %s: %s", d, strings.Join(strings.Fields(strings.TrimPrefix(answer.Error, d.String()+": ")), " "))
	case answer.Sum != d.Sum:
		return "", fmt.Errorf("download %s: its sum is %s, and not %s: it is not what was published; see https://go.dev/ref/mod#authenticating", d, answer.Sum, d.Sum)
	}
	return answer.Dir, nil
}

// lay puts the sources of the module into the directory that it is built in.
func (m Module) lay(ctx context.Context, work, golang string) error {
	if m.Of != nil {
		from, err := m.Of.dir(ctx, golang)
		if err != nil {
			return err
		}
		if err := os.CopyFS(work, os.DirFS(from)); err != nil {
			return err
		}
	}
	for name, content := range m.Files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(work, name)), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(work, name), content, 0o600); err != nil {
			return err
		}
	}
	edit := []string{"mod", "edit"}
	for module, by := range m.Replace {
		edit = append(edit, "-replace="+module+"="+by)
	}
	if len(m.Replace) > 0 {
		if output, err := run(command(ctx, work, golang, edit...), nil, func(string) bool { return false }); err != nil {
			return fmt.Errorf("replace modules: %w: %s", err, strings.Join(output, "; "))
		}
	}
	if len(m.Sums) == 0 {
		return nil
	}
	sums, err := os.OpenFile(filepath.Join(work, "go.sum"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = sums.WriteString("\n" + strings.Join(m.Sums, "\n") + "\n")
	return errors.Join(err, sums.Close())
}
