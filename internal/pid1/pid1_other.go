//go:build !linux

package pid1

import "errors"

// Is reports whether this process is the first of its PID namespace, which only Linux has.
func Is() bool { return false }

// Run is for Linux.
func Run() (status int, err error) { return 0, errors.ErrUnsupported }
