package upstream

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/coracle-eks/coracle/node"
)

// MachineProgram is the program of a machine itself: it launches the machine, and is its init.
const MachineProgram = "coracle-node"

// NodePrograms finds and builds the programs that run on nodes. Its methods may be called concurrently.
//
// Most are upstream's, with two small ones of our own: containerd, the parts of the VPC CNI, CoreDNS, pause, ..., from
// the module that package node pins. coracle-node (cmd/node) is built with coracle and put beside them. runc is the
// distribution's, because a static build has no seccomp.
type NodePrograms struct{ cache *cache }

// OpenNodePrograms returns the programs in the directory of the options or EnvNode, or in those called node beside the
// coracle program and in the data directory. It touches nothing.
func OpenNodePrograms(o Options) *NodePrograms { return &NodePrograms{newCache(o, EnvNode, "node")} }

// NodeProgramsIn returns the programs in one directory, which count only if this program would build the same.
func NodeProgramsIn(dir string) *NodePrograms { return &NodePrograms{newCacheIn(dir, EnvNode)} }

func nodeModule() module {
	return module{
		title:    "programs of nodes",
		dir:      ".",
		version:  node.Version(),
		files:    node.Source(),
		tags:     node.Tags(),
		stamps:   node.Stamps(),
		programs: node.Programs(),
		data:     node.Data(),
	}
}

// hostPrograms are the programs of the host that machines use, with the Debian package of each.
var hostPrograms = map[string]string{
	"runc": "runc",
}

// Path returns the file of a program or of its data ("containerd", "runc", "coracle-node", "10-aws.conflist", ...).
// The error is ErrNotBuilt until Ensure has built it; for a program of the host, it names the package to install.
func (p *NodePrograms) Path(name string) (string, error) {
	if pkg, ok := hostPrograms[name]; ok {
		return findHostProgram(name, pkg)
	}
	if name == MachineProgram {
		return p.findMachineProgram()
	}
	m := nodeModule()
	if m.programs[name] == "" && m.data[name] == "" {
		return "", fmt.Errorf("%q is no program of nodes", name)
	}
	return p.cache.findFile(m, name)
}

// Ensure builds what is missing. It passes the steps of a build to report, which may be nil, one at a time. The error
// names the program that the host lacks, if it lacks one.
func (p *NodePrograms) Ensure(ctx context.Context, report func(Progress)) error {
	for name, pkg := range hostPrograms {
		if _, err := findHostProgram(name, pkg); err != nil {
			return err
		}
	}
	if _, err := p.findMachineProgram(); err != nil {
		return err
	}
	return p.EnsureUpstream(ctx, report)
}

// EnsureUpstream builds what is missing of the programs that package node pins.
func (p *NodePrograms) EnsureUpstream(ctx context.Context, report func(Progress)) error {
	_, err := p.cache.ensureBuilt(ctx, nodeModule(), report)
	return err
}

// Dir returns the directory that Ensure builds into.
func (p *NodePrograms) Dir() string {
	paths := p.cache.searchPaths()
	return paths[len(paths)-1]
}

func (p *NodePrograms) findMachineProgram() (string, error) {
	var searched []string
	for _, dir := range p.cache.searchPaths() {
		path := filepath.Join(dir, MachineProgram)
		info, err := os.Stat(path)
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("look for %s: %w", MachineProgram, err)
		}
		searched = append(searched, path)
	}
	return "", fmt.Errorf("%s: %w: it is built together with coracle (make build) and installed as %s",
		MachineProgram, ErrNotBuilt, strings.Join(searched, " or "))
}

// findHostProgram looks where root has programs, too, which the PATH of a user may not name.
func findHostProgram(name, pkg string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return filepath.Abs(path)
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("this host has no %s, which machines run containers with: "+
		"install it (Debian and Ubuntu: sudo apt-get install -y %s)", name, pkg)
}
