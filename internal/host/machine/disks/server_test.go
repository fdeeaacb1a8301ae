//go:build linux

package disks

import (
	"os/exec"
	"strings"
	"testing"
)

// A boot that has begun without its disks has none, whoever asks and how often.
func TestABootWithoutDisksSaysSo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Serve(Options{Dir: dir, Owner: "owner", InstanceID: "i-0123456789abcdef0"})
	if err != nil {
		t.Fatal(err)
	}
	table := Table{Disks: []Disk{
		{VolumeID: "vol-0123456789abcdef0", Device: "/dev/xvdaa", Number: 1, Loop: -1},
		{VolumeID: "vol-0123456789abcdef1", Device: "/dev/xvdab", Number: 2, Loop: -1, Detaching: true},
	}}
	if err := table.Write(dir); err != nil {
		t.Fatal(err)
	}
	expect := func(when, first string) {
		t.Helper()
		states, err := Apply(t.Context(), dir)
		if err != nil || len(states) != 2 || states[0].State != first || states[1].State != Detached {
			t.Fatalf("%s: %+v, %v", when, states, err)
		}
		if first == Failed && !strings.Contains(states[0].Error, "started without its disks: stop and start it") {
			t.Errorf("%s: %q", when, states[0].Error)
		}
	}
	expect("before it boots", Attached)
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	if err := s.Booted(ended.Process.Pid); err == nil {
		t.Fatal("a process that has ended has the disks")
	}
	for range 2 {
		expect("after it has booted without", Failed)
	}
	s.Ended()
	expect("before it boots again", Attached)
}
