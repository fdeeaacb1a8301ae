//go:build linux

package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/guest/rootfs"
	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
	"github.com/coracle-eks/coracle/internal/host/machine/machinetest"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/record"
)

func TestTheLifeOfAMachine(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.launch(one, "m5.large")
	h.until(one, "pending", inState(ec2types.InstanceStateNamePending)) // until its network is there
	if h.processes.List("machine/") != nil {
		t.Fatal("a machine without a network was started")
	}
	h.plug(one)
	m := h.until(one, "running", inState(ec2types.InstanceStateNameRunning))
	if m.LaunchedAt.IsZero() || m.Boot != 1 {
		t.Errorf("machine is %+v", m)
	}
	h.run(one, "echo kept > /root/file") // the disk
	if got := h.run(one, "mkdir /usr/local/bin && echo true > /usr/local/bin/own && ls /usr/local"); got != "bin" {
		t.Errorf("/usr/local has %s", got)
	}

	// What init reports becomes the status checks.
	report := func(text string) {
		h.run(one, "printf '%s' '"+text+"' > /run/coracle/.b && mv /run/coracle/.b /run/coracle/"+boot.File)
	}
	report(`{"network":true,"userData":"running"}`)
	h.until(one, "reachable", func(m record.Machine) bool {
		return m.InstanceStatus == ec2types.SummaryStatusOk && m.SystemStatus == ec2types.SummaryStatusOk &&
			m.UserData == boot.Running
	})
	report(`{"network":true,"userData":"failed","failure":"/var/lib/cloud/scripts/part-001: exit status 3"}`)
	h.until(one, "one with failed user data", func(m record.Machine) bool {
		return m.InstanceStatus == ec2types.SummaryStatusOk &&
			m.UserData == "failed: /var/lib/cloud/scripts/part-001: exit status 3"
	})
	const lease = `{"nameservers":["10.0.0.2"],"domainName":"eu-west-1.compute.internal"}`
	if got := h.run(one, "cat "+boot.HostDir+"/"+boot.DHCPFile); got != lease {
		t.Errorf("the lease is %s", got)
	}

	// Another daemon finds it running, and leaves it alone.
	pid := h.processes.List("machine/")[0].PID
	h.down()
	old := filepath.Join(h.dir, "machines/ami/of-an-earlier-version")
	if err := os.MkdirAll(old, 0o755); err != nil {
		t.Fatal(err)
	}
	h.up()
	h.change(one, func(i *record.Instance) { i.KeyName = "x" })
	h.until(one, "running", inState(ec2types.InstanceStateNameRunning))
	if now := h.processes.List("machine/")[0].PID; now != pid {
		t.Fatal("a new daemon has restarted the machine")
	}

	eventually.Nil(t, "only the base image in use is left", func() error {
		entries, err := os.ReadDir(filepath.Dir(old))
		if err == nil && len(entries) == 1 && entries[0].Name() == "test" {
			return nil
		}
		return fmt.Errorf("there are %v, %v", entries, err)
	})

	// Reboot.
	h.change(one, func(i *record.Instance) { i.Boot = 2 })
	h.until(one, "rebooted", func(m record.Machine) bool {
		return m.Boot == 2 &&
			m.State == ec2types.InstanceStateNameRunning
	})
	if got := h.run(one, "cat /root/file; ls /run/coracle"); !strings.HasPrefix(got, "kept") ||
		strings.Contains(got, boot.File) {
		t.Errorf("after a reboot: %s", got)
	}

	// Shut down from inside, until it is wanted again.
	h.run(one, "while ! test -e /run/up; do sleep 0.01; done")
	// It takes the command with it.
	if _, err := Exec(t.Context(), machinetest.Identity(h.owner), one,
		Command{Args: []string{"sh", "-c", "kill -USR2 1"}}); err != nil {
		t.Fatal(err)
	}
	m = h.until(one, "off", func(m record.Machine) bool {
		return m.State == ec2types.InstanceStateNameStopped &&
			m.PoweredOff
	})
	h.change(one, func(i *record.Instance) { i.Wanted = ec2types.InstanceStateNameStopped })
	h.change(one, func(i *record.Instance) { i.Wanted, i.Boot = ec2types.InstanceStateNameRunning, 3 })
	m = h.until(one, "started", inState(ec2types.InstanceStateNameRunning))
	if m.PoweredOff {
		t.Error("it runs, and is powered off")
	}

	// Stop and start.
	h.change(one, func(i *record.Instance) { i.Wanted = ec2types.InstanceStateNameStopped })
	h.until(one, "stopped", inState(ec2types.InstanceStateNameStopped))
	if _, err := Exec(t.Context(), machinetest.Identity(h.owner), one, Command{Args: []string{"true"}}); err == nil ||
		!strings.Contains(err.Error(), "does not run; none does") {
		t.Errorf("exec in a stopped machine: %v", err)
	}
	h.change(one, func(i *record.Instance) { i.Wanted, i.Boot = ec2types.InstanceStateNameRunning, 4 })
	h.until(one, "started", inState(ec2types.InstanceStateNameRunning))
	if got := h.run(one, "cat /root/file"); got != "kept" {
		t.Errorf("the disk has %q", got)
	}

	// Terminate, once it hears of the power button.
	h.run(one, "while ! test -e /run/up; do sleep 0.01; done")
	h.change(one, func(i *record.Instance) { i.Wanted = ec2types.InstanceStateNameTerminated })
	h.until(one, "terminated", inState(ec2types.InstanceStateNameTerminated))
	if _, err := os.Stat(filepath.Join(h.dir, "machines", one)); err == nil {
		t.Error("its disk is still there")
	}
	console, err := record.MachineConsoles(h.store).Get(t.Context(), key(one))
	if err != nil || !bytes.Contains(console.Value.Output, []byte("down")) {
		t.Errorf("console is %q, %v", console.Value.Output, err)
	}
	host, err := cgroup.Open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(host.Group(h.owner, one).Dir("memory")); err == nil {
		t.Error("its cgroup is still there")
	}
	row, err := record.Instances(h.store).Get(t.Context(), key(one))
	if err != nil {
		t.Fatal(err)
	}
	if err := record.Instances(h.store).Delete(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	h.until(one, "forgotten", func(m record.Machine) bool { return m.State == "" })
}

func TestAMachineComesBack(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.plug(one)
	h.launch(one, "m5.large")
	h.until(one, "running", inState(ec2types.InstanceStateNameRunning))
	h.run(one, "echo kept > /root/file")
	boots := func() string {
		t.Helper()
		var out bytes.Buffer
		eventually.Nil(t, "a way into the machine", func() error {
			out.Reset()
			exit, err := Exec(t.Context(), machinetest.Identity(h.owner), one,
				Command{Args: []string{"cat", "/proc/sys/kernel/random/boot_id", "/root/file"}, Stdout: &out})
			if err == nil && exit != 0 {
				err = fmt.Errorf("exit status %d", exit)
			}
			return err
		})
		return out.String()
	}
	first := boots()
	again := func(what string) {
		t.Helper()
		eventually.True(t, what+": it boots again", func() bool { return boots() != first })
		first = boots()
		if !strings.HasSuffix(first, "kept\n") {
			t.Fatalf("%s: the disk is another", what)
		}
		h.until(one, "running", inState(ec2types.InstanceStateNameRunning))
	}

	if err := syscall.Kill(h.processes.List("machine/")[0].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	again("launch was killed")

	init, err := findInit(machinetest.Identity(h.owner), one)
	if err != nil {
		t.Fatal(err)
	}
	defer init.Close()
	if err := syscall.Kill(init.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	again("init was killed")

	// The host reboots: nothing is left but rows and disks.
	h.down()
	if _, err := process.Kill(h.owner); err != nil {
		t.Fatal(err)
	}
	if _, err := Remove(h.owner); err != nil {
		t.Fatal(err)
	}
	h.up()
	again("the host was rebooted")

	// A daemon that has lost its store removes what nobody knows.
	h.down()
	if err := h.store.Txn(t.Context(), record.Instances(h.store).RemoveOp(key(one)),
		record.Machines(h.store).RemoveOp(key(one))); err != nil {
		t.Fatal(err)
	}
	h.up()
	eventually.True(t, "an unknown machine is gone", func() bool {
		_, err := os.Stat(filepath.Join(h.dir, "machines", one))
		found, _ := process.Claims(h.owner)
		return errors.Is(err, os.ErrNotExist) && len(found) == 0
	})
}

func TestWhatCannotBeLaunchedIsTerminatedWithTheReason(t *testing.T) {
	t.Parallel()
	self, _ := os.Executable()
	for name, c := range map[string]struct {
		kind  string
		image func(context.Context, record.Instance) (Image, error)
		code  string
		want  string
	}{
		"another architecture": {kind: "t4g.medium", code: "Server.InternalError",
			want: "t4g.medium is a type of arm64 machines"},
		"no program": {kind: "m5.large", image: func(context.Context, record.Instance) (Image, error) {
			return Image{}, errors.New("what runs on nodes is not built: make node")
		}, code: "Server.InternalError", want: "make node"},
		"no space": {kind: "m5.large", image: func(context.Context, record.Instance) (Image, error) {
			return Image{Name: "x", Node: self, Write: func(string) error {
				return &os.PathError{Op: "write",
					Path: "/x", Err: syscall.ENOSPC}
			}}, nil
		}, code: "Server.InsufficientInstanceCapacity", want: "no space left on device: free some space"},
		"no init": {kind: "m5.large", image: func(context.Context, record.Instance) (Image, error) {
			return Image{
				Name: "noinit", Node: self, Write: func(dir string) error { return os.MkdirAll(dir, 0o755) },
				Mounts: func() ([]rootfs.Mount, error) { return nil, nil },
			}, nil
		}, code: "Server.InternalError", want: "start " + rootfs.Init},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "another architecture" && architecture() == "arm64" {
				t.Skip("it is this host's")
			}
			h := newHost(t)
			if c.image != nil {
				h.image = c.image
			}
			h.plug(one)
			h.launch(one, c.kind)
			m := h.until(one, "terminated", inState(ec2types.InstanceStateNameTerminated))
			if m.FailureCode != c.code || !strings.Contains(m.Failure, c.want) {
				t.Errorf("failure is %s, %q; want %s, %q", m.FailureCode, m.Failure, c.code, c.want)
			}
		})
	}
}
