package node

import (
	"encoding/json"
	"syscall"
)

// RuntimeSpec returns the OCI runtime specification on which EKS-optimized images base containers.
func RuntimeSpec() (map[string]any, error) {
	var spec map[string]any
	err := json.Unmarshal([]byte(defaultSpec), &spec)
	return spec, err
}

// LimitFiles lowers the limits of open files in a specification to what the machine has itself: where its host may not
// raise them, no container could start.
func LimitFiles(spec map[string]any) error {
	var own syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &own); err != nil {
		return err
	}
	limitFiles(spec, own.Max)
	return nil
}

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
