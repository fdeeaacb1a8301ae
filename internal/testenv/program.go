package testenv

import (
	"os"
	"syscall"
	"testing"
)

// WriteProgram writes a program that the test is about to run. No other test of the process starts a child
// meanwhile: the child would inherit the open file until its own exec, and the kernel runs no program that is open
// for writing (ETXTBSY).
func WriteProgram(t testing.TB, name string, content []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(name, content, 0o755); err != nil { // open to others: whoever runs it in the test
		t.Fatal(err)
	}
}
