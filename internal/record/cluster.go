package record

import (
	"fmt"
	"net/netip"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/store"
)

// Cluster is an EKS cluster as its owner wants it.
//
// Writer: internal/aws/eks. Only the row's deletion is the control-plane controller's,
// once everything that belongs to a cluster with Deleting set is gone.
type Cluster struct {
	Account string
	Region  string
	Name    string
	// ID is 32 upper-case hexadecimal digits; it names the endpoint, the OIDC issuer, the
	// directory, the etcd prefix and user. A cluster created again under an old name has a new ID.
	ID        string
	CreatedAt time.Time
	// CreatorARN is the IAM principal (user or role ARN, never a session) that created the cluster.
	CreatorARN string
	CreatorID  string `json:",omitempty"` // its unique id: another may have its name later

	// Version is the wanted minor version, "1.35". When the update that wanted it has failed, WantedVersion is the
	// previous version.
	Version string
	RoleARN string

	VPCID                 string
	SubnetIDs             []string
	SecurityGroupIDs      []string
	EndpointPublicAccess  bool
	EndpointPrivateAccess bool
	PublicAccessCIDRs     []string

	// ServiceIPv4CIDR or ServiceIPv6CIDR is set, as IPFamily says.
	ServiceIPv4CIDR string
	ServiceIPv6CIDR string
	IPFamily        ekstypes.IpFamily

	// LoggingTypes are the enabled control-plane log types, sorted.
	LoggingTypes []ekstypes.LogType

	// IdentityProvider is the OpenID Connect provider whose tokens the API server accepts; nil without one.
	IdentityProvider *IdentityProvider `json:",omitempty"`

	AuthenticationMode ekstypes.AuthenticationMode
	// BootstrapCreatorAdmin gives CreatorARN an access entry with AmazonEKSClusterAdminPolicy.
	BootstrapCreatorAdmin bool
	// BootstrapSelfManagedAddons applies vpc-cni, kube-proxy and coredns at creation.
	BootstrapSelfManagedAddons bool

	SupportType        ekstypes.SupportType
	DeletionProtection bool
	ZonalShift         bool
	ComputeConfig      *ekstypes.ComputeConfigResponse
	StorageConfig      *ekstypes.StorageConfigResponse
	ElasticLB          *ekstypes.ElasticLoadBalancing
	RemoteNetwork      *ekstypes.RemoteNetworkConfigResponse
	ControlPlaneTier   ekstypes.ProvisionedControlPlaneTier
	KubeAPIServer      *ekstypes.KubeApiServerConfigRequest
	KubeController     *ekstypes.KubeControllerManagerConfigRequest
	KubeScheduler      *ekstypes.KubeSchedulerConfigRequest

	// EncryptionKeyARN is the KMS key of the cluster's Secrets; empty for none. It never changes once it is set.
	// EncryptionGrantID is the grant by which EKS uses the key.
	EncryptionKeyARN  string `json:",omitempty"`
	EncryptionGrantID string `json:",omitempty"`

	// CertificateAuthorities are those that the cluster is to trust, oldest first, and SigningAuthorityID is the ID of the
	// one that is to sign. Both are empty until there has been a successor of the initial one: see Authorities.
	CertificateAuthorities []CertificateAuthority `json:",omitempty"`
	SigningAuthorityID     string                 `json:",omitempty"`

	Tags map[string]string

	// LastUpdateID is the newest Update of the cluster itself. It is the only one that may be in
	// progress: whoever starts another writes this row, at the revision that it judged by.
	LastUpdateID string
	// ClientRequestToken and RequestHash are of the request that created the cluster: the same
	// request sent again gets the same answer.
	ClientRequestToken string
	RequestHash        string

	// Deleting is set by DeleteCluster and never unset.
	Deleting bool
}

// CertificateAuthority is a certificate authority that a cluster is to trust.
type CertificateAuthority struct {
	ID        string
	CreatedAt time.Time
	CreatedBy ekstypes.CertificateAuthorityCreatedBy
	// ActivatedAt is when it was last requested that it signs; zero if it was not.
	ActivatedAt time.Time `json:",omitzero"`
}

// InitialAuthorityID returns the ID of the certificate authority with which EKS creates the cluster.
func (c Cluster) InitialAuthorityID() string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(c.ARN()+"/"+c.ID+"/certificate-authority")).String()
}

// Authorities returns the certificate authorities that the cluster is to trust, oldest first, and the ID of the one
// that is to sign.
func (c Cluster) Authorities() (all []CertificateAuthority, signing string) {
	if len(c.CertificateAuthorities) > 0 {
		return c.CertificateAuthorities, c.SigningAuthorityID
	}
	signing = c.InitialAuthorityID()
	return []CertificateAuthority{{ID: signing, CreatedAt: c.CreatedAt,
		CreatedBy: ekstypes.CertificateAuthorityCreatedByEks}}, signing
}

// WantedVersion returns the minor version that the control plane should serve: Version, unless last, the update named
// by LastUpdateID, wanted it and has failed or was cancelled.
func (c Cluster) WantedVersion(last Update) string {
	if last.ID == c.LastUpdateID && last.ChangesVersion() && last.PreviousVersion != "" &&
		(last.Status == ekstypes.UpdateStatusFailed || last.Status == ekstypes.UpdateStatusCancelled) {
		return last.PreviousVersion
	}
	return c.Version
}

// ClusterKeyParts is the number of parts of a [ClusterKey]. The keys of what belongs to a cluster begin with them.
const ClusterKeyParts = 3

// ClusterKey returns the key of a cluster in every table that has one row per cluster.
func ClusterKey(account, region, name string) string { return store.Key(account, region, name) }

// Key returns the cluster's key.
func (c Cluster) Key() string { return ClusterKey(c.Account, c.Region, c.Name) }

// ARN returns the cluster's Amazon Resource Name.
func (c Cluster) ARN() string {
	return "arn:aws:eks:" + c.Region + ":" + c.Account + ":cluster/" + c.Name
}

// PublicSources returns publicAccessCidrs: the sources that reach the public endpoint. Nil are all.
func (c Cluster) PublicSources() (all []netip.Prefix, err error) {
	for _, text := range c.PublicAccessCIDRs {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("publicAccessCidrs of cluster %s: %w", c.Name, err)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

// EncryptionContext returns the encryption context in which the KMS key of the cluster's Secrets is used: the grant of
// one cluster does not decrypt what is another's.
func (c Cluster) EncryptionContext() map[string]string {
	return map[string]string{"aws:eks:cluster-arn": c.ARN(), "aws:eks:cluster-id": c.ID}
}

// Issuer returns the OIDC issuer of the cluster's service-account tokens.
func (c Cluster) Issuer() string { return IssuerURL(c.Region, c.ID) }

// Clusters returns the table of wanted clusters, by ClusterKey.
func Clusters(s *store.Store) store.Table[Cluster] { return store.NewTable[Cluster](s, "clusters") }
