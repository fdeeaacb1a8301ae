//go:build linux

package machine

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
	"github.com/coracle-eks/coracle/internal/host/machine/launch"
	"github.com/coracle-eks/coracle/internal/record"
)

// TestAFargateMachine boots the machine of a Fargate pod: as large as the pod, with files that only its root reads.
func TestAFargateMachine(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]bool{"host's users": false, "own users": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.ownUsers = own
			h.plug(one)
			const config = `{"cluster":"demo"}`
			h.launch(one, "", func(i *record.Instance) {
				i.Fargate = &record.FargateMachine{CPU: 250, Memory: 512, Storage: 20, NodeConfig: []byte(config)}
			})
			h.until(one, "running", inState(ec2types.InstanceStateNameRunning))
			for command, want := range map[string]string{
				"cat " + boot.HostDir + "/" + boot.FargateFile:                config,
				"cat " + boot.HostDir + "/" + boot.FargateTokenFile:           "token of " + one,
				"stat -c '%u %g %a' " + boot.HostDir + "/" + boot.FargateFile: "0 0 600",
				"stat -c %a " + boot.HostDir + "/" + boot.FargateTokenFile:    "600",
				"grep -c ^processor /proc/cpuinfo":                            "1",
				"awk '/^MemTotal:/ { print $2 }' /proc/meminfo":               "524288",
			} {
				if got := h.run(one, command); got != want {
					t.Errorf("%s prints %q, want %q", command, got, want)
				}
			}
			dir := filepath.Join(h.dir, "machines", one)
			spec, err := launch.Read(filepath.Join(dir, launch.SpecFile))
			if want := (cgroup.Limits{CPUs: 1, MilliCPUs: 250, MemoryBytes: 512 << 20}); err != nil || spec.Size != want {
				t.Errorf("its limits are %+v, %v", spec.Size, err)
			}
			if spec.Hardware.InstanceType != "fargate" || spec.Hardware.InstanceID != one {
				t.Errorf("its hardware is %+v", spec.Hardware)
			}
			for _, file := range []string{launch.FargateFile, launch.FargateTokenFile} {
				if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Mode() != 0o600 {
					t.Errorf("on the host, %s is %v, %v", file, info, err)
				}
			}

			// It is not started a second time: another machine gets the pod that replaces its pod.
			if err := syscall.Kill(h.processes.List("machine/")[0].PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			h.until(one, "off", func(m record.Machine) bool {
				return m.PoweredOff && m.State == ec2types.InstanceStateNameStopped
			})
			h.change(one, func(i *record.Instance) { i.Wanted = ec2types.InstanceStateNameTerminated })
			h.until(one, "terminated", inState(ec2types.InstanceStateNameTerminated))
		})
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		cpu, memory int64
		cpus        int
		fails       bool
	}{
		{cpu: 250, memory: 512, cpus: 1},
		{cpu: 1000, memory: 2048, cpus: 1},
		{cpu: 2000, memory: 4096, cpus: 2},
		{cpu: 16000, memory: 120 << 10, cpus: 16},
		{cpu: 0, memory: 512, fails: true},
		{cpu: 250, memory: 0, fails: true},
	} {
		s, err := sizeOf(record.Instance{Fargate: &record.FargateMachine{CPU: test.cpu, Memory: test.memory}})
		if (err != nil) != test.fails || err == nil && (s.limits.CPUs != test.cpus || s.limits.MilliCPUs != test.cpu ||
			s.limits.MemoryBytes != test.memory<<20 || s.hardware.MemoryKiB != test.memory<<10) {
			t.Errorf("%d, %d MiB: %+v, %v", test.cpu, test.memory, s, err)
		}
	}
	if s, err := sizeOf(record.Instance{InstanceType: "m5.large"}); err != nil || s.limits.CPUs != 2 ||
		s.limits.MilliCPUs != 0 || s.limits.MemoryBytes != launch.MemTotal(8192)<<10 || s.name != "m5.large" {
		t.Errorf("an m5.large is %+v, %v", s, err)
	}
	if _, err := sizeOf(record.Instance{InstanceType: "m5.huge"}); err == nil {
		t.Error("an m5.huge has a size")
	}
}
