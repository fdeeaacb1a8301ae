package certificates

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// client reaches one cluster's API server.
type client struct {
	cluster       record.Cluster
	certificates  certificatesclient.CertificateSigningRequestsGetter
	authorization authorizationclient.SubjectAccessReviewsGetter
	close         func()
}

// client makes one with a connection of its own: client-go would keep it, and its certificate, for ever.
func (c *Controller) client(ctx context.Context, key, clusterID string) (*client, error) {
	row, err := c.clusters.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if row.Value.ID != clusterID {
		return nil, fmt.Errorf("cluster %s: %w", key, store.ErrNotFound)
	}
	config, err := c.o.Config(ctx, row.Value, user)
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.UserAgent = userAgent
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true, DialContext: config.Dial}
	wrapped, err := rest.HTTPWrappersForConfig(config, transport)
	if err != nil {
		return nil, err
	}
	connection := &http.Client{Transport: wrapped}
	certificates, err := certificatesclient.NewForConfigAndClient(config, connection)
	if err != nil {
		return nil, err
	}
	authorization, err := authorizationclient.NewForConfigAndClient(config, connection)
	if err != nil {
		return nil, err
	}
	return &client{row.Value, certificates, authorization, transport.CloseIdleConnections}, nil
}

// watcher is what watches one cluster.
type watcher struct {
	clusterID, endpoint string
	stop                context.CancelFunc
	done                chan struct{}
}

// watch tells the requests of all clusters until ctx ends: those that there are, then each that comes.
func (c *Controller) watch(ctx context.Context, changed func(key string)) {
	running := map[string]watcher{}
	end := func(key string) {
		if w, ok := running[key]; ok {
			w.stop()
			<-w.done
			delete(running, key)
		}
	}
	defer func() {
		var ending sync.WaitGroup
		for _, w := range running {
			w.stop()
			ending.Go(func() { <-w.done })
		}
		ending.Wait()
	}()
	c.planes.Notify(ctx, "", func(key string) {
		row, err := c.planes.Get(ctx, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			c.log.Error("cannot watch certificate signing requests", "cluster", key, "error", err)
			return
		}
		plane := row.Value // of no cluster, if the row is gone
		if was, ok := running[key]; ok && plane.Ready && was.clusterID == plane.ClusterID && was.endpoint == plane.Endpoint {
			return
		}
		end(key)
		if !plane.Ready {
			return
		}
		within, stop := context.WithCancel(ctx)
		w := watcher{plane.ClusterID, plane.Endpoint, stop, make(chan struct{})}
		running[key] = w
		go func() {
			defer close(w.done)
			c.watchCluster(within, key, w.clusterID, changed)
		}()
	})
}

// again bounds the wait before a watch that ended with an error begins anew.
const (
	againFirst = 50 * time.Millisecond
	againMost  = 2 * time.Second
)

// watchCluster tells the requests of one cluster until ctx ends. A watch costs an idle cluster a connection and a
// bookmark a minute.
func (c *Controller) watchCluster(ctx context.Context, key, clusterID string, changed func(key string)) {
	wait := againFirst
	failing := false
	for ctx.Err() == nil {
		k, err := c.client(ctx, key, clusterID)
		if errors.Is(err, store.ErrNotFound) {
			return
		}
		if err == nil {
			c.mu.Lock()
			c.clients[key] = k
			c.mu.Unlock()
			err = k.follow(ctx, func(name string) { changed(store.Key(append(store.Parts(key), name)...)) }, func() { wait, failing = againFirst, false })
			c.mu.Lock()
			delete(c.clients, key)
			c.mu.Unlock()
			k.close()
		}
		if ctx.Err() != nil {
			return
		}
		if wait >= againMost && !failing { // an API server that starts again is back by then
			failing = true
			c.log.Warn("cannot watch certificate signing requests; trying on", "cluster", key, "error", err)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
		}
		wait = min(2*wait, againMost)
	}
}

// follow tells the names of the requests that there are and of those that come, until the API server goes away. It calls
// working once the watch stands.
func (k *client) follow(ctx context.Context, tell func(name string), working func()) error {
	only := fields.OneTermEqualSelector("spec.signerName", certificatesv1.KubeletServingSignerName).String()
	requests := k.certificates.CertificateSigningRequests()
	list, err := requests.List(ctx, metav1.ListOptions{FieldSelector: only})
	if err != nil {
		return err
	}
	for _, r := range list.Items {
		if len(r.Status.Conditions) == 0 {
			tell(r.Name)
		}
	}
	from := list.ResourceVersion
	for {
		w, err := requests.Watch(ctx, metav1.ListOptions{FieldSelector: only, ResourceVersion: from, AllowWatchBookmarks: true})
		if err != nil {
			return err
		}
		working()
		began := time.Now()
		if from, err = drain(ctx, w, from, tell); err != nil {
			return err
		}
		if time.Since(began) < time.Second { // nothing that the API server ends so soon is in order
			return errors.New("the watch ended at once")
		}
	}
}

// drain tells what a watch says until it ends, and gives back from where to go on.
func drain(ctx context.Context, w kubewatch.Interface, from string, tell func(name string)) (string, error) {
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
