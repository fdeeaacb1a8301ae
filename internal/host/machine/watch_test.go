//go:build linux

package machine

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
	"github.com/coracle-eks/coracle/internal/host/machine/launch"
)

// Root of a machine makes files where its report is, as fast as it can. It is not listened to for a while, and others
// are.
func TestAMachineThatMakesNoticesIsNotWatchedForAPause(t *testing.T) {
	t.Parallel()
	w := newWatcher(slog.New(slog.DiscardHandler))
	over := make(chan time.Time)
	w.after = func(time.Duration) <-chan time.Time { return over }
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan string, 1<<16)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.run(ctx, func(key string) { told <- key })
	}()
	defer func() {
		cancel()
		<-ended
	}()
	dirs := map[string]string{}
	for _, key := range []string{"busy", "quiet"} {
		dirs[key] = t.TempDir()
		if err := os.Mkdir(filepath.Join(dirs[key], launch.RunDir), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := w.add(dirs[key], key); err != nil {
			t.Fatal(err)
		}
	}
	busy := filepath.Join(dirs["busy"], launch.RunDir)
	watches := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.w != nil && slices.Contains(w.w.WatchList(), busy)
	}
	eventually.True(t, "the watch of the machines", watches)
	made := 0
	eventually.True(t, "the end of the watch of who is busy", func() bool {
		for range noiseAtOnce {
			made++
			if err := os.WriteFile(filepath.Join(busy, fmt.Sprint(made)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return !watches()
	})
	if len(told) > 0 {
		t.Errorf("%s is told of files that are none of the host's", <-told)
	}
	if err := boot.Write(filepath.Join(dirs["quiet"], launch.RunDir), boot.Report{}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the report of another machine", func() bool { return next(told) == "quiet" })
	over <- time.Time{}
	eventually.True(t, "the end of the pause", func() bool { return next(told) == "busy" })
	if !watches() {
		t.Error("the machine is not watched after the pause")
	}
}

// next returns the next key; empty when there is none yet.
func next(told <-chan string) string {
	select {
	case key := <-told:
		return key
	default:
		return ""
	}
}
