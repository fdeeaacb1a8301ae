package systemctl

import (
	"fmt"
	"path/filepath"

	"github.com/coracle-eks/coracle/internal/guest/initd"
	"github.com/coracle-eks/coracle/internal/guest/unit"
)

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

// fileState returns the state of a unit that is-enabled prints; "" when there is no unit.
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
