package record

import (
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/amazonaccount"
	"github.com/coracle-eks/coracle/internal/store"
)

// NetworkInterface is an elastic network interface. Its addresses are claimed in [AddressBlock]s of its subnet, and an
// elastic address that points at it stands in the [Address].
//
// Writer: internal/aws/ec2.
type NetworkInterface struct {
	EC2Resource
	VPCID            string
	SubnetID         string
	AvailabilityZone string
	Description      string
	MACAddress       string
	InterfaceType    ec2types.NetworkInterfaceType
	SecurityGroupIDs []string
	SourceDestCheck  bool
	// PrivateIPs are its IPv4 addresses, the primary first.
	PrivateIPs   []string
	IPv4Prefixes []string `json:",omitempty"`
	IPv6IPs      []string `json:",omitempty"`
	IPv6Prefixes []string `json:",omitempty"`
	// PrimaryIPv6 reports that the first IPv6 address stays as long as the interface.
	PrimaryIPv6 bool `json:",omitempty"`
	// RequesterID is the principal that created it. RequesterManaged interfaces were created by an AWS service on
	// behalf of the account, and only that service may change or delete them.
	RequesterID      string
	RequesterManaged bool
	Attachment       *NetworkInterfaceAttachment `json:",omitempty"`
	// Trunk is the trunk of which the interface is a branch. It says nothing once the trunk is gone.
	Trunk *TrunkAssociation `json:",omitempty"`
	// PublicIP is the public address that Amazon lends to its primary address while its instance is not stopped;
	// claimed in [PublicIP] under the interface's ID. An elastic address takes its place. AutoPublicIP says that a
	// start lends one again.
	PublicIP     string `json:",omitempty"`
	AutoPublicIP bool   `json:",omitempty"`
}

// InterfaceTypeEFS is the type of the network interfaces of mount targets, which the SDK does not name.
const InterfaceTypeEFS ec2types.NetworkInterfaceType = "efs"

// NetworkInterfaceAttachment describes the attachment of a network interface.
type NetworkInterfaceAttachment struct {
	ID                  string // "eni-attach-…"
	InstanceID          string `json:",omitempty"` // empty for what an AWS service runs that is no instance
	InstanceOwnerID     string
	DeviceIndex         int32
	NetworkCardIndex    int32
	DeleteOnTermination bool
	AttachedAt          time.Time
}

// TrunkAssociation describes the association of a branch network interface with a trunk, which carries its traffic.
type TrunkAssociation struct {
	ID          string // "trunk-assoc-…"
	InterfaceID string // the trunk's
	VLANID      int32
	ClientToken string `json:",omitempty"` // of the request that made it
}

// EKSAccount is the account of Amazon's in which the API servers of clusters run, whose network interfaces EKS creates
// in the accounts of clusters. Nobody attaches an interface to what runs there but EKS.
const EKSAccount = amazonaccount.APIServers

// ShownRequesterManaged reports whether the interface is shown as managed by its requester. Those of EKS are not: EKS
// creates them under its service-linked role, as anybody would, and attaches them to what runs in its own account.
func (r NetworkInterface) ShownRequesterManaged() bool {
	return r.RequesterManaged && (r.Attachment == nil || r.Attachment.InstanceOwnerID != EKSAccount)
}

// ShownInstanceID returns the ID of the instance that the interface is attached to; empty when its account sees none,
// as of what an AWS service runs.
func (r NetworkInterface) ShownInstanceID() string {
	if r.Attachment == nil || r.Attachment.InstanceOwnerID != r.Account {
		return ""
	}
	return r.Attachment.InstanceID
}

// NetworkInterfaces returns the table of network interfaces, by EC2Key.
func NetworkInterfaces(s *store.Store) store.Table[NetworkInterface] {
	return store.NewTable[NetworkInterface](s, "networkinterfaces")
}

// InterfacesByInstance finds network interfaces by the EC2Key of the instance that they are attached to.
func InterfacesByInstance(s *store.Store) store.Index[NetworkInterface] {
	return store.NewIndex(NetworkInterfaces(s), "instance", func(r NetworkInterface) string {
		if r.Attachment == nil || r.Attachment.InstanceID == "" {
			return ""
		}
		return EC2Key(r.Account, r.Region, r.Attachment.InstanceID)
	})
}

// InterfacesByTrunk finds branch network interfaces by the EC2Key of their trunk.
func InterfacesByTrunk(s *store.Store) store.Index[NetworkInterface] {
	return store.NewIndex(NetworkInterfaces(s), "trunk", func(r NetworkInterface) string {
		if r.Trunk == nil {
			return ""
		}
		return EC2Key(r.Account, r.Region, r.Trunk.InterfaceID)
	})
}
