// Package instancetype has the catalog of EC2 instance types that AWS publishes: the m, c, r, t and g families.
//
// The numbers are in table.txt, a line per type, and are read once. The VPC CNI depends on the numbers of network
// interfaces and of their addresses, so a test compares them with its table.
//
// https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-types.html
package instancetype

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Architectures, as EC2 and its images call them.
const (
	X86_64 = "x86_64"
	ARM64  = "arm64"
)

// Type is an instance type.
type Type struct {
	Name   string // "m5.large"
	Family string // "m5"
	Size   string // "large"

	VCPU           int
	Cores          int
	ThreadsPerCore int
	MemoryMiB      int
	Architecture   string  // X86_64 or ARM64
	Manufacturer   string  // of the processor: "Intel", "AMD" or "AWS"
	ClockGHz       float64 // sustained

	// MaxENIs is the maximum number of network interfaces, IPv4PerENI and IPv6PerENI the maximum number of addresses of
	// each, its primary one included.
	MaxENIs, IPv4PerENI, IPv6PerENI int
	// MaxBranchENIs is the maximum number of branch network interfaces on a trunk; 0 for types that have no trunk.
	MaxBranchENIs       int
	NetworkPerformance  string // "Up to 10 Gigabit"
	NetworkBaselineMbps int    // 0 where AWS does not say
	EBSBandwidthMbps    int    // at its best; 0 where AWS does not say
	LocalStorageGB      int    // NVMe disks of the host, together
	EncryptionInTransit bool

	GPUs            int
	GPUManufacturer string // "NVIDIA"
	GPUName         string // "A10G"
	GPUMemoryMiB    int    // of each

	Burstable         bool   // pays with CPU credits: the t families
	Hypervisor        string // "nitro" or "xen"; empty for bare metal
	BareMetal         bool
	CurrentGeneration bool

	// OnDemandUSD is the price of an hour of Linux in us-east-1; it orders types as prices do elsewhere, too.
	OnDemandUSD float64
}

//go:embed table.txt
var table string

type catalog struct {
	all    []Type
	byName map[string]int
}

var read = sync.OnceValue(func() catalog {
	c := catalog{byName: make(map[string]int)}
	var family Type
	for number, line := range strings.Split(table, "\n") {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || fields[0] == "#":
			family = Type{}
			continue
		case family.Family == "":
			family = parseFamily(number, fields)
			continue
		}
		t := parseSize(number, family, fields)
		c.byName[t.Name] = len(c.all)
		c.all = append(c.all, t)
	}
	return c
})

func parseFamily(line int, f []string) Type {
	t := Type{
		Family: f[0], Architecture: f[1], Hypervisor: f[3], ClockGHz: float64(parseNumber(line, f[4])) / 1000,
		ThreadsPerCore: parseNumber(line, f[5]),
		Manufacturer:   map[string]string{"intel": "Intel", "amd": "AMD", "aws": "AWS"}[f[2]],
		Burstable:      f[0][0] == 't', CurrentGeneration: true,
		EncryptionInTransit: encrypts(f[0]),
	}
	if len(f) > 6 {
		t.GPUManufacturer, t.GPUName, t.GPUMemoryMiB = f[6], f[7], parseNumber(line, f[8])
	}
	return t
}

// encrypts reports whether the hosts of a family encrypt what they send each other.
func encrypts(family string) bool {
	switch family {
	case "m5dn", "m5n", "m5zn", "c5n", "c5a", "c5ad", "r5dn", "r5n", "g4dn", "g5", "c6gn":
		return true
	}
	generation := family[1]
	return family[0] != 't' && (generation >= '7' || generation == '6' && !strings.HasPrefix(family[1:], "6g"))
}

func parseSize(line int, t Type, f []string) Type {
	t.Size = f[0]
	t.Name = t.Family + "." + t.Size
	t.VCPU, t.MemoryMiB = parseNumber(line, f[1]), parseNumber(line, f[2])
	enis, addresses, _ := strings.Cut(f[3], "x")
	t.MaxENIs, t.IPv4PerENI = parseNumber(line, enis), parseNumber(line, addresses)
	t.IPv6PerENI = t.IPv4PerENI
	baseline, burst, _ := strings.Cut(f[4], "/")
	t.NetworkBaselineMbps = parseNumber(line, baseline)
	switch {
	case burst != "":
		t.NetworkPerformance = "Up to " + burst + " Gigabit"
	case t.NetworkBaselineMbps > 0:
		t.NetworkPerformance = strconv.FormatFloat(float64(t.NetworkBaselineMbps)/1000, 'f', -1, 64) + " Gigabit"
	case t.VCPU >= 4:
		t.NetworkPerformance = "Moderate"
	default:
		t.NetworkPerformance = "Low to Moderate"
	}
	t.EBSBandwidthMbps, t.LocalStorageGB = parseNumber(line, f[5]), parseNumber(line, f[6])
	price, err := strconv.ParseFloat(f[7], 64)
	if err != nil {
		panic(fmt.Sprintf("instancetype: line %d: price %q", line+1, f[7]))
	}
	t.OnDemandUSD = price
	for _, extra := range f[8:] {
		switch name, value, _ := strings.Cut(extra, "="); name {
		case "gpus":
			t.GPUs = parseNumber(line, value)
		case "branches":
			t.MaxBranchENIs = parseNumber(line, value)
		case "clock":
			t.ClockGHz = float64(parseNumber(line, value)) / 1000
		default:
			panic(fmt.Sprintf("instancetype: line %d: %q", line+1, extra))
		}
	}
	if t.BareMetal = strings.HasPrefix(t.Size, "metal"); t.BareMetal {
		t.Hypervisor = ""
	}
	if t.ThreadsPerCore > t.VCPU {
		t.ThreadsPerCore = t.VCPU
	}
	t.Cores = t.VCPU / t.ThreadsPerCore
	return t
}

func parseNumber(line int, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(fmt.Sprintf("instancetype: line %d: %q is not a number", line+1, s))
	}
	return n
}

// Get finds a type by its name, "m5.large".
func Get(name string) (Type, bool) {
	c := read()
	i, ok := c.byName[name]
	if !ok {
		return Type{}, false
	}
	return c.all[i], true
}

// All lists the types, family by family, the smallest of each first.
func All() []Type { return slices.Clone(read().all) }

// MaxPods returns the number of pods that a node of the type takes when each pod has a secondary address, as the EKS
// images calculate it: https://github.com/awslabs/amazon-eks-ami/blob/main/templates/shared/runtime/eni-max-pods.txt
func (t Type) MaxPods() int { return t.MaxENIs*(t.IPv4PerENI-1) + 2 }

// SpotUSD returns the price of an hour as a spot instance: a fixed part of the on-demand price, because there is no
// market here.
func (t Type) SpotUSD() float64 { return t.OnDemandUSD * 0.35 }
