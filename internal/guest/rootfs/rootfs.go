// Package rootfs writes the base image of a machine's root file system: what an EKS-optimized AMI of a family has, over
// the programs of the node image.
//
// A base image is made once for a family, a Kubernetes version and a region, and is the lower layer of every machine of
// that kind. [Mounts] lists the programs that are bind-mounted over it.
package rootfs

// Families of images, as internal/ami names them.
const (
	AL2          = "al2"
	AL2023       = "al2023"
	Bottlerocket = "bottlerocket"
)

// Options are the inputs of a base image.
type Options struct {
	Family            string // AL2, AL2023 or Bottlerocket
	KubernetesVersion string // "1.35"
	Release           string // of the image: "20261119"
	Architecture      string // "x86_64" or "arm64"; empty means the host's
	Region            string
	ImageID           string // "ami-…"
	// Base is a directory with the files of the node image (package nodeimage), which the base image shares.
	Base string
	// CABundle is PEM that is appended to the node image's roots, in all the places where programs look for them.
	CABundle []byte
	// SandboxImage is the pause image, as the kubelet and containerd name it.
	SandboxImage string
	// RegistryMirror is the base URL (with scheme) of the daemon's registry, asked first for every image of any
	// registry; empty means api.ecr.REGION.amazonaws.com, which the VPC's DNS resolves to the daemon.
	RegistryMirror string
	// Program finds a program of the machine on the host: coracle-node, containerd, ... ([upstream.NodePrograms.Path]).
	Program func(name string) (string, error)
	// Kubernetes is the multi-call binary of KubernetesVersion ("kube"), which is the kubelet by its name.
	Kubernetes string
}

// Mount is a bind mount into a machine: a file or a directory of the host that is seen at Target, read-only. Both
// exist.
type Mount struct {
	Source string // on the host
	Target string // in the machine, absolute
}
