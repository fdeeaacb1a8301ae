package daemon

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFailureReason(t *testing.T) {
	t.Parallel()
	for log, want := range map[string]string{
		"{\"level\":\"warn\",\"msg\":\"slow\"}\ncoracle: etcd's port 20001 is in use\n": "etcd's port 20001 is in use",
		"{\"level\":\"fatal\",\"msg\":\"failed to create WAL\",\"error\":\"no space left on " +
			"device\"}\n{\"level\":\"info\",\"msg\":\"bye\"}\n": "failed to create WAL: no space left on device",
		"panic: nil map\n\ngoroutine 1 [running]:\nmain.main()\n": "nil map",
		"one\ntwo": "two",
	} {
		file := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(file, []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := failureReason(file); got != want {
			t.Errorf("the reason for the failure in %q is %q, want %q", log, got, want)
		}
	}
}
