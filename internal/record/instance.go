package record

import (
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// Instance is an EC2 instance as its owner wants it. Its network interfaces are the NetworkInterfaces whose
// Attachment names it, its state follows from Wanted and from the [Machine] that was observed; see [InstanceState].
//
// Writer: internal/aws/ec2.
type Instance struct {
	EC2Resource
	ReservationID    string // "r-…"
	LaunchIndex      int32  // its index in the reservation, from 0
	RequesterID      string `json:",omitempty"` // of an AWS service that launched it for the account
	ImageID          string
	InstanceType     ec2types.InstanceType
	AvailabilityZone string
	VPCID            string
	SubnetID         string // of the primary network interface
	KeyName          string `json:",omitempty"`
	// UserData is as the instance reads it from its metadata, decoded from base64; at most 16 KiB.
	UserData []byte `json:",omitempty"`
	// InstanceProfileARN is empty without a profile.
	InstanceProfileARN           string `json:",omitempty"`
	InstanceProfileID            string `json:",omitempty"`
	InstanceProfileAssociationID string `json:",omitempty"` // "iip-assoc-…"
	Metadata                     InstanceMetadataOptions
	// HostnameType and the two flags are the private DNS name options.
	HostnameType                    ec2types.HostnameType `json:",omitempty"`
	EnableResourceNameDNSARecord    bool                  `json:",omitempty"`
	EnableResourceNameDNSAAAARecord bool                  `json:",omitempty"`

	Lifecycle             ec2types.InstanceLifecycleType `json:",omitempty"` // "spot", or empty
	SpotInstanceRequestID string                         `json:",omitempty"`
	// SpotInterruption is the time when a spot instance will be interrupted; zero when no interruption is planned.
	SpotInterruption time.Time `json:",omitzero"`
	// LaunchTemplateID and LaunchTemplateVersion identify the launch template that it was launched from, if any.
	LaunchTemplateID      string `json:",omitempty"`
	LaunchTemplateVersion string `json:",omitempty"`
	PlacementGroup        string `json:",omitempty"`
	PartitionNumber       int32  `json:",omitempty"` // in a partition placement group, from 1
	Tenancy               ec2types.Tenancy

	// BlockDevices are its volumes; that of the root device first.
	BlockDevices []InstanceBlockDevice

	ShutdownBehavior      ec2types.ShutdownBehavior
	DisableAPITermination bool   `json:",omitempty"`
	DisableAPIStop        bool   `json:",omitempty"`
	DetailedMonitoring    bool   `json:",omitempty"`
	EBSOptimized          bool   `json:",omitempty"`
	CPUCredits            string `json:",omitempty"`
	AutoRecovery          ec2types.InstanceAutoRecoveryState
	// LaunchTime is the time of the launch, or of the last start.
	LaunchTime time.Time

	// Wanted is running, stopped or terminated. A terminated instance stays terminated.
	Wanted ec2types.InstanceStateName
	// Boot counts the wanted boots, from 1: a start or a reboot adds one. The machine starts again whenever it has run
	// fewer.
	Boot int
	// StateReason and TransitionReason are the reason for the last change of Wanted, as DescribeInstances shows it.
	StateReasonCode    string    `json:",omitempty"` // "Client.UserInitiatedShutdown"
	StateReasonMessage string    `json:",omitempty"`
	TransitionReason   string    `json:",omitempty"` // "User initiated (2026-11-21 14:00:00 GMT)"
	WantedSince        time.Time // of the last change of Wanted

	// Fargate is set for the machine of a Fargate pod: no operation of EC2 shows or changes such an instance.
	Fargate *FargateMachine `json:",omitempty"`
}

// InstanceMetadataOptions are the options of an instance's metadata service.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-options.html
type InstanceMetadataOptions struct {
	HTTPEndpoint            ec2types.InstanceMetadataEndpointState
	HTTPTokens              ec2types.HttpTokensState
	HTTPPutResponseHopLimit int32 // 1 to 64
	InstanceMetadataTags    ec2types.InstanceMetadataTagsState
	HTTPProtocolIPv6        ec2types.InstanceMetadataProtocolState
}

// InstanceBlockDevice is a volume of an instance.
type InstanceBlockDevice struct {
	DeviceName          string // "/dev/xvda"
	VolumeID            string
	DeleteOnTermination bool
	AttachedAt          time.Time
	// Root reports that the machine keeps its files on the volume, unless that is Diskless.
	Root bool `json:",omitempty"`
	// Detaching is the time when its detachment was requested, Force whether by force. The entry goes when the disk was
	// seen detached.
	Detaching time.Time `json:",omitzero"`
	Force     bool      `json:",omitempty"`
}

// Instances returns the table of wanted instances, by EC2Key.
func Instances(s *store.Store) store.Table[Instance] { return store.NewTable[Instance](s, "instances") }

// FargateMachinesByNode finds the machines of Fargate pods that are to run, by [FargateKey] of their cluster's ID and
// the name of their node.
func FargateMachinesByNode(s *store.Store) store.Index[Instance] {
	return store.NewIndex(Instances(s), "fargatenode", func(i Instance) string {
		if i.Fargate == nil || i.Wanted == ec2types.InstanceStateNameTerminated {
			return ""
		}
		return FargateKey(i.Fargate.ClusterID, i.Fargate.NodeName)
	})
}

// Machine is the observed state of an instance. No record: nothing was done for it yet.
//
// Writer: internal/host/machine (or internal/host/simulated, for simulated machines). It deletes the record some time
// after the Instance record is gone.
type Machine struct {
	InstanceID string
	// State is pending, running, stopping, stopped, shutting-down or terminated.
	State ec2types.InstanceStateName
	// Boot is the boot (as Instance.Boot counts) that State is about.
	Boot int
	// Failure explains why a boot could not be made, or why the machine ended: DescribeInstances shows it as the state
	// reason ("Server.InternalError" and the like in FailureCode). A machine that fails to launch is terminated, as on
	// EC2.
	FailureCode string    `json:",omitempty"`
	Failure     string    `json:",omitempty"`
	LaunchedAt  time.Time // of this boot
	// SystemStatus and InstanceStatus are those of DescribeInstanceStatus: initializing, ok, impaired. UserData says
	// how the boot script ended: "", "running", "succeeded", or what failed.
	SystemStatus   ec2types.SummaryStatus
	InstanceStatus ec2types.SummaryStatus
	UserData       string    `json:",omitempty"`
	ImpairedSince  time.Time `json:",omitzero"`
	// Failing lists the units of the machine that are restarted again and again since FailingSince, and why: such a
	// machine runs, but is no node.
	Failing      string    `json:",omitempty"`
	FailingSince time.Time `json:",omitzero"`
	// PoweredOff reports that the machine was shut down from inside: the lifecycle of EC2 does what ShutdownBehavior
	// says.
	PoweredOff bool `json:",omitempty"`
}

// Machines returns the table of observed machines, by EC2Key of the instance.
func Machines(s *store.Store) store.Table[Machine] { return store.NewTable[Machine](s, "machines") }

// MachineConsole is the end of what an instance has written to its console, at most 64 KiB.
//
// Writer: internal/host/machine.
type MachineConsole struct {
	Output    []byte
	UpdatedAt time.Time
}

// MachineConsoles returns the table of consoles, by EC2Key of the instance.
func MachineConsoles(s *store.Store) store.Table[MachineConsole] {
	return store.NewTable[MachineConsole](s, "machineconsoles")
}

// InstanceState returns the state of an instance that the API shows: what was observed, on the way to what is wanted.
func InstanceState(i Instance, m Machine) ec2types.InstanceStateName {
	switch {
	case m.State == ec2types.InstanceStateNameTerminated:
		return m.State
	case i.Wanted == ec2types.InstanceStateNameTerminated:
		return ec2types.InstanceStateNameShuttingDown
	case i.Wanted == ec2types.InstanceStateNameStopped:
		if m.State == ec2types.InstanceStateNameStopped {
			return m.State
		}
		return ec2types.InstanceStateNameStopping
	case m.State == ec2types.InstanceStateNameRunning:
		return m.State // a reboot does not show
	}
	return ec2types.InstanceStateNamePending
}
