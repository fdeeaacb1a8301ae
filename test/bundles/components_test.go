// Package bundles tests the Kubernetes programs that "make build" and "make bundles" have built.
package bundles

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/internal/upstream"
	"github.com/coracle-eks/coracle/kubernetes"
)

var components = []string{
	"kube-apiserver", "kube-controller-manager", "kube-scheduler", "aws-cloud-controller-manager", "kubelet",
	"kube-proxy",
}

// Every program of a bundle starts under its own name and as an argument of kube, prints its help
// without tripping over the flags of the others, and says the version that EKS would.
func TestComponentsSayTheirVersion(t *testing.T) {
	t.Parallel()
	for _, version := range kubernetes.Versions() {
		t.Run(version.Minor, func(t *testing.T) {
			t.Parallel()
			kube := built(t, version)
			links := t.TempDir()
			for _, component := range components {
				link := filepath.Join(links, component)
				if err := os.Symlink(kube, link); err != nil {
					t.Fatal(err)
				}
				for _, command := range [][]string{{kube, component}, {link}} {
					if got, want := run(t, append(command, "--version")...), "Kubernetes "+
						version.GitVersion(); got != want {
						t.Errorf("%v --version says %q, want %q", command, got, want)
					}
				}
				help := run(t, kube, component, "--help")
				for _, flag := range []string{"--version", "--v Level", "--feature-gates"} {
					if !strings.Contains(help, flag) {
						t.Errorf("the help of %s %s does not know %s", version.Minor, component, flag)
					}
				}
			}
		})
	}
}

func TestKubectlSaysItsVersion(t *testing.T) {
	t.Parallel()
	for _, version := range kubernetes.Versions() {
		t.Run(version.Minor, func(t *testing.T) {
			t.Parallel()
			var got struct {
				ClientVersion struct{ Major, Minor, GitVersion, GitCommit, GitTreeState string }
			}
			if err := json.Unmarshal([]byte(run(t, built(t, version), "kubectl", "version", "--client", "-o", "json")),
				&got); err != nil {
				t.Fatal(err)
			}
			want := got
			want.ClientVersion.Major, want.ClientVersion.Minor, _ = strings.Cut(version.Minor, ".")
			want.ClientVersion.GitVersion, want.ClientVersion.GitCommit = version.GitVersion(), version.GitCommit()
			want.ClientVersion.GitTreeState = "clean"
			if got != want {
				t.Errorf("kubectl version says %+v, want %+v", got, want)
			}
		})
	}
}

func TestUnknownComponent(t *testing.T) {
	t.Parallel()
	version, _ := kubernetes.Lookup(kubernetes.Default)
	output, err := exec.Command(built(t, version), "etcd").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("kube etcd: %v, want exit status 2", err)
	}
	for _, want := range append(components, `no component "etcd"`, "kubectl") {
		if !strings.Contains(string(output), want) {
			t.Errorf("kube etcd prints %q without %q", output, want)
		}
	}
}

// built returns the path of the bundle of a version.
func built(t *testing.T, version kubernetes.Version) string {
	t.Helper()
	dir := os.Getenv(upstream.EnvBundles)
	if dir == "" {
		dir = filepath.Join("..", "..", "bin", "bundles")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	path, err := upstream.BundlesIn(dir).Find(version.Minor)
	if errors.Is(err, upstream.ErrNotBuilt) {
		if version.Minor < kubernetes.Default && !testenv.All() {
			t.Skipf("%v: \"make test-all\" tests versions older than the default", err)
		}
		t.Fatalf("%v: run \"make bundles\"", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func run(t *testing.T, command ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Limit)
	defer cancel()
	output, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", command, err, output)
	}
	return strings.TrimSpace(string(output))
}
