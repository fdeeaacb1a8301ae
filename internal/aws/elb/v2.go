package elb

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// V2 serves the API of Application and Network Load Balancers. Gateway Load Balancers are refused.
type V2 struct{ *service }

// handlers returns the handlers of the API and how each is authorized.
func (s V2) handlers() []wire.Handler {
	return slices.Concat(s.balancerHandlers(), s.groupHandlers(), s.listenerHandlers(), s.targetHandlers(),
		s.ruleHandlers(), s.certificateHandlers(), s.attributeHandlers(), s.tagHandlers())
}

var (
	balancers = []string{"loadbalancer"}
	groups    = []string{"targetgroup"}
	listeners = []string{"listener"}
	rules     = []string{"listener-rule"}
)

// targets returns what an ARN names as the only target.
func (s V2) targets(ctx context.Context, action string, arn *string, kinds []string) ([]wire.Target, error) {
	t, err := s.targetOf(ctx, action, arn, kinds)
	return []wire.Target{t}, err
}

// targetOfNew returns the target of a request that creates a resource, whose ARN has an ID.
func targetOfNew(ctx context.Context, action, path string, tags []tag) wire.Target {
	at := placeOf(ctx)
	t := wire.Target{Action: action, Resource: record.LoadBalancingARN(at.account, at.region, path),
		Conditions: map[string][]string{}}
	addTags(t.Conditions, nil, tags)
	return t
}

// balancerHandlers returns the handlers of this file's operations and how each is authorized.
func (s V2) balancerHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateLoadBalancer, func(
			ctx context.Context, action string, in *elasticloadbalancingv2.CreateLoadBalancerInput,
		) ([]wire.Target, error) {
			tags := v2Tags(in.Tags)
			api := "app"
			if in.Type == types.LoadBalancerTypeEnumNetwork {
				api = "net"
			}
			t := targetOfNew(ctx, action, "loadbalancer/"+api+"/"+aws.ToString(in.Name)+"/*", tags)
			t.Conditions["elasticloadbalancing:Scheme"] = []string{schemeAsked(string(in.Scheme))}
			subnets, groups, err := subnetsOfRequest(in.Subnets, in.SubnetMappings), in.SecurityGroups, error(nil)
			if api == "app" {
				groups, err = s.groupsAsked(ctx, groups, subnets)
			}
			t.Conditions["elasticloadbalancing:SecurityGroup"] = groups
			t.Conditions["elasticloadbalancing:Subnet"] = subnets
			return withTagging([]wire.Target{t}, "", tags), err
		}),
		wire.Handle(s.DeleteLoadBalancer, func(
			ctx context.Context, action string, in *elasticloadbalancingv2.DeleteLoadBalancerInput,
		) ([]wire.Target, error) {
			return s.targets(ctx, action, in.LoadBalancerArn, balancers)
		}),
		wire.Handle(s.DescribeLoadBalancers, wire.OnAll),
		wire.Handle(s.DescribeAccountLimits, wire.OnAll),
		wire.Handle(s.DescribeCapacityReservation, wire.OnAll),
		wire.Handle(s.SetSecurityGroups, func(
			ctx context.Context, action string, in *elasticloadbalancingv2.SetSecurityGroupsInput,
		) ([]wire.Target, error) {
			t, err := s.targetOf(ctx, action, in.LoadBalancerArn, balancers)
			if err == nil {
				t.Conditions["elasticloadbalancing:SecurityGroup"] = in.SecurityGroups
			}
			return []wire.Target{t}, err
		}),
		wire.Handle(s.SetSubnets, func(
			ctx context.Context, action string, in *elasticloadbalancingv2.SetSubnetsInput,
		) ([]wire.Target, error) {
			t, err := s.targetOf(ctx, action, in.LoadBalancerArn, balancers)
			if err == nil {
				t.Conditions["elasticloadbalancing:Subnet"] = subnetsOfRequest(in.Subnets, in.SubnetMappings)
			}
			return []wire.Target{t}, err
		}),
		wire.Handle(s.SetIpAddressType, func(
			ctx context.Context, action string, in *elasticloadbalancingv2.SetIpAddressTypeInput,
		) ([]wire.Target, error) {
			return s.targets(ctx, action, in.LoadBalancerArn, balancers)
		}),
	}
}

