// Package node implements what bootstrap.sh, nodeadm and Bottlerocket's settings have in common: what an instance knows
// about itself, what it asks AWS, and what EKS reserves on a node.
package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/coracle-eks/coracle/internal/durable"
	"github.com/coracle-eks/coracle/internal/guest/imds"
	"github.com/coracle-eks/coracle/internal/guest/rootfs"
	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
	"github.com/coracle-eks/coracle/internal/instancetype"
)

// Instance has the data of an instance about itself.
type Instance struct {
	ID               string `json:"id,omitempty"`
	Region           string `json:"region,omitempty"`
	Type             string `json:"type,omitempty"`
	AvailabilityZone string `json:"availabilityZone,omitempty"`
	MAC              string `json:"mac,omitempty"`
	PrivateDNSName   string `json:"privateDnsName,omitempty"`
}

// Describe asks the metadata service; PrivateDNSName is left empty.
func Describe(ctx context.Context, c *imds.Client) (Instance, error) {
	d, err := c.Identity(ctx)
	if err != nil {
		return Instance{}, err
	}
	mac, err := c.Meta(ctx, "mac")
	return Instance{ID: d.InstanceID, Region: d.Region, Type: d.InstanceType, AvailabilityZone: d.AvailabilityZone,
		MAC: mac}, err
}

// ProviderID returns the provider ID by which the cloud controller manager identifies the instance.
func (i Instance) ProviderID() string { return "aws:///" + i.AvailabilityZone + "/" + i.ID }

// ReadImage returns the machine's information about its image.
func ReadImage(root string) (rootfs.Image, error) {
	var image rootfs.Image
	data, err := os.ReadFile(filepath.Join("/", root, rootfs.ImageFile))
	if err != nil {
		return image, fmt.Errorf("find out which image this machine has: %w", err)
	}
	return image, json.Unmarshal(data, &image)
}

// KubeletVersion returns the version of an image's kubelet: "v1.35.4", or "v1.35.0" when the release does not include
// the patch.
func KubeletVersion(image rootfs.Image) string {
	if version, _, ok := strings.Cut(image.Release, "-"); ok && strings.HasPrefix(version, image.KubernetesVersion+
		".") {
		return "v" + version
	}
	return "v" + image.KubernetesVersion + ".0"
}

// AtLeast reports whether a kubelet's version, "v1.35.4", is of a minor version ("1.34") or later.
func AtLeast(version, minor string) bool {
	number := func(s string) int {
		parts := strings.Split(strings.TrimPrefix(s, "v"), ".")
		major, _ := strconv.Atoi(parts[0])
		n := 0
		if len(parts) > 1 {
			n, _ = strconv.Atoi(parts[1])
		}
		return major*1000 + n
	}
	return number(version) >= number(minor)
}

// MaxPods returns the maximum number of pods on an instance type with the VPC CNI; false when the type is not known.
func MaxPods(instanceType string) (int, bool) {
	t, ok := instancetype.Get(instanceType)
	return t.MaxPods(), ok
}

// ReservedCPU returns what EKS reserves of a number of CPUs, in millicores: 6% of the first, 1% of the second, 0.5% of
// the next two, 0.25% of the rest.
func ReservedCPU(cpus int) int {
	total := cpus * 1000
	bounds, share := []int{0, 1000, 2000, 4000, total}, []int{600, 100, 50, 25}
	sum := 0
	for i, s := range share {
		if total > bounds[i] {
			sum += (min(total, bounds[i+1]) - bounds[i]) * s / 10000
		}
	}
	return sum
}

// ReservedMemory returns what EKS reserves for a number of pods, in MiB.
func ReservedMemory(maxPods int) int { return 11*maxPods + 255 }

// CPUs returns the number of processors that the machine shows.
func CPUs() int {
	data, _ := os.ReadFile("/proc/cpuinfo")
	count := 0
	for _, line := range strings.Split(string(data), "\n") {
		if strings.HasPrefix(line, "processor") {
			count++
		}
	}
	return max(count, 1)
}

// HasOwnDisk reports whether the machine keeps its files on a disk of its own, whose size bounds them.
func HasOwnDisk(root string) bool {
	_, err := os.Stat(filepath.Join("/", root, boot.HostDir, boot.DiskFile))
	return err == nil
}

// InUserNamespace reports whether the machine's users are not those of the host.
func InUserNamespace(root string) bool {
	data, err := os.ReadFile(filepath.Join("/", root, "proc/self/uid_map"))
	return err == nil && strings.Join(strings.Fields(string(data)), " ") != "0 0 4294967295"
}

// CgroupV1 reports whether the machine has cgroup v1, which the kubelet refuses unless it is configured otherwise.
func CgroupV1(root string) bool {
	_, err := os.Stat(filepath.Join("/", root, "sys/fs/cgroup/cgroup.controllers"))
	return err != nil
}

// KernelDefaults are the kernel parameters that the kubelet requires (protectKernelDefaults), by their files below
// /proc/sys.
var KernelDefaults = map[string]string{
	"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
	"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
}

// HasKernelDefaults reports whether the machine shows KernelDefaults, as its host has it do.
func HasKernelDefaults(root string) bool {
	for name, want := range KernelDefaults {
		data, err := os.ReadFile(filepath.Join("/", root, "proc/sys", name))
		if err != nil || strings.TrimSpace(string(data)) != want {
			return false
		}
	}
	return true
}

// ClusterDNS returns the address of kube-dns in a service CIDR: the tenth.
func ClusterDNS(cidr string) (string, error) {
	p, err := netip.ParsePrefix(cidr)
	if err != nil {
		return "", fmt.Errorf("%s is not a valid IP Address. error: invalid CIDR address: %s", cidr, cidr)
	}
	if p.Addr().Is6() {
		return strings.Split(cidr, "/")[0] + "a", nil
	}
	return cidr[:strings.LastIndex(cidr, ".")] + ".10", nil
}

// NodeIP returns the address that the kubelet registers, of the family of the cluster.
func NodeIP(ctx context.Context, c *imds.Client, mac string, ipv6 bool) (string, error) {
	if !ipv6 {
		return c.Meta(ctx, "local-ipv4")
	}
	addresses, err := c.Meta(ctx, "network/interfaces/macs/"+mac+"/ipv6s")
	if errors.Is(err, imds.ErrNotFound) {
		return "", errors.New("the instance has no IPv6 address, which the cluster's IP family needs")
	}
	first, _, _ := strings.Cut(addresses, "\n")
	return first, err
}

// Kubeconfig returns the kubeconfig of the kubelet: it asks aws-iam-authenticator for a token of the instance's role at
// every use.
func Kubeconfig(endpoint, cluster, region string) string {
	return `apiVersion: v1
kind: Config
clusters:
- cluster:
    certificate-authority: /etc/kubernetes/pki/ca.crt
    server: ` + endpoint + `
  name: kubernetes
contexts:
- context:
    cluster: kubernetes
    user: kubelet
  name: kubelet
current-context: kubelet
users:
- name: kubelet
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      command: /usr/bin/aws-iam-authenticator
      args:
        - "token"
        - "-i"
        - "` + cluster + `"
        - --region
        - "` + region + `"
`
}

// WriteFile writes a file below root with its directories, at once.
func WriteFile(root, name, content string, mode os.FileMode) error {
	path := filepath.Join("/", root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return durable.WriteFile(path, []byte(content), mode)
}
