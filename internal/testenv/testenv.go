// Package testenv tells tests what their environment lacks. It is for tests only.
//
// There are two environments: that of "make test-unit", with the flag -short, has Go alone, on any system and as any
// user; that of "make test" is Linux with root and all that "make setup" installs. A test is skipped in the first where
// it needs the second, and fails in the second rather than being skipped in silence.
package testenv

import (
	"os"
	"testing"
)

// NeedsRoot skips t in short mode, and fails it where the user is not root.
func NeedsRoot(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs root, so it is not run with -short")
	}
	if os.Geteuid() != 0 {
		t.Fatal("needs root: run it as root, or with -short to skip it")
	}
}

// NeedsLoopDevices skips t where the host has no loop devices, as in most containers.
func NeedsLoopDevices(t testing.TB) {
	t.Helper()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		t.Skip("needs loop devices:", err)
	}
	if err := control.Close(); err != nil {
		t.Fatal(err)
	}
}

// All reports whether all is to be tested, however long it takes, as by "make test-all".
func All() bool { return os.Getenv("CORACLE_TEST") == "all" }

// NeedsAll skips t, for the reason given, unless [All] is to be tested.
func NeedsAll(t testing.TB, reason string) {
	t.Helper()
	if !All() {
		t.Skip(reason + ": CORACLE_TEST=all runs it")
	}
}

// NeedsSetup skips t in short mode: it needs programs that "make setup" installs, or that "make test" builds.
func NeedsSetup(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs programs that \"make test\" installs or builds, so it is not run with -short")
	}
}
