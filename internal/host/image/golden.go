package image

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/host/rundir"
)

// goldenUnpacked comes when everything is unpacked, before it gets its name.
var goldenUnpacked = crash.At("image/unpacked")

// goldenLayout is raised when the way in which golden directories are made changes.
const goldenLayout = "3"

// Golden is the directory of a containerd root (/var/lib/containerd) in which the given images, which the
// registry has, are unpacked by the overlayfs snapshotter, and pinned, so that no kubelet collects them: as in
// EKS's AMIs. It is made once for a set of images, in some seconds, by the containerd that machines run, and never
// changes: no machine can write to its files, and none of them is the host's as well.
//
// It needs root.
func (r *Registry) Golden(ctx context.Context, images []string) (dir string, err error) {
	images = slices.Compact(slices.Sorted(slices.Values(images)))
	found := make(map[string]v1.Image)
	key := sha256.New()
	fmt.Fprintln(key, goldenLayout)
	for _, reference := range images {
		image, err := r.get(ctx, reference)
		if err != nil {
			return "", fmt.Errorf("unpack %s for machines: %w", reference, err)
		}
		digest, err := image.Digest()
		if err != nil {
			return "", fmt.Errorf("unpack %s for machines: %w", reference, err)
		}
		found[reference] = image
		fmt.Fprintln(key, reference, digest)
	}
	dir = filepath.Join(r.options.Dir, "golden", hex.EncodeToString(key.Sum(nil))[:16])
	r.unpacking.Lock()
	defer r.unpacking.Unlock()
	now := time.Now()
	if err := os.Chtimes(dir, now, now); err == nil {
		return dir, nil // in use
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := r.unpack(ctx, dir, found); err != nil {
		return "", fmt.Errorf("unpack images for machines: %w", err)
	}
	return dir, nil
}

// unpack makes dir with a containerd of its own, in namespaces of its own: whatever it mounts or starts is gone
// when it is.
func (r *Registry) unpack(ctx context.Context, dir string, images map[string]v1.Image) (err error) {
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
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.nri.v1.nri", "io.containerd.internal.v1.opt",
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
	// Nothing of the daemon's environment is for it, and no mark, which pods could see one day: it ends with the daemon.
	daemon.Env = []string{pathEnv}
	daemon.Stdout, daemon.Stderr = &log, &log
	daemon.SysProcAttr = isolated()
	daemon.Cancel = func() error { return daemon.Process.Signal(syscall.SIGTERM) }
	daemon.WaitDelay = 10 * time.Second
	if err := daemon.Start(); err != nil {
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
	if err := r.fill(ctx, ctr, socket, images); err != nil {
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
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("containerd did not open its socket within a minute"))
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

// unpackingPattern is how the run directories of containerds that unpack begin.
const unpackingPattern = "unpacking-"

// runDir is the daemon's directory for what ends with the host.
func (r *Registry) runDir() string { return rundir.Path(r.options.Owner) }

// fill imports the images through containerd's own client.
func (r *Registry) fill(ctx context.Context, ctr, socket string, images map[string]v1.Image) error {
	run := func(stdin io.Reader, args ...string) error {
		cmd := exec.CommandContext(ctx, ctr, append([]string{"--address", socket, "--namespace", "k8s.io", "--connect-timeout", "30s"}, args...)...)
		cmd.Stdin = stdin
		cmd.Env = []string{pathEnv}
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(output))
		}
		return nil
	}
	archive, write := io.Pipe()
	go func() { write.CloseWithError(writeLayout(write, images)) }()
	defer archive.Close()
	err := run(archive, "images", "import", "--local", "--discard-unpacked-layers", "--platform", platform.String(),
		"--label", "io.cri-containerd.image=managed", "--label", "io.cri-containerd.pinned=pinned", "-")
	if err != nil {
		return err
	}
	return run(nil, "content", "prune", "references") // collects what was discarded now, and not some time later
}

// writeLayout writes the images as a tar file in the OCI layout, each blob once.
// https://github.com/opencontainers/image-spec/blob/main/image-layout.md
func writeLayout(w io.Writer, images map[string]v1.Image) error {
	t := tar.NewWriter(w)
	written := make(map[v1.Hash]bool)
	file := func(name string, size int64, content io.Reader) error {
		if err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size, Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		_, err := io.Copy(t, content)
		return err
	}
	blob := func(h v1.Hash, size int64, open func() (io.ReadCloser, error)) error {
		if written[h] {
			return nil
		}
		written[h] = true
		content, err := open()
		if err != nil {
			return err
		}
		defer content.Close()
		return file("blobs/"+h.Algorithm+"/"+h.Hex, size, content)
	}
	if err := file("oci-layout", 30, strings.NewReader(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return err
	}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	for reference, image := range images {
		layers, err := image.Layers()
		if err != nil {
			return err
		}
		if config, err := partial.ConfigLayer(image); err != nil {
			return err
		} else {
			layers = append(layers, config)
		}
		for _, layer := range layers {
			digest, err := layer.Digest()
			if err != nil {
				return err
			}
			size, err := layer.Size()
			if err != nil {
				return err
			}
			if err := blob(digest, size, layer.Compressed); err != nil {
				return err
			}
		}
		descriptor, err := partial.Descriptor(image)
		if err != nil {
			return err
		}
		manifest, err := image.RawManifest()
		if err != nil {
			return err
		}
		if err := blob(descriptor.Digest, descriptor.Size, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(manifest)), nil }); err != nil {
			return err
		}
		descriptor.Platform = &platform
		descriptor.Annotations = map[string]string{"io.containerd.image.name": reference}
		index.Manifests = append(index.Manifests, *descriptor)
	}
	content, err := json.Marshal(index)
	if err != nil {
		return err
	}
	if err := file("index.json", int64(len(content)), bytes.NewReader(content)); err != nil {
		return err
	}
	return t.Close()
}

// isolated are namespaces for a program that shall leave nothing behind: no network, and mounts and processes that
// end with it.
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
