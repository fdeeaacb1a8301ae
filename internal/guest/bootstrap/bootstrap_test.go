package bootstrap

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/guest/imds/imdstest"
	"github.com/coracle-eks/coracle/internal/guest/node"
	"github.com/coracle-eks/coracle/internal/guest/rootfs"
	"github.com/coracle-eks/coracle/internal/guest/rootfs/rootfstest"
)

var ca = base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"))

type fakeAWS struct {
	cluster node.Cluster
	err     error
}

func (f fakeAWS) WaitActive(context.Context, string) (node.Cluster, error) { return f.cluster, f.err }
func (f fakeAWS) PrivateDNSName(context.Context, string) (string, error) {
	return "ip-192-168-65-212.eu-west-1.compute.internal", nil
}

// script is a bootstrap.sh over a base image of an image, with the commands to systemctl that it made.
type script struct {
	Script
	output  bytes.Buffer
	control []string
}

func newScript(t *testing.T, version string, aws fakeAWS, more map[string]string) *script {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	program := func(string) (string, error) { return "/bin/true", nil }
	if err := rootfs.Write(root, rootfs.Options{Base: rootfstest.Base(t), Family: rootfs.AL2, KubernetesVersion: version,
		Release: version +
			".4-20261105", Region: "eu-west-1", SandboxImage: "602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/pause:3.10",
		Program: program}); err != nil {
		t.Fatal(err)
	}
	answers := map[string]string{
		"dynamic/instance-identity/document": `{"instanceId":"i-0123456789abcdef0","region":"eu-west-1","instanceType":"m5.large","availabilityZone":"eu-west-1a"}`,
		"meta-data/mac":                      "02:00:00:00:00:04", "meta-data/local-ipv4": "192.168.65.212",
		"meta-data/services/domain": "amazonaws.com",
		"meta-data/network/interfaces/macs/02:00:00:00:00:04/vpc-ipv4-cidr-blocks": "192.168.0.0/16\n100.64.0.0/16",
		"meta-data/network/interfaces/macs/02:00:00:00:00:04/ipv6s":                "2600::4\n2600::5",
	}
	for k, v := range more {
		answers[k] = v
	}
	s := &script{}
	s.Script = Script{
		IMDS: imdstest.Fake(t, answers), Root: root, Stdout: &s.output, Stderr: &s.output,
		AWS:       func(string) API { return aws },
		Systemctl: func(args ...string) error { s.control = append(s.control, strings.Join(args, " ")); return nil },
		Lookup:    func(context.Context, string) ([]string, error) { return []string{"10.9.9.9"}, nil },
	}
	return s
}

func (s *script) read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.Root, name))
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

