package ec2

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/netip"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/region"
	"github.com/coracle-eks/coracle/internal/store"
)

// Service is the EC2 API. Its exported methods are the operations that it serves.
type Service struct {
	store *store.Store
	now   func() time.Time

	regions  store.Table[record.EC2Region]
	tags     store.Table[record.EC2Tags]
	tokens   store.Table[record.EC2ClientToken]
	contents store.Table[record.VPCContents]
	blocks   store.Table[record.AddressBlock]
	public   store.Table[record.PublicIP]
	keyNames store.Table[record.KeyPairName]

	publicRange    netip.Prefix
	machines       store.Table[record.Machine]
	consoles       store.Table[record.MachineConsole]
	profiles       store.Table[record.InstanceProfile]
	roles          store.Table[record.Role]
	placementNames store.Table[record.PlacementGroupName]
	templateNames  store.Table[record.LaunchTemplateName]
	versions       store.Table[record.LaunchTemplateVersion]

	vpcs        kind[record.VPC, types.Vpc]
	subnets     kind[record.Subnet, types.Subnet]
	groups      kind[record.SecurityGroup, types.SecurityGroup]
	routeTables kind[record.RouteTable, types.RouteTable]
	igws        kind[record.InternetGateway, types.InternetGateway]
	eigws       kind[record.EgressOnlyInternetGateway, types.EgressOnlyInternetGateway]
	nats        kind[record.NATGateway, types.NatGateway]
	addresses   kind[record.Address, types.Address]
	interfaces  kind[record.NetworkInterface, types.NetworkInterface]
	acls        kind[record.NetworkACL, types.NetworkAcl]
	dhcpOptions kind[record.DHCPOptions, types.DhcpOptions]
	endpoints   kind[record.VPCEndpoint, types.VpcEndpoint]
	keyPairs    kind[record.KeyPair, types.KeyPairInfo]

	instances       kind[record.Instance, types.Instance]
	volumes         kind[record.Volume, types.Volume]
	placementGroups kind[record.PlacementGroup, types.PlacementGroup]
	templates       kind[record.LaunchTemplate, types.LaunchTemplate]
	spotRequests    kind[record.SpotRequest, types.SpotInstanceRequest]
	fleets          kind[record.Fleet, types.FleetData]
}

// Options are what the service needs.
type Options struct {
	Store *store.Store
	// PublicRange is where public addresses come from, all but its first 256; half of the range for benchmarks (RFC
	// 2544), which nobody routes, when it is zero.
	PublicRange netip.Prefix
	// Now is the time; time.Now when nil.
	Now func() time.Time
}

