package resourceusage

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/coracle-eks/coracle/internal/datapoint"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

const account, region = "111122223333", "us-east-1"

// processes is a list of processes, as that of a supervisor.
type processes []process.Status

func (p processes) List(prefix string) (found []process.Status) {
	for _, s := range p {
		if len(s.Name) >= len(prefix) && s.Name[:len(prefix)] == prefix {
			found = append(found, s)
		}
	}
	return found
}

// fixture is a host with a cluster, an instance of two vCPUs, a Fargate machine and a simulated one.
type fixture struct {
	*Controller
	t        *testing.T
	clock    *clocktesting.FakeClock
	points   *datapoint.Store
	machines map[string]Machine
	disks    map[string]map[string]DiskActivity
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s, self := storetest.New(t), os.Getpid()
	f := &fixture{t: t, points: datapoint.New(), machines: map[string]Machine{},
		clock: clocktesting.NewFakeClock(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))}
	dir := t.TempDir()
	for _, d := range []string{"volumes/vol-1", "clusters/c1"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, size := range map[string]int{"volumes/vol-1/disk": 1 << 20, "clusters/c1/log": 64 << 10, "lock": 4096} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put(t, record.Clusters(s), "c1", record.Cluster{Account: account, Region: region, Name: "web", ID: "c1"})
	for _, id := range []string{"i-1", "i-2"} {
		i := record.Instance{InstanceType: ec2types.InstanceTypeM5Large, Wanted: ec2types.InstanceStateNameRunning}
		i.Account, i.Region, i.ID = account, region, id
		if id == "i-2" {
			i.Fargate = &record.FargateMachine{ClusterID: "c1", Cluster: "web"}
		}
		key := record.EC2Key(account, region, id)
		put(t, record.Instances(s), key, i)
		put(t, record.Machines(s), key, record.Machine{InstanceID: id, State: ec2types.InstanceStateNameRunning, Boot: 1,
			SystemStatus: ec2types.SummaryStatusOk, InstanceStatus: ec2types.SummaryStatusImpaired})
	}
	v := record.Volume{InstanceID: "i-1"}
	v.Account, v.Region, v.ID = account, region, "vol-1"
	put(t, record.Volumes(s), record.EC2Key(account, region, "vol-1"), v)
	f.Controller = New(Options{Store: s, Account: account, Points: f.points, Dir: dir,
		Volumes: filepath.Join(dir, "volumes"), Clock: f.clock,
		Processes: processes{{Name: "etcd", Running: true, PID: self}, {Name: "machine/i-1", Running: true, PID: self},
			{Name: "machine/i-2", Running: true, PID: self}, {Name: "c1/kube-apiserver/a", Running: true, PID: self},
			{Name: "c1/kube-apiserver/b", Running: true, PID: self}, {Name: "c1/kube-scheduler", PID: self},
			{Name: "c9/kube-scheduler", Running: true, PID: self}},
		Machine: func(id string, _ int) (Machine, error) { return f.machines[id], nil },
		Disks:   func() (map[string]map[string]DiskActivity, error) { return f.disks, nil },
	})
	return f
}

func put[T any](t *testing.T, table store.Table[T], key string, value T) {
	t.Helper()
	if _, err := table.Create(t.Context(), key, value); err != nil {
		t.Fatal(err)
	}
}

// sample makes a pass of the controller, a minute after the last.
func (f *fixture) sample() {
	f.t.Helper()
	f.clock.Step(time.Minute)
	if _, err := f.reconcile(f.t.Context(), usage); err != nil {
		f.t.Fatal(err)
	}
}

// last returns the last data points of metrics of a namespace with one dimension, by name.
func (f *fixture) last(namespace, dimension, value string) map[string]float64 {
	all := map[string]float64{}
	for _, m := range f.points.List(account, region, namespace, "") {
		if len(m.Dimensions) != 1 || m.Dimensions[0] != (datapoint.Dimension{Name: dimension, Value: value}) {
			continue
		}
		now := f.clock.Now()
		points, _ := f.points.Points(m, now.Add(-time.Minute), now)
		for _, p := range points {
			all[m.Name] = p.Value
		}
	}
	return all
}

