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
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// servicePrincipal is how EKS calls itself in trust policies and in iam:PassedToService.
const servicePrincipal = "eks.amazonaws.com"

// ServiceLinkedRoles makes the role through which a service acts in an account, such as AWSServiceRoleForAmazonEKS.
type ServiceLinkedRoles interface {
	// Ensure makes the service-linked role of service ("eks.amazonaws.com") in account unless it is there.
	Ensure(ctx context.Context, account, service string) error
}

// Options are what a Service needs.
type Options struct {
	Store              *store.Store
	ServiceLinkedRoles ServiceLinkedRoles
	EC2                EC2
	Catalogue          Catalogue // of add-ons
	// NodegroupsPerCluster is the quota of managed node groups, [DefaultNodegroupsPerCluster] unless set.
	NodegroupsPerCluster int
	Now                  func() time.Time // time.Now unless set
}

// Service serves the EKS API. It is safe for concurrent use.
type Service struct {
	store           *store.Store
	clusters        store.Table[record.Cluster]
	controlPlanes   store.Table[record.ControlPlane]
	updates         store.Table[record.Update]
	accessEntries   store.Table[record.AccessEntry]
	nodegroups      store.Table[record.Nodegroup]
	nodegroupStates store.Table[record.NodegroupState]
	addons          store.Table[record.Addon]
	addonStates     store.Table[record.AddonState]
	associations    store.Table[record.PodIdentityAssociation]
	fargateProfiles store.Table[record.FargateProfile]
	subnets         store.Table[record.Subnet]
	securityGroups  store.Table[record.SecurityGroup]
	vpcs            store.Table[record.VPC]
	roles           store.Table[record.Role]
	users           store.Table[record.User]
	linked          ServiceLinkedRoles
	ec2             EC2
	catalogue       Catalogue

	launchTemplates        store.Table[record.LaunchTemplate]
	launchTemplateNames    store.Table[record.LaunchTemplateName]
	launchTemplateVersions store.Table[record.LaunchTemplateVersion]
	keyPairNames           store.Table[record.KeyPairName]
	nodegroupsPerCluster   int

	now func() time.Time
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
		store:           o.Store,
		clusters:        record.Clusters(o.Store),
		controlPlanes:   record.ControlPlanes(o.Store),
		updates:         record.Updates(o.Store),
		accessEntries:   record.AccessEntries(o.Store),
		nodegroups:      record.Nodegroups(o.Store),
		nodegroupStates: record.NodegroupStates(o.Store),
		addons:          record.Addons(o.Store),
		addonStates:     record.AddonStates(o.Store),
		associations:    record.PodIdentityAssociations(o.Store),
		fargateProfiles: record.FargateProfiles(o.Store),
		subnets:         record.Subnets(o.Store),
		securityGroups:  record.SecurityGroups(o.Store),
		vpcs:            record.VPCs(o.Store),
		roles:           record.Roles(o.Store),
		users:           record.Users(o.Store),
		linked:          o.ServiceLinkedRoles,
		ec2:             o.EC2,
		catalogue:       o.Catalogue,

		launchTemplates:        record.LaunchTemplates(o.Store),
		launchTemplateNames:    record.LaunchTemplateNames(o.Store),
		launchTemplateVersions: record.LaunchTemplateVersions(o.Store),
		keyPairNames:           record.KeyPairNames(o.Store),
		nodegroupsPerCluster:   o.NodegroupsPerCluster,

		now: o.Now,
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

// place is where a request is made: an account in a region.
type place struct{ account, region string }

func placeOf(ctx context.Context) place {
	return place{account: wire.CallerFrom(ctx).Account, region: wire.RegionFrom(ctx)}
}

func (p place) clusterKey(name string) string { return record.ClusterKey(p.account, p.region, name) }

func (p place) clusterARN(name string) string {
	return record.Cluster{Account: p.account, Region: p.region, Name: name}.ARN()
}

// cluster is the caller's cluster of that name, or a ResourceNotFoundException.
func (s *Service) cluster(ctx context.Context, name string) (store.Row[record.Cluster], error) {
	row, err := s.clusters.Get(ctx, placeOf(ctx).clusterKey(name))
	if errors.Is(err, store.ErrNotFound) {
		return row, clusterNotFound(name)
	}
	return row, err
}

// rowsOf are the rows of a table that belong to a cluster, and not to an earlier one of its name; id says of which cluster a row is.
func rowsOf[T any](ctx context.Context, table store.Table[T], c record.Cluster, id func(T) string) ([]store.Row[T], error) {
	rows, err := table.List(ctx, store.Prefix(c.Account, c.Region, c.Name))
	return slices.DeleteFunc(rows, func(r store.Row[T]) bool { return id(r.Value) != c.ID }), err
}

// valuesOf is rowsOf for who only reads.
func valuesOf[T any](ctx context.Context, table store.Table[T], c record.Cluster, id func(T) string) ([]T, error) {
	rows, err := rowsOf(ctx, table, c, id)
	var values []T
	for _, r := range rows {
		values = append(values, r.Value)
	}
	return values, err
}

// seen is what was observed of something: nothing, when there is no row yet, or one of something earlier with that key.
func seen[T any](ctx context.Context, table store.Table[T], key string, mine func(T) bool) (state T, err error) {
	row, err := table.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) || err == nil && !mine(row.Value) {
		return state, nil
	}
	return row.Value, err
}

// timestamp is now as the API shows it: in UTC, to the millisecond.
func (s *Service) timestamp() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

func newUUID() string { return uuid.NewString() }
