package process

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z")
}

// openFiles returns what the file descriptors of a process are, a socket as "socket:[NUMBER]".
func openFiles(t *testing.T, pid int) (targets []string) {
	t.Helper()
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		target, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
		targets = append(targets, target)
	}
	return targets
}
