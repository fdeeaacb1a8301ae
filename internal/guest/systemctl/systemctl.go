// Package systemctl is what people and scripts type on a machine to control it: systemctl, journalctl, reboot and its
// like. They speak systemd's language to package initd.
package systemctl

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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

// Systemctl is the program of that name; the result is its exit status.
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

// Up has the unit done to as the verb says ("start", "restart"), and waits until it runs. A unit that does not come up
// at once is given the time in which its own Restart= may bring it up: what it lacked (a resource of the host) may come
// back.
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

// unitStates of the units asked for, one for each name.
func (c Command) unitStates(names []string) ([]initd.UnitStatus, int) {
	response, code := c.callInit(initd.Request{Verb: "status", Units: names})
	return response.Units, code
}

func (c Command) checkState(verb string, names []string, o options) int {
	units, code := c.unitStates(names)
	if code != 0 {
		return code
	}
	want := map[string]string{"is-active": "active", "is-failed": "failed"}[verb]
	code = map[string]int{"is-active": 3, "is-failed": 1}[verb]
	for _, u := range units {
		if !o.quiet {
			fmt.Fprintln(c.Stdout, u.Active)
		}
		if u.Active == want {
			code = 0
		} else if u.Load == "not-found" && verb == "is-active" && len(units) == 1 {
			code = 4
		}
	}
	return code
}

// fileState is what is-enabled says of a unit; "" when there is none.
func (c Command) fileState(name string) string {
	def, err := unit.Load(c.unitPath(), name)
	if err != nil {
		return ""
	}
	if def.Masked {
		return "masked"
	}
	if c.enabled(def) {
		return "enabled"
	}
	if len(def.Names("Install", "WantedBy"))+len(def.Names("Install", "RequiredBy"))+len(def.Names("Install", "Alias"))+
		len(def.Names("Install", "Also")) > 0 {
		return "disabled"
	}
	return "static"
}

func (c Command) enabled(def *unit.Unit) bool {
	for _, dir := range c.unitPath() {
		for _, suffix := range []string{".wants", ".requires"} {
			found, _ := filepath.Glob(filepath.Join(dir, "*"+suffix, def.Name))
			if len(found) > 0 {
				return true
			}
		}
	}
	return false
}

func (c Command) isEnabled(names []string, o options) int {
	code := 1
	for _, name := range names {
		state := c.fileState(name)
		if state == "" {
			fmt.Fprintf(c.Stderr, "Failed to get unit file state for %s: No such file or directory\n", name)
			continue
		}
		if !o.quiet {
			fmt.Fprintln(c.Stdout, state)
		}
		if state == "enabled" || state == "static" {
			code = 0
		}
	}
	return code
}

func (c Command) systemRunning() int {
	units, code := c.unitStates(nil)
	if code != 0 {
		fmt.Fprintln(c.Stdout, "offline")
		return 1
	}
	state := "running"
	for _, u := range units {
		switch {
		case u.Name == "multi-user.target" && u.Active != "active":
			state = "starting"
		case u.Active == "failed" && state == "running":
			state = "degraded"
		}
	}
	fmt.Fprintln(c.Stdout, state)
	if state != "running" {
		return 1
	}
	return 0
}

// install is enable and its like: links in the first directory of the unit path.
func (c Command) install(verb string, names []string, o options) int {
	dir, code := c.unitPath()[0], 0
	for _, name := range names {
		if err := c.installOne(verb, dir, name); err != nil {
			fmt.Fprintln(c.Stderr, err)
			code = 1
		}
	}
	if code != 0 {
		return code
	}
	// Without an init (while an image is made) the links are all there is to do.
	if _, err := initd.Call(c.Run, initd.Request{Verb: "daemon-reload"}); err != nil && o.now {
		fmt.Fprintln(c.Stderr, err)
		return 1
	}
	if o.now {
		return c.controlUnits(map[string]string{"enable": "start", "reenable": "start", "disable": "stop",
			"mask": "stop"}[verb], names, o)
	}
	return 0
}

