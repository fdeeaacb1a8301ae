package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/coracle-eks/coracle/internal/durable"
	"github.com/coracle-eks/coracle/internal/nodeimage"
	"github.com/coracle-eks/coracle/node"
)

// MachineProgram is the program of a machine itself: it launches the machine, and is its init.
const MachineProgram = "coracle-node"

// OwnPrograms are the programs of nodes that are built with coracle, and their packages. coracle-runc is what
// containerd takes for runc; images of CSI drivers and the network policy agent run coracle-csi.
var OwnPrograms = map[string]string{
	MachineProgram: "./cmd/node",
	"coracle-csi":  "./cmd/csi",
	"coracle-runc": "./cmd/runc",
}

// NodePrograms finds and builds the programs that run on nodes. Its methods may be called concurrently.
//
// Most are upstream's, with two small ones of our own: containerd, the parts of the VPC CNI, CoreDNS, pause, ..., from
// the module that package node pins. OwnPrograms are built with coracle and put beside them. What is written in C, and
// runc, is in the node image (package nodeimage), in the directory image.
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

// Path returns the file of a program or of its data ("containerd", "coracle-node", "10-aws.conflist", ...).
// The error is ErrNotBuilt until Ensure has built it.
func (p *NodePrograms) Path(name string) (string, error) {
	if OwnPrograms[name] != "" {
		return p.findOurs(name)
	}
	m := nodeModule()
	if m.programs[name] == "" && m.data[name] == "" {
		return "", fmt.Errorf("%q is no program of nodes", name)
	}
	return p.cache.findFile(m.artifact(), name)
}

// Image returns the directory of the node image, which package nodeimage reads. The error is ErrNotBuilt until Ensure
// has built it.
func (p *NodePrograms) Image() (dir string, err error) {
	a, err := imageArtifact()
	if err != nil {
		return "", err
	}
	first, err := p.cache.findFirst(a)
	return filepath.Dir(first), err
}

// Ensure builds what is missing. It passes the steps of a build to report, which may be nil, one at a time.
func (p *NodePrograms) Ensure(ctx context.Context, report func(Progress)) error {
	for name := range OwnPrograms {
		if _, err := p.findOurs(name); err != nil {
			return err
		}
	}
	return p.EnsureUpstream(ctx, report)
}

// EnsureUpstream builds what is missing of the programs and the image that package node pins.
func (p *NodePrograms) EnsureUpstream(ctx context.Context, report func(Progress)) error {
	if err := p.EnsureImage(ctx, report); err != nil {
		return err
	}
	_, err := p.cache.ensureBuilt(ctx, nodeModule().artifact(), report)
	return err
}

// Prefetch downloads the modules that the upstream programs are built from, and builds nothing: EnsureUpstream finds
// them in Go's module cache afterwards.
func (p *NodePrograms) Prefetch(ctx context.Context) error { return nodeModule().prefetch(ctx) }

// EnsureImage builds the node image if it is missing: it downloads 48 MB of Debian packages.
func (p *NodePrograms) EnsureImage(ctx context.Context, report func(Progress)) error {
	a, err := imageArtifact()
	if err == nil {
		_, err = p.cache.ensureBuilt(ctx, a, report)
	}
	return err
}

// architecture returns the architecture that the Go command builds for: the host's, unless GOARCH names another.
func architecture() string { return cmp.Or(os.Getenv("GOARCH"), runtime.GOARCH) }

// imageArtifact returns the node image for machines of the architecture.
func imageArtifact() (artifact, error) {
	version, err := nodeimage.Version(architecture())
	return artifact{
		title: "node image", label: "node image", dir: "image", version: version, first: nodeimage.ArchiveName, data: true,
		build: func(ctx context.Context, target, _ string, report func(Progress)) (string, error) {
			return buildImage(ctx, version, target, report)
		},
	}, err
}

func buildImage(ctx context.Context, version, target string, report func(Progress)) (string, error) {
	p := Progress{Title: "node image", Step: Fetching}
	report(p)
	// While there is no version, what is there is no image.
	err := os.Remove(filepath.Join(target, versionName))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	var m nodeimage.Manifest
	if err == nil {
		m, err = nodeimage.Build(ctx, nodeimage.Debian(), architecture(), target, func(done, total int, name string) {
			p.Done, p.Total, p.Detail = done, total, name
			report(p)
		})
	}
	if err == nil {
		// Open to others, like the image: users of one host may share it.
		err = durable.WriteFile(filepath.Join(target, versionName), []byte(version+"\n"), 0o644)
	}
	if err != nil {
		return "", &BuildError{Title: p.Title, Err: fmt.Errorf("%w; %s and %s name other mirrors of Debian", err,
			nodeimage.EnvMirror, nodeimage.EnvSecurityMirror)}
	}
	path := filepath.Join(target, nodeimage.ArchiveName)
	p.Step, p.Detail = Ready, path
	if replaced := m.Replaced(); len(replaced) > 0 {
		p.Detail += fmt.Sprintf("; Debian has replaced %d of its packages since this version of coracle: %s",
			len(replaced), strings.Join(replaced, ", "))
	}
	report(p)
	return path, nil
}

// Dir returns the directory that Ensure builds into.
func (p *NodePrograms) Dir() string {
	paths := p.cache.searchPaths()
	return paths[len(paths)-1]
}

// findOurs finds a program that is built with coracle.
func (p *NodePrograms) findOurs(name string) (string, error) {
	var searched []string
	for _, dir := range p.cache.searchPaths() {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("look for %s: %w", name, err)
		}
		searched = append(searched, path)
	}
	return "", fmt.Errorf("%s: %w: it is built together with coracle (make build) and installed as %s",
		name, ErrNotBuilt, strings.Join(searched, " or "))
}
