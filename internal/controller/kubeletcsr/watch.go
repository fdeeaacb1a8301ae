package kubeletcsr

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// watchRequests tells the requests of all clusters until ctx ends: those that there are, then each that comes.
func (c *Controller) watchRequests(ctx context.Context, changed func(key string)) {
	c.servers.Follow(ctx, func(ctx context.Context, connection *apiserver.Connection, open func(*client)) error {
		k, err := newClient(connection)
		if err != nil {
			return err
		}
		return k.watchRequests(ctx, func(name string) {
			changed(store.Key(append(store.Parts(connection.Key),
				name)...))
		}, func() { open(k) })
	})
}

// watchRequests tells the names of the requests that there are and of those that come, until the API server goes away.
// It calls working once the watch stands.
func (k *client) watchRequests(ctx context.Context, tell func(name string), working func()) error {
	only := fields.OneTermEqualSelector("spec.signerName", certificatesv1.KubeletServingSignerName).String()
	requests := k.certificates.CertificateSigningRequests()
	var undecided []string
	from, err := kubeclient.EachPage(ctx, metav1.ListOptions{FieldSelector: only}, requests.List,
		func(page *certificatesv1.CertificateSigningRequestList) {
			for _, r := range page.Items {
				if len(r.Status.Conditions) == 0 {
					undecided = append(undecided, r.Name)
				}
			}
		})
	if err != nil {
		return err
	}
	for first := true; ; first = false {
		w, err := requests.Watch(ctx, metav1.ListOptions{FieldSelector: only, ResourceVersion: from,
			AllowWatchBookmarks: true})
		if err != nil {
			return err
		}
		if first {
			working() // before anything is told: whoever decides needs the connection
			for _, name := range undecided {
				tell(name)
			}
			undecided = nil
		}
		began := time.Now()
		if from, err = handleEvents(ctx, w, from, tell); err != nil {
			return err
		}
		if time.Since(began) < time.Second { // nothing that the API server ends so soon is in order
			return errors.New("the watch ended at once")
		}
	}
}

// handleEvents tells what a watch says until it ends, and gives back from where to go on.
func handleEvents(ctx context.Context, w kubewatch.Interface, from string, tell func(name string)) (string, error) {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return from, ctx.Err()
		case e, open := <-w.ResultChan():
			if !open {
				return from, nil
			}
			if e.Type == kubewatch.Error {
				return from, fmt.Errorf("watch certificate signing requests: %v", e.Object)
			}
			r, ok := e.Object.(*certificatesv1.CertificateSigningRequest)
			if !ok {
				continue
			}
			from = r.ResourceVersion
			if e.Type == kubewatch.Added || e.Type == kubewatch.Modified && len(r.Status.Conditions) == 0 {
				tell(r.Name)
			}
		}
	}
}
