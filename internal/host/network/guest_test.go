//go:build linux

package network

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/record"
)

// TestWhatAMachineMakesInItsNamespaceIsNotRead makes 100,000 addresses and thousands of links, routes and rules in the
// namespace of a machine, as root there can, and bounds the bytes that passes allocate. It does not run in parallel,
// because the bytes are those of the process.
func TestWhatAMachineMakesInItsNamespaceIsNotRead(t *testing.T) {
	w := newFixture(t)
	v, client, server := w.pair()
	w.whole(client, server)
	w.stop()
	holder := instanceOf(client)
	passes := []struct {
		name string
		run  func() error
	}{
		{"a pass of the VPC", func() error {
			_, err := w.reconcileVPC(t.Context(), v.Key())
			return err
		}},
		{"the first pass of a daemon", func() error {
			next, err := New(w.o)
			if err == nil {
				_, err = next.reconcileVPC(t.Context(), v.Key())
			}
			return err
		}},
		{"a pass of the internet", func() error {
			_, err := w.reconcileInternet(t.Context(), InternetNamespace)
			return err
		}},
		{"an interface that is attached later", func() error {
			second := w.newENI(w.subnetOf(client), holder, 1, nil, "10.0.1.20")
			_, err := w.reconcileVPC(t.Context(), v.Key())
			remove(w, record.NetworkInterfaces, second)
			return err
		}},
		{"an interface that is detached", func() error {
			_, err := w.reconcileVPC(t.Context(), v.Key())
			return err
		}},
		{"an address that the guest removed", func() error {
			w.run(holder, "ip", "addr", "del", "10.0.1.10/24", "dev", "eth0")
			_, err := w.reconcileVPC(t.Context(), v.Key())
			return err
		}},
	}
	before := make([]uint64, len(passes))
	for i, p := range passes {
		before[i] = w.allocatedBy(p.run)
	}
	w.floodNamespace(holder)
	// What was made takes the kernel more than 76 bytes for each address to tell.
	const most = 2 << 20
	for i, p := range passes {
		if after := w.allocatedBy(p.run); after > before[i]+most {
			t.Errorf("%s: %d bytes are allocated, and %d without what the machine made", p.name, after, before[i])
		}
	}
	if out := w.run(holder, "ip", "-4", "-br", "addr", "show", "eth0"); !strings.Contains(out, " 10.0.1.10/24") {
		t.Errorf("the address that the guest removed did not come back: %.200s", out)
	}
	// `coracle reset` lists no namespace of a machine either.
	removal := w.allocatedBy(func() error {
		_, err := Remove(w.owner)
		return err
	})
	if removal > 800<<10 {
		t.Errorf("removal: %d bytes are allocated", removal)
	}
}

// allocatedBy returns the bytes that f allocates, and what else runs in the process meanwhile.
func (w *fixture) allocatedBy(f func() error) uint64 {
	w.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := f(); err != nil {
		w.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// floodNamespace makes 200 links with 500 addresses each, eth0 among them, and 10,000 routes and rules. More addresses
// on one link take the kernel minutes: it walks all of a link for a new one.
func (w *fixture) floodNamespace(name string) {
	w.Helper()
	const pairs, each = 100, 500
	var batch strings.Builder
	n := 0
	address := func(link string) {
		for range each {
			fmt.Fprintf(&batch, "addr add 100.%d.%d.%d/32 dev %s\n", 64+n>>16, n>>8&255, n&255, link)
			n++
		}
	}
	address("eth0")
	for i := range pairs {
		a, b := fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i)
		fmt.Fprintf(&batch, "link add %s type veth peer name %s\n", a, b)
		address(a)
		if i > 0 { // instead of eth0
			address(b)
		}
	}
	for i := range 10000 {
		fmt.Fprintf(&batch, "route add unreachable 101.0.%d.%d/32 table 77\n", i>>8, i&255)
	}
	for i := range 1000 {
		fmt.Fprintf(&batch, "rule add from 101.0.%d.%d/32 table 77 pref %d\n", i>>8, i&255, 2000+i)
	}
	file := filepath.Join(w.TempDir(), "batch")
	if err := os.WriteFile(file, []byte(batch.String()), 0o600); err != nil {
		w.Fatal(err)
	}
	w.run(name, "ip", "-batch", file)
}
