package bench

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
)

// handNode is a node as one starts it by hand on the host, from the same programs: containerd and a kubelet that is an
// administrator of a control plane by hand. Its network is the reference ptp plugin: its configuration lies there from
// the start, or a DaemonSet installs it, as aws-node installs the VPC CNI's.
type handNode struct {
	h    *byHand
	dir  string
	node []*exec.Cmd
	// installed reports that a DaemonSet installs the network.
	installed bool
}

// prepareHandNode makes the node's files and has containerd import the images, which is not measured.
func prepareHandNode(b testing.TB, h *byHand) *handNode {
	b.Helper()
	dir, err := os.MkdirTemp("", "hand-") // short: there are unix sockets in it
	if err != nil {
		b.Fatal(err)
	}
	n := &handNode{h: h, dir: dir}
	b.Cleanup(func() {
		n.stop()
		n.clean(b)
	})
	program := func(name string) string { return filepath.Join(testenv.Root(), "bin", "node", name) }
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
		return path
	}
	write("containerd.toml", fmt.Sprintf(`version = 3
root = %q
state = %q
[grpc]
  address = %q
[ttrpc]
  address = %q
[plugins.'io.containerd.cri.v1.images']
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = %q
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = [%q]
    conf_dir = %q
`, dir+"/root", dir+"/state", dir+"/c.sock", dir+"/t.sock", harness.Pause, filepath.Join(testenv.Root(), "bin", "node"),
		dir+"/net.d"))
	write("10-ptp.conflist", fmt.Sprintf(`{"cniVersion":"1.0.0","name":"hand","plugins":[
{"type":"ptp","ipMasq":true,"ipam":{"type":"host-local","subnet":"10.99.0.0/24","routes":[{"dst":"0.0.0.0/0"}],"dataDir":%q}},
{"type":"portmap","capabilities":{"portMappings":true}}]}`, dir+"/ipam"))
	write("kubelet.yaml", fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /hand-%d
containerRuntimeEndpoint: unix://%s/c.sock
port: 0
healthzPort: 0
readOnlyPort: 0
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
evictionHard: {imagefs.available: "0%%", nodefs.available: "0%%", memory.available: "1Mi"}
`, os.Getpid(), dir))
	write("kubeconfig", fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c,
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}],
users: [{name: u, user: {token: %q}}], contexts: [{name: c, context: {cluster: c, user: u}}]}`, h.url, byHandToken))
	if err := os.Mkdir(n.dir+"/net.d", 0o755); err != nil {
		b.Fatal(err)
	}
	n.containerd(b)
	for _, archive := range []string{harness.PauseArchive(b), harness.AgnhostArchive(b)} {
		if out, err := exec.Command(program("ctr"), "-a", dir+"/c.sock", "-n", "k8s.io", "images", "import",
			archive).CombinedOutput(); err != nil {
			b.Fatalf("import %s: %v\n%s", archive, err, out)
		}
	}
	n.stop()
	return n
}

// conflist returns the path where containerd looks for the configuration of the network.
func (n *handNode) conflist() string { return filepath.Join(n.dir, "net.d", "10-ptp.conflist") }

// installNetwork makes the DaemonSets of a cluster's nodes: one that installs the network with an init container and a
// container, as aws-node does, and one that stands for kube-proxy.
func (n *handNode) installNetwork(b testing.TB, client *kubernetes.Clientset) {
	b.Helper()
	n.installed = true
	host := corev1.VolumeMount{Name: "host", MountPath: "/host"}
	container := func(name, script string) corev1.Container {
		return corev1.Container{Name: name, Image: harness.Agnhost, Command: []string{"/bin/sh", "-c", script},
			VolumeMounts: []corev1.VolumeMount{host}}
	}
	for name, containers := range map[string][]corev1.Container{
		"network": {container("init", "true"),
			container("main", "cat /host/10-ptp.conflist > /host/net.d/10-ptp.conflist; sleep 1000000")},
		"proxy": {container("main", "sleep 1000000")},
	} {
		labels := map[string]string{"app": name}
		pod := corev1.PodSpec{
			HostNetwork: true, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			TerminationGracePeriodSeconds: new(int64),
			Volumes: []corev1.Volume{{Name: "host",
				VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: n.dir}}}},
			InitContainers: containers[:len(containers)-1], Containers: containers[len(containers)-1:],
		}
		_, err := client.AppsV1().DaemonSets("kube-system").Create(b.Context(), &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod}},
		}, metav1.CreateOptions{})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// containerd starts containerd and waits until it answers: a kubelet that comes before it gives up.
