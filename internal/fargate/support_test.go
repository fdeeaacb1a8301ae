package fargate

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestUnsupported(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	secure := func(contexts ...*corev1.SecurityContext) corev1.PodSpec {
		var s corev1.PodSpec
		for _, c := range contexts {
			s.Containers = append(s.Containers, corev1.Container{SecurityContext: c})
		}
		return s
	}
	adds := func(capabilities ...corev1.Capability) *corev1.SecurityContext {
		return &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: capabilities}}
	}
	volume := func(source corev1.VolumeSource) corev1.PodSpec {
		return corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: source}}}
	}
	const unsupportedVolume = "volumes not supported: v is of an unsupported volume Type"
	const security = "invalid SecurityContext fields: "
	privileged := &corev1.SecurityContext{Privileged: &yes}
	ports := func(p corev1.ContainerPort) []corev1.Container {
		return []corev1.Container{{Ports: []corev1.ContainerPort{p}}}
	}
	needs := func(list corev1.ResourceList) corev1.PodSpec {
		return corev1.PodSpec{Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: list}}}}
	}
	claim := func(name string) corev1.PodSpec {
		return volume(corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}})
	}
	nfs := func(server, path string) corev1.PodSpec {
		return volume(corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: server, Path: path}})
	}
	const noServer, noServerEnd = "volumes not supported: v not supported because: NFS server ",
		" is neither a host name nor an IP address"
	for name, test := range map[string]struct {
		spec corev1.PodSpec
		want string
	}{
		"a pod": {secure(nil, &corev1.SecurityContext{Privileged: &no, AllowPrivilegeEscalation: &yes}), ""},

		"host network": {corev1.PodSpec{HostNetwork: true}, "fields not supported: HostNetwork"},
		"host network, PID, IPC": {corev1.PodSpec{HostNetwork: true, HostPID: true, HostIPC: true},
			"fields not supported: HostNetwork, HostPID, HostIPC"},
		"devices": {corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu"}}},
			"fields not supported: ResourceClaims"},
		"a variable of a file": {corev1.PodSpec{InitContainers: []corev1.Container{{Env: []corev1.EnvVar{{Name: "TOKEN",
			ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "v", Key: "token"}}}}}}},
			"fields not supported: FileKeyRef"},
		"a process namespace": {corev1.PodSpec{ShareProcessNamespace: &yes}, ""},

		"privileged":                {secure(privileged), security + "Privileged"},
		"two that are privileged":   {secure(privileged, nil, privileged), security + "Privileged,Privileged"},
		"privileged init container": {corev1.PodSpec{InitContainers: secure(privileged).Containers}, security + "Privileged"},
		"default capabilities":      {secure(adds("NET_BIND_SERVICE", "CHOWN")), ""},
		"a capability, twice": {secure(adds("DAC_READ_SEARCH"), adds("DAC_READ_SEARCH")),
			security + "Capabilities added: DAC_READ_SEARCH,Capabilities added: DAC_READ_SEARCH"},
		"a capability by its long name": {secure(adds("CAP_CHOWN")), security + "Capabilities added: CAP_CHOWN"},
		"some capabilities": {secure(adds("SYS_ADMIN", "KILL", "NET_ADMIN")),
			security + "Capabilities added: SYS_ADMIN, NET_ADMIN"},
		"all capabilities": {secure(adds("ALL")), security + "Capabilities added: ALL"},
		"dropped capabilities": {secure(&corev1.SecurityContext{
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}), ""},
		"a capability and more": {secure(&corev1.SecurityContext{Privileged: &yes,
			Capabilities: adds("SYS_ADMIN").Capabilities}), security + "Capabilities added: SYS_ADMIN, Privileged"},

		"port": {corev1.PodSpec{Containers: ports(corev1.ContainerPort{ContainerPort: 80})}, ""},
		"host port": {corev1.PodSpec{Containers: ports(corev1.ContainerPort{ContainerPort: 80, HostPort: 80})},
			"port contains HostIP or HostPort"},
		"host IP": {corev1.PodSpec{InitContainers: ports(corev1.ContainerPort{HostIP: "127.0.0.1"})},
			"port contains HostIP or HostPort"},
		"a block device": {corev1.PodSpec{Containers: []corev1.Container{
			{VolumeDevices: []corev1.VolumeDevice{{}}}}}, "volumeDevices not supported"},

		"no GPU": {needs(corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("0")}),
			"resources not supported: nvidia.com/gpu"},
		"a GPU and pages": {needs(corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1"),
			"hugepages-2Mi": resource.MustParse("2Mi"), "cpu": resource.MustParse("1")}),
			"resources not supported: hugepages-2Mi, nvidia.com/gpu"},

		"emptyDir":    {volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}), ""},
		"secret":      {volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}), ""},
		"configMap":   {volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}), ""},
		"projected":   {volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}), ""},
		"downwardAPI": {volume(corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}}), ""},
		"nfs":         {nfs("fs-1.efs.eu-west-1.amazonaws.com", "/a b"), ""},
		"nfs by IPv4": {nfs("10.0.1.5", "/"), ""},
		"nfs by IPv6": {nfs("fd00::1", "/"), ""},
		"an option of mount(8)": {nfs("-aT/var/lib/kubelet/x", "/fstab"), "volumes not supported: v not supported because: " +
			`NFS server "-aT/var/lib/kubelet/x" is neither a host name nor an IP address`},
		"an interface":    {nfs("fe80::1%eth0", "/"), noServer + `"fe80::1%eth0"` + noServerEnd},
		"no server":       {nfs("", "/"), noServer + `""` + noServerEnd},
		"an option, only": {nfs("-a", "/"), noServer + `"-a"` + noServerEnd},
		"two words":       {nfs("a b", "/"), noServer + `"a b"` + noServerEnd},
		"a path that leads out": {nfs("h", "/a/../b"), "volumes not supported: v not supported because: " +
			`NFS path "/a/../b" is not an absolute path of at most 1024 bytes without ..`},
		"a relative path": {nfs("h", "a"), "volumes not supported: v not supported because: " +
			`NFS path "a" is not an absolute path of at most 1024 bytes without ..`},
		"claim":     {claim("c"), ""},
		"bad claim": {claim("bad"), "volumes not supported: v not supported because: PVC bad not bound"},
		"hostPath":  {volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}), unsupportedVolume},
		"csi":       {volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}), unsupportedVolume},
		"ephemeral": {volume(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}), unsupportedVolume},
		"image":     {volume(corev1.VolumeSource{Image: &corev1.ImageVolumeSource{}}), unsupportedVolume},
		"EBS": {volume(corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}}),
			unsupportedVolume},
		"two volumes": {corev1.PodSpec{Volumes: []corev1.Volume{{Name: "a"}, {Name: "b"}}},
			"volumes not supported: a is of an unsupported volume Type, b is of an unsupported volume Type"},

		// https://github.com/kubernetes-sigs/aws-efs-csi-driver/issues/589
		"the EFS CSI driver": {corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{
			{SecurityContext: privileged, Ports: []corev1.ContainerPort{{HostPort: 9909}}}}},
			"fields not supported: HostNetwork, invalid SecurityContext fields: Privileged, port contains HostIP or HostPort"},
		// https://github.com/freegroup/kube-s3/issues/14
		"kube-s3": {corev1.PodSpec{Containers: secure(privileged).Containers, Volumes: []corev1.Volume{
			{Name: "mntdatas3fs", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}}}},
			"invalid SecurityContext fields: Privileged, volumes not supported: mntdatas3fs is of an unsupported volume Type"},
	} {
		got := UnsupportedWith(&corev1.Pod{Spec: test.spec}, map[string]string{"bad": "PVC bad not bound"})
		if joined := strings.Join(got, ", "); joined != test.want {
			t.Errorf("%s: %q, want %q", name, joined, test.want)
		}
	}
	daemon := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet"}}}}
	if got := Unsupported(daemon); !slices.Equal(got, []string{"DaemonSet not supported"}) {
		t.Errorf("a pod of a DaemonSet: %q", got)
	}
}