func TestBootstrap(t *testing.T) {
	t.Parallel()
	given := []string{"demo", "--b64-cluster-ca", ca, "--apiserver-endpoint",
		"https://x.gr7.eu-west-1.eks.amazonaws.com"}
	described := node.Cluster{ID: "the-id", Endpoint: "https://described", Status: "ACTIVE"}
	described.CertificateAuthority.Data = ca
	described.KubernetesNetwork.ServiceIpv4Cidr = "10.43.0.0/16"
	outpost := described
	outpost.Outpost.OutpostArns = []string{"arn:aws:outposts:eu-west-1:111122223333:outpost/op-1"}
	for _, test := range []struct {
		name    string
		version string
		args    []string
		aws     fakeAWS
		more    map[string]string
		config  string              // a part of the kubelet's configuration
		files   map[string][]string // parts of files; "!" before a part that is not there
	}{
		{
			name: "labels and taints", version: "1.35", args: append(given, "--kubelet-extra-args",
				"--node-labels=a=b --register-with-taints=c=d:NoSchedule"),
			config: `{"clusterDNS":["10.100.0.10"],"maxPods":29,"kubeReserved":{"memory":"574Mi","ephemeral-storage":"1Gi"},"providerID":"aws:///eu-west-1a/i-0123456789abcdef0","kubeReservedCgroup":"/runtime","serverTLSBootstrap":true,"cgroupDriver":"cgroupfs","nodeStatusUpdateFrequency":"2s"}`,
			files: map[string][]string{
				"etc/systemd/system/kubelet.service.d/10-kubelet-args.conf": {
					"Environment='KUBELET_ARGS=--node-ip=192.168.65.212 --v=2 " +
						"--hostname-override=ip-192-168-65-212.eu-west-1.compute.internal --cloud-provider=external " +
						"--max-pods=29'", "!pod-infra"},
				"etc/systemd/system/kubelet.service.d/30-kubelet-extra-args.conf": {
					"Environment='KUBELET_EXTRA_ARGS=--node-labels=a=b --register-with-taints=c=d:NoSchedule'"},
				"var/lib/kubelet/kubeconfig": {
					"server: https://x.gr7.eu-west-1.eks.amazonaws.com", `- "demo"`, `- "eu-west-1"`,
					"aws-iam-authenticator"},
				"etc/kubernetes/pki/ca.crt": {"BEGIN CERTIFICATE"},
				"etc/containerd/config.toml": {
					`sandbox = "602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/pause:3.10"`, "SystemdCgroup = false"},
			},
		},
		{
			name: "an older version has the sandbox image among the kubelet's flags", version: "1.34",
			args:   append(given, "--pause-container-version", "3.5", "--pause-container-account", "111122223333"),
			config: `{}`, files: map[string][]string{"etc/systemd/system/kubelet.service.d/10-kubelet-args.conf": {
				" --pod-infra-container-image=111122223333.dkr.ecr.eu-west-1.amazonaws.com/eks/pause:3.5 "}},
		},
		{
			name: "no maximum of pods", version: "1.35", args: append(given, "--use-max-pods", "false",
				"--kubelet-extra-args", "--max-pods=110"),
			config: `{"maxPods":null,"kubeReserved":{"memory":"574Mi"}}`,
			files:  map[string][]string{"etc/systemd/system/kubelet.service.d/10-kubelet-args.conf": {"!--max-pods"}},
		},
		{name: "a VPC in 10.0.0.0/8", version: "1.35", args: given,
			more: map[string]string{
				"meta-data/network/interfaces/macs/02:00:00:00:00:04/vpc-ipv4-cidr-blocks": "10.0.0.0/16"},
			config: `{"clusterDNS":["172.20.0.10"]}`},
		{name: "a service CIDR", version: "1.35", args: append(given, "--service-ipv4-cidr", "10.9.0.0/16"),
			config: `{"clusterDNS":["10.9.0.10"]}`},
		{name: "addresses of the cluster's DNS", version: "1.35", args: append(given, "--dns-cluster-ip",
			"1.1.1.1,2.2.2.2"), config: `{"clusterDNS":["1.1.1.1","2.2.2.2"]}`},
		{
			name: "IPv6", version: "1.35", args: append(given, "--ip-family", "IPv6", "--service-ipv6-cidr",
				"fd12:3456::/108"), config: `{"clusterDNS":["fd12:3456::a"]}`,
			files: map[string][]string{"etc/systemd/system/kubelet.service.d/10-kubelet-args.conf": {
				"--node-ip=2600::4 "}},
		},
		{name: "reserved CPUs", version: "1.35", args: append(given, "--kubelet-extra-args", "--reserved-cpus=0"),
			config: `{"systemReservedCgroup":null,"kubeReservedCgroup":null}`},
		{
			name: "a cluster that is described", version: "1.35", args: []string{"demo"},
			aws: fakeAWS{cluster: described}, config: `{"clusterDNS":["10.43.0.10"]}`,
			files: map[string][]string{"var/lib/kubelet/kubeconfig": {"server: https://described"}},
		},
		{
			name: "a cluster on an Outpost", version: "1.35", args: []string{"demo"}, aws: fakeAWS{cluster: outpost},
			config: `{}`,
			files: map[string][]string{
				"var/lib/kubelet/bootstrap-kubeconfig": {`- "the-id"`}, "etc/hosts": {"10.9.9.9\tdescribed"},
				"etc/systemd/system/kubelet.service.d/30-kubelet-extra-args.conf": {
					"--bootstrap-kubeconfig /var/lib/kubelet/bootstrap-kubeconfig"},
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t, test.version, test.aws, test.more)
			if code := s.Run(t.Context(), test.args); code != 0 {
				t.Fatalf("exit status %d\n%s", code, &s.output)
			}
			var config, want map[string]any
			if err := json.Unmarshal([]byte(s.read(t, "etc/kubernetes/kubelet/kubelet-config.json")),
				&config); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(test.config), &want); err != nil {
				t.Fatal(err)
			}
			has(t, "", config, want)
			for name, parts := range test.files {
				text := s.read(t, name)
				for _, p := range parts {
					if p, not := strings.CutPrefix(p, "!"); strings.Contains(text, p) == not {
						t.Errorf("%s, of which %q is %t:\n%s", name, p, !not, text)
					}
				}
			}
			want1, want2 := "daemon-reload, enable containerd sandbox-image, restart containerd, start sandbox-image",
				"daemon-reload, enable kubelet, start kubelet"
			if got := strings.Join(s.control, ", "); got != want1+", "+want2 {
				t.Errorf("systemctl was called: %s", got)
			}
			// Again, as at a second call: containerd has what it needs.
			s.control = nil
			if code := s.Run(t.Context(), test.args); code != 0 {
				t.Fatalf("again: exit status %d\n%s", code, &s.output)
			}
			if got := strings.Join(s.control, ", "); got != want2 {
				t.Errorf("systemctl was called again: %s", got)
			}
		})
	}
}

