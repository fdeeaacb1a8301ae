package rootfs

import (
	"encoding/json"
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

// ContainerdOptions are what differs between the configurations of containerd.
type ContainerdOptions struct {
	SandboxImage    string
	BaseRuntimeSpec string // a file; empty: containerd's own
	EnableCDI       *bool  // nil: containerd's default
	Imports         bool   // of /etc/containerd/config.d
}

// ContainerdConfig is the configuration of containerd 2 as EKS AMIs have it, but for what a machine of namespaces needs: control
// groups are made through the file system, because there is no systemd to ask, and no process is made less likely to be killed
// than its parent, which a host that is itself a container does not allow.
func ContainerdConfig(o ContainerdOptions) string {
	var b strings.Builder
	b.WriteString("version = 3\nroot = \"/var/lib/containerd\"\nstate = \"/run/containerd\"\n")
	if o.Imports {
		b.WriteString("imports = [\"/etc/containerd/config.d/*.toml\"]\n")
	}
	b.WriteString(`
[grpc]
address = "/run/containerd/containerd.sock"

[plugins.'io.containerd.cri.v1.images']
discard_unpacked_layers = true

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "` + o.SandboxImage + `"

[plugins."io.containerd.cri.v1.images".registry]
config_path = "/etc/containerd/certs.d:/etc/docker/certs.d"

[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
`)
	if o.EnableCDI != nil {
		b.WriteString("enable_cdi = " + map[bool]string{true: "true", false: "false"}[*o.EnableCDI] + "\n")
	}
	b.WriteString(`
[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = "runc"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
`)
	if o.BaseRuntimeSpec != "" {
		b.WriteString("base_runtime_spec = \"" + o.BaseRuntimeSpec + "\"\n")
	}
	b.WriteString(`
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = "/usr/sbin/runc"
SystemdCgroup = false

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dir = "/opt/cni/bin"
conf_dir = "/etc/cni/net.d"
`)
	return b.String()
}

// CredentialProviderConfig is what has the kubelet ask ecr-credential-provider for the registries of ECR.
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
			"*.dkr.ecr.*.amazonaws.com", "*.dkr-ecr.*.on.aws", "*.dkr.ecr.*.amazonaws.com.cn", "*.dkr-ecr.*.on.amazonwebservices.com.cn", "*.dkr.ecr-fips.*.amazonaws.com",
			"*.dkr-ecr-fips.*.on.aws", "*.dkr.ecr.*.c2s.ic.gov", "*.dkr.ecr.*.sc2s.sgov.gov", "*.dkr.ecr.*.cloud.adc-e.uk", "*.dkr.ecr.*.csp.hci.ic.gov", "*.dkr.ecr.*.amazonaws.eu",
		}, more...), "12h", "credentialprovider.kubelet.k8s.io/v1",
	}}}, "", "  ")
	if err != nil {
		panic(err) // strings only
	}
	return string(data) + "\n"
}
