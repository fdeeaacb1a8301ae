//go:build linux

package machine

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
	"github.com/coracle-eks/coracle/internal/host/machine/machinetest"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/store/storetest"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// noProcesses are those of a host whose machines have ended.
type noProcesses struct{ Processes }

func (noProcesses) Stop(context.Context, string) error { return nil }
func (noProcesses) List(string) []process.Status       { return nil }

// newRemovals returns a Controller that does not run, with the directory of a machine that has made files. hidden gets
// what is to be removed.
func newRemovals(t *testing.T) (c *Controller, file string, hidden chan string) {
	t.Helper()
	c = New(Options{Store: storetest.New(t), Owner: machinetest.Owner(t), Dir: t.TempDir(), Network: &plugs{},
		Processes: noProcesses{}})
	file = "root/many/files"
	if err := os.MkdirAll(filepath.Join(c.machineDir(one), file), 0o700); err != nil {
		t.Fatal(err)
	}
	hidden = make(chan string, 1)
	c.hidden = hidden
	return c, file, hidden
}

func (c *Controller) mustRemove(t *testing.T, want bool) {
	t.Helper()
	if removed, err := c.removeMachine(t.Context(), key(one), one); err != nil || removed != want {
		t.Fatalf("the machine is removed: %t, %v; want %t", removed, err, want)
	}
}

// A machine has made as many files as it could. Who terminates it waits for no file, and others do not wait for it.
func TestFilesOfAMachineHoldNoWorker(t *testing.T) {
	t.Parallel()
	c, file, hidden := newRemovals(t)
	c.mustRemove(t, false)
	if _, err := os.Lstat(c.machineDir(one)); !os.IsNotExist(err) {
		t.Errorf("the directory of the machine is still there: %v", err)
	}
	// The key is that which a later daemon finds, lest two passes remove one directory.
	if got := <-hidden; got != removalKey(account, one) {
		t.Errorf("%s is to be removed", got)
	}
	left := filepath.Join(c.hiddenDir(key(one), one), file)
	if _, err := os.Lstat(left); err != nil {
		t.Errorf("its files were removed at once: %v", err)
	}
	turnOver, end := context.WithCancel(t.Context())
	end()
	if again, err := c.reconcileRemoval(turnOver, removalKey(account, one)); err != nil || again.After == 0 || again.Gone {
		t.Errorf("after a turn: %+v, %v", again, err)
	}
	c.mustRemove(t, false)
	<-hidden

	c.keys.Store(one, key(one))
	c.removed = make(chan string, 1)
	if again, err := c.reconcileRemoval(t.Context(), removalKey(account, one)); err != nil || !again.Gone {
		t.Errorf("after the last turn: %+v, %v", again, err)
	}
	if got := <-c.removed; got != key(one) {
		t.Errorf("%s is told of", got)
	}
	c.mustRemove(t, true)
}

// Half of the workers are always there for other accounts, and no directory holds one for long.
func TestNoAccountHoldsTheWorkersOfMachines(t *testing.T) {
	t.Parallel()
	c, _, _ := newRemovals(t)
	for _, o := range c.Controllers() {
		if o.AccountWorkers < 1 || 2*o.AccountWorkers > o.Workers || o.Timeout <= 0 {
			t.Errorf("%s has %d workers, %d for each account, and %s for a pass", o.Name, o.Workers, o.AccountWorkers,
				o.Timeout)
		}
	}
}

// A daemon was killed while it removed what a machine had left.
func TestRemovalsOfAnEarlierDaemonGoOn(t *testing.T) {
	t.Parallel()
	c, _, hidden := newRemovals(t)
	c.mustRemove(t, false)
	<-hidden
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	found := ""
	c.hiddenLeftovers(ctx, func(key string) { found = key; cancel() })
	if found != removalKey(account, one) {
		t.Fatalf("%q is to be removed", found)
	}
	if again, err := c.reconcileRemoval(t.Context(), found); err != nil || !again.Gone {
		t.Errorf("%+v, %v", again, err)
	}
	c.mustRemove(t, true)
}

// stuckProcesses are launchers that wait in the kernel for their machines.
type stuckProcesses struct{ noProcesses }

func (stuckProcesses) Stop(context.Context, string) error { return process.ErrStuck }

// A machine can make its launcher wait for an answer of its own. It is ended all the same, and with it what the
// launcher waits for.
func TestAMachineEndsBeforeAStuckLauncher(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	hosts, err := cgroup.Open()
	if err != nil {
		t.Skip(err)
	}
	c := New(Options{Store: storetest.New(t), Owner: machinetest.Owner(t), Dir: t.TempDir(), Network: &plugs{},
		Processes: stuckProcesses{}})
	group := hosts.Group(c.o.Owner, one)
	t.Cleanup(func() {
		if _, err := hosts.RemoveAll(c.o.Owner); err != nil {
			t.Error(err)
		}
	})
	if err := group.Create(cgroup.Limits{CPUs: 1, MemoryBytes: 256 << 20}); err != nil {
		t.Fatal(err)
	}
	init := exec.Command("sleep", "1000")
	if err := init.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- init.Wait() }()
	if err := group.Add(init.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := c.stopProcess(t.Context(), one); !errors.Is(err, process.ErrStuck) {
		t.Errorf("the launcher counts as stopped: %v", err)
	}
	if err := <-ended; err == nil || err.Error() != "signal: killed" {
		t.Errorf("the machine has ended with %v", err)
	}
	if _, err := os.Stat(group.Dir("memory")); !os.IsNotExist(err) {
		t.Errorf("the group of the machine is left: %v", err)
	}
}
