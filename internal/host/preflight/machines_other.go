//go:build !linux

package preflight

import (
	"errors"
	"runtime"
)

// Here returns the environment of this process, of which nothing is known.
func Here() Environment { return Environment{} }

// Release returns an error: there is no Linux.
func Release() (string, error) { return "", errors.New("this is " + runtime.GOOS) }

// CheckMachines returns why this host cannot have machines.
func CheckMachines(string) []Problem {
	return []Problem{{"this is " + runtime.GOOS, "run coracle on Linux, or in a Linux virtual machine"}}
}

// CheckFirewall returns nothing: there are no machines.
func CheckFirewall(string) ([]Problem, error) { return nil, nil }
