package resource

import (
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// idsBehind returns the IDs of resources that a request names by something other than an ID: a group's or a key's name,
// a public address, an association, an attachment. A policy about the resource must apply however it is named. What
// does not exist has no ID; the operation reports that.
func (s *Records) idsBehind(sc Scope, input any) ([]namedID, error) {
	ids, err := s.lookUpNames(sc, input)
	var refused *wire.Error
	if errors.As(err, &refused) || errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return slices.DeleteFunc(ids, func(n namedID) bool { return n.id == "" }), err
}

// lookUpNames returns the resources that a request names by a name or an address, or by an association.
func (s *Records) lookUpNames(sc Scope, input any) ([]namedID, error) {
	group := func(id, name *string) ([]namedID, error) {
		if aws.ToString(id) != "" || name == nil {
			return nil, nil
		}
		found, err := s.RequestedSecurityGroup(sc, nil, name)
		return []namedID{{types.ResourceTypeSecurityGroup, found}}, err
	}
	address := func(allocation, publicIP *string) ([]namedID, error) {
		if aws.ToString(allocation) != "" || publicIP == nil {
			return nil, nil
		}
		found, err := s.RequestedAddress(sc, nil, publicIP)
		return []namedID{{types.ResourceTypeElasticIp, found.ID}}, err
	}
	template := func(id, name *string) ([]namedID, error) {
		if aws.ToString(id) != "" || name == nil {
			return nil, nil
		}
		t, err := s.RequestedLaunchTemplate(sc, nil, name)
		return []namedID{{types.ResourceTypeLaunchTemplate, t.ID}}, err
	}
	switch request := input.(type) {
	case *ec2.AuthorizeSecurityGroupIngressInput:
		return group(request.GroupId, request.GroupName)
	case *ec2.RevokeSecurityGroupIngressInput:
		return group(request.GroupId, request.GroupName)
	case *ec2.UpdateSecurityGroupRuleDescriptionsIngressInput:
		return group(request.GroupId, request.GroupName)
	case *ec2.UpdateSecurityGroupRuleDescriptionsEgressInput:
		return group(request.GroupId, request.GroupName)
	case *ec2.DeleteSecurityGroupInput:
		return group(request.GroupId, request.GroupName)
	case *ec2.CreateSecurityGroupInput:
		if request.VpcId != nil {
			return nil, nil
		}
		vpc, err := s.DefaultVPC(sc)
		if err != nil || vpc == nil {
			return nil, err
		}
		return []namedID{{types.ResourceTypeVpc, vpc.ID}}, nil
	case *ec2.DeleteKeyPairInput:
		if aws.ToString(request.KeyPairId) != "" || request.KeyName == nil {
			return nil, nil
		}
		row, err := s.KeyPairNames.Get(sc, store.Key(sc.Account, sc.Region, *request.KeyName))
		return []namedID{{types.ResourceTypeKeyPair, row.Value.KeyPairID}}, err
	case *ec2.ReleaseAddressInput:
		return address(request.AllocationId, request.PublicIp)
	case *ec2.AssociateAddressInput:
		ids, err := address(request.AllocationId, request.PublicIp)
		if err != nil || request.InstanceId == nil || request.NetworkInterfaceId != nil {
			return ids, err
		}
		found, err := s.InterfacesOf(sc, *request.InstanceId)
		return append(ids, collectIDs(found, func(r record.NetworkInterface) []namedID {
			return []namedID{{types.ResourceTypeNetworkInterface, r.ID}}
		})...), err
	case *ec2.DeletePlacementGroupInput:
		group, err := s.PlacementGroupNamed(sc, aws.ToString(request.GroupName))
		return []namedID{{types.ResourceTypePlacementGroup, group.ID}}, err
	case *ec2.CreateLaunchTemplateVersionInput:
		return template(request.LaunchTemplateId, request.LaunchTemplateName)
	case *ec2.ModifyLaunchTemplateInput:
		return template(request.LaunchTemplateId, request.LaunchTemplateName)
	case *ec2.DeleteLaunchTemplateInput:
		return template(request.LaunchTemplateId, request.LaunchTemplateName)
	case *ec2.DeleteLaunchTemplateVersionsInput:
		return template(request.LaunchTemplateId, request.LaunchTemplateName)
	case *ec2.CreateFleetInput:
		var all []namedID
		for _, config := range request.LaunchTemplateConfigs {
			if spec := config.LaunchTemplateSpecification; spec != nil {
				t, err := s.RequestedLaunchTemplate(sc, spec.LaunchTemplateId, spec.LaunchTemplateName)
				if err != nil {
					return nil, err
				}
				all = append(all, namedID{types.ResourceTypeLaunchTemplate, t.ID})
			}
		}
		return all, nil
	case *ec2.ModifyInstanceAttributeInput:
		if request.Attribute == types.InstanceAttributeNameGroupSet {
			return []namedID{{types.ResourceTypeSecurityGroup, aws.ToString(request.Value)}}, nil
		}
		return nil, nil
	case *ec2.CreateNetworkInsightsPathInput:
		return s.pathEnds(aws.ToString(request.Source), aws.ToString(request.Destination)), nil
	case *ec2.AssociateRouteTableInput:
		if strings.HasPrefix(aws.ToString(request.GatewayId), "igw-") {
			return []namedID{{types.ResourceTypeInternetGateway, *request.GatewayId}}, nil
		}
		return nil, nil
	}
	return s.lookUpAssociations(sc, input)
}

// pathEnds returns the resources at which a path begins and ends. A request names them by ID or by ARN.
func (s *Records) pathEnds(ends ...string) (all []namedID) {
	for _, end := range ends {
		id := ResourceID(end)
		if kind, ok := s.KindForID(id); ok {
			all = append(all, namedID{kind.IDFormat().Resource, id})
		}
	}
	return all
}

// ResourceID returns the ID in the ARN of a resource of EC2; what is no ARN as it is.
func ResourceID(arn string) string {
	if !strings.HasPrefix(arn, "arn:") {
		return arn
	}
	return arn[strings.LastIndex(arn, "/")+1:]
}

// lookUpAssociations returns the resources of the association or attachment that a request names.
func (s *Records) lookUpAssociations(sc Scope, input any) ([]namedID, error) {
	profiled := func(association *string) ([]namedID, error) {
		r, err := s.ProfileAssociation(sc, association)
		return []namedID{{types.ResourceTypeInstance, r.ID}}, err
	}
	switch request := input.(type) {
	case *ec2.DisassociateAddressInput:
		found, err := s.Addresses.List(sc, func(r record.Address) bool {
			return r.AssociationID != "" && (r.AssociationID == aws.ToString(request.AssociationId) ||
				request.AssociationId == nil && r.PublicIP == aws.ToString(request.PublicIp))
		})
		return collectIDs(found, func(r record.Address) []namedID {
			return []namedID{{types.ResourceTypeElasticIp, r.ID}, {types.ResourceTypeNetworkInterface,
				r.NetworkInterfaceID}}
		}), err
	case *ec2.DetachNetworkInterfaceInput:
		found, err := s.NetworkInterfaces.List(sc, func(r record.NetworkInterface) bool {
			return r.Attachment != nil && r.Attachment.ID == aws.ToString(request.AttachmentId)
		})
		return collectIDs(found, func(r record.NetworkInterface) []namedID {
			return []namedID{{types.ResourceTypeNetworkInterface, r.ID},
				{types.ResourceTypeInstance, r.ShownInstanceID()}}
		}), err
	case *ec2.DisassociateTrunkInterfaceInput:
		branch, err := s.BranchInterface(sc, request.AssociationId)
		if err != nil {
			return nil, err
		}
		return []namedID{{types.ResourceTypeNetworkInterface, branch.ID},
			{types.ResourceTypeNetworkInterface, branch.Trunk.InterfaceID}}, nil
	case *ec2.DisassociateIamInstanceProfileInput:
		return profiled(request.AssociationId)
	case *ec2.ReplaceIamInstanceProfileAssociationInput:
		return profiled(request.AssociationId)
	case *ec2.DisassociateRouteTableInput:
		return s.associationTargets(sc, aws.ToString(request.AssociationId))
	case *ec2.ReplaceRouteTableAssociationInput:
		return s.associationTargets(sc, aws.ToString(request.AssociationId))
	case *ec2.ReplaceNetworkAclAssociationInput:
		found, err := s.Subnets.List(sc,
			func(r record.Subnet) bool { return r.NetworkACLAssociationID == aws.ToString(request.AssociationId) })
		return collectIDs(found, func(r record.Subnet) []namedID {
			return []namedID{{types.ResourceTypeSubnet, r.ID}, {types.ResourceTypeNetworkAcl, r.NetworkACLID}}
		}), err
	case *ec2.DisassociateSubnetCidrBlockInput:
		found, err := s.Subnets.List(sc, func(r record.Subnet) bool {
			return r.IPv6 != nil && r.IPv6.AssociationID == aws.ToString(request.AssociationId)
		})
		return collectIDs(found, func(r record.Subnet) []namedID {
			return []namedID{{types.ResourceTypeSubnet,
				r.ID}}
		}), err
	case *ec2.DisassociateVpcCidrBlockInput:
		has := func(a record.CIDRAssociation) bool { return a.AssociationID == aws.ToString(request.AssociationId) }
		found, err := s.VPCs.List(sc, func(r record.VPC) bool {
			return slices.ContainsFunc(r.CIDRs, has) || slices.ContainsFunc(r.IPv6CIDRs, has)
		})
		return collectIDs(found, func(r record.VPC) []namedID { return []namedID{{types.ResourceTypeVpc, r.ID}} }), err
	}
	return nil, nil
}

// associationTargets returns the route table of an association and the subnet or gateway that it is for.
func (s *Records) associationTargets(sc Scope, association string) ([]namedID, error) {
	if association == "" {
		return nil, nil
	}
	subnets, err := s.Subnets.List(sc, func(r record.Subnet) bool { return r.RouteTableAssociationID == association })
	if err != nil {
		return nil, err
	}
	gateways, err := s.InternetGateways.List(sc, func(
		r record.InternetGateway) bool {
		return r.RouteTableAssociationID == association
	})
	if err != nil {
		return nil, err
	}
	vpcs, err := s.VPCs.List(sc, func(r record.VPC) bool { return r.MainRouteTableAssociationID == association })
	return slices.Concat(
		collectIDs(subnets, func(r record.Subnet) []namedID {
			return []namedID{{types.ResourceTypeRouteTable, r.RouteTableID}, {types.ResourceTypeSubnet, r.ID}}
		}),
		collectIDs(gateways, func(r record.InternetGateway) []namedID {
			return []namedID{{types.ResourceTypeRouteTable, r.RouteTableID}, {types.ResourceTypeInternetGateway, r.ID}}
		}),
		collectIDs(vpcs, func(r record.VPC) []namedID {
			return []namedID{{types.ResourceTypeRouteTable,
				r.MainRouteTableID}}
		}),
	), err
}

func collectIDs[T any](rows []T, ids func(T) []namedID) []namedID {
	var all []namedID
	for _, r := range rows {
		all = append(all, ids(r)...)
	}
	return all
}
