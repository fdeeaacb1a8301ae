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
		limits := kernelLimits(memory, charged)
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
	if got := kernelLimits(8<<40, true)["/proc/sys/net/ipv4/tcp_max_orphans"][0]; got<<2 > 1<<31-1 {
		t.Errorf("the kernel counts penalties of %d orphans in 32 bits", got)
	}
}
