//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/guest/fargate"
	"github.com/coracle-eks/coracle/internal/guest/rootfs"
	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
	"github.com/coracle-eks/coracle/internal/host/machine/launch"
)

// fargatePod is a static pod: the API server of these tests accepts no node and has no pods.
const fargatePod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default",
"uid": "` + fargatePodUID + `"}, "spec": {
"priorityClassName": "system-node-critical", "terminationGracePeriodSeconds": 1,
"securityContext": {"sysctls": [{"name": "net.ipv4.ip_local_port_range", "value": "40000 50000"}]},
"containers": [{"name": "web", "image": "602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/pause:3.10",
"imagePullPolicy": "IfNotPresent", "securityContext": {"runAsUser": 1000, "capabilities": {"add": ["NET_RAW"]}},
"volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/w", "subPath": "w"},
{"name": "m", "mountPath": "/m"}, {"name": "m", "mountPath": "/mw", "subPath": "w"}, {"name": "d", "mountPath": "/d"},
{"name": "d", "mountPath": "/name", "subPath": "name"}, {"name": "p", "mountPath": "/p"}]}],
"volumes": [{"name": "v", "emptyDir": {}}, {"name": "m", "emptyDir": {"medium": "Memory"}},
{"name": "d", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
{"name": "p", "projected": {"sources": [
{"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}}]}}`

// fargatePodUID is the UID of the pod that the machine is for.
const fargatePodUID = "0a1b2c3d-1111-2222-3333-444455556666"

// newFargateMachine boots the machine of a Fargate pod.
func newFargateMachine(t *testing.T) *machine {
	m := newMachine(t, rootfs.AL2023, "1.35", "")
	m.isFargate = true
	config, err := json.Marshal(fargate.Config{Cluster: "demo", Region: region, Zone: region + "a",
		NodeName: "fargate-" + privateDNS, Address: privateIP, Endpoint: m.endpoint, CertificateAuthority: m.ca,
		ServiceCIDR: "172.20.0.0/16", ProviderID: fargateProviderID, PodUID: fargatePodUID, CPU: 250, Memory: 512,
		Version: "1.35"})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := json.Marshal(boot.Lease{Nameservers: []string{"10.0.0.2"}, DomainName: "eu-west-1.compute.internal"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.spec.Dir, launch.LeaseFile), lease, 0o644); err != nil {
		t.Fatal(err)
	}
	m.spec.Init = []string{"/usr/bin/bash", "-c", "umask 077; cd " + boot.HostDir + `; printf %s "$0" >` +
		boot.FargateFile + `; printf %s "$1" >` + boot.FargateTokenFile + "; exec " + rootfs.Init + " init",
		string(config), fargateToken}
	m.on()
	return m
}

// runStaticPod has the kubelet run a pod, without an API server that has it.
func (m *machine) runStaticPod(manifest string) {
	m.t.Helper()
	m.run("sed", "-i", "/^KUBELET_ARGS=/s|$| --pod-manifest-path=/etc/kubernetes/manifests|", "/etc/eks/fargate/kubelet")
	m.run("bash", "-c", `printf %s "$0" >/etc/kubernetes/manifests/web.json`, manifest)
	m.run("systemctl", "restart", "fargate-kubelet")
}

// TestFargateMounts has a volume of NFS name an option of mount(8) where its server stands: -aT FILE mounts all that
// the file says, which the pod has written, as root of the machine.
func TestFargateMounts(t *testing.T) {
	t.Parallel()
	m := newFargateMachine(t)
	m.untilNode()
	m.untilBooted()
	const volume = "/var/lib/kubelet/pods/" + fargatePodUID + "/volumes/kubernetes.io~empty-dir/v"
	m.runStaticPod(strings.NewReplacer(`"volumeMounts": [`, `"volumeMounts": [{"name": "n", "mountPath": "/n"}, `,
		`"volumes": [`, `"volumes": [{"name": "n", "nfs": {"server": "-aT`+volume+`/x", "path": "/fstab"}}, `).
		Replace(fargatePod))
	eventually.True(t, "the kubelet has made the volume of the pod", func() bool {
		return m.inside("test", "-d", volume).Run() == nil
	})
	m.run("bash", "-c", `mkdir $0/x:; printf '#!/bin/sh\n' >$0/x:/runc; chmod +x $0/x:/runc
		echo "$0/x:/runc /usr/lib/coracle/runc nfs bind 0 0" >$0/x:/fstab`, volume)
	refused := func() bool {
		return strings.Contains(m.run("journalctl", "--no-pager", "-u", "fargate-kubelet"), "which is not a source")
	}
	replaced := func() bool { return m.run("head", "-c", "2", "/usr/lib/coracle/runc") == "#!" }
	eventually.True(t, "the mount is refused", func() bool { return refused() || replaced() })
	if replaced() {
		t.Fatal("the pod has put a program of its own in the place of runc")
	}
	// It would have: the words do so with the mount(8) of the system.
	m.run("/usr/bin/mount", "-t", "nfs", "-aT"+volume+"/x:/fstab", "/mnt")
	if !replaced() {
		t.Error("what was refused does no harm")
	}
}

// TestFargateVolumePlugins has a pod with a volume of a host path, as a claim of its may have got after the pod was
// scheduled. The kubelet makes no directory for it.
func TestFargateVolumePlugins(t *testing.T) {
	t.Parallel()
	m := newFargateMachine(t)
	m.untilNode()
	m.untilBooted()
	m.runStaticPod(strings.NewReplacer(`"volumeMounts": [`, `"volumeMounts": [{"name": "h", "mountPath": "/h"}, `,
		`"volumes": [`, `"volumes": [{"name": "h", "hostPath": {"path": "/mkfs.", "type": "DirectoryOrCreate"}}, `).
		Replace(fargatePod))
	journal := func() string { return m.run("journalctl", "--no-pager", "-u", "fargate-kubelet") }
	made := func() bool { return m.inside("test", "-d", "/mkfs.").Run() == nil }
	eventually.True(t, "the volume is refused", func() bool {
		return made() || strings.Contains(journal(), "no volume plugin matched")
	})
	if made() {
		t.Error("the kubelet makes directories for a pod")
	}
	for _, plugin := range []string{"fc", "flexvolume", "git-repo", "host-path", "image", "iscsi", "local-volume"} {
		if strings.Contains(journal(), `"Loaded volume plugin" pluginName="kubernetes.io/`+plugin+`"`) {
			t.Errorf("the kubelet has the plugin %s", plugin)
		}
	}
	if !strings.Contains(journal(), `"Loaded volume plugin" pluginName="kubernetes.io/empty-dir"`) {
		t.Errorf("it does not say which plugins it has:\n%s", journal())
	}
}

// fargateProviderID is that of the node.
const fargateProviderID = "aws:///eu-west-1a/19bf1ab524-15c9a381b2364958b32dba8ceaed0cbb/fargate-" + privateDNS

// TestFargate boots the machine of a Fargate pod, and runs a pod on it.
func TestFargate(t *testing.T) {
	t.Parallel()
	m := newFargateMachine(t)
	n := m.untilNode()
	if report := m.untilBooted(); !report.Network || report.UserData != "" || len(report.FailedUnits) > 0 {
		t.Errorf("the boot is reported as %+v", report)
	}
	if n.Name != "fargate-"+privateDNS || n.Spec.ProviderID != fargateProviderID || n.Status.Capacity.Pods().Value() != 1 {
		t.Errorf("the node is %s, %s, for %s pods", n.Name, n.Spec.ProviderID, n.Status.Capacity.Pods())
	}
	for name, want := range map[string]string{"eks.amazonaws.com/compute-type": "fargate",
		corev1.LabelHostname: privateDNS, corev1.LabelTopologyZone: region + "a", corev1.LabelTopologyRegion: region} {
		if n.Labels[name] != want {
			t.Errorf("the node has the label %s=%s, want %s", name, n.Labels[name], want)
		}
	}
	if !strings.Contains(fmt.Sprint(n.Spec.Taints), "{eks.amazonaws.com/compute-type fargate NoSchedule") {
		t.Errorf("the node has the taints %v", n.Spec.Taints)
	}
	m.mu.Lock()
	token := m.token
	m.mu.Unlock()
	if !strings.HasPrefix(token, "Bearer k8s-aws-v1.") {
		t.Errorf("the kubelet came with %q, want a token of aws-iam-authenticator", token)
	}
	state := func(unit string) string { return strings.Fields(m.run("systemctl", "is-active", unit) + " ?")[0] }
	eventually.True(t, "kube-proxy runs", func() bool { return state("fargate-kube-proxy") == "active" })
	for _, name := range []string{"cloud-init", "cloud-final", "nodeadm-config", "kubelet", "containerd", "fargate-efs",
		"fargate-log-router"} {
		if state(name) == "active" {
			t.Errorf("%s runs", name)
		}
	}
	m.contains("/etc/resolv.conf", m.read("/etc/resolv.conf"), "nameserver 10.0.0.2")
	if plugins := m.run("ctr", "plugins", "ls"); strings.Contains(plugins, " restart ") {
		t.Errorf("containerd has the plugin that restarts containers:\n%s", plugins)
	}

	m.runStaticPod(fargatePod)
	pids := func() []string {
		out, _ := m.inside("pgrep", "-x", "pause").Output() // it fails when there is none
		return strings.Fields(string(out))
	}
	eventually.True(t, "the pod runs", func() bool { return len(pids()) == 2 }) // the sandbox, and its container
	container := pids()[1]
	namespace := m.run("readlink", "/proc/1/ns/net")
	for _, pid := range pids() {
		if got := m.run("readlink", "/proc/"+pid+"/ns/net"); got != namespace {
			t.Errorf("the pod has the network namespace %s, and the machine %s", got, namespace)
		}
	}
	if own := m.run("readlink", "/proc/1/ns/uts"); m.run("readlink", "/proc/"+container+"/ns/uts") == own {
		t.Error("the pod has the host name of the machine")
	}
	for _, pid := range pids() {
		const netRaw = 1 << 13
		for line := range strings.Lines(m.read("/proc/" + pid + "/status")) {
			var set uint64
			if _, err := fmt.Sscanf(line, "CapBnd: %x", &set); err == nil && (set == 0 || set&netRaw != 0) {
				t.Errorf("the pod has the capabilities %x", set)
			}
		}
	}
	m.contains("resolv.conf of the pod", m.read("/proc/"+container+"/root/etc/resolv.conf"), "nameserver 172.20.0.10")
	for name, want := range map[string]string{"ip_local_port_range": "40000\t50000", "ip_unprivileged_port_start": "0"} {
		m.contains(name, m.read("/proc/sys/net/ipv4/"+name), want)
	}
	// A second sandbox of the pod comes after a crash of the first, whose end leaves the network as it is.
	m.run("kill", "-9", pids()[0])
	eventually.True(t, "the pod runs again", func() bool {
		now := pids()
		return len(now) == 2 && now[0] != container && now[1] != container &&
			len(strings.Fields(m.run("ls", "/run/netns"))) == 1
	})
	m.contains("lo", m.run("ip", "link", "show", "lo"), "LOWER_UP")
	m.contains("eth0", m.run("ip", "address", "show", "eth0"), privateIP)
	anonymous := 0
	for line := range strings.Lines(m.run("bash", "-c", "cat /proc/[0-9]*/status")) {
		size := 0
		_, _ = fmt.Sscanf(line, "RssAnon: %d kB", &size)
		anonymous += size
	}
	if anonymous > 110<<10 {
		t.Errorf("the machine has %d KiB of its own, want at most 110 MiB", anonymous)
	}
	t.Logf("the machine has %d KiB of its own:\n%s", anonymous, m.run("bash", "-c",
		"for p in /proc/[0-9]*; do echo $(tr '\\0' ' ' <$p/cmdline | cut -c1-60) $(grep RssAnon $p/status); done"))
}
