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

	"github.com/coracle-eks/coracle/internal/port"
	"github.com/coracle-eks/coracle/internal/testenv"
)

//go:embed newcomer.sh
var script string

// enter changes the root to that of a new machine, in a mount namespace of its own, and runs its script there. A root
// that is only changed by chroot could not have machines.
const enter = `set -eu
root=$1
mount --bind "$root" "$root"
cd "$root"
mkdir -p clone usr/local/go go/mod go/build old
for dir in dev proc sys; do mount --rbind "/$dir" "$dir"; done
mount -t tmpfs -o mode=755 tmpfs run
mount --bind "$2" clone
mount --bind "$3" usr/local/go
mount --bind "$4" go/mod
mount --bind "$5" go/build
pivot_root . old
umount -l /old
exec /bin/bash /newcomer.sh`

// TestReadme makes root file systems of new Debian machines and does there what the README says. Go, its caches and
// the repository are this machine's; everything else is downloaded.
func TestReadme(t *testing.T) {
	testenv.NeedsRoot(t)
	if os.Getenv("CORACLE_TEST") != "all" {
		t.Skip("it installs Debian: CORACLE_TEST=all runs it")
	}
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, suite := range []string{"bookworm", "trixie"} {
		t.Run(suite, func(t *testing.T) {
			root := t.TempDir()
			debootstrap := exec.Command("debootstrap", "--variant=minbase", "--include=ca-certificates,git,make", suite, root)
			if out, err := debootstrap.CombinedOutput(); err != nil {
				t.Fatalf("install Debian (make test-all installs debootstrap): %v\n%s", err, out)
			}
			// The temporary directory is its owner's alone, and a machine's root is not.
			if err := os.Chmod(root, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, "newcomer.sh"), []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			listen, err := port.Free()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", enter, "sh", root, repository,
				goVariable(t, "GOROOT"), goVariable(t, "GOMODCACHE"), goVariable(t, "GOCACHE"))
			cmd.Env = []string{"HOME=/root", "LANG=C.UTF-8", "TERM=dumb", "GOMODCACHE=/go/mod", "GOCACHE=/go/build",
				"GOPROXY=" + goVariable(t, "GOPROXY"), "GOFLAGS=-buildvcs=false", "GIT_CONFIG_COUNT=1",
				"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
				"PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
				fmt.Sprintf("CORACLE_LISTEN=127.0.0.1:%d", listen)}
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "111122223333") {
				t.Errorf("%v\n%s", err, out)
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
