//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
	"github.com/coracle-eks/coracle/internal/host/machine/guestfile"
	"github.com/coracle-eks/coracle/internal/host/machine/launch"
	"github.com/coracle-eks/coracle/internal/process"
)

// on presses the button of a machine that is off.
func (m *machine) on() {
	m.t.Helper()
	file := filepath.Join(m.spec.Dir, launch.SpecFile)
	if err := m.spec.Write(file); err != nil {
		m.t.Fatal(err)
	}
	self, _ := os.Executable()
	if _, err := m.supervisor.Ensure(m.t.Context(), process.Spec{Name: "machine/" + instanceID, Path: self,
		Args: []string{"launch", "--spec", file}, Log: filepath.Join(m.spec.Dir, "console.log"),
		Revision: fmt.Sprint(m.spec.Boot)}); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) console() string {
	data, _ := os.ReadFile(filepath.Join(m.spec.Dir, "console.log"))
	return string(data)
}

func (m *machine) running() bool {
	s, err := launch.ReadStatus(m.spec.Dir)
	return err == nil && s.State == launch.Running
}

// inside returns a command in the machine.
func (m *machine) inside(argv ...string) *exec.Cmd {
	m.t.Helper()
	found := ""
	processes, err := process.Claims(m.spec.Owner)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, p := range processes {
		if !p.Leader {
			continue
		}
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.PID)) // whichever thread has started it
		for _, t := range tasks {
			children, _ := os.ReadFile(t)
			if f := strings.Fields(string(children)); len(f) > 0 {
				found = f[0]
			}
		}
	}
	return exec.Command("nsenter", append([]string{"-t", found, "-a", "--"}, argv...)...)
}

func (m *machine) run(argv ...string) string {
	m.t.Helper()
	out, err := m.inside(argv...).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s(%v)", out, err)
	}
	return string(out)
}

func (m *machine) read(name string) string {
	m.t.Helper()
	out, err := m.inside("cat", name).Output()
	if err != nil {
		m.t.Errorf("read %s: %v", name, err)
	}
	return string(out)
}

func (m *machine) report() boot.Report {
	data, err := guestfile.Read(filepath.Join(m.spec.Dir, launch.RunDir), boot.File, boot.MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return boot.Report{}
	}
	if err != nil {
		m.t.Fatal(err)
	}
	r, err := boot.Parse(data)
	if err != nil {
		m.t.Fatal(err)
	}
	return r
}

func (m *machine) untilBooted() boot.Report {
	m.t.Helper()
	eventually.True(m.t, "it has booted", func() bool { return !m.report().FinishedAt.IsZero() })
	return m.report()
}

// untilNode waits for a kubelet to register, and returns what it wants to be.
func (m *machine) untilNode() *corev1.Node {
	m.t.Helper()
	var n *corev1.Node
	eventually.True(m.t, "the kubelet registers its node", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.nodes) > 0 {
			n = m.nodes[len(m.nodes)-1]
		}
		return n != nil
	})
	return n
}

func (m *machine) contains(what, text string, parts ...string) {
	m.t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			m.t.Errorf("%s has no %q:\n%s", what, p, text)
		}
	}
}

// checkNode checks what every node is to say.
func (m *machine) checkNode(n *corev1.Node) {
	m.t.Helper()
	if n.Name != privateDNS || n.Spec.ProviderID != "aws:///eu-west-1a/"+instanceID {
		m.t.Errorf("the node is %s with the provider ID %s", n.Name, n.Spec.ProviderID)
	}
	if cpu, pods := n.Status.Capacity.Cpu().String(), n.Status.Capacity.Pods().String(); cpu != "2" || pods != "29" {
		m.t.Errorf("the node has %s CPUs and %s pods, want 2 and 29", cpu, pods)
	}
	if memory := n.Status.Capacity.Memory().Value(); memory != launch.MemTotal(8192)*1024 {
		m.t.Errorf("the node has %d bytes of memory, want %d", memory, launch.MemTotal(8192)*1024)
	}
	if allocatable := n.Status.Allocatable.Cpu().String(); allocatable != "1930m" {
		m.t.Errorf("allocatable are %s CPUs, want 1930m", allocatable)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !strings.HasPrefix(m.token, "Bearer k8s-aws-v1.") {
		m.t.Errorf("the kubelet came with %q, want a token of aws-iam-authenticator", m.token)
	}
}
