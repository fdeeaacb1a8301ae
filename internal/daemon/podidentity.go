package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	eksauthservice "github.com/coracle-eks/coracle/internal/aws/eksauth"
	"github.com/coracle-eks/coracle/internal/controller/controlplane"
	"github.com/coracle-eks/coracle/internal/kube/podidentity"
	"github.com/coracle-eks/coracle/internal/record"
)

// newPodIdentity returns the webhook that gives pods the roles of their service accounts, and serves EKS Auth, from
// which the agents on nodes get the credentials of pods.
func (d *daemon) newPodIdentity(planes *controlplane.Controller) *podidentity.Webhook {
	associations := record.PodIdentityAssociations(d.store)
	webhook := podidentity.New(podidentity.Options{
		Config: func(ctx context.Context, c record.Cluster) (*rest.Config, error) {
			return planes.Config(ctx, c, podidentity.User)
		},
		Associated: func(ctx context.Context, c record.Cluster, namespace, serviceAccount string) (bool, error) {
			_, found, err := resource.AssociationOf(ctx, associations, c, namespace, serviceAccount)
			return found, err
		},
		Log: d.log,
	})
	eksauthservice.New(eksauthservice.Options{
		Store: d.store, Identity: d.api.identity,
		STS: func(region string, who aws.CredentialsProvider) eksauthservice.STS {
			return sts.NewFromConfig(d.api.clientConfig(region, who))
		},
		Review: func(ctx context.Context, c record.Cluster, token string) (eksauthservice.Pod, error) {
			pod, err := webhook.ReviewToken(ctx, c, token)
			var invalid *podidentity.InvalidTokenError
			if errors.As(err, &invalid) {
				err = fmt.Errorf("%w: %s", eksauthservice.ErrInvalidToken, invalid.Reason)
			}
			return eksauthservice.Pod(pod), err
		},
	}).Register(d.api.mux)
	return webhook
}
