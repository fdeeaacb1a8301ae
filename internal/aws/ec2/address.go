package ec2

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// defaultPublicRange is half of the range for benchmarks (RFC 2544), which nobody routes, so that an address of ours is
// never somebody's.
var defaultPublicRange = netip.MustParsePrefix("198.18.0.0/16")

func (s *Service) addressKind() kind[record.Address, types.Address] {
	type v = types.Address
	return kind[record.Address, v]{
		naming: naming{
			resource: types.ResourceTypeElasticIp, prefix: "eipalloc-", noun: "allocation ID", param: "allocationId",
			notFound: "InvalidAllocationID.NotFound", malformed: "InvalidAllocationID.Malformed",
		},
		table:  record.Addresses(s.store),
		view:   s.viewAddress,
		tagged: func(x v) []types.Tag { return x.Tags },
		filters: filters[v]{
			"allocation-id":              stringFilter(func(x v) *string { return x.AllocationId }),
			"association-id":             stringFilter(func(x v) *string { return x.AssociationId }),
			"domain":                     enumFilter(func(x v) types.DomainType { return x.Domain }),
			"instance-id":                stringFilter(func(x v) *string { return x.InstanceId }),
			"network-border-group":       stringFilter(func(x v) *string { return x.NetworkBorderGroup }),
			"network-interface-id":       stringFilter(func(x v) *string { return x.NetworkInterfaceId }),
			"network-interface-owner-id": stringFilter(func(x v) *string { return x.NetworkInterfaceOwnerId }),
			"private-ip-address":         stringFilter(func(x v) *string { return x.PrivateIpAddress }),
			"public-ip":                  stringFilter(func(x v) *string { return x.PublicIp }),
		},
	}
}

func (s *Service) viewAddress(in scope, r record.Address) types.Address {
	v := types.Address{
		AllocationId:       aws.String(r.ID),
		Domain:             types.DomainTypeVpc,
		NetworkBorderGroup: aws.String(r.Region),
		PublicIp:           aws.String(r.PublicIP),
		PublicIpv4Pool:     aws.String("amazon"),
		Tags:               s.listTags(in, r.ID),
	}
	if r.AssociationID != "" {
		v.AssociationId = aws.String(r.AssociationID)
		v.NetworkInterfaceId = aws.String(r.NetworkInterfaceID)
		v.NetworkInterfaceOwnerId = aws.String(r.Account)
		v.PrivateIpAddress = aws.String(r.PrivateIPAddress)
		if ni, err := s.interfaces.getRecord(in, &r.NetworkInterfaceID); err == nil && ni.Attachment != nil {
			v.InstanceId = optional(ni.Attachment.InstanceID)
		}
	}
	return v
}

// addressesOf are the elastic addresses of a network interface, by private address.
func (s *Service) addressesOf(in scope, interfaceID string) map[string]record.Address {
	byPrivate := map[string]record.Address{}
	for _, r := range mustRead(s.addresses.list(in,
		func(r record.Address) bool { return r.NetworkInterfaceID == interfaceID })) {
		byPrivate[r.PrivateIPAddress] = r
	}
	return byPrivate
}

// infrastructure is how many addresses at the beginning of the public range are never given: machines' hosts use them.
const infrastructure = 256

// pickPublicIP claims a public address that is in no account's use.
func (c *change) pickPublicIP(owner string) (string, error) {
	public := c.s.publicRange
	size := uint64(1)<<(32-public.Bits()) - infrastructure
	for i, start := uint64(0), rand.Uint64N(size); i < size; i++ {
		ip := addressAt(public, infrastructure+(start+i)%size).String()
		if _, taken := c.pending["public/"+ip]; taken {
			continue
		}
		if _, err := c.s.public.Get(c, store.Key(ip)); errors.Is(err, store.ErrNotFound) &&
			!reserved(public, netip.MustParseAddr(ip)) {
			c.add("public/"+ip, &pending{op: func() store.Op {
				return c.s.public.CreateOp(store.Key(ip), record.PublicIP{Account: c.account, Region: c.region,
					OwnerID: owner})
			}})
			return ip, nil
		}
	}
	return "", wire.Errorf("InsufficientAddressCapacity", "There are no free public addresses left in %s.", public)
}

