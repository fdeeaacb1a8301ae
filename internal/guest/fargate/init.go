package fargate

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/internal/fargate/capability"
	"github.com/coracle-eks/coracle/internal/guest/node"
	"github.com/coracle-eks/coracle/internal/guest/rootfs"
	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
)

// Files of a machine that the units of fargate.target name, but for CNI's.
const (
	dir           = "/etc/eks/fargate"
	awsConfig     = dir + "/aws-config"
	environment   = dir + "/environment"
	kubeletEnv    = dir + "/kubelet"
	efsEnv        = dir + "/efs"
	efsVolumes    = dir + "/efs-volumes.json"
	proxyConfig   = dir + "/kube-proxy.json"
	routerConfig  = dir + "/log-router.json"
	kubeletConfig = "/etc/kubernetes/kubelet/config.json"
	kubeProxy     = "/usr/lib/coracle/kube-proxy"
	kube          = "/usr/bin/kubelet" // all of Kubernetes in one program, which its name selects a part of

	containerdConfig = "/etc/containerd/config.toml"
	runtimeSpec      = "/etc/containerd/base-runtime-spec.json"
	networkConfig    = "/etc/cni/net.d/10-fargate.conflist"
	networkPlugin    = "/opt/cni/bin/" + pluginName

	// programs is the directory of programs that what runs beside the pod finds before those of the system.
	programs = "/usr/lib/coracle/fargate"
	mount    = programs + "/mount" // of package fargatemount
	runc     = programs + "/" + boot.FargateRunc
)

// Setup writes the configuration of a Fargate node.
type Setup struct {
	Root   string // of the file system; empty means /. Tests have another.
	Stderr io.Writer
}

// Run configures the machine by boot.FargateFile.
func (s Setup) Run() error {
	data, err := os.ReadFile(s.rootPath(boot.HostDir + "/" + boot.FargateFile))
	if err != nil {
		return fmt.Errorf("configure the Fargate node: %w", err)
	}
	c, err := Parse(data)
	if err != nil {
		return err
	}
	image, err := node.ReadImage(s.Root)
	if err != nil {
		return err
	}
	if c.Version != "" && c.Version != image.KubernetesVersion {
		return fmt.Errorf("configure the Fargate node: the image is for Kubernetes %s, but the node requires %s",
			image.KubernetesVersion, c.Version)
	}
	for _, step := range []func(Config, rootfs.Image) error{s.configureIdentity, s.configureContainerd,
		s.configureNetwork, s.configureKubelet, s.configureKubeProxy, s.configureVolumes, s.configureLogging,
		s.configureSysctls} {
		if err := step(c, image); err != nil {
			return fmt.Errorf("configure the Fargate node: %w", err)
		}
	}
	return nil
}

func (s Setup) rootPath(name string) string { return filepath.Join("/", s.Root, name) }

// writeFile writes a file that the machine's root alone reads: pods of the machine are not meant to know its node.
func (s Setup) writeFile(name, content string) error {
	return node.WriteFile(s.Root, name, content, 0o600)
}

func (s Setup) writeJSON(name string, value any) error {
	data, err := json.MarshalIndent(value, "", "    ")
	if err != nil {
		return err
	}
	return s.writeFile(name, string(data)+"\n")
}

