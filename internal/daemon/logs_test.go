package daemon

import (
	"log/slog"
	"testing"

	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// Whoever may put log events must not be able to fill the disk that etcd writes to: it ends when a write fails, and
// starts again only when etcdDisk is free. It also grows while it runs, so that images leave 2 GiB, and log events no
// less.
func TestLogEventsLeaveRoomForEtcd(t *testing.T) {
	t.Parallel()
	d := &daemon{dir: datadir.Dir(t.TempDir()), log: slog.New(slog.DiscardHandler), store: storetest.New(t)}
	l, err := d.openLogs()
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if least := int64(2 << 30); l.events.MinFree < least {
		t.Errorf("log events are taken until %d MiB of the disk are free, want %d", l.events.MinFree>>20, least>>20)
	}
}
