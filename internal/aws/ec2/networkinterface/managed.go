package networkinterface

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/record"
)

// Managed is a network interface that another AWS service makes for the account, in one transaction with the record
// that it belongs to. Only the service changes and deletes it.
type Managed struct {
	SubnetID         string
	Type             types.NetworkInterfaceType
	Description      string
	RequesterID      string   // of the service: no principal has such an ID
	Address          string   // IPv4; any of the subnet's when empty
	IPv6             bool     // whether it has an IPv6 address as well
	IPv6Address      string   // any of the subnet's when empty
	SecurityGroupIDs []string // the VPC's default group when empty
	Ungrouped        bool     // no security groups: as Network Load Balancers may have none
	Public           bool     // Amazon lends it a public address
	AllocationID     string   // of an elastic address that it gets; none when empty
	// InstanceID is the instance that has it as its primary network interface, and with which it goes; InstanceOwnerID,
	// the owner of that, is not the account, which sees no such instance. Empty for what is no instance.
	InstanceID      string
	InstanceOwnerID string
}

// CreateManaged makes a network interface that a service manages.
func CreateManaged(c *resource.Change, m Managed) (record.NetworkInterface, error) {
	subnet, err := c.Subnets.GetRecord(c.Scope, &m.SubnetID)
	if err != nil {
		return record.NetworkInterface{}, err
	}
	if err := c.Subnets.Require(c, subnet.ID); err != nil {
		return record.NetworkInterface{}, err
	}
	if err := CheckQuota(c, 1); err != nil {
		return record.NetworkInterface{}, err
	}
	var groups []string
	if !m.Ungrouped {
		if groups, err = SecurityGroups(c, subnet.VPCID, m.SecurityGroupIDs); err != nil {
			return record.NetworkInterface{}, err
		}
	}
	ni, err := NewInterface(c, resource.NewID(c.NetworkInterfaces.Prefix), subnet, m.Address)
	if err != nil {
		return ni, err
	}
	if m.IPv6 {
		six := Addressing{AddressCount: aws.Int32(1)}
		if m.IPv6Address != "" {
			six = Addressing{Addresses: []string{m.IPv6Address}}
		}
		if err := AssignIPv6(c, &ni, subnet, six); err != nil {
			return ni, err
		}
	}
	ni.InterfaceType, ni.Description, ni.SecurityGroupIDs = m.Type, m.Description, groups
	ni.RequesterManaged, ni.RequesterID = true, m.RequesterID
	ni.Attachment = &record.NetworkInterfaceAttachment{
		ID: resource.NewID("eni-attach-"), InstanceOwnerID: m.RequesterID, DeviceIndex: 1, AttachedAt: ni.CreatedAt,
	}
	if m.InstanceID != "" {
		ni.Attachment.InstanceID, ni.Attachment.InstanceOwnerID = m.InstanceID, m.InstanceOwnerID
		ni.Attachment.DeviceIndex, ni.Attachment.DeleteOnTermination = 0, true
	}
	switch {
	case m.AllocationID != "":
		if _, err := AssociateAddress(c, m.AllocationID, ni, "", false); err != nil {
			return ni, err
		}
	case m.Public:
		if err := AssignPublicIP(c, &ni); err != nil {
			return ni, err
		}
	}
	c.NetworkInterfaces.CreateRecord(c, ni)
	return ni, nil
}

// SetManagedGroups changes the security groups of a network interface that a service manages.
func SetManagedGroups(c *resource.Change, id string, groups []string) error {
	return c.NetworkInterfaces.UpdateRecord(c, id, func(r *record.NetworkInterface) (err error) {
		r.SecurityGroupIDs, err = SecurityGroups(c, r.VPCID, groups)
		c.TouchVPC(r.VPCID)
		return err
	})
}
