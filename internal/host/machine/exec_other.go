//go:build !linux

package machine

import (
	"context"
	"errors"

	"github.com/coracle-eks/coracle/internal/process"
)

// Exec returns an error: machines need Linux.
func Exec(context.Context, process.Identity, string, Command) (exit int, err error) {
	return 0, errors.New("machines need Linux: this host has none that a command could run in")
}

// Named returns name: no machine has another.
func Named(_, name string, _ func(string) bool) (string, error) { return name, nil }

// IsRunning returns false: machines need Linux.
func IsRunning(process.Identity, string) bool { return false }
