package simulated

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/instancetype"
	"github.com/coracle-eks/coracle/internal/record"
)

// The machine of a Fargate pod is a node of its cluster as its guest would make it: with another name, label and taint,
// as large as the pod, which has the address of the node.

const (
	fargateCompute = "eks.amazonaws.com/compute-type"
	fargateName    = "fargate"
	// fargatePrefix is the difference between the name of a node and its host name.
	fargatePrefix = fargateName + "-"
)

// fargateNode returns the node that the machine of a Fargate pod becomes.
func fargateNode(i record.Instance) *node {
	return &node{
		cluster: i.Fargate.Cluster,
		labels: map[string]string{
			fargateCompute:                      fargateName,
			corev1.LabelHostname:                strings.TrimPrefix(i.Fargate.NodeName, fargatePrefix),
			corev1.LabelTopologyZone:            i.AvailabilityZone,
			corev1.LabelTopologyRegion:          i.Region,
			corev1.LabelFailureDomainBetaZone:   i.AvailabilityZone,
			corev1.LabelFailureDomainBetaRegion: i.Region,
		},
		taints:  []corev1.Taint{{Key: fargateCompute, Value: fargateName, Effect: corev1.TaintEffectNoSchedule}},
		maxPods: 1,
	}
}

// newFargateKubelet returns the node of a Fargate machine, whose address is that of the cluster's IP family.
func (c *Controller) newFargateKubelet(key string, instance record.Instance, primary record.NetworkInterface,
	boot *node, family ekstypes.IpFamily) (*kubelet, error) {
	addresses := primary.PrivateIPs
	if family == ekstypes.IpFamilyIpv6 {
		addresses = primary.IPv6IPs
	}
	if len(addresses) == 0 {
		return nil, errors.New("the network interface has no address of the cluster's IP family")
	}
	ip, err := netip.ParseAddr(addresses[0])
	if err != nil {
		return nil, fmt.Errorf("the primary address of network interface %s: %w", primary.ID, err)
	}
	f := instance.Fargate
	image, _ := ami.Get(instance.Region, instance.ImageID)
	kind := instancetype.Type{Name: fargateName, VCPU: int((f.CPU + 999) / 1000), MemoryMiB: int(f.Memory),
		Architecture: instancetype.X86_64}
	if runtime.GOARCH == "arm64" { // as the image is
		kind.Architecture = instancetype.ARM64
	}
	k := &kubelet{key: key, instance: instance, boot: boot, ip: ip, kind: kind, image: image, name: f.NodeName,
		maxPods: boot.maxPods}
	k.pool.init(c, k)
	return k, nil
}

// providerID returns the provider ID of the node.
func (k *kubelet) providerID() string {
	if f := k.instance.Fargate; f != nil {
		return "aws:///" + k.instance.AvailabilityZone + "/" + f.Capacity + "/" + f.NodeName
	}
	return "aws:///" + k.instance.AvailabilityZone + "/" + k.instance.ID
}

// fargateResources returns the capacity of the machine of a Fargate pod, and what its kubelet leaves of it to the pod:
// all but the memory below which it evicts.
func fargateResources(f record.FargateMachine) (capacity, allocatable corev1.ResourceList) {
	const mebi, gibi, evicted = 1 << 20, 1 << 30, 100
	capacity = corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewMilliQuantity(f.CPU, resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(f.Memory*mebi, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(f.Storage*gibi, resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(1, resource.DecimalSI),
		"hugepages-1Gi":                 *resource.NewQuantity(0, resource.DecimalSI),
		"hugepages-2Mi":                 *resource.NewQuantity(0, resource.DecimalSI),
	}
	allocatable = capacity.DeepCopy()
	allocatable[corev1.ResourceMemory] = *resource.NewQuantity(max(0, f.Memory-evicted)*mebi, resource.BinarySI)
	return capacity, allocatable
}

// reportFailure records why the machine of a Fargate pod is no node: nobody reads its console. An empty reason records
// that nothing is wrong any more.
func (k *kubelet) reportFailure(ctx context.Context, reason string) {
	if k.instance.Fargate == nil {
		return
	}
	err := k.fleet.c.observe(ctx, k.key, k.instance, func(m *record.Machine) {
		if m.Failing = reason; reason == "" {
			m.FailingSince = time.Time{}
		} else if m.FailingSince.IsZero() {
			m.FailingSince = time.Now().UTC()
		}
	})
	if err != nil && ctx.Err() == nil {
		k.fleet.c.log.Error("record why a Fargate machine is no node", "instance", k.instance.ID, "error", err)
	}
}
