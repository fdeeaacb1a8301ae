package resource

import (
	"net/netip"
	"time"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Records reads and writes the resources in the store. Every part of the EC2 API embeds it.
type Records struct {
	Store *store.Store
	Now   func() time.Time
	// PublicRange is the range from which public addresses are allocated, all but its first 256.
	PublicRange netip.Prefix
	// EnsureDefaults creates what every account finds in a region: default DHCP options and a default VPC.
	EnsureDefaults func(Scope) error
	// Keys uses KMS keys; nil where there is no KMS, and nothing can be encrypted.
	Keys Keys
	// DisklessRoots reports that machines keep their files in directories of the host: no disk stands for their root
	// volumes.
	DisklessRoots bool

	Regions                store.Table[record.EC2Region]
	Tags                   store.Table[record.EC2Tags]
	ClientTokens           store.Table[record.EC2ClientToken]
	VPCContents            store.Table[record.VPCContents]
	AddressBlocks          store.Table[record.AddressBlock]
	PublicIPs              store.Table[record.PublicIP]
	PublicIPsOf            store.Index[record.PublicIP] // by account
	VPCEndpointPolicies    store.Table[record.VPCEndpointPolicy]
	InterfaceEndpointsOf   store.Index[record.VPCEndpoint] // by VPC
	GatewayEndpointsOf     store.Index[record.VPCEndpoint] // by account and region
	KeyPairNames           store.Table[record.KeyPairName]
	PlacementGroupNames    store.Table[record.PlacementGroupName]
	LaunchTemplateNames    store.Table[record.LaunchTemplateName]
	LaunchTemplateVersions store.Table[record.LaunchTemplateVersion]

	EBSSettings store.Table[record.EBSSettings]

	// What was observed of instances, volumes and snapshots, and what IAM has.
	Machines         store.Table[record.Machine]
	Consoles         store.Table[record.MachineConsole]
	VolumeDisks      store.Table[record.VolumeDisk]
	SnapshotDisks    store.Table[record.SnapshotDisk]
	InstanceProfiles store.Table[record.InstanceProfile]
	Roles            store.Table[record.Role]

	VPCs                       Kind[record.VPC]
	Subnets                    Kind[record.Subnet]
	SecurityGroups             Kind[record.SecurityGroup]
	RouteTables                Kind[record.RouteTable]
	InternetGateways           Kind[record.InternetGateway]
	EgressOnlyInternetGateways Kind[record.EgressOnlyInternetGateway]
	NATGateways                Kind[record.NATGateway]
	Addresses                  Kind[record.Address]
	NetworkInterfaces          Kind[record.NetworkInterface]
	NetworkACLs                Kind[record.NetworkACL]
	DHCPOptions                Kind[record.DHCPOptions]
	VPCEndpoints               Kind[record.VPCEndpoint]
	NetworkInsightsPaths       Kind[record.NetworkInsightsPath]
	NetworkInsightsAnalyses    Kind[record.NetworkInsightsAnalysis]
	KeyPairs                   Kind[record.KeyPair]
	Instances                  Kind[record.Instance]
	Volumes                    Kind[record.Volume]
	Snapshots                  Kind[record.Snapshot]
	PlacementGroups            Kind[record.PlacementGroup]
	LaunchTemplates            Kind[record.LaunchTemplate]
	SpotRequests               Kind[record.SpotRequest]
	Fleets                     Kind[record.Fleet]

	snapshotsByID   store.Index[record.Snapshot] // by region and ID, of all accounts
	sharedSnapshots store.Index[record.Snapshot] // by region, of those that others may use
}

// NewRecords returns the records over the tables of a store.
func NewRecords(s *store.Store, publicRange netip.Prefix, now func() time.Time) *Records {
	r := &Records{
		Store:       s,
		Now:         now,
		PublicRange: publicRange,

		Regions:                record.EC2Regions(s),
		Tags:                   record.EC2TagsTable(s),
		ClientTokens:           record.EC2ClientTokens(s),
		VPCContents:            record.VPCContentsTable(s),
		AddressBlocks:          record.AddressBlocks(s),
		PublicIPs:              record.PublicIPs(s),
		PublicIPsOf:            record.PublicIPsByAccount(s),
		VPCEndpointPolicies:    record.VPCEndpointPolicies(s),
		InterfaceEndpointsOf:   record.InterfaceEndpointsByVPC(s),
		GatewayEndpointsOf:     record.GatewayEndpointsByRegion(s),
		KeyPairNames:           record.KeyPairNames(s),
		PlacementGroupNames:    record.PlacementGroupNames(s),
		LaunchTemplateNames:    record.LaunchTemplateNames(s),
		LaunchTemplateVersions: record.LaunchTemplateVersions(s),
		EBSSettings:            record.EBSSettingsTable(s),

		Machines:         record.Machines(s),
		Consoles:         record.MachineConsoles(s),
		VolumeDisks:      record.VolumeDisks(s),
		SnapshotDisks:    record.SnapshotDisks(s),
		InstanceProfiles: record.InstanceProfiles(s),
		Roles:            record.Roles(s),
	}
	r.setKinds()
	r.snapshotsByID = store.NewIndex(r.Snapshots.Table, "id", func(s record.Snapshot) string {
		return store.Key(s.Region, s.ID)
	})
	r.sharedSnapshots = store.NewIndex(r.Snapshots.Table, "shared", func(s record.Snapshot) string {
		if !s.Public && len(s.SharedWith) == 0 {
			return ""
		}
		return s.Region
	})
	return r
}
