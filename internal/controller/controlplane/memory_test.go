package controlplane

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/record"
)

func TestMemoryLimits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		component  string
		host, want uint64
	}{
		{kubeAPIServer, 0, 2 << 30},
		{kubeAPIServer, 4 << 30, 2 << 30},
		{kubeAPIServer, 64 << 30, 16 << 30},
		{kubeAPIServer, 64<<30 + 1<<20, 16 << 30},
		{kubeControllerManager, 4 << 30, 1 << 30},
		{kubeControllerManager, 64 << 30, 8 << 30},
	} {
		if got := memoryLimit(test.component, test.host); got != test.want {
			t.Errorf("%s on a host with %d MiB: %d MiB, want %d", test.component, test.host>>20, got>>20, test.want>>20)
		}
	}
}

func TestComponentsAreBounded(t *testing.T) {
	t.Parallel()
	c := &Controller{o: Options{Dir: t.TempDir()}}
	for _, component := range []string{kubeAPIServer, kubeControllerManager, kubeScheduler, cloudControllerManager} {
		spec := c.baseSpec(plane{cluster: record.Cluster{ID: "one"}}, component, nil)
		bounded := slices.ContainsFunc(spec.Env, func(s string) bool { return strings.HasPrefix(s, "GOMEMLIMIT=") })
		if spec.MemoryLimit < minMemory || !bounded {
			t.Errorf("%s has the bound %d and %q", component, spec.MemoryLimit, spec.Env)
		}
		if spec.OOMScoreAdj < process.DaemonOOMScoreAdj {
			t.Errorf("%s is protected more than the daemon: %d", component, spec.OOMScoreAdj)
		}
	}
}

func TestLastErrorOfAComponentWithoutMemory(t *testing.T) {
	t.Parallel()
	trace := "\ngoroutine 1 [running]:\n" + strings.Repeat("main.main()\n", 10_000)
	for name, test := range map[string]struct{ log, want string }{
		"out of memory": {"I1122 10:00:00.0 one.go:1] started\nfatal error: runtime: out of memory\n" + trace,
			"fatal error: runtime: out of memory"},
		"and another cause since": {"fatal error: runtime: out of memory\n" + trace +
			"I1122 10:00:00.0 one.go:1] started\nE1122 10:00:00.0 one.go:1] no such flag\n",
			"E1122 10:00:00.0 one.go:1] no such flag"},
	} {
		file := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(file, []byte(test.log), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := lastError(file); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
