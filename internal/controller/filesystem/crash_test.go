//go:build linux

package filesystem

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// mortal has the parameters of a daemon that is killed.
type mortal struct {
	Endpoints   []string
	Prefix, Dir string
}

const mortalEnvironment = "CORACLE_TEST_FILESYSTEM"

func run(ctx context.Context, s *store.Store, dir string) {
	log := slog.New(slog.DiscardHandler)
	c := New(Options{Store: s, EFS: finisher{s}, Dir: datadir.Dir(dir), Log: log})
	_ = reconcile.Run(ctx, log, c.Controllers()...)
}

// TestMortal runs the daemon that [TestADaemonMayDieAnywhere] kills. It is not a test.
func TestMortal(t *testing.T) {
	told := os.Getenv(mortalEnvironment)
	if told == "" {
		t.Skip("runs as the child of another test")
	}
	var m mortal
	if err := json.Unmarshal([]byte(told), &m); err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: m.Endpoints, DialTimeout: eventually.Limit})
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), client, store.Options{Prefix: m.Prefix, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	run(t.Context(), s, m.Dir)
}

// TestADaemonMayDieAnywhere takes a file system through its life with a daemon that dies at each point, and with
// another after it.
func TestADaemonMayDieAnywhere(t *testing.T) {
	crash.Require(t)
	t.Parallel()
	points := 0
	for _, point := range crash.Points() {
		if !strings.HasPrefix(point, "filesystem/") {
			continue
		}
		points++
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			prefix, dir := storetest.Prefix(t), t.TempDir()
			s := storetest.NewAt(t, prefix)
			told, err := json.Marshal(mortal{storetest.Client(t).Endpoints(), prefix, dir})
			if err != nil {
				t.Fatal(err)
			}
			child := exec.Command(os.Args[0], "-test.run=^TestMortal$")
			child.Env = append(os.Environ(), mortalEnvironment+"="+string(told), crash.Environment+"="+point)
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			died, ended := make(chan struct{}), make(chan struct{})
			ctx, stop := context.WithCancel(t.Context())
			go func() { // and another takes over where the first has died
				_ = child.Wait()
				close(died)
				run(ctx, s, dir)
				close(ended)
			}()
			wholeLife(t, s, datadir.Dir(dir))
			<-died
			if ws := child.ProcessState.Sys().(syscall.WaitStatus); ws.Signal() != syscall.SIGKILL {
				t.Errorf("the daemon did not come to %s: %v", point, child.ProcessState)
			}
			stop()
			<-ended
		})
	}
	if points == 0 {
		t.Fatal("there are no points to die at")
	}
}

// wholeLife takes a file system from its creation to its deletion.
func wholeLife(t *testing.T, s *store.Store, dir datadir.Dir) {
	t.Helper()
	files, contents := record.FileSystems(s), record.FileSystemContents(s)
	f := record.FileSystem{Account: "111122223333", Region: "eu-west-1", ID: "fs-0123456789abcdef0"}
	if _, err := files.Create(t.Context(), f.Key(), f); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the file system is ready", func() bool {
		row, err := contents.Get(t.Context(), f.Key())
		return err == nil && row.Value.Ready
	})
	deep := filepath.Join(dir.FileSystemRoot(f.ID), "a", "b")
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(deep, "file"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Modify(t.Context(), f.Key(), func(f *record.FileSystem) error {
		f.Deleted = time.Now()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "nothing is left", func() bool {
		_, err := files.Get(t.Context(), f.Key())
		left, _ := os.ReadDir(dir.FileSystemsDir())
		return err != nil && len(left) == 0
	})
}