// schemeAsked returns the scheme that a request leads to: policies are about what is made, not about what is said.
func schemeAsked(scheme string) string { return cmp.Or(scheme, record.SchemeInternetFacing) }

func subnetsOfRequest(subnets []string, mappings []types.SubnetMapping) []string {
	all := slices.Clone(subnets)
	for _, m := range mappings {
		all = append(all, aws.ToString(m.SubnetId))
	}
	return all
}

func v2Tags(list []types.Tag) (tags []tag) {
	for _, t := range list {
		tags = append(tags, tag{aws.ToString(t.Key), aws.ToString(t.Value)})
	}
	return tags
}

// CreateLoadBalancer creates a load balancer. It returns the one that has the name already if that was made with the
// same settings.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateLoadBalancer.html
func (s V2) CreateLoadBalancer(ctx context.Context, in *elasticloadbalancingv2.CreateLoadBalancerInput) (
	*elasticloadbalancingv2.CreateLoadBalancerOutput, error) {
	b, wanted, err := s.newBalancer(ctx, in)
	if err != nil {
		return nil, err
	}
	taken := wire.Errorf("DuplicateLoadBalancerName", "A load balancer with the same name '%s' exists, but with "+
		"different settings", b.Name)
	most, kind := maxNetwork, "Network"
	if b.Kind == record.ApplicationLoadBalancer {
		most, kind = maxApplication, "Application"
	}
	full := wire.Errorf("TooManyLoadBalancers", "The maximum number of %s Load Balancers, %d, has been reached", kind,
		most)
	made := b
	err = s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
		b.Zones, b.VPCID, b.SecurityGroupIDs = nil, "", in.SecurityGroups
		if row, err := s.balancers.Get(c, b.Key()); err == nil {
			asked := b
			if asked.VPCID = row.Value.VPCID; s.addDefaultGroup(c, &asked) == nil && isAsAsked(row.Value, asked, wanted) {
				made = row.Value
				return nil
			}
		}
		if err := s.checkNew(c, b, most, taken, full); err != nil {
			return err
		}
		if err := s.planZones(c, &b, wanted); err != nil {
			return err
		}
		if err := checkZones(b); err != nil {
			return err
		}
		if err := s.addDefaultGroup(c, &b); err != nil {
			return err
		}
		c.Add("loadbalancer/"+b.Key(), func() store.Op { return s.balancers.CreateOp(b.Key(), b) })
		made = b
		return nil
	})
	if err != nil {
		return nil, err
	}
	status, err := s.getStatus(ctx, made)
	return &elasticloadbalancingv2.CreateLoadBalancerOutput{
		LoadBalancers: []types.LoadBalancer{describeBalancer(made, status)}}, err
}

// addDefaultGroup gives a load balancer that must have security groups, and has none, that of its VPC.
func (s V2) addDefaultGroup(c *resource.Change, b *record.LoadBalancer) error {
	if b.Kind == record.NetworkLoadBalancer || len(b.SecurityGroupIDs) > 0 {
		return nil
	}
	group, err := c.SecurityGroupNamed(c.Scope, b.VPCID, "default")
	if err != nil {
		return err
	}
	b.SecurityGroupIDs = []string{group.ID}
	return nil
}

// checkZones refuses an Application Load Balancer in one Availability Zone.
func checkZones(b record.LoadBalancer) error {
	if b.Kind == record.ApplicationLoadBalancer && len(b.Zones) < 2 {
		return invalid("At least two subnets in two different Availability Zones must be specified")
	}
	return nil
}

