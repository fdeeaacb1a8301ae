package accesspolicy

import (
	"slices"
	"strings"
)

var (
	all   = []string{"*"}
	read  = []string{"get", "list", "watch"}
	write = []string{"create", "delete", "deletecollection", "patch", "update"}
)

// on returns a rule for space-separated resources of one API group; "" is the core group.
func on(group, resources string, verbs ...string) Rule {
	return Rule{APIGroups: []string{group}, Resources: strings.Fields(resources), Verbs: verbs}
}

// named limits a rule to objects of these names.
func (r Rule) named(names ...string) Rule {
	r.ResourceNames = names
	return r
}

// viewRules are those of AmazonEKSViewPolicy.
var viewRules = []Rule{
	on("apps",
		"controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status "+
			"replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
		read...),
	on("autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status", read...),
	on("batch", "cronjobs cronjobs/status jobs jobs/status", read...),
	on("discovery.k8s.io", "endpointslices", read...),
	on("extensions",
		"daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status "+
			"networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale", read...),
	on("networking.k8s.io", "ingresses ingresses/status networkpolicies", read...),
	on("policy", "poddisruptionbudgets poddisruptionbudgets/status", read...),
	on("", "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers "+
		"replicationcontrollers/scale serviceaccounts services services/status", read...),
	on("", "bindings events limitranges namespaces/status pods/log pods/status replicationcontrollers/status "+
		"resourcequotas resourcequotas/status", read...),
	on("", "namespaces", read...),
}

