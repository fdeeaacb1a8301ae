package resourceusage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/datapoint"
	"github.com/coracle-eks/coracle/internal/host/filetree"
	"github.com/coracle-eks/coracle/internal/instancetype"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/record"
)

// Namespaces of the metrics.
const (
	ec2Namespace = "AWS/EC2"
	own          = "Coracle"
)

// Units of CloudWatch.
const (
	bytesUnit   = "Bytes"
	countUnit   = "Count"
	percentUnit = "Percent"
)

// pass is one round of samples.
type pass struct {
	c         *Controller
	elapsed   float64 // seconds since the last pass; 0 when there is none
	samples   []datapoint.Sample
	counters  map[string]counter
	instances []instance
	clusters  map[string]record.Cluster // by ID
	volumes   map[string][]string       // IDs by instance
}

// instance is one whose machine runs.
type instance struct {
	record.Instance
	machine record.Machine
}

func (c *Controller) newPass(ctx context.Context, now time.Time) (*pass, error) {
	p := &pass{c: c, counters: map[string]counter{}, clusters: map[string]record.Cluster{}, volumes: map[string][]string{}}
	if !c.last.IsZero() {
		p.elapsed = now.Sub(c.last).Seconds()
	}
	clusters, err := c.clusters.List(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, row := range clusters {
		p.clusters[row.Value.ID] = row.Value
	}
	instances, err := c.instances.List(ctx, "")
	if err != nil {
		return nil, err
	}
	machines, err := c.machines.List(ctx, "")
	if err != nil {
		return nil, err
	}
	observed := make(map[string]record.Machine, len(machines))
	for _, row := range machines {
		observed[row.Key] = row.Value
	}
	for _, row := range instances {
		m := observed[row.Key]
		if record.InstanceState(row.Value, m) == ec2types.InstanceStateNameRunning {
			p.instances = append(p.instances, instance{row.Value, m})
		}
	}
	if c.o.Machine == nil {
		return p, nil
	}
	volumes, err := c.volumes.List(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, row := range volumes {
		for _, id := range row.Value.InstanceIDs() {
			p.volumes[id] = append(p.volumes[id], row.Value.ID)
		}
	}
	return p, nil
}

// owner is whose a metric is, and where.
type owner struct{ account, region string }

// host returns who has the metrics of the host, in every region.
func (p *pass) host() owner { return owner{account: p.c.o.Account} }

func (p *pass) add(o owner, namespace, name, unit string, value float64, dimensions ...datapoint.Dimension) {
	p.samples = append(p.samples, datapoint.Sample{Value: value, Metric: datapoint.Metric{Account: o.account,
		Region: o.region, Namespace: namespace, Name: name, Dimensions: dimensions, Unit: unit}})
}

// increase returns by how much a counter has grown since the last pass; false unless it is the same counter.
func (p *pass) increase(name, of string, value float64) (float64, bool) {
	p.counters[name] = counter{of, value}
	before, ok := p.c.counters[name]
	if !ok || before.of != of || value < before.value || p.elapsed <= 0 {
		return 0, false
	}
	return value - before.value, true
}

// addHost adds what the host has and what is used of it, by whomever.
func (p *pass) addHost() {
	if total, available, ok := hostMemory(); ok {
		p.add(p.host(), own, "MemoryTotal", bytesUnit, total)
		p.add(p.host(), own, "MemoryAvailable", bytesUnit, available)
	}
	busy, all, cpus, ok := hostCPU()
	if !ok {
		return
	}
	p.add(p.host(), own, "CPUTotal", countUnit, cpus)
	used, known := p.increase("host busy", "", busy)
	if passed, ok := p.increase("host", "", all); ok && known && passed > 0 {
		p.add(p.host(), own, "CPUUsed", countUnit, cpus*used/passed)
	}
}

// spent is what processes or machines take together.
type spent struct {
	memory float64
	cpu    float64 // CPUs
	known  bool    // the latter is
}

func (s *spent) include(other spent) {
	s.memory, s.cpu, s.known = s.memory+other.memory, s.cpu+other.cpu, s.known || other.known
}

func (p *pass) addSpent(o owner, s spent, dimensions ...datapoint.Dimension) {
	p.add(o, own, "MemoryUsed", bytesUnit, s.memory, dimensions...)
	if s.known {
		p.add(o, own, "CPUUsed", countUnit, s.cpu, dimensions...)
	}
}

// measure returns what a process takes; false when it does not run.
func (p *pass) measure(name string, pid int, started time.Time) (s spent, ok bool) {
	memory := process.Memory(pid)
	if memory == 0 {
		return s, false
	}
	s.memory = float64(memory)
	if total, ok := process.CPUTime(pid); ok {
		var used float64
		if used, s.known = p.increase("process "+name, fmt.Sprint(pid, started), total.Seconds()); s.known {
			s.cpu = used / p.elapsed
		}
	}
	return s, true
}

// addProcesses adds what the daemon and its processes take: those of clusters to their accounts, the others to that
// which has the host.
func (p *pass) addProcesses() {
	shared := func(name string, pid int, started time.Time) {
		if s, ok := p.measure(name, pid, started); ok {
			p.addSpent(p.host(), s, datapoint.Dimension{Name: "Process", Value: name})
		}
	}
	shared("coracle", os.Getpid(), time.Time{})
	components := map[string]map[string]spent{} // by cluster and component
	for _, status := range p.c.o.Processes.List("") {
		if !status.Running {
			continue
		}
		first, rest, ok := strings.Cut(status.Name, "/")
		if !ok {
			shared(status.Name, status.PID, status.Started)
			continue
		}
		if _, ok := p.clusters[first]; !ok {
			continue // a machine, or what is left of a cluster
		}
		s, ok := p.measure(status.Name, status.PID, status.Started)
		if !ok {
			continue
		}
		component, _, _ := strings.Cut(rest, "/") // of an API server, the instance is behind it
		if components[first] == nil {
			components[first] = map[string]spent{}
		}
		sum := components[first][component]
		sum.include(s)
		components[first][component] = sum
	}
	for _, i := range p.instances {
		if i.Fargate != nil {
			p.addFargate(i, components)
		}
	}
	for id, ofCluster := range components {
		cluster, ok := p.clusters[id]
		if !ok {
			continue
		}
		o, name := owner{cluster.Account, cluster.Region}, datapoint.Dimension{Name: "ClusterName", Value: cluster.Name}
		var all spent
		for component, s := range ofCluster {
			p.addSpent(o, s, name, datapoint.Dimension{Name: "Component", Value: component})
			all.include(s)
		}
		p.addSpent(o, all, name)
	}
}

// addFargate counts the machine of a Fargate pod, which EC2 does not show, as a part of its cluster.
func (p *pass) addFargate(i instance, components map[string]map[string]spent) {
	s, _, ok := p.measureMachine(i)
	if !ok {
		return
	}
	if components[i.Fargate.ClusterID] == nil {
		components[i.Fargate.ClusterID] = map[string]spent{}
	}
	sum := components[i.Fargate.ClusterID]["fargate"]
	sum.include(s)
	components[i.Fargate.ClusterID]["fargate"] = sum
}

// measureMachine returns what the machine of an instance takes, with the process that launched it; false where it is
// simulated or does not run.
func (p *pass) measureMachine(i instance) (s spent, m Machine, ok bool) {
	if p.c.o.Machine == nil {
		return s, m, false
	}
	name := "machine/" + i.ID
	for _, status := range p.c.o.Processes.List(name) {
		if status.Name != name || !status.Running {
			continue
		}
		m, err := p.c.o.Machine(i.ID, status.PID)
		if err != nil {
			return s, m, false // it is being started or stopped
		}
		s, _ := p.measure(name, status.PID, status.Started)
		s.memory += float64(m.Memory)
		used, known := p.increase(name+" cpu", i.boot(), m.CPU.Seconds())
		if s.known = s.known && known; s.known {
			s.cpu += used / p.elapsed
		}
		return s, m, true
	}
	return s, m, false
}

// boot identifies the boot of a machine, since which its counters count.
func (i instance) boot() string { return fmt.Sprint(i.machine.Boot, i.machine.LaunchedAt) }

// addInstances adds the metrics of EC2 for instances that run, and what their machines take.
func (p *pass) addInstances() {
	var activities map[string]map[string]DiskActivity
	if p.c.o.Disks != nil && len(p.instances) > 0 {
		var err error
		if activities, err = p.c.o.Disks(); err != nil {
			p.c.o.Log.Warn("the disks of machines have no metrics", "error", err)
		}
	}
	for _, i := range p.instances {
		if i.Fargate != nil {
			continue
		}
		o, id := owner{i.Account, i.Region}, datapoint.Dimension{Name: "InstanceId", Value: i.ID}
		system := failed(i.machine.SystemStatus)
		instance := failed(i.machine.InstanceStatus)
		p.add(o, ec2Namespace, "StatusCheckFailed_System", countUnit, system, id)
		p.add(o, ec2Namespace, "StatusCheckFailed_Instance", countUnit, instance, id)
		p.add(o, ec2Namespace, "StatusCheckFailed", countUnit, max(system, instance), id)
		s, m, ok := p.measureMachine(i)
		if !ok {
			continue
		}
		p.addSpent(o, s, id)
		if t, ok := instancetype.Get(string(i.InstanceType)); ok && s.known && t.VCPU > 0 {
			p.add(o, ec2Namespace, "CPUUtilization", percentUnit, 100*s.cpu/float64(t.VCPU), id)
		}
		if m.Network {
			for name, value := range map[string]int64{"NetworkIn": m.In, "NetworkOut": m.Out} {
				p.addIncrease(o, name, bytesUnit, id, i.boot(), value)
			}
			for name, value := range map[string]int64{"NetworkPacketsIn": m.PacketsIn, "NetworkPacketsOut": m.PacketsOut} {
				p.addIncrease(o, name, countUnit, id, i.boot(), value)
			}
		}
		p.addVolumes(o, i, id, activities[i.ID])
	}
}

func failed(status ec2types.SummaryStatus) float64 {
	if status == ec2types.SummaryStatusImpaired {
		return 1
	}
	return 0
}

// addIncrease adds by how much a counter of an instance has grown.
func (p *pass) addIncrease(o owner, name, unit string, id datapoint.Dimension, of string, value int64) {
	if n, ok := p.increase(id.Value+" "+name, of, float64(value)); ok {
		p.add(o, ec2Namespace, name, unit, n, id)
	}
}

// addVolumes adds what the volumes of an instance take of the disk, and what was read from and written to them.
func (p *pass) addVolumes(o owner, i instance, id datapoint.Dimension, activities map[string]DiskActivity) {
	var used filetree.Meter
	for _, volume := range p.volumes[i.ID] {
		used.AddFile(filepath.Join(p.c.o.Volumes, volume, "disk"))
	}
	p.add(o, own, "DiskUsed", bytesUnit, float64(used.Bytes), id)
	var sum DiskActivity // increases
	known := false
	for volume, a := range activities {
		grown := func(what string, value int64, to *int64) {
			if n, ok := p.increase(i.ID+" "+volume+" "+what, i.boot(), float64(value)); ok {
				*to, known = *to+int64(n), true
			}
		}
		grown("ReadOps", a.ReadOps, &sum.ReadOps)
		grown("WriteOps", a.WriteOps, &sum.WriteOps)
		grown("ReadBytes", a.ReadBytes, &sum.ReadBytes)
		grown("WriteBytes", a.WriteBytes, &sum.WriteBytes)
	}
	if !known {
		return
	}
	p.add(o, ec2Namespace, "EBSReadOps", countUnit, float64(sum.ReadOps), id)
	p.add(o, ec2Namespace, "EBSWriteOps", countUnit, float64(sum.WriteOps), id)
	p.add(o, ec2Namespace, "EBSReadBytes", bytesUnit, float64(sum.ReadBytes), id)
	p.add(o, ec2Namespace, "EBSWriteBytes", bytesUnit, float64(sum.WriteBytes), id)
}
