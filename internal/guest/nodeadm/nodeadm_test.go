package nodeadm

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"github.com/coracle-eks/coracle/internal/guest/imds/imdstest"
	"github.com/coracle-eks/coracle/internal/guest/rootfs"
	"github.com/coracle-eks/coracle/internal/guest/rootfs/rootfstest"
	"github.com/coracle-eks/coracle/internal/testenv"
)

type fakeAWS struct{}

func (fakeAWS) PrivateDNSName(context.Context, string) (string, error) {
	return "ip-10-0-0-4.eu-west-1.compute.internal", nil
}

// command is a nodeadm over a base image of an image, with the commands to systemctl that it made.
type command struct {
	Command
	output  bytes.Buffer
	control []string
}

func newCommand(t *testing.T, version, userData string) *command {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	program := func(string) (string, error) { return "/bin/true", nil }
	if err := rootfs.Write(root, rootfs.Options{Base: rootfstest.Base(t), Family: rootfs.AL2023,
		KubernetesVersion: version,
		Release: version +
			".4-20261105", Region: "eu-west-1", SandboxImage: "pause:3.10", Program: program}); err != nil {
		t.Fatal(err)
	}
	answers := map[string]string{
		"dynamic/instance-identity/document": `{"instanceId":"i-0123456789abcdef0","region":"eu-west-1","instanceType":"m5.xlarge","availabilityZone":"eu-west-1a"}`,
		"meta-data/mac":                      "02:00:00:00:00:04", "meta-data/local-ipv4": "10.0.0.4",
		"meta-data/network/interfaces/macs/02:00:00:00:00:04/ipv6s": "2600::4",
	}
	if userData != "" {
		answers["user-data"] = userData
	}
	c := &command{}
	c.Command = Command{
		IMDS: imdstest.Fake(t, answers), Root: root, Stdout: &c.output, Stderr: &c.output,
		AWS: func(string) API { return fakeAWS{} }, CPUs: 4,
		Systemctl: func(args ...string) error { c.control = append(c.control, strings.Join(args, " ")); return nil },
	}
	return c
}

func (c *command) read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(c.Root, name))
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

