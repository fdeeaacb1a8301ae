package apiservertest

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/testenv"
	versions "github.com/coracle-eks/coracle/kubernetes"
)

// TestBundlesFollowNoRedirectsElsewhere has clients of a bundle whose API server leads them to another server, as a
// program of a cluster's administrator can. They stay; they do follow it to itself. All programs of a bundle, its API
// server included, have one client.
func TestBundlesFollowNoRedirectsElsewhere(t *testing.T) {
	testenv.NeedsSetup(t)
	t.Parallel()
	var led atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { led.Add(1) }))
	t.Cleanup(elsewhere.Close)
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/here", http.StatusMovedPermanently)
		case "/here":
			_, _ = w.Write([]byte("it is here"))
		default:
			asked.Add(1)
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusFound)
		}
	}))
	t.Cleanup(server.Close)
	s := &Server{Host: server.URL, Dir: t.TempDir(), t: t, program: program(t, versions.Default)}
	kubectl := func(path string) (string, error) {
		out, err := exec.CommandContext(t.Context(), s.program, "kubectl", "--kubeconfig=", "--server="+s.Host,
			"--cache-dir="+filepath.Join(s.Dir, "cache"), "get", "--raw", path).CombinedOutput()
		return string(out), err
	}
	if out, err := kubectl("/moved"); err != nil || out != "it is here" {
		t.Errorf("kubectl that is led to the same server: %q, %v", out, err)
	}
	if out, err := kubectl("/away"); err == nil || led.Load() != 0 {
		t.Errorf("kubectl that is led to another server: %q, %d times", out, led.Load())
	}

	kubeconfig := s.writeFile("kubeconfig", []byte(strings.ReplaceAll(`apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: SERVER}}]
contexts: [{name: test, context: {cluster: test}}]
`, "SERVER", s.Host)))
	for _, component := range []string{"kube-controller-manager", "kube-scheduler"} {
		cmd := s.spawnProcess([]string{component, "--kubeconfig=" + kubeconfig, "--leader-elect=false",
			"--profiling=false", "--secure-port=0"}, nil)
		stop := func() {
			_ = cmd.Process.Kill() // it may have ended by itself
			_ = cmd.Wait()
		}
		t.Cleanup(stop)
		before := asked.Load()
		eventually.True(t, component+" has asked again after it was led elsewhere", func() bool {
			return asked.Load() >= before+2
		})
		stop()
		if n := led.Load(); n != 0 {
			t.Errorf("%s went to another server %d times", component, n)
		}
	}
}
