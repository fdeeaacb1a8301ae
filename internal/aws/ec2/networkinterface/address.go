package networkinterface

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// DefaultPublicRange is half of the range for benchmarks (RFC 2544), which nobody routes, so that an address of ours is
// never somebody's.
var DefaultPublicRange = netip.MustParsePrefix("198.18.0.0/16")

func (s *Service) newAddressView() resource.View[record.Address, types.Address] {
	type v = types.Address
	return resource.View[record.Address, v]{
		Kind:   s.Addresses,
		Show:   s.viewAddress,
		Tagged: func(x v) []types.Tag { return x.Tags },
		Filters: resource.Filters[v]{
			"allocation-id":              resource.StringFilter(func(x v) *string { return x.AllocationId }),
			"association-id":             resource.StringFilter(func(x v) *string { return x.AssociationId }),
			"domain":                     resource.EnumFilter(func(x v) types.DomainType { return x.Domain }),
			"instance-id":                resource.StringFilter(func(x v) *string { return x.InstanceId }),
			"network-border-group":       resource.StringFilter(func(x v) *string { return x.NetworkBorderGroup }),
			"network-interface-id":       resource.StringFilter(func(x v) *string { return x.NetworkInterfaceId }),
			"network-interface-owner-id": resource.StringFilter(func(x v) *string { return x.NetworkInterfaceOwnerId }),
			"private-ip-address":         resource.StringFilter(func(x v) *string { return x.PrivateIpAddress }),
			"public-ip":                  resource.StringFilter(func(x v) *string { return x.PublicIp }),
		},
	}
}

func (s *Service) viewAddress(sc resource.Scope, r record.Address) types.Address {
	v := types.Address{
		AllocationId:       aws.String(r.ID),
		Domain:             types.DomainTypeVpc,
		NetworkBorderGroup: aws.String(r.Region),
		PublicIp:           aws.String(r.PublicIP),
		PublicIpv4Pool:     aws.String("amazon"),
		Tags:               s.ListTags(sc, r.ID),
	}
	if r.AssociationID != "" {
		v.AssociationId = aws.String(r.AssociationID)
		v.NetworkInterfaceId = aws.String(r.NetworkInterfaceID)
		v.NetworkInterfaceOwnerId = aws.String(r.Account)
		v.PrivateIpAddress = aws.String(r.PrivateIPAddress)
		if ni, err := s.NetworkInterfaces.GetRecord(sc, &r.NetworkInterfaceID); err == nil {
			v.InstanceId = resource.OrNil(ni.ShownInstanceID())
		}
	}
	return v
}

// infrastructure is the number of addresses at the beginning of the public range that are never allocated: machines'
// hosts use them.
const infrastructure = 256

// pickPublicIP claims a public address that is in no account's use.
func pickPublicIP(c *resource.Change, owner string) (string, error) {
	public := c.PublicRange
	size := uint64(1)<<(32-public.Bits()) - infrastructure
	// All regions of all accounts share the range: one account leaves half of it to others.
	mine := uint64(c.PublicIPsOf.Count(c.Account)) //nolint:gosec // a count
	if mine >= size/2 {
		return "", wire.Errorf("InsufficientAddressCapacity", "Account %s has %d public addresses in all regions, half of "+
			"those that there are. Release some.", c.Account, mine)
	}
	for i, start := uint64(0), rand.Uint64N(size); i < size; i++ {
		ip := addressAt(public, infrastructure+(start+i)%size).String()
		if _, taken := c.PlannedRow("public/" + ip); taken {
			continue
		}
		if _, err := c.PublicIPs.Get(c, store.Key(ip)); errors.Is(err, store.ErrNotFound) &&
			!reserved(public, netip.MustParseAddr(ip)) {
			c.Add("public/"+ip, func() store.Op {
				return c.PublicIPs.CreateOp(store.Key(ip), record.PublicIP{Account: c.Account, Region: c.Region,
					OwnerID: owner})
			})
			return ip, nil
		}
	}
	return "", wire.Errorf("InsufficientAddressCapacity", "There are no free public addresses left in %s.", public)
}

// freePublicIP ends the claim to a public address.
func freePublicIP(c *resource.Change, ip string) {
	c.Add("public/"+ip, func() store.Op { return c.PublicIPs.RemoveOp(store.Key(ip)) })
}

// addressHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) addressHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.AllocateAddress, resource.Creating[ec2.AllocateAddressInput](s.Records, types.ResourceTypeElasticIp)),
		wire.Handle(s.DescribeAddresses, resource.OnRegion),
		wire.Handle(s.ReleaseAddress, resource.Touching[ec2.ReleaseAddressInput](s.Records)),
		wire.Handle(s.AssociateAddress, resource.Touching[ec2.AssociateAddressInput](s.Records)),
		wire.Handle(s.DisassociateAddress, resource.Touching[ec2.DisassociateAddressInput](s.Records)),
		wire.Handle(s.DescribeAddressesAttribute, resource.OnRegion),
		wire.Handle(s.ModifyAddressAttribute, resource.Touching[ec2.ModifyAddressAttributeInput](s.Records)),
		wire.Handle(s.ResetAddressAttribute, resource.Touching[ec2.ResetAddressAttributeInput](s.Records)),
	}
}

