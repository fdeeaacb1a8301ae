package rootfs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
)

func (o Options) withDefaults() Options {
	if o.Architecture == "" {
		o.Architecture = map[string]string{"arm64": "aarch64"}[runtime.GOARCH]
		if o.Architecture == "" {
			o.Architecture = "x86_64"
		}
	}
	return o
}

// ContainerdOptions are the differences between the configurations of containerd.
type ContainerdOptions struct {
	Version         int // of the configuration's form: 3, or 2 for what is to be migrated; 0 means 3
	SandboxImage    string
	BaseRuntimeSpec string // a file; empty: containerd's own
	Imports         bool   // of /etc/containerd/config.d
	// OwnNetwork is set where pods have the network namespace of the machine: the plugin loopback would take its lo
	// down, and runc refuses to set kernel parameters of the namespace that it is in.
	OwnNetwork      bool
	Runc            string   // the program; empty: /usr/sbin/runc
	DisabledPlugins []string // "io.containerd.nri.v1.nri"
}

// ContainerdConfig returns the configuration of containerd 2 as EKS AMIs have it, except for what a machine of
// namespaces needs: cgroups are created through the file system, because there is no systemd to ask, and no process is
// made less likely to be killed than its parent, which a host that is itself a container does not allow.
func ContainerdConfig(o ContainerdOptions) string {
	// What version 3 has in two plugins was one in version 2.
	images, runtime := "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime"
	if o.Version == 2 {
		images, runtime = "io.containerd.grpc.v1.cri", "io.containerd.grpc.v1.cri"
	}
	if o.Version == 0 {
		o.Version = 3
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	table := func(plugin, path string) { line("\n[plugins.'%s'%s]", plugin, path) }
	line("version = %d\nroot = \"/var/lib/containerd\"\nstate = \"/run/containerd\"", o.Version)
	// Without the CRI there is no use in running, and what it lacks (inotify instances of the host) may come back.
	line(`required_plugins = ["io.containerd.grpc.v1.cri"]`)
	if o.Imports {
		line(`imports = ["/etc/containerd/config.d/*.toml"]`)
	}
	if len(o.DisabledPlugins) > 0 {
		line(`disabled_plugins = ["%s"]`, strings.Join(o.DisabledPlugins, `", "`))
	}
	line("\n[grpc]\naddress = \"/run/containerd/containerd.sock\"")
	table(runtime, "")
	line("restrict_oom_score_adj = true")
	if o.OwnNetwork {
		line("enable_unprivileged_icmp = false\nenable_unprivileged_ports = false")
	}
	if o.Version == 2 {
		line("sandbox_image = %q", o.SandboxImage)
	} else {
		table(images, "")
		line("discard_unpacked_layers = true")
		table(images, ".pinned_images")
		line("sandbox = %q", o.SandboxImage)
	}
	table(images, ".registry")
	line(`config_path = "/etc/containerd/certs.d:/etc/docker/certs.d"`)
	table(runtime, ".containerd")
	line(`default_runtime_name = "runc"`)
	if o.Version == 2 {
		line("discard_unpacked_layers = true")
	}
	table(runtime, ".containerd.runtimes.runc")
	line(`runtime_type = "io.containerd.runc.v2"`)
	if o.BaseRuntimeSpec != "" {
		line("base_runtime_spec = %q", o.BaseRuntimeSpec)
	}
	table(runtime, ".containerd.runtimes.runc.options")
	line("BinaryName = %q\nSystemdCgroup = false", cmp.Or(o.Runc, "/usr/sbin/runc"))
	table(runtime, ".cni")
	if o.Version == 2 {
		line(`bin_dir = "/opt/cni/bin"`)
	} else {
		line(`bin_dirs = ["/opt/cni/bin"]`)
	}
	line(`conf_dir = "/etc/cni/net.d"`)
	if o.OwnNetwork {
		line("use_internal_loopback = true")
	}
	return b.String()
}

// CredentialProviderConfig returns the configuration with which the kubelet asks ecr-credential-provider for the
// registries of ECR.
func CredentialProviderConfig(more ...string) string {
	type provider struct {
		Name                 string   `json:"name"`
		MatchImages          []string `json:"matchImages"`
		DefaultCacheDuration string   `json:"defaultCacheDuration"`
		APIVersion           string   `json:"apiVersion"`
	}
	data, err := json.MarshalIndent(struct {
		APIVersion string     `json:"apiVersion"`
		Kind       string     `json:"kind"`
		Providers  []provider `json:"providers"`
	}{"kubelet.config.k8s.io/v1", "CredentialProviderConfig", []provider{{
		"ecr-credential-provider", append([]string{
			"*.dkr.ecr.*.amazonaws.com", "*.dkr-ecr.*.on.aws", "*.dkr.ecr.*.amazonaws.com.cn",
			"*.dkr-ecr.*.on.amazonwebservices.com.cn", "*.dkr.ecr-fips.*.amazonaws.com",
			"*.dkr-ecr-fips.*.on.aws", "*.dkr.ecr.*.c2s.ic.gov", "*.dkr.ecr.*.sc2s.sgov.gov",
			"*.dkr.ecr.*.cloud.adc-e.uk", "*.dkr.ecr.*.csp.hci.ic.gov", "*.dkr.ecr.*.amazonaws.eu",
		}, more...), "12h", "credentialprovider.kubelet.k8s.io/v1",
	}}}, "", "  ")
	if err != nil {
		panic(err) // strings only
	}
	return string(data) + "\n"
}
