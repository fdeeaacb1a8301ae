package podidentity

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
)

// Pod is a pod to which a token is bound.
type Pod struct{ Namespace, ServiceAccount, Name, UID string }

// An InvalidTokenError is the error of a token that an API server does not accept, or that is not bound to a pod.
type InvalidTokenError struct{ Reason string }

func (e *InvalidTokenError) Error() string { return e.Reason }

// ReviewToken has the API server of a cluster verify the token of a pod for EKS Pod Identity: its signature, audience
// and expiry, and that the pod and its service account are there. The error is an [InvalidTokenError] for a token that
// is not good; others mean that the API server has not answered.
func (w *Webhook) ReviewToken(ctx context.Context, c record.Cluster, token string) (Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	api, err := w.clients.Get(ctx, c)
	if err != nil {
		return Pod{}, err
	}
	authentication, err := authenticationv1client.NewForConfigAndClient(api.Config, api.HTTP)
	if err != nil {
		return Pod{}, err
	}
	review, err := authentication.TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{credentialsAudience}},
	}, metav1.CreateOptions{})
	if err != nil {
		w.clients.DropUnreachable(c.ID, api, err)
		return Pod{}, err
	}
	status := review.Status
	if !status.Authenticated {
		return Pod{}, &InvalidTokenError{fmt.Sprintf("cluster %s does not accept the token: %s", c.Name,
			client.Cut(status.Error))}
	}
	extra := status.User.Extra
	p := Pod{Name: first(extra[serviceaccount.PodNameKey]), UID: first(extra[serviceaccount.PodUIDKey])}
	if p.Namespace, p.ServiceAccount, err = serviceaccount.SplitUsername(status.User.Username); err != nil {
		return Pod{}, &InvalidTokenError{"the token is not that of a service account"}
	}
	if p.Name == "" || p.UID == "" {
		return Pod{}, &InvalidTokenError{"the token is not bound to a pod"}
	}
	// Whoever runs the API server says this; it becomes session tags and names.
	if len(validation.IsDNS1123Subdomain(p.Name)) > 0 || uuid.Validate(p.UID) != nil ||
		len(validation.IsDNS1123Label(p.Namespace)) > 0 ||
		len(validation.IsDNS1123Subdomain(p.ServiceAccount)) > 0 {
		return Pod{}, &InvalidTokenError{"the token is bound to a pod whose name or UID is not valid"}
	}
	return p, nil
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
