package resource

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// DefaultVPC returns the default VPC of the scope, or nil.
func (s *Records) DefaultVPC(sc Scope) (*record.VPC, error) {
	found, err := s.VPCs.List(sc, func(v record.VPC) bool { return v.Default })
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// SecurityGroupNamed returns the group of that name in a VPC, the default VPC when vpcID is empty.
func (s *Records) SecurityGroupNamed(sc Scope, vpcID, name string) (record.SecurityGroup, error) {
	if vpcID == "" {
		vpc, err := s.DefaultVPC(sc)
		if err != nil {
			return record.SecurityGroup{}, err
		}
		if vpc == nil {
			return record.SecurityGroup{}, wire.Errorf("VPCIdNotSpecified",
				"No default VPC for this user. GroupName is only supported for EC2-Classic and default VPC.")
		}
		vpcID = vpc.ID
	}
	found, err := s.SecurityGroups.List(
		sc,
		func(g record.SecurityGroup) bool { return g.VPCID == vpcID && g.Name == name },
	)
	if err != nil {
		return record.SecurityGroup{}, err
	}
	if len(found) == 0 {
		where := "VPC"
		if vpc, err := s.DefaultVPC(sc); err == nil && vpc != nil && vpc.ID == vpcID {
			where = "default VPC"
		}
		return record.SecurityGroup{}, wire.Errorf("InvalidGroup.NotFound",
			"The security group '%s' does not exist in %s '%s'", name, where, vpcID)
	}
	return found[0], nil
}

// RequestedSecurityGroup returns the id of the group that a request names by id or, in the default VPC, by name.
func (s *Records) RequestedSecurityGroup(sc Scope, id, name *string) (string, error) {
	switch {
	case id != nil:
		return *id, nil
	case name != nil:
		group, err := s.SecurityGroupNamed(sc, "", *name)
		return group.ID, err
	}
	return "", wire.Errorf("MissingParameter", "The request must contain the parameter groupName or groupId")
}

// SecurityGroupIdentifiers returns security groups as other resources show them.
func (s *Records) SecurityGroupIdentifiers(sc Scope, ids []string) []types.GroupIdentifier {
	groups := []types.GroupIdentifier{}
	for _, id := range ids {
		g, err := s.SecurityGroups.GetRecord(sc, &id)
		if err == nil {
			groups = append(groups, types.GroupIdentifier{GroupId: aws.String(id), GroupName: aws.String(g.Name)})
		}
	}
	return groups
}

// RequestedAddress returns the address that a request names by allocation or by itself.
func (s *Records) RequestedAddress(sc Scope, allocation, publicIP *string) (record.Address, error) {
	if allocation != nil {
		return s.Addresses.GetRecord(sc, allocation)
	}
	if publicIP == nil {
		return record.Address{}, MissingParameter("allocationId")
	}
	if _, err := netip.ParseAddr(*publicIP); err != nil {
		return record.Address{}, Invalid("Invalid value '%s' for publicIp. Not a valid IPv4 address.", *publicIP)
	}
	found, err := s.Addresses.List(sc, func(r record.Address) bool { return r.PublicIP == *publicIP })
	if err == nil && len(found) == 0 {
		err = wire.Errorf("InvalidAddress.NotFound", "Address '%s' not found.", *publicIP)
	}
	if err != nil {
		return record.Address{}, err
	}
	return found[0], nil
}

// AddressesOf returns the elastic addresses of a network interface, by private address.
func (s *Records) AddressesOf(sc Scope, interfaceID string) map[string]record.Address {
	byPrivate := map[string]record.Address{}
	for _, r := range MustRead(s.Addresses.List(sc,
		func(r record.Address) bool { return r.NetworkInterfaceID == interfaceID })) {
		byPrivate[r.PrivateIPAddress] = r
	}
	return byPrivate
}

// InterfacesOf returns the network interfaces that are attached to an instance, in the order of their device indexes.
func (s *Records) InterfacesOf(sc Scope, instanceID string) ([]record.NetworkInterface, error) {
	rows, err := record.InterfacesByInstance(s.Store).List(sc, sc.Key(instanceID))
	found := make([]record.NetworkInterface, 0, len(rows))
	for _, row := range rows {
		found = append(found, row.Value)
	}
	slices.SortFunc(found, func(a, b record.NetworkInterface) int {
		return cmp.Compare(a.Attachment.DeviceIndex, b.Attachment.DeviceIndex)
	})
	return found, err
}

// OnlyInterface returns the network interface of an instance that has one.
func (s *Records) OnlyInterface(sc Scope, instanceID *string) (*string, error) {
	r, err := s.Instances.GetRecord(sc, instanceID)
	if err != nil {
		return nil, err
	}
	switch state := s.InstanceState(sc, r); state {
	case types.InstanceStateNameRunning, types.InstanceStateNameStopped:
	default:
		return nil, wire.Errorf("InvalidInstanceID", "The %s instance '%s' is not in a valid state for this operation.",
			state, r.ID)
	}
	found, err := s.InterfacesOf(sc, r.ID)
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, wire.Errorf("InvalidInstanceID",
			"There are multiple interfaces attached to instance '%s'. Please specify an interface ID for the "+
				"operation instead.", r.ID)
	}
	return &found[0].ID, nil
}

