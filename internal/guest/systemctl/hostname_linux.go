package systemctl

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Hostnamectl runs the program of that name, as far as scripts use it: it shows the host's name, and sets it
// permanently.
func (c Command) Hostnamectl(args []string) int {
	var words []string
	for _, a := range args {
		if !strings.HasPrefix(a, "-") {
			words = append(words, a)
		}
	}
	name, err := os.Hostname()
	switch {
	case err != nil:
	case len(words) == 2 && (words[0] == "set-hostname" || words[0] == "hostname"):
		if err = unix.Sethostname([]byte(words[1])); err == nil {
			err = os.WriteFile("/etc/hostname", []byte(words[1]+"\n"), 0o644)
		}
	case len(words) == 1 && words[0] == "hostname":
		fmt.Fprintln(c.Stdout, name)
	case len(words) == 0 || words[0] == "status":
		release := ""
		for _, line := range strings.Split(readFile("/etc/os-release"), "\n") {
			if v, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
				release = strings.Trim(v, `"`)
			}
		}
		fmt.Fprintf(c.Stdout,
			" Static hostname: %s\n      Machine ID: %s\n  Virtualization: amazon\nOperating System: %s\n          "+
				"Kernel: Linux %s\n",
			name, strings.TrimSpace(readFile("/etc/machine-id")), release,
			strings.TrimSpace(readFile("/proc/sys/kernel/osrelease")))
	default:
		fmt.Fprintf(c.Stderr,
			"hostnamectl: %s is not served by this machine; there are: status, hostname, set-hostname\n",
			strings.Join(words, " "))
		return 1
	}
	if err != nil {
		fmt.Fprintln(c.Stderr, "hostnamectl:", err)
		return 1
	}
	return 0
}
