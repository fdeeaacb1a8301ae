// Package bottlerocket applies the settings of Bottlerocket images: TOML user data, of which those of Kubernetes make
// the instance a node.
//
// The real thing keeps settings behind an API and renders files from them at boot; here they are rendered from the user
// data, at every boot. https://bottlerocket.dev/en/os/latest/#/api/settings/kubernetes/
package bottlerocket

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/coracle-eks/coracle/internal/document"
	"github.com/coracle-eks/coracle/internal/guest/cloudinit"
	"github.com/coracle-eks/coracle/internal/guest/imds"
	"github.com/coracle-eks/coracle/internal/guest/node"
	"github.com/coracle-eks/coracle/internal/guest/rootfs"
	"github.com/coracle-eks/coracle/internal/guest/systemctl"
)

// The files of a Bottlerocket node.
const (
	kubeletConfig    = "/etc/kubernetes/kubelet/config"
	kubeletEnv       = "/etc/kubernetes/kubelet/env"
	kubeconfig       = "/etc/kubernetes/kubelet/kubeconfig"
	caFile           = "/etc/kubernetes/pki/ca.crt"
	providerConfig   = "/etc/eks/image-credential-provider/config.json"
	containerdConfig = "/etc/containerd/config.toml"
)

// Boot is one application of the settings.
type Boot struct {
	IMDS      *imds.Client
	Root      string // of the file system; empty means /. Tests have another.
	Out       io.Writer
	Systemctl func(args ...string) error // nil: the machine's init
	AWS       func(region string) API    // nil: the instance's
	CPUs      int                        // 0: those that the machine shows
}

// API is the part of the AWS APIs that the program calls.
type API interface {
	PrivateDNSName(ctx context.Context, instanceID string) (string, error)
}

// Main runs the program "bottlerocket-settings", the unit apply-settings.service.
func Main(stdout, stderr io.Writer) int {
	b := &Boot{IMDS: &imds.Client{}, Out: stdout}
	if err := b.Apply(context.Background()); err != nil {
		fmt.Fprintln(stderr, "apply-settings:", err)
		return 1
	}
	return 0
}

// settings are those that are applied; the rest is named in a line of the log.
type settings struct {
	Kubernetes map[string]any
	MOTD       string
	Others     map[string]any
}

// parseSettings reads the user data.
func parseSettings(data []byte) (settings, error) {
	var s settings
	data, err := cloudinit.Decode(data)
	if err != nil {
		return s, err
	}
	if err := document.CheckTOML(data); err != nil {
		return s, fmt.Errorf("the user data cannot be read: %w", err)
	}
	var tables map[string]any
	if err := toml.Unmarshal(data, &tables); err != nil {
		var at *toml.DecodeError
		if errors.As(err, &at) {
			row, column := at.Position()
			return s, fmt.Errorf("the user data is not TOML, at line %d, column %d: %w", row, column, err)
		}
		return s, fmt.Errorf("the user data is not TOML: %w", err)
	}
	for key := range tables {
		if key != "settings" {
			return s, fmt.Errorf("the user data has the table %q; Bottlerocket's has one, settings", key)
		}
	}
	all, _ := tables["settings"].(map[string]any)
	s.Others = map[string]any{}
	for key, value := range all {
		switch key {
		case "kubernetes":
			ok := false
			if s.Kubernetes, ok = value.(map[string]any); !ok {
				return s, errors.New("settings.kubernetes is not a table")
			}
		case "motd":
			s.MOTD = fmt.Sprint(value)
		default:
			s.Others[key] = value
		}
	}
	return s, nil
}

