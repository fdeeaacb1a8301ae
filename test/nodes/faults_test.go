//go:build linux

package nodes

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/machine"
	"github.com/coracle-eks/coracle/internal/host/network"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// TestNodesSurvive kills what a node consists of, piece by piece and then all at once, as when the host loses power,
// and expects everything to come back, with every address where it was.
func TestNodesSurvive(t *testing.T) {
	testenv.NeedsAll(t, "it takes more than ten minutes on two busy cores")
	t.Parallel()
	s := newCluster(t, "survivor", "1.36")
	instances := s.RunInstances(2, s.AL2023("1.36"), s.SubnetIDs[0], s.NodeConfig())
	s.AwaitNodes(instances...)
	s.Apply(workload)
	s.Await("condition=Available", "deployment/demo", "-n", "demo")
	id := instances[0]
	var before string
	s.eventually("the CNI has addresses in reserve", func() error {
		// A network interface in use and one in reserve for each m5.large, with ten addresses each.
		if before = s.addressesOf(instances...); strings.Count(before, "eni-") != 4 || strings.Count(before,
			"172.31.") != 40 {
			return fmt.Errorf("the instances have\n%s", before)
		}
		return nil
	})

	for _, what := range []string{"kubelet", "containerd", "aws-k8s-agent"} {
		killed := s.pidsIn(id, what)
		if killed == "" {
			t.Fatalf("%s does not run in %s", what, id)
		}
		s.In(id, "sh", "-c", "kill -9 "+killed)
		s.eventually(what+" runs again", func() error {
			if now := s.pidsIn(id, what); now == "" || now == killed {
				return fmt.Errorf("%s has the process IDs %q, which were %q", what, now, killed)
			}
			return nil
		})
		s.AwaitNodes(instances...)
	}
	s.reaches()

	// The daemon: what runs on goes on.
	kubelet := s.pidsIn(id, "kubelet")
	s.Restart()
	if now := s.pidsIn(id, "kubelet"); now != kubelet {
		t.Errorf("a restart of the daemon changed the kubelet from %s to %s", kubelet, now)
	}
	s.reaches()

	// A machine loses power: the instance boots again, with its disk.
	s.In(id, "touch", "/home/ec2-user/kept")
	s.killMachine(id)
	s.eventually("the machine boots again", func() error {
		_, errs, err := s.Try("", "coracle", "exec", "--data-dir", s.Dir, id, "--", "test", "-e", "/home/ec2-user/kept")
		if err != nil {
			return fmt.Errorf("%w: %s", err, errs)
		}
		return nil
	})
	s.AwaitNodes(instances...)
	s.reaches()

	// Everything at once: the host loses power, and has nothing but files when it is back.
	s.loseHost()
	s.Serve()
	s.AwaitStatus("survivor", "ACTIVE")
	s.AwaitNodes(instances...)
	s.reaches()

	s.podsHaveAddressesOfTheirOwn()
	s.eventually("the instances have the addresses that they had", func() error {
		if now := s.addressesOf(instances...); now != before {
			return fmt.Errorf("they have\n%s\nand had\n%s", now, before)
		}
		return nil
	})
}

// TestInstancesStopAndStart stops, starts and reboots a node, and looks then at whether it and its daemon keep secrets.
func TestInstancesStopAndStart(t *testing.T) {
	t.Parallel()
	s := newCluster(t, "sleeper", "1.35", callers...)
	id := s.RunInstances(1, s.AL2("1.35"), s.SubnetIDs[0], s.Bootstrap(""))[0]
	name := s.AwaitNodes(id)[0].Metadata.Name
	// As on AWS, an instance that starts again gets no public address of its subnet if the VPC CNI has attached a
	// second network interface before the stop. An Elastic IP address stays with it.
	var address struct{ AllocationId string }
	s.AWS(&address, "ec2", "allocate-address")
	primary := strings.TrimSpace(s.Run("", "aws", "ec2", "describe-instances", "--instance-ids", id, "--output", "text",
		"--query", "Reservations[0].Instances[0].NetworkInterfaces[?Attachment.DeviceIndex==`0`].NetworkInterfaceId"))
	s.AWS(nil, "ec2", "associate-address", "--network-interface-id", primary, "--allocation-id", address.AllocationId)

	s.AWS(nil, "ec2", "stop-instances", "--instance-ids", id)
	s.Run("", "aws", "ec2", "wait", "instance-stopped", "--instance-ids", id)
	if _, errs, err := s.Try("", "coracle", "exec", "--data-dir", s.Dir, id, "--", "true"); err == nil ||
		!strings.Contains(errs, "the machine of instance "+id+" does not run") {
		t.Errorf("coracle exec in a stopped instance says %q, %v", errs, err)
	}
	s.AWS(nil, "ec2", "start-instances", "--instance-ids", id)
	s.Run("", "aws", "ec2", "wait", "instance-running", "--instance-ids", id)
	if again := s.AwaitNodes(id)[0].Metadata.Name; again != name {
		t.Errorf("node %s came back as %s", name, again)
	}
	boot := s.In(id, "cat", "/run/coracle/boot.json")
	s.AWS(nil, "ec2", "reboot-instances", "--instance-ids", id)
	s.eventually("the instance has rebooted", func() error {
		now, _, err := s.Try("", "coracle", "exec", "--data-dir", s.Dir, id, "--", "cat", "/run/coracle/boot.json")
		if err != nil || now == boot {
			return fmt.Errorf("boot.json is %q, %v", now, err)
		}
		return nil
	})
	s.AwaitNodes(id)
	s.keepsSecrets()
}