func (c Command) installOne(verb, dir, name string) error {
	if verb == "mask" {
		path := filepath.Join(dir, name)
		if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink == 0 {
			return fmt.Errorf("Failed to mask unit: File %s already exists.", path)
		}
		_ = os.Remove(path)
		if err := os.Symlink("/dev/null", path); err != nil {
			return err
		}
		fmt.Fprintf(c.Stderr, "Created symlink %s → /dev/null.\n", path)
		return nil
	}
	if verb == "unmask" {
		path := filepath.Join(dir, name)
		if target, err := os.Readlink(path); err == nil && target == "/dev/null" {
			fmt.Fprintf(c.Stderr, "Removed %s.\n", path)
			return os.Remove(path)
		}
		return nil
	}
	def, err := unit.Load(c.unitPath(), name)
	if err != nil {
		var missing unit.NotFoundError
		if errors.As(err, &missing) {
			return fmt.Errorf("Failed to %s unit: Unit file %s does not exist.", verb, name)
		}
		return err
	}
	if def.Masked {
		return fmt.Errorf("Failed to %s unit: Unit file %s is masked.", verb, def.Fragment)
	}
	if verb == "disable" || verb == "reenable" {
		for _, suffix := range []string{".wants", ".requires"} {
			found, _ := filepath.Glob(filepath.Join(dir, "*"+suffix, name))
			for _, link := range found {
				if err := os.Remove(link); err != nil {
					return err
				}
				fmt.Fprintf(c.Stderr, "Removed %s.\n", link)
			}
		}
		if verb == "disable" {
			return nil
		}
	}
	linked := false
	for setting, suffix := range map[string]string{"WantedBy": ".wants", "RequiredBy": ".requires"} {
		for _, target := range def.Names("Install", setting) {
			linked = true
			link := filepath.Join(dir, target+suffix, name)
			if _, err := os.Lstat(link); err == nil {
				continue
			}
			if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
				return err
			}
			if err := os.Symlink(def.Fragment, link); err != nil {
				return err
			}
			fmt.Fprintf(c.Stderr, "Created symlink %s → %s.\n", link, def.Fragment)
		}
	}
	for _, also := range def.Names("Install", "Also") {
		if !c.enabledName(also) {
			if err := c.installOne("enable", dir, also); err != nil {
				return err
			}
		}
	}
	if !linked {
		fmt.Fprintf(c.Stderr,
			"The unit files have no installation config (WantedBy=, RequiredBy=, Also=,\nAlias= settings in the "+
				"[Install] section, and DefaultInstance= for template\nunits). This means they are not meant to be "+
				"enabled using systemctl.\n")
	}
	return nil
}

func (c Command) enabledName(name string) bool { return c.fileState(name) == "enabled" }

func (c Command) catUnits(names []string) int {
	code := 0
	for i, name := range names {
		def, err := unit.Load(c.unitPath(), name)
		if err != nil {
			fmt.Fprintf(c.Stderr, "No files found for %s.\n", name)
			code = 1
			continue
		}
		for j, file := range append([]string{def.Fragment}, def.DropIns...) {
			if file == "" {
				continue
			}
			data, err := os.ReadFile(file)
			if err != nil {
				fmt.Fprintln(c.Stderr, err)
				code = 1
				continue
			}
			if i+j > 0 {
				fmt.Fprintln(c.Stdout)
			}
			fmt.Fprintf(c.Stdout, "# %s\n%s", file, data)
		}
	}
	return code
}

// matching are the units whose names fit one of the patterns; all without patterns.
func matching(name string, patterns []string) bool {
	if len(patterns) == 0 {
		return true
	}
	for _, p := range patterns {
		p = strings.TrimSuffix(p, ".service")
		if ok, _ := filepath.Match(p, name); ok {
			return true
		}
		if ok, _ := filepath.Match(p+".service", name); ok {
			return true
		}
	}
	return false
}

func (c Command) listUnits(patterns []string, o options) int {
	units, code := c.unitStates(nil)
	if code != 0 {
		return code
	}
	var shown []initd.UnitStatus
	wide := [2]int{4, 11}
	for _, u := range units {
		kind := strings.TrimPrefix(filepath.Ext(u.Name), ".")
		if !matching(u.Name, patterns) || (len(o.types) > 0 && !slices.Contains(o.types, kind)) {
			continue
		}
		if len(o.states) > 0 {
			if !slices.Contains(o.states, u.Active) && !slices.Contains(o.states, u.Sub) && !slices.Contains(o.states,
				u.Load) {
				continue
			}
		} else if u.Active == "inactive" && !o.all {
			continue
		}
		shown = append(shown, u)
		wide[0], wide[1] = max(wide[0], len(u.Name)), max(wide[1], len(u.Description))
	}
	if !o.noLegend {
		fmt.Fprintf(c.Stdout, "  %-*s %-6s %-8s %-12s %s\n", wide[0], "UNIT", "LOAD", "ACTIVE", "SUB", "DESCRIPTION")
	}
	for _, u := range shown {
		dot := " "
		if u.Active == "failed" {
			dot = "●"
		}
		fmt.Fprintf(c.Stdout, "%s %-*s %-6s %-8s %-12s %s\n", dot, wide[0], u.Name, u.Load, u.Active, u.Sub,
			u.Description)
	}
	if !o.noLegend {
		fmt.Fprintf(c.Stdout,
			"\nLOAD   = Reflects whether the unit definition was properly loaded.\nACTIVE = The high-level unit "+
				"activation state, i.e. generalization of SUB.\nSUB    = The low-level unit activation state, values "+
				"depend on unit type.\n%d loaded units listed.\n", len(shown))
	}
	return 0
}

