package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/coracle-eks/coracle/internal/upstream"
	"github.com/coracle-eks/coracle/kubernetes"
)

// everything is what "make build" builds, and where.
type everything struct {
	daemon   string // the file of coracle
	bundles  *upstream.Bundles
	node     string // the directory of what runs on nodes
	programs *upstream.NodePrograms
	ldflags  string // of the programs of this module
	report   func(upstream.Progress)
}

func allCommand() *cobra.Command {
	var daemon, bundles, node, ldflags string
	cmd := &cobra.Command{
		Use:   "all",
		Short: "Build coracle, the default version of Kubernetes, and what runs on nodes",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			node, err := filepath.Abs(node)
			if err != nil {
				return err
			}
			e := everything{
				daemon: daemon, bundles: upstream.BundlesIn(bundles), node: node, programs: upstream.NodeProgramsIn(node),
				ldflags: ldflags, report: printer(),
			}
			return e.build(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&daemon, "daemon", filepath.Join("bin", "coracle"), "`file` of coracle")
	flags.StringVar(&bundles, "bundles", filepath.Join("bin", "bundles"), "`directory` of bundles to build into")
	flags.StringVar(&node, "node", filepath.Join("bin", "node"), "`directory` of what runs on nodes to build into")
	flags.StringVar(&ldflags, "ldflags", "", "linker `flags` of Coracle's programs")
	return cmd
}

// build builds everything in stages. What the later stages need of the network is downloaded while the first compiles.
func (e everything) build(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var downloads sync.WaitGroup
	downloads.Go(func() { e.download(ctx) })
	err := runStages(ctx, e.buildDaemon, e.buildBundle, e.buildNode)
	cancel()
	downloads.Wait()
	return err
}

// download downloads modules and makes the node image, where they are missing. It returns no error, because the stage
// that needs what could not be downloaded tries it again and reports the reason.
func (e everything) download(ctx context.Context) {
	if _, err := e.bundles.Find(kubernetes.Default); errors.Is(err, upstream.ErrNotBuilt) {
		e.bundles.Prefetch(ctx, kubernetes.Default) //nolint:errcheck // see above
	}
	if _, err := e.programs.Path("containerd"); errors.Is(err, upstream.ErrNotBuilt) {
		e.programs.Prefetch(ctx) //nolint:errcheck // see above
	}
	e.programs.EnsureImage(ctx, e.report) //nolint:errcheck // see above
}

// stage builds programs. It calls compiled when all that remains is to link them.
type stage func(ctx context.Context, compiled func()) error

// runStages runs stages in their order. Each begins when the one before it has compiled everything: a linker keeps one
// processor busy, and compiled packages that both need are in Go's build cache by then. Before that, both would compile
// them.
func runStages(ctx context.Context, stages ...stage) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range stages {
		next, compiled := context.WithCancel(ctx)
		group.Go(func() error {
			err := run(ctx, compiled)
			if err == nil {
				compiled()
			}
			return err
		})
		<-next.Done()
		if ctx.Err() != nil {
			break
		}
	}
	return group.Wait()
}

// worthReporting is the number of packages from which on compiling them takes long enough to report its progress.
const worthReporting = 50

// buildDaemon builds the program of the daemon, and reports its progress when packages must be compiled.
func (e everything) buildDaemon(ctx context.Context, compiled func()) error {
	const pkg = "./cmd/coracle"
	p := upstream.Progress{Title: "coracle", Step: upstream.Compiling}
	counted := make(chan int, 1)
	var count sync.WaitGroup
	defer count.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	count.Go(func() { counted <- countStale(ctx, pkg) })

	build := goBuild(ctx, e.ldflags, "-v", "-o", e.daemon, pkg)
	stderr, err := build.StderrPipe()
	if err != nil {
		return err
	}
	if err := build.Start(); err != nil {
		return fmt.Errorf("build coracle: %w", err)
	}
	report := func() {
		select {
		case p.Total = <-counted:
		default:
		}
		if p.Total >= worthReporting && p.Done <= p.Total {
			e.report(p)
		}
	}
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		// "go build -v" names every package when it starts to compile it, that of the program itself at last.
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "go: downloading "):
		case strings.ContainsAny(line, " \t:"):
			fmt.Fprintln(os.Stderr, line) // a message, not an import path
		case strings.HasSuffix(line, strings.TrimPrefix(pkg, ".")):
			p.Step = upstream.Linking
			report()
			compiled()
		default:
			p.Done++
			report()
		}
	}
	io.Copy(io.Discard, stderr) //nolint:errcheck // a line beyond the buffer must not block the command
	if err := build.Wait(); err != nil {
		return fmt.Errorf("build coracle: %w", err)
	}
	return nil
}

// countStale returns the number of packages that are not in Go's build cache, or none if that is not known.
func countStale(ctx context.Context, pkg string) int {
	args := slices.Concat([]string{"list", "-deps", "-f", "{{.Stale}}"}, upstream.CompilerFlags, []string{pkg})
	out, err := exec.CommandContext(ctx, "go", args...).Output()
	if err != nil {
		return 0
	}
	return strings.Count(string(out), "true")
}

func (e everything) buildBundle(ctx context.Context, compiled func()) error {
	return buildBundle(ctx, e.bundles, kubernetes.Default, func(p upstream.Progress) {
		if p.Step == upstream.Linking {
			compiled()
		}
		e.report(p)
	})
}

func (e everything) buildNode(ctx context.Context, _ func()) error {
	return buildNode(ctx, e.programs, e.node, e.ldflags, e.report)
}