// Apply reads the user data and makes the instance a node, if it has settings for that.
func (b *Boot) Apply(ctx context.Context) error {
	if err := b.IMDS.Wait(ctx); err != nil {
		return err
	}
	data, err := b.IMDS.Get(ctx, "latest/user-data")
	if err != nil && !errors.Is(err, imds.ErrNotFound) {
		return err
	}
	s, err := parseSettings(data)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.Others)) {
		fmt.Fprintf(b.Out, "settings.%s is not applied on this machine\n", name)
	}
	if s.MOTD != "" {
		if err := b.writeFile("/etc/motd", s.MOTD+"\n"); err != nil {
			return err
		}
	}
	if len(s.Kubernetes) == 0 {
		fmt.Fprintln(b.Out, "the user data has no settings.kubernetes: the kubelet is not started")
		return nil
	}
	if standalone, _ := s.Kubernetes["standalone-mode"].(bool); standalone {
		return errors.New("settings.kubernetes.standalone-mode is not served: a node here has a cluster")
	}
	if err := b.kubernetes(ctx, s.Kubernetes); err != nil {
		return err
	}
	for _, unit := range []string{"containerd", "kubelet"} {
		if err := b.systemctl("restart", unit); err != nil {
			return err
		}
	}
	return nil
}

func (b *Boot) writeFile(name, content string) error {
	return node.WriteFile(b.Root, name, content, 0o644)
}

func (b *Boot) systemctl(args ...string) error {
	if b.Systemctl != nil {
		return b.Systemctl(args...)
	}
	c := systemctl.Command{Stdout: b.Out, Stderr: b.Out}
	if args[0] == "start" || args[0] == "restart" {
		return c.Up(args[0], args[len(args)-1], patience)
	}
	if code := c.Systemctl(args); code != 0 {
		return fmt.Errorf("systemctl %s: exit status %d", strings.Join(args, " "), code)
	}
	return nil
}

// direct are the settings that are the kubelet's own, by another name.
var direct = map[string]string{
	"cluster-domain": "clusterDomain", "registry-qps": "registryPullQPS", "registry-burst": "registryBurst",
	"event-qps": "eventRecordQPS", "event-burst": "eventBurst",
	"kube-api-qps": "kubeAPIQPS", "kube-api-burst": "kubeAPIBurst", "container-log-max-size": "containerLogMaxSize",
	"container-log-max-files": "containerLogMaxFiles",
	"cpu-manager-policy":      "cpuManagerPolicy", "cpu-manager-reconcile-period": "cpuManagerReconcilePeriod",
	"cpu-manager-policy-options": "cpuManagerPolicyOptions",
	"topology-manager-scope":     "topologyManagerScope", "topology-manager-policy": "topologyManagerPolicy",
	"pod-pids-limit": "podPidsLimit", "allowed-unsafe-sysctls": "allowedUnsafeSysctls",
	"image-gc-high-threshold-percent": "imageGCHighThresholdPercent",
	"image-gc-low-threshold-percent":  "imageGCLowThresholdPercent", "server-tls-bootstrap": "serverTLSBootstrap",
	"eviction-hard": "evictionHard", "eviction-soft": "evictionSoft",
	"eviction-soft-grace-period":    "evictionSoftGracePeriod",
	"eviction-max-pod-grace-period": "evictionMaxPodGracePeriod",
	"system-reserved":               "systemReserved", "memory-manager-policy": "memoryManagerPolicy",
	"shutdown-grace-period":                   "shutdownGracePeriod",
	"shutdown-grace-period-for-critical-pods": "shutdownGracePeriodCriticalPods",
	"single-process-oom-kill":                 "singleProcessOOMKill", "cpu-cfs-quota-enforced": "cpuCFSQuota",
	"reserved-cpus": "reservedSystemCPUs",
}

// read are the settings that are used in other ways.
var read = []string{
	"api-server", "cluster-name", "cluster-certificate", "cluster-dns-ip", "max-pods", "node-labels", "node-taints",
	"hostname-override", "hostname-override-source", "kube-reserved",
	"log-level", "node-ip", "provider-id", "authentication-mode", "cloud-provider", "standalone-mode",
	"pod-infra-container-image",
}

func stringSetting(k map[string]any, key string) string {
	s, _ := k[key].(string)
	return s
}

