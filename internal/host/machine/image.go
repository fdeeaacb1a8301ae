//go:build linux

package machine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/guest/rootfs"
	"github.com/coracle-eks/coracle/internal/record"
)

// Sources provides the parts of machines.
type Sources struct {
	// Program finds a program of machines on the host (upstream.NodePrograms.Path), Kubernetes the programs of a minor
	// version (upstream.Bundles.Find).
	Program    func(name string) (string, error)
	Kubernetes func(minor string) (string, error)
	// Base returns a directory with the files of the node image, named after it.
	Base func(context.Context) (dir string, err error)
	// Sandbox is the pause image of a version in a region, and Golden a directory of containerd in which the images
	// that nodes of a version need are unpacked. Golden may be nil.
	Sandbox func(region, minor string) string
	Golden  func(ctx context.Context, region, minor string) (dir string, err error)
	// CABundle is PEM that machines trust; RegistryMirror is the base URL of the daemon's registry as machines reach
	// it, if not by EKS's names.
	CABundle       []byte
	RegistryMirror string
}

// Image returns the parts that the machine of an instance is made of, as Options.Images requires.
func (s Sources) Image(ctx context.Context, i record.Instance) (Image, error) {
	image, ok := ami.Get(i.Region, i.ImageID)
	if !ok {
		return Image{}, fmt.Errorf("there is no image %s in %s", i.ImageID, i.Region)
	}
	node, err := s.Program("coracle-node")
	if err != nil {
		return Image{}, err
	}
	base, err := s.Base(ctx)
	if err != nil {
		return Image{}, err
	}
	o := rootfs.Options{
		Family: string(image.Family), KubernetesVersion: image.KubernetesVersion, Release: image.Release,
		Architecture: image.Architecture, Region: i.Region,
		Base: base, CABundle: s.CABundle, RegistryMirror: s.RegistryMirror, Program: s.Program,
	}
	made := Image{
		Node:   node,
		Write:  func(dir string) error { return rootfs.Write(dir, o) },
		Mounts: func() ([]rootfs.Mount, error) { return rootfs.Mounts(o) },
	}
	if image.KubernetesVersion != "" {
		o.SandboxImage = s.Sandbox(i.Region, image.KubernetesVersion)
		if o.Kubernetes, err = s.Kubernetes(image.KubernetesVersion); err != nil {
			return Image{}, fmt.Errorf("the kubelet of Kubernetes %s: %w", image.KubernetesVersion, err)
		}
		if s.Golden != nil {
			made.Containerd = func(ctx context.Context) (string, error) {
				return s.Golden(ctx, i.Region,
					image.KubernetesVersion)
			}
		}
	}
	// What a base image is made of names it, the program that writes it included.
	program, err := self()
	if err != nil {
		return Image{}, err
	}
	sum := sha256.New()
	fmt.Fprintln(sum, program, filepath.Base(base), image.ID, o.SandboxImage, o.RegistryMirror)
	sum.Write(s.CABundle)
	made.Name = image.Name + "." + hex.EncodeToString(sum.Sum(nil)[:6])
	return made, nil
}

// self identifies this build of the program.
var self = sync.OnceValues(func() (string, error) {
	info, err := os.Stat("/proc/self/exe")
	if err != nil {
		return "", err
	}
	return fmt.Sprint(info.Size(), info.ModTime().UnixNano()), nil
})
