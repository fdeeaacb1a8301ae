//go:build linux

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/coracle-eks/coracle/internal/guest/rootfs"
	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
	"github.com/coracle-eks/coracle/internal/host/machine/launch"
	"github.com/coracle-eks/coracle/internal/host/machine/machinetest"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/upstream"
)

const (
	region     = "eu-west-1"
	instanceID = "i-0123456789abcdef0"
	privateIP  = "10.0.0.4"
	privateDNS = "ip-10-0-0-4.eu-west-1.compute.internal"
	imdsIP     = "169.254.169.254"
)

// machine is an instance with all that is around one: metadata, AWS's APIs, a registry and a cluster's API server, each
// of them as small as can be.
type machine struct {
	t          testing.TB
	spec       launch.Spec
	supervisor *process.Supervisor
	userData   string
	isFargate  bool   // its metadata service has credentials for a token, and nothing else
	endpoint   string // of the cluster
	ca         string // of the cluster, base64
	aws        string // the URL of the APIs
	authority  []byte // that the machine trusts, PEM

	mu    sync.Mutex
	nodes []*corev1.Node // that kubelets have wanted to register
	asked []string       // "GET /clusters/demo" and so on
	token string         // the last that the API server was given
}

// newMachine makes a machine with user data, in which @ENDPOINT@, @CA@ and @AWS@ are replaced by those of the test. It
// is off.
func newMachine(t testing.TB, family, version, userData string) *machine {
	owner := machinetest.Owner(t)
	programs := programs(t)
	kube, err := bundles(t).Find(version)
	if err != nil {
		t.Fatalf("%v: run \"make bundles\"", err)
	}
	// Overlays are wanted on a disk, and unix sockets have short names.
	dir, err := os.MkdirTemp("/var/tmp", "coracle-node-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	m := &machine{t: t}
	network := machinetest.Network(t, dir, "netns")
	m.serve(network, dir)
	m.userData = strings.NewReplacer("@ENDPOINT@", m.endpoint, "@AWS@", m.aws, "@CA@", m.ca).Replace(userData)
	self := builtNode
	if self == "" {
		if self, err = os.Executable(); err != nil {
			t.Fatal(err)
		}
	}
	base, err := machinetest.Base()
	if err != nil {
		t.Fatal(err)
	}
	o := rootfs.Options{
		Base: base, Family: family, KubernetesVersion: version, Release: version + ".4-20261105", Region: region,
		SandboxImage:   "602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/pause:3.10",
		RegistryMirror: m.aws, Kubernetes: kube, CABundle: m.authority,
		Program: func(name string) (string, error) {
			if name == upstream.MachineProgram {
				return self, nil
			}
			return programs(name)
		},
	}
	if family == rootfs.Bottlerocket {
		o.Release = "1.63.0-1f2e3d4c"
	}
	baseImage := filepath.Join(dir, "ami")
	if err := rootfs.Write(baseImage, o); err != nil {
		t.Fatal(err)
	}
	mounts, err := rootfs.Mounts(o)
	if err != nil {
		t.Fatal(err)
	}
	m.spec = launch.Spec{
		InstanceID: instanceID, Owner: owner, Boot: 1, Dir: filepath.Join(dir, "machine"), BaseImage: baseImage,
		Network: network, Hostname: privateDNS,
		Size: cgroup.Limits{CPUs: 2, MemoryBytes: launch.MemTotal(8192) * 1024},
		Hardware: launch.Hardware{InstanceID: instanceID, InstanceType: "m5.large", CPUs: 2, ThreadsPerCore: 2,
			ClockMHz: 3100, MemoryKiB: launch.MemTotal(8192), MachineID: launch.MachineID(instanceID)},
		Init: []string{rootfs.Init, "init"},
	}
	for _, mount := range mounts {
		m.spec.Mounts = append(m.spec.Mounts, launch.Mount{Source: mount.Source, Target: mount.Target, ReadOnly: true})
	}
	for _, name := range []string{"/var/lib/containerd", "/var/lib/kubelet", "/var/log"} {
		source := filepath.Join(m.spec.Dir, filepath.Base(name))
		if err := os.MkdirAll(source, 0o755); err != nil {
			t.Fatal(err)
		}
		m.spec.Mounts = append(m.spec.Mounts, launch.Mount{Source: source, Target: name})
	}
	if m.supervisor, err = process.Open(process.Options{Identity: machinetest.Identity(owner)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("console:\n%s", m.console())
			if m.running() {
				t.Logf("journal:\n%s", m.run("journalctl", "--no-pager", "-n", "200"))
			}
		}
		if err := m.supervisor.Stop(context.Background(), "machine/"+instanceID); err != nil {
			t.Error(err)
		}
		m.supervisor.Close()
		host, err := cgroup.Open()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := host.RemoveAll(owner); err != nil {
			t.Error(err)
		}
	})
	return m
}

// builtNode is the program as it is built for users, when a test is about that; else machines run the test program.
var builtNode string

// programs finds the programs of nodes, in the tree as well when those there are of another version.
func programs(t testing.TB) func(name string) (string, error) {
	found := upstream.OpenNodePrograms(upstream.Options{DataDir: t.TempDir()})
	if _, err := found.Path("containerd"); err == nil {
		return found.Path
	}
	if _, err := os.Stat("../../bin/node/containerd"); err != nil {
		t.Fatal("the programs of nodes are not built: run \"make node\"")
	}
	return func(name string) (string, error) {
		path := filepath.Join("../../bin/node", name)
		_, err := os.Stat(path)
		return path, err
	}
}

func bundles(testing.TB) *upstream.Bundles {
	dir := os.Getenv(upstream.EnvBundles)
	if dir == "" {
		dir = "../../bin/bundles"
	}
	return upstream.OpenBundles(upstream.Options{Dir: dir})
}
