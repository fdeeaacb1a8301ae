package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/kubernetes"
)

// module describes programs to build, and what they are built from.
type module struct {
	title   string // for messages: "Kubernetes 1.35 bundle"
	label   string // for reports of progress: "Kubernetes 1.35"; the title when empty
	dir     string // where the programs are in a directory of the cache: "v1.35"
	version string // identifies the sources: equal versions mean equal programs

	// from, if not nil, is a published module, a copy of which is built.
	from *download
	// files are the sources, by path. Those of a published module are added to it.
	files map[string][]byte
	// replace are replace directives, "MODULE" to "MODULE@VERSION", in addition to those of the module.
	replace map[string]string
	// sums are lines that are appended to go.sum.
	sums []string
	// patches change required modules; see applyPatches.
	patches []kubernetes.Patch

	tags   []string          // build tags
	stamps map[string]string // values of variables, as the linker's -X sets them
	// programs are the packages to build, by the name of the program.
	programs map[string]string
	// data are files of required modules to copy beside the programs, "MODULE//path" by the name of the file.
	data map[string]string
}

// firstProgram returns the name of the program whose file shows that the module has been built.
func (m module) firstProgram() string { return slices.Sorted(maps.Keys(m.programs))[0] }

// artifact returns what is built from the module.
func (m module) artifact() artifact {
	return artifact{
		title: m.title, label: cmp.Or(m.label, m.title), dir: m.dir, version: m.version, first: m.firstProgram(),
		build: func(ctx context.Context, target, env string, report func(Progress)) (string, error) {
			return buildModule(ctx, m, target, env, report)
		},
	}
}

// CompilerFlags are those of everything that is built: what has the same flags is compiled once. The Makefile's are the
// same.
var CompilerFlags = []string{
	"-trimpath",                 // the same sources give the same program, in whichever directory
	"-gcflags=all=-dwarf=false", // what the linker would drop, see linkerFlags
	// Clients, objects, operations and controllers wait for a request or the store: without inlining, they compile in
	// half the time.
	"-gcflags=github.com/aws/aws-sdk-go-v2/service/...=-dwarf=false -l",
	"-gcflags=k8s.io/client-go/applyconfigurations/...=-dwarf=false -l",
	"-gcflags=k8s.io/client-go/informers/...=-dwarf=false -l",
	"-gcflags=k8s.io/client-go/kubernetes/...=-dwarf=false -l",
	"-gcflags=k8s.io/client-go/listers/...=-dwarf=false -l",
	"-gcflags=k8s.io/kubernetes/pkg/apis/...=-dwarf=false -l",
	"-gcflags=k8s.io/kubernetes/pkg/generated/...=-dwarf=false -l",
	"-gcflags=github.com/coracle-eks/coracle/internal/aws/acm/...=-dwarf=false -l",
	"-gcflags=github.com/coracle-eks/coracle/internal/aws/autoscaling/...=-dwarf=false -l",
	"-gcflags=github.com/coracle-eks/coracle/internal/aws/cloudformation/...=-dwarf=false -l",
	"-gcflags=github.com/coracle-eks/coracle/internal/aws/ec2/...=-dwarf=false -l",
	"-gcflags=github.com/coracle-eks/coracle/internal/aws/ecr/...=-dwarf=false -l",
	"-gcflags=github.com/coracle-eks/coracle/internal/aws/efs/...=-dwarf=false -l",
	"-gcflags=github.com/coracle-eks/coracle/internal/aws/eks/...=-dwarf=false -l",
	"-gcflags=github.com/coracle-eks/coracle/internal/aws/elb/...=-dwarf=false -l",
	"-gcflags=github.com/coracle-eks/coracle/internal/aws/kms/...=-dwarf=false -l",
	"-gcflags=github.com/coracle-eks/coracle/internal/aws/ssm/...=-dwarf=false -l",
	"-gcflags=github.com/coracle-eks/coracle/internal/controller/...=-dwarf=false -l",
}

// goFlags returns the flags and packages of "go list" and "go build".
func (m module) goFlags() []string {
	flags := []string{
		"-buildvcs=false", // it is built from the embedded sources, whatever repository surrounds them
		"-ldflags=" + linkerFlags(m.stamps),
	}
	if len(m.tags) > 0 {
		flags = append(flags, "-tags="+strings.Join(m.tags, ","))
	}
	return slices.Concat(CompilerFlags, flags, slices.Compact(slices.Sorted(maps.Values(m.programs))))
}

func linkerFlags(stamps map[string]string) string {
	// No symbol table and no debugging information: nothing reads them at run time, stack traces
	// come from elsewhere.
	flags := []string{"-s", "-w"}
	for _, variable := range slices.Sorted(maps.Keys(stamps)) {
		flags = append(flags, "-X", variable+"="+stamps[variable])
	}
	return strings.Join(flags, " ")
}

// prefetch downloads the required modules into the module cache.
func (m module) prefetch(ctx context.Context) error {
	golang, err := findGoCommand()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "coracle-prefetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := m.writeSources(ctx, work, golang); err != nil {
		return err
	}
	args := slices.Concat([]string{"list", "-deps"}, m.goFlags())
	output, err := runCommand(goCommand(ctx, work, golang, args...), nil, func(line string) bool {
		return strings.HasPrefix(line, "go: downloading ")
	})
	if err != nil {
		return fmt.Errorf("download the modules of the %s: %w: %s", m.title, err, strings.Join(output, "; "))
	}
	return nil
}

// writeSources writes the sources of the module into the directory that it is built in.
func (m module) writeSources(ctx context.Context, work, golang string) error {
	if m.from != nil {
		from, err := m.from.moduleDir(ctx, golang)
		if err != nil {
			return err
		}
		if err := os.CopyFS(work, os.DirFS(from)); err != nil {
			return err
		}
	}
	for name, content := range m.files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(work, name)), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(work, name), content, 0o600); err != nil {
			return err
		}
	}
	edit := []string{"mod", "edit"}
	for module, by := range m.replace {
		edit = append(edit, "-replace="+module+"="+by)
	}
	if len(m.replace) > 0 {
		output, err := runCommand(goCommand(ctx, work, golang, edit...), nil, func(string) bool { return false })
		if err != nil {
			return fmt.Errorf("replace modules: %w: %s", err, strings.Join(output, "; "))
		}
	}
	if len(m.sums) == 0 {
		return nil
	}
	sums, err := os.OpenFile(filepath.Join(work, "go.sum"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = sums.WriteString("\n" + strings.Join(m.sums, "\n") + "\n")
	return errors.Join(err, sums.Close())
}
