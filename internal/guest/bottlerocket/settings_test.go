package bottlerocket

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/guest/imds/imdstest"
	"github.com/coracle-eks/coracle/internal/guest/rootfs"
	"github.com/coracle-eks/coracle/internal/guest/rootfs/rootfstest"
)

type fakeAWS struct{}

func (fakeAWS) PrivateDNSName(context.Context, string) (string, error) { return "ip-10-0-0-4", nil }

func TestApply(t *testing.T) {
	t.Parallel()
	const cluster = "[settings.kubernetes]\napi-server = \"https://x\"\ncluster-certificate = \"Y2E=\"\ncluster-name " +
		"= \"demo\"\n"
	for _, test := range []struct {
		name, userData string
		err, output    string
		files          map[string][]string
	}{
		{name: "the defaults", userData: cluster, files: map[string][]string{
			kubeletConfig: {`"172.20.0.10"`, `"nodeStatusUpdateFrequency": "2s"`,
				`"maxPods": 29`, `"memory": "574Mi"`, `"cpu": "70m"`,
				`"providerID": "aws:///eu-west-1a/i-1"`, `"cgroupDriver": "cgroupfs"`},
			kubeletEnv:       {"NODE_IP=10.0.0.4\nNODE_LABELS=\nNODE_TAINTS=\nHOSTNAME_OVERRIDE=ip-10-0-0-4\n"},
			kubeconfig:       {"server: https://x", `- "demo"`},
			caFile:           {"ca"},
			containerdConfig: {`sandbox = "pause:3.10"`},
		}},
		{name: "settings of the kubelet", userData: cluster + `
cluster-dns-ip = ["1.1.1.1", "2.2.2.2"]
max-pods = 20
log-level = 4
pod-pids-limit = 1048576
hostname-override-source = "instance-id"
registry-qps = 7
[settings.kubernetes.kube-reserved]
cpu = "10m"
[settings.kubernetes.eviction-hard]
"memory.available" = "15%"
[settings.kubernetes.node-labels]
b = "2"
a = "1"
[settings.kubernetes.node-taints]
dedicated = ["gpu:NoSchedule", "x:NoExecute"]
other = "y:PreferNoSchedule"
`, files: map[string][]string{
			kubeletConfig: {"\"1.1.1.1\",\n    \"2.2.2.2\"", `"maxPods": 20`, `"cpu": "10m"`, `"memory": "475Mi"`,
				`"memory.available": "15%"`, `"verbosity": 4`, `"podPidsLimit": 1048576`, `"registryPullQPS": 7`},
			kubeletEnv: {
				"NODE_LABELS=a=1,b=2\nNODE_TAINTS=dedicated=gpu:NoSchedule,dedicated=x:NoExecute,other=y:PreferNoSchedule\nHOSTNAME_OVERRIDE=i-1\n"},
		}},
		{name: "what is not applied", userData: cluster +
			"nonsense = 1\n[settings.host-containers.admin]\nenabled = true\n",
			output: "settings.host-containers is not applied on this machine\nsettings.kubernetes.nonsense is not " +
				"applied on this machine\n"},
		{name: "no cluster", userData: "[settings]\nmotd = \"hello\"\n",
			output: "the user data has no settings.kubernetes", files: map[string][]string{"/etc/motd": {"hello"}}},
		{name: "no user data", output: "the user data has no settings.kubernetes"},
		{name: "no name", userData: strings.Replace(cluster, "cluster-name", "cluster-domain", 1),
			err: "settings.kubernetes.cluster-name is missing in the user data"},
		{name: "no TOML", userData: "#!/bin/bash\necho\n", err: "the user data is not TOML, at line 2"},
		{name: "tables too deep", userData: "[settings" + strings.Repeat(".a", 200) + "]\n",
			err: "the user data cannot be read: line 1: tables, arrays and dotted keys are nested too deeply"},
		{name: "another table", userData: "[kubernetes]\n", err: `the user data has the table "kubernetes"`},
		{name: "a certificate that is no base64", userData: strings.Replace(cluster, "Y2E=", "!", 1),
			err: "cluster-certificate is not base64"},
		{name: "a taint", userData: cluster + "[settings.kubernetes.node-taints]\na = \"b\"\n",
			err: `settings.kubernetes.node-taints."a" is b`},
		{name: "an address", userData: cluster + "cluster-dns-ip = \"x\"\n", err: "settings.kubernetes.cluster-dns-ip"},
		{name: "a source of names", userData: cluster + "hostname-override-source = \"x\"\n",
			err: `hostname-override-source "x" is none of`},
		{name: "no cluster at all", userData: cluster + "standalone-mode = true\n",
			err: "standalone-mode is not served"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := filepath.Join(t.TempDir(), "root")
			if err := rootfs.Write(root, rootfs.Options{Base: rootfstest.Base(t),
				Family: rootfs.Bottlerocket, KubernetesVersion: "1.36",
				Release: "1.63.0-abc", Region: "eu-west-1", SandboxImage: "pause:3.10", Program: func(string) (string, error) {
					return "/bin/true", nil
				}}); err != nil {
				t.Fatal(err)
			}
			answers := map[string]string{
				"dynamic/instance-identity/document": `{"instanceId":"i-1","region":"eu-west-1","instanceType":"m5.large","availabilityZone":"eu-west-1a"}`,
				"meta-data/mac":                      "02:00", "meta-data/local-ipv4": "10.0.0.4",
				"meta-data/network/interfaces/macs/02:00/vpc-ipv4-cidr-blocks": "10.0.0.0/16",
			}
			if test.userData != "" {
				answers["user-data"] = test.userData
			}
			var out bytes.Buffer
			var control []string
			b := &Boot{IMDS: imdstest.Fake(t, answers), Root: root, Out: &out,
				AWS: func(string) API { return fakeAWS{} }, CPUs: 2,
				Systemctl: func(args ...string) error {
					control = append(control,
						strings.Join(args, " "))
					return nil
				}}
			err := b.Apply(t.Context())
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || len(control) != 0 {
					t.Errorf("error %v, want %q; systemctl %q", err, test.err, control)
				}
				return
			}
			if err != nil || !strings.Contains(out.String(), test.output) {
				t.Fatalf("error %v, output %q, want %q", err, &out, test.output)
			}
			if want := "restart containerd, restart kubelet"; strings.Contains(test.userData, "api-server") &&
				strings.Join(control, ", ") != want {
				t.Errorf("systemctl %q, want %q", control, want)
			}
			for name, parts := range test.files {
				data, err := os.ReadFile(filepath.Join(root, name))
				if err != nil {
					t.Error(err)
				}
				for _, p := range parts {
					if !strings.Contains(string(data), p) {
						t.Errorf("%s has no %q:\n%s", name, p, data)
					}
				}
			}
		})
	}
}
