// Package podvolume tells from the path of a file in which volume of a pod the kubelet has it. A machine of Fargate
// judges by it what is mounted: neither the name of a volume nor its type in the API says where its files are.
package podvolume

import (
	"path"
	"slices"
	"strings"
)

// PodsDir is where the kubelet has what it makes for pods, by their UIDs.
const PodsDir = "/var/lib/kubelet/pods/"

// Plugins of volumes.
const (
	CSI = "csi"
	NFS = "nfs"
)

var (
	// writtenPlugins have volumes whose files the kubelet writes and replaces while containers run.
	writtenPlugins = []string{"configmap", "secret", "projected", "downward-api"}
	// plugins are all of which a pod on Fargate may have volumes.
	plugins = append([]string{"empty-dir", NFS, CSI}, writtenPlugins...)
)

// Volume is a volume of a pod.
type Volume struct {
	Plugin string // "empty-dir", without "kubernetes.io~"
	Name   string // of the pod's volume, or of the persistent volume
}

// Parse returns the volume in which a file of a pod is, and where it is in it: "" for the directory of the volume. A
// volume is volumes/kubernetes.io~PLUGIN/NAME in the directory of the pod, or volumes/kubernetes.io~csi/NAME/mount:
// what is above is the kubelet's. The path has no links.
func Parse(uid, file string) (v Volume, within string, ok bool) {
	rest, ok := strings.CutPrefix(file, PodsDir+uid+"/volumes/kubernetes.io~")
	if uid == "" || !ok || path.Clean(file) != file {
		return Volume{}, "", false
	}
	parts := strings.Split(rest, "/")
	if len(parts) < 2 || !slices.Contains(plugins, parts[0]) {
		return Volume{}, "", false
	}
	v, parts = Volume{Plugin: parts[0], Name: parts[1]}, parts[2:]
	if v.Plugin == CSI {
		if len(parts) == 0 || parts[0] != "mount" {
			return Volume{}, "", false
		}
		parts = parts[1:]
	}
	return v, strings.Join(parts, "/"), true
}

// ReadOnly reports whether no container may write to the volume. The kubelet gives containers its files read-only,
// whatever the pod says, because it writes, renames and removes them by their paths as root: links among them would
// lead it anywhere. Volume.GetAttributes of the kubelet's plugins says the same.
func (v Volume) ReadOnly() bool { return slices.Contains(writtenPlugins, v.Plugin) }

// InMemory reports whether the kubelet may mount a tmpfs for the volume.
func (v Volume) InMemory() bool { return v.Plugin != CSI && v.Plugin != NFS }
