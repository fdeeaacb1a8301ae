//go:build linux

package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

func TestWorkersOfManyServers(t *testing.T) {
	t.Parallel()
	waits := func(int) string { return "7" }
	same := func(_, i int) string { return strconv.Itoa(i) }
	// Connections of one machine can take turns, so that none of them is seen twice.
	inTurn := func(pass, i int) string { return strconv.Itoa(1000*(pass%2) + i) }
	const queued = 5 // others of the machine, which no worker works for
	for name, c := range map[string]struct {
		connections int
		names       func(pass, i int) string
		switches    func(pass int) string // of each worker
		abortedAt   int                   // the pass, 0: never
		all         bool
	}{
		"a few that go on":       {mostFlushes, same, strconv.Itoa, 0, false},
		"a few in turn":          {mostFlushes, inTurn, strconv.Itoa, 0, false},
		"many that go on":        {mostFlushes + 1, same, strconv.Itoa, 2, true},
		"many in turn":           {mostFlushes + 1, inTurn, strconv.Itoa, 2, true},
		"one that does not":      {1, same, waits, 4, false},
		"as many as there may":   {mostFlushes, same, waits, 4, false},
		"many that wait at once": {mostFlushes + 1, same, waits, 2, true},
	} {
		guard := writebackGuard{patience: 3 * writebackInterval}
		now := time.Now()
		for pass := 1; pass <= 6; pass++ {
			own, flushes := map[string]bool{}, map[string]flush{}
			for i := range queued {
				own["queued "+strconv.Itoa(i)] = false
			}
			for i := range c.connections {
				own[c.names(pass, i)] = true
				flushes[c.names(pass, i)] = flush{strconv.Itoa(1000 + i), c.switches(pass), now}
			}
			want := 0
			if pass == c.abortedAt {
				want = c.connections
				if c.all {
					want += queued
				}
			}
			if aborted := guard.judge(own, flushes, now); len(aborted) != want {
				t.Errorf("%s: in pass %d, %d are aborted, want %d: %v", name, pass, len(aborted), want, aborted)
			}
			if want > 0 {
				break
			}
			now = now.Add(writebackInterval)
		}
	}
}

// A machine that knew when the next pass is would let the workers go for that one.
func TestNobodyKnowsTheNextPass(t *testing.T) {
	t.Parallel()
	seen := map[time.Duration]bool{}
	for range 1000 {
		next := nextPass()
		if next < writebackInterval/2 || next >= 2*writebackInterval {
			t.Fatalf("the next pass is in %s", next)
		}
		seen[next] = true
	}
	if len(seen) < 100 {
		t.Errorf("there are %d different times of 1000", len(seen))
	}
}

// A program of a machine cannot look like a worker: the kernel cuts names of programs.
func TestWorkersAreKnownByTheirNames(t *testing.T) {
	t.Parallel()
	proc := t.TempDir()
	for pid, comm := range map[string]string{
		"10": "kworker/u8:2+flush-0:53", "11": "kworker/u8:3-flush-0:54", "12": "kworker/u8:4+flush-254:0",
		"13": "kworker/+flush-", "14": "kworker/u8:5+flush-0:55-fuseblk", "15": "kworker/u8:6+flush-0:56", "16": "x",
	} {
		dir := filepath.Join(proc, pid)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for file, content := range map[string]string{"comm": comm + "\n",
			"status": "Name:\tx\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t2\n"} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	guard := writebackGuard{proc: proc}
	var found []string
	for name, f := range guard.listFlushes(map[string]bool{"53": true, "54": true, "55": true, "0": true, "": true},
		time.Now()) {
		found = append(found, name+" "+f.pid)
	}
	slices.Sort(found)
	if want := []string{"53 10", "55 14"}; !slices.Equal(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
	// where the kernel tells which threads are its own, no others are read
	parent := filepath.Join(proc, "2", "task", "2")
	if err := os.MkdirAll(parent, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{"2/comm": "kthreadd\n", "2/task/2/children": "10 15 "} {
		if err := os.WriteFile(filepath.Join(proc, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := guard.threads(), []string{"10", "15"}; !slices.Equal(got, want) {
		t.Errorf("threads of the kernel are %v, want %v", got, want)
	}
}
