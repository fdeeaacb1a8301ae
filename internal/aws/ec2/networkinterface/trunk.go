package networkinterface

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/instancetype"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// maxVLAN is the highest VLAN ID, and the highest number of branches of a trunk that is attached to nothing.
const maxVLAN = 4094

// trunkHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) trunkHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.AssociateTrunkInterface, resource.Touching[ec2.AssociateTrunkInterfaceInput](s.Records)),
		wire.Handle(s.DisassociateTrunkInterface, resource.Touching[ec2.DisassociateTrunkInterfaceInput](s.Records)),
		wire.Handle(s.DescribeTrunkInterfaceAssociations, resource.OnRegion),
	}
}

// AssociateTrunkInterface has the traffic of a network interface, the branch, carried with a VLAN tag by another one,
// the trunk, within the limits of the type of the trunk's instance.
func (s *Service) AssociateTrunkInterface(ctx context.Context, in *ec2.AssociateTrunkInterfaceInput) (
	*ec2.AssociateTrunkInterfaceOutput, error) {
	var branch record.NetworkInterface
	err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		switch vlan := in.VlanId; {
		case in.GreKey != nil:
			return resource.Unsupported("greKey")
		case vlan == nil:
			return resource.MissingParameter("vlanId")
		case *vlan < 1 || *vlan > maxVLAN:
			return resource.InvalidValue(*vlan, "vlanId", fmt.Sprintf("VLAN IDs are from 1 to %d.", maxVLAN))
		}
		trunk, err := s.NetworkInterfaces.GetRecord(c.Scope, in.TrunkInterfaceId)
		if err != nil {
			return err
		}
		if err := CheckRequester(c, trunk); err != nil {
			return err
		}
		return Edit(c, in.BranchInterfaceId, func(ni *record.NetworkInterface) error {
			if t := ni.Trunk; t != nil && t.ClientToken != "" && t.ClientToken == aws.ToString(in.ClientToken) {
				if t.InterfaceID != trunk.ID || t.VLANID != *in.VlanId {
					return wire.Errorf("IdempotentParameterMismatch",
						"The client token '%s' has been used with other parameters.", t.ClientToken)
				}
				branch = *ni
				return nil
			}
			if err := s.checkBranch(c, *ni, trunk, *in.VlanId); err != nil {
				return err
			}
			// The trunk is written, so that of two branches at the same time only one gets a VLAN or the last place.
			if err := s.NetworkInterfaces.ClaimRecord(c, trunk.ID); err != nil {
				return err
			}
			ni.Trunk = &record.TrunkAssociation{ID: resource.NewID("trunk-assoc-"), InterfaceID: trunk.ID,
				VLANID: *in.VlanId, ClientToken: aws.ToString(in.ClientToken)}
			branch = *ni
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	view := viewTrunkAssociation(branch)
	return &ec2.AssociateTrunkInterfaceOutput{InterfaceAssociation: &view, ClientToken: in.ClientToken}, nil
}

// checkBranch refuses a network interface that cannot be a branch of a trunk.
func (s *Service) checkBranch(c *resource.Change, ni, trunk record.NetworkInterface, vlan int32) error {
	switch {
	case trunk.InterfaceType != types.NetworkInterfaceTypeTrunk:
		return resource.InvalidValue(trunk.ID, "trunkInterfaceId", "The network interface is not of the type trunk.")
	case ni.InterfaceType != types.NetworkInterfaceTypeInterface && ni.InterfaceType != types.NetworkInterfaceTypeBranch:
		return resource.InvalidValue(ni.ID, "branchInterfaceId",
			"A network interface of the type "+string(ni.InterfaceType)+" cannot be a branch.")
	case ni.VPCID != trunk.VPCID || ni.AvailabilityZone != trunk.AvailabilityZone:
		return wire.Errorf("InvalidParameterCombination",
			"You may not associate a branch network interface with a trunk if they are not in the same availability zone")
	}
	if err := CheckFree(c, ni); err != nil {
		return err
	}
	most, kind := maxVLAN, "a trunk that is not attached"
	if a := trunk.Attachment; a != nil && a.InstanceID != "" {
		r, err := s.Instances.GetRecord(c.Scope, &a.InstanceID)
		if err != nil {
			return err
		}
		t, _ := instancetype.Get(string(r.InstanceType))
		most, kind = t.MaxBranchENIs, t.Name
	}
	branches, err := s.branchesOf(c.Scope, trunk.ID)
	if err != nil {
		return err
	}
	for _, b := range branches {
		if b.Trunk.VLANID == vlan {
			return resource.InvalidValue(vlan, "vlanId", "The branch network interface "+b.ID+" of the trunk has this VLAN ID.")
		}
	}
	if len(branches)+1 > most {
		return wire.Errorf("AttachmentLimitExceeded", "Branch interface count %d exceeds the limit for %s",
			len(branches)+1, kind)
	}
	return nil
}

// isBranch reports whether an interface is associated with a trunk. An association ends with either interface.
func isBranch(s *resource.Records, sc resource.Scope, r record.NetworkInterface) (bool, error) {
	if r.Trunk == nil {
		return false, nil
	}
	_, err := s.NetworkInterfaces.Table.Get(sc, sc.Key(r.Trunk.InterfaceID))
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// CheckFree refuses an interface that is attached, or a branch of a trunk.
func CheckFree(c *resource.Change, ni record.NetworkInterface) error {
	used, err := isBranch(c.Records, c.Scope, ni)
	if err != nil {
		return err
	}
	if used || ni.Attachment != nil {
		return wire.Errorf("InvalidNetworkInterface.InUse", "Interface: [%s] in use.", ni.ID)
	}
	return nil
}

// branchesOf returns the branches of a trunk.
func (s *Service) branchesOf(sc resource.Scope, trunkID string) (branches []record.NetworkInterface, err error) {
	rows, err := record.InterfacesByTrunk(s.Store).List(sc, sc.Key(trunkID))
	for _, row := range rows {
		branches = append(branches, row.Value)
	}
	return branches, err
}

// CheckTrunk refuses to attach a trunk to an instance that takes none, or has one.
func CheckTrunk(ni record.NetworkInterface, there []record.NetworkInterface, kind instancetype.Type) error {
	if ni.InterfaceType != types.NetworkInterfaceTypeTrunk {
		return nil
	}
	if kind.MaxBranchENIs == 0 {
		return wire.Errorf("InvalidParameterCombination",
			"Instances of the type %s do not support trunk network interfaces.", kind.Name)
	}
	for _, other := range there {
		if other.InterfaceType == types.NetworkInterfaceTypeTrunk {
			return resource.Invalid("Instance '%s' already has the trunk network interface '%s' attached.",
				other.Attachment.InstanceID, other.ID)
		}
	}
	return nil
}

// DisassociateTrunkInterface ends the association of a branch with its trunk.
func (s *Service) DisassociateTrunkInterface(ctx context.Context, in *ec2.DisassociateTrunkInterfaceInput) (
	*ec2.DisassociateTrunkInterfaceOutput, error) {
	err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		branch, err := s.BranchInterface(c.Scope, in.AssociationId)
		if err != nil {
			return err
		}
		return Edit(c, &branch.ID, func(r *record.NetworkInterface) error {
			r.Trunk = nil
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return &ec2.DisassociateTrunkInterfaceOutput{Return: aws.Bool(true), ClientToken: in.ClientToken}, nil
}

func viewTrunkAssociation(r record.NetworkInterface) types.TrunkInterfaceAssociation {
	if r.Trunk == nil { // a dry run
		return types.TrunkInterfaceAssociation{}
	}
	return types.TrunkInterfaceAssociation{
		AssociationId: aws.String(r.Trunk.ID), BranchInterfaceId: aws.String(r.ID), Tags: []types.Tag{},
		InterfaceProtocol: types.InterfaceProtocolTypeVlan, TrunkInterfaceId: aws.String(r.Trunk.InterfaceID),
		VlanId: aws.Int32(r.Trunk.VLANID),
	}
}

// DescribeTrunkInterfaceAssociations lists the associations of branches with trunks.
func (s *Service) DescribeTrunkInterfaceAssociations(ctx context.Context,
	in *ec2.DescribeTrunkInterfaceAssociationsInput) (*ec2.DescribeTrunkInterfaceAssociationsOutput, error) {
	type v = types.TrunkInterfaceAssociation
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	query := resource.Query{Operation: "DescribeTrunkInterfaceAssociations", DryRun: in.DryRun, IDs: in.AssociationIds,
		Filters: in.Filters, Max: in.MaxResults, Token: in.NextToken}
	if err := query.CheckPage(); err != nil {
		return nil, err
	}
	branches, err := s.NetworkInterfaces.List(sc, func(r record.NetworkInterface) bool { return r.Trunk != nil })
	if err != nil {
		return nil, err
	}
	wanted := map[string]bool{} // by ID: whether it is wanted
	for _, r := range branches {
		wanted[r.Trunk.ID] = len(in.AssociationIds) == 0
	}
	for _, id := range in.AssociationIds {
		if _, known := wanted[id]; !known {
			return nil, resource.NoTrunkAssociation(id)
		}
		wanted[id] = true
	}
	var items []resource.Item[v]
	for _, r := range branches {
		there, err := isBranch(s.Records, sc, r)
		if err != nil {
			return nil, err
		}
		if there && wanted[r.Trunk.ID] {
			items = append(items, resource.Item[v]{ID: r.ID, View: viewTrunkAssociation(r)})
		}
	}
	found, next, err := resource.DescribeItems(ctx, query, items, resource.Filters[v]{
		"gre-key":            resource.IntFilter(func(x v) *int32 { return x.GreKey }),
		"interface-protocol": resource.EnumFilter(func(x v) types.InterfaceProtocolType { return x.InterfaceProtocol }),
		// What the VPC resource controller asks for, which the API reference does not have.
		"trunk-interface-association.trunk-interface-id": resource.StringFilter(
			func(x v) *string { return x.TrunkInterfaceId }),
	}, nil)
	return &ec2.DescribeTrunkInterfaceAssociationsOutput{InterfaceAssociations: found, NextToken: next}, err
}
