// Package clientcache keeps clients of the API servers of clusters, one for each, for admission webhooks that read
// something of the clusters which ask them.
package clientcache

import (
	"context"
	"errors"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
)

// Cache has the clients of one user of EKS's.
type Cache struct {
	config    func(ctx context.Context, c record.Cluster) (*rest.Config, error)
	userAgent string

	mu   sync.Mutex
	byID map[string]known // by cluster ID
}

// known is the client of a cluster.
type known struct {
	*client.Client
	authority string // the ID of the certificate authority that signed when it was made
}

// New returns a Cache of clients with a user agent. config returns the configuration of a client of a cluster's API
// server.
func New(config func(ctx context.Context, c record.Cluster) (*rest.Config, error), userAgent string) *Cache {
	return &Cache{config: config, userAgent: userAgent, byID: map[string]known{}}
}

// Get returns the client of a cluster.
func (k *Cache) Get(ctx context.Context, c record.Cluster) (*client.Client, error) {
	k.mu.Lock()
	has, there := k.byID[c.ID]
	k.mu.Unlock()
	if there && has.authority == c.SigningAuthorityID {
		return has.Client, nil
	}
	config, err := k.config(ctx, c)
	if err != nil {
		return nil, err
	}
	made, err := client.New(config, c.Name, k.userAgent)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	has, there = k.byID[c.ID]
	if there && has.authority == c.SigningAuthorityID { // made by another at the same time
		made.Close()
		return has.Client, nil
	}
	if there {
		has.Close()
	}
	k.byID[c.ID] = known{made, c.SigningAuthorityID}
	return made, nil
}

// DropUnreachable drops a client whose request has got no answer, or whose certificate is not accepted: the API server
// may be elsewhere now, or have forgotten the authority that has signed the certificate.
func (k *Cache) DropUnreachable(clusterID string, used *client.Client, err error) {
	var unreachable *client.Unreachable
	if !errors.As(err, &unreachable) && !apierrors.IsUnauthorized(err) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byID[clusterID].Client == used {
		used.Close()
		delete(k.byID, clusterID)
	}
}

// Forget drops the client of a cluster.
func (k *Cache) Forget(clusterID string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if has, there := k.byID[clusterID]; there {
		has.Close()
		delete(k.byID, clusterID)
	}
}
