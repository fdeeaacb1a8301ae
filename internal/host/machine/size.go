//go:build linux

package machine

import (
	"fmt"

	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
	"github.com/coracle-eks/coracle/internal/host/machine/launch"
	"github.com/coracle-eks/coracle/internal/instancetype"
	"github.com/coracle-eks/coracle/internal/record"
)

// size is what a machine has of processors and memory.
type size struct {
	name         string // of the instance type, as the machine's firmware tells it
	architecture string // that it is for; empty when it is for that of any host
	limits       cgroup.Limits
	hardware     launch.Hardware // without what identifies the machine
}

// fargateType is what the firmware of a Fargate machine says in place of an instance type.
const fargateType = "fargate"

// sizeOf returns the size of the machine of an instance: that of its type, or exactly what a Fargate pod has.
func sizeOf(i record.Instance) (size, error) {
	if f := i.Fargate; f != nil {
		if f.CPU <= 0 || f.Memory <= 0 {
			return size{}, fmt.Errorf("a machine with %d thousandths of a CPU and %d MiB of memory cannot be", f.CPU, f.Memory)
		}
		cpus := int((f.CPU + 999) / 1000)
		return size{
			name:     fargateType,
			limits:   cgroup.Limits{CPUs: cpus, MilliCPUs: f.CPU, MemoryBytes: f.Memory << 20},
			hardware: launch.Hardware{CPUs: cpus, ThreadsPerCore: 1, MemoryKiB: f.Memory << 10},
		}, nil
	}
	kind, ok := instancetype.Get(string(i.InstanceType))
	if !ok {
		return size{}, fmt.Errorf("there is no instance type %s", i.InstanceType)
	}
	memory := launch.MemTotal(kind.MemoryMiB)
	return size{
		name: kind.Name, architecture: kind.Architecture,
		limits: cgroup.Limits{CPUs: kind.VCPU, MemoryBytes: memory << 10},
		hardware: launch.Hardware{CPUs: kind.VCPU, ThreadsPerCore: kind.ThreadsPerCore, ClockMHz: kind.ClockGHz * 1000,
			MemoryKiB: memory},
	}, nil
}
