//go:build linux

package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/guest/rootfs"
	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
	"github.com/coracle-eks/coracle/internal/host/machine/launch"
	"github.com/coracle-eks/coracle/internal/host/machine/machinetest"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "launch" {
		os.Exit(launch.Main(os.Args[2:]))
	}
	machinetest.Main()
	os.Exit(m.Run())
}

// plugs is a network whose namespaces exist.
type plugs struct {
	dir     string
	changed chan string

	mu      sync.Mutex
	plugged map[string]bool
	users   map[string]uint32
}

func (p *plugs) Plugged(id string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.plugged[id], nil
}
func (p *plugs) UserID(id string) (uint32, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.users[id], nil
}
func (p *plugs) Namespace(name string) string { return filepath.Join(p.dir, name) }
func (p *plugs) Source() reconcile.Source     { return reconcile.Channel(p.changed) }

// host is a host of machines, and one daemon after the other on it.
type host struct {
	t       testing.TB
	dir     string
	owner   string
	store   *store.Store
	network *plugs
	image   func(context.Context, record.Instance) (Image, error)

	ownUsers bool // machines have user namespaces

	processes *process.Supervisor
	stop      func()
}

const account, region = "111122223333", "eu-west-1"

func newHost(t testing.TB) *host {
	h := &host{t: t, owner: machinetest.Owner(t), dir: t.TempDir(), store: storetest.New(t)}
	h.network = &plugs{dir: filepath.Join(h.dir, "netns"), changed: make(chan string, 16), plugged: map[string]bool{},
		users: map[string]uint32{}}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h.image = func(context.Context, record.Instance) (Image, error) {
		return Image{
			Name: "test", Write: machinetest.Skeleton, Node: self,
			Mounts: func(dir string) ([]rootfs.Mount, error) {
				return []rootfs.Mount{{Source: filepath.Join(dir, "usr/local"), Target: "/usr/local"},
					{Source: self, Target: rootfs.Init}}, nil
			},
		}, nil
	}
	ctx := context.Background()
	vpc := record.VPC{EC2Resource: record.EC2Resource{Account: account, Region: region, ID: "vpc-1"},
		CIDRs: []record.CIDRAssociation{{CIDR: "10.0.0.0/16"}}, DHCPOptionsID: "dopt-1"}
	if _, err := record.VPCs(h.store).Create(ctx, vpc.Key(), vpc); err != nil {
		t.Fatal(err)
	}
	dhcp := record.DHCPOptions{EC2Resource: record.EC2Resource{Account: account, Region: region, ID: "dopt-1"},
		Options: map[string][]string{
			"domain-name-servers": {"AmazonProvidedDNS"}, "domain-name": {"eu-west-1.compute.internal"},
		}}
	if _, err := record.DHCPOptionsTable(h.store).Create(ctx, dhcp.Key(), dhcp); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.down()
		if _, err := process.Kill(h.owner); err != nil {
			t.Error(err)
		}
		if _, err := Remove(h.owner); err != nil {
			t.Error(err)
		}
	})
	h.up()
	return h
}

// up starts a daemon.
func (h *host) up() {
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	var subscribers []func(process.Event)
	var err error
	h.processes, err = process.Open(process.Options{Identity: machinetest.Identity(h.owner),
		Log: slog.New(slog.DiscardHandler), Events: func(e process.Event) {
			mu.Lock()
			defer mu.Unlock()
			for _, s := range subscribers {
				s(e)
			}
		}})
	if err != nil {
		h.t.Fatal(err)
	}
	c := New(Options{
		Store: h.store, Owner: h.owner, Dir: filepath.Join(h.dir, "machines"), Processes: h.processes,
		Network: h.network,
		Subscribe: func(f func(process.Event)) func() {
			mu.Lock()
			defer mu.Unlock()
			subscribers = append(subscribers, f)
			return func() {}
		},
		Images: func(ctx context.Context, i record.Instance) (Image, error) { return h.image(ctx, i) },
		Log:    slog.New(slog.DiscardHandler),
	})
	done := make(chan error, 1)
	go func() { done <- reconcile.Run(ctx, slog.New(slog.DiscardHandler), c.Controllers()...) }()
	h.stop = func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Error(err)
		}
		h.processes.Close()
	}
}

// down ends the daemon; machines run on.
func (h *host) down() {
	if h.stop != nil {
		h.stop()
		h.stop = nil
	}
}

func key(id string) string { return record.EC2Key(account, region, id) }

