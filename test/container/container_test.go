//go:build linux

// Package container runs the image of "make dist" as a container runtime does, with containerd and runc.
package container

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/apiservertest"
	"github.com/coracle-eks/coracle/internal/nodeimage"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/internal/upstream"
	"github.com/coracle-eks/coracle/kubernetes"
	"github.com/coracle-eks/coracle/test/harness"
)

// TestImage is a user who has one port of a container, and a volume: the commands are those of docs/container.md, with
// ctr for docker.
func TestImage(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	h := newHost(t)
	h.ctr("images", "import", "/dist/"+buildImage(t, h.dist))
	c := h.start()

	for line := range strings.Lines(c.exec("coracle", "env")) {
		if name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "="); ok {
			c.env = append(c.env, name+"="+strings.Trim(value, "'"))
		}
	}
	c.env = append(c.env, "AWS_ENDPOINT_URL=http://"+h.published) // a port that docker has chosen
	c.run("aws", "sts", "get-caller-identity")
	c.run("sh", "-ec", createCluster)
	// All of it goes through the one port, with what upgrades connections.
	server := c.run("kubectl", "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
	if !strings.HasPrefix(server, "https://"+h.published+"/kubernetes/") {
		t.Errorf("the API server is at %s", server)
	}
	c.run("kubectl", "wait", "--for=condition=Ready", "nodes", "--all", "--timeout=5m")
	c.run("kubectl", "rollout", "status", "daemonset/kube-proxy", "-n", "kube-system", "--timeout=5m")
	out := c.run("kubectl", "exec", "-n", "kube-system", "daemonset/kube-proxy", "--", "iptables", "--version")
	if !strings.HasPrefix(out, "iptables v") {
		t.Errorf("kubectl exec prints %q", out)
	}
	before := c.run("kubectl", "get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}")

	// A container of that name takes over what the volume has.
	if status := c.stop(); status != "0" {
		t.Errorf("after SIGTERM, the exit status is %s", status)
	}
	again := h.start()
	again.env = c.env
	eventually.Nil(t, "the cluster is there after the container has been replaced", func() error {
		out, err := again.try("kubectl", "get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}")
		if err != nil {
			return err
		}
		if out != before {
			return eventually.Never(fmt.Errorf("another cluster has its place: kube-system is %s, and was %s", out, before))
		}
		return nil
	})
	again.run("kubectl", "create", "configmap", "after-the-restart")
	again.run("sh", "-ec", deleteCluster)
	again.stop()
}

const createCluster = `
role=$(aws iam create-role --role-name eks --query Role.Arn --output text --assume-role-policy-document \
	'{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole",
	"Principal":{"Service":["eks.amazonaws.com","ec2.amazonaws.com"]}}]}')
for policy in AmazonEKSClusterPolicy AmazonEKSWorkerNodePolicy AmazonEKS_CNI_Policy; do
	aws iam attach-role-policy --role-name eks --policy-arn arn:aws:iam::aws:policy/$policy
done
subnets=$(aws ec2 describe-subnets --query 'sort_by(Subnets, &AvailabilityZone)[0:2].SubnetId' --output text |
	tr '\t' ' ')
aws eks create-cluster --name it --role-arn $role --resources-vpc-config subnetIds=$(echo $subnets | tr ' ' ,)
aws eks wait cluster-active --name it
aws eks create-nodegroup --cluster-name it --nodegroup-name nodes --node-role $role --subnets $subnets \
	--scaling-config minSize=1,maxSize=1,desiredSize=1
aws eks wait nodegroup-active --cluster-name it --nodegroup-name nodes
aws eks update-kubeconfig --name it
`

const deleteCluster = `
aws eks delete-nodegroup --cluster-name it --nodegroup-name nodes
aws eks wait nodegroup-deleted --cluster-name it --nodegroup-name nodes
aws eks delete-cluster --name it
aws eks wait cluster-deleted --name it
`

