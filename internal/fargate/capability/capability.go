// Package capability names the capabilities of the containers of Fargate pods: those that EKS permits a pod to ask for,
// and those that a container has.
package capability

// NetRaw is permitted, and taken from containers all the same: with it a pod would see what its machine, whose network
// it shares, sends and receives.
const NetRaw = "NET_RAW"

// Permitted returns the capabilities that a container may add, without the prefix "CAP_": those that containerd gives
// it anyway, so that it can drop all others.
// https://github.com/containerd/containerd/blob/main/pkg/oci/spec.go
func Permitted() []string {
	return []string{"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE",
		NetRaw, "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"}
}
