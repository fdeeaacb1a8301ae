//go:build linux

package machine

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
)

// Measurement is what a machine has taken of this host: memory now, the others since it was started.
type Measurement struct {
	Memory int64 // bytes, without files that the kernel can forget
	CPU    time.Duration
	// Network reports whether the counters of the machine's network interfaces could be read: bytes and packets.
	Network               bool
	In, Out               int64
	PacketsIn, PacketsOut int64
}

// Measure returns what the machine of an instance takes, by the process that launched it. It reads files of the kernel
// alone, of a bounded size.
func Measure(owner, instanceID string, launcher int) (m Measurement, err error) {
	host, err := cgroup.Open()
	if err != nil {
		return m, err
	}
	group := host.Group(owner, instanceID)
	if m.CPU, err = group.CPUTime(); err != nil {
		return m, fmt.Errorf("measure the machine of %s: %w", instanceID, err)
	}
	m.Memory = group.WorkingSet()
	if init, ok := initChild(launcher); ok {
		f, err := os.Open(fmt.Sprintf("/proc/%d/net/dev", init))
		if err == nil {
			defer f.Close()
			m.readNetwork(f)
		}
	}
	return m, nil
}

// maxDevices bounds what is read of the list of network devices, of which a machine may have as many as it likes: the
// network interfaces that it was started with come first.
const maxDevices = 256 << 10

// readNetwork adds up the counters of eth0, eth1, ..., which are the network interfaces of the instance. What a pod
// sends to another of the same machine is not among it.
func (m *Measurement) readNetwork(devices io.Reader) {
	lines := bufio.NewScanner(io.LimitReader(devices, maxDevices))
	for lines.Scan() {
		name, counters, ok := strings.Cut(strings.TrimSpace(lines.Text()), ":")
		number, isInterface := strings.CutPrefix(name, "eth")
		if _, err := strconv.ParseUint(number, 10, 8); !ok || !isInterface || err != nil {
			continue
		}
		fields := strings.Fields(counters)
		if len(fields) < 16 {
			continue
		}
		for i, sum := range map[int]*int64{0: &m.In, 1: &m.PacketsIn, 8: &m.Out, 9: &m.PacketsOut} {
			n, err := strconv.ParseInt(fields[i], 10, 64)
			if err != nil {
				return
			}
			*sum += n
		}
		m.Network = true
	}
}

// DiskActivity is what was read from and written to disks since they were attached.
type DiskActivity struct{ ReadOps, WriteOps, ReadBytes, WriteBytes int64 }

// DiskActivities returns the activity of the volumes of all instances of an owner, by volume and instance. The kernel
// counts it for the loop device that the volume is in a machine: whoever wrote a page of memory, which cgroups of
// version 1 do not know once it is on its way to the disk.
func DiskActivities(owner string) (map[string]map[string]DiskActivity, error) {
	devices, err := loopdevice.List(owner)
	if err != nil {
		return nil, fmt.Errorf("list the disks of machines: %w", err)
	}
	all := map[string]map[string]DiskActivity{}
	for _, d := range devices {
		text, err := os.ReadFile(filepath.Join("/sys/block", "loop"+strconv.Itoa(d.Number), "stat"))
		if err != nil {
			continue // it has just been detached
		}
		activity, ok := parseBlockStat(string(text))
		if !ok {
			continue
		}
		if all[d.Name.InstanceID] == nil {
			all[d.Name.InstanceID] = map[string]DiskActivity{}
		}
		all[d.Name.InstanceID][d.Name.Volume] = activity
	}
	return all, nil
}

// parseBlockStat reads the counters of a block device (Documentation/block/stat.rst): requests and sectors of 512
// bytes, of reads and of writes.
func parseBlockStat(text string) (a DiskActivity, ok bool) {
	fields := strings.Fields(text)
	if len(fields) < 7 {
		return a, false
	}
	for i, value := range map[int]*int64{0: &a.ReadOps, 2: &a.ReadBytes, 4: &a.WriteOps, 6: &a.WriteBytes} {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return a, false
		}
		*value = n
	}
	a.ReadBytes, a.WriteBytes = a.ReadBytes*512, a.WriteBytes*512
	return a, true
}
