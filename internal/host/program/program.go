// Package program finds the programs that run on nodes, and builds them when they are missing: containerd,
// the parts of the VPC CNI, CoreDNS and the rest that package node (node/) pins, and the programs of a
// machine itself (coracle-node).
package program

import (
	"context"
	"errors"

	"github.com/coracle-eks/coracle/internal/cluster/bundle"
)

// EnvDir names the environment variable that is used when [Options.Dir] is empty.
const EnvDir = "CORACLE_NODE"

// ErrNotBuilt is returned by [Programs.Path] when the programs are not there.
var ErrNotBuilt = errors.New("the node programs are not built")

// Options say where the programs are.
type Options struct {
	// Dir, if not empty, is the only directory that is searched and built into.
	Dir string
	// DataDir is the daemon's data directory.
	DataDir string
}

// Programs finds and builds the programs. Its methods may be called concurrently.
type Programs struct{}

// Open makes a finder; it touches nothing.
func Open(Options) *Programs { return &Programs{} }

// Path is the file of a program ("containerd", "runc", "coracle-node", "aws-k8s-agent", ...). The error is
// ErrNotBuilt until Ensure has built it; for runc, which is the host's, it names the package to install.
func (p *Programs) Path(name string) (string, error) { return "", ErrNotBuilt }

// Ensure builds what is missing. The steps are reported to progress, which may be nil.
func (p *Programs) Ensure(ctx context.Context, progress func(bundle.Progress)) error {
	return ErrNotBuilt
}
