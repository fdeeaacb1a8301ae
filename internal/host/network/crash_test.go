//go:build linux

package network

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/store"
)

// mortal has the parameters of a daemon that is killed.
type mortal struct {
	Endpoints     []string
	Prefix, Owner string
	Public        string
}

const mortalEnvironment = "CORACLE_TEST_NETWORK"

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
	o := Options{Store: s, Owner: m.Owner, Region: region}
	if err := o.PublicRange.UnmarshalText([]byte(m.Public)); err != nil {
		t.Fatal(err)
	}
	n, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	reconcile.Run(context.Background(), slog.New(slog.DiscardHandler), n.Controllers()...)
}

func TestADaemonMayDieAnywhere(t *testing.T) {
	crash.Require(t)
	t.Parallel()
	w := newFixture(t)
	_, client, server := w.pair()
	w.whole(client, server)
	w.stop()
	var points []string
	for _, p := range crash.Points() {
		if strings.HasPrefix(p, "network/") {
			points = append(points, p)
		}
	}
	if len(points) == 0 {
		t.Fatal("there are no points to die at")
	}
	for range 15 {
		points = append(points, "") // anywhere
	}
	for i, point := range points {
		t.Run(fmt.Sprintf("%d %s", i, point), func(t *testing.T) {
			if _, err := Remove(w.owner); err != nil {
				t.Fatal(err)
			}
			w.die(t, point)
			// A daemon after it makes the network whole.
			next, err := New(w.o)
			if err != nil {
				t.Fatal(err)
			}
			again := &fixture{TB: t, Network: next, store: w.store, owner: w.owner}
			defer again.start()()
			again.whole(client, server)
		})
	}
}

// die runs a daemon that is killed at a point, or after some milliseconds.
func (w *fixture) die(t *testing.T, point string) {
	t.Helper()
	told, err := json.Marshal(mortal{w.endpoints, w.prefix, w.owner, w.o.PublicRange.String()})
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestMortal$")
	child.Env = append(os.Environ(), mortalEnvironment+"="+string(told), crash.Environment+"="+point)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	limit := eventually.Limit
	if point == "" {
		// From its first instructions until it is done, which takes it about 200 ms.
		limit = time.Duration(20+rand.IntN(250)) * time.Millisecond
	}
	timer := time.AfterFunc(limit, func() { child.Process.Kill() })
	child.Wait()
	if ws := child.ProcessState.Sys().(syscall.WaitStatus); ws.Signal() != syscall.SIGKILL {
		t.Fatalf("the daemon ended by itself: %v", child.ProcessState)
	}
	if !timer.Stop() && point != "" {
		t.Fatalf("the daemon did not come to %s", point)
	}
}
