//go:build linux

package containerguard

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/coracle-eks/coracle/internal/guest/podvolume"
	"github.com/coracle-eks/coracle/internal/guest/runcspec"
)

// virtualTypes are the types of mounts in containers that are of no files of the machine.
var virtualTypes = []string{"proc", "tmpfs", "devpts", "mqueue", "sysfs", "cgroup"}

// containerdPaths are the files of containerd that it mounts into containers: those of their sandbox, and the volumes
// of their image.
var containerdPaths = []string{
	"/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/*/hostname",
	"/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/*/hosts",
	"/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/*/resolv.conf",
	"/run/containerd/io.containerd.grpc.v1.cri/sandboxes/*/shm",
	"/var/lib/containerd/io.containerd.grpc.v1.cri/containers/*/volumes/*",
}

// validateMounts lets a container have what it has of itself, what its pod has from the kubelet, and what containerd
// makes for it; but nothing of the machine.
func (g guard) validateMounts(config runcspec.Object) error {
	var mounts []struct {
		Destination, Type, Source string
		Options                   []string
	}
	if err := config.Get("mounts", &mounts); err != nil {
		return err
	}
	for _, m := range mounts {
		if err := refuseShared(m.Options, m.Destination); err != nil {
			return err
		}
		bind := m.Type == "bind" || slices.Contains(m.Options, "bind") || slices.Contains(m.Options, "rbind")
		switch {
		case bind:
			if err := g.validateSource(m.Source, m.Destination, isReadOnly(m.Options)); err != nil {
				return err
			}
		case !slices.Contains(virtualTypes, m.Type):
			return fmt.Errorf("containers on Fargate cannot have mounts of the type %q, as at %s", m.Type, m.Destination)
		case (m.Type == "sysfs" || m.Type == "cgroup") && !slices.Contains(m.Options, "ro"):
			return fmt.Errorf("privileged containers are not supported on Fargate: %s is not read-only", m.Destination)
		}
	}
	return nil
}

// isReadOnly reports whether runc makes a bind mount read-only. containerd has one of these options for each.
func isReadOnly(options []string) bool {
	return (slices.Contains(options, "ro") || slices.Contains(options, "rro")) && !slices.Contains(options, "rw")
}

// validateSource refuses files of the machine, and files that the kubelet writes unless the container only reads them.
// A path below the directory of the pod is not enough: with subPath, or for a local volume, the kubelet mounts there
// what the volume names, which may be another volume of the pod.
func (g guard) validateSource(source, destination string, readOnly bool) error {
	at, err := g.resolved(source)
	if err != nil {
		return err
	}
	refused := fmt.Errorf("containers on Fargate cannot have files of the node: %s at %s", source, destination)
	// What leads elsewhere by links may lead runc to another place than this process, or a moment later.
	if at != source {
		return refused
	}
	for _, m := range g.mounts { // they would come along
		if m.at != at && isWithin(m.at, at) {
			return refused
		}
	}
	for _, pattern := range containerdPaths {
		if ok, _ := path.Match(pattern, at); ok {
			return nil
		}
	}
	if !g.isOfKubelet(at) {
		return refused
	}
	places := g.resolvePlaces(at)
	if len(places) == 0 {
		return refused
	}
	for _, place := range places {
		volume, _, ok := podvolume.Parse(g.uid, place)
		switch {
		case !ok && !g.isFileOfKubelet(place):
			return refused
		case volume.ReadOnly() && !readOnly:
			return fmt.Errorf("containers on Fargate cannot write to volumes of the kubelet (%s): %s at %s", volume.Plugin,
				source, destination)
		}
	}
	return nil
}

// isOfKubelet reports whether a file is one that the kubelet gives containers of the pod by this path: etc-hosts,
// containers/NAME/FILE, a volume, or volume-subpaths/VOLUME/CONTAINER/INDEX. All above it are root's; what is below is
// the pod's, which could put something else there.
func (g guard) isOfKubelet(file string) bool {
	if _, within, ok := podvolume.Parse(g.uid, file); ok {
		return within == ""
	}
	matched, _ := path.Match(podvolume.PodsDir+"*/volume-subpaths/*/*/*", file)
	return matched && isWithin(file, g.podDir()) || g.isFileOfKubelet(file)
}

// isFileOfKubelet reports whether a file is the pod's /etc/hosts, or the termination log of a container.
func (g guard) isFileOfKubelet(file string) bool {
	matched, _ := path.Match(podvolume.PodsDir+"*/containers/*/*", file)
	return file == g.podDir()+"/etc-hosts" || matched && isWithin(file, g.podDir())
}

func (g guard) podDir() string { return podvolume.PodsDir + g.uid }

// resolvePlaces returns the paths in the directory of the pod by which the kubelet has a file, whatever was mounted
// over where it is now: one on the pod's disk, and those below the mounts of volumes that have it. It returns none for
// files that are elsewhere, too.
func (g guard) resolvePlaces(at string) (places []string) {
	dir := g.podDir()
	file, pod := g.resolveMount(at), g.resolveMount(dir)
	if file.device == "" || pod.device == "" { // the list of mounts is not that of the machine
		return nil
	}
	if file.device == pod.device && isWithin(file.root, pod.root) {
		return []string{path.Join(dir, strings.TrimPrefix(file.root, pod.root))}
	}
	for _, m := range g.mounts {
		switch {
		case m.device != file.device || !isWithin(file.root, m.root):
		case !isWithin(m.at, dir):
			return nil
		case !isWithin(m.at, dir+"/volume-subpaths"): // what is mounted there is part of a volume
			places = append(places, path.Join(m.at, strings.TrimPrefix(file.root, m.root)))
		}
	}
	return places
}

// mountPoint is a mount of the machine, or where a file is.
type mountPoint struct {
	device string // "0:45"
	root   string // in the file system
	at     string // in the machine
}

// resolveMount returns where a file of the machine is, by its mount.
func (g guard) resolveMount(file string) mountPoint {
	var found mountPoint
	for _, m := range g.mounts {
		if isWithin(file, m.at) && len(m.at) >= len(found.at) {
			found = m
		}
	}
	return mountPoint{found.device, path.Join(found.root, strings.TrimPrefix(file, found.at)), file}
}

func isWithin(file, dir string) bool {
	return file == dir || strings.HasPrefix(file, strings.TrimSuffix(dir, "/")+"/")
}

// parseMounts reads /proc/self/mountinfo. See proc_pid_mountinfo(5).
func parseMounts(text string) (mounts []mountPoint) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 6 {
			continue
		}
		mounts = append(mounts, mountPoint{device: fields[2], root: unescape(fields[3]), at: unescape(fields[4])})
	}
	return mounts
}

// unescape replaces the octal numbers that the kernel has for some characters: "\040" is a space.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
