// Package unit reads systemd units as systemd does: unit files with their drop-ins, found along a search path, with
// continuation lines, resets by an empty assignment, quoting and specifiers. It knows no process; see package initd.
//
// https://www.freedesktop.org/software/systemd/man/latest/systemd.unit.html
package unit

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Path is the list of directories that units are loaded from; the first that has one wins.
var Path = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system",
	"/usr/lib/systemd/system"}

// Option is one assignment.
type Option struct{ Section, Name, Value string }

// Unit is a unit file with its drop-ins.
type Unit struct {
	Name     string   // "kubelet.service", "runtime.slice"
	Fragment string   // the file; empty when there are only drop-ins, or when a target or slice needs no file
	DropIns  []string // in the order in which they apply
	Masked   bool     // the file is a link to /dev/null
	// WantsLinks and RequiresLinks are units named in its .wants and .requires directories.
	WantsLinks, RequiresLinks []string
	Options                   []Option
}

// NotFoundError reports that there is no such unit.
type NotFoundError struct{ Name string }

func (e NotFoundError) Error() string { return fmt.Sprintf("Unit %s not found.", e.Name) }

// maxLine is systemd's limit of a line, continuations included (LONG_LINE_MAX). go-systemd's parser stops at 2,048
// bytes, which the labels of a node can exceed.
const maxLine = 1 << 20