// isAsAsked reports whether a load balancer has the settings of one that is to be made, and its places.
func isAsAsked(b, asked record.LoadBalancer, wanted []zoneRequest) bool {
	return b.Kind == asked.Kind && b.Scheme == asked.Scheme && sameElements(b.SecurityGroupIDs, asked.SecurityGroupIDs) &&
		maps.Equal(b.Tags, asked.Tags) && len(b.Zones) == len(wanted) &&
		!slices.ContainsFunc(wanted, func(w zoneRequest) bool {
			return !slices.ContainsFunc(b.Zones, func(z record.LoadBalancerZone) bool {
				return z.SubnetID == w.subnet && z.AllocationID == w.allocation &&
					(w.address == "" || w.address == z.PrivateIP)
			})
		})
}

func sameElements(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// newBalancer returns the load balancer that a request describes, without its places, and the places that it asks for.
func (s V2) newBalancer(ctx context.Context, in *elasticloadbalancingv2.CreateLoadBalancerInput) (
	b record.LoadBalancer, wanted []zoneRequest, err error) {
	at, name := placeOf(ctx), aws.ToString(in.Name)
	if err := checkName("Load balancer name", name); err != nil {
		return b, nil, err
	}
	if strings.HasPrefix(name, "internal-") {
		return b, nil, invalid("Load balancer name '%s' cannot begin with 'internal-'", name)
	}
	kind := record.NetworkLoadBalancer
	switch in.Type {
	case types.LoadBalancerTypeEnumNetwork:
	case "", types.LoadBalancerTypeEnumApplication:
		kind = record.ApplicationLoadBalancer
	case types.LoadBalancerTypeEnumGateway:
		return b, nil, wire.Errorf("OperationNotPermitted", "coracle does not have Gateway Load Balancers: create one of "+
			"the type 'application' or 'network'")
	default:
		return b, nil, invalid("Load balancer type '%s' must be one of: application, network, gateway", in.Type)
	}
	switch {
	case in.IpAddressType != "" && in.IpAddressType != types.IpAddressTypeIpv4:
		return b, nil, invalidConfiguration("coracle has load balancers with the IP address type 'ipv4' alone, not '%s'",
			in.IpAddressType)
	case in.CustomerOwnedIpv4Pool != nil:
		return b, nil, invalidConfiguration("Customer-owned address pools are for Outposts")
	case in.IpamPools != nil:
		return b, nil, invalidConfiguration("coracle has no IPAM pools")
	case in.EnablePrefixForIpv6SourceNat == types.EnablePrefixForIpv6SourceNatEnumOn:
		return b, nil, prefixesNeedIPv6()
	case hasDuplicate(in.SecurityGroups):
		return b, nil, wire.Errorf("InvalidSecurityGroup", "A security group is given twice")
	}
	b = record.LoadBalancer{
		Account: at.account, Region: at.region, Kind: kind, Name: name, ID: newID(),
		CreatedAt: s.timestamp(), Scheme: record.SchemeInternetFacing, SecurityGroupIDs: in.SecurityGroups,
	}
	switch in.Scheme {
	case "", types.LoadBalancerSchemeEnumInternetFacing:
	case types.LoadBalancerSchemeEnumInternal:
		b.Scheme = record.SchemeInternal
	default:
		return b, nil, invalid("Load balancer scheme '%s' must be one of: internet-facing, internal", in.Scheme)
	}
	b.DNSName = fmt.Sprintf("%s-%s.elb.%s.amazonaws.com", name, b.ID, at.region)
	if kind == record.ApplicationLoadBalancer {
		b.DNSName = applicationName(b)
		if b.Application, err = newSecrets(); err != nil {
			return b, nil, err
		}
	}
	if b.Tags, err = applyTags(ctx, nil, v2Tags(in.Tags)); err != nil {
		return b, nil, err
	}
	wanted, err = requestedZones(b, in.Subnets, in.SubnetMappings)
	return b, wanted, err
}

func prefixesNeedIPv6() error {
	return invalidConfiguration("Prefixes for source NAT are for load balancers with IPv6 addresses")
}

// applicationName returns the DNS name of an Application Load Balancer.
func applicationName(b record.LoadBalancer) string {
	number, _ := strconv.ParseUint(b.ID, 16, 64) // IDs are hexadecimal numbers
	name := fmt.Sprintf("%s-%d.%s.elb.amazonaws.com", b.Name, 100000000+number%1900000000, b.Region)
	if b.Scheme == record.SchemeInternal {
		name = "internal-" + name
	}
	return name
}

// newSecrets returns the secrets of a new Application Load Balancer.
func newSecrets() (*record.ApplicationSecrets, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate the signing key of a load balancer: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode the signing key of a load balancer: %w", err)
	}
	seal := make([]byte, 32)
	rand.Read(seal) // never fails
	return &record.ApplicationSecrets{Seal: seal, SigningKeyID: uuid.NewString(),
		SigningKey: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))}, nil
}

