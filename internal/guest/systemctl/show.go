package systemctl

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/guest/initd"
	"github.com/coracle-eks/coracle/internal/guest/unit"
)

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

// matching reports whether the name of a unit matches one of the patterns; true without patterns.
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
			if !slices.Contains(o.states, u.Active) && !slices.Contains(o.states, u.Sub) &&
				!slices.Contains(o.states, u.Load) {
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

// formatSince formats the time of a state as systemctl does.
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
