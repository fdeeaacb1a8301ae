//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/coracle-eks/coracle/internal/guest/ebscsi"
)

// programs are the programs by name.
var programs = map[string]func(args []string) int{
	"aws-ebs-csi-driver":        ebscsi.Main,
	"csi-node-driver-registrar": ebscsi.Registrar,
	"livenessprobe":             ebscsi.Liveness,
}

func main() {
	name, args := filepath.Base(os.Args[0]), os.Args[1:]
	run, ok := programs[name]
	if !ok && len(args) > 0 {
		name, args = args[0], args[1:]
		run, ok = programs[name]
	}
	if !ok {
		fmt.Fprintln(os.Stderr, "usage: coracle-csi aws-ebs-csi-driver|csi-node-driver-registrar|livenessprobe [FLAG...]")
		os.Exit(2)
	}
	os.Exit(run(args))
}
