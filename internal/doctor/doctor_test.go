package doctor

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// examine returns the findings of one check.
func examine(t *testing.T, h Host, check string) []Finding {
	t.Helper()
	for _, c := range checks {
		if c.name == check {
			return c.run(t.Context(), h)
		}
	}
	t.Fatalf("there is no check %s", check)
	return nil
}

func host(t *testing.T) Host {
	t.Helper()
	dir, err := datadir.At(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	return Host{Dir: dir, Listen: "127.0.0.1:0", Version: "1.35", Bundles: t.TempDir()}
}

// tool puts a program into a directory.
func tool(t *testing.T, dir, name, script string) {
	t.Helper()
	testenv.WriteProgram(t, filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"))
}

func TestEveryCheckFindsSomethingAndEveryProblemHasAFix(t *testing.T) {
	findings := Examine(t.Context(), host(t))
	for _, c := range checks {
		if !slices.ContainsFunc(findings, func(f Finding) bool { return f.Check == c.name }) {
			t.Errorf("the check %s says nothing", c.name)
		}
	}
	for _, f := range findings {
		if f.Level != OK && f.Fix == "" {
			t.Errorf("%s: %q has no fix", f.Check, f.Text)
		}
	}
}

func TestClients(t *testing.T) {
	for _, c := range []struct {
		check, program, script string
		level                  Level
		says                   string
	}{
		{"aws", "aws", `echo "aws-cli/1.45.11 Python/3.11.7"`, OK, "aws-cli/1.45"},
		{"aws", "aws", `echo "aws-cli/2.23.6 Python/3.13.5"`, OK, "aws-cli/2.23"},
		{"aws", "aws", `echo "aws-cli/1.36.40 Python/3.11.7"`, Warn, "aws-cli/1.36 is too old for some commands"},
		{"aws", "aws", `echo "aws-cli/2.13.0 Python/3.11.7"`, Warn, "aws-cli/2.13 is too old for some commands"},
		{"aws", "aws", `echo "aws-cli/2.9.19 Python/3.11.2"`, Warn, "would call the real AWS"},
		{"aws", "aws", `echo "aws-cli/1.28.9 Python/3.11.2"`, Warn, "would call the real AWS"},
		{"aws", "aws", `echo "no module named awscli"; exit 1`, Warn, "no module named awscli"},
		{"aws", "", "", Warn, "no aws command"},
		{"kubectl", "kubectl", `echo "Client Version: v1.35.4"`, OK, "client version: v1.35.4"},
		{"kubectl", "kubectl", `exit 1`, Warn, "does not run"},
		{"kubectl", "", "", Warn, "no kubectl"},
		{"go", "go", `printf 'go1.26.8\nauto\n'`, OK, "go1.26.8"},
		{"go", "go", `printf 'go1.24.1\nauto\n'`, OK, "go1.24.1"},
		{"go", "go", `printf 'go1.24.1\nlocal\n'`, Warn, "GOTOOLCHAIN=local"},
		{"go", "go", `printf 'go1.19.8\n\n'`, Warn, "go1.19.8 is too old"},
		{"go", "", "", Warn, "no go command"},
	} {
		path := t.TempDir()
		if c.program != "" {
			tool(t, path, c.program, c.script)
		}
		t.Setenv("PATH", path+":/usr/bin-without-tools")
		findings := examine(t, host(t), c.check)
		if len(findings) != 1 || findings[0].Level != c.level || !strings.Contains(findings[0].Text, c.says) {
			t.Errorf("%s with %q: %+v; want %s and %q", c.check, c.script, findings, c.level, c.says)
		}
	}
}

func TestPorts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h := host(t)
	h.Listen = l.Addr().String()
	h.Ports = map[string]int{"etcd": l.Addr().(*net.TCPAddr).Port}
	findings := examine(t, h, "ports")
	if len(findings) != 2 || findings[0].Level != Fail || findings[1].Level != Fail ||
		!strings.Contains(findings[1].Text, "for etcd") {
		t.Errorf("two ports in use: %+v", findings)
	}
	h.Listen, h.Ports = "127.0.0.1:0", nil
	if findings = examine(t, h, "ports"); len(findings) != 1 || findings[0].Level != OK {
		t.Errorf("free ports: %+v", findings)
	}
}

func TestDataDirectory(t *testing.T) {
	h := host(t)
	if f := examine(t, h, "data"); f[0].Level != OK {
		t.Errorf("before the first start: %+v", f)
	}
	if err := os.Mkdir(string(h.Dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if f := examine(t, h, "data"); f[0].Level != Warn || f[0].Fix != "chmod 700 "+string(h.Dir) {
		t.Errorf("open to others: %+v", f)
	}
	if err := os.Chmod(string(h.Dir), 0o700); err != nil {
		t.Fatal(err)
	}
	if f := examine(t, h, "data"); f[0].Level != OK {
		t.Errorf("as it should be: %+v", f)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(string(h.Dir), 12345, -1); err != nil {
			t.Fatal(err)
		}
		if f := examine(t, h, "data"); f[0].Level != Fail || !strings.Contains(f[0].Text, "belongs to user 12345") {
			t.Errorf("somebody else's: %+v", f)
		}
	}
}

func TestPrint(t *testing.T) {
	var b strings.Builder
	healthy, err := Print(&b, []Finding{
		{Check: "go", Level: OK, Text: "go1.26"},
		{Check: "disk", Level: Fail, Text: "full", Fix: "df -h\nrm x"},
	})
	if err != nil || healthy {
		t.Errorf("healthy %v, %v", healthy, err)
	}
	const want = `ok    go           go1.26
FAIL  disk         full
                   fix:   df -h
                          rm x
`
	if b.String() != want {
		t.Errorf("printed\n%swant\n%s", b.String(), want)
	}
}

func TestProcessesThatNobodyCanTellApart(t *testing.T) {
	h := host(t)
	if err := h.Dir.Create(); err != nil {
		t.Fatal(err)
	}
	key, err := h.Dir.EnsureProcessKey()
	if err != nil {
		t.Fatal(err)
	}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	s, err := process.Open(process.Options{Identity: process.Identity{Owner: h.Dir.Owner(), Key: key}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background(), "etcd"); err != nil {
			t.Error(err)
		}
		s.Close()
	})
	real, err := s.Ensure(t.Context(), process.Spec{Name: "etcd", Path: sleep, Args: []string{"1000000"}, Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	// about are the findings that name one of the processes: others of this host may be in other states.
	about := func(pids ...int) (all []Finding) {
		for _, f := range examine(t, h, "processes") {
			if slices.ContainsFunc(pids, func(pid int) bool {
				return strings.Contains(f.Text, strconv.Itoa(pid)+
					" (")
			}) {
				all = append(all, f)
			}
		}
		return all
	}
	if f := about(real.PID); len(f) != 0 {
		t.Errorf("as it should be: %+v", f)
	}

	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", real.PID))
	if err != nil {
		t.Fatal(err)
	}
	twin := exec.Command(sleep, "1000000")
	twin.Env = strings.Split(strings.Trim(string(environ), "\x00"), "\x00")
	twin.Dir, twin.SysProcAttr = "/", &syscall.SysProcAttr{Setsid: true}
	if err := twin.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		twin.Process.Kill()
		twin.Wait()
	})
	eventually.True(t, "the twins are reported", func() bool {
		f := about(real.PID)
		return len(f) == 1 && f[0].Level == Fail && len(about(twin.Process.Pid)) == 1 && strings.Contains(f[0].Text,
			"carry the mark of etcd")
	})

	if err := os.Remove(h.Dir.ProcessKeyFile()); err != nil {
		t.Fatal(err)
	}
	if f := about(real.PID); len(f) != 1 || f[0].Level != Warn || !strings.Contains(f[0].Text, "cannot prove it") {
		t.Errorf("without the key: %+v", f)
	}
}
