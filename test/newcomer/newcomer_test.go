//go:build linux

// Package newcomer tries the README on machines that have nothing yet.
package newcomer

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/freeport"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
)

//go:embed newcomer.sh
var readme string

// installDebian makes the root file system of a new Debian machine, with a script, and returns its path.
func installDebian(t *testing.T, suite, packages, script string) (root string) {
	t.Helper()
	root = t.TempDir()
	debootstrap := exec.Command("debootstrap", "--variant=minbase", "--include="+packages, suite, root)
	if out, err := debootstrap.CombinedOutput(); err != nil {
		t.Fatalf("install Debian (make test-all installs debootstrap): %v\n%s", err, out)
	}
	// The temporary directory is its owner's alone, and a machine's root is not.
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "script.sh"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	return root
}

// runOn runs a script on a new Debian machine and returns the output.
func runOn(t *testing.T, suite, packages, script string, mounts, environment []string) string {
	t.Helper()
	root := installDebian(t, suite, packages, script)
	listen, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", append([]string{"--mount", "--propagation", "private", "sh", "-c", harness.EnterRoot,
		"sh", root}, mounts...)...)
	cmd.Env = append(environment, "HOME=/root", "LANG=C.UTF-8", "TERM=dumb",
		"PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		fmt.Sprintf("CORACLE_LISTEN=127.0.0.1:%d", listen))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return string(out)
}

// TestReadme does on new machines what the README says. Go, its caches, the repository and whom to trust in TLS are
// this machine's; everything else is downloaded.
func TestReadme(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.NeedsAll(t, "it installs Debian")
	for _, suite := range []string{"bookworm", "trixie"} {
		t.Run(suite, func(t *testing.T) {
			out := runOn(t, suite, "ca-certificates,git,make", readme, []string{"clone", testenv.Root(),
				"usr/local/go", goVariable(t, "GOROOT"), "go/mod", goVariable(t, "GOMODCACHE"),
				"go/build", goVariable(t, "GOCACHE"), "etc/ssl/certs", "/etc/ssl/certs"},
				[]string{"GOMODCACHE=/go/mod", "GOCACHE=/go/build", "GOPROXY=" + goVariable(t, "GOPROXY"),
					"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"})
			if !strings.Contains(out, "\n111122223333\n") {
				t.Errorf("aws does not know its account:\n%s", out)
			}
		})
	}
}

func goVariable(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