// editRules are those of AmazonEKSEditPolicy.
var editRules = slices.Concat(viewRules, []Rule{
	on("apps",
		"daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets "+
			"statefulsets/scale", write...),
	on("autoscaling", "horizontalpodautoscalers", write...),
	on("batch", "cronjobs jobs", write...),
	on("extensions",
		"daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets "+
			"replicasets/scale replicationcontrollers/scale", write...),
	on("networking.k8s.io", "ingresses networkpolicies", write...),
	on("policy", "poddisruptionbudgets", write...),
	on("", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy", read...),
	on("", "serviceaccounts", "impersonate"),
	on("", "pods pods/attach pods/exec pods/portforward pods/proxy", write...),
	on("", "configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets "+
		"serviceaccounts services services/proxy", write...),
})

// adminRules are those of AmazonEKSAdminPolicy.
var adminRules = slices.Concat(editRules, []Rule{
	on("authorization.k8s.io", "localsubjectaccessreviews", "create"),
	on("rbac.authorization.k8s.io", "rolebindings roles", slices.Concat(write, read)...),
})

// leases lets a controller of EKS Auto Mode elect its leader.
func leases(names ...string) []Rule {
	return []Rule{
		on("coordination.k8s.io", "leases", "create"),
		on("coordination.k8s.io", "leases", "get", "update", "patch", "delete").named(names...),
	}
}

var events = []Rule{on("", "events", "create", "patch"), on("events.k8s.io", "events", "create", "patch")}

// policies by name.
var policies = []Policy{
	{"AmazonAIOpsAssistantPolicy", []Rule{
		on("", "pods pods/log services nodes namespaces events persistentvolumes persistentvolumeclaims configmaps",
			"get", "list"),
		on("apps", "deployments replicasets statefulsets daemonsets", "get", "list"),
		on("batch", "jobs cronjobs", "get", "list"),
		on("events.k8s.io", "events", "get", "list"),
		on("networking.k8s.io", "ingresses ingressclasses", "get", "list"),
		on("storage.k8s.io", "storageclasses", "get", "list"),
		on("metrics.k8s.io", "pods nodes", "get", "list"),
	}},
	{"AmazonARCRegionSwitchScalingPolicy", []Rule{
		on("*", "*/scale", "get", "update"),
		on("*", "*/status", "get"),
		on("autoscaling", "horizontalpodautoscalers", "get", "patch"),
	}},
	{"AmazonEKSAdminPolicy", adminRules},
	{"AmazonEKSAdminViewPolicy", []Rule{on("*", "*", read...)}},
	{"AmazonEKSAutoNodePolicy", slices.Concat(events, []Rule{
		on("", "nodes", "get", "list", "watch", "patch", "update"),
		on("", "nodes/status", "patch", "update"),
		on("", "pods services endpoints namespaces persistentvolumes persistentvolumeclaims configmaps", read...),
		on("discovery.k8s.io", "endpointslices", read...),
		on("networking.k8s.io", "networkpolicies servicecidrs", read...),
		on("storage.k8s.io", "csinodes volumeattachments storageclasses csidrivers", read...),
		on("storage.k8s.io", "csinodes", "create", "update", "patch"),
		on("eks.amazonaws.com", "cninodes nodeclasses nodediagnostics policyendpoints", read...),
		on("eks.amazonaws.com", "cninodes cninodes/status nodediagnostics/status", "patch", "update"),
	})},
	{"AmazonEKSBlockStorageClusterPolicy", slices.Concat(events, []Rule{
		on("storage.k8s.io", "csidrivers", "create"),
		on("storage.k8s.io", "csidrivers", "get", "update", "patch", "delete").named("ebs.csi.eks.amazonaws.com"),
		on("", "persistentvolumes", "list", "watch", "create", "update", "patch", "delete"),
		on("", "persistentvolumeclaims", "list", "watch", "update"),
		on("", "persistentvolumeclaims/status", "patch"),
		on("", "nodes pods", read...),
		on("", "events", "list", "watch"),
		on("storage.k8s.io", "storageclasses csinodes volumeattributesclasses", read...),
		on("storage.k8s.io", "volumeattachments", "list", "watch", "create", "update", "patch", "delete"),
		on("storage.k8s.io", "volumeattachments/status", "patch"),
		on("snapshot.storage.k8s.io", "volumesnapshots volumesnapshotcontents volumesnapshotclasses", "get", "list",
			"watch", "create", "update", "patch", "delete"),
		on("snapshot.storage.k8s.io", "volumesnapshots/status volumesnapshotcontents/status", "update", "patch"),
		on("groupsnapshot.storage.k8s.io",
			"volumegroupsnapshots volumegroupsnapshotcontents volumegroupsnapshotclasses", "get", "list", "watch",
			"update", "patch"),
		on("groupsnapshot.storage.k8s.io", "volumegroupsnapshotcontents/status", "update", "patch"),
	})},
	{"AmazonEKSBlockStoragePolicy", leases("ebs-csi-eks-amazonaws-com",
		"external-attacher-leader-ebs-csi-eks-amazonaws-com", "external-resizer-ebs-csi-eks-amazonaws-com",
		"external-snapshotter-leader-ebs-csi-eks-amazonaws-com")},
	{"AmazonEKSClusterAdminPolicy", []Rule{
		{APIGroups: all, Resources: all, Verbs: all},
		{NonResourceURLs: all, Verbs: all},
	}},
	{"AmazonEKSComputeClusterPolicy", slices.Concat(events, []Rule{
		on("karpenter.sh", "nodepools nodeclaims", "create", "get", "list", "watch", "update", "patch", "delete"),
		on("karpenter.sh", "nodepools/status nodeclaims/status", "get", "update", "patch"),
		on("eks.amazonaws.com", "nodeclasses", "create", "get", "list", "watch", "update", "patch", "delete"),
		on("eks.amazonaws.com", "nodeclasses/status", "get", "update", "patch"),
		on("", "pods nodes persistentvolumes persistentvolumeclaims replicationcontrollers namespaces", read...),
		on("storage.k8s.io", "storageclasses csinodes volumeattachments", read...),
		on("apps", "deployments daemonsets replicasets statefulsets", "list", "watch"),
		on("policy", "poddisruptionbudgets", read...),
		on("", "events", "get", "list"),
		on("", "nodes", "update", "patch", "delete"),
		on("", "pods/eviction", "create"),
		on("", "pods", "delete"),
		on("apiextensions.k8s.io", "customresourcedefinitions", "create"),
		on("apiextensions.k8s.io", "customresourcedefinitions", "get", "update", "patch",
			"delete").named("nodeclasses.eks.amazonaws.com", "nodepools.karpenter.sh", "nodeclaims.karpenter.sh",
			"nodediagnostics.eks.amazonaws.com"),
	})},
	{"AmazonEKSComputePolicy", append(leases("eks-compute", "karpenter-leader-election"),
		on("coordination.k8s.io", "leases", "get", "watch"))},
	{"AmazonEKSEditPolicy", editRules},
	{"AmazonEKSHybridPolicy", []Rule{on("*", "nodes", "list")}},
	// "Permissions to watch and manage ResourceGraphDefinitions and create instances of custom resources": kro.run, its
	// CustomResourceDefinitions, leases and events.
	// https://docs.aws.amazon.com/eks/latest/userguide/capabilities-security.html
	{"AmazonEKSKROPolicy", slices.Concat(events, []Rule{
		on("kro.run", "*", all...),
		on("internal.kro.run", "*", all...),
		on("apiextensions.k8s.io", "customresourcedefinitions", all...),
		on("coordination.k8s.io", "leases", slices.Concat(read, write)...),
	})},
	{"AmazonEKSLoadBalancingClusterPolicy", slices.Concat(events, []Rule{
		on("", "pods nodes endpoints namespaces", read...),
		on("", "pods/status", "update", "patch"),
		on("", "services", "get", "list", "watch", "create", "update", "patch", "delete"),
		on("", "services/status", "update", "patch"),
		on("networking.k8s.io", "ingresses", "get", "list", "watch", "create", "update", "patch", "delete"),
		on("networking.k8s.io", "ingresses/status", "update", "patch"),
		on("discovery.k8s.io", "endpointslices", read...),
		on("networking.k8s.io", "ingressclasses", read...),
		on("eks.amazonaws.com", "targetgroupbindings", "get", "list", "watch", "create", "update", "patch", "delete"),
		on("eks.amazonaws.com", "targetgroupbindings/status", "update", "patch"),
		on("eks.amazonaws.com", "ingressclassparams", read...),
		on("apiextensions.k8s.io", "customresourcedefinitions", "create", "get", "list", "watch"),
		on("apiextensions.k8s.io", "customresourcedefinitions", "update", "patch",
			"delete").named("targetgroupbindings.eks.amazonaws.com", "ingressclassparams.eks.amazonaws.com"),
		on("admissionregistration.k8s.io", "mutatingwebhookconfigurations validatingwebhookconfigurations", "create",
			"get", "list", "watch"),
		on("admissionregistration.k8s.io", "mutatingwebhookconfigurations validatingwebhookconfigurations", "update",
			"patch", "delete").named("eks-load-balancing-webhook"),
	})},
	{"AmazonEKSLoadBalancingPolicy", leases("eks-load-balancing")},
	{"AmazonEKSNetworkingClusterPolicy", slices.Concat(events, []Rule{
		on("eks.amazonaws.com", "nodeclasses nodeclasses/status", read...),
		on("karpenter.sh", "nodeclaims nodeclaims/status", read...),
		on("", "pods", read...),
		on("eks.amazonaws.com", "cninodes cninodes/status", "create", "get", "list", "watch", "update", "delete",
			"patch"),
		on("apiextensions.k8s.io", "customresourcedefinitions", "create", "get", "list", "watch"),
		on("apiextensions.k8s.io", "customresourcedefinitions", "update", "patch",
			"delete").named("cninodes.eks.amazonaws.com"),
	})},
	{"AmazonEKSNetworkingPolicy", leases("eks-networking")},
	{"AmazonEKSSecretReaderPolicy", []Rule{on("", "secrets", read...)}},
	{"AmazonEKSViewPolicy", viewRules},
}
