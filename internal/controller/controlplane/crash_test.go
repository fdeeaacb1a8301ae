package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/endpoint"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// The test binary plays the daemons that are killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "endpoint" { // and the process that stands before API servers
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		if err := endpoint.Serve(ctx, os.Args[3], slog.New(slog.NewTextHandler(os.Stderr, nil))); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		stop()
		os.Exit(0)
	}
	dir, owner, ok := strings.Cut(os.Getenv("CORACLE_TEST_DAEMON"), "|")
	if !ok {
		os.Exit(m.Run())
	}
	_, err := open(dir, owner, slog.New(slog.NewTextHandler(os.Stderr, nil)), true, func(o *Options) {
		if os.Getenv("CORACLE_TEST_BROKEN") != "" {
			o.Bundles = brokenBundles{Bundles: absoluteBundles(), minor: "1.36"}
		}
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {}
}

// mortal is a daemon that can be killed, and what drives it from outside: a store of its own.
type mortal struct {
	*daemon
	environ []string
	command *exec.Cmd
	died    chan struct{}
}

func newMortal(t *testing.T) *mortal {
	dir, owner := newDataDirectory(t)
	// One whose controller does not work: for its store, its etcd and its view of EC2.
	d, err := open(dir, owner, slog.New(slog.NewTextHandler(t.Output(), nil)), false, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.TB = t
	t.Cleanup(d.stop)
	return &mortal{daemon: d, environ: []string{"CORACLE_TEST_DAEMON=" + dir + "|" + owner}}
}

func (m *mortal) run(t *testing.T, point string) {
	t.Helper()
	m.command = exec.Command(os.Args[0])
	m.command.Env = append(append(os.Environ(), m.environ...), crash.Environment+"="+point)
	log, err := os.OpenFile(filepath.Join(m.dir, "daemon.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	m.command.Stderr = log
	if err := m.command.Start(); err != nil {
		t.Fatal(err)
	}
	died := make(chan struct{})
	m.died = died
	go func(c *exec.Cmd) {
		_ = c.Wait() // how it ended is in ProcessState
		close(died)
	}(m.command)
}

func (m *mortal) kill() {
	_ = m.command.Process.Signal(syscall.SIGKILL) // it may be dead already
	<-m.died
}

// through runs a daemon that dies at the point, and another that finishes what was begun.
func (m *mortal) through(t *testing.T, point, what string, done func() bool) {
	t.Helper()
	m.run(t, point)
	select {
	case <-m.died:
		if ws := m.command.ProcessState.Sys().(syscall.WaitStatus); ws.Signal() != syscall.SIGKILL {
			t.Fatalf("the daemon ended by itself: %v", m.command.ProcessState)
		}
	case <-time.After(eventually.Limit):
		m.kill()
		t.Fatalf("the daemon did not come to %s", point)
	}
	m.run(t, "")
	defer m.kill()
	err := eventually.Try(10*time.Millisecond, func() error {
		if !done() {
			return errors.New("it is not so")
		}
		return nil
	})
	if err != nil {
		b, _ := os.ReadFile(filepath.Join(m.dir, "daemon.log"))
		t.Logf("%s", b)
		m.dumpLogs()
		t.Fatalf("after a death at %s: %s: %v", point, what, err)
	}
}

// Where the daemon dies in each part of a cluster's life.
var (
	dieCreating = []string{
		"process/before-fork", "process/after-fork",
		crashSeen.Name(), crashBeforeKeys.Name(), crashKeys.Name(), crashEtcdRole.Name(), crashSecurityGroup.Name(),
		crashInterface.Name(),
		crashPrepared.Name(), crashAPIServerStarted.Name(), crashAPIServerReady.Name(), crashBootstrapped.Name(),
		crashBeforeReady.Name(), crashReady.Name(),
	}
	dieUpgrading = []string{
		crashHandoverStarted.Name(), crashHandoverReady.Name(), crashHandoverDone.Name(),
		crashUpgraded.Name(), crashUpgradeRecorded.Name(), crashBeforeUpdateEnd.Name(),
	}
	dieFailing  = []string{crashUpgradeFailing.Name()}
	dieRotating = []string{crashKeyAdded.Name(), crashKeyAccepted.Name(), crashKeySigns.Name()}
	dieDeleting = []string{
		"process/stopping", crashStopped.Name(), crashExpelled.Name(), crashInterfaceDeleted.Name(),
		crashDetached.Name(), crashDirectory.Name(), crashDeleted.Name(),
	}
)

func TestEveryCrashPointIsVisited(t *testing.T) {
	crash.Require(t)
	t.Parallel()
	visited := slices.Concat(dieCreating, dieUpgrading, dieFailing, dieRotating, dieDeleting)
	for _, point := range crash.Points() {
		ours := strings.HasPrefix(point, "controlplane/") || strings.HasPrefix(point, "process/")
		if ours && !slices.Contains(visited, point) {
			t.Errorf("nobody dies at %s", point)
		}
	}
}

func (m *mortal) ready(c record.Cluster) func() bool { return func() bool { return m.plane(c).Ready } }

func (m *mortal) gone(c record.Cluster) func() bool {
	return func() bool {
		_, err := record.Clusters(m.store).Get(m.Context(), c.Key())
		return err != nil
	}
}

func (m *mortal) ended(c record.Cluster, id string) func() bool {
	return func() bool { return m.updated(c, id).Status != ekstypes.UpdateStatusInProgress }
}

// runUntil runs a daemon that does not die until done.
func (m *mortal) runUntil(t *testing.T, what string, done func() bool) {
	t.Helper()
	m.run(t, "")
	defer m.kill()
	m.until(what, done)
}

func (m *mortal) markDeleting(t *testing.T, c record.Cluster) {
	t.Helper()
	if _, err := record.Clusters(m.store).Modify(t.Context(), c.Key(),
		func(c *record.Cluster) error { c.Deleting = true; return nil }); err != nil {
		t.Fatal(err)
	}
}

// complete checks that one process of each component runs, of the version, and that nothing was
// made twice.
func (m *mortal) complete(t *testing.T, c record.Cluster, minor string) {
	t.Helper()
	m.run(t, "")
	defer m.kill()
	m.until("one process of each component", func() bool {
		found, err := process.Claims(m.owner)
		if err != nil {
			t.Fatal(err)
		}
		var components []string
		for _, f := range found {
			exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", f.PID))
			if strings.HasPrefix(f.Name, c.ID) && strings.Contains(exe, "v"+minor) {
				components = append(components, componentOf(f.Name))
			} else if strings.HasPrefix(f.Name, c.ID) {
				components = append(components, "stray "+f.Name)
			}
		}
		slices.Sort(components)
		return slices.Equal(components, []string{kubeAPIServer, kubeControllerManager, kubeScheduler})
	})
	if g, i := m.ec2.state().Groups, m.ec2.state().Interfaces; len(g) != 1 || len(i) != 2 {
		t.Errorf("%d security groups, %d interfaces", len(g), len(i))
	}
}

// oneAtATime tells the tests to let daemons die at one point each, as "make test-all" does.
var oneAtATime = testenv.All()

func TestADaemonKilledWhileItCreates(t *testing.T) {
	crash.Require(t)
	if !oneAtATime {
		t.Skip("test/chaos dies at all of these in one life; CORACLE_TEST=all dies at each alone, which takes minutes")
	}
	needBundle(t, "1.35")
	m := newMortal(t)
	for _, point := range dieCreating {
		t.Run(point, func(t *testing.T) {
			c := m.create(newCluster("c-"+strings.ReplaceAll(point, "/", "-"), "1.35"))
			m.through(t, point, "the cluster to be ready", m.ready(c))
			m.complete(t, c, "1.35")
			m.markDeleting(t, c)
			m.runUntil(t, "the row to go", m.gone(c))
		})
	}
}

func TestADaemonKilledWhileItUpgrades(t *testing.T) {
	crash.Require(t)
	needBundle(t, "1.35", "1.36")
	m := newMortal(t)
	c := m.create(newCluster("rising", "1.35"))
	m.runUntil(t, "the cluster to be ready", m.ready(c))
	from, to := "1.35", "1.36" // and back again: the controller does not mind the direction
	for _, point := range dieUpgrading {
		if !oneAtATime {
			break
		}
		t.Run(point, func(t *testing.T) {
			id := m.update(c, record.Update{Type: ekstypes.UpdateTypeVersionUpdate, PreviousVersion: from},
				func(c *record.Cluster) { c.Version = to })
			m.through(t, point, "the update to end", m.ended(c, id))
			if u := m.updated(c, id); u.Status != ekstypes.UpdateStatusSuccessful {
				t.Errorf("update %+v", u)
			}
			m.complete(t, c, to)
		})
		from, to = to, from
	}
	for _, point := range dieFailing {
		t.Run(point, func(t *testing.T) {
			if from == "1.36" {
				t.Fatal("the cluster is of the version that is to be broken")
			}
			m.environ = append(m.environ, "CORACLE_TEST_BROKEN=1")
			id := m.update(c, record.Update{Type: ekstypes.UpdateTypeVersionUpdate, PreviousVersion: from},
				func(c *record.Cluster) { c.Version = to })
			m.through(t, point, "the update to end", m.ended(c, id))
			if u := m.updated(c, id); u.Status != ekstypes.UpdateStatusFailed {
				t.Errorf("update %+v", u)
			}
			m.complete(t, c, from)
		})
	}
}

func TestADaemonKilledWhileItDeletes(t *testing.T) {
	crash.Require(t)
	if !oneAtATime {
		t.Skip("test/chaos dies at all of these in one life; CORACLE_TEST=all dies at each alone, which takes minutes")
	}
	needBundle(t, "1.35")
	m := newMortal(t)
	for _, point := range dieDeleting {
		t.Run(point, func(t *testing.T) {
			c := m.create(newCluster("d-"+strings.ReplaceAll(point, "/", "-"), "1.35"))
			m.runUntil(t, "the cluster to be ready", m.ready(c))
			m.markDeleting(t, c)
			m.through(t, point, "the row to go", m.gone(c))
			assertNothingLeft(t, m.daemon, c)
		})
	}
}
