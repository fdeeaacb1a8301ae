//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/coracle-eks/coracle/internal/descriptor"
)

// applet is one of the programs; it gets the arguments after its name and returns the exit status.
type applet func(args []string) int

func main() {
	if err := descriptor.CloseOnExec(); err != nil {
		fmt.Fprintf(os.Stderr, "coracle-node: %v\n", err)
		os.Exit(1)
	}
	name, args := filepath.Base(os.Args[0]), os.Args[1:]
	run, ok := applets[name]
	if !ok && len(args) > 0 {
		name, args = args[0], args[1:]
		run, ok = applets[name]
	}
	if !ok {
		names := make([]string, 0, len(applets))
		for n := range applets {
			names = append(names, n)
		}
		slices.Sort(names)
		fmt.Fprintf(os.Stderr, "usage: coracle-node PROGRAM [ARGUMENT...]\nprograms: %v\n", names)
		os.Exit(2)
	}
	os.Exit(run(args))
}