// has compares the keys that are wanted; null is for what is not there.
func has(t *testing.T, path string, got, want map[string]any) {
	t.Helper()
	for k, w := range want {
		if inner, ok := w.(map[string]any); ok {
			g, _ := got[k].(map[string]any)
			has(t, path+k+".", g, inner)
			continue
		}
		g, _ := json.Marshal(got[k])
		w, _ := json.Marshal(w)
		if !bytes.Equal(g, w) {
			t.Errorf("%s%s is %s, want %s", path, k, g, w)
		}
	}
}

func TestBootstrapRefuses(t *testing.T) {
	t.Parallel()
	given := []string{"demo", "--b64-cluster-ca", ca, "--apiserver-endpoint", "https://x"}
	for _, test := range []struct {
		name string
		args []string
		aws  fakeAWS
		want string
	}{
		{"no cluster", nil, fakeAWS{}, "ERROR: cluster name is not defined!"},
		{"an unknown option", append(given, "--nonsense", "x"), fakeAWS{}, "ERROR: unknown option --nonsense"},
		{"an option without a value", append(given, "--ip-family"), fakeAWS{}, "ERROR: --ip-family needs a value"},
		{"an IP family", append(given, "--ip-family", "ipx"), fakeAWS{},
			"ERROR: Invalid --ip-family. Only ipv4 or ipv6 are allowed"},
		{"IPv6 without addresses", append(given, "--ip-family", "ipv6"), fakeAWS{},
			"ERROR: One of --service-ipv6-cidr or --dns-cluster-ip must be provided"},
		{"IPv4 with an IPv6 CIDR", append(given, "--ip-family", "ipv4", "--service-ipv6-cidr", "fd::/108"), fakeAWS{},
			"--ip-family should be ipv6"},
		{"docker", append(given, "--container-runtime", "dockerd"), fakeAWS{},
			"containerd is the only supported container runtime"},
		{"a CA that is no base64", []string{"demo", "--b64-cluster-ca", "!", "--apiserver-endpoint", "https://x"},
			fakeAWS{}, "--b64-cluster-ca is not base64"},
		{"a CA that is no certificate", []string{"demo", "--b64-cluster-ca", "aGVsbG8=", "--apiserver-endpoint",
			"https://x"}, fakeAWS{}, "--b64-cluster-ca has no PEM certificate in it"},
		{"an endpoint that is no URL", []string{"demo", "--b64-cluster-ca", ca, "--apiserver-endpoint", "x"}, fakeAWS{},
			"--apiserver-endpoint is not an https URL"},
		{"an Outpost without an ID", append(given, "--enable-local-outpost", "true"), fakeAWS{},
			"Cluster ID is required when local outpost support is enabled"},
		{"a role that may not", []string{"demo", "--aws-api-retry-attempts", "0"},
			fakeAWS{err: errors.New(
				"An error occurred (AccessDeniedException) when calling the DescribeCluster operation: no")},
			"AccessDeniedException"},
		{"a containerd configuration that is not there", append(given, "--containerd-config-file", "/nothing"),
			fakeAWS{}, "--containerd-config-file: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t, "1.35", test.aws, nil)
			if code := s.Run(t.Context(), test.args); code != 1 || !strings.Contains(s.output.String(), test.want) {
				t.Errorf("exit status %d, want %q in\n%s", code, test.want, &s.output)
			}
			for _, c := range s.control {
				if strings.Contains(c, "start kubelet") {
					t.Error("the kubelet was started")
				}
			}
		})
	}
}

func TestMaxPodsCalculator(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--instance-type m5.large --cni-version 1.9.0":                                "29\n",
		"--instance-type m5.large --cni-prefix-delegation-enabled":                    "110\n",
		"--instance-type m5.large --cni-prefix-delegation-enabled --show-max-allowed": "434\n",
		"--instance-type m5.large --cni-custom-networking-enabled":                    "20\n",
		"--instance-type m5.24xlarge --cni-prefix-delegation-enabled":                 "250\n",
		"--instance-type m5.large --cni-max-eni 1":                                    "11\n",
	} {
		var out, errs bytes.Buffer
		if code := MaxPods(strings.Fields(args), &out, &errs); code != 0 || out.String() != want {
			t.Errorf("%s: %d, %q, %s, want %q", args, code, &out, &errs, want)
		}
	}
	var out, errs bytes.Buffer
	if code := MaxPods([]string{"--instance-type", "x9.huge"}, &out, &errs); code == 0 ||
		!strings.Contains(errs.String(), `unknown instance type "x9.huge"`) {
		t.Errorf("an unknown type: %d, %s", code, &errs)
	}
}
