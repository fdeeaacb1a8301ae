package node

// FitKubelet changes in a kubelet's configuration what is different on a machine of namespaces: its control groups are made
// through the file system, because there is no systemd to ask; version 1 of them is accepted where the host has it; and kernel
// defaults are protected only where the machine shows them.
func FitKubelet(config map[string]any, root string) {
	config["cgroupDriver"] = "cgroupfs"
	if CgroupV1(root) {
		config["failCgroupV1"] = false
	}
	if protect, _ := config["protectKernelDefaults"].(bool); protect {
		config["protectKernelDefaults"] = HasKernelDefaults(root)
	}
}
