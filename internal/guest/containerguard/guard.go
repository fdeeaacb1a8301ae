//go:build linux

// Package containerguard restricts a Fargate machine to the containers of its own pod, with the privileges Fargate
// allows. It runs before runc, because Fargate's scheduler validates a pod before there is a machine for it:
// afterwards, administrators of the cluster may bind other pods to the node, add ephemeral containers to the pod, or
// change the volumes of its claims. Beside the pod, the machine has the account's credentials of the pod execution
// role.
package containerguard

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/fargate/capability"
	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
	"github.com/coracle-eks/coracle/internal/guest/runcspec"
)

// Enforce validates a command of runc, and removes the capability NET_RAW from the container that is created, or the
// process that is run in one. The error says why a command is refused: the kubelet shows it in an event of the pod.
func Enforce(args []string) error {
	at := slices.IndexFunc(args, func(arg string) bool {
		return slices.Contains([]string{"create", "run", "exec", "restore"}, arg)
	})
	if at < 0 {
		return nil
	}
	switch command, rest := args[at], args[at+1:]; command {
	case "exec":
		if file := runcspec.Option(rest, "--process", "-p"); file != "" {
			return runcspec.Rewrite(file, func(process runcspec.Object) (bool, error) {
				return true, dropNetRaw(process)
			})
		}
		return nil // by root of the machine: it has what the container has
	case "restore":
		return errors.New("containers on Fargate are not restored from checkpoints")
	default:
		g, err := thisMachine()
		if err != nil {
			return err
		}
		bundle := runcspec.Option(rest, "--bundle", "-b")
		if bundle == "" {
			bundle = "."
		}
		return runcspec.Rewrite(filepath.Join(bundle, "config.json"), func(config runcspec.Object) (bool, error) {
			return true, g.validate(config)
		})
	}
}

// dropNetRaw removes NET_RAW from a process, and refuses one with capabilities that no container on Fargate has.
func dropNetRaw(process runcspec.Object) error {
	var sets map[string][]string
	if err := process.Get("capabilities", &sets); err != nil {
		return err
	}
	if sets == nil {
		return nil
	}
	for set, names := range sets {
		left := []string{}
		for _, name := range names {
			short, ok := strings.CutPrefix(name, "CAP_")
			if !ok || !slices.Contains(capability.Permitted(), short) {
				return fmt.Errorf("containers on Fargate cannot have the capability %s", name)
			}
			if short != capability.NetRaw {
				left = append(left, name)
			}
		}
		sets[set] = left
	}
	return process.Set("capabilities", sets)
}

// Annotations of containerd's.
// https://github.com/containerd/containerd/blob/main/internal/cri/annotations/annotations.go
const (
	podUID        = "io.kubernetes.cri.sandbox-uid"
	containerType = "io.kubernetes.cri.container-type"
)

// guard is that of a machine.
type guard struct {
	uid             string                                // of the pod that the machine is for
	isNodeNamespace func(path, kind string) (bool, error) // whether a file is the machine's namespace of a kind
	resolved        func(path string) (string, error)     // without symbolic links
	unified         bool                                  // whether the machine has one hierarchy of cgroups
	mounts          []mountPoint                          // of the machine, later ones over earlier ones
}

// maxMounts bounds the size of the list of mounts in bytes: a line has some 200, and a pod dozens of mounts.
const maxMounts = 16 << 20