// New is the EC2 service.
func New(o Options) *Service {
	if !o.PublicRange.IsValid() {
		o.PublicRange = defaultPublicRange
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := o.Store
	svc := &Service{
		store:    s,
		now:      o.Now,
		regions:  record.EC2Regions(s),
		tags:     record.EC2TagsTable(s),
		tokens:   record.EC2ClientTokens(s),
		contents: record.VPCContentsTable(s),
		blocks:   record.AddressBlocks(s),
		public:   record.PublicIPs(s),
		keyNames: record.KeyPairNames(s),

		publicRange:    o.PublicRange,
		machines:       record.Machines(s),
		consoles:       record.MachineConsoles(s),
		profiles:       record.InstanceProfiles(s),
		roles:          record.Roles(s),
		placementNames: record.PlacementGroupNames(s),
		templateNames:  record.LaunchTemplateNames(s),
		versions:       record.LaunchTemplateVersions(s),
	}
	svc.vpcs = svc.vpcKind()
	svc.subnets = svc.subnetKind()
	svc.groups = svc.securityGroupKind()
	svc.routeTables = svc.routeTableKind()
	svc.igws = svc.internetGatewayKind()
	svc.eigws = svc.egressOnlyInternetGatewayKind()
	svc.nats = svc.natGatewayKind()
	svc.addresses = svc.addressKind()
	svc.interfaces = svc.networkInterfaceKind()
	svc.acls = svc.networkACLKind()
	svc.dhcpOptions = svc.dhcpOptionsKind()
	svc.endpoints = svc.vpcEndpointKind()
	svc.keyPairs = svc.keyPairKind()
	svc.instances = svc.instanceKind()
	svc.volumes = svc.volumeKind()
	svc.placementGroups = svc.placementGroupKind()
	svc.templates = svc.templateKind()
	svc.spotRequests = svc.spotRequestKind()
	svc.fleets = svc.fleetKind()
	return svc
}

// Register serves the operations.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html
func (s *Service) Register(mux *wire.Mux) {
	for _, handlers := range [][]wire.Handler{
		s.addressHandlers(),
		s.attachmentHandlers(),
		s.defaultVPCHandlers(),
		s.dhcpOptionsHandlers(),
		s.fleetHandlers(),
		s.gatewayHandlers(),
		s.imageHandlers(),
		s.instanceHandlers(),
		s.instanceAttributeHandlers(),
		s.instanceStateHandlers(),
		s.instanceStatusHandlers(),
		s.instanceTypeHandlers(),
		s.interfaceAddressHandlers(),
		s.keyPairHandlers(),
		s.launchHandlers(),
		s.launchTemplateHandlers(),
		s.launchTemplateVersionHandlers(),
		s.natGatewayHandlers(),
		s.networkACLHandlers(),
		s.networkInterfaceHandlers(),
		s.placementGroupHandlers(),
		s.prefixListHandlers(),
		s.profileAssociationHandlers(),
		s.regionHandlers(),
		s.requirementsHandlers(),
		s.routeHandlers(),
		s.routeTableHandlers(),
		s.securityGroupHandlers(),
		s.securityGroupRuleHandlers(),
		s.spotHandlers(),
		s.subnetHandlers(),
		s.tagHandlers(),
		s.volumeHandlers(),
		s.vpcHandlers(),
		s.vpcAttributeHandlers(),
		s.vpcCIDRHandlers(),
		s.vpcEndpointHandlers(),
	} {
		for _, h := range handlers {
			// A dry run on a VPC that does not exist says so, as on AWS.
			mux.Register(wire.EC2, h.CheckingDryRun())
		}
	}
}

// resourceKinds are all kinds of resources that exist on their own, for tags and targets.
func (s *Service) resourceKinds() []anyKind {
	return []anyKind{
		s.vpcs, s.subnets, s.groups, s.routeTables, s.igws, s.eigws, s.nats, s.addresses, s.interfaces, s.acls,
		s.dhcpOptions, s.endpoints, s.keyPairs, s.instances, s.volumes, s.placementGroups, s.templates, s.spotRequests,
		s.fleets, ruleKind{s},
	}
}

// scope is what a call works in: its account, its region and who calls.
type scope struct {
	context.Context
	account string
	region  string
	caller  wire.Caller
}

// requestScope is the scope of a request, in which the account's default resources exist.
func (s *Service) requestScope(ctx context.Context) (scope, error) {
	in, err := scopeOf(ctx)
	if err != nil {
		return in, err
	}
	return in, s.ensureDefaults(in)
}

func scopeOf(ctx context.Context) (scope, error) {
	caller := wire.CallerFrom(ctx)
	in := scope{Context: ctx, account: caller.Account, region: wire.RegionFrom(ctx), caller: caller}
	if !region.Valid(in.region) {
		return in, wire.Errorf("InvalidParameterValue",
			"Invalid region: '%s'. DescribeRegions lists the valid regions.", in.region)
	}
	return in, nil
}

// keyPrefix is the prefix of the keys of the account's resources in the region.
func (in scope) keyPrefix() string { return store.Prefix(in.account, in.region) }

func (in scope) key(id string) string { return record.EC2Key(in.account, in.region, id) }

// arn is the ARN of a resource of the account.
func (in scope) arn(resource types.ResourceType, id string) string {
	return "arn:aws:ec2:" + in.region + ":" + in.account + ":" + string(resource) + "/" + id
}

// service reports whether the caller is an AWS service that acts for the account under its service-linked role.
func (in scope) service() bool {
	// Only the prefix tells: the path of a user may hold anything.
	return strings.HasPrefix(in.caller.PrincipalARN, "arn:aws:iam::"+in.account+":role/aws-service-role/")
}

// newID is a new id with that prefix and 17 hexadecimal digits, of which AWS's first is always 0.
func newID(prefix string) string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return prefix + "0" + hex.EncodeToString(b[:])
}
