//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/guest/rootfs"
	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
	"github.com/coracle-eks/coracle/internal/host/machine/launch"
)

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
	if n.Labels["team"] != "blue" || n.Status.NodeInfo.OSImage != "Amazon Linux 2023.13.20261105" {
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
			if !strings.Contains(strings.Join(r.FailedUnits, " "), test.failed) ||
				!strings.Contains(r.Failure, test.failure) {
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