// buildImage makes the image of what was built already.
func buildImage(t *testing.T, dist string) string {
	t.Helper()
	built := t.TempDir()
	for name, source := range map[string]string{
		"coracle": harness.Release(t), "node": filepath.Join(testenv.Root(), "bin/node"),
		"bundles": filepath.Join(testenv.Root(), "bin/bundles"),
	} {
		if set := os.Getenv("CORACLE_" + strings.ToUpper(name)); set != "" && name != "coracle" {
			source = set
		}
		if err := os.Symlink(source, filepath.Join(built, name)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "run", "./hack/dist", "--only", "image.tar", "--arch", runtime.GOARCH,
		"--version", "v0.0.0", "-o", dist, "--built", built, "--fast", kubernetes.Default)
	cmd.Dir = testenv.Root()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	images, err := filepath.Glob(filepath.Join(dist, "*.image.tar"))
	if err != nil || len(images) != 1 {
		t.Fatalf("%v, %v\n%s", images, err, out)
	}
	return filepath.Base(images[0])
}

// host is a machine with containerd and runc, and nothing of Coracle: a root file system, mounts, processes and a
// network of its own.
type host struct {
	t          *testing.T
	pid        int                   // of its first process
	dist       string                // a directory, which is seen as /dist
	namespace  string                // of the network of the container
	address    netip.Addr            // of the container
	published  string                // an address of this machine that leads to port 4566 of the container
	cgroup     string                // of the container
	home       string                // of the container's user
	refused    atomic.Pointer[error] // why the container has not taken a connection to the published port
	containers int
}

const containerd = `set -eu
cat > /etc/containerd.toml <<E
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
address = "/run/containerd/containerd.sock"
E
mkdir -p /tmp
touch /etc/resolv.conf
exec containerd --config /etc/containerd.toml
`

func newHost(t *testing.T) *host {
	t.Helper()
	programs := upstream.OpenNodePrograms(upstream.Options{DataDir: t.TempDir()})
	image, err := programs.Image()
	if err != nil {
		t.Skip(err)
	}
	root, err := nodeimage.Unpack(image, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	id := make([]byte, 4)
	_, _ = rand.Read(id) // never fails
	name := hex.EncodeToString(id)
	h := &host{t: t, dist: t.TempDir(), namespace: "ct-" + name, cgroup: "coracle-test-" + name, home: t.TempDir()}
	h.connect(name, netip.AddrFrom4([4]byte{169, 254, 64 + id[0]%64, id[1] &^ 3}))
	t.Cleanup(h.removeCgroups)
	if err := os.WriteFile(filepath.Join(root, "script.sh"), []byte(containerd), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "containerd.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child",
		"sh", "-c", "mount -t proc proc /proc; "+harness.EnterRoot, "sh", root,
		"usr/local/bin", programs.Dir(), "dist", h.dist, "run/netns", "/run/netns",
		"volume", t.TempDir())
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = apiservertest.EndWithParent()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // its only child, the first process of the namespace, goes with it
		<-ended
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("containerd:\n%s", text)
		}
	})
	eventually.Nil(t, "containerd serves", func() error {
		select {
		case err := <-ended:
			ended <- err
			return eventually.Never(fmt.Errorf("it has ended: %v", err))
		default:
		}
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid))
		if err != nil {
			return eventually.Never(err)
		}
		if _, err := fmt.Sscan(string(children), &h.pid); err != nil {
			return err
		}
		return combined(h.command("ctr", "version"))
	})
	return h
}

// combined runs a command; the error has what it printed.
func combined(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// connect makes the network of the container, and a port that leads there, as docker does with "--publish". The four
// addresses from network on belong to this run alone: the link of one that was killed may still be there.
func (h *host) connect(name string, network netip.Addr) {
	h.t.Helper()
	gateway := network.Next()
	h.address = gateway.Next()
	inside, outside := "ci"+name, "co"+name
	h.t.Cleanup(func() {
		_ = exec.Command("ip", "link", "delete", outside).Run()
		_ = exec.Command("ip", "netns", "delete", h.namespace).Run()
	})
	for _, args := range [][]string{
		{"netns", "add", h.namespace},
		{"link", "add", outside, "type", "veth", "peer", "name", inside, "netns", h.namespace},
		{"-n", h.namespace, "addr", "add", h.address.String() + "/30", "dev", inside},
		{"-n", h.namespace, "link", "set", "lo", "up"},
		{"-n", h.namespace, "link", "set", inside, "up"},
		{"addr", "add", gateway.String() + "/30", "dev", outside},
		{"link", "set", outside, "up"},
	} {
		if err := combined(exec.Command("ip", args...)); err != nil {
			h.t.Fatalf("ip %s: %v", strings.Join(args, " "), err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		l.Close()
		if err := h.refused.Load(); err != nil && h.t.Failed() {
			h.t.Logf("the published port: %v", *err)
		}
	})
	h.published = l.Addr().String()
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go h.forward(client)
		}
	}()
}

