package fargate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/coracle-eks/coracle/internal/kube/client"
)

// securityGroupPolicies is the resource of SecurityGroupPolicy objects, whose definition every cluster gets.
var securityGroupPolicies = schema.GroupVersionResource{Group: "vpcresources.k8s.aws", Version: "v1beta1",
	Resource: "securitygrouppolicies"}

// securityGroupPolicy is what is read of one.
type securityGroupPolicy struct {
	Spec struct {
		PodSelector            *metav1.LabelSelector `json:"podSelector"`
		ServiceAccountSelector *metav1.LabelSelector `json:"serviceAccountSelector"`
		SecurityGroups         struct {
			GroupIDs []string `json:"groupIds"`
		} `json:"securityGroups"`
	} `json:"spec"`
}

// maxGroups is the number of security groups that are asked of EC2 at most, which takes five for a network interface.
const maxGroups = 16

// maxGroupID is the length to which IDs of security groups are kept, in bytes. Those of EC2 have 20.
const maxGroupID = 64

// securityGroups returns the security groups of the pod's network interface: those of the policies of its namespace
// that select it, or else the cluster security group.
// https://docs.aws.amazon.com/eks/latest/userguide/security-groups-for-pods.html
func (p *podPass) securityGroups(ctx context.Context, pod *corev1.Pod) ([]string, error) {
	var groups []string
	var account *corev1.ServiceAccount
	var failed error
	_, err := client.EachPage(ctx, metav1.ListOptions{},
		p.server.objects.Resource(securityGroupPolicies).Namespace(pod.Namespace).List,
		func(page *unstructured.UnstructuredList) {
			for _, o := range page.Items {
				var policy securityGroupPolicy
				if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &policy) != nil || failed != nil {
					continue // the API server validates policies: it is none
				}
				if policy.Spec.ServiceAccountSelector != nil && account == nil {
					account, failed = p.serviceAccount(ctx, pod)
					if failed != nil {
						return
					}
				}
				if !policy.selects(pod, account) {
					continue
				}
				for _, id := range policy.Spec.SecurityGroups.GroupIDs {
					id = id[:min(len(id), maxGroupID)] // what is cut is no group's: EC2 says so
					if len(groups) < maxGroups && !slices.Contains(groups, id) {
						groups = append(groups, strings.Clone(id)) // not to hold the whole page
					}
				}
			}
		})
	if failed != nil {
		return nil, failed
	}
	if err != nil && !apierrors.IsNotFound(err) { // somebody may have deleted the definition
		return nil, fmt.Errorf("list SecurityGroupPolicies: %w", err)
	}
	if len(groups) > 0 {
		slices.Sort(groups)
		return groups, nil
	}
	plane, err := p.c.planes.Get(ctx, p.cluster.Key())
	if err != nil {
		return nil, err
	}
	return []string{plane.Value.ClusterSecurityGroupID}, nil
}

// serviceAccount returns the pod's service account; one without labels when there is none.
func (p *podPass) serviceAccount(ctx context.Context, pod *corev1.Pod) (*corev1.ServiceAccount, error) {
	a, err := p.server.scheduler.CoreV1().ServiceAccounts(pod.Namespace).Get(ctx, pod.Spec.ServiceAccountName,
		metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return &corev1.ServiceAccount{}, nil
	}
	return a, err
}

// selects reports whether a policy is for the pod. Of its selectors those count that it has, and it needs one.
func (p securityGroupPolicy) selects(pod *corev1.Pod, account *corev1.ServiceAccount) bool {
	matches := func(selector *metav1.LabelSelector, of map[string]string) bool {
		s, err := metav1.LabelSelectorAsSelector(selector)
		return err == nil && s.Matches(labels.Set(of))
	}
	pods, accounts := p.Spec.PodSelector, p.Spec.ServiceAccountSelector
	return (pods != nil || accounts != nil) && (pods == nil || matches(pods, pod.Labels)) &&
		(accounts == nil || account != nil && matches(accounts, account.Labels))
}