// AllocateAddress gives the account an elastic IP address.
func (s *Service) AllocateAddress(ctx context.Context, in *ec2.AllocateAddressInput) (
	*ec2.AllocateAddressOutput, error) {
	out, err := s.addressView.Create(ctx, resource.Creation{DryRun: in.DryRun, Tags: in.TagSpecifications},
		func(c *resource.Change, id string) error {
			switch {
			case in.Address != nil:
				return resource.Unsupported("Address")
			case in.IpamPoolId != nil:
				return resource.Unsupported("IpamPoolId")
			case in.CustomerOwnedIpv4Pool != nil:
				return resource.Unsupported("CustomerOwnedIpv4Pool")
			case in.Domain != "" && in.Domain != types.DomainTypeVpc:
				return resource.InvalidValue(in.Domain, "domain", "The domain must be vpc.")
			case in.PublicIpv4Pool != nil && *in.PublicIpv4Pool != "amazon":
				return wire.Errorf("InvalidPublicIpv4PoolID.NotFound", "The pool ID '%s' does not exist.",
					*in.PublicIpv4Pool)
			case in.NetworkBorderGroup != nil && *in.NetworkBorderGroup != c.Region:
				return resource.InvalidValue(*in.NetworkBorderGroup, "networkBorderGroup", "")
			}
			if err := s.Addresses.CheckQuota(c.Scope, resource.MaxAddresses, nil, "AddressLimitExceeded",
				"addresses"); err != nil {
				return err
			}
			ip, err := pickPublicIP(c, id)
			s.Addresses.CreateRecord(c, record.Address{EC2Resource: c.NewResource(id, nil), PublicIP: ip})
			return err
		})
	if err != nil {
		return nil, err
	}
	return &ec2.AllocateAddressOutput{
		AllocationId: out.AllocationId, Domain: out.Domain, NetworkBorderGroup: out.NetworkBorderGroup,
		PublicIp: out.PublicIp, PublicIpv4Pool: out.PublicIpv4Pool,
	}, nil
}

// DescribeAddresses lists elastic IP addresses.
func (s *Service) DescribeAddresses(ctx context.Context, in *ec2.DescribeAddressesInput) (
	*ec2.DescribeAddressesOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	ids := slices.Clone(in.AllocationIds)
	for _, ip := range in.PublicIps {
		address, err := s.RequestedAddress(sc, nil, &ip)
		if err != nil {
			return nil, err
		}
		ids = append(ids, address.ID)
	}
	found, _, err := s.addressView.Describe(ctx, resource.Query{Operation: "DescribeAddresses", DryRun: in.DryRun,
		IDs: ids, Filters: in.Filters})
	return &ec2.DescribeAddressesOutput{Addresses: found}, err
}

// ReleaseAddress gives an elastic IP address back.
func (s *Service) ReleaseAddress(ctx context.Context, in *ec2.ReleaseAddressInput) (*ec2.ReleaseAddressOutput, error) {
	return &ec2.ReleaseAddressOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		address, err := s.RequestedAddress(c.Scope, in.AllocationId, in.PublicIp)
		if err != nil {
			return err
		}
		if address, err = s.Addresses.DeleteRecord(c, address.ID); err != nil {
			return err
		}
		if address.AssociationID != "" {
			return wire.Errorf("InvalidIPAddress.InUse", "Address %s is in use.", address.PublicIP)
		}
		freePublicIP(c, address.PublicIP)
		return nil
	})
}