func TestVolumeClaims(t *testing.T) {
	t.Parallel()
	claim := func(name string) corev1.Volume {
		return corev1.Volume{VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{claim("b"), {}, claim("a"), claim("b")}}}
	if got := VolumeClaims(pod); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("the claims are %q", got)
	}
}

func TestClaimProblem(t *testing.T) {
	t.Parallel()
	bound := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
	volume := func(source corev1.PersistentVolumeSource) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"},
			Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: source}}
	}
	driver := func(name string) corev1.PersistentVolumeSource {
		return corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: name}}
	}
	for _, test := range []struct {
		claim  *corev1.PersistentVolumeClaim
		volume *corev1.PersistentVolume
		want   string
	}{
		{bound, volume(driver("efs.csi.aws.com")), ""},
		{nil, nil, `persistentvolumeclaim "c" not found`},
		{&corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}}, nil,
			"PVC c not bound"},
		{bound, nil, `persistentvolumes "pv" not found`},
		{bound, volume(corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{}}),
			"PVC c bound to invalid PV pv with nil CSI spec"},
		{bound, volume(driver("ebs.csi.aws.com")), "PVC c bound to invalid PV pv with CSI Driver: ebs.csi.aws.com"},
	} {
		if got := ClaimProblem("c", test.claim, test.volume); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

func TestNFSSources(t *testing.T) {
	t.Parallel()
	nfs := func(server, path string) corev1.Volume {
		return corev1.Volume{VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: server, Path: path}}}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{nfs("h", "/a"), {}, nfs("fd00::1", "/"),
		nfs("::ffff:10.0.0.1", "/")}}}
	if got := NFSSources(pod); !slices.Equal(got, []string{"h:/a", "[fd00::1]:/", "::ffff:10.0.0.1:/"}) {
		t.Errorf("the sources are %q", got)
	}
}
