package nodes

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/test/harness"
)

// TestNodesSurvive kills what a node consists of, piece by piece and then all at once, as when the host loses power, and
// expects everything to come back, with every address where it was.
func TestNodesSurvive(t *testing.T) {
	t.Parallel()
	s := newSite(t, "survivor", "1.36")
	instances := s.RunInstances(2, s.AL2023("1.36"), s.SubnetIDs[0], s.NodeConfig())
	s.AwaitNodes(instances...)
	s.Apply(workload)
	s.Await("condition=Available", "deployment/demo", "-n", "demo")
	id := instances[0]

	for _, what := range []string{"kubelet", "containerd", "aws-k8s-agent"} {
		before := s.pidsIn(id, what)
		if before == "" {
			t.Fatalf("%s does not run in %s", what, id)
		}
		s.In(id, "sh", "-c", "kill -9 "+before)
		s.eventually(what+" runs again", func() error {
			if now := s.pidsIn(id, what); now == "" || now == before {
				return fmt.Errorf("%s has the process IDs %q, which were %q", what, now, before)
			}
			return nil
		})
		s.AwaitNodes(instances...)
	}
	s.reaches()

	// The daemon: what runs on goes on.
	before := s.pidsIn(id, "kubelet")
	s.Restart()
	if now := s.pidsIn(id, "kubelet"); now != before {
		t.Errorf("a restart of the daemon changed the kubelet from %s to %s", before, now)
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

	// Everything at once.
	s.Kill()
	for _, p := range s.Processes() {
		var pid int
		if _, err := fmt.Sscan(p, &pid); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have died with another
		}
	}
	s.Serve()
	s.AwaitStatus("survivor", "ACTIVE")
	s.AwaitNodes(instances...)
	s.reaches()
	s.addressesAreUnique()
}

// TestInstancesStopAndStart stops, starts and reboots a node.
func TestInstancesStopAndStart(t *testing.T) {
	t.Parallel()
	s := newSite(t, "sleeper", "1.35")
	id := s.RunInstances(1, s.AL2("1.35"), s.SubnetIDs[0], s.Bootstrap(""))[0]
	name := s.AwaitNodes(id)[0].Metadata.Name
	boot := s.In(id, "cat", "/run/coracle/boot.json")

	s.AWS(nil, "ec2", "stop-instances", "--instance-ids", id)
	s.Run("", "aws", "ec2", "wait", "instance-stopped", "--instance-ids", id)
	if _, errs, err := s.Try("", "coracle", "exec", "--data-dir", s.Dir, id, "--", "true"); err == nil || !strings.Contains(errs, "stopped") {
		t.Errorf("coracle exec in a stopped instance says %q, %v", errs, err)
	}
	s.AWS(nil, "ec2", "start-instances", "--instance-ids", id)
	s.Run("", "aws", "ec2", "wait", "instance-running", "--instance-ids", id)
	if again := s.AwaitNodes(id)[0].Metadata.Name; again != name {
		t.Errorf("node %s came back as %s", name, again)
	}
	s.AWS(nil, "ec2", "reboot-instances", "--instance-ids", id)
	s.eventually("the instance has rebooted", func() error {
		now, _, err := s.Try("", "coracle", "exec", "--data-dir", s.Dir, id, "--", "cat", "/run/coracle/boot.json")
		if err != nil || now == boot {
			return fmt.Errorf("boot.json is %q, %v", now, err)
		}
		return nil
	})
	s.AwaitNodes(id)
}

// pidsIn are the process IDs of a program inside an instance; empty while there is none.
func (s *cluster) pidsIn(instance, program string) string {
	s.t.Helper()
	out, _, _ := s.Try("", "coracle", "exec", "--data-dir", s.Dir, instance, "--", "pidof", program) // fails when there is none
	return strings.TrimSpace(out)
}

// killMachine is pulling the plug of an instance.
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

func (s *cluster) eventually(what string, try func() error) {
	s.t.Helper()
	if err := harness.Until(90*time.Second, 200*time.Millisecond, try); err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
}

// reaches demands that every pod of the workload answers every other.
func (s *cluster) reaches() {
	s.t.Helper()
	s.eventually("pods reach each other", func() error {
		out, errs, err := s.Try(s.Config, "kubectl", "get", "pods", "-n", "demo", "-l", "app=demo", "-o", "jsonpath={range .items[*]}{.metadata.name} {.status.podIP}{'\\n'}{end}")
		if err != nil {
			return fmt.Errorf("%w: %s", err, errs)
		}
		lines := strings.Fields(out)
		for i := 0; i+1 < len(lines); i += 2 {
			for j := 1; j < len(lines); j += 2 {
				if _, errs, err := s.Try(s.Config, "kubectl", "exec", "-n", "demo", lines[i], "--", "fetch", "http://"+lines[j]+"/hostname"); err != nil {
					return fmt.Errorf("%s to %s: %w: %s", lines[i], lines[j], err, errs)
				}
			}
		}
		if len(lines) != 8 {
			return fmt.Errorf("there are %d of 4 pods", len(lines)/2)
		}
		return nil
	})
}

// addressesAreUnique demands that no two pods have one address.
func (s *cluster) addressesAreUnique() {
	s.t.Helper()
	out := s.Run(s.Config, "kubectl", "get", "pods", "-A", "-o", "jsonpath={range .items[?(@.spec.hostNetwork!=true)]}{.status.podIP}{'\\n'}{end}")
	seen := map[string]bool{}
	for _, ip := range strings.Fields(out) {
		if seen[ip] {
			s.t.Errorf("two pods have the address %s", ip)
		}
		seen[ip] = true
	}
}
