package rootfs

import (
	"fmt"
	"path/filepath"
)

// Init is where a machine has coracle-node: launch executes `Init init` as process 1.
const Init = "/usr/lib/coracle/coracle-node"

// programs are seen at these paths, as in EKS AMIs; the names are those of Options.Program.
var programs = map[string]string{
	"coracle-node":            Init,
	"containerd":              "/usr/bin/containerd",
	"containerd-shim-runc-v2": "/usr/bin/containerd-shim-runc-v2",
	"ctr":                     "/usr/bin/ctr",
	"runc":                    "/usr/sbin/runc",
	"aws-iam-authenticator":   "/usr/bin/aws-iam-authenticator",
	"ecr-credential-provider": "/etc/eks/image-credential-provider/ecr-credential-provider",
}

// Mounts are the bind mounts of a machine with the skeleton in dir, in the order in which they are to be made.
// Every Target exists in the skeleton.
func Mounts(dir string, o Options) ([]Mount, error) {
	mounts := []Mount{
		{filepath.Join(dir, "usr/local"), "/usr/local"}, // not the host's
		{o.Kubernetes, "/usr/bin/kubelet"},
	}
	for name, target := range programs {
		path, err := o.Program(name)
		if err != nil {
			return nil, fmt.Errorf("find %s for a machine: %w", name, err)
		}
		mounts = append(mounts, Mount{path, target})
	}
	return mounts, nil
}
