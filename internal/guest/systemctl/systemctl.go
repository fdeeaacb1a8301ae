// Package systemctl implements the commands that people and scripts run on a machine to control it: systemctl,
// journalctl, reboot and its like. They speak systemd's language to package initd.
package systemctl

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/guest/initd"
	"github.com/coracle-eks/coracle/internal/guest/unit"
)

// Command is one call of a program.
type Command struct {
	Stdout, Stderr io.Writer
	Run            string   // where init's sockets are; empty: /run/systemd
	UnitPath       []string // nil: unit.Path
	Journal        string   // empty: initd.JournalDir
}

func (c Command) unitPath() []string {
	if c.UnitPath != nil {
		return c.UnitPath
	}
	return unit.Path
}

// options of systemctl; the verbs that need none ignore them.
type options struct {
	quiet, now, noBlock, force, all, value, runtime, noLegend, full bool
	properties, states, types                                       []string
	signal                                                          string
}

// Systemctl runs the program of that name and returns its exit status.
func (c Command) Systemctl(args []string) int {
	var o options
	var words []string
	for i := 0; i < len(args); i++ {
		name, value, hasValue := strings.Cut(args[i], "=")
		next := func() string {
			if hasValue {
				return value
			}
			if i+1 < len(args) {
				i++
				return args[i]
			}
			return ""
		}
		switch name {
		case "-q", "--quiet":
			o.quiet = true
		case "--now":
			o.now = true
		case "--no-block":
			o.noBlock = true
		case "-f", "--force", "-ff":
			o.force = true
		case "-a", "--all":
			o.all = true
		case "--value":
			o.value = true
		case "--runtime":
			o.runtime = true
		case "--no-legend":
			o.noLegend = true
		case "-l", "--full":
			o.full = true
		case "-p", "--property":
			o.properties = append(o.properties, strings.Split(next(), ",")...)
		case "-P":
			o.value = true
			o.properties = append(o.properties, strings.Split(next(), ",")...)
		case "--state":
			o.states = append(o.states, strings.Split(next(), ",")...)
		case "-t", "--type":
			o.types = append(o.types, strings.Split(next(), ",")...)
		case "-s", "--signal":
			o.signal = next()
		case "-n", "--lines", "-o", "--output", "--job-mode", "--kill-who", "--kill-whom", "-H", "-M":
			next()
		case "--failed":
			o.states = append(o.states, "failed")
		case "--no-pager", "--system", "--no-ask-password", "--no-wall", "--no-reload", "--plain", "-i", "--show-types",
			"-r", "--no-warn", "--wait", "--user", "--global":
		case "--version":
			fmt.Fprintln(c.Stdout, "systemd 252 (coracle)")
			return 0
		case "-h", "--help":
			fmt.Fprintln(c.Stdout, "systemctl [OPTIONS...] COMMAND ...\nCommands: "+strings.Join(verbs, " "))
			return 0
		default:
			if strings.HasPrefix(name, "-") && name != "-" {
				fmt.Fprintf(c.Stderr, "systemctl: unrecognized option '%s'\n", args[i])
				return 1
			}
			words = append(words, args[i])
		}
	}
	if len(words) == 0 {
		words = []string{"list-units"}
	}
	verb, names := words[0], words[1:]
	for i, n := range names {
		names[i] = unit.WithType(n)
	}
	if slices.Contains(needUnits, verb) && len(names) == 0 {
		fmt.Fprintln(c.Stderr, "Too few arguments.")
		return 1
	}
	switch verb {
	case "start", "stop", "restart", "reload", "kill", "try-restart", "reset-failed", "condrestart",
		"reload-or-restart", "force-reload":
		return c.controlUnits(verb, names, o)
	case "daemon-reload", "daemon-reexec":
		return c.controlUnits("daemon-reload", nil, o)
	case "enable", "disable", "reenable", "mask", "unmask":
		return c.install(verb, names, o)
	case "is-active", "is-failed":
		return c.checkState(verb, names, o)
	case "is-enabled":
		return c.isEnabled(names, o)
	case "is-system-running":
		return c.systemRunning()
	case "status":
		return c.printStatus(names)
	case "show":
		return c.printProperties(names, o)
	case "cat":
		return c.catUnits(names)
	case "list-units":
		return c.listUnits(names, o)
	case "list-unit-files":
		return c.listUnitFiles(names, o)
	case "list-dependencies":
		return c.listDependencies(names)
	case "get-default":
		fmt.Fprintln(c.Stdout, "multi-user.target")
		return 0
	case "set-default", "isolate", "set-property", "edit", "link", "preset", "add-wants", "import-environment",
		"set-environment", "show-environment", "unset-environment":
		fmt.Fprintf(c.Stderr, "systemctl: %s is not served by this machine's init.\n", verb)
		return 1
	case "poweroff", "reboot", "halt", "kexec":
		return c.Power(verb, nil)
	}
	fmt.Fprintf(c.Stderr, "Unknown command verb '%s'.\n", verb)
	return 1
}

var (
	verbs = []string{"start", "stop", "restart", "try-restart", "reload", "kill", "enable", "disable", "mask", "unmask",
		"daemon-reload", "reset-failed", "status", "show", "cat",
		"is-active", "is-enabled", "is-failed", "is-system-running", "list-units", "list-unit-files",
		"list-dependencies", "get-default", "poweroff", "reboot", "halt"}
	needUnits = []string{"start", "stop", "restart", "try-restart", "condrestart", "reload", "reload-or-restart",
		"force-reload", "kill", "enable", "disable", "reenable", "mask", "unmask", "is-active", "is-enabled",
		"is-failed", "cat"}
)

// callInit asks init and writes what went wrong; the result is systemctl's exit status for it.
func (c Command) callInit(request initd.Request) (initd.Response, int) {
	response, err := initd.Call(c.Run, request)
	if err != nil {
		fmt.Fprintln(c.Stderr, err)
		return response, 1
	}
	code := 0
	for _, f := range response.Errors {
		if code = 1; f.Missing {
			code = 5
			fmt.Fprintf(c.Stderr, "Failed to %s %s: %s\n", request.Verb, f.Unit, f.Message)
		} else {
			fmt.Fprintln(c.Stderr, f.Message)
		}
	}
	return response, code
}

func (c Command) controlUnits(verb string, names []string, o options) int {
	switch verb {
	case "condrestart":
		verb = "try-restart"
	case "reload-or-restart", "force-reload":
		verb = "restart"
	}
	_, code := c.callInit(initd.Request{Verb: verb, Units: names, NoBlock: o.noBlock, Signal: o.signal})
	return code
}

// Up runs a verb ("start", "restart") on a unit, and waits until the unit runs. A unit that does not start at once gets
// the time in which its own Restart= may start it: a missing resource of the host may become available.
func (c Command) Up(verb, name string, patience time.Duration) error {
	name = unit.WithType(name)
	if code := c.Systemctl([]string{verb, name}); code == 0 {
		return nil
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		units, code := c.unitStates([]string{name})
		if code != 0 || len(units) != 1 || units[0].Active == "failed" || units[0].Active == "inactive" {
			break
		}
		if units[0].Active == "active" {
			return nil
		}
	}
	return fmt.Errorf("%s %s: it does not run; see \"systemctl status %s\" and \"journalctl -xeu %s\"", verb, name,
		name, name)
}

func readFile(file string) string {
	data, _ := os.ReadFile(file)
	return string(data)
}