// AssociateAddress points an elastic IP address at a private address of a network interface.
func (s *Service) AssociateAddress(ctx context.Context, in *ec2.AssociateAddressInput) (
	*ec2.AssociateAddressOutput, error) {
	var association string
	err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		address, err := s.RequestedAddress(c.Scope, in.AllocationId, in.PublicIp)
		if err != nil {
			return err
		}
		asked := in.NetworkInterfaceId
		switch {
		case in.InstanceId != nil && asked != nil:
			return wire.Errorf("InvalidParameterCombination",
				"You may specify either an instance ID or a network interface ID, not both.")
		case in.InstanceId != nil:
			if asked, err = s.OnlyInterface(c.Scope, in.InstanceId); err != nil {
				return err
			}
		case asked == nil:
			return wire.Errorf("MissingParameter", "Either 'instanceId' or 'networkInterfaceId' must be specified.")
		}
		ni, err := s.NetworkInterfaces.GetRecord(c.Scope, asked)
		if err != nil {
			return err
		}
		if err := CheckRequester(c, ni); err != nil {
			return err
		}
		if address.NetworkInterfaceID != "" { // which loses it
			from, err := s.NetworkInterfaces.GetRecord(c.Scope, &address.NetworkInterfaceID)
			if err != nil {
				return err
			}
			if err := CheckRequester(c, from); err != nil {
				return err
			}
		}
		private := aws.ToString(in.PrivateIpAddress)
		association, err = AssociateAddress(c, address.ID, ni, private, aws.ToBool(in.AllowReassociation))
		if err != nil {
			return err
		}
		if address.NetworkInterfaceID != "" && address.NetworkInterfaceID != ni.ID {
			if err := restorePublicIP(c, address); err != nil {
				return err
			}
		}
		return s.NetworkInterfaces.UpdateRecord(c, ni.ID, func(ni *record.NetworkInterface) error {
			if private == "" || private == ni.PrivateIPs[0] {
				ReleasePublicIP(c, ni)
			}
			return nil
		})
	})
	return &ec2.AssociateAddressOutput{AssociationId: aws.String(association)}, err
}

// AssociateAddress points an elastic address at a private address (the primary when private is empty) of an
// interface, whose
// row the caller claims or creates.
func AssociateAddress(c *resource.Change, allocationID string, ni record.NetworkInterface, private string,
	again bool) (association string, err error) {
	if private == "" {
		private = ni.PrivateIPs[0]
	}
	if !slices.Contains(ni.PrivateIPs, private) {
		return "", resource.Invalid("The private IP address %s is not assigned to network interface '%s'.", private, ni.ID)
	}
	if attached, err := c.InternetGateways.HasMatch(c.Scope,
		func(r record.InternetGateway) bool { return r.VPCID == ni.VPCID }); err != nil {
		return "", err
	} else if !attached {
		return "", wire.Errorf("Gateway.NotAttached", "Network %s is not attached to any internet gateway", ni.VPCID)
	}
	// Those who detach the gateway hold the VPC.
	if err := c.RequireUnchanged(ni.VPCID); err != nil {
		return "", err
	}
	if other, ok := c.AddressesOf(c.Scope, ni.ID)[private]; ok && other.ID != allocationID {
		if !again {
			return "", wire.Errorf("Resource.AlreadyAssociated",
				"resource %s is already associated with associate-id %s", ni.ID, other.AssociationID)
		}
		if err := dissociate(c, ni.ID, []string{private}); err != nil {
			return "", err
		}
	}
	return association, c.Addresses.UpdateRecord(c, allocationID, func(r *record.Address) error {
		there := r.NetworkInterfaceID == ni.ID && r.PrivateIPAddress == private
		if r.AssociationID != "" && !there && !again {
			return wire.Errorf("Resource.AlreadyAssociated", "resource %s is already associated with associate-id %s",
				r.ID, r.AssociationID)
		}
		if !there {
			r.AssociationID, r.NetworkInterfaceID, r.PrivateIPAddress = resource.NewID("eipassoc-"), ni.ID, private
		}
		association = r.AssociationID
		return nil
	})
}

