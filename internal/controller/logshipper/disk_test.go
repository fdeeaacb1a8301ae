package logshipper

import (
	"os"
	"syscall"
	"testing"
)

// taken is how many bytes of the disk a file takes.
func taken(t testing.TB, name string) int64 {
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}
