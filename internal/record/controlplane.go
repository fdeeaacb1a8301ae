package record

import (
	"slices"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// ControlPlane is the observed state of a cluster's control plane.
//
// Writer: internal/controller/controlplane. The controller creates the record in its first reconcile pass over a new
// cluster and deletes it together with the Cluster record, in one transaction.
type ControlPlane struct {
	ClusterID string
	// Ready is set once the API server has answered and everything that EKS creates in a new
	// cluster is there; it stays set when the API server is down for a while.
	Ready bool
	// Failed explains why creation was given up; the cluster's status is FAILED.
	Failed string
	// DeleteFailed explains why deletion does not get on, for health and status.
	DeleteFailed string

	// Endpoint is the API server's URL for users, "https://0123….gr7.eu-west-1.eks.amazonaws.com", or
	// "https://127.0.0.1:34567" where machines have no network.
	Endpoint string
	// Port is the port of the API server on 127.0.0.1 for clients on the host, whichever process serves. The serving
	// process listens on ServerPort itself; one that is to take its place listens on StandbyPort, and then the two
	// ports are exchanged.
	Port        int `json:",omitempty"`
	ServerPort  int `json:",omitempty"`
	StandbyPort int `json:"SparePort,omitempty"` // the name in stores of earlier versions
	// PublicAddress is that of the public endpoint, kept while there is none; empty where machines have no network.
	PublicAddress string `json:",omitempty"`
	// CertificateAuthority has the certificates that clients of the cluster are to trust, PEM, oldest first.
	CertificateAuthority []byte
	// Authorities are the certificate authorities that all components of the control plane trust, oldest first, and
	// SigningAuthorityID is the ID of the one whose certificates they have. Both are empty until there has been a
	// successor of the initial one.
	Authorities        []TrustedAuthority `json:",omitempty"`
	SigningAuthorityID string             `json:",omitempty"`
	// Version is the minor version that serves now, "1.35"; FullVersion what /version says.
	Version     string
	FullVersion string

	// Bootstrapped identifies the objects that EKS puts into a cluster, as they were last applied:
	// at its creation and after an upgrade. As on AWS, what users do to them later is left alone.
	Bootstrapped string

	// ClusterSecurityGroupID is eks-cluster-sg-<name>-<n>; NetworkInterfaceIDs are the
	// cluster's ENIs in its subnets.
	ClusterSecurityGroupID string
	NetworkInterfaceIDs    []string

	// Building tells how far the build or download of the programs is that the control plane waits for; empty otherwise.
	Building string `json:",omitempty"`

	Health     []ekstypes.ClusterIssue
	ObservedAt time.Time
}

// TrustedAuthority is a certificate authority that a control plane trusts.
type TrustedAuthority struct {
	ID          string
	Certificate []byte // PEM
}

// Issues returns what is wrong with the cluster: what was found in it, and why its creation or deletion was given up.
func (p ControlPlane) Issues() []ekstypes.ClusterIssue {
	issues := slices.Clone(p.Health)
	for _, why := range []string{p.Failed, p.DeleteFailed} {
		if why != "" {
			issues = append(issues, ekstypes.ClusterIssue{Code: ekstypes.ClusterIssueCodeOther, Message: new(why)})
		}
	}
	return issues
}

// ControlPlanes returns the table of observed control planes, by ClusterKey.
func ControlPlanes(s *store.Store) store.Table[ControlPlane] {
	return store.NewTable[ControlPlane](s, "controlplanes")
}

// ControlPlaneSecrets are the private keys of a cluster. They are made once, before anything that is signed with them,
// and never change but for the certificate authorities, the encryption keys, newest first, and ServiceAccountKeys.
//
// Writer: internal/controller/controlplane.
type ControlPlaneSecrets struct {
	ClusterID string
	// CertificateAuthority and FrontProxyCA are PEM certificates, ...Key their PEM keys.
	CertificateAuthority    []byte
	CertificateAuthorityKey []byte
	FrontProxyCA            []byte
	FrontProxyCAKey         []byte
	// CertificateAuthorityID is the ID of CertificateAuthority, which signs; empty for the initial one.
	// OtherAuthorities are trusted, and sign nothing.
	CertificateAuthorityID string          `json:",omitempty"`
	OtherAuthorities       []AuthorityKeys `json:",omitempty"`
	// ServiceAccountKey is the PEM private key that signs the service-account tokens in Secrets, which do not expire, and
	// all others until there are ServiceAccountKeys.
	ServiceAccountKey []byte
	// ServiceAccountKeys are the keys of tokens that may be valid, oldest first. They begin with ServiceAccountKey when
	// its first successor is made. The last of those that have a SigningSince signs; at most one has none.
	ServiceAccountKeys []ServiceAccountKey `json:",omitempty"`
	// EncryptionKeys are 32-byte keys for Secrets at rest, newest first.
	EncryptionKeys [][]byte
}

// AuthorityKeys are the certificate and the private key of a certificate authority, PEM.
type AuthorityKeys struct {
	ID          string
	Certificate []byte
	Key         []byte
}

// ServiceAccountKey is a key that signs service-account tokens, has signed some, or will.
type ServiceAccountKey struct {
	PrivateKey []byte `json:",omitempty"` // PEM; none once the next key signs
	PublicKey  []byte // PEM
	// AcceptedAt is when the API server was found to accept the key, which is published before.
	AcceptedAt   time.Time `json:",omitzero"`
	SigningSince time.Time `json:",omitzero"`
}

// ControlPlaneSecretsTable returns the table of cluster keys, by ClusterKey.
func ControlPlaneSecretsTable(s *store.Store) store.Table[ControlPlaneSecrets] {
	return store.NewTable[ControlPlaneSecrets](s, "controlplanesecrets")
}

// Issuer is the public side of a cluster's service-account token issuer.
//
// Writer: internal/controller/controlplane; the row lives as long as the cluster.
type Issuer struct {
	Account string
	Region  string
	Cluster string
	// JWKS is the JSON Web Key Set that verifies tokens.
	JWKS []byte
}

// IssuerURL returns the issuer of the cluster with that ID, as EKS forms it.
func IssuerURL(region, clusterID string) string {
	return "https://" + IssuerHost(region) + "/id/" + clusterID
}

// IssuerHost returns the host name in the issuers of the clusters of a region.
func IssuerHost(region string) string { return "oidc.eks." + region + ".amazonaws.com" }

// Issuers returns the table of issuers, by Key(cluster ID).
func Issuers(s *store.Store) store.Table[Issuer] { return store.NewTable[Issuer](s, "issuers") }