func (c *command) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(c.Root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// nodeConfigOf returns a NodeConfig with a cluster and more in its spec, indented by two blanks.
func nodeConfigOf(more string) string {
	return `---
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: demo
    apiServerEndpoint: https://example.com
    certificateAuthority: Y2VydGlmaWNhdGVBdXRob3JpdHk=
    cidr: 10.100.0.0/16
` + more
}

// archive puts NodeConfigs and a script into one MIME archive.
func archive(documents ...string) string {
	var b strings.Builder
	b.WriteString("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n")
	for _, d := range documents {
		b.WriteString("--//\nContent-Type: application/node.eks.aws\n\n" + d + "\n")
	}
	b.WriteString("--//\nContent-Type: text/x-shellscript\n\n#!/bin/bash\necho hello\n--//--\n")
	return b.String()
}

const partial = "---\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n"

func TestInit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, version, userData string
		// parts of the JSON of the kubelet's configuration and the user's; null is for what is not there
		config, dropIn string
		files          map[string][]string // parts of files; "!" before a part that is not there
	}{
		{
			name: "the defaults", version: "1.35", userData: nodeConfigOf(""),
			config: `{"address":"0.0.0.0","clusterDNS":["10.100.0.10"],"clusterDomain":"cluster.local","containerRuntimeEndpoint":"unix:///run/containerd/containerd.sock","maxPods":58,
				"kubeReserved":{"cpu":"80m","ephemeral-storage":"1Gi","memory":"893Mi"},"kubeReservedCgroup":"/runtime","systemReservedCgroup":"/system","cgroupDriver":"cgroupfs",
				"evictionHard":{"memory.available":"100Mi","nodefs.available":"2Gi","nodefs.inodesFree":"5%"},
				"providerID":"aws:///eu-west-1a/i-0123456789abcdef0","serverTLSBootstrap":true,
				"nodeStatusUpdateFrequency":"2s","nodeStatusReportFrequency":"5m",
				"logging":{"verbosity":2},"shutdownGracePeriod":"2m30s","shutdownGracePeriodCriticalPods":"30s","readOnlyPort":0,"serializeImagePulls":false}`,
			files: map[string][]string{
				"etc/eks/kubelet/environment": {
					"NODEADM_KUBELET_ARGS=--cloud-provider=external --config=/etc/kubernetes/kubelet/config.json " +
						"--hostname-override=ip-10-0-0-4.eu-west-1.compute.internal", "--node-ip=10.0.0.4",
					"--kubeconfig=/var/lib/kubelet/kubeconfig", "--runtime-cgroups=/runtime.slice/containerd.service",
					"--max-pods=58", "!--config-dir", "!pod-infra-container-image",
				},
				"var/lib/kubelet/kubeconfig":                    {"server: https://example.com", `- "demo"`},
				"etc/kubernetes/pki/ca.crt":                     {"certificateAuthority"},
				"etc/eks/image-credential-provider/config.json": {"ecr-public.aws.com", "*.dkr.ecr.*.amazonaws.com"},
				"etc/containerd/base-runtime-spec.json":         {"RLIMIT_NOFILE"},
			},
		},
		{
			name: "an older version", version: "1.33", userData: nodeConfigOf(""),
			config: `{"shutdownGracePeriod":null,"featureGates":{"DynamicResourceAllocation":true}}`,
			files:  map[string][]string{"etc/eks/kubelet/environment": {"--pod-infra-container-image=pause:3.10"}},
		},
		{
			name: "flags, and the instance's ID as the name", version: "1.35",
			userData: nodeConfigOf(
				"  featureGates:\n    InstanceIdNodeName: true\n  kubelet:\n    flags:\n    - --v=5\n    - " +
					"--node-labels=foo=bar,foo2=baz\n    - --register-with-taints=foo=bar:NoSchedule\n"),
			config: `{}`, files: map[string][]string{"etc/eks/kubelet/environment": {
				" --v=5 --node-labels=foo=bar,foo2=baz --register-with-taints=foo=bar:NoSchedule\n",
				"--hostname-override=i-0123456789abcdef0"}},
		},
		{
			name: "a configuration of the kubelet", version: "1.35",
			userData: nodeConfigOf(
				"  kubelet:\n    config:\n      logging:\n        verbosity: 5\n      clusterDNS:\n      - 0.0.0.0\n " +
					"     - 1.1.1.1\n"),
			config: `{"clusterDNS":["10.100.0.10"],"logging":{"verbosity":2}}`,
			dropIn: `{"kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v1beta1","logging":{"verbosity":5},"clusterDNS":["0.0.0.0","1.1.1.1"]}`,
			files: map[string][]string{"etc/eks/kubelet/environment": {
				"--config-dir=/etc/kubernetes/kubelet/config.json.d"}},
		},
		{
			name: "an interval of the status", version: "1.35",
			userData: nodeConfigOf("  kubelet:\n    config:\n      nodeStatusUpdateFrequency: 20s\n"),
			config:   `{"nodeStatusUpdateFrequency":null,"nodeStatusReportFrequency":null}`,
			dropIn:   `{"nodeStatusUpdateFrequency":"20s"}`,
		},
		{
			name: "empty values", version: "1.35",
			userData: nodeConfigOf(
				"  kubelet:\n    config:\n      kubeReservedCgroup: \"\"\n      systemReservedCgroup: \"\"\n"),
			config: `{}`, dropIn: `{"kubeReservedCgroup":"","systemReservedCgroup":""}`,
		},
		{
			name: "two documents", version: "1.35",
			userData: archive(nodeConfigOf(
				"  kubelet:\n    config:\n      maxPods: 20\n      clusterDNS: [1.1.1.1]\n    flags: [--v=3]\n"),
				partial+"  kubelet:\n    config:\n      systemReserved:\n        cpu: 150m\n    flags: "+
					"[--node-labels=a=b]\n"),
			config: `{"maxPods":58}`,
			dropIn: `{"maxPods":20,"clusterDNS":["1.1.1.1"],"systemReserved":{"cpu":"150m"}}`,
			files:  map[string][]string{"etc/eks/kubelet/environment": {"--max-pods=20", " --v=3 --node-labels=a=b\n"}},
		},
		{
			name: "a maximum of pods by an expression", version: "1.35",
			userData: nodeConfigOf("  kubelet:\n    maxPodsExpression: ((default_enis - 1) * (ips_per_eni - 1)) + 2\n"),
			config:   `{"maxPods":44,"kubeReserved":{"memory":"739Mi"}}`,
			files:    map[string][]string{"etc/eks/kubelet/environment": {"--max-pods=44"}},
		},
		{name: "an expression that is wrong", version: "1.35",
			userData: nodeConfigOf("  kubelet:\n    maxPodsExpression: max_pods - nonsense\n"),
			config:   `{"maxPods":58}`},
		{name: "an expression with a condition", version: "1.35",
			userData: nodeConfigOf("  kubelet:\n    maxPodsExpression: \"max_pods > 50 ? 50 : max_pods\"\n"),
			config:   `{"maxPods":50}`},
		{
			name: "IPv6", version: "1.35", userData: strings.Replace(nodeConfigOf(""), "10.100.0.0/16",
				"fd12:3456::/108", 1), config: `{"clusterDNS":["fd12:3456::a"]}`,
			files: map[string][]string{"etc/eks/kubelet/environment": {"--node-ip=2600::4"}},
		},
		{
			name: "the environment", version: "1.35",
			userData: nodeConfigOf(
				"  instance:\n    environment:\n      default:\n        QUOTED: 'with \"quotes\" and 50%'\n        " +
					"A: \"back\\\\slash\"\n      kubelet:\n        HTTP_PROXY: http://proxy\n    network:\n      " +
					"nameservers: [8.8.8.8]\n      domains: [example.com]\n    localStorage:\n      strategy: RAID0\n"),
			config: `{}`, files: map[string][]string{
				"etc/systemd/system.conf.d/environment.conf": {
					"[Manager]\nDefaultEnvironment=\"A=back\\\\slash\"\nDefaultEnvironment=\"QUOTED=with " +
						"\\\"quotes\\\" and 50%%\"\n"},
				"etc/systemd/system/kubelet.service.d/environment.conf": {
					"[Service]\nEnvironment=\"HTTP_PROXY=http://proxy\"\n"},
				"etc/resolv.conf": {"search example.com\nnameserver 8.8.8.8\n"},
			},
		},
		{
			name: "a base specification", version: "1.35",
			userData: nodeConfigOf(
				"  containerd:\n    baseRuntimeSpec:\n      process:\n        rlimits:\n        - {type: " +
					"RLIMIT_NOFILE, soft: 1024, hard: 1024}\n"),
			config: `{}`, files: map[string][]string{"etc/containerd/base-runtime-spec.json": {`"soft": 1024`,
				"CAP_CHOWN"}},
		},
		{name: "compressed and in base64", version: "1.35",
			userData: base64.StdEncoding.EncodeToString([]byte(nodeConfigOf(""))), config: `{"maxPods":58}`},
		{name: "JSON", version: "1.35",
			userData: `{"apiVersion":"node.eks.aws/v1alpha1","kind":"NodeConfig","spec":{"cluster":{"name":"demo","apiServerEndpoint":"https://x","certificateAuthority":"eA==","cidr":"10.100.0.0/16"}}}`, config: `{"maxPods":58}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := newCommand(t, test.version, test.userData)
			if code := c.Run(t.Context(), []string{"init"}); code != 0 {
				t.Fatalf("exit status %d\n%s", code, &c.output)
			}
			has(t, c.read(t, "etc/kubernetes/kubelet/config.json"), test.config)
			if test.dropIn != "" {
				has(t, c.read(t, "etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf"), test.dropIn)
			} else if _, err := os.Stat(filepath.Join(c.Root,
				"etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf")); err == nil {
				t.Error("there is a drop-in")
			}
			for name, parts := range test.files {
				text := c.read(t, name)
				for _, p := range parts {
					if p, not := strings.CutPrefix(p, "!"); strings.Contains(text, p) == not {
						t.Errorf("%s, of which %q is %t:\n%s", name, p, !not, text)
					}
				}
			}
			if got := strings.TrimPrefix(strings.Join(c.control, ", "),
				"daemon-reload, "); got != "restart containerd, restart kubelet" {
				t.Errorf("systemctl was called: %s", got)
			}
		})
	}
}

// has compares the keys that are wanted.
func has(t *testing.T, got, want string) {
	t.Helper()
	var g, w map[string]any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	hasKeys(t, "", g, w)
}

func hasKeys(t *testing.T, path string, got, want map[string]any) {
	t.Helper()
	for k, w := range want {
		if inner, ok := w.(map[string]any); ok {
			g, _ := got[k].(map[string]any)
			hasKeys(t, path+k+".", g, inner)
		} else if !reflect.DeepEqual(got[k], w) {
			t.Errorf("%s%s is %v, want %v", path, k, got[k], w)
		}
	}
}

func TestInitRefuses(t *testing.T) {
	t.Parallel()
	without := func(line string) string {
		var kept []string
		for _, l := range strings.Split(nodeConfigOf(""), "\n") {
			if !strings.Contains(l, line) {
				kept = append(kept, l)
			}
		}
		return strings.Join(kept, "\n")
	}
	for _, test := range []struct{ name, userData, want string }{
		{"no user data", "", "no config in chain"},
		{"a script", "#!/bin/bash\n", "no config in chain"},
		{"no name", without(" name:"), "Name is missing in cluster configuration"},
		{"no endpoint", without("apiServerEndpoint"), "Apiserver endpoint is missing in cluster configuration"},
		{"no CA", without("certificateAuthority"), "Certificate authority is missing in cluster configuration"},
		{"no CIDR", without("cidr"), "CIDR is missing in cluster configuration"},
		{"an Outpost without an ID", strings.Replace(nodeConfigOf(""), "    name: demo",
			"    name: demo\n    enableOutpost: true", 1), "cluster ID must be provided for outposts"},
		{"a CIDR that is none", strings.Replace(nodeConfigOf(""), "10.100.0.0/16", "10.100.0.0", 1),
			"10.100.0.0 is not a valid IP Address"},
		{"a strategy that is none", nodeConfigOf("  instance: {localStorage: {strategy: RAID5}}\n"),
			`invalid local storage strategy \"RAID5\"`},
		{"containerd's configuration is no TOML", nodeConfigOf("  containerd:\n    config: \"[x\"\n"),
			"containerd config"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := newCommand(t, "1.35", test.userData)
			if code := c.Run(t.Context(), []string{"init"}); code != 1 || !strings.Contains(c.output.String(),
				"fatal Command failed") || !strings.Contains(c.output.String(), test.want) {
				t.Errorf("exit status %d, want %q in\n%s", code, test.want, &c.output)
			}
			if strings.Contains(strings.Join(c.control, ","), "kubelet") {
				t.Error("the kubelet was started")
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"apiVersion: v1\nkind: Pod\n":                     `no kind "Pod" is registered for version "v1"`,
		"apiVersion: node.eks.aws/v1\nkind: NodeConfig\n": `no kind "NodeConfig" is registered for version "node.eks.aws/v1"`,
		"kind: NodeConfig\n":                              "Object 'apiVersion' is missing",
		"a: b\n":                                          "Object 'Kind' is missing",
		"a: [":                                            "couldn't get version/kind",
		"a: &a " + strings.Repeat("x", 100_000) + "\nb: [" + strings.Repeat("*a, ", 100) +
			"]\n": "couldn't get version/kind; line 2: the document is larger than 4 MiB",
		partial + "  cluster: {certificateAuthority: \"%\"}\n": "illegal base64 data",
		partial +
			"  kubelet: {flags: --v=2}\n": "cannot unmarshal string",
	} {
		if _, err := decodeConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "failed to decode node config, ") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// The two units of the image, one after the other: the first configures, the second takes what the first has cached and
// starts.
func TestPhasesAndCache(t *testing.T) {
	t.Parallel()
	configPhase := []string{"init", "--skip", "run", "--config-source", "imds://user-data", "--config-cache",
		"/run/eks/nodeadm/config.json"}
	runPhase := []string{"init", "--skip", "config", "--config-source", "imds://user-data", "--config-source",
		"file:///etc/eks/nodeadm.d/", "--config-cache", "/run/eks/nodeadm/config.json"}
	c := newCommand(t, "1.35", nodeConfigOf(""))
	if code := c.Run(t.Context(), configPhase); code != 0 || len(c.control) != 0 {
		t.Fatalf("exit status %d, systemctl %q\n%s", code, c.control, &c.output)
	}
	before := c.read(t, "etc/eks/kubelet/environment")
	if code := c.Run(t.Context(), runPhase); code != 0 ||
		fmt.Sprint(c.control) != "[restart containerd restart kubelet]" {
		t.Fatalf("exit status %d, systemctl %q\n%s", code, c.control, &c.output)
	}
	if got := c.read(t, "etc/eks/kubelet/environment"); got != before {
		t.Errorf("the second phase changed the flags from %q to %q", before, got)
	}
	// User data that drops a file in between is followed.
	c.write(t, "etc/eks/nodeadm.d/20-more.yaml", partial+"  kubelet:\n    flags: [--node-labels=from=a-file]\n")
	c.write(t, "etc/eks/nodeadm.d/10-more.json",
		`{"apiVersion":"node.eks.aws/v1alpha1","kind":"NodeConfig","spec":{"kubelet":{"flags":["--v=4"]}}}`)
	c.write(t, "etc/eks/nodeadm.d/README", "not this")
	if code := c.Run(t.Context(), runPhase); code != 0 || !strings.Contains(c.read(t, "etc/eks/kubelet/environment"),
		" --v=4 --node-labels=from=a-file\n") {
		t.Fatalf("exit status %d, flags %s\n%s", code, c.read(t, "etc/eks/kubelet/environment"), &c.output)
	}
	// A part of a configuration alone is none, cached or not.
	if code := c.Run(t.Context(), []string{"init", "--skip", "config,run", "--config-source",
		"file:///etc/eks/nodeadm.d", "--config-cache", "/run/eks/nodeadm/config.json"}); code != 1 {
		t.Errorf("a partial configuration: exit status %d", code)
	}
	// Without any, the cached one is taken.
	if err := os.RemoveAll(filepath.Join(c.Root, "etc/eks/nodeadm.d")); err != nil {
		t.Fatal(err)
	}
	c.write(t, "etc/eks/nodeadm.d/README", "")
	if code := c.Run(t.Context(), []string{"init", "--skip", "config", "--config-source", "file:///etc/eks/nodeadm.d",
		"--config-cache", "/run/eks/nodeadm/config.json"}); code != 0 {
		t.Errorf("the cached configuration: exit status %d\n%s", code, &c.output)
	}
}

func TestConfigCommands(t *testing.T) {
	t.Parallel()
	c := newCommand(t, "1.35", nodeConfigOf(""))
	c.write(t, "bad.yaml", strings.Replace(nodeConfigOf(""), "name: demo", "name-not-real: demo", 1))
	for args, want := range map[string]int{"config check": 0, "config check -c file:///bad.yaml": 1,
		"config dump -o /out.json": 0, "config": 2, "init --nonsense": 2, "config check -c ftp://x": 1} {
		if code := c.Run(t.Context(), strings.Fields(args)); code != want {
			t.Errorf("%s: exit status %d, want %d\n%s", args, code, want, &c.output)
		}
	}
	has(t, c.read(t, "out.json"),
		`{"kind":"NodeConfig","spec":{"cluster":{"name":"demo","apiServerEndpoint":"https://example.com","certificateAuthority":"Y2VydGlmaWNhdGVBdXRob3JpdHk=","cidr":"10.100.0.0/16"}},"status":null}`)
}

// containerd returns the path of the program, or of its place in the tree.
func containerd(t *testing.T) string {
	t.Helper()
	testenv.NeedsSetup(t)
	for _, path := range []string{"../../../bin/node/containerd"} {
		if path, err := filepath.Abs(path); err == nil {
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
	}
	path, err := exec.LookPath("containerd")
	if err != nil {
		t.Fatal("containerd is not built: run \"make node\"")
	}
	return path
}

func TestContainerdConfig(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, more, want string }{
		{"none", "", `[plugins.'io.containerd.cri.v1.images']
discard_unpacked_layers = true
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = 'pause:3.10'
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
base_runtime_spec = '/etc/containerd/base-runtime-spec.json'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
`},
		{"version 3", `
  containerd:
    config: |
      version = 3
      [grpc]
      address = "/run/foo/foo.sock"
      [plugins.'io.containerd.cri.v1.images'.pinned_images]
      sandbox = 'registry.k8s.io/pause:3.10'
`, `[grpc]
address = '/run/foo/foo.sock'
[plugins.'io.containerd.cri.v1.images']
discard_unpacked_layers = true
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = 'registry.k8s.io/pause:3.10'
`},
		{"version 2", `
  containerd:
    config: |
      version = 2
      [grpc]
      address = "/run/foo/foo.sock"
      [plugins."io.containerd.grpc.v1.cri".containerd]
      discard_unpacked_layers = false
      [plugins.'io.containerd.grpc.v1.cri']
      sandbox_image = "registry.k8s.io/pause:3.10"
`, `[plugins.'io.containerd.server.v1.grpc']
address = '/run/foo/foo.sock'
[plugins.'io.containerd.cri.v1.images']
discard_unpacked_layers = false
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = 'registry.k8s.io/pause:3.10'
[plugins.'io.containerd.cri.v1.images'.registry]
config_path = '/etc/containerd/certs.d:/etc/docker/certs.d'
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
BinaryName = '/usr/sbin/runc'
`},
		{"version 2 without the CRI",
			"  containerd:\n    config: |\n      version = 2\n      [debug]\n      level = \"debug\"\n",
			"[plugins.'io.containerd.cri.v1.runtime']\nrestrict_oom_score_adj = true\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := newCommand(t, "1.35", nodeConfigOf(test.more))
			c.Containerd = containerd(t)
			if code := c.Run(t.Context(), []string{"init", "--skip", "run"}); code != 0 {
				t.Fatalf("exit status %d\n%s", code, &c.output)
			}
			var got, want map[string]any
			text := c.read(t, "etc/containerd/config.toml")
			if err := toml.Unmarshal([]byte(text), &got); err != nil {
				t.Fatal(err)
			}
			if err := toml.Unmarshal([]byte(test.want), &want); err != nil {
				t.Fatal(err)
			}
			hasKeys(t, "", got, want)
			// containerd itself takes it, and knows all that is in it.
			out, err := exec.Command(c.Containerd, "--config", filepath.Join(c.Root, "etc/containerd/config.toml"),
				"config", "dump").CombinedOutput()
			if err != nil || strings.Contains(string(out), "level=warning msg=\"Ignoring unknown key") {
				t.Errorf("containerd config dump: %v\n%s", err, out)
			}
		})
	}
}
