// Package ami is the catalog of machine images: the EKS-optimized images of Amazon Linux 2, Amazon Linux 2023 and
// Bottlerocket for every Kubernetes version that is served, and the plain Amazon Linux images.
//
// An image is a name for a root file system that the machine's host makes (internal/guest/rootfs); nothing is
// downloaded. Names, owners, release versions and Systems Manager parameters are formed as AWS forms them, and an
// image's ID follows from its region and its name, so that it is the same in every daemon and after every start.
//
// https://docs.aws.amazon.com/eks/latest/userguide/eks-optimized-amis.html
package ami

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coracle-eks/coracle/internal/amazonaccount"
	"github.com/coracle-eks/coracle/kubernetes"
)

// Family is the operating system of an image.
type Family string

// The families.
const (
	AL2          Family = "al2"
	AL2023       Family = "al2023"
	Bottlerocket Family = "bottlerocket"
)

// The owners of the images.
const (
	EKSOwner          = amazonaccount.EKS
	BottlerocketOwner = amazonaccount.Bottlerocket
	AmazonOwner       = amazonaccount.AmazonLinux
)

// Variants. A plain image has no Kubernetes.
const (
	Standard = "standard"
	Nvidia   = "nvidia"
	Plain    = "plain"
)

// Image is a machine image of Amazon's.
type Image struct {
	ID          string // "ami-0…"
	Name        string // "amazon-eks-node-al2023-x86_64-standard-1.35-v20261105"
	Description string
	Owner       string // the account
	OwnerAlias  string // "amazon"
	Family      Family
	// KubernetesVersion is the minor version, "1.35"; empty for plain images.
	KubernetesVersion string
	// Release is the version of the image as EKS node groups say it: "1.35.4-20261105"; of Bottlerocket
	// "1.63.0-1f2e3d4c".
	Release        string
	Architecture   string // "x86_64" or "arm64"
	Variant        string
	RootDeviceName string // "/dev/xvda"
	RootSnapshotID string
	// RootVolumeGiB is the size of the root volume; DataVolumeGiB, if not 0, that of Bottlerocket's second volume, at
	// DataDeviceName.
	RootVolumeGiB, DataVolumeGiB int
	CreatedAt                    time.Time
	// Parameter are the public Systems Manager parameters that say the image: paths below which are image_id,
	// image_name (or image_version) and the like; of a plain image the parameters themselves.
	Parameter []string
}

// FilesDevice returns the name of the device on which a machine keeps what it writes: the root device, but with
// Bottlerocket, which writes nothing to that, the second one.
func (i Image) FilesDevice() string {
	if i.DataVolumeGiB > 0 {
		return DataDeviceName
	}
	return i.RootDeviceName
}

// DataDeviceName is the name of Bottlerocket's second device.
const DataDeviceName = "/dev/xvdb"

// releases are the days of the EKS images, the newest first, with the Bottlerocket release of the time.
var releases = []struct {
	day          time.Time
	bottlerocket string
}{
	{time.Date(2026, 11, 5, 0, 0, 0, 0, time.UTC), "1.63.0"},
	{time.Date(2026, 10, 22, 0, 0, 0, 0, time.UTC), "1.62.1"},
}

var architectures = []string{"x86_64", "arm64"}

type catalog struct {
	all  []Image
	byID map[string]int
}

var (
	mutex   sync.Mutex
	regions = make(map[string]*catalog)
)

func catalogForRegion(region string) *catalog {
	mutex.Lock()
	defer mutex.Unlock()
	c := regions[region]
	if c == nil {
		c = &catalog{byID: make(map[string]int)}
		add := func(i Image) {
			i.ID, i.RootSnapshotID = identifier("ami", region, i.Name), identifier("snap", region, i.Name)
			i.RootDeviceName, i.OwnerAlias = "/dev/xvda", "amazon"
			c.byID[i.ID] = len(c.all)
			c.all = append(c.all, i)
		}
		for _, v := range kubernetes.Versions() {
			for n := range releases {
				amazonLinux2(v, n, add)
				amazonLinux2023(v, n, add)
				bottlerocket(v, n, add)
			}
		}
		addPlainImages(add)
		regions[region] = c
	}
	return c
}

// containerd is the minor version of containerd in the images, which is that of all nodes: node/source/programs.mod.
const containerd = "2.4"

func amazonLinux2(v kubernetes.Version, release int, add func(Image)) {
	day := releases[release].day.Format("20060102")
	for _, x := range []struct{ infix, parameter, architecture, variant string }{
		{"", "amazon-linux-2", "x86_64", Standard},
		{"-arm64", "amazon-linux-2-arm64", "arm64", Standard},
		{"-gpu", "amazon-linux-2-gpu", "x86_64", Nvidia},
	} {
		name := fmt.Sprintf("amazon-eks%s-node-%s-v%s", x.infix, v.Minor, day)
		add(completeEKSImage(v, release, Image{
			Name: name, Family: AL2, Architecture: x.architecture, Variant: x.variant, RootVolumeGiB: 20,
			Description: fmt.Sprintf("EKS Kubernetes Worker AMI with AmazonLinux2 image, (k8s: %s, containerd: %s.*)",
				v.Patch(), containerd),
		}, "/aws/service/eks/optimized-ami/"+v.Minor+"/"+x.parameter))
	}
}