// launch wants an instance.
func (h *host) launch(id, kind string, edit ...func(*record.Instance)) {
	h.t.Helper()
	ctx := context.Background()
	eni := record.NetworkInterface{
		EC2Resource: record.EC2Resource{Account: account, Region: region, ID: "eni-" + id}, VPCID: "vpc-1",
		PrivateIPs: []string{"10.0.0.4"},
		Attachment: &record.NetworkInterfaceAttachment{InstanceID: id},
	}
	if _, err := record.NetworkInterfaces(h.store).Create(ctx, eni.Key(), eni); err != nil {
		h.t.Fatal(err)
	}
	i := record.Instance{
		EC2Resource:  record.EC2Resource{Account: account, Region: region, ID: id},
		InstanceType: ec2types.InstanceType(kind), VPCID: "vpc-1",
		Wanted: ec2types.InstanceStateNameRunning, Boot: 1,
	}
	for _, e := range edit {
		e(&i)
	}
	if _, err := record.Instances(h.store).Create(ctx, i.Key(), i); err != nil {
		h.t.Fatal(err)
	}
}

// plug connects an instance's network.
func (h *host) plug(id string) {
	h.t.Helper()
	var user uint32
	if h.ownUsers {
		_, user = machinetest.UserNetwork(h.t, h.network.dir, id)
	} else {
		machinetest.Network(h.t, h.network.dir, id)
	}
	h.network.mu.Lock()
	h.network.plugged[id], h.network.users[id] = true, user
	h.network.mu.Unlock()
	h.network.changed <- key(id)
}

func (h *host) change(id string, change func(*record.Instance)) {
	h.t.Helper()
	if _, err := record.Instances(h.store).Modify(context.Background(), key(id),
		func(i *record.Instance) error { change(i); return nil }); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) machine(id string) record.Machine {
	row, err := record.Machines(h.store).Get(context.Background(), key(id))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		h.t.Fatal(err)
	}
	return row.Value
}

func (h *host) until(id, what string, is func(record.Machine) bool) record.Machine {
	h.t.Helper()
	var m record.Machine
	eventually.Nil(h.t, id+" is "+what, func() error {
		if m = h.machine(id); is(m) {
			return nil
		}
		console, _ := os.ReadFile(filepath.Join(h.dir, "machines", id, consoleFile))
		return fmt.Errorf("it is %+v\n%s", m, console)
	})
	return m
}

func inState(s ec2types.InstanceStateName) func(record.Machine) bool {
	return func(m record.Machine) bool { return m.State == s }
}

// run runs a shell command in a machine.
func (h *host) run(id, command string) string {
	h.t.Helper()
	var out bytes.Buffer
	exit, err := Exec(h.t.Context(), machinetest.Identity(h.owner), id, Command{Args: []string{"sh", "-c", command},
		Stdout: &out, Stderr: &out})
	if err != nil || exit != 0 {
		h.t.Fatalf("%s in %s: exit status %d, %v\n%s", command, id, exit, err, out.String())
	}
	return strings.TrimSpace(out.String())
}

const one = "i-00000000000000001"

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

	eventually.Nil(t, "only the skeleton in use is left", func() error {
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
	if got := h.run(one, "cat /root/file; ls /run/coracle"); !strings.HasPrefix(got, "kept") || strings.Contains(got,
		boot.File) {
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

	// Terminate.
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
		t.Error("its control group is still there")
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
			return Image{}, errors.New("runc is not installed: apt-get install runc")
		}, code: "Server.InternalError", want: "apt-get install runc"},
		"no space": {kind: "m5.large", image: func(context.Context, record.Instance) (Image, error) {
			return Image{Name: "x", Node: self, Write: func(string) error {
				return &os.PathError{Op: "write",
					Path: "/x", Err: syscall.ENOSPC}
			}}, nil
		}, code: "Server.InsufficientInstanceCapacity", want: "no space left on device: free some space"},
		"no init": {kind: "m5.large", image: func(context.Context, record.Instance) (Image, error) {
			return Image{
				Name: "noinit", Node: self, Write: func(dir string) error { return os.MkdirAll(dir, 0o755) },
				Mounts: func(string) ([]rootfs.Mount, error) { return nil, nil },
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
		"its control group": {args: []string{"sh", "-c",
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
	if pids, err := PIDs(h.owner, one); err != nil || len(pids) != 1 || pids[0] != init.pid {
		t.Errorf("processes are %v, %v; want init, %d", pids, err, init.pid)
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
