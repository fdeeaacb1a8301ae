// Package ec2 serves the Amazon EC2 API. It puts together the parts that do, each of which registers its operations
// with what their callers need permission for:
//
//   - [account]: regions, availability zones, attributes of the account
//   - [fleet]: fleets
//   - [image]: images
//   - [instance]: instances, their attributes, spot requests, associations of instance profiles
//   - [keypair]: key pairs
//   - [launchtemplate]: launch templates and their versions
//   - [networkinsights]: paths of VPC Reachability Analyzer and their analyses
//   - [networkinterface]: network interfaces, their attachments and addresses, elastic addresses
//   - [offering]: instance types, and which of them meet requirements
//   - [placementgroup]: placement groups
//   - [securitygroup]: security groups and their rules
//   - [snapshot]: snapshots of volumes, their copies, whom they are shared with
//   - [tagging]: tags, of all resources
//   - [volume]: volumes, their attachments and modifications, settings of EBS
//   - [vpc]: VPCs, subnets, route tables, gateways, network ACLs, DHCP options, endpoints, prefix lists
//
// What they share is below them, in [resource]: the records in the store, changes of them, and what requests are
// authorized for. A part imports only parts whose resources its own are made of: [fleet] launches by [instance], which
// launches from [launchtemplate] and attaches what [networkinterface] makes; [vpc] makes security groups and network
// interfaces, too. internal/importrules has the table.
//
// The API records what is wanted and describes what is there. Packets are the business of internal/host/network, and
// machines that of internal/host/machine.
//
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/Welcome.html
package ec2

import (
	"context"
	"net/netip"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/coracle-eks/coracle/internal/aws/ec2/account"
	"github.com/coracle-eks/coracle/internal/aws/ec2/fleet"
	"github.com/coracle-eks/coracle/internal/aws/ec2/image"
	"github.com/coracle-eks/coracle/internal/aws/ec2/instance"
	"github.com/coracle-eks/coracle/internal/aws/ec2/keypair"
	"github.com/coracle-eks/coracle/internal/aws/ec2/launchtemplate"
	"github.com/coracle-eks/coracle/internal/aws/ec2/networkinsights"
	"github.com/coracle-eks/coracle/internal/aws/ec2/networkinterface"
	"github.com/coracle-eks/coracle/internal/aws/ec2/offering"
	"github.com/coracle-eks/coracle/internal/aws/ec2/placementgroup"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/ec2/securitygroup"
	"github.com/coracle-eks/coracle/internal/aws/ec2/snapshot"
	"github.com/coracle-eks/coracle/internal/aws/ec2/tagging"
	"github.com/coracle-eks/coracle/internal/aws/ec2/volume"
	"github.com/coracle-eks/coracle/internal/aws/ec2/vpc"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/store"
)

// Options configures a Service.
type Options struct {
	Store *store.Store
	// PublicRange is the range from which public addresses are allocated, all but its first 256; half of the range for
	// benchmarks (RFC 2544), which nobody routes, when it is zero.
	PublicRange netip.Prefix
	// Keys uses KMS keys for encrypted volumes and snapshots; without it nothing can be encrypted.
	Keys resource.Keys
	// DisklessRoots launches instances whose root volumes have no disk, for hosts without such disks.
	DisklessRoots bool
	// Now is the time; time.Now when nil.
	Now func() time.Time
}

// Service serves the EC2 API. It is safe for concurrent use.
type Service struct {
	Account           *account.Service
	Fleets            *fleet.Service
	Images            *image.Service
	Instances         *instance.Service
	KeyPairs          *keypair.Service
	LaunchTemplates   *launchtemplate.Service
	NetworkInsights   *networkinsights.Service
	NetworkInterfaces *networkinterface.Service
	Offerings         *offering.Service
	PlacementGroups   *placementgroup.Service
	SecurityGroups    *securitygroup.Service
	Snapshots         *snapshot.Service
	Tags              *tagging.Service
	Volumes           *volume.Service
	VPCs              *vpc.Service
}

// New returns the service over the tables of o.Store.
func New(o Options) *Service {
	if !o.PublicRange.IsValid() {
		o.PublicRange = networkinterface.DefaultPublicRange
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	records := resource.NewRecords(o.Store, o.PublicRange, o.Now)
	records.Keys, records.DisklessRoots = o.Keys, o.DisklessRoots
	vpcs, instances := vpc.New(records), instance.New(records)
	records.EnsureDefaults = vpcs.CreateDefaults
	return &Service{
		Account:           account.New(records),
		Fleets:            fleet.New(records, instances),
		Images:            image.New(records),
		Instances:         instances,
		KeyPairs:          keypair.New(records),
		LaunchTemplates:   launchtemplate.New(records),
		NetworkInsights:   networkinsights.New(records),
		NetworkInterfaces: networkinterface.New(records),
		Offerings:         offering.New(records),
		PlacementGroups:   placementgroup.New(records),
		SecurityGroups:    securitygroup.New(records),
		Snapshots:         snapshot.New(records),
		Tags:              tagging.New(records),
		Volumes:           volume.New(records),
		VPCs:              vpcs,
	}
}

// Register serves the operations.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html
func (s *Service) Register(mux *wire.Mux) {
	s.Account.Register(mux)
	s.Fleets.Register(mux)
	s.Images.Register(mux)
	s.Instances.Register(mux)
	s.KeyPairs.Register(mux)
	s.LaunchTemplates.Register(mux)
	s.NetworkInsights.Register(mux)
	s.NetworkInterfaces.Register(mux)
	s.Offerings.Register(mux)
	s.PlacementGroups.Register(mux)
	s.SecurityGroups.Register(mux)
	s.Snapshots.Register(mux)
	s.Tags.Register(mux)
	s.Volumes.Register(mux)
	s.VPCs.Register(mux)
}

// GetInstanceTypesFromInstanceRequirements answers services that act as their caller.
func (s *Service) GetInstanceTypesFromInstanceRequirements(
	ctx context.Context, in *ec2.GetInstanceTypesFromInstanceRequirementsInput,
) (*ec2.GetInstanceTypesFromInstanceRequirementsOutput, error) {
	return s.Offerings.GetInstanceTypesFromInstanceRequirements(ctx, in)
}

// InstanceLifecycle returns what the controller of instances calls, because only this service writes their records.
func (s *Service) InstanceLifecycle() instance.Lifecycle { return instance.NewLifecycle(s.Instances) }

// Fargate returns what the controller of Fargate calls, because only this service writes the records of its machines.
func (s *Service) Fargate() instance.Fargate { return instance.NewFargate(s.Instances) }

// VolumeLifecycle returns what the controller of volumes calls, because only this service writes their records.
func (s *Service) VolumeLifecycle() volume.Lifecycle { return volume.NewLifecycle(s.Volumes) }

// RunInstances answers services that act as their caller.
func (s *Service) RunInstances(ctx context.Context, in *ec2.RunInstancesInput) (*ec2.RunInstancesOutput, error) {
	return s.Instances.RunInstances(ctx, in)
}
