package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sourcegraph/conc/pool"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/host/rundir"
)

// goldenUnpacked comes when everything is unpacked, before it gets its name.
var goldenUnpacked = crash.At("image/unpacked")

// unpackImages makes dir with a containerd of its own, in namespaces of its own: whatever it mounts or starts is gone
// when it is.
func (r *Registry) unpackImages(ctx context.Context, dir string, images map[string]v1.Image) (err error) {
	work, err := r.scratch("golden-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	// Sockets are not below the data directory, whose path may use up the 108 bytes of an address.
	run, err := rundir.Create(r.options.Owner)
	if err != nil {
		return err
	}
	state, err := os.MkdirTemp(run, unpackingPattern)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(state)) }()

	containerd, err := r.options.Programs.Path("containerd")
	if err != nil {
		return err
	}
	ctr, err := r.options.Programs.Path("ctr")
	if err != nil {
		return err
	}
	root := filepath.Join(work, "root")
	config := filepath.Join(work, "config.toml")
	socket := filepath.Join(state, "containerd.sock")
	err = os.WriteFile(config, fmt.Appendf(nil, `version = 4
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime",
  "io.containerd.nri.v1.nri", "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.native"]
[plugins.'io.containerd.server.v1.grpc']
  address = %q
[plugins.'io.containerd.server.v1.ttrpc']
  address = %q
`, root, filepath.Join(state, "state"), socket, socket+".ttrpc"), 0o600)
	if err != nil {
		return err
	}

	var log bytes.Buffer
	daemon := exec.CommandContext(ctx, containerd, "--config", config, "--log-level", "warn")
	// Nothing of the daemon's environment is for it, and no mark, which pods could see one day: it ends with the
	// daemon.
	daemon.Env = []string{pathEnv}
	daemon.Stdout, daemon.Stderr = &log, &log
	daemon.SysProcAttr = isolated()
	daemon.Cancel = func() error { return daemon.Process.Signal(syscall.SIGTERM) }
	daemon.WaitDelay = 10 * time.Second
	if err := daemon.Start(); err != nil {
		if errors.Is(err, unix.EINVAL) { // its mounts could not be made private
			return fmt.Errorf("start containerd: %w: see \"coracle doctor\", a chroot may have to be a mount point", err)
		}
		return fmt.Errorf("start containerd: %w", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- daemon.Wait() }()
	fail := func(err error) error {
		daemon.Process.Kill() //nolint:errcheck // it may have ended
		<-exited
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%w\n%s", err, strings.TrimSpace(log.String()))
	}
	if err := waitForSocket(ctx, socket, exited); err != nil {
		return fail(err)
	}
	if err := r.importImages(ctx, ctr, socket, images); err != nil {
		return fail(err)
	}
	// A clean end closes the databases.
	if err := daemon.Process.Signal(syscall.SIGTERM); err != nil {
		return fail(err)
	}
	if err := <-exited; err != nil {
		return fmt.Errorf("containerd ended with %w\n%s", err, strings.TrimSpace(log.String()))
	}

	// What is of the containerd that ran, not of the images.
	for _, name := range []string{"io.containerd.grpc.v1.introspection", "tmpmounts"} {
		if err := os.RemoveAll(filepath.Join(root, name)); err != nil {
			return err
		}
	}
	goldenUnpacked.Here()
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	if err := syncTree(root); err != nil {
		return err
	}
	return os.Rename(root, dir)
}

// waitForSocket waits until containerd answers; it ends with the context, and with containerd.
func waitForSocket(ctx context.Context, socket string, exited chan error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute,
		errors.New("containerd did not open its socket within a minute"))
	defer cancel()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		if _, err := os.Stat(socket); err == nil {
			return nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-exited:
			exited <- err
			return fmt.Errorf("containerd ended before it served: %w", err)
		case <-poll.C:
		}
	}
}

// importImages imports the images through containerd's own client.
func (r *Registry) importImages(ctx context.Context, ctr, socket string, images map[string]v1.Image) error {
	run := func(stdin io.Reader, args ...string) error {
		global := []string{"--address", socket, "--namespace", "k8s.io", "--connect-timeout", "30s"}
		cmd := exec.CommandContext(ctx, ctr, append(global, args...)...)
		cmd.Stdin = stdin
		cmd.Env = []string{pathEnv}
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(output))
		}
		return nil
	}
	// An import uses one processor, and the first machine waits for all.
	importing := pool.New().WithErrors().WithMaxGoroutines(runtime.GOMAXPROCS(0))
	for reference, image := range images {
		importing.Go(func() error {
			archive, write := io.Pipe()
			go func() { write.CloseWithError(writeLayout(write, map[string]v1.Image{reference: image})) }()
			defer archive.Close()
			return run(archive, "images", "import", "--local", "--discard-unpacked-layers", "--platform",
				platform.String(), "--label", "io.cri-containerd.image=managed", "--label",
				"io.cri-containerd.pinned=pinned", "-")
		})
	}
	if err := importing.Wait(); err != nil {
		return err
	}
	return run(nil, "content", "prune", "references") // collects what was discarded now, and not some time later
}

// isolated returns the attributes of a process that leaves nothing behind: it has no network, and its mounts and child
// processes end with it.
func isolated() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:   syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC,
		Unshareflags: syscall.CLONE_NEWNS,
		Pdeathsig:    syscall.SIGKILL,
		Setpgid:      true,
	}
}

func syncTree(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
