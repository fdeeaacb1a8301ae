package instancetype

import (
	"fmt"
	"strings"
	"testing"
)

// What AWS documents about well-known types, and amazon-vpc-cni-k8s has in pkg/vpc/vpc_ip_resource_limit.go.
func TestTypesAreAsPublished(t *testing.T) {
	t.Parallel()
	const published = `
		t2.micro    1 1024   2x2   x86_64
		t2.medium   2 4096   3x6   x86_64
		t2.large    2 8192   3x12  x86_64
		t3.nano     2 512    2x2   x86_64
		t3.micro    2 1024   2x2   x86_64
		t3.small    2 2048   3x4   x86_64
		t3.medium   2 4096   3x6   x86_64
		t3.large    2 8192   3x12  x86_64
		t3.xlarge   4 16384  4x15  x86_64
		t3.2xlarge  8 32768  4x15  x86_64
		t3a.small   2 2048   2x4   x86_64
		t3a.medium  2 4096   3x6   x86_64
		t4g.small   2 2048   3x4   arm64
		t4g.medium  2 4096   3x6   arm64
		m5.large    2 8192   3x10  x86_64
		m5.xlarge   4 16384  4x15  x86_64
		m5.2xlarge  8 32768  4x15  x86_64
		m5.4xlarge  16 65536 8x30  x86_64
		m5.24xlarge 96 393216 15x50 x86_64
		m5.metal    96 393216 15x50 x86_64
		m5a.large   2 8192   3x10  x86_64
		m6g.medium  1 4096   2x4   arm64
		m6g.large   2 8192   3x10  arm64
		m6i.large   2 8192   3x10  x86_64
		m6i.32xlarge 128 524288 15x50 x86_64
		m7g.xlarge  4 16384  4x15  arm64
		m7i.large   2 8192   3x10  x86_64
		m7i-flex.large 2 8192 3x10 x86_64
		m8g.large   2 8192   3x10  arm64
		c5.large    2 4096   3x10  x86_64
		c5.xlarge   4 8192   4x15  x86_64
		c5.9xlarge  36 73728 8x30  x86_64
		c5.18xlarge 72 147456 15x50 x86_64
		c5n.large   2 5376   3x10  x86_64
		c6i.xlarge  4 8192   4x15  x86_64
		c6g.xlarge  4 8192   4x15  arm64
		c7g.medium  1 2048   2x4   arm64
		r5.large    2 16384  3x10  x86_64
		r5.xlarge   4 32768  4x15  x86_64
		r6g.2xlarge 8 65536  4x15  arm64
		r7i.large   2 16384  3x10  x86_64
		g4dn.xlarge 4 16384  3x10  x86_64
		g5.xlarge   4 16384  4x15  x86_64
		g6.xlarge   4 16384  4x15  x86_64`
	for line := range strings.Lines(strings.TrimSpace(published)) {
		name := strings.Fields(line)[0]
		got, ok := Get(name)
		if !ok {
			t.Errorf("%s is unknown", name)
			continue
		}
		if s := fmt.Sprintf("%s %d %d %dx%d %s", got.Name, got.VCPU, got.MemoryMiB, got.MaxENIs, got.IPv4PerENI,
			got.Architecture); s != strings.Join(strings.Fields(line), " ") {
			t.Errorf("got %s, want %s", s, strings.Join(strings.Fields(line), " "))
		}
	}
}

// The numbers of pkg/aws/vpc/limits.go of amazon-vpc-resource-controller-k8s: types without a trunk have no branches.
func TestBranchInterfaces(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{
		"t3.medium": 0, "t3.2xlarge": 0, "m5.large": 9, "m5.xlarge": 18, "m5.4xlarge": 54, "m5.24xlarge": 107,
		"c5.large": 9, "m6g.medium": 4, "m6g.large": 9,
	} {
		if got, _ := Get(name); got.MaxBranchENIs != want {
			t.Errorf("%s has %d branch interfaces, want %d", name, got.MaxBranchENIs, want)
		}
	}
}

// The numbers of eni-max-pods.txt.
func TestMaxPods(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{
		"t3.micro": 4, "t3.small": 11, "t3.medium": 17, "t3.large": 35, "t3.xlarge": 58, "m5.large": 29,
		"m5.xlarge": 58, "m5.4xlarge": 234,
		"m5.16xlarge": 737, "c5.9xlarge": 234, "m6g.medium": 8, "g4dn.xlarge": 29,
	} {
		if got, _ := Get(name); got.MaxPods() != want {
			t.Errorf("%s takes %d pods, want %d", name, got.MaxPods(), want)
		}
	}
}

func TestEveryLineOfTheTableMakesSense(t *testing.T) {
	t.Parallel()
	all := All()
	if len(all) < 800 {
		t.Fatalf("only %d types", len(all))
	}
	seen := map[string]bool{}
	for _, x := range all {
		if seen[x.Name] {
			t.Errorf("%s is there twice", x.Name)
		}
		seen[x.Name] = true
		switch {
		case x.VCPU < 1 || x.MemoryMiB < 512 || x.MaxENIs < 2 || x.IPv4PerENI < 2 || x.OnDemandUSD <= 0 ||
			x.ClockGHz < 2:
			t.Errorf("%+v lacks something", x)
		case x.Architecture != X86_64 && x.Architecture != ARM64, x.Manufacturer == "":
			t.Errorf("%s: architecture %q, manufacturer %q", x.Name, x.Architecture, x.Manufacturer)
		case x.Cores*x.ThreadsPerCore != x.VCPU:
			t.Errorf("%s: %d cores of %d threads are not %d vCPUs", x.Name, x.Cores, x.ThreadsPerCore, x.VCPU)
		case (x.GPUs > 0) != (x.GPUName != ""):
			t.Errorf("%s has %d GPUs named %q", x.Name, x.GPUs, x.GPUName)
		case (x.Hypervisor == "") != x.BareMetal:
			t.Errorf("%s: hypervisor %q, bare metal %v", x.Name, x.Hypervisor, x.BareMetal)
		}
	}
	for name, want := range map[string]string{
		"m5.large": "Up to 10 Gigabit", "m5.8xlarge": "10 Gigabit", "m6i.large": "Up to 12.5 Gigabit",
		"m7g.4xlarge":  "Up to 15 Gigabit",
		"m6i.12xlarge": "18.75 Gigabit", "t3.medium": "Up to 5 Gigabit", "t2.micro": "Low to Moderate",
		"c7gn.16xlarge": "200 Gigabit",
	} {
		if got, _ := Get(name); got.NetworkPerformance != want {
			t.Errorf("%s: %q, want %q", name, got.NetworkPerformance, want)
		}
	}
	for _, unknown := range []string{"", "m5", "m5.huge", "M5.large", "x99.large"} {
		if _, ok := Get(unknown); ok {
			t.Errorf("%q is known", unknown)
		}
	}
}