func amazonLinux2023(v kubernetes.Version, release int, add func(Image)) {
	day := releases[release].day.Format("20060102")
	for _, architecture := range architectures {
		for _, variant := range []string{Standard, Nvidia} {
			add(completeEKSImage(v, release, Image{
				Name:   fmt.Sprintf("amazon-eks-node-al2023-%s-%s-%s-v%s", architecture, variant, v.Minor, day),
				Family: AL2023, Architecture: architecture, Variant: variant, RootVolumeGiB: 20,
				Description: fmt.Sprintf(
					"EKS-optimized Kubernetes node based on Amazon Linux 2023, (k8s: %s, containerd: %s.*)",
					v.Patch(), containerd),
			}, "/aws/service/eks/optimized-ami/"+v.Minor+"/amazon-linux-2023/"+architecture+"/"+variant))
		}
	}
}

// completeEKSImage completes an Amazon Linux image whose parameters are below a path.
func completeEKSImage(v kubernetes.Version, release int, i Image, path string) Image {
	day := releases[release].day
	i.Owner, i.KubernetesVersion, i.CreatedAt = EKSOwner, v.Minor, day.Add(7*time.Hour)
	i.Release = v.Patch() + "-" + day.Format("20060102")
	if release == 0 {
		i.Parameter = append(i.Parameter, path+"/recommended")
	}
	i.Parameter = append(i.Parameter, path+"/"+i.Name)
	return i
}

func bottlerocket(v kubernetes.Version, release int, add func(Image)) {
	version := releases[release].bottlerocket
	commit := hashParts("bottlerocket", version)[:8]
	for _, architecture := range architectures {
		for _, variant := range []string{Standard, Nvidia} {
			flavor := "aws-k8s-" + v.Minor
			if variant != Standard {
				flavor += "-" + variant
			}
			name := fmt.Sprintf("bottlerocket-%s-%s-v%s-%s", flavor, architecture, version, commit)
			path := "/aws/service/bottlerocket/" + flavor + "/" + architecture
			i := Image{
				Name: name, Description: name, Owner: BottlerocketOwner, Family: Bottlerocket,
				KubernetesVersion: v.Minor,
				Release:           version + "-" + commit, Architecture: architecture, Variant: variant,
				RootVolumeGiB: 2, DataVolumeGiB: 20, CreatedAt: releases[release].day.Add(20 * time.Hour),
			}
			if release == 0 {
				i.Parameter = append(i.Parameter, path+"/latest")
			}
			i.Parameter = append(i.Parameter, path+"/"+version, path+"/"+version+"-"+commit)
			add(i)
		}
	}
}

// addPlainImages adds the images of Amazon Linux without Kubernetes.
func addPlainImages(add func(Image)) {
	const root = "/aws/service/ami-amazon-linux-latest/"
	made := time.Date(2026, 10, 30, 22, 0, 0, 0, time.UTC)
	for _, architecture := range architectures {
		add(Image{
			Name:        "al2023-ami-2023.9.20261030.0-kernel-6.12-" + architecture,
			Description: "Amazon Linux 2023 AMI 2023.9.20261030.0 " + architecture + " HVM kernel-6.12",
			Owner:       AmazonOwner, Family: AL2023, Release: "2023.9.20261030.0", Architecture: architecture,
			Variant: Plain, RootVolumeGiB: 8, CreatedAt: made,
			Parameter: []string{root + "al2023-ami-kernel-default-" + architecture, root + "al2023-ami-kernel-6.12-" +
				architecture},
		})
		add(Image{
			Name:        "amzn2-ami-kernel-5.10-hvm-2.0.20261030.0-" + architecture + "-gp2",
			Description: "Amazon Linux 2 Kernel 5.10 AMI 2.0.20261030.0 " + architecture + " HVM gp2",
			Owner:       AmazonOwner, Family: AL2, Release: "2.0.20261030.0", Architecture: architecture,
			Variant: Plain, RootVolumeGiB: 8, CreatedAt: made,
			Parameter: []string{root + "amzn2-ami-kernel-5.10-hvm-" + architecture + "-gp2", root + "amzn2-ami-hvm-" +
				architecture + "-gp2"},
		})
	}
}

func hashParts(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d %s\n", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func identifier(prefix, region, name string) string {
	return prefix + "-0" + hashParts(prefix, region, name)[:16]
}

// All lists the images of a region.
func All(region string) []Image { return slices.Clone(catalogForRegion(region).all) }

// Get finds an image of a region by its ID.
func Get(region, id string) (Image, bool) {
	c := catalogForRegion(region)
	i, ok := c.byID[id]
	if !ok {
		return Image{}, false
	}
	return c.all[i], true
}
