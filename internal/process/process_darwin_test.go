package process

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

func alive(pid int) bool {
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(string(state), "Z")
}

// openFiles returns what the file descriptors of a process are, a socket as "socket:TYPE".
func openFiles(t *testing.T, pid int) (targets []string) {
	t.Helper()
	fields, err := exec.Command("lsof", "-a", "-p", strconv.Itoa(pid), "-d", "0-1023", "-F", "t").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(fields)) {
		kind, ok := strings.CutPrefix(strings.TrimSpace(line), "t")
		switch kind {
		case "IPv4", "IPv6", "unix":
			kind = "socket:" + kind
		}
		if ok {
			targets = append(targets, kind)
		}
	}
	return targets
}
