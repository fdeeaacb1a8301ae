package backup

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/test/harness"
)

// Log events come back from a backup with their groups, and go on from there.
func TestLogEventsComeBackFromABackup(t *testing.T) {
	t.Parallel()
	d := harness.Start(t)
	put := func(message string) {
		t.Helper()
		d.AWS(nil, "logs", "put-log-events", "--log-group-name", "g", "--log-stream-name", "s", "--log-events",
			fmt.Sprintf("timestamp=%d,message=%s", time.Now().UnixMilli(), message))
	}
	d.AWS(nil, "logs", "create-log-group", "--log-group-name", "g")
	d.AWS(nil, "logs", "create-log-stream", "--log-group-name", "g", "--log-stream-name", "s")
	put("before")
	archive := filepath.Join(t.TempDir(), "logs.coracle")
	d.Run("", "coracle", "backup", archive, "--data-dir", d.Dir)
	put("after")

	d.Run("", "coracle", "reset", "--yes", "--data-dir", d.Dir)
	d.Run("", "coracle", "restore", archive, "--data-dir", d.Dir)
	d.Serve()
	put("anew")
	var got []string
	d.AWS(&got, "logs", "filter-log-events", "--log-group-name", "g", "--query", "events[].message")
	if !slices.Equal(got, []string{"before", "anew"}) {
		t.Errorf("after a restore there are %q", got)
	}
}