// freePublicIP ends the claim to a public address.
func (c *change) freePublicIP(ip string) {
	c.add("public/"+ip, &pending{op: func() store.Op { return c.s.public.RemoveOp(store.Key(ip)) }})
}

// addressHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) addressHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.AllocateAddress, creating[ec2.AllocateAddressInput](s, types.ResourceTypeElasticIp)),
		wire.Handle(s.DescribeAddresses, onRegion),
		wire.Handle(s.ReleaseAddress, touching[ec2.ReleaseAddressInput](s)),
		wire.Handle(s.AssociateAddress, touching[ec2.AssociateAddressInput](s)),
		wire.Handle(s.DisassociateAddress, touching[ec2.DisassociateAddressInput](s)),
		wire.Handle(s.DescribeAddressesAttribute, onRegion),
		wire.Handle(s.ModifyAddressAttribute, touching[ec2.ModifyAddressAttributeInput](s)),
		wire.Handle(s.ResetAddressAttribute, touching[ec2.ResetAddressAttributeInput](s)),
	}
}

// AllocateAddress gives the account an elastic IP address.
func (s *Service) AllocateAddress(ctx context.Context, in *ec2.AllocateAddressInput) (*ec2.AllocateAddressOutput,
	error) {
	out, err := createResource(ctx, s, s.addresses, creation{dryRun: in.DryRun, tags: in.TagSpecifications},
		func(c *change, id string) error {
			switch {
			case in.Address != nil:
				return unsupported("Address")
			case in.IpamPoolId != nil:
				return unsupported("IpamPoolId")
			case in.CustomerOwnedIpv4Pool != nil:
				return unsupported("CustomerOwnedIpv4Pool")
			case in.Domain != "" && in.Domain != types.DomainTypeVpc:
				return invalidValue(in.Domain, "domain", "The domain must be vpc.")
			case in.PublicIpv4Pool != nil && *in.PublicIpv4Pool != "amazon":
				return wire.Errorf("InvalidPublicIpv4PoolID.NotFound", "The pool ID '%s' does not exist.",
					*in.PublicIpv4Pool)
			case in.NetworkBorderGroup != nil && *in.NetworkBorderGroup != c.region:
				return invalidValue(*in.NetworkBorderGroup, "networkBorderGroup", "")
			}
			if err := s.addresses.checkQuota(c.scope, maxAddresses, nil, "AddressLimitExceeded",
				"addresses"); err != nil {
				return err
			}
			ip, err := c.pickPublicIP(id)
			s.addresses.createRecord(c, record.Address{EC2Resource: c.identity(id, nil), PublicIP: ip})
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

// addressAsked is the address that a request names by allocation or by itself.
func (s *Service) addressAsked(in scope, allocation, publicIP *string) (record.Address, error) {
	if allocation != nil {
		return s.addresses.getRecord(in, allocation)
	}
	if publicIP == nil {
		return record.Address{}, missing("allocationId")
	}
	if _, err := netip.ParseAddr(*publicIP); err != nil {
		return record.Address{}, invalid("Invalid value '%s' for publicIp. Not a valid IPv4 address.", *publicIP)
	}
	found, err := s.addresses.list(in, func(r record.Address) bool { return r.PublicIP == *publicIP })
	if err == nil && len(found) == 0 {
		err = wire.Errorf("InvalidAddress.NotFound", "Address '%s' not found.", *publicIP)
	}
	if err != nil {
		return record.Address{}, err
	}
	return found[0], nil
}

// DescribeAddresses lists elastic IP addresses.
func (s *Service) DescribeAddresses(ctx context.Context, in *ec2.DescribeAddressesInput) (*ec2.DescribeAddressesOutput,
	error) {
	sc, err := s.requestScope(ctx)
	if err != nil {
		return nil, err
	}
	ids := slices.Clone(in.AllocationIds)
	for _, ip := range in.PublicIps {
		address, err := s.addressAsked(sc, nil, &ip)
		if err != nil {
			return nil, err
		}
		ids = append(ids, address.ID)
	}
	found, _, err := describe(ctx, s, s.addresses, query{DryRun: in.DryRun, IDs: ids, Filters: in.Filters})
	return &ec2.DescribeAddressesOutput{Addresses: found}, err
}

// ReleaseAddress gives an elastic IP address back.
func (s *Service) ReleaseAddress(ctx context.Context, in *ec2.ReleaseAddressInput) (*ec2.ReleaseAddressOutput, error) {
	return &ec2.ReleaseAddressOutput{}, s.applyChange(ctx, in.DryRun, func(c *change) error {
		address, err := s.addressAsked(c.scope, in.AllocationId, in.PublicIp)
		if err != nil {
			return err
		}
		if address, err = s.addresses.deleteRecord(c, address.ID); err != nil {
			return err
		}
		if address.AssociationID != "" {
			return wire.Errorf("InvalidIPAddress.InUse", "Address %s is in use.", address.PublicIP)
		}
		c.freePublicIP(address.PublicIP)
		return nil
	})
}

// AssociateAddress points an elastic IP address at a private address of a network interface.
func (s *Service) AssociateAddress(ctx context.Context, in *ec2.AssociateAddressInput) (*ec2.AssociateAddressOutput,
	error) {
	var association string
	err := s.applyChange(ctx, in.DryRun, func(c *change) error {
		address, err := s.addressAsked(c.scope, in.AllocationId, in.PublicIp)
		if err != nil {
			return err
		}
		asked := in.NetworkInterfaceId
		switch {
		case in.InstanceId != nil && asked != nil:
			return wire.Errorf("InvalidParameterCombination",
				"You may specify either an instance ID or a network interface ID, not both.")
		case in.InstanceId != nil:
			if asked, err = s.onlyInterface(c.scope, in.InstanceId); err != nil {
				return err
			}
		case asked == nil:
			return wire.Errorf("MissingParameter", "Either 'instanceId' or 'networkInterfaceId' must be specified.")
		}
		ni, err := s.interfaces.getRecord(c.scope, asked)
		if err != nil {
			return err
		}
		if err := c.mayManage(ni); err != nil {
			return err
		}
		private := aws.ToString(in.PrivateIpAddress)
		association, err = c.associate(address.ID, ni, private, aws.ToBool(in.AllowReassociation))
		if err != nil {
			return err
		}
		if address.NetworkInterfaceID != "" && address.NetworkInterfaceID != ni.ID {
			if err := c.restorePublicIP(address); err != nil {
				return err
			}
		}
		return s.interfaces.updateRecord(c, ni.ID, func(ni *record.NetworkInterface) error {
			if private == "" || private == ni.PrivateIPs[0] {
				c.takeBack(ni)
			}
			return nil
		})
	})
	return &ec2.AssociateAddressOutput{AssociationId: aws.String(association)}, err
}

// associate points an elastic address at a private address (the primary when private is empty) of an interface, whose
// row the caller claims or creates.
func (c *change) associate(allocationID string, ni record.NetworkInterface, private string,
	again bool) (association string, err error) {
	if private == "" {
		private = ni.PrivateIPs[0]
	}
	if !slices.Contains(ni.PrivateIPs, private) {
		return "", invalid("The private IP address %s is not assigned to network interface '%s'.", private, ni.ID)
	}
	if attached, err := c.s.igws.hasMatch(c.scope,
		func(r record.InternetGateway) bool { return r.VPCID == ni.VPCID }); err != nil {
		return "", err
	} else if !attached {
		return "", wire.Errorf("Gateway.NotAttached", "Network %s is not attached to any internet gateway", ni.VPCID)
	}
	// Those who detach the gateway hold the VPC.
	if err := c.requireUnchanged(ni.VPCID); err != nil {
		return "", err
	}
	if other, ok := c.s.addressesOf(c.scope, ni.ID)[private]; ok && other.ID != allocationID {
		if !again {
			return "", wire.Errorf("Resource.AlreadyAssociated",
				"resource %s is already associated with associate-id %s", ni.ID, other.AssociationID)
		}
		if err := c.dissociate(ni.ID, []string{private}); err != nil {
			return "", err
		}
	}
	return association, c.s.addresses.updateRecord(c, allocationID, func(r *record.Address) error {
		there := r.NetworkInterfaceID == ni.ID && r.PrivateIPAddress == private
		if r.AssociationID != "" && !there && !again {
			return wire.Errorf("Resource.AlreadyAssociated", "resource %s is already associated with associate-id %s",
				r.ID, r.AssociationID)
		}
		if !there {
			r.AssociationID, r.NetworkInterfaceID, r.PrivateIPAddress = newID("eipassoc-"), ni.ID, private
		}
		association = r.AssociationID
		return nil
	})
}

// dissociate takes the elastic addresses from some private addresses of an interface.
func (c *change) dissociate(interfaceID string, private []string) error {
	elastic := c.s.addressesOf(c.scope, interfaceID)
	for _, p := range private {
		if a, ok := elastic[p]; ok {
			if err := c.s.addresses.updateRecord(c, a.ID, func(r *record.Address) error {
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
	return &ec2.DisassociateAddressOutput{}, s.applyChange(ctx, in.DryRun, func(c *change) error {
		var address record.Address
		switch {
		case in.AssociationId != nil:
			found, err := s.addresses.list(c.scope,
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
			if address, err = s.addressAsked(c.scope, nil, in.PublicIp); err != nil {
				return err
			}
		default:
			return missing("associationId")
		}
		if address.AssociationID == "" {
			return nil
		}
		ni, err := s.interfaces.getRecord(c.scope, &address.NetworkInterfaceID)
		if err != nil {
			return err
		}
		if err := c.mayManage(ni); err != nil {
			return err
		}
		if err := c.dissociate(ni.ID, []string{address.PrivateIPAddress}); err != nil {
			return err
		}
		return c.restorePublicIP(address)
	})
}

// onlyInterface is the network interface of an instance that has one.
func (s *Service) onlyInterface(in scope, instanceID *string) (*string, error) {
	r, err := s.instances.getRecord(in, instanceID)
	if err != nil {
		return nil, err
	}
	switch state := s.stateOf(in, r); state {
	case types.InstanceStateNameRunning, types.InstanceStateNameStopped:
	default:
		return nil, wire.Errorf("InvalidInstanceID", "The %s instance '%s' is not in a valid state for this operation.",
			state, r.ID)
	}
	found, err := s.interfacesOf(in, r.ID)
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

// restorePublicIP lends the instance that an elastic address pointed at a public address again, if it had one before.
func (c *change) restorePublicIP(address record.Address) error {
	ni, err := c.s.interfaces.getRecord(c.scope, &address.NetworkInterfaceID)
	if err != nil || !ni.AutoPublicIP || ni.PublicIP != "" || ni.PrivateIPs[0] != address.PrivateIPAddress ||
		ni.Attachment == nil {
		return err
	}
	holder, err := c.s.instances.getRecord(c.scope, &ni.Attachment.InstanceID)
	if err != nil || holder.Wanted != types.InstanceStateNameRunning {
		return err
	}
	return c.s.interfaces.updateRecord(c, ni.ID, c.assignPublicIP)
}

// DescribeAddressesAttribute shows the reverse DNS names of elastic IP addresses.
func (s *Service) DescribeAddressesAttribute(ctx context.Context, in *ec2.DescribeAddressesAttributeInput) (
	*ec2.DescribeAddressesAttributeOutput, error) {
	if in.Attribute != "" && in.Attribute != types.AddressAttributeNameDomainName {
		return nil, invalidValue(in.Attribute, "attribute", "")
	}
	sc, err := s.requestScope(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := s.addresses.listByID(sc, in.AllocationIds)
	if err != nil {
		return nil, err
	}
	var all []item[types.AddressAttribute]
	for _, r := range rows {
		if r.PTRRecord != "" {
			all = append(all, item[types.AddressAttribute]{r.ID, *viewPTR(r)})
		}
	}
	found, next, err := describeItems(ctx, query{DryRun: in.DryRun, IDs: in.AllocationIds, Max: in.MaxResults,
		Token: in.NextToken}, "allocationIds", all, nil, nil)
	return &ec2.DescribeAddressesAttributeOutput{Addresses: found, NextToken: next}, err
}

func viewPTR(r record.Address) *types.AddressAttribute {
	return &types.AddressAttribute{AllocationId: aws.String(r.ID), PublicIp: aws.String(r.PublicIP),
		PtrRecord: optional(r.PTRRecord)}
}

// setPTRRecord changes the reverse DNS name of an elastic IP address.
func (s *Service) setPTRRecord(ctx context.Context, dryRun *bool, allocation *string,
	name string) (*types.AddressAttribute, error) {
	var after record.Address
	err := s.applyChange(ctx, dryRun, func(c *change) error {
		return s.addresses.updateRecord(c, aws.ToString(allocation), func(r *record.Address) error {
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
		return nil, missing("domainName")
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
