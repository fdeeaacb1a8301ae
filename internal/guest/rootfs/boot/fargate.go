package boot

import (
	"os"
	"path/filepath"
)

// Files in HostDir of the machine of a Fargate pod, which only its root reads.
const (
	FargateFile      = "fargate.json"  // what its guest is to do: fargate.Config as JSON
	FargateTokenFile = "fargate-token" // for the credentials of the pod execution role
)

// FargateRunc is the name by which containerd on a Fargate machine runs coracle-runc: containers are validated because
// of the name, and not of a file that somebody may cover.
const FargateRunc = "fargate-runc"

// IsFargate reports whether the machine with a root file system is that of a Fargate pod.
func IsFargate(root string) bool {
	_, err := os.Stat(filepath.Join("/", root, HostDir, FargateFile))
	return err == nil
}
