// Package fargate has the rules by which EKS runs pods on Fargate: which profile selects a pod, what capacity a pod
// is given, which pods cannot run there, and what a cluster says about their logs. The texts are those of EKS's webhook
// and scheduler. It is pure.
//
// https://docs.aws.amazon.com/eks/latest/userguide/fargate.html
package fargate

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/fargate/fargatenode"
	"github.com/coracle-eks/coracle/internal/record"
)

const (
	// SchedulerName is the scheduler that the webhook gives a pod.
	SchedulerName = "fargate-scheduler"
	// ProfileLabel is the label of a pod with the name of its profile. Users set it to choose among profiles.
	ProfileLabel = "eks.amazonaws.com/fargate-profile"
	// ComputeType is the label and the taint of Fargate's nodes, with the value "fargate". As an annotation of a pod,
	// with the value "ec2", it keeps the pod off Fargate.
	ComputeType = fargatenode.ComputeType
	// CapacityAnnotation is the annotation of a pod with the [Size] that was provisioned.
	CapacityAnnotation = "CapacityProvisioned"
	// LoggingAnnotation is the annotation of a pod that says whether its logs are routed.
	LoggingAnnotation = "Logging"

	// ServiceLinkedRole is the name of the role in which EKS runs pods on Fargate.
	// https://docs.aws.amazon.com/eks/latest/userguide/using-service-linked-roles-eks-fargate.html
	ServiceLinkedRole = "AWSServiceRoleForAmazonEKSForFargate"

	// SchedulerUser is the Kubernetes user of the scheduler.
	SchedulerUser = "eks:fargate-scheduler"
	// ManagerUser is the Kubernetes user that lets pod execution roles in.
	ManagerUser = "eks:fargate-manager"
	// SchedulerAgent is the user agent of the scheduler, as in the audit logs of EKS.
	SchedulerAgent = "eks-fargate-scheduler/v0.0.0 (linux/amd64) kubernetes/$Format/fargate-scheduler"
	// SchedulerManager is the scheduler's name in the managed fields of objects.
	SchedulerManager = "eks-fargate-scheduler"

	// PriorityClass is the priority class that the webhook gives a pod.
	PriorityClass = "system-node-critical"
	// Priority is the value of PriorityClass.
	Priority = int32(2000001000)

	// onEC2 is the value of the annotation [ComputeType] of pods that stay off Fargate.
	onEC2 = "ec2"
)

// Select returns the name of the profile that a pod runs with: the one that its label names, if that selects it, else
// the first by name that does. It returns "" when none does, or an annotation keeps the pod off Fargate.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-profile.html
func Select(profiles []record.FargateProfile, namespace string, labels, annotations map[string]string) string {
	if annotations[ComputeType] == onEC2 {
		return ""
	}
	first, steps := "", maxSteps
	for _, p := range profiles {
		if !slices.ContainsFunc(p.Selectors, func(s record.FargateSelector) bool {
			return steps.matches(s, namespace, labels)
		}) {
			continue
		}
		if p.Name == labels[ProfileLabel] {
			return p.Name
		}
		if first == "" || p.Name < first {
			first = p.Name
		}
	}
	if steps < 0 {
		return ""
	}
	return first
}

// MaxLabels is the number of labels of a pod that are compared with selectors, and maxKey and maxValue are the lengths
// of their keys and values in bytes. API servers refuse longer ones, after the webhook.
const (
	MaxLabels = 500

	maxKey, maxValue = 253 + 1 + 63, 63
)

// WithinBounds reports whether labels are within the bounds in which they are compared with selectors: what takes long
// to compare is not to be compared.
func WithinBounds(labels map[string]string) bool {
	if len(labels) > MaxLabels {
		return false
	}
	for key, value := range labels {
		if len(key) > maxKey || len(value) > maxValue {
			return false
		}
	}
	return true
}

// IsDaemon reports whether a pod belongs to a DaemonSet, of which Fargate has no pods.
func IsDaemon(owners []metav1.OwnerReference) bool {
	return slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return o.Kind == "DaemonSet" })
}

// SelectedBy reports whether one of the selectors of a profile matches a pod: its namespace, and each of the selector's
// labels one of the pod's. In all of them * stands for any characters and ? for one.
func SelectedBy(p record.FargateProfile, namespace string, labels map[string]string) bool {
	steps := maxSteps
	return slices.ContainsFunc(p.Selectors, func(s record.FargateSelector) bool {
		return steps.matches(s, namespace, labels)
	})
}

// budget is the number of characters of a pod that are still compared with patterns: beyond it nothing matches.
type budget int

// maxSteps is enough for the selectors of all profiles of a cluster, but for patterns and labels that are made to take
// long.
const maxSteps budget = 1 << 20

func (b *budget) matches(s record.FargateSelector, namespace string, labels map[string]string) bool {
	if !b.glob(s.Namespace, namespace) {
		return false
	}
	for key, value := range s.Labels {
		if !b.hasLabel(labels, key, value) {
			return false
		}
	}
	return true
}

// hasLabel reports whether one of the labels matches both patterns.
func (b *budget) hasLabel(labels map[string]string, key, value string) bool {
	if !strings.ContainsAny(key, "*?") {
		have, ok := labels[key]
		return ok && b.glob(value, have)
	}
	for k, v := range labels {
		if b.glob(key, k) && b.glob(value, v) {
			return true
		}
	}
	return false
}

// glob reports whether a text matches a pattern, in which * stands for any characters and ? for one. Its time is
// bounded by the product of the two lengths, and by the budget.
func (b *budget) glob(pattern, text string) bool {
	p, t := 0, 0
	star, from := -1, 0 // after the last *, and where in the text it ends
	*b--
	for t < len(text) {
		if *b--; *b < 0 {
			return false
		}
		switch {
		case p < len(pattern) && pattern[p] == '*':
			p++
			star, from = p, t
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p, t = p+1, t+1
		case star < 0:
			return false
		default:
			from++
			p, t = star, from
		}
	}
	return *b >= 0 && strings.Trim(pattern[p:], "*") == ""
}
