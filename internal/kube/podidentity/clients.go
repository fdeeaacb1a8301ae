package podidentity

import (
	"context"
	"errors"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
)

// clusterClient are the clients of the API server of a cluster.
type clusterClient struct {
	*client.Client
	authentication authenticationv1client.AuthenticationV1Interface
	authority      string // the ID of the certificate authority that signed when they were made
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
	if known != nil && known.authority == c.SigningAuthorityID {
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
	known = k.byID[c.ID]
	if known != nil && known.authority == c.SigningAuthorityID { // made by another at the same time
		made.Close()
		return known, nil
	}
	if known != nil {
		known.Close()
	}
	k.byID[c.ID] = &clusterClient{made, authentication, c.SigningAuthorityID}
	return k.byID[c.ID], nil
}

// dropUnreachable drops clients whose request has got no answer, or whose certificate is not accepted: the API server
// may be elsewhere now, or have forgotten the authority that has signed the certificate.
func (k *clients) dropUnreachable(clusterID string, used *clusterClient, err error) {
	var unreachable *client.Unreachable
	if !errors.As(err, &unreachable) && !apierrors.IsUnauthorized(err) {
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
