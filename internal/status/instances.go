package status

import (
	"context"
	"runtime"
	"strings"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/hostmemory"
	"github.com/coracle-eks/coracle/internal/instancetype"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/record"
)

// instances returns the EC2 instances of all accounts that are not terminated, with what they take. The machines of
// Fargate pods, which EC2 does not show, are among them.
func (r *Reporter) instances(ctx context.Context) ([]admin.Instance, error) {
	rows, err := record.Instances(r.o.Store).List(ctx, "")
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	machines, err := record.Machines(r.o.Store).List(ctx, "")
	if err != nil {
		return nil, err
	}
	observed := map[string]record.Machine{}
	for _, m := range machines {
		observed[m.Key] = m.Value
	}
	addresses, err := r.primaryAddresses(ctx)
	if err != nil {
		return nil, err
	}
	memory := r.machineMemory()
	var all []admin.Instance
	for _, row := range rows {
		i, m := row.Value, observed[row.Key]
		state := record.InstanceState(i, m)
		if state == ec2types.InstanceStateNameTerminated {
			continue
		}
		t, _ := instancetype.Get(string(i.InstanceType))
		out := admin.Instance{
			Account: i.Account, Region: i.Region, ID: i.ID, State: string(state),
			Type: string(i.InstanceType), Address: addresses[i.ID],
			CPUs: t.VCPU, Limit: int64(t.MemoryMiB) << 20, Memory: memory[i.ID].bytes,
			Processes: memory[i.ID].processes,
		}
		if f := i.Fargate; f != nil {
			out.Type, out.Name = "fargate", f.NodeName
			out.CPUs, out.Limit = int((f.CPU+999)/1000), f.Memory<<20
		}
		if tags, err := record.EC2TagsTable(r.o.Store).Get(ctx, row.Key); err == nil {
			out.Name = tags.Value.Tags["Name"]
		}
		if problem := memory[i.ID].problem; problem != "" {
			out.Issues = append(out.Issues, problem)
		}
		if m.Failure != "" {
			out.Issues = append(out.Issues, m.Failure)
		}
		if m.UserData != "" && m.UserData != "running" && m.UserData != "succeeded" {
			out.Issues = append(out.Issues, "user data: "+m.UserData)
		}
		if m.Failing != "" {
			out.Issues = append(out.Issues, m.Failing)
		}
		all = append(all, out)
	}
	return all, nil
}

// primaryAddresses returns the private addresses of instances, by instance.
func (r *Reporter) primaryAddresses(ctx context.Context) (map[string]string, error) {
	rows, err := record.NetworkInterfaces(r.o.Store).List(ctx, "")
	if err != nil {
		return nil, err
	}
	addresses := map[string]string{}
	for _, row := range rows {
		if a := row.Value.Attachment; a != nil && a.InstanceID != "" && a.DeviceIndex == 0 &&
			len(row.Value.PrivateIPs) > 0 {
			addresses[a.InstanceID] = row.Value.PrivateIPs[0]
		}
	}
	return addresses, nil
}

// taken is the resource usage of a machine.
type taken struct {
	bytes     int64
	processes int
	problem   string // why the machine is neither used nor ended, or is to be started again
}

// machineMemory returns what the machines of this daemon take, by instance: everything in them, with what launched it.
func (r *Reporter) machineMemory() map[string]taken {
	const prefix = "machine/"
	all := map[string]taken{}
	for _, p := range r.o.Processes.List(prefix) {
		if !p.Running {
			continue
		}
		id := strings.TrimPrefix(p.Name, prefix)
		memory, processes := machineUsage(r.o.Dir.Owner(), id)
		t := taken{bytes: process.Memory(p.PID) + memory, processes: 1 + processes, problem: p.Problem}
		if t.problem == "" {
			t.problem = machineProblem(r.o.Dir.Owner(), id)
		}
		all[id] = t
	}
	return all
}

func thisHost() admin.Host {
	return admin.Host{CPUs: runtime.NumCPU(), Memory: int64(hostmemory.Total())}
}
