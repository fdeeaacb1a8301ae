package node

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

// RootVolumeReserve is a tenth of the root volume of EKS-optimized images, 20 GiB.
const RootVolumeReserve = "2Gi"
