package nodeadm

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/coracle-eks/coracle/internal/guest/node"
	"github.com/coracle-eks/coracle/internal/guest/rootfs"
	"github.com/coracle-eks/coracle/internal/instancetype"
)

const (
	kubeletConfig  = "/etc/kubernetes/kubelet/config.json"
	kubeletDropIns = "/etc/kubernetes/kubelet/config.json.d"
	kubeletEnv     = "/etc/eks/kubelet/environment"
)

// kubelet configures the kubelet: its configuration file with the user's as a drop-in, its kubeconfig, credential
// provider and flags.
func (r *run) kubelet(ctx context.Context, c *NodeConfig) error {
	version := c.Status.KubeletVersion
	cluster := c.Spec.Cluster
	outpost := cluster.EnableOutpost != nil && *cluster.EnableOutpost
	dns, err := node.ClusterDNS(cluster.CIDR)
	if err != nil {
		return err
	}
	if outpost {
		if err := r.writeHosts(ctx, cluster.APIServerEndpoint); err != nil {
			return err
		}
	}
	ip, err := node.NodeIP(ctx, r.IMDS, c.Status.Instance.MAC, strings.Contains(cluster.CIDR, ":"))
	if err != nil {
		return err
	}
	r.log("info", "Setup IP for node", "ip", ip)
	name := c.Status.Instance.PrivateDNSName
	if c.Spec.FeatureGates[instanceIDNodeName] {
		r.log("info", "Opt-in Instance Id naming strategy")
		name = c.Status.Instance.ID
	}
	maxPods := r.maxPods(c)
	config := node.KubeletConfig(dns)
	gates, _ := config["featureGates"].(map[string]bool)
	maps.Copy(config, map[string]any{
		"evictionHard": map[string]string{"memory.available": "100Mi", "nodefs.available": "10%",
			"nodefs.inodesFree": "5%"},
		"maxPods": maxPods,
		"kubeReserved": map[string]string{"cpu": fmt.Sprintf("%dm", node.ReservedCPU(r.cpuCount())),
			"ephemeral-storage": "1Gi", "memory": fmt.Sprintf("%dMi", node.ReservedMemory(maxPods))},
		"kubeReservedCgroup": "/runtime", "systemReservedCgroup": "/system",
		"providerID": c.Status.Instance.ProviderID(),
	})
	if node.AtLeast(version, "1.33") && !node.AtLeast(version, "1.35") { // always on from 1.35
		gates["DynamicResourceAllocation"] = true
	}
	if node.AtLeast(version, "1.34") {
		gates["MutableCSINodeAllocatableCount"] = true
		config["shutdownGracePeriod"], config["shutdownGracePeriodCriticalPods"] = "2m30s", "30s"
	}
	node.FitKubelet(config, r.Root)
	if c.Spec.Kubelet.Config["nodeStatusUpdateFrequency"] == nil {
		node.ReportVolumesEarly(config)
	}
	if err := r.writeJSON(kubeletConfig, config); err != nil {
		return err
	}
	flags := map[string]string{
		"cloud-provider": "external", "hostname-override": name, "node-ip": ip, "config": kubeletConfig,
		"kubeconfig": node.KubeconfigFile, "runtime-cgroups": "/runtime.slice/containerd.service",
		"image-credential-provider-bin-dir": node.ProviderDir,
		"image-credential-provider-config":  node.ProviderDir + "/config.json", "max-pods": strconv.Itoa(maxPods),
	}
	if !node.AtLeast(version, "1.35") {
		flags["pod-infra-container-image"] = c.Status.Defaults.SandboxImage
	}
	if err := os.RemoveAll(r.rootPath(kubeletDropIns + "/40-nodeadm.conf")); err != nil {
		return err
	}
	if len(c.Spec.Kubelet.Config) > 0 {
		flags["config-dir"] = kubeletDropIns
		// A flag takes the place of any file, and so would that for the type of the instance of what the user wants.
		if pods, ok := c.Spec.Kubelet.Config["maxPods"].(float64); ok && pods > 0 {
			flags["max-pods"] = strconv.Itoa(int(pods))
		}
		user, err := mergeMaps(map[string]any{"kind": "KubeletConfiguration",
			"apiVersion": "kubelet.config.k8s.io/v1beta1"}, c.Spec.Kubelet.Config)
		if err != nil {
			return err
		}
		if err := r.writeJSON(kubeletDropIns+"/40-nodeadm.conf", user); err != nil {
			return err
		}
	}
	clusterName := cluster.Name
	target := node.KubeconfigFile
	if outpost {
		clusterName, target = cluster.ID, "/var/lib/kubelet/bootstrap-kubeconfig"
		flags["bootstrap-kubeconfig"] = target
	}
	if err := r.writeFile(target, node.Kubeconfig(cluster.APIServerEndpoint, clusterName,
		c.Status.Instance.Region)); err != nil {
		return err
	}
	if _, err := os.Stat(r.rootPath(node.ProviderDir + "/ecr-credential-provider")); err != nil {
		return fmt.Errorf("image credential provider binary was not found on path %s. error: %w", node.ProviderDir+
			"/ecr-credential-provider", err)
	}
	if err := r.writeFile(node.ProviderDir+"/config.json",
		rootfs.CredentialProviderConfig(node.PublicImages(version)...)); err != nil {
		return err
	}
	if err := r.writeFile(node.CAFile, string(cluster.CertificateAuthority)); err != nil {
		return err
	}
	var words []string
	for _, flag := range slices.Sorted(maps.Keys(flags)) {
		words = append(words, "--"+flag+"="+flags[flag])
	}
	return r.writeFile(kubeletEnv, "NODEADM_KUBELET_ARGS="+strings.Join(append(words, c.Spec.Kubelet.Flags...), " ")+
		"\n")
}

