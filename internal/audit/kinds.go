package audit

import "strings"

// kind is a kind of upstream Kubernetes.
type kind struct {
	Kind     string
	Resource string // plural, as in objectRef.resource
	Group    string
	Short    string // short names, separated by spaces
	Cluster  bool   // not in a namespace
}

// kinds are those of upstream, so that their short names and groups are known without the cluster.
var kinds = []kind{
	{"ConfigMap", "configmaps", "", "cm", false},
	{"Endpoints", "endpoints", "", "ep", false},
	{"Event", "events", "", "ev", false},
	{"LimitRange", "limitranges", "", "limits", false},
	{"Namespace", "namespaces", "", "ns", true},
	{"Node", "nodes", "", "no", true},
	{"PersistentVolume", "persistentvolumes", "", "pv", true},
	{"PersistentVolumeClaim", "persistentvolumeclaims", "", "pvc", false},
	{"Pod", "pods", "", "po", false},
	{"PodTemplate", "podtemplates", "", "", false},
	{"ReplicationController", "replicationcontrollers", "", "rc", false},
	{"ResourceQuota", "resourcequotas", "", "quota", false},
	{"Secret", "secrets", "", "", false},
	{"Service", "services", "", "svc", false},
	{"ServiceAccount", "serviceaccounts", "", "sa", false},

	{"ControllerRevision", "controllerrevisions", "apps", "", false},
	{"DaemonSet", "daemonsets", "apps", "ds", false},
	{"Deployment", "deployments", "apps", "deploy", false},
	{"ReplicaSet", "replicasets", "apps", "rs", false},
	{"StatefulSet", "statefulsets", "apps", "sts", false},
	{"CronJob", "cronjobs", "batch", "cj", false},
	{"Job", "jobs", "batch", "", false},
	{"HorizontalPodAutoscaler", "horizontalpodautoscalers", "autoscaling", "hpa", false},
	{"PodDisruptionBudget", "poddisruptionbudgets", "policy", "pdb", false},

	{"EndpointSlice", "endpointslices", "discovery.k8s.io", "", false},
	{"Ingress", "ingresses", "networking.k8s.io", "ing", false},
	{"IngressClass", "ingressclasses", "networking.k8s.io", "", true},
	{"IPAddress", "ipaddresses", "networking.k8s.io", "ip", true},
	{"NetworkPolicy", "networkpolicies", "networking.k8s.io", "netpol", false},
	{"ServiceCIDR", "servicecidrs", "networking.k8s.io", "", true},

	{"ClusterRole", "clusterroles", "rbac.authorization.k8s.io", "", true},
	{"ClusterRoleBinding", "clusterrolebindings", "rbac.authorization.k8s.io", "", true},
	{"Role", "roles", "rbac.authorization.k8s.io", "", false},
	{"RoleBinding", "rolebindings", "rbac.authorization.k8s.io", "", false},

	{"CSIDriver", "csidrivers", "storage.k8s.io", "", true},
	{"CSINode", "csinodes", "storage.k8s.io", "", true},
	{"CSIStorageCapacity", "csistoragecapacities", "storage.k8s.io", "", false},
	{"StorageClass", "storageclasses", "storage.k8s.io", "sc", true},
	{"VolumeAttachment", "volumeattachments", "storage.k8s.io", "", true},
	{"VolumeAttributesClass", "volumeattributesclasses", "storage.k8s.io", "vac", true},

	{"MutatingAdmissionPolicy", "mutatingadmissionpolicies", "admissionregistration.k8s.io", "", true},
	{"MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "admissionregistration.k8s.io", "", true},
	{"ValidatingAdmissionPolicy", "validatingadmissionpolicies", "admissionregistration.k8s.io", "", true},
	{"ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", "admissionregistration.k8s.io", "", true},
	{"ValidatingWebhookConfiguration", "validatingwebhookconfigurations", "admissionregistration.k8s.io", "", true},
	{"APIService", "apiservices", "apiregistration.k8s.io", "", true},
	{"CertificateSigningRequest", "certificatesigningrequests", "certificates.k8s.io", "csr", true},
	{"CustomResourceDefinition", "customresourcedefinitions", "apiextensions.k8s.io", "crd crds", true},
	{"FlowSchema", "flowschemas", "flowcontrol.apiserver.k8s.io", "", true},
	{"Lease", "leases", "coordination.k8s.io", "", false},
	{"PriorityClass", "priorityclasses", "scheduling.k8s.io", "pc", true},
	{"PriorityLevelConfiguration", "prioritylevelconfigurations", "flowcontrol.apiserver.k8s.io", "", true},
	{"DeviceClass", "deviceclasses", "resource.k8s.io", "", true},
	{"ResourceClaim", "resourceclaims", "resource.k8s.io", "", false},
	{"ResourceClaimTemplate", "resourceclaimtemplates", "resource.k8s.io", "", false},
	{"ResourceSlice", "resourceslices", "resource.k8s.io", "", true},
	{"RuntimeClass", "runtimeclasses", "node.k8s.io", "", true},
}

// findKind returns the kind that a word of the command line means: a plural, a singular or a short name.
func findKind(word string) (kind, bool) {
	for _, k := range kinds {
		if word == k.Resource || word == strings.ToLower(k.Kind) {
			return k, true
		}
		for short := range strings.FieldsSeq(k.Short) {
			if word == short {
				return k, true
			}
		}
	}
	return kind{}, false
}

// kindForResource returns the kind behind a resource of an audit event.
func kindForResource(group, resource string) (kind, bool) {
	for _, k := range kinds {
		if k.Resource == resource && k.Group == group {
			return k, true
		}
	}
	return kind{}, false
}

// plurals returns the resources that a word which is no kind of upstream may mean: the names of a custom resource
// follow the rules of English only as far as its author did.
func plurals(word string) []string {
	all := []string{word}
	if strings.HasSuffix(word, "s") && !strings.HasSuffix(word, "ss") {
		return append(all, word+"es") // boats, gateways; but also bus -> buses
	}
	switch {
	case strings.HasSuffix(word, "ss"), strings.HasSuffix(word, "x"), strings.HasSuffix(word, "ch"),
		strings.HasSuffix(word, "sh"):
		all = append(all, word+"es")
	case strings.HasSuffix(word, "y") && len(word) > 1 && !strings.ContainsRune("aeiou", rune(word[len(word)-2])):
		all = append(all, word[:len(word)-1]+"ies")
	}
	return append(all, word+"s")
}