func requestedZones(b record.LoadBalancer, subnets []string, mappings []types.SubnetMapping) (
	all []zoneRequest, err error) {
	switch {
	case len(subnets) > 0 && len(mappings) > 0:
		return nil, invalid("You must specify either subnets or subnet mappings, not both")
	case len(subnets) == 0 && len(mappings) == 0:
		return nil, invalid("At least one subnet must be specified")
	case hasDuplicate(subnetsOfRequest(subnets, mappings)):
		return nil, invalidConfiguration("A subnet is given twice")
	}
	for _, id := range subnets {
		all = append(all, zoneRequest{subnet: id})
	}
	for _, m := range mappings {
		z := zoneRequest{subnet: aws.ToString(m.SubnetId), allocation: aws.ToString(m.AllocationId),
			address: aws.ToString(m.PrivateIPv4Address)}
		switch {
		case b.Kind == record.ApplicationLoadBalancer && (z.allocation != "" || z.address != ""):
			return nil, invalidConfiguration("Elastic IP addresses and private IPv4 addresses are for Network Load Balancers")
		case m.IPv6Address != nil || m.SourceNatIpv6Prefix != nil:
			return nil, invalidConfiguration("IPv6 addresses need the IP address type 'dualstack', which coracle does not " +
				"have for load balancers")
		case z.allocation != "" && b.Scheme == record.SchemeInternal:
			return nil, invalidConfiguration("An internal load balancer cannot have an elastic IP address")
		case z.address != "" && b.Scheme == record.SchemeInternetFacing:
			return nil, invalidConfiguration("A private IPv4 address can be given for an internal load balancer alone")
		}
		all = append(all, z)
	}
	return all, nil
}

func describeBalancer(b record.LoadBalancer, status record.LoadBalancerStatus) types.LoadBalancer {
	state := types.LoadBalancerState{Code: types.LoadBalancerStateEnumProvisioning}
	switch {
	case status.ID != b.ID:
	case status.Failure != "":
		state.Code, state.Reason = types.LoadBalancerStateEnumFailed, new(status.Failure)
	case status.Active:
		state.Code = types.LoadBalancerStateEnumActive
	}
	d := types.LoadBalancer{
		LoadBalancerArn: aws.String(b.ARN()), LoadBalancerName: &b.Name, DNSName: &b.DNSName, CreatedTime: &b.CreatedAt,
		CanonicalHostedZoneId: hostedZone(b.Region, b.Kind), IpAddressType: types.IpAddressTypeIpv4,
		Scheme: types.LoadBalancerSchemeEnum(b.Scheme), SecurityGroups: b.SecurityGroupIDs, State: &state,
		Type: types.LoadBalancerTypeEnum(b.Kind), VpcId: &b.VPCID,
	}
	if b.Kind == record.NetworkLoadBalancer {
		d.EnablePrefixForIpv6SourceNat = types.EnablePrefixForIpv6SourceNatEnumOff
	}
	if enforced := enforcedOnPrivateLink(b); enforced != "" {
		d.EnforceSecurityGroupInboundRulesOnPrivateLinkTraffic = new(string(enforced))
	}
	for _, z := range b.Zones {
		zone := types.AvailabilityZone{ZoneName: new(z.Name), SubnetId: new(z.SubnetID),
			LoadBalancerAddresses: []types.LoadBalancerAddress{}}
		if z.AllocationID != "" {
			zone.LoadBalancerAddresses = append(zone.LoadBalancerAddresses, types.LoadBalancerAddress{
				AllocationId: new(z.AllocationID), IpAddress: new(z.PublicIP)})
		}
		if z.Fixed {
			zone.LoadBalancerAddresses = append(zone.LoadBalancerAddresses, types.LoadBalancerAddress{
				PrivateIPv4Address: new(z.PrivateIP)})
		}
		d.AvailabilityZones = append(d.AvailabilityZones, zone)
	}
	return d
}

