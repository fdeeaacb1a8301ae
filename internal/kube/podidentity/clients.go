package podidentity

import (
	"context"
	"errors"
	"sync"

	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
)

// clusterClient are the clients of the API server of a cluster.
type clusterClient struct {
	*client.Client
	authentication authenticationv1client.AuthenticationV1Interface
}

// clients keeps clients of the API servers of clusters.
type clients struct {
	config func(ctx context.Context, c record.Cluster) (*rest.Config, error)

	mu   sync.Mutex
	byID map[string]*clusterClient // by cluster ID
}

// of returns the clients of a cluster.
func (k *clients) of(ctx context.Context, c record.Cluster) (*clusterClient, error) {
	k.mu.Lock()
	known := k.byID[c.ID]
	k.mu.Unlock()
	if known != nil {
		return known, nil
	}
	config, err := k.config(ctx, c)
	if err != nil {
		return nil, err
	}
	made, err := client.New(config, c.Name, userAgent)
	if err != nil {
		return nil, err
	}
	authentication, err := authenticationv1client.NewForConfigAndClient(made.Config, made.HTTP)
	if err != nil {
		made.Close()
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if known = k.byID[c.ID]; known != nil { // made by another at the same time
		made.Close()
		return known, nil
	}
	k.byID[c.ID] = &clusterClient{made, authentication}
	return k.byID[c.ID], nil
}

// dropUnreachable drops clients whose request has got no answer: the API server may be elsewhere now.
func (k *clients) dropUnreachable(clusterID string, used *clusterClient, err error) {
	var unreachable *client.Unreachable
	if !errors.As(err, &unreachable) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byID[clusterID] == used {
		used.Close()
		delete(k.byID, clusterID)
	}
}

// forget drops the clients of a cluster.
func (k *clients) forget(clusterID string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := k.byID[clusterID]; known != nil {
		known.Close()
		delete(k.byID, clusterID)
	}
}
