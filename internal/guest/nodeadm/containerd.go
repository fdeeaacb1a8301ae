package nodeadm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"syscall"

	"github.com/coracle-eks/coracle/internal/guest/rootfs"
)

const (
	containerdConfig = "/etc/containerd/config.toml"
	baseRuntimeSpec  = "/etc/containerd/base-runtime-spec.json"
)

// containerd configures containerd.
func (r *run) containerd(c *NodeConfig) error {
	if err := r.baseSpec(c.Spec.Containerd.BaseRuntimeSpec); err != nil {
		return err
	}
	if c.Spec.FeatureGates[fastImagePull] {
		r.log("warn", "featureGates.FastImagePull is ignored: this machine has no SOCI snapshotter")
	}
	options := rootfs.ContainerdOptions{SandboxImage: c.Status.Defaults.SandboxImage, BaseRuntimeSpec: baseRuntimeSpec}
	user := c.Spec.Containerd.Config
	r.log("info", "Writing containerd config to file..", "path", containerdConfig)
	if user == "" {
		return r.writeFile(containerdConfig, rootfs.ContainerdConfig(options))
	}
	if !strings.Contains(user, "io.containerd.cri.v1.images") && !strings.Contains(user,
		"io.containerd.cri.v1.runtime") {
		options.Version = 2
	}
	merged, err := mergeTOML(rootfs.ContainerdConfig(options), user)
	if err != nil {
		return err
	}
	if err := r.writeFile(containerdConfig, merged); err != nil || options.Version != 2 {
		return err
	}
	// What the user has in the form of version 2 moves to where version 3 has it; that is containerd's own work.
	r.log("info", "Migrate containerd config to V3..", "path", containerdConfig)
	migrate := exec.Command(r.Containerd, "--config", r.rootPath(containerdConfig), "config", "migrate")
	var stderr bytes.Buffer
	migrate.Stderr = &stderr
	out, err := migrate.Output()
	if err != nil {
		return fmt.Errorf("containerd config migrate: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return r.writeFile(containerdConfig, string(out))
}

// baseSpec writes the specification on which containers are based: the image's, with the user's over it.
func (r *run) baseSpec(user map[string]any) error {
	r.log("info", "Writing containerd base runtime spec...", "path", baseRuntimeSpec)
	var spec map[string]any
	if err := json.Unmarshal([]byte(defaultSpec), &spec); err != nil {
		return err
	}
	merged, err := mergeMaps(spec, user)
	if err != nil {
		return err
	}
	var own syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &own); err != nil {
		return err
	}
	limitFiles(merged, own.Max)
	data, err := json.MarshalIndent(merged, "", "    ")
	if err != nil {
		return err
	}
	return r.writeFile(baseRuntimeSpec, string(data)+"\n")
}

// limitFiles lowers the limits of open files in a specification to what the machine has itself: where its host may not
// raise them, no container could start.
func limitFiles(spec map[string]any, most uint64) {
	process, _ := spec["process"].(map[string]any)
	limits, _ := process["rlimits"].([]any)
	for _, l := range limits {
		limit, _ := l.(map[string]any)
		if limit["type"] != "RLIMIT_NOFILE" {
			continue
		}
		for _, which := range []string{"soft", "hard"} {
			if value, ok := limit[which].(float64); ok && value > float64(most) {
				limit[which] = most
			}
		}
	}
}

// defaultSpec is containerd's own default, but for the limit of open files, which EKS raises.
const defaultSpec = `{
  "ociVersion": "1.1.0",
  "process": {
    "user": {"uid": 0, "gid": 0},
    "cwd": "/",
    "noNewPrivileges": true,
    "capabilities": {
      "bounding": ["CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD", "CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT"],
      "effective": ["CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD", "CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT"],
      "permitted": ["CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD", "CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT"]
    },
    "rlimits": [{"type": "RLIMIT_NOFILE", "soft": 65536, "hard": 1048576}]
  },
  "root": {"path": "rootfs"},
  "mounts": [
    {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
    {"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]},
    {"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue", "options": ["nosuid", "noexec", "nodev"]},
    {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"]}
  ],
  "linux": {
    "resources": {"devices": [{"allow": false, "access": "rwm"}]},
    "namespaces": [{"type": "pid"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}, {"type": "network"}],
    "maskedPaths": ["/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/firmware"],
    "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
  }
}`
