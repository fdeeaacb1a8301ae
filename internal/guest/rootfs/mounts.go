package rootfs

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Init is the path of coracle-node in a machine: launch executes `Init init` as process 1.
const Init = "/usr/lib/coracle/coracle-node"

// Runc is the path of coracle-runc in a machine with Kubernetes: what containerd takes for runc.
const Runc = "/usr/lib/coracle/coracle-runc"

// CSI is the path of coracle-csi in a machine with Kubernetes: it mounts the volumes of a Fargate pod.
const CSI = "/usr/lib/coracle/coracle-csi"

// Layers is the directory of a machine with the layers of its initial images, read-only: <number> for each directory
// <number>/fs of containerd's snapshots, which is a symbolic link to it.
const Layers = "/usr/lib/coracle/layers"

const (
	kubelet = "/usr/bin/kubelet"
	// runc is where coracle-runc, which stands in its place, finds runc: see package containertrust.
	runc, runcOfBase = "/usr/lib/coracle/runc", "usr/sbin/runc"
)

// programs are seen at these paths, as in EKS AMIs; the names are those of Options.Program.
var programs = map[string]string{
	"coracle-node":            Init,
	"coracle-csi":             CSI,
	"coracle-runc":            Runc,
	"containerd":              "/usr/bin/containerd",
	"containerd-shim-runc-v2": "/usr/bin/containerd-shim-runc-v2",
	"ctr":                     "/usr/bin/ctr",
	"aws-iam-authenticator":   "/usr/bin/aws-iam-authenticator",
	"ecr-credential-provider": "/etc/eks/image-credential-provider/ecr-credential-provider",
}

// Mounts returns the bind mounts of a machine, in the order in which they are to be made. Every Target exists in the
// base image.
func Mounts(o Options) ([]Mount, error) {
	o = o.withDefaults()
	var mounts []Mount
	for name, target := range programs {
		if o.KubernetesVersion == "" && name != "coracle-node" {
			continue
		}
		if o.Program == nil {
			return nil, errors.New("find the programs of a machine: Options.Program is nil")
		}
		path, err := o.Program(name)
		if err != nil {
			return nil, fmt.Errorf("find %s for a machine: %w", name, err)
		}
		mounts = append(mounts, Mount{path, target})
	}
	if o.KubernetesVersion != "" {
		mounts = append(mounts, Mount{o.Kubernetes, kubelet}, Mount{filepath.Join(o.Base, runcOfBase), runc})
	}
	for i := range mounts {
		absolute, err := filepath.Abs(mounts[i].Source) // whoever mounts it may be elsewhere
		if err != nil {
			return nil, err
		}
		mounts[i].Source = absolute
	}
	slices.SortFunc(mounts, func(a, b Mount) int { return strings.Compare(a.Target, b.Target) })
	return mounts, nil
}
