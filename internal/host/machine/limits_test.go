//go:build linux

package machine

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestKernelLimitsAreRaisedOnly(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "limit")
	for _, c := range []struct {
		has    string
		want   []int
		leaves string
		err    string
	}{
		{"128\n", []int{8192}, "8192", ""},
		{"16384\n", []int{8192}, "16384\n", ""},
		{"575796\t767731\t1151592\n", []int{1000000, 1000000, 1000000}, "1000000 1000000 1151592", ""},
		{"2000000\t2000000\t2000000\n", []int{1000000, 1000000, 1000000}, "2000000\t2000000\t2000000\n", ""},
		{"1\t2\n", []int{4, 4, 4}, "1\t2\n", "has 2 numbers, not 3"},
		{"none\n", []int{4}, "none\n", "invalid syntax"},
	} {
		if err := os.WriteFile(file, []byte(c.has), 0o600); err != nil {
			t.Fatal(err)
		}
		err := raiseKernelLimit(file, c.want, slog.New(slog.DiscardHandler))
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %v, want %q", c.has, err, c.err)
		}
		if left, err := os.ReadFile(file); err != nil || string(left) != c.leaves {
			t.Errorf("%q becomes %q, %v; want %q", c.has, left, err, c.leaves)
		}
	}
}

// One machine that fills the buffers of its sockets reaches the limit of its own memory before that of the host, which
// all have in common. Where buffers count for no machine, the host's limit is the only one.
func TestSocketsOfAMachineLeaveOthersTheirs(t *testing.T) {
	t.Parallel()
	const memory = 24 << 30
	pages := memory / os.Getpagesize()
	for _, charged := range []bool{true, false} {
		limits := kernelLimits(memory, charges{sockets: charged})
		for _, name := range []string{"udp_mem", "tcp_mem"} {
			want := []int{pages, pages, pages}
			if !charged {
				want = nil
			}
			if got := limits["/proc/sys/net/ipv4/"+name]; !slices.Equal(got, want) {
				t.Errorf("%s is raised to %v, want %v; sockets are charged: %t", name, got, want, charged)
			}
		}
		if got := limits["/proc/sys/net/ipv4/tcp_max_orphans"]; len(got) != 1 || got[0] != memory>>10 {
			t.Errorf("tcp_max_orphans is raised to %v", got)
		}
	}
	if got := kernelLimits(8<<40, charges{sockets: true})["/proc/sys/net/ipv4/tcp_max_orphans"][0]; got<<2 > 1<<31-1 {
		t.Errorf("the kernel counts penalties of %d orphans in 32 bits", got)
	}
}

// One machine that opens as many files as it can reaches the limit of its own memory before that of the host, beyond
// which only the host's root opens any. Where files count for no machine, the host's limit is the only one.
func TestFilesOfAMachineLeaveOthersTheirs(t *testing.T) {
	t.Parallel()
	const memory, file = 24 << 30, "/proc/sys/fs/file-max"
	if got := kernelLimits(memory, charges{kernelMemory: true})[file]; len(got) != 1 || got[0] != memory/128 {
		t.Errorf("%s is raised to %v", file, got)
	}
	if got := kernelLimits(memory, charges{sockets: true})[file]; got != nil {
		t.Errorf("%s is raised to %v, and files count for no machine", file, got)
	}
	missing := filepath.Join(t.TempDir(), "limit")
	if err := raiseKernelLimit(missing, []int{1}, slog.New(slog.DiscardHandler)); err != nil {
		t.Errorf("a limit that the kernel does not have: %v", err)
	}
}

// A machine has thousands of processes, which may all crash at once: for each the kernel starts a program of the host.
func TestCoreDumpsOfMachinesAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ pattern, limit, want string }{
		"a program, any number": {"|/usr/lib/systemd/systemd-coredump %P\n", "0\n", "16"},
		"a program, a few":      {"|/usr/share/apport/apport -p%p\n", "10\n", "10\n"},
		"files":                 {"core\n", "0\n", "0\n"},
	} {
		dir := t.TempDir()
		for file, content := range map[string]string{"core_pattern": c.pattern, "core_pipe_limit": c.limit} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := boundCoreDumps(dir); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "core_pipe_limit")); err != nil || string(got) != c.want {
			t.Errorf("%s: the limit is %q, %v; want %q", name, got, err, c.want)
		}
	}
}