// Machine returns what was observed of an instance; nothing yet of one that nobody has begun to start.
func (s *Records) Machine(sc Scope, r record.Instance) record.Machine {
	return MustRead(s.Machines.Get(sc, r.Key())).Value
}

// InstanceState returns the state of an instance, which follows from what is wanted and what was observed.
func (s *Records) InstanceState(sc Scope, r record.Instance) types.InstanceStateName {
	return record.InstanceState(r, s.Machine(sc, r))
}

// KeyPairNamed returns the key pair of that name.
func (s *Records) KeyPairNamed(sc Scope, name string) (record.KeyPair, error) {
	row, err := s.KeyPairNames.Get(sc, store.Key(sc.Account, sc.Region, name))
	if errors.Is(err, store.ErrNotFound) {
		return record.KeyPair{}, wire.Errorf("InvalidKeyPair.NotFound", "The key pair '%s' does not exist", name)
	}
	if err != nil {
		return record.KeyPair{}, err
	}
	return s.KeyPairs.GetRecord(sc, &row.Value.KeyPairID)
}

// PlacementGroupNamed returns the placement group of that name.
func (s *Records) PlacementGroupNamed(sc Scope, name string) (record.PlacementGroup, error) {
	row, err := s.PlacementGroupNames.Get(sc, store.Key(sc.Account, sc.Region, name))
	if errors.Is(err, store.ErrNotFound) {
		return record.PlacementGroup{}, wire.Errorf("InvalidPlacementGroup.Unknown",
			"The Placement Group '%s' is unknown.", name)
	}
	if err != nil {
		return record.PlacementGroup{}, err
	}
	return s.PlacementGroups.GetRecord(sc, &row.Value.PlacementGroupID)
}

// RequestedLaunchTemplate returns the launch template that a request names by its ID or its name.
func (s *Records) RequestedLaunchTemplate(sc Scope, id, name *string) (record.LaunchTemplate, error) {
	switch asksID, asksName := aws.ToString(id) != "", aws.ToString(name) != ""; {
	case asksID && asksName:
		return record.LaunchTemplate{}, wire.Errorf("InvalidParameterCombination",
			"You may specify either a launch template ID or a launch template name, not both.")
	case asksName:
		row, err := s.LaunchTemplateNames.Get(sc, store.Key(sc.Account, sc.Region, *name))
		if errors.Is(err, store.ErrNotFound) {
			return record.LaunchTemplate{}, wire.Errorf("InvalidLaunchTemplateName.NotFoundException",
				"The specified launch template, with template name %s, does not exist.", *name)
		}
		if err != nil {
			return record.LaunchTemplate{}, err
		}
		return s.LaunchTemplates.GetRecord(sc, &row.Value.TemplateID)
	case asksID:
		return s.LaunchTemplates.GetRecord(sc, id)
	}
	return record.LaunchTemplate{}, wire.Errorf("MissingParameter",
		"Either a launch template ID or a launch template name must be specified.")
}

// ProfileAssociation returns the instance of an instance profile association.
func (s *Records) ProfileAssociation(sc Scope, id *string) (record.Instance, error) {
	if aws.ToString(id) == "" {
		return record.Instance{}, MissingParameter("associationId")
	}
	found, err := s.Instances.List(sc, func(r record.Instance) bool { return r.InstanceProfileAssociationID == *id })
	if err == nil && len(found) == 0 {
		err = wire.Errorf("InvalidAssociationID.NotFound", "An invalid association-id of '%s' was given", *id)
	}
	if err != nil {
		return record.Instance{}, err
	}
	return found[0], nil
}

// NoTrunkAssociation reports that no branch has an association with a trunk of that ID.
func NoTrunkAssociation(id string) error {
	return wire.Errorf("InvalidAssociationID.NotFound", "The association ID '%s' does not exist", id)
}

// BranchInterface returns the branch of the association of a branch with a trunk.
func (s *Records) BranchInterface(sc Scope, association *string) (record.NetworkInterface, error) {
	if aws.ToString(association) == "" {
		return record.NetworkInterface{}, MissingParameter("associationId")
	}
	found, err := s.NetworkInterfaces.List(sc, func(r record.NetworkInterface) bool {
		return r.Trunk != nil && r.Trunk.ID == *association
	})
	if err == nil && len(found) == 0 {
		err = NoTrunkAssociation(*association)
	}
	if err != nil {
		return record.NetworkInterface{}, err
	}
	return found[0], nil
}
