package kubeletcsr

import (
	"context"
	"errors"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"

	"github.com/coracle-eks/coracle/internal/kube/apiserver"
	kubeclient "github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// client reaches one cluster's API server.
type client struct {
	cluster       record.Cluster
	certificates  certificatesclient.CertificateSigningRequestsGetter
	authorization authorizationclient.SubjectAccessReviewsGetter
}

func newClient(k *apiserver.Connection) (*client, error) {
	certificates, err := certificatesclient.NewForConfigAndClient(k.Config, k.HTTP)
	if err != nil {
		return nil, err
	}
	authorization, err := authorizationclient.NewForConfigAndClient(k.Config, k.HTTP)
	if err != nil {
		return nil, err
	}
	return &client{k.Cluster, certificates, authorization}, nil
}

// watchRequests sends the keys of the requests of all clusters until ctx ends: the existing ones, then each new one.
func (c *Controller) watchRequests(ctx context.Context, changed func(ctx context.Context, key string) error) {
	c.servers.Follow(ctx, func(ctx context.Context, connection *apiserver.Connection, open func(*client)) error {
		k, err := newClient(connection)
		if err != nil {
			return err
		}
		return k.watchRequests(ctx, func(name string) error {
			return changed(ctx, store.Key(append(store.Parts(connection.Key), name)...))
		}, func() { open(k) })
	})
}

// watchRequests calls tell with the names of the existing requests and of new ones, until the API server goes away. It
// calls working once the API server answers.
func (k *client) watchRequests(ctx context.Context, tell func(name string) error, working func()) error {
	only := fields.OneTermEqualSelector("spec.signerName", certificatesv1.KubeletServingSignerName).String()
	requests := k.certificates.CertificateSigningRequests()
	working = sync.OnceFunc(working)
	var telling error
	from, err := kubeclient.EachPage(ctx, metav1.ListOptions{FieldSelector: only}, requests.List,
		func(page *certificatesv1.CertificateSigningRequestList) {
			working() // before anything is told: whoever decides needs the connection
			for _, r := range page.Items {
				if len(r.Status.Conditions) == 0 && telling == nil {
					telling = tell(r.Name)
				}
			}
		})
	if err = errors.Join(err, telling); err != nil {
		return err
	}
	return kubeclient.Watch(ctx, "certificate signing requests", from, requests.Watch,
		metav1.ListOptions{FieldSelector: only},
		func(what kubewatch.EventType, r *certificatesv1.CertificateSigningRequest) error {
			if what == kubewatch.Added || what == kubewatch.Modified && len(r.Status.Conditions) == 0 {
				return tell(r.Name)
			}
			return nil
		})
}
