package node

// Files and addresses of a kubelet that nodeadm and Fargate give it.
const (
	CAFile         = "/etc/kubernetes/pki/ca.crt" // of the cluster
	KubeconfigFile = "/var/lib/kubelet/kubeconfig"
	RuntimeSocket  = "unix:///run/containerd/containerd.sock"
	// ProviderDir has ecr-credential-provider and its configuration, config.json.
	ProviderDir = "/etc/eks/image-credential-provider"
)

// ciphers are those that EKS allows.
var ciphers = []string{
	"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
	"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
	"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_RSA_WITH_AES_128_GCM_SHA256",
	"TLS_RSA_WITH_AES_256_GCM_SHA384",
}

// KubeletConfig returns what the configurations of kubelets have in common, which callers add to; the value of
// featureGates is a map[string]bool.
func KubeletConfig(clusterDNS string) map[string]any {
	return map[string]any{
		"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1", "address": "0.0.0.0",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false}, "webhook": map[string]any{"enabled": true,
				"cacheTTL": "2m0s"}, "x509": map[string]any{"clientCAFile": CAFile},
		},
		"authorization": map[string]any{"mode": "Webhook", "webhook": map[string]any{"cacheAuthorizedTTL": "5m0s",
			"cacheUnauthorizedTTL": "30s"}},
		"cgroupDriver": "systemd", "cgroupRoot": "/", "clusterDNS": []string{clusterDNS},
		"clusterDomain": "cluster.local", "containerRuntimeEndpoint": RuntimeSocket,
		"featureGates": map[string]bool{"RotateKubeletServerCertificate": true},
		"hairpinMode":  "hairpin-veth", "logging": map[string]int{"verbosity": 2}, "protectKernelDefaults": true,
		"readOnlyPort": 0, "serializeImagePulls": false, "serverTLSBootstrap": true, "tlsCipherSuites": ciphers,
	}
}

// PublicImages returns the registries that are not an account's to which a kubelet brings credentials.
func PublicImages(kubeletVersion string) []string {
	images := []string{"public.ecr.aws"}
	if AtLeast(kubeletVersion, "1.32") {
		images = append(images, "ecr-public.aws.com")
	}
	return images
}

// FitKubelet changes in a kubelet's configuration what is different on a machine of namespaces.
//
// Its cgroups are made through the file system, because there is no systemd to ask; cgroup v1 is accepted where the
// host has it; and kernel defaults are protected only where the machine shows them.
//
// In a user namespace of its own it cannot change settings of the whole kernel, and is configured to go on without.
// https://kubernetes.io/docs/tasks/administer-cluster/kubelet-in-userns/
//
// Without a disk of its own it has the host's, which is large and may be nearly full without being short of space: what
// EKS keeps free, a tenth of a root volume, is said in bytes, and cached images are not deleted because the host's disk
// has become 85% full.
func FitKubelet(config map[string]any, root string) {
	config["cgroupDriver"] = "cgroupfs"
	if CgroupV1(root) {
		config["failCgroupV1"] = false
	}
	if protect, _ := config["protectKernelDefaults"].(bool); protect {
		config["protectKernelDefaults"] = HasKernelDefaults(root)
	}
	if InUserNamespace(root) {
		switch gates := config["featureGates"].(type) {
		case map[string]bool:
			gates["KubeletInUserNamespace"] = true
		case map[string]any:
			gates["KubeletInUserNamespace"] = true
		default:
			config["featureGates"] = map[string]any{"KubeletInUserNamespace": true}
		}
	}
	if HasOwnDisk(root) {
		return
	}
	switch eviction := config["evictionHard"].(type) {
	case map[string]string:
		if eviction["nodefs.available"] == "10%" {
			eviction["nodefs.available"] = RootVolumeReserve
		}
	case map[string]any:
		if eviction["nodefs.available"] == "10%" {
			eviction["nodefs.available"] = RootVolumeReserve
		}
	}
	if config["imageGCHighThresholdPercent"] == nil {
		config["imageGCHighThresholdPercent"] = 100
	}
}

// Intervals of the status of nodes that pods of the cluster may have volumes on.
const (
	statusUpdate = "2s"
	statusReport = "5m" // kubelet's default
)

// ReportVolumesEarly makes a kubelet compute its status every two seconds, unless its configuration has an interval.
//
// A kubelet mounts a volume that has to be attached only after it has reported the volume in status.volumesInUse of its
// node. It does so when it next computes its status, every ten seconds by default: on AWS, creation and attachment of
// the volume take that long, and here they would wait for it. A status without a change is reported as rarely as
// before.
// https://github.com/kubernetes/kubernetes/issues/28141
func ReportVolumesEarly(config map[string]any) {
	if config["nodeStatusUpdateFrequency"] != nil {
		return
	}
	config["nodeStatusUpdateFrequency"] = statusUpdate
	if config["nodeStatusReportFrequency"] == nil { // that of the update otherwise
		config["nodeStatusReportFrequency"] = statusReport
	}
}

// RootVolumeReserve is a tenth of the root volume of EKS-optimized images, 20 GiB.
const RootVolumeReserve = "2Gi"
