package systemctl

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/guest/initd"
)

// Power runs reboot, poweroff or halt: the machine ends when init has stopped its units.
func (c Command) Power(verb string, args []string) int {
	for _, a := range args {
		switch a {
		case "-p", "--poweroff":
			verb = "poweroff"
		case "--reboot":
			verb = "reboot"
		case "--halt":
			verb = "halt"
		case "-f", "--force", "-w", "--wtmp-only", "-d", "--no-wtmp", "--no-wall", "-n", "-h":
		default:
			fmt.Fprintf(c.Stderr, "%s: unrecognized option '%s'\n", verb, a)
			return 1
		}
	}
	if verb == "kexec" {
		verb = "reboot"
	}
	_, code := c.callInit(initd.Request{Verb: verb})
	return code
}

// Shutdown runs the program of that name: "shutdown -h now", "shutdown -r +1", "shutdown -c".
func (c Command) Shutdown(args []string) int {
	verb, when := "poweroff", ""
	for _, a := range args {
		switch a {
		case "-h", "-P", "--poweroff":
			verb = "poweroff"
		case "-H", "--halt":
			verb = "halt"
		case "-r", "--reboot":
			verb = "reboot"
		case "-c":
			_, code := c.callInit(initd.Request{Verb: "cancel-shutdown"})
			return code
		case "-k", "--no-wall", "-f", "-F", "-n", "-t":
		default:
			if strings.HasPrefix(a, "-") {
				fmt.Fprintf(c.Stderr, "shutdown: unrecognized option '%s'\n", a)
				return 1
			}
			if when == "" {
				when = a
			}
		}
	}
	delay := time.Minute
	switch {
	case when == "now":
		delay = 0
	case when == "":
	case strings.Contains(when, ":"):
		at, err := time.Parse("15:04", when)
		if err != nil {
			fmt.Fprintf(c.Stderr, "Failed to parse time specification: %s\n", when)
			return 1
		}
		now := time.Now()
		next := time.Date(now.Year(), now.Month(), now.Day(), at.Hour(), at.Minute(), 0, 0, now.Location())
		if delay = next.Sub(now); delay < 0 {
			delay += 24 * time.Hour
		}
	default:
		minutes, err := strconv.Atoi(strings.TrimPrefix(when, "+"))
		if err != nil || minutes < 0 {
			fmt.Fprintf(c.Stderr, "Failed to parse time specification: %s\n", when)
			return 1
		}
		delay = time.Duration(minutes) * time.Minute
	}
	if delay > 0 {
		fmt.Fprintf(c.Stderr, "Shutdown scheduled for %s, use 'shutdown -c' to cancel.\n",
			time.Now().Add(delay).Format("Mon 2006-01-02 15:04:05 MST"))
	}
	_, code := c.callInit(initd.Request{Verb: verb, Delay: delay})
	return code
}