func thisMachine() (guard, error) {
	data, err := os.ReadFile(filepath.Join(boot.HostDir, boot.FargateFile))
	if err != nil {
		return guard{}, err
	}
	var config struct {
		PodUID string `json:"podUID"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return guard{}, fmt.Errorf("read the configuration of the Fargate node: %w", err)
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return guard{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxMounts))
	if err != nil {
		return guard{}, err
	}
	var cgroups unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &cgroups); err != nil {
		return guard{}, fmt.Errorf("/sys/fs/cgroup: %w", err)
	}
	return guard{uid: config.PodUID, unified: cgroups.Type == unix.CGROUP2_SUPER_MAGIC, isNodeNamespace: isOwn,
		resolved: filepath.EvalSymlinks, mounts: parseMounts(string(text))}, nil
}

// isOwn compares a file with the namespace of this process, which runs beside the pod.
func isOwn(path, kind string) (bool, error) {
	there, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	here, err := os.Stat("/proc/self/ns/" + kind)
	if err != nil {
		return false, err
	}
	return os.SameFile(there, here), nil
}

// validate validates the configuration of a container.
func (g guard) validate(config runcspec.Object) error {
	var annotations map[string]string
	if err := config.Get("annotations", &annotations); err != nil {
		return err
	}
	if g.uid == "" || annotations[podUID] != g.uid {
		return fmt.Errorf("this Fargate node runs only the pod with UID %q, not the pod with UID %q", g.uid,
			annotations[podUID])
	}
	if len(config["hooks"]) > 0 && string(config["hooks"]) != "null" {
		return errors.New("containers on Fargate cannot have hooks")
	}
	var process, linux runcspec.Object
	if err := errors.Join(config.Get("process", &process), config.Get("linux", &linux)); err != nil {
		return err
	}
	if process == nil || linux == nil {
		return errors.New("the container configuration lacks process or linux")
	}
	if err := dropNetRaw(process); err != nil {
		return err
	}
	for _, validate := range []func(runcspec.Object) error{validateDevices, validatePaths, validatePropagation,
		func(linux runcspec.Object) error {
			return g.validateNamespaces(linux, annotations[containerType] == "sandbox")
		}} {
		if err := validate(linux); err != nil {
			return err
		}
	}
	if err := g.validateMounts(config); err != nil {
		return err
	}
	return config.Set("process", process)
}

// device is one that a container has, or may use.
type device struct {
	Type  string `json:"type"`
	Major *int64 `json:"major"`
	Minor *int64 `json:"minor"`
}

// isDefaultDevice reports whether a device is one of those that runc gives each container: null, zero, full, random,
// urandom, tty, console, ptmx, and terminals.
// https://github.com/opencontainers/runtime-spec/blob/main/config-linux.md#default-devices
func (d device) isDefaultDevice() bool {
	if d.Type != "c" || d.Major == nil {
		return false
	}
	if *d.Major == 136 {
		return true
	}
	if d.Minor == nil {
		return false
	}
	return slices.Contains([][2]int64{{1, 3}, {1, 5}, {1, 7}, {1, 8}, {1, 9}, {5, 0}, {5, 1}, {5, 2}},
		[2]int64{*d.Major, *d.Minor})
}

func validateDevices(linux runcspec.Object) error {
	var devices []struct {
		device
		Path string `json:"path"`
	}
	var resources struct {
		Devices []struct {
			device
			Allow bool `json:"allow"`
		} `json:"devices"`
	}
	if err := errors.Join(linux.Get("devices", &devices), linux.Get("resources", &resources)); err != nil {
		return err
	}
	for _, d := range devices {
		if !d.isDefaultDevice() {
			return fmt.Errorf("privileged containers are not supported on Fargate: device %s", d.Path)
		}
	}
	for _, d := range resources.Devices {
		if d.Allow && !d.isDefaultDevice() {
			return errors.New("privileged containers are not supported on Fargate: devices of the machine")
		}
	}
	return nil
}

// Paths that no container sees, or writes to: those of containerd's defaults, which the kubelet has, too.
// https://github.com/containerd/containerd/blob/main/pkg/oci/spec.go
var (
	maskedPaths = []string{"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/firmware"}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

func validatePaths(linux runcspec.Object) error {
	var masked, readonly []string
	if err := errors.Join(linux.Get("maskedPaths", &masked), linux.Get("readonlyPaths", &readonly)); err != nil {
		return err
	}
	for _, list := range []struct {
		what      string
		got, want []string
	}{{"masked", masked, maskedPaths}, {"read-only", readonly, readonlyPaths}} {
		for _, name := range list.want {
			if !slices.Contains(list.got, name) {
				return fmt.Errorf("containers on Fargate must have %s %s: privileged and procMount Unmasked are not "+
					"supported", list.what, name)
			}
		}
	}
	return nil
}

func validatePropagation(linux runcspec.Object) error {
	var propagation string
	if err := linux.Get("rootfsPropagation", &propagation); err != nil {
		return err
	}
	return refuseShared([]string{propagation}, "/")
}

func refuseShared(options []string, destination string) error {
	if slices.Contains(options, "shared") || slices.Contains(options, "rshared") {
		return fmt.Errorf("mount propagation to the node (%s) is not supported on Fargate", destination)
	}
	return nil
}

// validateNamespaces requires namespaces of the container's own, or of its pod. The network is the machine's anyway.
func (g guard) validateNamespaces(linux runcspec.Object, sandbox bool) error {
	var namespaces []struct{ Type, Path string }
	if err := linux.Get("namespaces", &namespaces); err != nil {
		return err
	}
	paths := map[string]string{}
	for _, n := range namespaces {
		if _, ok := paths[n.Type]; ok {
			return fmt.Errorf("the container has two namespaces of the type %s", n.Type)
		}
		paths[n.Type] = n.Path
	}
	for _, kind := range []string{"mount", "cgroup"} {
		switch at, ok := paths[kind]; {
		case kind == "cgroup" && !ok && (sandbox || !g.unified):
			// containerd gives none to a sandbox, in which no program of the user's runs, and none to anybody where cgroups
			// have several hierarchies.
		case !ok || at != "":
			return fmt.Errorf("containers on Fargate have a %s namespace of their own", kind)
		}
	}
	for _, kind := range []string{"pid", "ipc", "uts"} {
		at, ok := paths[kind]
		ofNode := !ok
		if at != "" {
			if matched, _ := path.Match("/proc/[1-9]*/ns/"+kind, at); !matched {
				return fmt.Errorf("containers on Fargate cannot have the %s namespace %s", kind, at)
			}
			var err error
			if ofNode, err = g.isNodeNamespace(at, kind); err != nil {
				return err
			}
		}
		if ofNode {
			return fmt.Errorf("containers on Fargate cannot have the %s namespace of the node", kind)
		}
	}
	return nil
}