// pidsIn returns the process IDs of a program inside an instance; empty while there is none.
func (s *cluster) pidsIn(instance, program string) string {
	s.t.Helper()
	// fails when there is none
	out, _, _ := s.Try("", "coracle", "exec", "--data-dir", s.Dir, instance, "--", "pidof", program)
	return strings.TrimSpace(out)
}

// killMachine kills the machine of an instance, like a power failure.
func (s *cluster) killMachine(instance string) {
	s.t.Helper()
	killed := false
	for _, p := range s.Processes() {
		var pid int
		if _, err := fmt.Sscan(p, &pid); err == nil && strings.Contains(p, "launch") && strings.Contains(p, instance) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				s.t.Fatal(err)
			}
			killed = true
		}
	}
	if !killed {
		s.t.Fatalf("no machine of %s among:\n%s", instance, strings.Join(s.Processes(), "\n"))
	}
}

// loseHost ends the daemon and all that it started, and takes away what is in the kernel and in /run, as the host's
// power switch does.
func (s *cluster) loseHost() {
	s.t.Helper()
	s.Kill()
	s.eventually("all processes have ended", func() error {
		left := s.Processes()
		for _, p := range left {
			var pid int
			if _, err := fmt.Sscan(p, &pid); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have died with another
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("%s", strings.Join(left, "\n"))
		}
		return nil
	})
	if _, err := machine.Remove(s.Owner()); err != nil {
		s.t.Fatal(err)
	}
	if _, err := network.Remove(s.Owner()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *cluster) eventually(what string, try func() error) {
	s.t.Helper()
	if err := eventually.Try(200*time.Millisecond, try); err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
}

// reaches demands that every pod of the workload answers every other.
func (s *cluster) reaches() {
	s.t.Helper()
	s.eventually("pods reach each other", func() error {
		out, errs, err := s.Try(s.Config, "kubectl", "get", "pods", "-n", "demo", "-l", "app=demo", "-o",
			"jsonpath={range .items[*]}{.metadata.name} {.status.podIP}{'\\n'}{end}")
		if err != nil {
			return fmt.Errorf("%w: %s", err, errs)
		}
		lines := strings.Fields(out)
		each := ""
		for i := 1; i < len(lines); i += 2 {
			each += "fetch http://" + lines[i] + "/hostname || exit 1; "
		}
		for i := 0; i+1 < len(lines); i += 2 {
			if out, errs, err := s.Try(s.Config, "kubectl", "exec", "-n", "demo", lines[i], "--", "sh", "-c",
				each); err != nil {
				return fmt.Errorf("%s to %s: %w: %s%s", lines[i], lines, err, out, errs)
			}
		}
		if len(lines) != 8 {
			return fmt.Errorf("there are %d of 4 pods", len(lines)/2)
		}
		return nil
	})
}

// addressesOf returns the network interfaces of instances and all their addresses, as EC2 has them.
func (s *cluster) addressesOf(instances ...string) string {
	s.t.Helper()
	var out struct {
		NetworkInterfaces []struct {
			NetworkInterfaceId string
			Attachment         struct{ InstanceId string }
			PrivateIpAddresses []struct{ PrivateIpAddress string }
		}
	}
	s.AWS(&out, "ec2", "describe-network-interfaces", "--filters", "Name=attachment.instance-id,Values="+
		strings.Join(instances, ","))
	var lines []string
	for _, eni := range out.NetworkInterfaces {
		var addresses []string
		for _, a := range eni.PrivateIpAddresses {
			addresses = append(addresses, a.PrivateIpAddress)
		}
		slices.Sort(addresses)
		lines = append(lines, eni.Attachment.InstanceId+" "+eni.NetworkInterfaceId+" "+strings.Join(addresses, " "))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// podsHaveAddressesOfTheirOwn demands that no two pods have one address, and that each has one of its node.
func (s *cluster) podsHaveAddressesOfTheirOwn() {
	s.t.Helper()
	instances, all := map[string]string{}, []string{} // by node
	for _, n := range s.Nodes() {
		id := n.Spec.ProviderID[strings.LastIndex(n.Spec.ProviderID, "/")+1:]
		instances[n.Metadata.Name] = id
		all = append(all, id)
	}
	holders := map[string]string{} // instances by address
	for line := range strings.Lines(s.addressesOf(all...)) {
		for _, word := range strings.Fields(line)[2:] {
			holders[word] = strings.Fields(line)[0]
		}
	}
	var pods struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct {
				NodeName    string
				HostNetwork bool
			}
			Status struct{ PodIP string }
		}
	}
	s.JSON(&pods, "get", "pods", "-A", "--field-selector", "status.phase=Running")
	seen := map[string]string{}
	for _, p := range pods.Items {
		if p.Spec.HostNetwork || p.Status.PodIP == "" { // a pod whose sandbox is being made has none yet
			continue
		}
		if other, taken := seen[p.Status.PodIP]; taken {
			s.t.Errorf("the pods %s and %s have the address %s", other, p.Metadata.Name, p.Status.PodIP)
		}
		seen[p.Status.PodIP] = p.Metadata.Name
		if holder, want := holders[p.Status.PodIP], instances[p.Spec.NodeName]; holder != want {
			s.t.Errorf("the pod %s of %s has the address %s of %q", p.Metadata.Name, want, p.Status.PodIP, holder)
		}
	}
}
