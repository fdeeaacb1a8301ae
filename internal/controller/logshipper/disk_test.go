package logshipper

import (
	"os"
	"syscall"
	"testing"
)

// taken returns the number of bytes that a file takes on the disk.
func taken(t testing.TB, name string) int64 {
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}
