package record

import (
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// ConnectedCluster is a Kubernetes cluster from elsewhere that was registered with EKS. Its agent, the EKS Connector,
// does not reach Coracle: of the cluster only its registration is known.
//
// Writer: internal/aws/eks.
// https://docs.aws.amazon.com/eks/latest/userguide/eks-connector.html
type ConnectedCluster struct {
	Account   string
	Region    string
	Name      string
	CreatedAt time.Time
	Provider  ekstypes.ConnectorConfigProvider
	RoleARN   string

	ActivationID string
	// ActivationCode is the code that the connector would present; only the answer to RegisterCluster shows it.
	ActivationCode   string
	ActivationExpiry time.Time

	Tags map[string]string `json:",omitempty"`

	// ClientRequestToken and RequestHash are of the request that registered it.
	ClientRequestToken string
	RequestHash        string
}

// Key returns the cluster's key.
func (c ConnectedCluster) Key() string { return ClusterKey(c.Account, c.Region, c.Name) }

// ARN returns the cluster's Amazon Resource Name.
func (c ConnectedCluster) ARN() string {
	return Cluster{Account: c.Account, Region: c.Region, Name: c.Name}.ARN()
}

// ConnectedClusters returns the table of connected clusters, by ClusterKey.
func ConnectedClusters(s *store.Store) store.Table[ConnectedCluster] {
	return store.NewTable[ConnectedCluster](s, "connected-clusters")
}