// link makes name a symbolic link to a target.
func (s Setup) link(target, name string) error {
	path := s.rootPath(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(target, path)
}

// configureIdentity gives what runs beside the pod the pod execution role: the SDKs run the credential process. None of
// it looks for an instance profile, which the machine does not have.
func (s Setup) configureIdentity(c Config, _ rootfs.Image) error {
	if err := s.writeFile(awsConfig, fmt.Sprintf("[default]\nregion = %s\ncredential_process = %s fargate credentials\n",
		c.Region, rootfs.Init)); err != nil {
		return err
	}
	if err := s.link(rootfs.Init, mount); err != nil {
		return err
	}
	return s.writeEnvironment(environment, map[string]string{"AWS_CONFIG_FILE": awsConfig, "AWS_REGION": c.Region,
		"AWS_EC2_METADATA_DISABLED": "true", "PATH": programs + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"})
}

// writeEnvironment writes an EnvironmentFile= of a unit.
func (s Setup) writeEnvironment(name string, variables map[string]string) error {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(variables)) {
		fmt.Fprintf(&b, "%s=%s\n", key, variables[key])
	}
	return s.writeFile(name, b.String())
}

// Limits of open files and of processes in pods.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-pod-configuration.html
const (
	softLimit = 1024
	hardLimit = 65535
)

// configureContainerd configures containerd, and the specification on which containers are based.
func (s Setup) configureContainerd(_ Config, image rootfs.Image) error {
	spec, err := node.RuntimeSpec()
	if err != nil {
		return err
	}
	process, _ := spec["process"].(map[string]any)
	limit := func(kind string) map[string]any {
		return map[string]any{"type": kind, "soft": float64(softLimit), "hard": float64(hardLimit)}
	}
	limits := []any{limit("RLIMIT_NOFILE")}
	if node.InUserNamespace(s.Root) {
		// Without users of its own, the machine's are counted with the host's, and with those of all other machines.
		limits = append(limits, limit("RLIMIT_NPROC"))
	}
	process["rlimits"] = limits
	capabilities, _ := process["capabilities"].(map[string]any)
	for set, names := range capabilities {
		all, _ := names.([]any)
		capabilities[set] = slices.DeleteFunc(all, func(name any) bool { return name == "CAP_"+capability.NetRaw })
	}
	if err := node.LimitFiles(spec); err != nil {
		return err
	}
	if err := s.writeJSON(runtimeSpec, spec); err != nil {
		return err
	}
	if err := s.link(rootfs.Runc, runc); err != nil {
		return err
	}
	return s.writeFile(containerdConfig, rootfs.ContainerdConfig(rootfs.ContainerdOptions{
		SandboxImage: image.SandboxImage, BaseRuntimeSpec: runtimeSpec, OwnNetwork: true, Runc: runc,
		DisabledPlugins: disabledPlugins,
	}))
}

// disabledPlugins are the plugins of containerd that the CRI does without, and that would take memory, or start
// containers that nobody has validated (restart).
var disabledPlugins = []string{
	"io.containerd.differ.v1.erofs", "io.containerd.image-verifier.v1.bindir", "io.containerd.internal.v1.restart",
	"io.containerd.internal.v1.tracing", "io.containerd.monitor.container.v1.restart",
	"io.containerd.mount-handler.v1.erofs", "io.containerd.nri.v1.nri", "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs",
	"io.containerd.snapshotter.v1.native", "io.containerd.tracing.processor.v1.otlp",
}

// configureNetwork makes the CNI plugin that of pods.
func (s Setup) configureNetwork(c Config, _ rootfs.Image) error {
	if err := s.link(rootfs.Init, networkPlugin); err != nil {
		return err
	}
	return s.writeJSON(networkConfig, map[string]any{"cniVersion": cniVersion, "name": pluginName,
		"plugins": []any{pluginConfig{Type: pluginName, Address: c.Address}}})
}

// volumePlugins are those of volumes that pods on Fargate may have. With others, such as those of host paths, the
// kubelet would make directories and run programs for a volume that was replaced after the pod was scheduled.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate.html
var volumePlugins = []string{
	"kubernetes.io/configmap", "kubernetes.io/csi", "kubernetes.io/downward-api", "kubernetes.io/empty-dir",
	"kubernetes.io/nfs", "kubernetes.io/projected", "kubernetes.io/secret",
}

// configureKubelet configures the kubelet.
//
// What the machine has is the pod's, and is enforced by its host: the kubelet reserves nothing, and limits no pod a
// second time. When there is little disk left it says so, and deletes containers that have ended; it does not evict the
// pod, which is critical. It collects no images: a machine ends with its pod. What administrators of the cluster could
// otherwise read of the machine, its logs and profiles, is not served.
func (s Setup) configureKubelet(c Config, image rootfs.Image) error {
	dns, err := node.ClusterDNS(c.ServiceCIDR)
	if err != nil {
		return err
	}
	config := node.KubeletConfig(dns)
	maps.Copy(config, map[string]any{
		"enableDebugFlagsHandler": false, "enableProfilingHandler": false, "enableSystemLogHandler": false,
		// Groups of its own would have the processors that the machine sees, of which the host may have fewer, or others.
		"cgroupsPerQOS": false, "enforceNodeAllocatable": []string{},
		"evictionHard":                map[string]string{"nodefs.available": "10%", "nodefs.inodesFree": "5%"},
		"healthzPort":                 0, // the pod may want the port
		"imageGCHighThresholdPercent": 100, "maxPods": 1, "providerID": c.ProviderID,
	})
	if gates, ok := config["featureGates"].(map[string]bool); ok && node.AtLeast(node.KubeletVersion(image), "1.35") {
		gates["EnvFiles"] = false // the kubelet would follow links in a volume that the pod changes
	}
	node.FitKubelet(config, s.Root)
	if err := s.writeJSON(kubeletConfig, config); err != nil {
		return err
	}
	ca, err := base64.StdEncoding.DecodeString(c.CertificateAuthority)
	if err != nil {
		return fmt.Errorf("read the certificate authority of the cluster: %w", err)
	}
	if err := s.writeFile(node.CAFile, string(ca)); err != nil {
		return err
	}
	if err := s.writeFile(node.KubeconfigFile, node.Kubeconfig(c.Endpoint, c.Cluster, c.Region)); err != nil {
		return err
	}
	if err := s.writeFile(node.ProviderDir+"/config.json",
		rootfs.CredentialProviderConfig(node.PublicImages(node.KubeletVersion(image))...)); err != nil {
		return err
	}
	var labels []string
	own := c.nodeLabels()
	for _, name := range slices.Sorted(maps.Keys(own)) {
		labels = append(labels, name+"="+own[name])
	}
	args := strings.Join([]string{
		"--cloud-provider=external", "--config=" + kubeletConfig, "--hostname-override=" + c.NodeName,
		"--image-credential-provider-bin-dir=" + node.ProviderDir,
		"--image-credential-provider-config=" + node.ProviderDir + "/config.json", "--kubeconfig=" + node.KubeconfigFile,
		"--node-ip=" + c.Address, "--node-labels=" + strings.Join(labels, ","),
		"--register-with-taints=" + strings.Join(c.nodeTaints(), ","),
		"--runtime-cgroups=/runtime.slice/fargate-containerd.service",
	}, " ")
	return s.writeEnvironment(kubeletEnv, map[string]string{"KUBELET_ARGS": args,
		"KUBELET_VOLUME_PLUGINS": strings.Join(volumePlugins, ",")})
}

// configureKubeProxy configures kube-proxy, with the identity of the kubelet. It leaves the size of the connection
// tracking table to the host, and serves the machine alone: nobody outside asks it, or reaches ports of services on a
// Fargate node.
func (s Setup) configureKubeProxy(c Config, _ rootfs.Image) error {
	if err := s.link(kube, kubeProxy); err != nil {
		return err
	}
	loopback, bind, nodePorts := "127.0.0.1", "0.0.0.0", "127.0.0.0/8"
	if c.isIPv6() {
		loopback, bind, nodePorts = "[::1]", "::", "::1/128"
	}
	return s.writeJSON(proxyConfig, map[string]any{
		"kind": "KubeProxyConfiguration", "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
		"bindAddress":        bind,
		"clientConnection":   map[string]any{"kubeconfig": node.KubeconfigFile},
		"clusterCIDR":        "",
		"conntrack":          map[string]any{"maxPerCore": 0, "min": 0},
		"healthzBindAddress": loopback + ":10256",
		"hostnameOverride":   c.NodeName,
		"iptables":           map[string]any{"localhostNodePorts": false, "masqueradeAll": false},
		"metricsBindAddress": loopback + ":10249",
		"mode":               "iptables",
		"nodePortAddresses":  []string{nodePorts},
		"oomScoreAdj":        -998,
	})
}

// configureVolumes runs the EFS CSI driver if the pod has volumes of it: its unit starts when the file exists. The
// driver mounts the volumes that the pod was scheduled with, and no others.
func (s Setup) configureVolumes(c Config, _ rootfs.Image) error {
	if len(c.EFSVolumes) == 0 {
		return nil
	}
	if err := s.writeJSON(efsVolumes, c.EFSVolumes); err != nil {
		return err
	}
	return s.writeEnvironment(efsEnv, map[string]string{"EFS_ARGS": fmt.Sprintf(
		"--node-id=%s --region=%s --zone=%s --volumes=%s", c.NodeName, c.Region, c.Zone, efsVolumes)})
}

// configureLogging runs the log router, as configureVolumes runs the driver.
func (s Setup) configureLogging(c Config, _ rootfs.Image) error {
	if c.Logging == nil {
		return nil
	}
	return s.writeJSON(routerConfig, routerFile{Logging: *c.Logging, Cluster: c.Cluster, Region: c.Region,
		NodeName: c.NodeName, PodIP: c.Address, Endpoint: c.Endpoint, CertificateAuthority: c.CertificateAuthority})
}

// configureSysctls sets for the machine what containerd sets for pods with a network of their own: any user may listen
// to any port, and may ping.
func (s Setup) configureSysctls(Config, rootfs.Image) error {
	groups := "0 2147483647"
	if node.InUserNamespace(s.Root) {
		groups = "0 65535" // those that it has
	}
	for name, value := range map[string]string{"ip_unprivileged_port_start": "0", "ping_group_range": groups} {
		err := os.WriteFile(s.rootPath("/proc/sys/net/ipv4/"+name), []byte(value), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(s.Stderr, "set net.ipv4.%s: %v\n", name, err)
		}
	}
	return nil
}