func (n *handNode) containerd(b testing.TB) {
	b.Helper()
	n.run(b, filepath.Join(testenv.Root(), "bin", "node", "containerd"), "--config", n.dir+"/containerd.toml")
	err := eventually.Try(2*time.Millisecond, func() error {
		conn, err := net.Dial("unix", n.dir+"/c.sock")
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if err != nil {
		b.Fatalf("containerd by hand: %v", err)
	}
}

// start starts containerd and the kubelet, as a boot does.
func (n *handNode) start(b testing.TB) {
	b.Helper()
	if n.installed {
		if err := os.RemoveAll(n.conflist()); err != nil {
			b.Fatal(err)
		}
	} else if text, err := os.ReadFile(n.dir + "/10-ptp.conflist"); err != nil {
		b.Fatal(err)
	} else if err := os.WriteFile(n.conflist(), text, 0o600); err != nil {
		b.Fatal(err)
	}
	n.containerd(b)
	cgroup := fmt.Sprintf("hand-%d", os.Getpid())
	for _, controller := range []string{"cpu", "cpuacct", "cpuset", "memory", "pids", "hugetlb", "systemd", "blkio",
		"freezer", "devices"} {
		if _, err := os.Stat("/sys/fs/cgroup/" + controller); err == nil {
			if err := os.MkdirAll("/sys/fs/cgroup/"+controller+"/"+cgroup, 0o755); err != nil {
				b.Fatal(err)
			}
		}
	}
	n.run(b, bundle(b, version), "kubelet", "--config="+n.dir+"/kubelet.yaml", "--kubeconfig="+n.dir+"/kubeconfig",
		"--root-dir="+n.dir+"/kubelet",
		"--hostname-override=hand", "--cert-dir="+n.dir+"/pki")
}

func (n *handNode) run(b testing.TB, name string, args ...string) {
	b.Helper()
	log, err := os.OpenFile(filepath.Join(n.dir, filepath.Base(name)+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY,
		0o600)
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(testenv.Root(), "bin", "node")+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	n.node = append(n.node, cmd)
}

func (n *handNode) stop() {
	for _, c := range n.node {
		_ = c.Process.Kill() // it may have died
		_ = c.Wait()
	}
	n.node = nil
}

// endPods ends what the node's pods left running: shims, and what is in their cgroups.
func (n *handNode) endPods() error {
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is right
	for _, p := range procs {
		if line, err := os.ReadFile(p); err == nil && strings.Contains(string(line), n.dir) {
			var pid int
			if _, err := fmt.Sscan(filepath.Base(filepath.Dir(p)), &pid); err == nil && pid != os.Getpid() {
				_ = syscall.Kill(-pid, syscall.SIGKILL) // it may have ended
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	cgroups, _ := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/*/hand-%d", os.Getpid()))
	return eventually.Try(50*time.Millisecond, func() error {
		for _, root := range cgroups {
			killCgroup(root)
		}
		for _, root := range cgroups {
			if _, err := os.Stat(root); err == nil {
				return fmt.Errorf("cgroup %s is still there", root)
			}
		}
		return nil
	})
}

// clean takes away the node's pods, mounts, cgroups and files.
func (n *handNode) clean(b testing.TB) {
	if err := n.endPods(); err != nil {
		b.Error(err)
	}
	err := eventually.Try(50*time.Millisecond, func() error {
		mounts, err := os.ReadFile("/proc/self/mounts")
		if err != nil {
			return eventually.Never(err)
		}
		for line := range strings.Lines(string(mounts)) {
			if at := strings.Fields(line)[1]; strings.HasPrefix(at, n.dir) {
				_ = syscall.Unmount(at, syscall.MNT_DETACH) // looked at again
			}
		}
		return os.RemoveAll(n.dir)
	})
	if err != nil {
		b.Error(err)
	}
}

// killCgroup ends what is in a cgroup and removes it, the innermost first.
func killCgroup(root string) {
	children, _ := os.ReadDir(root)
	for _, c := range children {
		if c.IsDir() {
			killCgroup(filepath.Join(root, c.Name()))
		}
	}
	procs, _ := os.ReadFile(filepath.Join(root, "cgroup.procs"))
	for _, p := range strings.Fields(string(procs)) {
		var pid int
		if _, err := fmt.Sscan(p, &pid); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	_ = os.Remove(root) // tried again while somebody is in it
}
