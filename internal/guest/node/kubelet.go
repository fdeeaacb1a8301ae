package node

// FitKubelet changes in a kubelet's configuration what is different on a machine of namespaces.
//
// Its control groups are made through the file system, because there is no systemd to ask; version 1 of them is accepted where
// the host has it; and kernel defaults are protected only where the machine shows them.
//
// Its disk is the host's, which is large and may be nearly full without being short of space: what EKS keeps free, a tenth of a
// root volume, is said in bytes, and cached images are not deleted because the host's disk has become 85% full.
func FitKubelet(config map[string]any, root string) {
	config["cgroupDriver"] = "cgroupfs"
	if CgroupV1(root) {
		config["failCgroupV1"] = false
	}
	if protect, _ := config["protectKernelDefaults"].(bool); protect {
		config["protectKernelDefaults"] = HasKernelDefaults(root)
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