func (c Command) listUnitFiles(patterns []string, o options) int {
	width, count := 9, 0
	names := unit.All(c.unitPath())
	for _, n := range names {
		width = max(width, len(n))
	}
	if !o.noLegend {
		fmt.Fprintf(c.Stdout, "%-*s %s\n", width, "UNIT FILE", "STATE")
	}
	for _, n := range names {
		state := c.fileState(n)
		kind := strings.TrimPrefix(filepath.Ext(n), ".")
		if !matching(n, patterns) || (len(o.types) > 0 && !slices.Contains(o.types, kind)) ||
			(len(o.states) > 0 && !slices.Contains(o.states, state)) {
			continue
		}
		count++
		fmt.Fprintf(c.Stdout, "%-*s %s\n", width, n, state)
	}
	if !o.noLegend {
		fmt.Fprintf(c.Stdout, "\n%d unit files listed.\n", count)
	}
	if count == 0 && len(patterns) > 0 {
		return 1
	}
	return 0
}

func (c Command) listDependencies(names []string) int {
	if len(names) == 0 {
		names = []string{"default.target"}
	}
	for _, n := range names {
		fmt.Fprintln(c.Stdout, n)
		c.dependencies(n, "● ", map[string]bool{})
	}
	return 0
}

func (c Command) dependencies(name, indent string, seen map[string]bool) {
	def, err := unit.Load(c.unitPath(), name)
	if err != nil || seen[name] {
		return
	}
	seen[name] = true
	below := slices.Concat(def.Names("Unit", "Requires"), def.RequiresLinks, def.Names("Unit", "Wants"), def.WantsLinks)
	slices.Sort(below)
	for _, b := range slices.Compact(below) {
		fmt.Fprintf(c.Stdout, "%s├─%s\n", indent, b)
		c.dependencies(b, indent+"│ ", seen)
	}
}

// formatSince is how systemctl writes the time of a state.
func formatSince(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf(" since %s; %s ago", t.UTC().Format("Mon 2006-01-02 15:04:05 UTC"),
		time.Since(t).Round(time.Second))
}

func (c Command) printStatus(names []string) int {
	if len(names) == 0 {
		return c.machineStatus()
	}
	units, code := c.unitStates(names)
	if code != 0 {
		return code
	}
	for i, u := range units {
		if i > 0 {
			fmt.Fprintln(c.Stdout)
		}
		if u.Load == "not-found" {
			fmt.Fprintf(c.Stderr, "Unit %s could not be found.\n", u.Name)
			code = 4
			continue
		}
		c.unitStatus(u)
		if u.Active != "active" && u.Active != "activating" && u.Active != "reloading" && code == 0 {
			code = 3
		}
	}
	return code
}

func (c Command) unitStatus(u initd.UnitStatus) {
	dot := map[string]string{"active": "●", "failed": "×"}[u.Active]
	if dot == "" {
		dot = "○"
	}
	out := c.Stdout
	fmt.Fprintf(out, "%s %s - %s\n", dot, u.Name, u.Description)
	fmt.Fprintf(out, "     Loaded: %s (%s; %s)\n", u.Load, orDefault(u.Fragment, "static"),
		orDefault(c.fileState(u.Name), "bad"))
	if u.LoadError != "" {
		fmt.Fprintf(out, "             %s\n", u.LoadError)
	}
	for i, d := range u.DropIns {
		if i == 0 {
			fmt.Fprintf(out, "    Drop-In: %s\n", filepath.Dir(d))
		} else if filepath.Dir(d) != filepath.Dir(u.DropIns[i-1]) {
			fmt.Fprintf(out, "             %s\n", filepath.Dir(d))
		}
		fmt.Fprintf(out, "             └─%s\n", filepath.Base(d))
	}
	state := u.Active + " (" + u.Sub + ")"
	if u.Active == "failed" || u.Sub == "auto-restart" {
		state = u.Active + " (" + u.Sub + ") (Result: " + u.Result + ")"
		if u.Active == "failed" {
			state = "failed (Result: " + u.Result + ")"
		}
	}
	fmt.Fprintf(out, "     Active: %s%s\n", state, formatSince(u.Since))
	for _, p := range u.Processes {
		fmt.Fprintf(out, "    %s\n", p)
	}
	if u.MainPID > 0 {
		fmt.Fprintf(out, "   Main PID: %d (%s)\n", u.MainPID,
			strings.TrimSpace(readFile(fmt.Sprintf("/proc/%d/comm", u.MainPID))))
	} else if u.MainStatus != "" {
		fmt.Fprintf(out, "   Main PID: (%s)\n", u.MainStatus)
	}
	if u.StatusText != "" {
		fmt.Fprintf(out, "     Status: %q\n", u.StatusText)
	}
	if u.Tasks > 0 {
		fmt.Fprintf(out, "      Tasks: %d\n     Memory: %.1fM\n        CPU: %s\n", u.Tasks, float64(u.Memory)/(1<<20),
			u.CPU.Round(time.Millisecond))
		fmt.Fprintf(out, "     CGroup: %s\n", u.Cgroup)
		slices.Sort(u.PIDs)
		for i, pid := range u.PIDs {
			tree := "├─"
			if i == len(u.PIDs)-1 {
				tree = "└─"
			}
			fmt.Fprintf(out, "             %s%d %s\n", tree, pid,
				strings.TrimSpace(strings.ReplaceAll(readFile(fmt.Sprintf("/proc/%d/cmdline", pid)), "\x00", " ")))
		}
	}
	fmt.Fprintln(out)
	c.printTail(u.Name, 10)
}

