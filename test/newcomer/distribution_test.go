//go:build linux

package newcomer

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/kubernetes"
)

// archive is a script of what a user does who has downloaded Coracle.
const archive = `set -eu
cd /opt
tar xzf /clone/coracle-*.tar.gz
cd coracle-*
./coracle up
trap './coracle reset --yes' EXIT
./coracle demo
./coracle doctor`

//go:embed package.sh
var packageScript string

// packages are the package managers of which "make dist" makes packages, with how each installs and removes one. There
// is no system of RPM's here: Debian's rpm does what that of others does, except for what the package depends on.
var packages = map[string]struct{ tool, functions string }{
	"deb": {"apt", "install() { apt-get install -y /dist/coracle-*.deb; }\nremove() { apt-get remove -y coracle; }\n"},
	"rpm": {"rpm", "install() { rpm --install --nodeps --force-debian /dist/coracle-*.rpm; }\n" +
		"remove() { rpm --erase --force-debian coracle; }\n"},
}

// unit runs a script at each boot. When it fails, the machine is switched off.
const unit = `[Unit]
After=multi-user.target
[Service]
Type=exec
Environment=HOME=/root AWS_PAGER=
ExecStart=/bin/bash -c "bash -o pipefail /script.sh || { echo the script failed; systemctl poweroff; }"
StandardOutput=append:/output
StandardError=inherit
`

// TestDistribution uses what "make dist" makes, on machines without Go, without network, and without anything else
// that Debian's smallest system lacks.
func TestDistribution(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.NeedsAll(t, "it installs Debian")
	dist := t.TempDir()
	makeDistribution(t, testenv.Root(), dist)
	sums := exec.Command("sha256sum", "--check", "SHA256SUMS")
	sums.Dir = dist
	if out, err := sums.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Run("archive", func(t *testing.T) {
		out := runOn(t, "bookworm", "ca-certificates", archive, []string{"clone", dist},
			[]string{"http_proxy=http://127.0.0.1:1", "https_proxy=http://127.0.0.1:1",
				"no_proxy=127.0.0.1,.eks.amazonaws.com"})
		if !strings.Contains(out, "docs/differences-from-aws.md says") {
			t.Errorf("the tour did not end:\n%s", out)
		}
	})
	for form := range packages {
		t.Run(form, func(t *testing.T) { testPackage(t, dist, form) })
	}
	t.Run("again", func(t *testing.T) { testSameBytes(t, dist) })
}

// testSameBytes makes everything again of a clone, and compares the checksums.
func testSameBytes(t *testing.T, dist string) {
	changed, err := exec.Command("git", "-C", testenv.Root(), "status", "--porcelain").Output()
	if err != nil {
		t.Fatal(err)
	}
	if len(changed) > 0 {
		t.Skip("the clone would not have what is not committed")
	}
	clone, again := filepath.Join(t.TempDir(), "clone"), t.TempDir()
	if out, err := exec.Command("git", "clone", "--quiet", testenv.Root(), clone).CombinedOutput(); err != nil {
		t.Fatalf("git clone: %v\n%s", err, out)
	}
	makeDistribution(t, clone, again)
	var sums [2]string
	for i, dir := range []string{dist, again} {
		content, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = string(content)
	}
	if sums[0] != sums[1] {
		t.Errorf("the same commit makes\n%s\nand\n%s", sums[0], sums[1])
	}
}

// makeDistribution does in a directory of the repository what "make dist" does for this machine's processors.
func makeDistribution(t *testing.T, repository, dist string) {
	t.Helper()
	cmd := exec.Command("go", "run", "./hack/dist", "--arch", runtime.GOARCH, "--version", "v0.0.0-test", "-o", dist,
		kubernetes.Default)
	cmd.Dir = repository
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make dist: %v\n%s", err, out)
	}
}

// testPackage installs a package in a container with systemd, which is booted twice. The example in Python uses its
// daemon.
func testPackage(t *testing.T, dist, form string) {
	root := installDebian(t, "bookworm", "systemd-sysv,dbus,procps", packages[form].functions+packageScript)
	// debootstrap does not know what provides a package.
	apt := exec.Command("chroot", root, "apt-get", "install", "--yes", "--no-install-recommends", "awscli",
		"python3-boto3", "python3-pytest", packages[form].tool)
	if out, err := apt.CombinedOutput(); err != nil {
		t.Fatalf("apt-get install: %v\n%s", err, out)
	}
	units := filepath.Join(root, "etc/systemd/system")
	if err := os.WriteFile(filepath.Join(units, "newcomer.service"), []byte(unit), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(units, "multi-user.target.wants/newcomer.service")
	if err := os.Symlink("../newcomer.service", link); err != nil {
		t.Fatal(err)
	}
	const reboot = 133 // the exit status of systemd-nspawn when its container wants to be booted again
	for _, want := range []int{reboot, 0} {
		cmd := exec.CommandContext(t.Context(), "systemd-nspawn", "--quiet", "--register=no", "--keep-unit",
			"--private-network", "--link-journal=no", "--console=read-only", "--bind-ro="+dist+":/dist",
			"--bind-ro="+filepath.Join(testenv.Root(), "examples")+":/examples", "--directory="+root, "--boot")
		if console, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != want {
			t.Errorf("%v\n%s", err, console)
			break
		}
	}
	out, err := os.ReadFile(filepath.Join(root, "output"))
	if err != nil || !strings.Contains(string(out), "the package is removed") ||
		strings.Contains(string(out), "the script failed") {
		t.Errorf("%v\n%s", err, out)
	}
}
