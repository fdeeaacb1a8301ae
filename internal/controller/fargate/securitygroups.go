package fargate

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/kube/securitygrouppolicy"
)

// securityGroups returns the security groups of the pod's network interface: those of the policies of its namespace
// that select it, or else the cluster security group.
// https://docs.aws.amazon.com/eks/latest/userguide/security-groups-for-pods.html
func (p *podPass) securityGroups(ctx context.Context, pod *corev1.Pod) ([]string, error) {
	var groups []string
	var account *corev1.ServiceAccount
	var failed error
	_, err := client.EachPage(ctx, metav1.ListOptions{},
		p.server.objects.Resource(securitygrouppolicy.Resource).Namespace(pod.Namespace).List,
		func(page *unstructured.UnstructuredList) {
			for _, o := range page.Items {
				policy, ok := securitygrouppolicy.Parse(&o)
				if !ok || failed != nil {
					continue // the API server validates policies: it is none
				}
				if policy.ServiceAccounts != nil && account == nil {
					account, failed = p.serviceAccount(ctx, pod)
					if failed != nil {
						return
					}
				}
				var accountLabels map[string]string
				if account != nil {
					accountLabels = account.Labels
				}
				if policy.Selects(pod.Labels, accountLabels) {
					groups = securitygrouppolicy.AddGroups(groups, policy)
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
