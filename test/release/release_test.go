// Package release looks at the program that users get.
package release

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/test/harness"
)

// TestCrashPointsAreInTestBuildsOnly looks at the build tag that compiles crash points in, and searches for the
// variable that kills a daemon and for its message. Where nothing is inlined, the names of points are left in release
// builds, as arguments of a function that does nothing.
func TestCrashPointsAreInTestBuildsOnly(t *testing.T) {
	t.Parallel()
	traces := []string{crash.Environment, "crash: dying at"}
	for _, c := range []struct {
		name, path string
		points     bool
	}{
		{"release", harness.Release(t), false},
		{"test", harness.Binary(t), crash.Enabled},
	} {
		program, err := os.ReadFile(c.path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := buildinfo.ReadFile(c.path)
		if err != nil {
			t.Fatal(err)
		}
		tagged := slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool {
			return s.Key == "-tags" && strings.Contains(s.Value, "crashpoints")
		})
		if tagged != c.points {
			t.Errorf("the %s build has the tag crashpoints: %v, want %v", c.name, tagged, c.points)
		}
		for _, trace := range traces {
			if found := bytes.Contains(program, []byte(trace)); found != c.points {
				t.Errorf("the %s build %s holds %q: %v, want %v", c.name, c.path, trace, found, c.points)
			}
		}
		out, err := exec.Command(c.path, "version").Output()
		if err != nil {
			t.Fatal(err)
		}
		if told := strings.Contains(string(out), "test build: "+crash.Environment+" kills it"); told != c.points {
			t.Errorf("the version of the %s build is\n%s", c.name, out)
		}
	}
	// Nor does the program die of it.
	cmd := exec.Command(harness.Release(t), "version")
	cmd.Env = append(os.Environ(), crash.Environment+"=process/before-fork")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
