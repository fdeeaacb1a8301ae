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

// maxPending is the maximum number of requests of a cluster that wait for a decision.
const maxPending = 1000

// pending are the requests of one cluster that wait for a decision. Its API server decides how many requests there are,
// and what they are called; the queue is shared with other clusters.
type pending struct {
	slots   chan struct{}   // as many as wait
	keys    map[string]bool // guarded by Controller.mu, like watched
	watched bool
}

// openPending returns the requests of the cluster with that key until closePending. They outlive connections to it, as
// the queue does.
func (c *Controller) openPending(cluster string) *pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pending[cluster]
	if p == nil {
		p = &pending{slots: make(chan struct{}, maxPending), keys: map[string]bool{}}
		c.pending[cluster] = p
	}
	p.watched = true
	return p
}

// closePending forgets the cluster once none of its requests waits.
func (c *Controller) closePending(cluster string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending[cluster].watched = false
	c.forgetPending(cluster)
}

// forgetPending removes the pending requests of a cluster that has none and is not watched. The caller holds mu.
func (c *Controller) forgetPending(cluster string) {
	if p := c.pending[cluster]; !p.watched && len(p.keys) == 0 {
		delete(c.pending, cluster)
	}
}

// addPending adds a request. It waits while there are too many, and with it the watch that tells of them.
func (c *Controller) addPending(ctx context.Context, p *pending, key string) error {
	c.mu.Lock()
	known := p.keys[key]
	c.mu.Unlock()
	if known {
		return nil
	}
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p.keys[key] = true
	return nil
}

// removePending makes room for another request.
func (c *Controller) removePending(cluster, key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pending[cluster]; p != nil && p.keys[key] {
		delete(p.keys, key)
		<-p.slots
		c.forgetPending(cluster)
	}
}

// watchRequests sends the keys of the requests of all clusters until ctx ends: the existing ones, then each new one.
func (c *Controller) watchRequests(ctx context.Context, changed func(key string)) {
	c.servers.Follow(ctx, func(ctx context.Context, connection *apiserver.Connection, open func(*client)) error {
		k, err := newClient(connection)
		if err != nil {
			return err
		}
		waiting := c.openPending(connection.Key)
		defer c.closePending(connection.Key)
		return k.watchRequests(ctx, func(name string) error {
			key := store.Key(append(store.Parts(connection.Key), name)...)
			if err := c.addPending(ctx, waiting, key); err != nil {
				return err
			}
			changed(key)
			return nil
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