func (c Command) machineStatus() int {
	units, code := c.unitStates(nil)
	if code != 0 {
		return code
	}
	failed := 0
	for _, u := range units {
		if u.Active == "failed" {
			failed++
		}
	}
	name, _ := os.Hostname()
	fmt.Fprintf(c.Stdout, "● %s\n    Units: %d loaded\n   Failed: %d units\n", name, len(units), failed)
	return 0
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func readFile(file string) string {
	data, _ := os.ReadFile(file)
	return string(data)
}

// printProperties writes properties as NAME=VALUE.
func (c Command) printProperties(names []string, o options) int {
	if len(names) == 0 {
		fmt.Fprintln(c.Stdout, "Version=252\nVirtualization=container-other")
		return 0
	}
	units, code := c.unitStates(names)
	if code != 0 {
		return code
	}
	for i, u := range units {
		if i > 0 {
			fmt.Fprintln(c.Stdout)
		}
		stamp := func(t time.Time) string {
			if t.IsZero() {
				return ""
			}
			return t.UTC().Format("Mon 2006-01-02 15:04:05 UTC")
		}
		all := [][2]string{
			{"Id", u.Name}, {"Names", u.Name}, {"Description", u.Description}, {"LoadState", u.Load},
			{"ActiveState", u.Active}, {"SubState", u.Sub},
			{"FragmentPath", u.Fragment}, {"DropInPaths", strings.Join(u.DropIns, " ")},
			{"UnitFileState", c.fileState(u.Name)}, {"Type", u.Type}, {"Result", u.Result},
			{"MainPID", fmt.Sprint(u.MainPID)}, {"ControlPID", fmt.Sprint(u.ControlPID)},
			{"ExecMainPID", fmt.Sprint(u.MainPID)}, {"ExecMainCode", fmt.Sprint(u.ExitCode)},
			{"ExecMainStatus", fmt.Sprint(u.ExitStatus)}, {"NRestarts", fmt.Sprint(u.Restarts)},
			{"ControlGroup", u.Cgroup}, {"MemoryCurrent", fmt.Sprint(u.Memory)},
			{"TasksCurrent", fmt.Sprint(u.Tasks)}, {"CPUUsageNSec", fmt.Sprint(u.CPU.Nanoseconds())},
			{"StatusText", u.StatusText}, {"StateChangeTimestamp", stamp(u.Since)},
			{"ActiveEnterTimestamp", stamp(u.ActiveSince)}, {"InactiveEnterTimestamp", stamp(u.Inactive)},
			{"CanStart", "yes"}, {"CanStop", "yes"},
		}
		def, _ := unit.Load(c.unitPath(), u.Name)
		if def != nil {
			for _, s := range []string{"Environment", "EnvironmentFile", "ExecStart", "ExecStartPre", "Restart",
				"RestartSec", "User", "KillMode", "Slice"} {
				all = append(all, [2]string{s, strings.Join(def.All("Service", s), " ")})
			}
			for _, s := range []string{"After", "Before", "Requires", "Wants"} {
				all = append(all, [2]string{s, strings.Join(def.Names("Unit", s), " ")})
			}
		}
		asked := o.properties
		if len(asked) == 0 {
			for _, p := range all {
				fmt.Fprintf(c.Stdout, "%s=%s\n", p[0], p[1])
			}
			continue
		}
		for _, p := range all {
			if !slices.Contains(asked, p[0]) {
				continue
			}
			if o.value {
				fmt.Fprintln(c.Stdout, p[1])
			} else {
				fmt.Fprintf(c.Stdout, "%s=%s\n", p[0], p[1])
			}
		}
	}
	return 0
}