func TestMetricsOfInstances(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.machines["i-1"] = Machine{Memory: 1 << 30, CPU: time.Minute, Network: true, In: 1000, Out: 50, PacketsIn: 10,
		PacketsOut: 5}
	f.disks = map[string]map[string]DiskActivity{"i-1": {"vol-1": {ReadOps: 5, WriteOps: 6, ReadBytes: 70,
		WriteBytes: 80}}}
	checks := map[string]float64{"StatusCheckFailed": 1, "StatusCheckFailed_Instance": 1, "StatusCheckFailed_System": 0}
	f.sample()
	if d := cmp.Diff(checks, f.last(ec2Namespace, "InstanceId", "i-1")); d != "" {
		t.Errorf("counters are known from the second pass on (-want +got):\n%s", d)
	}
	f.machines["i-1"] = Machine{Memory: 2 << 30, CPU: 2 * time.Minute, Network: true, In: 4000, Out: 60, PacketsIn: 40,
		PacketsOut: 6}
	f.disks["i-1"]["vol-1"] = DiskActivity{ReadOps: 7, WriteOps: 6, ReadBytes: 170, WriteBytes: 80}
	f.disks["i-1"]["vol-2"] = DiskActivity{ReadOps: 900} // attached since
	f.sample()
	want := map[string]float64{"NetworkIn": 3000, "NetworkOut": 10, "NetworkPacketsIn": 30, "NetworkPacketsOut": 1,
		"EBSReadOps": 2, "EBSWriteOps": 0, "EBSReadBytes": 100, "EBSWriteBytes": 0, "CPUUtilization": 50,
		"StatusCheckFailed": 1, "StatusCheckFailed_Instance": 1, "StatusCheckFailed_System": 0}
	// The launcher is part of what a machine takes: here, the process of the test.
	if d := cmp.Diff(want, f.last(ec2Namespace, "InstanceId", "i-1"), cmpopts.EquateApprox(0, 10)); d != "" {
		t.Errorf("metrics of EC2 (-want +got):\n%s", d)
	}
	spent := f.last(own, "InstanceId", "i-1")
	if spent["MemoryUsed"] < 2<<30 || spent["CPUUsed"] < 1 || spent["DiskUsed"] < 1<<20 || len(spent) != 3 {
		t.Errorf("the machine takes %v", spent)
	}
	f.machines["i-1"] = Machine{CPU: time.Second, Network: true, In: 10} // its counters began anew
	f.sample()
	if got := f.last(ec2Namespace, "InstanceId", "i-1"); len(got) != len(checks)+4 { // those of volumes go on
		t.Errorf("after counters that began anew there are %v", got)
	}
	if got := f.last(ec2Namespace, "InstanceId", "i-2"); len(got) != 0 {
		t.Errorf("the machine of a Fargate pod has metrics of EC2: %v", got)
	}
}

func TestMetricsOfTheHost(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, err := f.reconcile(t.Context(), disk); err != nil {
		t.Fatal(err)
	}
	f.sample()
	dims := map[string]bool{}
	for _, m := range f.points.List(account, region, own, "") {
		name := m.Name
		for _, d := range m.Dimensions {
			name += " " + d.Name + "=" + d.Value
		}
		dims[name] = m.Region == ""
	}
	want := map[string]bool{"MemoryTotal": true, "MemoryAvailable": true, "CPUTotal": true, "DiskTotal": true,
		"DiskFree": true, "DiskUsed": true, "DiskUsed Directory=clusters": true, "DiskUsed Directory=volumes": true,
		"MemoryUsed Process=coracle": true, "MemoryUsed Process=etcd": true,
		"MemoryUsed ClusterName=web": false, "DiskUsed ClusterName=web": false,
		"MemoryUsed ClusterName=web Component=kube-apiserver": false,
		"MemoryUsed ClusterName=web Component=fargate":        false,
		"MemoryUsed InstanceId=i-1":                           false, "DiskUsed InstanceId=i-1": false}
	if d := cmp.Diff(want, dims); d != "" {
		t.Errorf("metrics, and whether they are of the host (-want +got):\n%s", d)
	}
	if got := f.last(own, "Directory", "volumes")["DiskUsed"]; got < 1<<20 {
		t.Errorf("volumes take %v bytes, want those of a disk", got)
	}
	if got := f.points.List("444455556666", region, "", ""); len(got) != 0 {
		t.Errorf("another account sees %d metrics", len(got))
	}
	f.sample()
	if got := f.last(own, "Process", "coracle"); got["MemoryUsed"] <= 0 || len(got) != 2 {
		t.Errorf("the daemon takes %v, want memory and CPUs", got)
	}
	// A second pass within a minute would have counters of moments.
	if _, err := f.reconcile(t.Context(), usage); err != nil {
		t.Fatal(err)
	}
	if got := f.last(own, "Process", "coracle"); len(got) != 2 {
		t.Errorf("the daemon takes %v, want memory and CPUs", got)
	}
}

func TestParseHost(t *testing.T) {
	t.Parallel()
	total, available, ok := parseMemory([]byte("MemTotal:       16384 kB\nMemFree: 1 kB\nMemAvailable:    8192 kB\n"))
	if total != 16<<20 || available != 8<<20 || !ok {
		t.Errorf("memory: %v %v %v", total, available, ok)
	}
	if _, _, ok := parseMemory([]byte("MemTotal: x kB\n")); ok {
		t.Error("memory without numbers is known")
	}
	busy, all, cpus, ok := parseCPU([]byte("cpu  10 1 5 100 20 2 2 10 7 0\ncpu0 5 1 2 50 10 1 1 5 4 0\n" +
		"cpu1 5 0 3 50 10 1 1 5 3 0\nintr 5\n"))
	if busy != 30 || all != 150 || cpus != 2 || !ok {
		t.Errorf("CPU: %v %v %v %v", busy, all, cpus, ok)
	}
}
