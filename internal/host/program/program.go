// Package program finds the programs that run on nodes, and builds them when they are missing.
//
// There are three kinds. Upstream's programs and two small ones of our own (containerd, the parts of the VPC
// CNI, CoreDNS, pause, ...) come out of the Go module that package node pins; they are found and built as the
// Kubernetes programs are (package bundle), in a directory that is
//
//  1. the one given by CORACLE_NODE, and if there is one nowhere else;
//  2. node/ beside the coracle program, where "make build" puts them;
//  3. node/ of the data directory, where [Programs.Ensure] builds what is missing.
//
// coracle-node, which is the machine around them (cmd/node), is built with coracle and put beside them. runc
// is the distribution's, because a static build has no seccomp.
package program

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/coracle-eks/coracle/internal/cluster/bundle"
	"github.com/coracle-eks/coracle/node"
)

// EnvDir names the environment variable that is used when [Options.Dir] is empty.
const EnvDir = "CORACLE_NODE"

// Machine is the program of a machine itself: it launches it, and is its init.
const Machine = "coracle-node"

// ErrNotBuilt is returned by [Programs.Path] when the programs are not there.
var ErrNotBuilt = bundle.ErrNotBuilt

// Options say where the programs are.
type Options struct {
	// Dir, if not empty, is the only directory that is searched and built into.
	Dir string
	// DataDir is the daemon's data directory.
	DataDir string
}

// Programs finds and builds the programs. Its methods may be called concurrently.
type Programs struct{ bundles *bundle.Bundles }

// Open makes a finder; it touches nothing.
func Open(o Options) *Programs {
	return &Programs{bundle.Of(bundle.Options{Dir: o.Dir, DataDir: o.DataDir}, EnvDir, "node", module)}
}

// In makes a finder that searches and builds in one directory, and accepts only what this program would build.
func In(dir string) *Programs {
	return &Programs{bundle.InOf(dir, EnvDir, module)}
}

func module(string) (bundle.Module, error) {
	return bundle.Module{
		Version:  node.Version(),
		Files:    node.Source(),
		Stamps:   node.Stamps(),
		Title:    "programs of nodes",
		Dir:      ".",
		Tags:     node.Tags(),
		Programs: node.Programs(),
		Data:     node.Data(),
	}, nil
}

// host are the programs of the host that machines use, with the Debian package of each.
var host = map[string]string{
	"runc": "runc",
}

// Path is the file of a program or of its data ("containerd", "runc", "coracle-node", "10-aws.conflist", ...).
// The error is ErrNotBuilt until Ensure has built it; for what is the host's, it names the package to install.
func (p *Programs) Path(name string) (string, error) {
	if pkg, ok := host[name]; ok {
		return hostProgram(name, pkg)
	}
	if name == Machine {
		return p.machine()
	}
	programs, data := node.Programs(), node.Data()
	if programs[name] == "" && data[name] == "" {
		return "", fmt.Errorf("%q is no program of nodes", name)
	}
	first, err := p.bundles.Find("")
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(first), name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("the programs of nodes in %s are incomplete: remove the directory, and they are built again: %w", filepath.Dir(first), err)
	}
	return path, nil
}

// Ensure builds what is missing. The steps are reported to progress, which may be nil, one at a time.
func (p *Programs) Ensure(ctx context.Context, progress func(bundle.Progress)) error {
	for name, pkg := range host {
		if _, err := hostProgram(name, pkg); err != nil {
			return err
		}
	}
	if _, err := p.machine(); err != nil {
		return err
	}
	return p.EnsureUpstream(ctx, progress)
}

// EnsureUpstream builds what is missing of the programs that package node pins.
func (p *Programs) EnsureUpstream(ctx context.Context, progress func(bundle.Progress)) error {
	_, err := p.bundles.Ensure(ctx, "", progress)
	return err
}

// Dir is the directory that Ensure builds into.
func (p *Programs) Dir() string {
	places := p.bundles.Places()
	return places[len(places)-1]
}

func (p *Programs) machine() (string, error) {
	var searched []string
	for _, dir := range p.bundles.Places() {
		path := filepath.Join(dir, Machine)
		info, err := os.Stat(path)
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("look for %s: %w", Machine, err)
		}
		searched = append(searched, path)
	}
	return "", fmt.Errorf("%s: %w: it is built together with coracle (make build) and installed as %s", Machine, ErrNotBuilt, strings.Join(searched, " or "))
}

// hostProgram is looked for where root has programs, too, which the PATH of a user may not name.
func hostProgram(name, pkg string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return filepath.Abs(path)
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("this host has no %s, which machines run containers with: install it (Debian and Ubuntu: sudo apt-get install -y %s)", name, pkg)
}
