package release

import (
	"archive/tar"
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
)

// TestGitHubAction runs the scripts of .github/actions/setup-coracle as a runner does.
func TestGitHubAction(t *testing.T) {
	t.Parallel()
	// Not t.TempDir: its name is long, and paths of unix sockets are short.
	dir, err := os.MkdirTemp("", "coracle-action-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	archive := filepath.Join(dir, "coracle.tar.gz")
	writeSmallArchive(t, archive)
	files := map[string]string{}
	environment := append(os.Environ(), "RUNNER_TEMP="+dir, "INPUT_ARCHIVE="+archive, "INPUT_VERSION=latest",
		"CORACLE_DATA_DIR="+filepath.Join(dir, "data"), "CORACLE_LISTEN="+harness.FreeAddress(t),
		"CORACLE_MACHINES=simulated")
	for _, name := range []string{"GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STATE"} {
		files[name] = filepath.Join(dir, name)
		environment = append(environment, name+"="+files[name])
	}
	script := func(name string, more ...string) string {
		cmd := exec.Command("sh", filepath.Join(testenv.Root(), ".github/actions/setup-coracle", name))
		cmd.Env = append(environment, more...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		return string(out)
	}
	read := func(name string) map[string]string {
		text, err := os.ReadFile(files[name])
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]string{}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			values[key] = value
		}
		return values
	}

	out := script("setup.sh")
	exported, state := read("GITHUB_ENV"), read("GITHUB_STATE")
	defer func() { // whatever happens; a second time does no harm
		_ = exec.Command(state["program"], "reset", "--yes", "--data-dir", filepath.Join(dir, "data")).Run()
	}()
	if secret := exported["AWS_SECRET_ACCESS_KEY"]; secret == "" || !strings.Contains(out, "::add-mask::"+secret) {
		t.Errorf("the secret access key is not masked:\n%s", out)
	}
	if got := read("GITHUB_OUTPUT"); got["endpoint"] != exported["AWS_ENDPOINT_URL"] || got["log"] == "" {
		t.Errorf("outputs are %v", got)
	}
	cmd := exec.Command("aws", "sts", "get-caller-identity", "--query", "Account", "--output", "text")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "PYENV_VERSION=" + os.Getenv("PYENV_VERSION")}
	for name, value := range exported {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "111122223333" {
		t.Errorf("a step that follows: %v\n%s", err, out)
	}

	if out := script("cleanup.sh", "STATE_program="+state["program"]); !strings.Contains(out, "serving") {
		t.Errorf("cleanup.sh does not print the log of the daemon:\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); !os.IsNotExist(err) {
		t.Errorf("cleanup.sh leaves the data directory: %v", err)
	}
	// A job that ended before Coracle was started has nothing to remove.
	if out := script("cleanup.sh"); out != "" {
		t.Errorf("cleanup.sh without a daemon prints\n%s", out)
	}
}

// writeSmallArchive writes an archive like that of "make dist", with links to what was built.
func writeSmallArchive(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	archive := tar.NewWriter(z)
	for name, target := range map[string]string{
		"coracle": harness.Release(t),
		"bundles": filepath.Join(testenv.Root(), "bin/bundles"),
		"node":    filepath.Join(testenv.Root(), "bin/node"),
	} {
		if err := archive.WriteHeader(&tar.Header{Name: "coracle-v0.0.0-linux-amd64/" + name, Linkname: target,
			Typeflag: tar.TypeSymlink, Mode: 0o777}); err != nil {
			t.Fatal(err)
		}
	}
	for _, close := range []func() error{archive.Close, z.Close, f.Close} {
		if err := close(); err != nil {
			t.Fatal(err)
		}
	}
}
