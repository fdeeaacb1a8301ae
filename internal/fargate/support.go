package fargate

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"github.com/coracle-eks/coracle/internal/fargate/capability"
)

const (
	// UnsupportedPrefix is what the event and the condition of a pod that Fargate does not support begin with; the reasons
	// follow, with ", " between them.
	UnsupportedPrefix = "Pod not supported on Fargate: "
	// UnsupportedReason is the reason of the condition PodScheduled of such a pod.
	UnsupportedReason = "POD_UNSUPPORTED_ON_FARGATE"

	// efsDriver is the only CSI driver of Fargate.
	efsDriver = "efs.csi.aws.com"
)

// Unsupported returns why a pod cannot run on Fargate, in EKS's words; none when it can. Claims of volumes are not
// judged: see [UnsupportedWith].
// https://docs.aws.amazon.com/eks/latest/userguide/fargate.html#fargate-considerations
func Unsupported(pod *corev1.Pod) []string { return UnsupportedWith(pod, nil) }

// UnsupportedWith is [Unsupported] with what is wrong with claims, by name: see [ClaimProblem].
func UnsupportedWith(pod *corev1.Pod, claims map[string]string) (reasons []string) {
	list := func(what string, found []string, separator string) {
		if len(found) > maxReasons {
			found = append(found[:maxReasons:maxReasons], strconv.Itoa(len(found)-maxReasons)+" more")
		}
		for i, reason := range found {
			found[i] = cut(reason)
		}
		if len(found) > 0 {
			reasons = append(reasons, what+": "+strings.Join(found, separator))
		}
	}
	if IsDaemon(pod.OwnerReferences) {
		reasons = append(reasons, "DaemonSet not supported")
	}
	list("fields not supported", unsupportedFields(pod), ", ")
	containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	list("invalid SecurityContext fields", invalidSecurity(containers), ",")
	if slices.ContainsFunc(containers, hasHostPort) {
		reasons = append(reasons, "port contains HostIP or HostPort")
	}
	list("resources not supported", unsupportedResources(pod, containers), ", ")
	list("volumes not supported", unsupportedVolumes(pod.Spec.Volumes, claims), ", ")
	if slices.ContainsFunc(containers, func(c corev1.Container) bool { return len(c.VolumeDevices) > 0 }) {
		reasons = append(reasons, "volumeDevices not supported")
	}
	return reasons
}

func unsupportedFields(pod *corev1.Pod) (fields []string) {
	if pod.Spec.HostNetwork {
		fields = append(fields, "HostNetwork")
	}
	if pod.Spec.HostPID {
		fields = append(fields, "HostPID")
	}
	if pod.Spec.HostIPC {
		fields = append(fields, "HostIPC")
	}
	if len(pod.Spec.ResourceClaims) > 0 { // of devices, which no Fargate node has
		fields = append(fields, "ResourceClaims")
	}
	if slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), readsEnvFile) {
		fields = append(fields, "FileKeyRef")
	}
	return fields
}

// invalidSecurity lists what the security contexts of containers have that Fargate does not allow, a text for each
// container. AllowPrivilegeEscalation is allowed, as it is today on EKS.
func invalidSecurity(containers []corev1.Container) (invalid []string) {
	for _, c := range containers {
		if c.SecurityContext == nil {
			continue
		}
		var fields, added []string
		if c.SecurityContext.Capabilities != nil {
			// EKS compares the names as they are, so that CAP_CHOWN is not permitted.
			for _, name := range c.SecurityContext.Capabilities.Add {
				if !slices.Contains(capability.Permitted(), string(name)) {
					added = append(added, string(name))
				}
			}
		}
		if len(added) > 0 {
			fields = append(fields, "Capabilities added: "+strings.Join(added, ", "))
		}
		if c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged {
			fields = append(fields, "Privileged")
		}
		if len(fields) > 0 {
			invalid = append(invalid, strings.Join(fields, ", "))
		}
	}
	return invalid
}

// readsEnvFile reports whether a variable is from a file of a volume. Kubelets of Fargate machines open none, as they
// would follow links there, and would leave the variable empty.
func readsEnvFile(c corev1.Container) bool {
	return slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool {
		return v.ValueFrom != nil && v.ValueFrom.FileKeyRef != nil
	})
}

func hasHostPort(c corev1.Container) bool {
	return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 || p.HostIP != "" })
}

