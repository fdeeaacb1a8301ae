// Package eks serves the Amazon EKS API. It puts together the parts that do, each of which registers its operations
// with what their callers need permission for:
//
//   - [cluster]: clusters, their configuration, versions and insights
//   - [nodegroup]: managed node groups
//   - [fargate]: Fargate profiles
//   - [addon]: EKS add-ons
//   - [access]: access entries and access policies
//   - [podidentity]: pod identity associations
//   - [capability]: EKS capabilities
//   - [subscription]: EKS Anywhere subscriptions
//   - [update]: update objects, of clusters, node groups, add-ons and capabilities
//   - [tagging]: tags, of all of them
//
// No part imports another. What they share is below them: [resource] has the objects in the store and what requests are
// authorized for, [principal] the IAM users and roles that requests name, and package exception the errors of the API.
//
// The API records what is wanted and describes what is there. CreateCluster, UpdateClusterConfig and the like validate
// a request, ask whether the caller may make it, and record what it asks for; controllers carry it out and write what
// they observe. What belongs together is written together: a cluster and the access entry of its creator are one
// transaction, and so are a change and its update object, which fails if anyone else has written the cluster since the
// request was checked. Two updates of a cluster therefore never run at once.
//
// https://docs.aws.amazon.com/eks/latest/APIReference/Welcome.html
package eks

import (
	"time"

	"github.com/coracle-eks/coracle/internal/aws/eks/access"
	"github.com/coracle-eks/coracle/internal/aws/eks/addon"
	"github.com/coracle-eks/coracle/internal/aws/eks/capability"
	"github.com/coracle-eks/coracle/internal/aws/eks/cluster"
	"github.com/coracle-eks/coracle/internal/aws/eks/fargate"
	"github.com/coracle-eks/coracle/internal/aws/eks/nodegroup"
	"github.com/coracle-eks/coracle/internal/aws/eks/podidentity"
	"github.com/coracle-eks/coracle/internal/aws/eks/principal"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/eks/subscription"
	"github.com/coracle-eks/coracle/internal/aws/eks/tagging"
	"github.com/coracle-eks/coracle/internal/aws/eks/update"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/store"
)

// NodegroupQuota is the variable of the environment that raises the quota of managed node groups, as a request to
// Service Quotas does on AWS.
const NodegroupQuota = nodegroup.QuotaVariable

// FargateProfileQuota is the variable of the environment that raises the quota of Fargate profiles.
const FargateProfileQuota = fargate.QuotaVariable

// ClusterQuota is the variable of the environment that raises the quota of clusters in a region.
const ClusterQuota = cluster.QuotaVariable

// Catalog is the catalog of add-ons.
type Catalog = addon.Catalog

// Advertise returns where the client of a request reaches the API server of a cluster.
type Advertise = cluster.Advertise

// Options configures a Service.
type Options struct {
	Store              *store.Store
	ServiceLinkedRoles principal.ServiceLinkedRoles
	EC2                nodegroup.EC2
	Catalog            Catalog
	// NodegroupsPerCluster is the quota of managed node groups, [nodegroup.DefaultPerCluster] unless set.
	NodegroupsPerCluster int
	// FargateProfilesPerCluster is the quota of Fargate profiles, [fargate.DefaultPerCluster] unless set.
	FargateProfilesPerCluster int
	// ClustersPerRegion is the quota of clusters that an account has in a region, [cluster.DefaultPerRegion] unless set.
	ClustersPerRegion int
	// MayAddCluster reports whether an account that has some of all clusters may have another one; always unless set.
	MayAddCluster func(ofAccount, all int) bool
	// Advertise is for clients that do not reach the endpoints of clusters; optional.
	Advertise Advertise
	KMS       cluster.KMS
	Now       func() time.Time // time.Now unless set
}

// Service serves the EKS API. It is safe for concurrent use.
type Service struct {
	Access        *access.Service
	Addons        *addon.Service
	Capabilities  *capability.Service
	Clusters      *cluster.Service
	Fargate       *fargate.Service
	Nodegroups    *nodegroup.Service
	PodIdentity   *podidentity.Service
	Subscriptions *subscription.Service
	Tags          *tagging.Service
	Updates       *update.Service
}

// New returns the service over the tables of o.Store.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	records := resource.NewRecords(o.Store, o.Now)
	principals := principal.NewDirectory(o.Store, o.ServiceLinkedRoles)
	entries := access.New(records, principals)
	nodegroups := nodegroup.New(nodegroup.Options{
		Records: records, Principals: principals, EC2: o.EC2, PerCluster: o.NodegroupsPerCluster,
	})
	profiles := fargate.New(records, principals, o.FargateProfilesPerCluster)
	return &Service{
		Access:       entries,
		Addons:       addon.New(records, principals, o.Catalog),
		Capabilities: capability.New(records, principals, entries),
		Clusters: cluster.New(cluster.Options{
			Records: records, Principals: principals, AccessEntries: entries, Nodegroups: nodegroups,
			FargateProfiles: profiles, Advertise: o.Advertise, KMS: o.KMS, PerRegion: o.ClustersPerRegion,
			MayAdd: o.MayAddCluster,
		}),
		Fargate:       profiles,
		Nodegroups:    nodegroups,
		PodIdentity:   podidentity.New(records, principals),
		Subscriptions: subscription.New(records),
		Tags:          tagging.New(records),
		Updates:       update.New(records),
	}
}

// Register serves the operations.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonelastickubernetesservice.html
func (s *Service) Register(mux *wire.Mux) {
	s.Access.Register(mux)
	s.Addons.Register(mux)
	s.Capabilities.Register(mux)
	s.Clusters.Register(mux)
	s.Fargate.Register(mux)
	s.Nodegroups.Register(mux)
	s.PodIdentity.Register(mux)
	s.Subscriptions.Register(mux)
	s.Tags.Register(mux)
	s.Updates.Register(mux)
}
