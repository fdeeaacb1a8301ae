package fargate

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
)

const (
	mebibyte = int64(1) << 20
	gibibyte = int64(1) << 30

	// componentsMemory is what the kubelet, kube-proxy and containerd get beside the pod, in MiB.
	componentsMemory = 256

	// defaultStorage is the ephemeral storage of a pod that asks for none, and systemStorage what the system gets of more
	// than that, in GiB. maxStorage is what a pod may ask for, in GiB.
	defaultStorage, systemStorage, maxStorage = 20, 5, 175
)

// Size is the capacity that a pod is given.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-pod-configuration.html
type Size struct {
	CPU     int64 // millicores
	Memory  int64 // MiB
	Storage int64 // GiB: what is provisioned, with what the file system and the system take of it
}

// String returns the value of the annotation [CapacityAnnotation], such as "0.25vCPU 0.5GB".
func (s Size) String() string {
	number := func(n, unit int64) string { return strconv.FormatFloat(float64(n)/float64(unit), 'f', -1, 64) }
	return number(s.CPU, 1000) + "vCPU " + number(s.Memory, 1024) + "GB"
}

// combination is a number of vCPUs with the amounts of memory that Fargate has for it.
type combination struct {
	cpu    int64   // millicores
	memory []int64 // MiB, ascending
}

// combinations are those of Fargate, by CPU.
var combinations = []combination{
	{250, []int64{512, 1024, 2048}},
	{500, gigabytes(1, 4, 1)},
	{1000, gigabytes(2, 8, 1)},
	{2000, gigabytes(4, 16, 1)},
	{4000, gigabytes(8, 30, 1)},
	{8000, gigabytes(16, 60, 4)},
	{16000, gigabytes(32, 120, 8)},
}

func gigabytes(from, to, by int64) (memory []int64) {
	for n := from; n <= to; n += by {
		memory = append(memory, n*1024)
	}
	return memory
}

// A SizeError is the error of a pod that asks for more than Fargate has.
type SizeError struct {
	// Reason is that of the pod's condition PodScheduled.
	Reason string
	// Message is the text of the condition and of the event.
	Message string
}

func (e *SizeError) Error() string { return e.Message }

// The largest requests: beyond them a quantity may not fit in the numbers here.
var (
	mostCPU     = resource.MustParse("16")
	mostMemory  = resource.MustParse("120Gi")
	mostStorage = *resource.NewQuantity(maxStorage*gibibyte, resource.BinarySI)
)

// SizeOf returns the capacity for a pod: the smallest combination with what the pod requests and what Kubernetes itself
// takes. Of init containers the largest counts, and side-cars count with the containers. The error is a [SizeError].
func SizeOf(pod *corev1.Pod) (Size, error) {
	requests := podresource.PodRequests(pod, podresource.PodResourcesOptions{})
	storage, err := storageOf(requests[corev1.ResourceEphemeralStorage])
	if err != nil {
		return Size{}, err
	}
	cpu, memory := requests[corev1.ResourceCPU], requests[corev1.ResourceMemory]
	if cpu.Sign() < 0 || memory.Sign() < 0 {
		return Size{}, negative()
	}
	if cpu.Cmp(mostCPU) <= 0 && memory.Cmp(mostMemory) <= 0 {
		needed := roundUp(memory.Value(), mebibyte) + componentsMemory
		for _, c := range combinations {
			if cpu.MilliValue() > c.cpu {
				continue
			}
			for _, m := range c.memory {
				if needed <= m {
					return Size{CPU: c.cpu, Memory: m, Storage: storage}, nil
				}
			}
		}
	}
	return Size{}, &SizeError{"POD_CPU_MEM_EXCEEDS_MAX_FARGATE_SIZE",
		"Your pod's cpu/memory requirements exceed the max Fargate configuration"}
}

// negative returns the error of a pod that requests less than nothing, which API servers of Kubernetes refuse.
func negative() error {
	return &SizeError{UnsupportedReason, UnsupportedPrefix + "resource requests are negative"}
}

// storageOf returns the ephemeral storage to provision, in GiB: a tenth more than requested for the file system, and 5
// GiB for the system.
// https://aws.amazon.com/blogs/containers/amazon-eks-fargate-adds-support-for-larger-ephemeral-volumes/
func storageOf(requested resource.Quantity) (int64, error) {
	if requested.Sign() < 0 {
		return 0, negative()
	}
	if requested.Cmp(mostStorage) > 0 {
		return 0, &SizeError{"POD_EPHEMERAL_STORAGE_EXCEEDS_MAX_FARGATE_SIZE",
			"Your pod's ephemeral-storage requirements exceed the max Fargate configuration of " +
				strconv.Itoa(maxStorage) + "Gi"}
	}
	if requested.IsZero() {
		return defaultStorage, nil
	}
	bytes := requested.Value()
	return max(defaultStorage, roundUp(bytes+roundUp(bytes, 10)+systemStorage*gibibyte, gibibyte)), nil
}

// roundUp returns how many units n takes.
func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit }
