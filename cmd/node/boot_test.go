//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/guest/rootfs"
	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
	"github.com/coracle-eks/coracle/internal/host/machine/guestfile"
	"github.com/coracle-eks/coracle/internal/host/machine/launch"
	"github.com/coracle-eks/coracle/internal/host/machine/machinetest"
	"github.com/coracle-eks/coracle/internal/pki"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/upstream"
)

// The test program is coracle-node: it launches the machines, and is their init and all that they call.
func TestMain(m *testing.M) {
	applet := filepath.Base(os.Args[0])
	if _, ok := applets[applet]; !ok && len(os.Args) > 1 {
		applet = os.Args[1]
	}
	if _, ok := applets[applet]; ok {
		main()
		return
	}
	os.Exit(m.Run())
}

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
	endpoint   string // of the cluster
	ca         string // of the cluster, base64
	aws        string // the URL of the APIs

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
		RegistryMirror: m.aws, Kubernetes: kube, CABundle: []byte("-----BEGIN CERTIFICATE-----\n"),
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
	skeleton := filepath.Join(dir, "ami")
	if err := rootfs.Write(skeleton, o); err != nil {
		t.Fatal(err)
	}
	mounts, err := rootfs.Mounts(o)
	if err != nil {
		t.Fatal(err)
	}
	m.spec = launch.Spec{
		InstanceID: instanceID, Owner: owner, Boot: 1, Dir: filepath.Join(dir, "machine"), Skeleton: skeleton,
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

// serve puts the machine's surroundings into its network namespace.
func (m *machine) serve(network, dir string) {
	t := m.t
	listen := func(address string) net.Listener {
		var l net.Listener
		if err := machinetest.In(network,
			func() (err error) { l, err = net.Listen("tcp", address); return err }); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	if err := machinetest.In(network, func() error {
		for name, addresses := range map[string][]string{"lo": {imdsIP + "/32"}, "eth0": {privateIP + "/24"}} {
			link, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			for _, a := range addresses {
				p := netip.MustParsePrefix(a)
				if err := netlink.AddrAdd(link,
					&netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(),
						Mask: net.CIDRMask(p.Bits(), 32)}}); err != nil {
					return err
				}
			}
			if err := netlink.LinkSetUp(link); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	authority, err := pki.OpenAuthority(filepath.Join(dir, "pki"), "ca", "kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(pki.Leaf{CommonName: "kube-apiserver", IPs: []net.IP{net.ParseIP(privateIP)},
		Server: true})
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	m.ca = base64.StdEncoding.EncodeToString(authority.PEM)

	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	push := httptest.NewServer(images)
	defer push.Close()
	image, err := random.Image(1024, 1)
	if err != nil {
		t.Fatal(err)
	}
	host, _ := url.Parse(push.URL)
	reference, err := name.ParseReference(host.Host + "/eks/pause:3.10")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(reference, image); err != nil {
		t.Fatal(err)
	}

	api, apis, metadata := listen(privateIP+":0"), listen(privateIP+":0"), listen(imdsIP+":80")
	m.endpoint, m.aws = "https://"+api.Addr().String(), "http://"+apis.Addr().String()
	start := func(l net.Listener, h http.Handler) {
		s := &http.Server{Handler: h}
		t.Cleanup(func() { s.Close() })
		go func() { _ = s.Serve(l) }()
	}
	start(tls.NewListener(api, &tls.Config{Certificates: []tls.Certificate{certificate}}), http.HandlerFunc(m.cluster))
	start(metadata, http.HandlerFunc(m.metadata))
	start(apis, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v2/") {
			images.ServeHTTP(w, r)
			return
		}
		m.api(w, r)
	}))
}

// metadata is the instance metadata service.
func (m *machine) metadata(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPut {
		fmt.Fprint(w, "token")
		return
	}
	answers := map[string]string{
		"latest/user-data": m.userData, "latest/meta-data/instance-id": instanceID,
		"latest/meta-data/local-hostname": privateDNS, "latest/meta-data/local-ipv4": privateIP,
		"latest/meta-data/mac":              "02:00:00:00:00:04",
		"latest/meta-data/placement/region": region, "latest/meta-data/placement/availability-zone": region + "a",
		"latest/meta-data/instance-type": "m5.large", "latest/meta-data/services/domain": "amazonaws.com",
		"latest/meta-data/network/interfaces/macs/02:00:00:00:00:04/vpc-ipv4-cidr-block":  "10.0.0.0/16",
		"latest/meta-data/network/interfaces/macs/02:00:00:00:00:04/vpc-ipv4-cidr-blocks": "10.0.0.0/16",
		"latest/meta-data/public-keys/0/openssh-key":                                      "ssh-ed25519 AAAA key",
		"latest/meta-data/iam/security-credentials/":                                      "node",
		"latest/meta-data/iam/security-credentials/node":                                  `{"Code":"Success","AccessKeyId":"ASIAEXAMPLE","SecretAccessKey":"secret","Token":"session","Expiration":"2099-01-01T00:00:00Z"}`,
		"latest/dynamic/instance-identity/document": `{"instanceId":"` + instanceID + `","region":"` + region +
			`","instanceType":"m5.large","availabilityZone":"` + region +
			`a","accountId":"111122223333","privateIp":"` + privateIP + `"}`,
	}
	path := strings.TrimPrefix(r.URL.Path, "/")
	answer, ok := answers[path]
	if !ok {
		answer, ok = answers[path+"/"]
	}
	if !ok || answer == "" {
		http.NotFound(w, r)
		return
	}
	fmt.Fprint(w, answer)
}

// api is AWS: DescribeCluster and DescribeInstances.
func (m *machine) api(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=ASIAEXAMPLE/") {
		http.Error(w, "not signed", http.StatusForbidden)
		return
	}
	body, _ := io.ReadAll(r.Body)
	m.mu.Lock()
	m.asked = append(m.asked, r.Method+" "+r.URL.Path+" "+string(body))
	m.mu.Unlock()
	switch {
	case r.URL.Path == "/clusters/demo":
		fmt.Fprintf(w,
			`{"cluster":{"name":"demo","status":"ACTIVE","endpoint":%q,"certificateAuthority":{"data":%q},"kubernetesNetworkConfig":{"serviceIpv4Cidr":"172.20.0.0/16","ipFamily":"ipv4"}}}`, m.endpoint, m.ca)
	case strings.HasPrefix(r.URL.Path, "/clusters/"):
		w.Header().Set("X-Amzn-Errortype", "ResourceNotFoundException")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"message":"No cluster found for name: %s."}`, strings.TrimPrefix(r.URL.Path, "/clusters/"))
	default:
		fmt.Fprint(w, `<DescribeInstancesResponse><reservationSet><item><instancesSet><item><privateDnsName>`+
			privateDNS+`</privateDnsName></item></instancesSet></item></reservationSet></DescribeInstancesResponse>`)
	}
}

// cluster is an API server that takes nodes and knows nothing else.
func (m *machine) cluster(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.token = r.Header.Get("Authorization")
	if r.Method == http.MethodPost && r.URL.Path == "/api/v1/nodes" {
		if object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil); err == nil {
			if n, ok := object.(*corev1.Node); ok {
				m.nodes = append(m.nodes, n)
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	fmt.Fprint(w,
		`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"not today"}`)
}

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

// inside is a command in the machine.
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

func TestBootstrapAL2(t *testing.T) {
	t.Parallel()
	m := newMachine(t, rootfs.AL2, "1.35", `#!/bin/bash
set -o xtrace
export AWS_ENDPOINT_URL=@AWS@
/etc/eks/bootstrap.sh demo \
  --kubelet-extra-args '--node-labels=team=blue,size=big --register-with-taints=a=b:NoSchedule' --b64-cluster-ca @CA@ \
  --apiserver-endpoint @ENDPOINT@ --dns-cluster-ip 10.100.0.10
`)
	m.on()
	if r := m.untilBooted(); r.UserData != boot.Succeeded || len(r.FailedUnits) != 0 || !r.Network {
		t.Fatalf("the boot: %+v", r)
	}
	n := m.untilNode()
	m.checkNode(n)
	if n.Labels["team"] != "blue" || n.Labels["size"] != "big" || len(n.Spec.Taints) < 1 {
		t.Errorf("labels %v, taints %v", n.Labels, n.Spec.Taints)
	}
	if n.Status.NodeInfo.OSImage != "Amazon Linux 2" {
		t.Errorf("the node runs %q", n.Status.NodeInfo.OSImage)
	}
	m.contains("the drop-in", m.read("/etc/systemd/system/kubelet.service.d/30-kubelet-extra-args.conf"),
		"Environment='KUBELET_EXTRA_ARGS=--node-labels=team=blue,size=big --register-with-taints=a=b:NoSchedule'")
	m.contains("the kubelet's command line", m.run("sh", "-c", "ps aux | grep '[k]ubelet '"),
		"--node-labels=team=blue,size=big", "--max-pods=29", "--config /etc/kubernetes/kubelet/kubelet-config.json",
		"--cloud-provider=external", "--hostname-override="+privateDNS)
	m.contains("the kubelet's configuration", m.read("/etc/kubernetes/kubelet/kubelet-config.json"), `"10.100.0.10"`,
		`"memory": "574Mi"`, `"cpu": "70m"`)
	m.contains("the log", m.read("/var/log/cloud-init-output.log"), "[eks-bootstrap] INFO: complete!",
		"+ /etc/eks/bootstrap.sh")
	m.contains("the console", m.console(), "[eks-bootstrap] INFO: complete!")
	m.contains("the status", m.run("systemctl", "status", "kubelet", "--no-pager"), "Active: active (running)",
		"10-kubelet-args.conf", "/runtime.slice/kubelet.service")
	m.contains("the journal", m.run("journalctl", "-u", "kubelet", "--no-pager"), "kubelet[")
	if got := strings.TrimSpace(m.run("ls", "/opt/cni/bin")); got != strings.Join(rootfs.Plugins, "\n") {
		t.Errorf("the CNI plugins are %q", got)
	}
	if got := strings.TrimSpace(m.run("ls", "/etc/cni/net.d")); got != "" {
		t.Errorf("there is a CNI configuration before there is a CNI: %q", got)
	}
	m.contains("the name service", m.read("/etc/resolv.conf"), "nameserver 10.0.0.2",
		"search eu-west-1.compute.internal")
	m.contains("the host's name", m.run("hostname"), privateDNS)
	// A reboot from inside: what user data has made starts by itself, user data does not run again.
	m.run("reboot")
	eventually.True(t, "it boots again", func() bool {
		s, err := launch.ReadStatus(m.spec.Dir)
		return err == nil && s.State == launch.Running && s.Starts == 2
	})
	m.mu.Lock()
	m.nodes = nil // of the kubelet before
	m.mu.Unlock()
	m.untilNode()
	if got := strings.Count(m.read("/var/log/cloud-init-output.log"), "INFO: complete!"); got != 1 {
		t.Errorf("user data was run %d times", got)
	}
	if out := m.run("poweroff"); out != "" {
		t.Errorf("poweroff: %s", out)
	}
	eventually.True(t, "it is off", func() bool {
		s, err := launch.ReadStatus(m.spec.Dir)
		return err == nil && s.State == launch.PoweredOff
	})
}

// TestMemoryOfInit is not parallel: it changes what machines run.
func TestMemoryOfInit(t *testing.T) {
	builtNode = filepath.Join(t.TempDir(), "coracle-node")
	defer func() { builtNode = "" }()
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", builtNode, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m := newMachine(t, rootfs.AL2, "1.35", "#!/bin/bash\nexport AWS_ENDPOINT_URL=@AWS@\n/etc/eks/bootstrap.sh demo\n")
	m.on()
	m.untilNode()
	m.untilBooted()
	var anonymous, all int
	for _, line := range strings.Split(m.read("/proc/1/status"), "\n") {
		_, _ = fmt.Sscanf(line, "VmRSS: %d kB", &all)
		_, _ = fmt.Sscanf(line, "RssAnon: %d kB", &anonymous)
	}
	t.Logf("init has %d KiB, of which %d KiB are its own", all, anonymous)
	// Pages of the program are shared by all machines of a host.
	if anonymous == 0 || anonymous > 6<<10 {
		t.Errorf("init has %d KiB of its own, want at most 6 MiB", anonymous)
	}
}

func TestBootstrapDescribesCluster(t *testing.T) {
	t.Parallel()
	m := newMachine(t, rootfs.AL2, "1.36", "#!/bin/bash\nexport AWS_ENDPOINT_URL=@AWS@\n/etc/eks/bootstrap.sh demo\n")
	m.on()
	if r := m.untilBooted(); r.UserData != boot.Succeeded {
		t.Fatalf("the boot: %+v", r)
	}
	m.checkNode(m.untilNode())
	m.contains("the kubelet's configuration", m.read("/etc/kubernetes/kubelet/kubelet-config.json"), `"172.20.0.10"`)
}

func TestNodeadmAL2023(t *testing.T) {
	t.Parallel()
	m := newMachine(t, rootfs.AL2023, "1.36", `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="BOUNDARY"

--BOUNDARY
Content-Type: application/node.eks.aws

---
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: demo
    apiServerEndpoint: @ENDPOINT@
    certificateAuthority: @CA@
    cidr: 172.20.0.0/16
  instance:
    environment:
      default:
        AWS_ENDPOINT_URL: @AWS@
  kubelet:
    config:
      registryPullQPS: 7
    flags:
    - --node-labels=team=blue

--BOUNDARY
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
echo from a script, before the kubelet: $(systemctl is-active kubelet)

--BOUNDARY--
`)
	m.on()
	if r := m.untilBooted(); r.UserData != boot.Succeeded || len(r.FailedUnits) != 0 {
		t.Fatalf("the boot: %+v", r)
	}
	n := m.untilNode()
	m.checkNode(n)
	if n.Labels["team"] != "blue" || n.Status.NodeInfo.OSImage != "Amazon Linux 2023.20261105" {
		t.Errorf("labels %v, on %s", n.Labels, n.Status.NodeInfo.OSImage)
	}
	m.contains("the log", m.read("/var/log/cloud-init-output.log"), "from a script, before the kubelet: inactive")
	m.contains("the drop-in", m.read("/etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf"), `"registryPullQPS": 7`)
	m.contains("the kubelet's flags", m.read("/etc/eks/kubelet/environment"), "NODEADM_KUBELET_ARGS=",
		"--config-dir=/etc/kubernetes/kubelet/config.json.d", "--node-labels=team=blue", "--max-pods=29")
	if out := m.run("/etc/eks/bootstrap.sh", "demo"); !strings.Contains(out,
		"bootstrap.sh has been removed from AL2023-based EKS AMIs") {
		t.Errorf("bootstrap.sh says %q", out)
	}
	if out := m.run("sh", "-c", "cat /proc/$(pidof containerd)/cgroup"); !strings.Contains(out,
		"/runtime.slice/containerd.service") {
		t.Errorf("containerd is in %s", out)
	}
}

func TestWrongUserData(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, family, userData string
		console                []string
		failed                 string // the unit
		failure                string // in the report
	}{
		{"a script that fails", rootfs.AL2, "#!/bin/bash\necho before\nexit 3\n",
			[]string{"before", "Failed running /var/lib/cloud/instance/scripts/part-001 [exit status 3]"},
			"cloud-final.service", "part-001 [exit status 3]"},
		{"a cluster that is not there", rootfs.AL2,
			"#!/bin/bash\nexport AWS_ENDPOINT_URL=@AWS@\n/etc/eks/bootstrap.sh nothing --aws-api-retry-attempts 0\n",
			[]string{
				"An error occurred (ResourceNotFoundException) when calling the DescribeCluster operation: No " +
					"cluster found for name: nothing.", "ERROR: Exhausted retries while describing cluster!"},
			"cloud-final.service", "part-001"},
		{"a NodeConfig without a cluster", rootfs.AL2023,
			"apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster: {apiServerEndpoint: @ENDPOINT@}\n",
			[]string{`fatal Command failed {"error":"Name is missing in cluster configuration"}`,
				"[FAILED] Failed to start nodeadm-config.service"}, "nodeadm-config.service", ""},
		{"a kubelet with a flag that it does not know", rootfs.AL2,
			"#!/bin/bash\nexport AWS_ENDPOINT_URL=@AWS@\n/etc/eks/bootstrap.sh demo --kubelet-extra-args " +
				"'--no-such-flag'\n", nil, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newMachine(t, test.family, "1.35", test.userData)
			m.on()
			r := m.untilBooted()
			m.contains("the console", m.console(), test.console...)
			if test.failed == "" {
				eventually.True(t, "the journal has it", func() bool {
					return strings.Contains(m.run("journalctl", "-u", "kubelet", "--no-pager"),
						"unknown flag: --no-such-flag")
				})
				return
			}
			if !strings.Contains(strings.Join(r.FailedUnits, " "), test.failed) || !strings.Contains(r.Failure,
				test.failure) {
				t.Errorf("the report is %+v", r)
			}
			if test.failed == "cloud-final.service" {
				if r.UserData != boot.Failed {
					t.Errorf("the report is %+v", r)
				}
				m.contains("the log", m.read("/var/log/cloud-init-output.log"), test.console...)
				m.contains("the status", m.run("cloud-init", "status", "--long"), "status: error", test.failure)
			}
		})
	}
}

func TestDaemonsComeBack(t *testing.T) {
	t.Parallel()
	m := newMachine(t, rootfs.AL2, "1.35", "#!/bin/bash\nexport AWS_ENDPOINT_URL=@AWS@\n/etc/eks/bootstrap.sh demo\n")
	m.on()
	m.untilNode()
	pid := func(unit string) string {
		return strings.TrimSpace(m.run("systemctl", "show", unit, "-p", "MainPID", "--value"))
	}
	kubelet, containerd := pid("kubelet"), pid("containerd")
	m.run("kill", "-9", kubelet)
	eventually.True(t, "the kubelet is back", func() bool { p := pid("kubelet"); return p != kubelet && p != "0" })
	kubelet = pid("kubelet")
	m.run("kill", "-9", containerd)
	eventually.True(t, "containerd is back, and the kubelet, which requires it", func() bool {
		c, k := pid("containerd"), pid("kubelet")
		return c != containerd && c != "0" && k != kubelet && k != "0"
	})
	var out bytes.Buffer
	cmd := m.inside("ctr", "version")
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(), "Server:") {
		t.Errorf("containerd does not answer: %v, %s", err, &out)
	}
}

func TestSettingsBottlerocket(t *testing.T) {
	t.Parallel()
	m := newMachine(t, rootfs.Bottlerocket, "1.36", `[settings.kubernetes]
api-server = "@ENDPOINT@"
cluster-certificate = "@CA@"
cluster-name = "demo"
hostname-override-source = "private-dns-name"
hostname-override = "ip-10-0-0-4.eu-west-1.compute.internal"
cluster-dns-ip = "172.20.0.10"
[settings.kubernetes.node-labels]
"team" = "blue"
[settings.kubernetes.node-taints]
"dedicated" = ["gpu:NoSchedule"]
[settings.host-containers.admin]
enabled = true
`)
	m.on()
	if r := m.untilBooted(); len(r.FailedUnits) != 0 {
		t.Fatalf("the boot: %+v", r)
	}
	n := m.untilNode()
	m.checkNode(n)
	if n.Labels["team"] != "blue" || n.Status.NodeInfo.OSImage != "Bottlerocket OS 1.63.0 (aws-k8s-1.36)" {
		t.Errorf("labels %v, on %s", n.Labels, n.Status.NodeInfo.OSImage)
	}
	m.contains("the console", m.console(), "settings.host-containers is not applied on this machine")
}