// kubernetes renders the files of containerd and the kubelet.
func (b *Boot) kubernetes(ctx context.Context, k map[string]any) error {
	for _, name := range []string{"api-server", "cluster-name", "cluster-certificate"} {
		if stringSetting(k, name) == "" {
			return fmt.Errorf("settings.kubernetes.%s is missing in the user data", name)
		}
	}
	ca, err := base64.StdEncoding.DecodeString(stringSetting(k, "cluster-certificate"))
	if err != nil {
		return fmt.Errorf("settings.kubernetes.cluster-certificate is not base64: %w", err)
	}
	if mode := stringSetting(k, "authentication-mode"); mode != "" && mode != "aws" {
		return fmt.Errorf("settings.kubernetes.authentication-mode %q is not served: it is aws", mode)
	}
	image, err := node.ReadImage(b.Root)
	if err != nil {
		return err
	}
	instance, err := node.Describe(ctx, b.IMDS)
	if err != nil {
		return err
	}
	dns, err := b.clusterDNS(ctx, k, instance)
	if err != nil {
		return err
	}
	maxPods, ok := node.MaxPods(instance.Type)
	if !ok {
		maxPods = 110
	}
	if n, ok := k["max-pods"].(int64); ok {
		maxPods = int(n)
	}
	cpus := b.CPUs
	if cpus == 0 {
		cpus = node.CPUs()
	}
	reserved := map[string]any{"cpu": fmt.Sprintf("%dm", node.ReservedCPU(cpus)),
		"memory": fmt.Sprintf("%dMi", node.ReservedMemory(maxPods)), "ephemeral-storage": "1Gi"}
	if more, ok := k["kube-reserved"].(map[string]any); ok {
		maps.Copy(reserved, more)
	}
	config := map[string]any{
		"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1", "address": "0.0.0.0",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false}, "webhook": map[string]any{"enabled": true,
				"cacheTTL": "2m0s"}, "x509": map[string]any{"clientCAFile": caFile},
		},
		"authorization": map[string]any{"mode": "Webhook", "webhook": map[string]any{"cacheAuthorizedTTL": "5m0s",
			"cacheUnauthorizedTTL": "30s"}},
		"clusterDomain": "cluster.local", "clusterDNS": dns, "cgroupDriver": "systemd", "cgroupRoot": "/",
		"containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
		"featureGates":             map[string]bool{"RotateKubeletServerCertificate": true},
		"hairpinMode":              "hairpin-veth",
		"readOnlyPort":             0, "serializeImagePulls": false, "serverTLSBootstrap": true,
		"maxPods": maxPods, "providerID": instance.ProviderID(), "protectKernelDefaults": true,
		"kubeReserved": reserved, "kubeReservedCgroup": "/runtime", "systemReservedCgroup": "/system",
		"evictionHard": map[string]any{"memory.available": "100Mi", "nodefs.available": "10%",
			"nodefs.inodesFree": "5%"}, "logging": map[string]any{"verbosity": 2},
	}
	for _, name := range slices.Sorted(maps.Keys(k)) {
		if key, ok := direct[name]; ok {
			config[key] = k[name]
		} else if !slices.Contains(read, name) {
			fmt.Fprintf(b.Out, "settings.kubernetes.%s is not applied on this machine\n", name)
		}
	}
	if level, ok := k["log-level"].(int64); ok {
		config["logging"] = map[string]any{"verbosity": level}
	}
	if id := stringSetting(k, "provider-id"); id != "" {
		config["providerID"] = id
	}
	node.FitKubelet(config, b.Root)
	node.ReportVolumesEarly(config)

	hostname := stringSetting(k, "hostname-override")
	if hostname == "" {
		if hostname, err = b.nodeName(ctx, stringSetting(k, "hostname-override-source"), instance); err != nil {
			return err
		}
	}
	ip := stringSetting(k, "node-ip")
	if ip == "" {
		if ip, err = node.NodeIP(ctx, b.IMDS, instance.MAC, len(dns) > 0 && strings.Contains(dns[0], ":")); err != nil {
			return err
		}
	}
	taints, err := parseTaints(k["node-taints"])
	if err != nil {
		return err
	}
	var labels []string
	if l, ok := k["node-labels"].(map[string]any); ok {
		for _, key := range slices.Sorted(maps.Keys(l)) {
			labels = append(labels, fmt.Sprintf("%s=%v", key, l[key]))
		}
	}
	env := fmt.Sprintf("NODE_IP=%s\nNODE_LABELS=%s\nNODE_TAINTS=%s\nHOSTNAME_OVERRIDE=%s\n", ip,
		strings.Join(labels, ","), strings.Join(taints, ","), hostname)

	configText, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return err
	}
	pause := image.SandboxImage
	if given := stringSetting(k, "pod-infra-container-image"); given != "" {
		pause = given
	}
	for name, content := range map[string]string{
		caFile: string(ca), kubeletConfig: string(configText) + "\n", kubeletEnv: env,
		kubeconfig: node.Kubeconfig(stringSetting(k, "api-server"), stringSetting(k, "cluster-name"),
			instance.Region),
		providerConfig:   rootfs.CredentialProviderConfig("public.ecr.aws"),
		containerdConfig: rootfs.ContainerdConfig(rootfs.ContainerdOptions{SandboxImage: pause}),
	} {
		if err := b.writeFile(name, content); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Join("/", b.Root, "etc/kubernetes/static-pods"), 0o755)
}

