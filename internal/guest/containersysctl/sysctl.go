//go:build linux

// Package containersysctl sets the kernel parameters of the network that a pod on Fargate asks for
// (spec.securityContext.sysctls). The pod has the network namespace of its machine, and runc refuses to set parameters
// of the namespace that it is in itself. They are set for the machine, which has no other pod, before runc reads the
// configuration of the container.
package containersysctl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/coracle-eks/coracle/internal/guest/runcspec"
)

// networkParameters is where the kernel has the parameters of a network namespace.
const networkParameters = "/proc/sys/net"

// Apply sets the parameters of the network that the container of a bundle asks for, and takes them out of its
// configuration.
func Apply(bundle string) error { return apply(bundle, networkParameters) }

func apply(bundle, dir string) error {
	file := filepath.Join(bundle, "config.json")
	return runcspec.Rewrite(file, func(config runcspec.Object) (bool, error) {
		var linux runcspec.Object
		var parameters map[string]string
		if err := config.Get("linux", &linux); err != nil {
			return false, fmt.Errorf("%s: %w", file, err)
		}
		if err := linux.Get("sysctl", &parameters); err != nil {
			return false, fmt.Errorf("%s: %w", file, err)
		}
		applied := false
		for name, value := range parameters {
			path, ok := strings.CutPrefix(pathOf(name), "net/")
			if !ok {
				continue
			}
			if err := set(dir, path, value); err != nil {
				return false, fmt.Errorf("set the kernel parameter %s to %q: %w", name, value, err)
			}
			delete(parameters, name)
			applied = true
		}
		if !applied {
			return false, nil
		}
		return true, errors.Join(linux.Set("sysctl", parameters), config.Set("linux", linux))
	})
}

// pathOf returns the file of a kernel parameter below /proc/sys. The first separator of its name, a dot or a slash, is
// the one that separates; the other one is part of names. See sysctl.d(5).
func pathOf(name string) string {
	if i := strings.IndexAny(name, "./"); i >= 0 && name[i] == '/' {
		return name
	}
	return strings.Map(func(r rune) rune {
		switch r {
		case '.':
			return '/'
		case '/':
			return '.'
		}
		return r
	}, name)
}

// set writes a parameter below a directory, and nowhere else.
func set(dir, path, value string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := root.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
