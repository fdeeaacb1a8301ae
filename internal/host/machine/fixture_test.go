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
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/guest/rootfs"
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
			Name: "test", Write: machinetest.WriteBaseImage, Node: self,
			Mounts: func() ([]rootfs.Mount, error) {
				return []rootfs.Mount{{Source: self, Target: rootfs.Init}}, nil
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
		Images:       func(ctx context.Context, i record.Instance) (Image, error) { return h.image(ctx, i) },
		Log:          slog.New(slog.DiscardHandler),
		FargateToken: func(i record.Instance) (string, error) { return "token of " + i.ID, nil },
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

// launch creates the records of an instance that is to run.
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