func (r *run) writeJSON(name string, value any) error {
	data, err := json.MarshalIndent(value, "", "    ")
	if err != nil {
		return err
	}
	r.log("info", "Writing file..", "path", name)
	return r.writeFile(name, string(data)+"\n")
}

// writeHosts stores the addresses of the endpoint, for when the Outpost is disconnected.
func (r *run) writeHosts(ctx context.Context, endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	addresses, err := net.DefaultResolver.LookupHost(ctx, u.Hostname())
	if err != nil {
		return err
	}
	f, err := os.OpenFile(r.rootPath("/etc/hosts"), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, a := range addresses {
		if _, err := fmt.Fprintf(f, "%s\t%s\n", a, u.Hostname()); err != nil {
			return err
		}
	}
	return nil
}

// maxPods returns the maximum number of pods of the kubelet, by the instance type and the user's expression.
func (r *run) maxPods(c *NodeConfig) int {
	t, ok := instancetype.Get(c.Status.Instance.Type)
	if !ok {
		r.log("warn", "Failed to retrieve instance info, falling back to default", "instanceType",
			c.Status.Instance.Type)
		return 110
	}
	expression := c.Spec.Kubelet.MaxPodsExpression
	if expression == "" {
		return t.MaxPods()
	}
	r.log("info", "Applying custom max pods expression", "expression", expression)
	n, err := evaluate(expression, map[string]any{"default_enis": t.MaxENIs, "ips_per_eni": t.IPv4PerENI,
		"max_pods": t.MaxPods()})
	if err != nil {
		r.log("warn", "Failed to evaluate custom expression, using standard max pods value", "error", err.Error())
		return t.MaxPods()
	}
	return n
}

// evaluate returns the value of a CEL expression over integers.
func evaluate(expression string, variables map[string]any) (int, error) {
	var options []cel.EnvOption
	for name := range variables {
		options = append(options, cel.Variable(name, cel.IntType))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		return 0, err
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return 0, fmt.Errorf("failed to compile custom max pods expression: %w", issues.Err())
	}
	program, err := env.Program(ast)
	if err != nil {
		return 0, err
	}
	value, _, err := program.Eval(variables)
	if err != nil {
		return 0, err
	}
	n, ok := value.ConvertToType(types.IntType).Value().(int64)
	if !ok {
		return 0,
			fmt.Errorf("could not interpret result %q from evaluation of custom max pods expression as an integer",
				fmt.Sprint(value.Value()))
	}
	if n <= 0 || n > math.MaxInt32 {
		return 0,
			fmt.Errorf(
				"max pods value %d from custom expression evaluation is invalid: value must be a positive integer "+
					"less than %d", n, math.MaxInt32)
	}
	return int(n), nil
}