// getStatus returns what was observed of a load balancer.
func (s V2) getStatus(ctx context.Context, b record.LoadBalancer) (record.LoadBalancerStatus, error) {
	row, err := s.statuses.Get(ctx, b.Key())
	if errors.Is(err, store.ErrNotFound) {
		return record.LoadBalancerStatus{}, nil
	}
	return row.Value, err
}

// listBalancers returns the load balancers of the request's account and region.
func (s V2) listBalancers(ctx context.Context) (all []record.LoadBalancer, err error) {
	at := placeOf(ctx)
	rows, err := s.balancers.List(ctx, store.Prefix(at.account, at.region, "v2"))
	for _, row := range rows {
		all = append(all, row.Value)
	}
	return all, err
}

// DescribeLoadBalancers describes load balancers.
func (s V2) DescribeLoadBalancers(ctx context.Context, in *elasticloadbalancingv2.DescribeLoadBalancersInput) (
	*elasticloadbalancingv2.DescribeLoadBalancersOutput, error) {
	switch {
	case len(in.Names) > 0 && len(in.LoadBalancerArns) > 0:
		return nil, invalid("Load balancer names and load balancer ARNs cannot be specified at the same time")
	case len(in.Names) > 20 || len(in.LoadBalancerArns) > 20:
		return nil, invalid("At most 20 load balancers can be specified")
	}
	found, err := s.listBalancers(ctx)
	if err != nil {
		return nil, err
	}
	if len(in.Names) > 0 {
		found = slices.DeleteFunc(found, func(b record.LoadBalancer) bool { return !slices.Contains(in.Names, b.Name) })
		if len(found) < len(slices.Compact(slices.Sorted(slices.Values(in.Names)))) {
			return nil, loadBalancersNotFound(in.Names)
		}
	}
	for _, arn := range in.LoadBalancerArns {
		if _, ok := parseARN(arn, "loadbalancer"); !ok {
			return nil, invalidARN(arn, "load balancer")
		}
		if !slices.ContainsFunc(found, func(b record.LoadBalancer) bool { return b.ARN() == arn }) {
			return nil, loadBalancersNotFound(in.LoadBalancerArns)
		}
	}
	if len(in.LoadBalancerArns) > 0 {
		found = slices.DeleteFunc(found,
			func(b record.LoadBalancer) bool { return !slices.Contains(in.LoadBalancerArns, b.ARN()) })
	}
	page, next, err := wire.Page(ctx, found, in.PageSize, in.Marker, func(b record.LoadBalancer) string { return b.Name })
	if err != nil {
		return nil, err
	}
	out := &elasticloadbalancingv2.DescribeLoadBalancersOutput{NextMarker: next, LoadBalancers: []types.LoadBalancer{}}
	for _, b := range page {
		status, err := s.getStatus(ctx, b)
		if err != nil {
			return nil, err
		}
		out.LoadBalancers = append(out.LoadBalancers, describeBalancer(b, status))
	}
	return out, nil
}

func loadBalancersNotFound(wanted []string) error {
	return wire.Errorf("LoadBalancerNotFound", "Load balancers '[%s]' not found", strings.Join(wanted, ", "))
}