// dissociate takes the elastic addresses from some private addresses of an interface.
func dissociate(c *resource.Change, interfaceID string, private []string) error {
	elastic := c.AddressesOf(c.Scope, interfaceID)
	for _, p := range private {
		if a, ok := elastic[p]; ok {
			if err := c.Addresses.UpdateRecord(c, a.ID, func(r *record.Address) error {
				r.AssociationID, r.NetworkInterfaceID, r.PrivateIPAddress = "", "", ""
				return nil
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// DisassociateAddress takes an elastic IP address from its network interface.
func (s *Service) DisassociateAddress(ctx context.Context, in *ec2.DisassociateAddressInput) (
	*ec2.DisassociateAddressOutput, error) {
	return &ec2.DisassociateAddressOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		var address record.Address
		switch {
		case in.AssociationId != nil:
			found, err := s.Addresses.List(c.Scope,
				func(r record.Address) bool { return r.AssociationID == *in.AssociationId })
			if err != nil {
				return err
			}
			if *in.AssociationId == "" || len(found) == 0 {
				return wire.Errorf("InvalidAssociationID.NotFound", "The association ID '%s' does not exist",
					*in.AssociationId)
			}
			address = found[0]
		case in.PublicIp != nil:
			var err error
			if address, err = s.RequestedAddress(c.Scope, nil, in.PublicIp); err != nil {
				return err
			}
		default:
			return resource.MissingParameter("associationId")
		}
		if address.AssociationID == "" {
			return nil
		}
		ni, err := s.NetworkInterfaces.GetRecord(c.Scope, &address.NetworkInterfaceID)
		if err != nil {
			return err
		}
		if err := CheckRequester(c, ni); err != nil {
			return err
		}
		if err := dissociate(c, ni.ID, []string{address.PrivateIPAddress}); err != nil {
			return err
		}
		return restorePublicIP(c, address)
	})
}

// restorePublicIP lends the instance that an elastic address pointed at a public address again, if it had one before.
func restorePublicIP(c *resource.Change, address record.Address) error {
	ni, err := c.NetworkInterfaces.GetRecord(c.Scope, &address.NetworkInterfaceID)
	if err != nil || !ni.AutoPublicIP || ni.PublicIP != "" || ni.PrivateIPs[0] != address.PrivateIPAddress ||
		ni.Attachment == nil {
		return err
	}
	holder, err := c.Instances.GetRecord(c.Scope, &ni.Attachment.InstanceID)
	if err != nil || holder.Wanted != types.InstanceStateNameRunning {
		return err
	}
	return c.NetworkInterfaces.UpdateRecord(c, ni.ID, func(ni *record.NetworkInterface) error {
		return AssignPublicIP(c, ni)
	})
}

// DescribeAddressesAttribute shows the reverse DNS names of elastic IP addresses.
func (s *Service) DescribeAddressesAttribute(ctx context.Context, in *ec2.DescribeAddressesAttributeInput) (
	*ec2.DescribeAddressesAttributeOutput, error) {
	if in.Attribute != "" && in.Attribute != types.AddressAttributeNameDomainName {
		return nil, resource.InvalidValue(in.Attribute, "attribute", "")
	}
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	query := resource.Query{Operation: "DescribeAddressesAttribute", DryRun: in.DryRun, IDs: in.AllocationIds,
		Max: in.MaxResults, Token: in.NextToken}
	if err := query.CheckPage(); err != nil {
		return nil, err
	}
	rows, err := s.Addresses.ListByID(sc, in.AllocationIds)
	if err != nil {
		return nil, err
	}
	var all []resource.Item[types.AddressAttribute]
	for _, r := range rows {
		if r.PTRRecord != "" {
			all = append(all, resource.Item[types.AddressAttribute]{ID: r.ID, View: *viewPTR(r)})
		}
	}
	found, next, err := resource.DescribeItems(ctx, query, all, nil, nil)
	return &ec2.DescribeAddressesAttributeOutput{Addresses: found, NextToken: next}, err
}

func viewPTR(r record.Address) *types.AddressAttribute {
	return &types.AddressAttribute{AllocationId: aws.String(r.ID), PublicIp: aws.String(r.PublicIP),
		PtrRecord: resource.OrNil(r.PTRRecord)}
}

// setPTRRecord changes the reverse DNS name of an elastic IP address.
func (s *Service) setPTRRecord(ctx context.Context, dryRun *bool, allocation *string,
	name string) (*types.AddressAttribute, error) {
	var after record.Address
	err := s.ApplyChange(ctx, dryRun, func(c *resource.Change) error {
		return s.Addresses.UpdateRecord(c, aws.ToString(allocation), func(r *record.Address) error {
			r.PTRRecord = name
			after = *r
			return nil
		})
	})
	return viewPTR(after), err
}

// ModifyAddressAttribute gives an elastic IP address a reverse DNS name.
func (s *Service) ModifyAddressAttribute(ctx context.Context, in *ec2.ModifyAddressAttributeInput) (
	*ec2.ModifyAddressAttributeOutput, error) {
	if aws.ToString(in.DomainName) == "" {
		return nil, resource.MissingParameter("domainName")
	}
	view, err := s.setPTRRecord(ctx, in.DryRun, in.AllocationId, *in.DomainName)
	return &ec2.ModifyAddressAttributeOutput{Address: view}, err
}

// ResetAddressAttribute takes the reverse DNS name from an elastic IP address.
func (s *Service) ResetAddressAttribute(ctx context.Context, in *ec2.ResetAddressAttributeInput) (
	*ec2.ResetAddressAttributeOutput, error) {
	view, err := s.setPTRRecord(ctx, in.DryRun, in.AllocationId, "")
	return &ec2.ResetAddressAttributeOutput{Address: view}, err
}

// AssignPublicIP gives the primary address of an interface a public address of Amazon's. There is no elastic one that
// points at it.
func AssignPublicIP(c *resource.Change, ni *record.NetworkInterface) (err error) {
	ni.PublicIP, err = pickPublicIP(c, ni.ID)
	return err
}

// ReleasePublicIP takes the public address from an interface that it was lent to, if one was.
func ReleasePublicIP(c *resource.Change, ni *record.NetworkInterface) {
	if ni.PublicIP != "" {
		freePublicIP(c, ni.PublicIP)
		ni.PublicIP = ""
	}
}

// AmazonOwner owns the public addresses that are lent.
const AmazonOwner = "amazon"
