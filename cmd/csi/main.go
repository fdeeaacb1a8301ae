//go:build linux

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/internal/guest/csidriver"
	"github.com/coracle-eks/coracle/internal/guest/ebscsi"
	"github.com/coracle-eks/coracle/internal/guest/efscsi"
	"github.com/coracle-eks/coracle/internal/guest/efsmount"
	"github.com/coracle-eks/coracle/internal/guest/networkpolicyagent"
)

// programs are the programs by name.
var programs = map[string]func(args []string) int{
	"aws-ebs-csi-driver":        ebscsi.Main,
	"aws-efs-csi-driver":        efscsi.Main,
	"aws-efs-csi-node":          efscsi.NodeMain, // of the machines of Fargate pods
	"aws-network-policy-agent":  networkpolicyagent.Main,
	"csi-node-driver-registrar": csidriver.Registrar,
	"livenessprobe":             csidriver.Liveness,
	"mount.efs":                 func(args []string) int { return efsmount.Main(args, os.Stdout, os.Stderr) },
}

func main() {
	name, args := filepath.Base(os.Args[0]), os.Args[1:]
	run, ok := programs[name]
	if !ok && len(args) > 0 {
		name, args = args[0], args[1:]
		run, ok = programs[name]
	}
	if !ok {
		fmt.Fprintf(os.Stderr, "usage: coracle-csi %s [FLAG...]\n",
			strings.Join(slices.Sorted(maps.Keys(programs)), "|"))
		os.Exit(2)
	}
	os.Exit(run(args))
}