// forward copies between a client and the container until both have ended.
func (h *host) forward(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", net.JoinHostPort(h.address.String(), "4566"))
	if err != nil {
		h.refused.Store(&err)
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(client, server)
}

// command is a command on the host.
func (h *host) command(args ...string) *exec.Cmd {
	return exec.CommandContext(h.t.Context(), "nsenter", append([]string{"--target", fmt.Sprint(h.pid), "--mount", "--pid",
		"--"}, args...)...)
}

func (h *host) ctr(args ...string) string {
	h.t.Helper()
	out, err := h.command(append([]string{"ctr"}, args...)...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("ctr %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// removeCgroups removes what the container had in the hierarchies of this machine.
func (h *host) removeCgroups() {
	for _, pattern := range []string{"/sys/fs/cgroup/" + h.cgroup, "/sys/fs/cgroup/*/" + h.cgroup} {
		tops, _ := filepath.Glob(pattern)
		for _, top := range tops {
			eventually.Nil(h.t, "remove "+top, func() error {
				return combined(exec.Command("find", top, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+"))
			})
		}
	}
}

// container is a running one.
type container struct {
	*host
	id  string
	env []string // of commands of its user
}

// start starts the image and waits until it is healthy.
func (h *host) start() *container {
	h.t.Helper()
	h.containers++
	c := &container{host: h, id: fmt.Sprintf("coracle-%d", h.containers)}
	h.ctr("run", "--detach", "--privileged", "--with-ns", "network:/run/netns/"+h.namespace, "--cgroup", h.cgroup,
		"--mount", "type=cgroup,src=cgroup,dst=/sys/fs/cgroup,options=rw:nosuid:noexec:nodev", // as docker does
		"--mount", "type=bind,src=/volume,dst=/var/lib/coracle,options=rbind:rw",
		"--mount", "type=bind,src=/etc/resolv.conf,dst=/etc/resolv.conf,options=rbind:ro",
		"--log-uri", "file:///dist/"+c.id+".log",
		"docker.io/library/coracle:latest", c.id)
	h.t.Cleanup(func() {
		if text, err := os.ReadFile(filepath.Join(h.dist, c.id+".log")); err == nil && h.t.Failed() {
			h.t.Logf("%s:\n%s", c.id, text)
		}
	})
	eventually.Nil(h.t, "the container is healthy", func() error {
		return combined(c.command("ctr", "task", "exec", "--exec-id", "health", c.id, "/usr/bin/coracle", "status"))
	})
	return c
}

// exec runs a command in the container.
func (c *container) exec(args ...string) string {
	c.t.Helper()
	return c.ctr(append([]string{"task", "exec", "--exec-id", "exec", c.id}, args...)...)
}

// stop stops the container as "docker stop" does, and returns its exit status.
func (c *container) stop() string {
	c.t.Helper()
	c.ctr("task", "kill", "--signal", "SIGTERM", c.id)
	eventually.Nil(c.t, "the container stops", func() error {
		out := c.ctr("task", "list")
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, c.id) && strings.Contains(line, "STOPPED") {
				return nil
			}
		}
		return fmt.Errorf("tasks are\n%s", out)
	})
	status := "0"
	if err := combined(c.command("ctr", "task", "delete", c.id)); err != nil {
		status = err.Error()
	}
	c.ctr("container", "delete", c.id)
	return status
}

func (c *container) run(name string, args ...string) string {
	c.t.Helper()
	out, err := c.try(name, args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// try runs a command of the user, on the machine where the container's port is published.
func (c *container) try(name string, args ...string) (string, error) {
	cmd := exec.CommandContext(c.t.Context(), name, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.home, "AWS_PAGER="}, c.env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}
