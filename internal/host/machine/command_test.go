//go:build linux

package machine

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/host/machine/launch"
	"github.com/coracle-eks/coracle/internal/host/machine/machinetest"
)

func TestCommandsInAMachine(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]bool{"host's users": false, "own users": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.ownUsers = own
			testCommands(t, h)
		})
	}
}

func testCommands(t *testing.T, h *host) {
	h.plug(one)
	h.launch(one, "m5.large")
	h.until(one, "running", inState(ec2types.InstanceStateNameRunning))
	do := func(tty bool, in string, args ...string) (string, int, error) {
		var out bytes.Buffer
		c := Command{Args: args, TTY: tty, Stdout: &out, Stderr: &out}
		if in != "" {
			c.Stdin = strings.NewReader(in)
		}
		exit, err := Exec(t.Context(), machinetest.Identity(h.owner), one, c)
		return out.String(), exit, err
	}
	if out, exit, err := do(false, "", "sh", "-c", "echo ADDED=yes >> /etc/environment"); exit != 0 || err != nil {
		t.Fatalf("exit status %d with %q, %v", exit, out, err)
	}
	for name, c := range map[string]struct {
		tty  bool
		in   string
		args []string
		out  string
		exit int
		err  string
	}{
		"output":      {args: []string{"echo", "hello"}, out: "hello\n"},
		"input":       {in: "hello", args: []string{"cat"}, out: "hello"},
		"exit status": {args: []string{"sh", "-c", "exit 7"}, exit: 7},
		"a signal":    {args: []string{"sh", "-c", "kill -TERM $$"}, exit: 143},
		"no such command": {args: []string{"no-such-command"}, exit: 127,
			err: "no-such-command: command not found"},
		"not executable":    {args: []string{"/etc/machine-id"}, exit: 126, err: "not executable"},
		"its own processes": {args: []string{"sh", "-c", "cat /proc/1/comm"}, out: "coracle-node\n"},
		"root": {args: []string{"sh", "-c",
			"id -u; id -g; touch /root/mine && stat -c %u:%g /root/mine"}, out: "0\n0\n0:0\n"},
		"its own host name":     {args: []string{"hostname"}, out: "ip-10-0-0-4.eu-west-1.compute.internal\n"},
		"a login's environment": {args: []string{"sh", "-c", "echo $HOME $USER; pwd"}, out: "/root root\n/root\n"},
		"its settings":          {args: []string{"sh", "-c", "echo $ADDED"}, out: "yes\n"},
		"a terminal":            {tty: true, args: []string{"sh", "-c", "tty; stty size"}, out: "/dev/pts/"},
		"input of a terminal":   {tty: true, in: "exit 5\n", args: []string{"sh"}, exit: 5, out: "exit 5"},
		"its cgroup": {args: []string{"sh", "-c",
			"cut -d: -f3 /proc/self/cgroup | sort -u | sed 's,/exec.scope,/,'"}, out: "/\n"},
	} {
		t.Run(name, func(t *testing.T) {
			out, exit, err := do(c.tty, c.in, c.args...)
			if exit != c.exit || !strings.HasPrefix(out, c.out) && !(c.tty && strings.Contains(out, c.out)) {
				t.Errorf("exit status %d with %q, want %d with %q", exit, out, c.exit, c.out)
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error is %v, want %q", err, c.err)
			}
		})
	}
	owner, _, _ := do(false, "", "readlink", "/proc/self/ns/user")
	if first, _, _ := do(false, "", "readlink", "/proc/1/ns/user"); owner == "" || first != owner {
		t.Errorf("a command is in user namespace %q, init in %q", owner, first)
	}
	if terminal, _, _ := do(true, "", "sh", "-c", "stat -c owner=%u $(tty)"); !strings.Contains(terminal, "owner=0") {
		t.Errorf("root does not own its terminal: %s", terminal)
	}
	init, err := findInit(machinetest.Identity(h.owner), one)
	if err != nil {
		t.Fatal(err)
	}
	defer init.Close()
	if memory, processes, err := Usage(h.owner, one); err != nil || processes != 1 || memory <= 0 {
		t.Errorf("it takes %d bytes for %d processes, %v; want one, init", memory, processes, err)
	}
	machines := filepath.Join(h.dir, "machines")
	running := func(id string) bool { return IsRunning(machinetest.Identity(h.owner), id) }
	for _, name := range []string{one, "ip-10-0-0-4.eu-west-1.compute.internal", "ip-10-0-0-4"} {
		if id, err := Named(machines, name, running); id != one || err != nil {
			t.Errorf("%s is %s, %v", name, id, err)
		}
	}
	// An instance of another account may have that name: root's command must not go there.
	if id, err := Named(machines, "ip-10-0-0-4", func(string) bool { return false }); id != "ip-10-0-0-4" || err != nil {
		t.Errorf("of instances that do not run: %s, %v", id, err)
	}
	spec, err := os.ReadFile(filepath.Join(machines, one, launch.SpecFile))
	if err != nil {
		t.Fatal(err)
	}
	const two = "i-0000000000000000f"
	twin := filepath.Join(machines, two, launch.SpecFile)
	if err := errors.Join(os.MkdirAll(filepath.Dir(twin), 0o700),
		os.WriteFile(twin, bytes.ReplaceAll(spec, []byte(one), []byte(two)), 0o600)); err != nil {
		t.Fatal(err)
	}
	if id, err := Named(machines, "ip-10-0-0-4", running); id != one || err != nil {
		t.Errorf("beside one that does not run: %s, %v", id, err)
	}
	if id, err := Named(machines, "ip-10-0-0-4", func(string) bool { return true }); err == nil ||
		!strings.Contains(err.Error(), one) || !strings.Contains(err.Error(), two) {
		t.Errorf("of two: %s, %v", id, err)
	}
	if err := os.RemoveAll(filepath.Dir(twin)); err != nil {
		t.Fatal(err)
	}
	var none *NotRunningError
	if _, err := Exec(t.Context(), machinetest.Identity(h.owner), "i-nowhere",
		Command{Args: []string{"true"}}); !errors.As(err, &none) || len(none.Running) != 1 || none.Running[0] != one {
		t.Errorf("error is %v", err)
	}
}