// unsupportedResources lists what is requested that no Fargate node has, such as GPUs and huge pages, by name. None of
// it is unsupported, too: to add up what containers request takes as long as they request resources, squared.
func unsupportedResources(pod *corev1.Pod, containers []corev1.Container) (names []string) {
	lists := make([]corev1.ResourceList, 0, len(containers)+2)
	for _, c := range containers {
		lists = append(lists, c.Resources.Requests)
	}
	if pod.Spec.Resources != nil {
		lists = append(lists, pod.Spec.Resources.Requests)
	}
	lists = append(lists, pod.Spec.Overhead)
	for _, list := range lists {
		for name := range list {
			switch name {
			case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
			default:
				names = append(names, string(name))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func unsupportedVolumes(volumes []corev1.Volume, claims map[string]string) (unsupported []string) {
	for _, v := range volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			if problem := claims[v.PersistentVolumeClaim.ClaimName]; problem != "" {
				unsupported = append(unsupported, v.Name+" not supported because: "+problem)
			}
		case v.EmptyDir != nil, v.Secret != nil, v.ConfigMap != nil, v.Projected != nil, v.DownwardAPI != nil,
			v.NFS != nil && nfsProblem(v.NFS) == "":
		case v.NFS != nil:
			unsupported = append(unsupported, v.Name+" not supported because: "+nfsProblem(v.NFS))
		default:
			unsupported = append(unsupported, v.Name+" is of an unsupported volume Type")
		}
	}
	return unsupported
}

// hostName matches the names of servers of NFS. What begins with a hyphen is an option of mount(8).
var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// Bounds of a volume of NFS, in bytes.
const (
	maxServer = 253
	maxExport = 1024
)

// nfsProblem returns why a volume of NFS is not mounted, or "".
func nfsProblem(v *corev1.NFSVolumeSource) string {
	address, err := netip.ParseAddr(v.Server)
	isAddress := err == nil && address.Zone() == ""
	switch {
	case len(v.Server) > maxServer || !isAddress && !hostName.MatchString(v.Server):
		return fmt.Sprintf("NFS server %.60q is neither a host name nor an IP address", v.Server)
	case len(v.Path) > maxExport || !strings.HasPrefix(v.Path, "/") || slices.Contains(strings.Split(v.Path, "/"), "..") ||
		strings.ContainsFunc(v.Path, unicode.IsControl):
		return fmt.Sprintf("NFS path %.60q is not an absolute path of at most %d bytes without ..", v.Path, maxExport)
	}
	return ""
}

// NFSSources returns the sources of the volumes of NFS of a pod as the kubelet mounts them: "SERVER:PATH".
func NFSSources(pod *corev1.Pod) (sources []string) {
	for _, v := range pod.Spec.Volumes {
		if v.NFS == nil {
			continue
		}
		server := v.NFS.Server
		if address, err := netip.ParseAddr(server); err == nil && address.Is6() && !address.Is4In6() {
			server = "[" + server + "]"
		}
		sources = append(sources, server+":"+v.NFS.Path)
	}
	return sources
}

// VolumeClaims returns the names of the persistent volume claims of a pod, each once.
func VolumeClaims(pod *corev1.Pod) (names []string) {
	known := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		if claim := v.PersistentVolumeClaim; claim != nil && !known[claim.ClaimName] {
			known[claim.ClaimName] = true
			names = append(names, claim.ClaimName)
		}
	}
	return names
}

// ClaimProblem returns why Fargate does not mount the volume of a claim, in EKS's words, or "": only volumes of EFS
// that are bound are mounted. Claim and volume are nil when they do not exist.
// https://docs.aws.amazon.com/eks/latest/userguide/efs-csi.html
func ClaimProblem(name string, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) string {
	name = cut(name)
	switch {
	case claim == nil:
		return fmt.Sprintf("persistentvolumeclaim %q not found", name)
	case claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == "":
		return fmt.Sprintf("PVC %s not bound", name)
	case volume == nil:
		return fmt.Sprintf("persistentvolumes %q not found", cut(claim.Spec.VolumeName))
	case volume.Spec.CSI == nil:
		return fmt.Sprintf("PVC %s bound to invalid PV %s with nil CSI spec", name, cut(volume.Name))
	case volume.Spec.CSI.Driver != efsDriver:
		return fmt.Sprintf("PVC %s bound to invalid PV %s with CSI Driver: %s", name, cut(volume.Name),
			cut(volume.Spec.CSI.Driver))
	}
	return ""
}
