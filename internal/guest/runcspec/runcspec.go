// Package runcspec reads the command lines of runc, and changes the configuration of a container (config.json) before
// runc reads it. What its users do not change stays as it is.
package runcspec

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Option returns the value of an option of runc; empty when it has none.
func Option(args []string, names ...string) string {
	for i, arg := range args {
		switch name, value, joined := strings.Cut(arg, "="); {
		case !slices.Contains(names, name):
		case joined:
			return value
		case i+1 < len(args):
			return args[i+1]
		}
	}
	return ""
}

// Object is a JSON object; members that are not read stay as they are.
type Object map[string]json.RawMessage

// Get reads a member, which may be missing.
func (o Object) Get(name string, value any) error {
	if o[name] == nil {
		return nil
	}
	if err := json.Unmarshal(o[name], value); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Set replaces a member.
func (o Object) Set(name string, value any) (err error) {
	o[name], err = json.Marshal(value)
	return err
}

// Rewrite changes a file with an object. It writes the file if change reports true.
func Rewrite(file string, change func(Object) (bool, error)) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var o Object
	if err := json.Unmarshal(content, &o); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	changed, err := change(o)
	if err != nil || !changed {
		return err
	}
	if content, err = json.Marshal(o); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o600)
}
