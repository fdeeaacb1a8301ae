// Package securitygrouppolicy decides which SecurityGroupPolicy objects select a pod, and which security groups it gets
// by them. It is pure.
//
// https://docs.aws.amazon.com/eks/latest/userguide/security-groups-for-pods.html
package securitygrouppolicy

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is the resource of SecurityGroupPolicy objects, whose definition every cluster gets.
var Resource = schema.GroupVersionResource{Group: "vpcresources.k8s.aws", Version: "v1beta1",
	Resource: "securitygrouppolicies"}

const (
	// MaxGroups is the number of security groups that a pod gets at most. EC2 takes five for a network interface, and
	// refuses more.
	MaxGroups = 16
	// maxGroupID is the length to which IDs of security groups are kept, in bytes. Those of EC2 have 20.
	maxGroupID = 64
)

// Policy is what is read of a SecurityGroupPolicy.
type Policy struct {
	Pods, ServiceAccounts *metav1.LabelSelector
	GroupIDs              []string
}

// Parse returns what an object says; false if it is none that an API server would have admitted.
func Parse(o *unstructured.Unstructured) (Policy, bool) {
	var object struct {
		Spec struct {
			PodSelector            *metav1.LabelSelector `json:"podSelector"`
			ServiceAccountSelector *metav1.LabelSelector `json:"serviceAccountSelector"`
			SecurityGroups         struct {
				GroupIDs []string `json:"groupIds"`
			} `json:"securityGroups"`
		} `json:"spec"`
	}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &object) != nil {
		return Policy{}, false
	}
	p := Policy{Pods: object.Spec.PodSelector, ServiceAccounts: object.Spec.ServiceAccountSelector}
	for _, id := range object.Spec.SecurityGroups.GroupIDs {
		if len(p.GroupIDs) < MaxGroups {
			// What is cut is no group's: EC2 says so. It is cloned, not to hold the whole list.
			p.GroupIDs = append(p.GroupIDs, strings.Clone(id[:min(len(id), maxGroupID)]))
		}
	}
	return p, true
}

// Selects reports whether a policy is for a pod with these labels, and with a service account with those. Of its
// selectors those count that it has, and it needs one.
func (p Policy) Selects(pod, account map[string]string) bool {
	matches := func(selector *metav1.LabelSelector, of map[string]string) bool {
		s, err := metav1.LabelSelectorAsSelector(selector)
		return err == nil && s.Matches(labels.Set(of))
	}
	return (p.Pods != nil || p.ServiceAccounts != nil) && (p.Pods == nil || matches(p.Pods, pod)) &&
		(p.ServiceAccounts == nil || matches(p.ServiceAccounts, account))
}

// AddGroups adds the groups of a policy to those that a pod gets, each once.
func AddGroups(groups []string, p Policy) []string {
	for _, id := range p.GroupIDs {
		if len(groups) < MaxGroups && !slices.Contains(groups, id) {
			groups = append(groups, id)
		}
	}
	return groups
}
