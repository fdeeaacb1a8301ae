// Package eviction evicts pods through the Eviction API, which respects PodDisruptionBudgets.
//
// An eviction that the API server refuses is no error: whoever asked decides when to ask again, and what to say.
//
// https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/
package eviction

import (
	"context"
	"errors"
	"fmt"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/coracle-eks/coracle/internal/kube/client"
)

// Pod names a pod.
type Pod struct{ Namespace, Name, UID string }

// String returns "namespace/name".
func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// Evict evicts a pod, or with force deletes it if its eviction is refused, by a PodDisruptionBudget, two of them, or a
// webhook. It returns gone when there is no such pod, and why it was refused; neither when the pod is on its way out.
// An error says that the API server could not be asked. An API server that is busy is no refusal of the eviction, and
// is asked again; see [Delete].
func Evict(ctx context.Context, kube kubernetes.Interface, pod Pod, force bool) (gone bool, refused string, err error) {
	precondition := &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(pod.UID)}
	// The client of kubernetes.Interface would wait here, for ten seconds, when the API server asks to try again later.
	err = kube.CoreV1().RESTClient().Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource(
		"eviction").MaxRetries(0).
		Body(&policyv1.Eviction{
			TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, DeleteOptions: precondition,
		}).Do(ctx).Error()
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return false, "", nil
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		// gone, or another of its name: whoever looks again sees which
		return true, "", nil
	case !errors.As(err, &status): // not an answer
		return false, "", fmt.Errorf("evict pod %s: %w", pod, err)
	case !force || isServerBusy(err):
		return false, errorMessage(err), nil
	}
	return Delete(ctx, kube, pod)
}

// Delete deletes a pod whose time to be evicted is over, whatever its eviction was refused for. It returns what [Evict]
// does.
func Delete(ctx context.Context, kube kubernetes.Interface, pod Pod) (gone bool, refused string, err error) {
	err = kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name,
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(pod.UID)})
	var status apierrors.APIStatus
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return true, "", nil
	case errors.As(err, &status):
		return false, errorMessage(err), nil
	case err != nil:
		return false, "", fmt.Errorf("delete pod %s: %w", pod, err)
	}
	return false, "", nil
}

// isServerBusy reports whether the API server had no time to answer, which does not concern the pod. A webhook that
// refuses may choose any code; the API server says who it was.
// https://github.com/kubernetes/apiserver/blob/master/pkg/admission/plugin/webhook/errors/statuserror.go
func isServerBusy(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) && strings.HasPrefix(status.Status().Message, "admission webhook ") {
		return false
	}
	return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsTooManyRequests(err) && !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause)
}

// errorMessage returns the message of the API server, with the reasons behind it.
func errorMessage(err error) string {
	text := err.Error()
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			if cause.Message != "" {
				text += " " + cause.Message
			}
		}
	}
	return client.Cut(text)
}