// DeleteLoadBalancer deletes a load balancer with its listeners. Its target groups stay. It succeeds when there is
// none.
func (s V2) DeleteLoadBalancer(ctx context.Context, in *elasticloadbalancingv2.DeleteLoadBalancerInput) (
	*elasticloadbalancingv2.DeleteLoadBalancerOutput, error) {
	return &elasticloadbalancingv2.DeleteLoadBalancerOutput{}, s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
		row, err := s.getBalancer(c, in.LoadBalancerArn)
		if isNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		b := row.Value
		if b.Attribute("deletion_protection.enabled", "false") == "true" {
			return wire.Errorf("OperationNotPermitted", "Load balancer '%s' cannot be deleted because deletion protection is "+
				"enabled", b.ARN())
		}
		if s.leading.Count(b.ARN()) > 0 {
			return wire.Errorf("ResourceInUse", "Load balancer '%s' cannot be deleted because it is registered as a target: "+
				"deregister it from all target groups", b.ARN())
		}
		if err := planRemoval(c, b.Zones); err != nil {
			return err
		}
		for _, group := range b.TargetGroups() {
			if err := s.planUse(c, b, group, ""); err != nil {
				return err
			}
		}
		c.Add("loadbalancer/"+row.Key, func() store.Op { return s.balancers.DeleteOp(row) })
		return nil
	})
}

// planUse records which load balancer uses a target group, or that none does.
func (s V2) planUse(c *resource.Change, b record.LoadBalancer, group, user string) error {
	row, err := s.groups.Copy(c, record.TargetGroupKey(b.Account, b.Region, group))
	if errors.Is(err, store.ErrNotFound) && user == "" {
		return nil
	}
	if err != nil {
		return err
	}
	row.Value.LoadBalancer = user
	c.Add("targetgroup/"+row.Key, func() store.Op { return s.groups.UpdateOp(row) })
	return nil
}

// DescribeCapacityReservation says that no capacity is reserved.
func (s V2) DescribeCapacityReservation(ctx context.Context,
	in *elasticloadbalancingv2.DescribeCapacityReservationInput) (
	*elasticloadbalancingv2.DescribeCapacityReservationOutput, error) {
	if _, err := s.getBalancer(ctx, in.LoadBalancerArn); err != nil {
		return nil, err
	}
	return &elasticloadbalancingv2.DescribeCapacityReservationOutput{
		CapacityReservationState: []types.ZonalCapacityReservationState{}}, nil
}

// DescribeAccountLimits returns the quotas of the account.
func (V2) DescribeAccountLimits(ctx context.Context, in *elasticloadbalancingv2.DescribeAccountLimitsInput) (
	*elasticloadbalancingv2.DescribeAccountLimitsOutput, error) {
	limit := func(name string, most int) types.Limit {
		return types.Limit{Name: &name, Max: aws.String(strconv.Itoa(most))}
	}
	page, next, err := wire.Page(ctx, []types.Limit{
		limit("application-load-balancers", maxApplication), limit("network-load-balancers", maxNetwork),
		limit("gateway-load-balancers", 0), limit("target-groups", maxTargetGroups),
		limit("listeners-per-application-load-balancer", maxListeners),
		limit("listeners-per-network-load-balancer", maxListeners),
		limit("rules-per-application-load-balancer", maxRules),
		limit("certificates-per-application-load-balancer", maxCertificates),
		limit("certificates-per-network-load-balancer", maxCertificates),
		limit("condition-values-per-alb-rule", maxConditionValues),
		limit("condition-wildcards-per-alb-rule", maxWildcards),
		limit("target-groups-per-application-load-balancer", maxGroupsPerBalancer),
		limit("target-groups-per-action-on-application-load-balancer", maxGroupsPerAction),
		limit("target-groups-per-action-on-network-load-balancer", 1),
		limit("targets-per-target-group", maxTargetsPerGroup),
		limit("targets-per-application-load-balancer", maxTargetsPerGroup),
		limit("targets-per-network-load-balancer", maxTargetsPerGroup),
	}, in.PageSize, in.Marker, func(l types.Limit) string { return *l.Name })
	return &elasticloadbalancingv2.DescribeAccountLimitsOutput{Limits: page, NextMarker: next}, err
}
