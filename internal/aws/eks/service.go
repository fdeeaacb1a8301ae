// Package eks serves the Amazon EKS API.
//
// It says what is wanted and reports what is there. CreateCluster, UpdateClusterConfig and their like check a request,
// ask whether the caller may make it, and record the cluster that it asks for ([record.Cluster]), the change on its way
// ([record.Update]) and who is let in ([record.AccessEntry]). The control-plane controller makes it so and writes what it
// sees ([record.ControlPlane]). DescribeCluster puts the rows together: a cluster's status is never stored, see [status].
//
// What belongs together is written together. A cluster and the access entry of its creator are one transaction, a change
// and its update object are one transaction, and that transaction fails if anyone else has written the cluster since it
// was judged, so that two updates never run at once.
//
// Managed node groups go the same way, one level down: [record.Nodegroup] is wanted, the node-group controller writes
// [record.NodegroupState], and nodegroup.go puts them together. So do EKS add-ons: [record.Addon], [record.AddonState], addon.go; what versions there are
// and how they are configured says the [Catalogue].
//
// https://docs.aws.amazon.com/eks/latest/APIReference/Welcome.html
package eks

import (
	"time"

	"github.com/coracle-eks/coracle/internal/aws/eks/principal"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Options are what a Service needs.
type Options struct {
	Store              *store.Store
	ServiceLinkedRoles principal.ServiceLinkedRoles
	EC2                EC2
	Catalogue          Catalogue // of add-ons
	// NodegroupsPerCluster is the quota of managed node groups, [DefaultNodegroupsPerCluster] unless set.
	NodegroupsPerCluster int
	Now                  func() time.Time // time.Now unless set
}

// Service serves the EKS API. It is safe for concurrent use.
type Service struct {
	*resource.Records
	principals      *principal.Directory
	nodegroupStates store.Table[record.NodegroupState]
	addonStates     store.Table[record.AddonState]
	fargateProfiles store.Table[record.FargateProfile]
	subnets         store.Table[record.Subnet]
	securityGroups  store.Table[record.SecurityGroup]
	vpcs            store.Table[record.VPC]
	ec2             EC2
	catalogue       Catalogue

	launchTemplates        store.Table[record.LaunchTemplate]
	launchTemplateNames    store.Table[record.LaunchTemplateName]
	launchTemplateVersions store.Table[record.LaunchTemplateVersion]
	keyPairNames           store.Table[record.KeyPairName]
	nodegroupsPerCluster   int
}

// New returns the service over the tables of o.Store.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NodegroupsPerCluster == 0 {
		o.NodegroupsPerCluster = DefaultNodegroupsPerCluster
	}
	return &Service{
		Records:         resource.NewRecords(o.Store, o.Now),
		principals:      principal.NewDirectory(o.Store, o.ServiceLinkedRoles),
		nodegroupStates: record.NodegroupStates(o.Store),
		addonStates:     record.AddonStates(o.Store),
		fargateProfiles: record.FargateProfiles(o.Store),
		subnets:         record.Subnets(o.Store),
		securityGroups:  record.SecurityGroups(o.Store),
		vpcs:            record.VPCs(o.Store),
		ec2:             o.EC2,
		catalogue:       o.Catalogue,

		launchTemplates:        record.LaunchTemplates(o.Store),
		launchTemplateNames:    record.LaunchTemplateNames(o.Store),
		launchTemplateVersions: record.LaunchTemplateVersions(o.Store),
		keyPairNames:           record.KeyPairNames(o.Store),
		nodegroupsPerCluster:   o.NodegroupsPerCluster,
	}
}

// Register serves the operations.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonelastickubernetesservice.html
func (s *Service) Register(mux *wire.Mux) {
	for _, handlers := range [][]wire.Handler{
		s.accessEntryHandlers(),
		s.accessPolicyHandlers(),
		s.addonHandlers(),
		s.addonCreateHandlers(),
		s.addonDeleteHandlers(),
		s.addonUpdateHandlers(),
		s.addonVersionHandlers(),
		s.attachedHandlers(),
		s.clusterHandlers(),
		s.clusterConfigHandlers(),
		s.clusterCreateHandlers(),
		s.clusterDeleteHandlers(),
		s.insightHandlers(),
		s.nodegroupHandlers(),
		s.nodegroupCreateHandlers(),
		s.nodegroupDeleteHandlers(),
		s.nodegroupUpdateHandlers(),
		s.nodegroupVersionHandlers(),
		s.podIdentityHandlers(),
		s.tagHandlers(),
		s.updateHandlers(),
		s.clusterVersionHandlers(),
	} {
		mux.Register(wire.EKS, handlers...)
	}
}