// Parse reads the assignments of one file. A line that is none is an error with its number.
func Parse(r io.Reader) ([]Option, error) {
	var options []Option
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	section, pending, number := "", "", 0
	for lines.Scan() {
		number++
		line := strings.TrimRight(lines.Text(), "\r")
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, ";") {
			continue // also between continued lines
		}
		if pending != "" {
			line = pending + " " + strings.TrimLeft(line, " \t")
			pending, trimmed = "", strings.TrimSpace(line)
		}
		switch {
		case trimmed == "":
			continue
		case strings.HasSuffix(line, `\`):
			pending = strings.TrimSuffix(line, `\`)
			continue
		case trimmed[0] == '[':
			if trimmed[len(trimmed)-1] != ']' {
				return options, fmt.Errorf("line %d: invalid section header %q", number, trimmed)
			}
			section = trimmed[1 : len(trimmed)-1]
			continue
		}
		name, value, ok := strings.Cut(trimmed, "=")
		if !ok {
			return options, fmt.Errorf("line %d: missing '=' in %q", number, trimmed)
		}
		if section == "" {
			return options, fmt.Errorf("line %d: assignment outside of section", number)
		}
		if strings.TrimSpace(name) == "" {
			return options, fmt.Errorf("line %d: missing name before '=' in %q", number, trimmed)
		}
		options = append(options, Option{section, strings.TrimSpace(name), strings.TrimSpace(value)})
	}
	if err := lines.Err(); err != nil {
		return options, fmt.Errorf("line %d: %w", number+1, err)
	}
	return options, nil
}

// Load finds a unit along path. A target or slice needs no file.
func Load(path []string, name string) (*Unit, error) {
	if !Valid(name) {
		return nil, fmt.Errorf("Invalid unit name %q.", name)
	}
	u := &Unit{Name: name}
	names := []string{name} // with the template of an instance
	if template, instance := Template(name); instance != "" {
		names = append(names, template)
	}
	for _, n := range names {
		if err := u.fragment(path, n); err != nil {
			return nil, err
		}
		if u.Fragment != "" || u.Masked {
			break
		}
	}
	if u.Masked {
		return u, nil
	}
	if name != u.Name && !slices.Contains(names, u.Name) {
		names = append(names, u.Name) // an alias has the drop-ins of what it stands for as well
	}
	if err := u.dropIns(path, names); err != nil {
		return nil, err
	}
	u.WantsLinks, u.RequiresLinks = listLinks(path, names, ".wants"), listLinks(path, names, ".requires")
	if kind := filepath.Ext(name); u.Fragment == "" && kind != ".target" && kind != ".slice" {
		return nil, NotFoundError{name}
	}
	return u, nil
}

// fragment reads the unit's file, if there is one; a link gives the unit the name of what it points to.
func (u *Unit) fragment(path []string, name string) error {
	for _, dir := range path {
		file := filepath.Join(dir, name)
		info, err := os.Stat(file)
		if err != nil {
			if target, linkErr := os.Readlink(file); linkErr == nil && target == "/dev/null" {
				u.Masked, u.Fragment = true, file
				return nil
			}
			continue
		}
		resolved, err := filepath.EvalSymlinks(file)
		if err != nil {
			return err
		}
		if resolved == "/dev/null" || (info.Mode().IsRegular() && info.Size() == 0 && dir == path[0]) {
			u.Masked, u.Fragment = true, file
			return nil
		}
		if base := filepath.Base(resolved); base != name && filepath.Ext(base) == filepath.Ext(name) && Valid(base) {
			if template, instance := Template(u.Name); instance == "" || base != template {
				u.Name = base
			}
		}
		u.Fragment = resolved
		return u.readFile(resolved)
	}
	return nil
}

func (u *Unit) readFile(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	options, err := Parse(f)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	u.Options = append(u.Options, options...)
	return nil
}

// dropIns reads NAME.d/*.conf of all directories, by file name; of two with one name the earlier directory's applies.
func (u *Unit) dropIns(path, names []string) error {
	files := map[string]string{}
	for _, dir := range path {
		for _, n := range append(slices.Clone(names), strings.TrimPrefix(filepath.Ext(u.Name), ".")) {
			found, _ := filepath.Glob(filepath.Join(dir, n+".d", "*.conf"))
			for _, file := range found {
				if base := filepath.Base(file); files[base] == "" {
					files[base] = file
				}
			}
		}
	}
	bases := make([]string, 0, len(files))
	for base := range files {
		bases = append(bases, base)
	}
	slices.Sort(bases)
	for _, base := range bases {
		if target, err := filepath.EvalSymlinks(files[base]); err == nil && target == "/dev/null" {
			continue
		}
		u.DropIns = append(u.DropIns, files[base])
		if err := u.readFile(files[base]); err != nil {
			return err
		}
	}
	return nil
}

func listLinks(path, names []string, suffix string) []string {
	var found []string
	for _, dir := range path {
		for _, n := range names {
			entries, _ := os.ReadDir(filepath.Join(dir, n+suffix))
			for _, e := range entries {
				if Valid(e.Name()) && !slices.Contains(found, e.Name()) {
					found = append(found, e.Name())
				}
			}
		}
	}
	return found
}

// All returns the names of the unit files along path, sorted.
func All(path []string) []string {
	var names []string
	for _, dir := range path {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if !e.IsDir() && Valid(e.Name()) && !slices.Contains(names, e.Name()) {
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	return names
}

// kinds are the types of units that exist here.
var kinds = []string{".service", ".target", ".slice", ".socket", ".mount", ".timer", ".path"}

// Valid reports whether name is that of a unit, with its type.
func Valid(name string) bool {
	return len(name) < 256 && !strings.ContainsAny(name, "/ \t\n") && slices.Contains(kinds, filepath.Ext(name)) &&
		name[0] != '.'
}

// WithType returns name, with ".service" appended when it has no type, as systemctl does.
func WithType(name string) string {
	if slices.Contains(kinds, filepath.Ext(name)) {
		return name
	}
	return name + ".service"
}

// Template splits the name of an instance, "a@b.service": its template "a@.service" and the instance "b"; empty when it
// is none.
func Template(name string) (template, instance string) {
	kind := filepath.Ext(name)
	prefix, instance, ok := strings.Cut(strings.TrimSuffix(name, kind), "@")
	if !ok || instance == "" {
		return "", ""
	}
	return prefix + "@" + kind, instance
}