// nodeName returns the name of a node without a configured name: EC2's private DNS name, or the instance's ID.
func (b *Boot) nodeName(ctx context.Context, source string, instance node.Instance) (string, error) {
	switch source {
	case "instance-id":
		return instance.ID, nil
	case "", "private-dns-name":
	default:
		return "",
			fmt.Errorf("settings.kubernetes.hostname-override-source %q is none of private-dns-name, instance-id",
				source)
	}
	api := API(node.AWS{Region: instance.Region, IMDS: b.IMDS})
	if b.AWS != nil {
		api = b.AWS(instance.Region)
	}
	return api.PrivateDNSName(ctx, instance.ID)
}

// clusterDNS returns the addresses of kube-dns: the configured ones, or those that follow from the VPC's addresses.
func (b *Boot) clusterDNS(ctx context.Context, k map[string]any, instance node.Instance) ([]string, error) {
	var given []string
	switch v := k["cluster-dns-ip"].(type) {
	case string:
		given = []string{v}
	case []any:
		for _, a := range v {
			given = append(given, fmt.Sprint(a))
		}
	}
	for _, a := range given {
		if _, err := netip.ParseAddr(a); err != nil {
			return nil, fmt.Errorf("settings.kubernetes.cluster-dns-ip: %w", err)
		}
	}
	if len(given) > 0 {
		return given, nil
	}
	cidrs, err := b.IMDS.Meta(ctx, "network/interfaces/macs/"+instance.MAC+"/vpc-ipv4-cidr-blocks")
	if err != nil {
		return nil, err
	}
	for _, c := range strings.Fields(cidrs) {
		if strings.HasPrefix(c, "10.") {
			return []string{"172.20.0.10"}, nil
		}
	}
	return []string{"10.100.0.10"}, nil
}

// parseTaints returns "key=value:Effect" for each taint in a table of keys with one or several "value:Effect".
func parseTaints(v any) ([]string, error) {
	table, _ := v.(map[string]any)
	var all []string
	for _, key := range slices.Sorted(maps.Keys(table)) {
		values, ok := table[key].([]any)
		if !ok {
			values = []any{table[key]}
		}
		for _, v := range values {
			value, ok := v.(string)
			if !ok || !strings.Contains(value, ":") {
				return nil,
					fmt.Errorf("settings.kubernetes.node-taints.%s is %s, which is not of the form value:Effect",
						strconv.Quote(key), fmt.Sprint(v))
			}
			all = append(all, key+"="+value)
		}
	}
	return all, nil
}

// patience is the time that a daemon may take to start, with its own attempts.
const patience = 2 * time.Minute
