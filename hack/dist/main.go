// Command dist makes what users install who build nothing: an archive with coracle, a version of Kubernetes and what
// runs on nodes, its checksum, and the list of all that is in it. "make dist" calls it in the directory of the
// repository:
//
//	go run ./hack/dist --arch amd64 --version v1.0.0 -o dist 1.35
//
// The same commit gives the same bytes, as long as Debian has the packages of the node image.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/upstream"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var d distribution
	cmd := &cobra.Command{
		Use: "dist [VERSION...]", Short: "Make archives of coracle and all that it needs, for the Kubernetes versions",
		Args: cobra.MinimumNArgs(1), SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, minors []string) error {
			d.minors = minors
			return d.make(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&d.architecture, "arch", "amd64", "processors of the machines that it is for: amd64 or arm64")
	flags.StringVar(&d.version, "version", "development", "version of coracle")
	flags.StringVar(&d.only, "only", "", "make nothing but the form with this end: tar.gz, image.tar, deb, rpm")
	flags.StringVar(&d.built, "built", "",
		"`directory` of what has been built: coracle, bundles, node (default one in the output)")
	flags.BoolVar(&d.fast, "fast", false, "compress less, for tests")
	flags.StringVarP(&d.output, "output", "o", "dist", "`directory` of the archive")
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "\n%v\n", err)
		os.Exit(1)
	}
}

// distribution is one archive.
type distribution struct {
	architecture, version, output, built, only string
	minors                                     []string
	fast                                       bool
	time                                       time.Time // of every file: that of the commit
}

// name is the name of the archive without its suffix, and of the directory in it.
func (d distribution) name() string { return "coracle-" + d.version + "-linux-" + d.architecture }

func (d distribution) make(ctx context.Context) error {
	// For all that the Go command builds, and the node image.
	for name, value := range map[string]string{"GOOS": "linux", "GOARCH": d.architecture, "CGO_ENABLED": "0"} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	var err error
	if d.time, err = commitTime(ctx); err != nil {
		return err
	}
	if d.output, err = filepath.Abs(d.output); err != nil {
		return err
	}
	if d.built == "" {
		// What was built for an earlier archive need not be built again.
		d.built = filepath.Join(d.output, "built-"+d.architecture)
		if err := d.build(ctx); err != nil {
			return err
		}
	}
	files, err := d.collect()
	if err != nil {
		return err
	}
	notices, err := d.describe(ctx, files)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(d.output, 0o755); err != nil { // open to others: it is for everybody
		return err
	}
	files = append(files, notices...)
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	for _, form := range []struct {
		name  string
		write func(ctx context.Context, path string, files []file) error
	}{
		{"release-notes.md", d.writeNotes}, // first: CHANGELOG.md may lack the version
		{d.name() + ".tar.gz", d.writeArchive},
		{d.name() + ".image.tar", d.writeImage},
		{d.name() + ".deb", d.writePackage},
		{d.name() + ".rpm", d.writePackage},
	} {
		if !strings.HasSuffix(form.name, d.only) {
			continue
		}
		path := filepath.Join(d.output, form.name)
		if err := form.write(ctx, path, files); err != nil {
			return fmt.Errorf("make %s: %w", path, err)
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s (%s)\n", path, humanize.Bytes(uint64(info.Size())))
	}
	return d.writeChecksums()
}

// build builds what the forms have.
func (d distribution) build(ctx context.Context) error {
	built := d.built
	report := upstream.Printer(os.Stderr, isatty.IsTerminal(os.Stderr.Fd()))
	bundles := upstream.BundlesIn(filepath.Join(built, "bundles"))
	for _, minor := range d.minors {
		if _, err := bundles.Ensure(ctx, minor, report); err != nil {
			return err
		}
	}
	if err := upstream.NodeProgramsIn(filepath.Join(built, "node")).EnsureUpstream(ctx, report); err != nil {
		return err
	}
	stamp := "-s -w -X github.com/coracle-eks/coracle/internal/version.stamped=" + d.version
	ours := map[string]string{"./cmd/coracle": "coracle"}
	for name, program := range upstream.OwnPrograms {
		ours[program] = "node/" + name
	}
	for program, into := range ours {
		fmt.Fprintf(os.Stderr, "building %s for %s\n", into, d.architecture)
		cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"build"}, upstream.CompilerFlags, []string{
			"-buildvcs=false", "-ldflags", stamp, "-o", filepath.Join(built, into), program})...)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("build %s: %w", program, err)
		}
	}
	return nil
}

// commitTime returns when the commit was made that is built.
func commitTime(ctx context.Context) (time.Time, error) {
	out, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%cI").Output()
	if err != nil {
		return time.Time{}, fmt.Errorf("ask git for the time of the commit: %w", err)
	}
	return time.Parse(time.RFC3339+"\n", string(out))
}
