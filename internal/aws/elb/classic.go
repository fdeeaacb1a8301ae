package elb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Classic serves the API of Classic Load Balancers.
type Classic struct{ *service }

// handlers returns the handlers of the API and how each is authorized.
func (s Classic) handlers() []wire.Handler {
	return slices.Concat(s.balancerHandlers(), s.listenerHandlers(), s.instanceHandlers(), s.policyHandlers(),
		s.attributeHandlers())
}

// balancerHandlers returns the handlers of this file's operations and how each is authorized.
func (s Classic) balancerHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateLoadBalancer, func(
			ctx context.Context, action string, in *elasticloadbalancing.CreateLoadBalancerInput,
		) ([]wire.Target, error) {
			tags := classicTags(in.Tags)
			t, err := s.onClassic(ctx, action, aws.ToString(in.LoadBalancerName), tags...)
			if err != nil {
				return nil, err
			}
			sc, err := resource.ScopeOf(ctx)
			if err != nil {
				return nil, err
			}
			subnets := slices.Clone(in.Subnets)
			for _, zone := range in.AvailabilityZones {
				found, err := defaultSubnets(s.ec2, sc, zone)
				if err != nil {
					return nil, err
				}
				for _, subnet := range found {
					subnets = append(subnets, subnet.ID)
				}
			}
			t.Conditions["elasticloadbalancing:Subnet"] = subnets
			groups, err := s.groupsAsked(ctx, in.SecurityGroups, subnets)
			if err != nil {
				return nil, err
			}
			t.Conditions["elasticloadbalancing:SecurityGroup"] = groups
			t.Conditions["elasticloadbalancing:Scheme"] = []string{schemeAsked(aws.ToString(in.Scheme))}
			t.Conditions["elasticloadbalancing:ListenerProtocol"] = protocolsOf(in.Listeners)
			return withTagging([]wire.Target{t}, "", tags), nil
		}),
		wire.Handle(s.DeleteLoadBalancer, func(
			ctx context.Context, action string, in *elasticloadbalancing.DeleteLoadBalancerInput,
		) ([]wire.Target, error) {
			return s.onClassics(ctx, action, []string{aws.ToString(in.LoadBalancerName)})
		}),
		wire.Handle(s.DescribeLoadBalancers, wire.OnAll),
		wire.Handle(s.DescribeAccountLimits, wire.OnAll),
		wire.Handle(s.ApplySecurityGroupsToLoadBalancer, func(
			ctx context.Context, action string, in *elasticloadbalancing.ApplySecurityGroupsToLoadBalancerInput,
		) ([]wire.Target, error) {
			t, err := s.onClassic(ctx, action, aws.ToString(in.LoadBalancerName))
			if err == nil {
				t.Conditions["elasticloadbalancing:SecurityGroup"] = in.SecurityGroups
			}
			return []wire.Target{t}, err
		}),
		wire.Handle(s.AttachLoadBalancerToSubnets, func(
			ctx context.Context, action string, in *elasticloadbalancing.AttachLoadBalancerToSubnetsInput,
		) ([]wire.Target, error) {
			t, err := s.onClassic(ctx, action, aws.ToString(in.LoadBalancerName))
			if err == nil {
				t.Conditions["elasticloadbalancing:Subnet"] = in.Subnets
			}
			return []wire.Target{t}, err
		}),
		wire.Handle(s.DetachLoadBalancerFromSubnets, func(
			ctx context.Context, action string, in *elasticloadbalancing.DetachLoadBalancerFromSubnetsInput,
		) ([]wire.Target, error) {
			t, err := s.onClassic(ctx, action, aws.ToString(in.LoadBalancerName))
			if err == nil {
				t.Conditions["elasticloadbalancing:Subnet"] = in.Subnets
			}
			return []wire.Target{t}, err
		}),
		wire.Handle(s.AddTags, func(
			ctx context.Context, action string, in *elasticloadbalancing.AddTagsInput,
		) ([]wire.Target, error) {
			return s.onClassics(ctx, action, in.LoadBalancerNames, classicTags(in.Tags)...)
		}),
		wire.Handle(s.RemoveTags, func(
			ctx context.Context, action string, in *elasticloadbalancing.RemoveTagsInput,
		) ([]wire.Target, error) {
			targets, err := s.onClassics(ctx, action, in.LoadBalancerNames)
			for _, t := range targets {
				for _, key := range in.Tags {
					t.Conditions["aws:TagKeys"] = append(t.Conditions["aws:TagKeys"], aws.ToString(key.Key))
				}
			}
			return targets, err
		}),
		wire.Handle(s.DescribeTags, wire.OnAll),
	}
}

func classicTags(list []types.Tag) (tags []tag) {
	for _, t := range list {
		tags = append(tags, tag{aws.ToString(t.Key), aws.ToString(t.Value)})
	}
	return tags
}

func classicKey(ctx context.Context, name *string) string {
	at := placeOf(ctx)
	return record.LoadBalancerKey(at.account, at.region, record.ClassicLoadBalancer, aws.ToString(name))
}

func classicNotFound(name string) error {
	return wire.Errorf("LoadBalancerNotFound", "There is no ACTIVE Load Balancer named '%s'", name)
}

// getClassic returns the load balancer that a request names, to be changed.
func (s Classic) getClassic(ctx context.Context, name *string) (store.Row[record.LoadBalancer], error) {
	row, err := s.balancers.Copy(ctx, classicKey(ctx, name))
	if errors.Is(err, store.ErrNotFound) {
		err = classicNotFound(aws.ToString(name))
	}
	return row, err
}

// modify changes a load balancer, and returns it.
func (s Classic) modify(ctx context.Context, name *string, change func(*record.LoadBalancer) error) (
	record.LoadBalancer, error) {
	row, err := s.balancers.Modify(ctx, classicKey(ctx, name), change)
	if errors.Is(err, store.ErrNotFound) {
		err = classicNotFound(aws.ToString(name))
	}
	return row.Value, err
}

// apply changes a load balancer together with other records.
func (s Classic) apply(ctx context.Context, name *string, change func(*resource.Change, *record.LoadBalancer) error,
) error {
	return s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
		row, err := s.balancers.Copy(c, classicKey(ctx, name))
		if errors.Is(err, store.ErrNotFound) {
			err = classicNotFound(aws.ToString(name))
		}
		if err != nil {
			return err
		}
		if err := change(c, &row.Value); err != nil {
			return err
		}
		s.planUpdate(c, row)
		return nil
	})
}

// CreateLoadBalancer creates a load balancer.
// https://docs.aws.amazon.com/elasticloadbalancing/2012-06-01/APIReference/API_CreateLoadBalancer.html
func (s Classic) CreateLoadBalancer(ctx context.Context, in *elasticloadbalancing.CreateLoadBalancerInput) (
	*elasticloadbalancing.CreateLoadBalancerOutput, error) {
	b, err := s.newClassic(ctx, in)
	if err != nil {
		return nil, err
	}
	taken := wire.Errorf("DuplicateLoadBalancerName", "The specified load balancer name '%s' already exists for this "+
		"account", b.Name)
	full := wire.Errorf("TooManyLoadBalancers", "Exceeded quota of account %s: %d Classic Load Balancers", b.Account,
		maxClassic)
	err = s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
		b.Zones, b.VPCID = nil, ""
		if err := s.checkNew(c, b, maxClassic, taken, full); err != nil {
			return err
		}
		wanted, err := classicZones(c, in.Subnets, in.AvailabilityZones)
		if err != nil {
			return err
		}
		if err := s.planZones(c, &b, wanted); err != nil {
			return err
		}
		for _, l := range b.Listeners {
			for _, arn := range l.Certificates {
				if err := s.requireCertificate(c, arn); err != nil {
					return err
				}
			}
		}
		if len(b.SecurityGroupIDs) == 0 {
			group, err := c.SecurityGroupNamed(c.Scope, b.VPCID, "default")
			if err != nil {
				return err
			}
			b.SecurityGroupIDs = []string{group.ID}
		}
		if err := s.checkWeight(c, b); err != nil {
			return err
		}
		c.Add("loadbalancer/"+b.Key(), func() store.Op { return s.balancers.CreateOp(b.Key(), b) })
		return nil
	})
	return &elasticloadbalancing.CreateLoadBalancerOutput{DNSName: &b.DNSName}, err
}

// newClassic returns the load balancer that a request describes, without its places.
func (s Classic) newClassic(ctx context.Context, in *elasticloadbalancing.CreateLoadBalancerInput) (
	b record.LoadBalancer, err error) {
	at, name := placeOf(ctx), aws.ToString(in.LoadBalancerName)
	if err := checkName("LoadBalancer name", name); err != nil {
		return b, err
	}
	b = record.LoadBalancer{
		Account: at.account, Region: at.region, Kind: record.ClassicLoadBalancer, Name: name, ID: newID(),
		CreatedAt: s.timestamp(), Scheme: record.SchemeInternetFacing, SecurityGroupIDs: in.SecurityGroups,
		Classic: &record.ClassicConfiguration{},
	}
	switch scheme := aws.ToString(in.Scheme); scheme {
	case "", record.SchemeInternetFacing:
	case record.SchemeInternal:
		b.Scheme = scheme
	default:
		return b, wire.Errorf("InvalidScheme", "'%s' is not a scheme: the only one that may be given is 'internal'", scheme)
	}
	if slices.Contains(in.SecurityGroups, "") || hasDuplicate(in.SecurityGroups) {
		return b, wire.Errorf("InvalidSecurityGroup", "Security groups must be given once each")
	}
	if len(in.Listeners) == 0 {
		return b, invalid("Listeners: at least one listener must be specified")
	}
	for _, l := range in.Listeners {
		if err := addClassicListener(&b, l); err != nil {
			return b, err
		}
	}
	first := b.Listeners[0]
	b.Classic.HealthCheck = record.HealthCheck{Protocol: "TCP", Port: first.InstancePort, Interval: 30, Timeout: 5,
		HealthyThreshold: 10, UnhealthyThreshold: 2}
	number, err := strconv.ParseUint(b.ID[:8], 16, 32)
	if err != nil {
		return b, err
	}
	b.DNSName = fmt.Sprintf("%s-%d.%s.elb.amazonaws.com", name, number, at.region)
	if b.Scheme == record.SchemeInternal {
		b.DNSName = "internal-" + b.DNSName
	}
	b.Tags, err = applyTags(ctx, nil, classicTags(in.Tags))
	return b, err
}

func hasDuplicate(list []string) bool {
	sorted := slices.Sorted(slices.Values(list))
	return len(slices.Compact(sorted)) != len(list)
}

// classicZones returns the subnets of a request: those that it names, or the default ones of Availability Zones.
func classicZones(c *resource.Change, subnets, zones []string) (all []zoneRequest, err error) {
	switch {
	case len(subnets) > 0 && len(zones) > 0:
		return nil, invalid("Only one of SubnetIds or AvailabilityZones may be specified")
	case len(subnets) == 0 && len(zones) == 0:
		return nil, invalid("Either AvailabilityZones or SubnetIds must be specified")
	case hasDuplicate(subnets):
		return nil, wire.Errorf("InvalidSubnet", "A subnet is given twice")
	}
	for _, id := range subnets {
		all = append(all, zoneRequest{subnet: id})
	}
	for _, zone := range zones {
		found, err := defaultSubnets(c.Records, c.Scope, zone)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, invalid("'%s' is no Availability Zone with a default subnet", zone)
		}
		all = append(all, zoneRequest{subnet: found[0].ID})
	}
	return all, nil
}

// defaultSubnets returns the default subnet of an Availability Zone, if it has one.
func defaultSubnets(r *resource.Records, sc resource.Scope, zone string) ([]record.Subnet, error) {
	return r.Subnets.List(sc, func(s record.Subnet) bool { return s.DefaultForAZ && s.AvailabilityZone == zone })
}

// DeleteLoadBalancer deletes a load balancer. It succeeds when there is none.
func (s Classic) DeleteLoadBalancer(ctx context.Context, in *elasticloadbalancing.DeleteLoadBalancerInput) (
	*elasticloadbalancing.DeleteLoadBalancerOutput, error) {
	return &elasticloadbalancing.DeleteLoadBalancerOutput{}, s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
		row, err := s.balancers.Get(c, classicKey(ctx, in.LoadBalancerName))
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := planRemoval(c, row.Value.Zones); err != nil {
			return err
		}
		c.Add("loadbalancer/"+row.Key, func() store.Op { return s.balancers.DeleteOp(row) })
		return nil
	})
}

// DescribeLoadBalancers describes load balancers.
func (s Classic) DescribeLoadBalancers(ctx context.Context, in *elasticloadbalancing.DescribeLoadBalancersInput) (
	*elasticloadbalancing.DescribeLoadBalancersOutput, error) {
	if len(in.LoadBalancerNames) > 0 && in.PageSize != nil {
		return nil, invalid("LoadBalancerNames and PageSize cannot be specified at the same time")
	}
	at := placeOf(ctx)
	var found []record.LoadBalancer
	for _, name := range in.LoadBalancerNames {
		row, err := s.getClassic(ctx, &name)
		if err != nil {
			return nil, err
		}
		found = append(found, row.Value)
	}
	if len(in.LoadBalancerNames) == 0 {
		rows, err := s.balancers.List(ctx, store.Prefix(at.account, at.region, record.ClassicLoadBalancer))
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			found = append(found, row.Value)
		}
	}
	page, next, err := wire.Page(ctx, found, in.PageSize, in.Marker, func(b record.LoadBalancer) string { return b.Name })
	if err != nil {
		return nil, err
	}
	out := &elasticloadbalancing.DescribeLoadBalancersOutput{NextMarker: next,
		LoadBalancerDescriptions: []types.LoadBalancerDescription{}}
	sc, err := s.ec2.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	for _, b := range page {
		out.LoadBalancerDescriptions = append(out.LoadBalancerDescriptions, s.describeClassic(sc, b))
	}
	return out, nil
}

func (s Classic) describeClassic(sc resource.Scope, b record.LoadBalancer) types.LoadBalancerDescription {
	d := types.LoadBalancerDescription{
		LoadBalancerName: &b.Name, DNSName: &b.DNSName, CreatedTime: &b.CreatedAt, Scheme: &b.Scheme, VPCId: &b.VPCID,
		CanonicalHostedZoneNameID: hostedZone(b.Region, b.Kind), SecurityGroups: b.SecurityGroupIDs,
		HealthCheck: describeHealthCheck(b.Classic.HealthCheck), Policies: &types.Policies{},
		Instances: []types.Instance{}, Subnets: []string{}, AvailabilityZones: []string{},
	}
	if b.Scheme == record.SchemeInternetFacing {
		d.CanonicalHostedZoneName = &b.DNSName
	}
	for _, z := range b.Zones {
		d.AvailabilityZones, d.Subnets = append(d.AvailabilityZones, z.Name), append(d.Subnets, z.SubnetID)
	}
	for _, i := range b.Classic.Instances {
		if i.DeregisteredAt.IsZero() {
			d.Instances = append(d.Instances, types.Instance{InstanceId: new(i.ID)})
		}
	}
	for _, l := range b.Listeners {
		listener := &types.Listener{Protocol: new(l.Protocol), LoadBalancerPort: l.Port,
			InstanceProtocol: new(l.InstanceProtocol), InstancePort: new(l.InstancePort)}
		if len(l.Certificates) > 0 {
			listener.SSLCertificateId = new(l.Certificates[0])
		}
		d.ListenerDescriptions = append(d.ListenerDescriptions, types.ListenerDescription{Listener: listener,
			PolicyNames: append([]string{}, l.Policies...)})
	}
	for _, p := range b.Classic.Policies {
		d.Policies.OtherPolicies = append(d.Policies.OtherPolicies, p.Name)
	}
	for _, port := range slices.Sorted(maps.Keys(b.Classic.BackendPolicies)) {
		d.BackendServerDescriptions = append(d.BackendServerDescriptions, types.BackendServerDescription{
			InstancePort: new(port), PolicyNames: b.Classic.BackendPolicies[port]})
	}
	if len(b.SecurityGroupIDs) > 0 {
		if group, err := s.ec2.SecurityGroups.GetRecord(sc, &b.SecurityGroupIDs[0]); err == nil {
			d.SourceSecurityGroup = &types.SourceSecurityGroup{OwnerAlias: &b.Account, GroupName: &group.Name}
		}
	}
	return d
}

// DescribeAccountLimits returns the quotas of the account.
func (Classic) DescribeAccountLimits(ctx context.Context, in *elasticloadbalancing.DescribeAccountLimitsInput) (
	*elasticloadbalancing.DescribeAccountLimitsOutput, error) {
	limit := func(name string, most int) types.Limit {
		return types.Limit{Name: &name, Max: aws.String(strconv.Itoa(most))}
	}
	page, next, err := wire.Page(ctx, []types.Limit{
		limit("classic-load-balancers", maxClassic), limit("classic-listeners", maxClassicListeners),
		limit("classic-registered-instances", maxInstancesOfClassic),
	}, in.PageSize, in.Marker, func(l types.Limit) string { return *l.Name })
	return &elasticloadbalancing.DescribeAccountLimitsOutput{Limits: page, NextMarker: next}, err
}

// ApplySecurityGroupsToLoadBalancer gives a load balancer other security groups.
func (s Classic) ApplySecurityGroupsToLoadBalancer(ctx context.Context,
	in *elasticloadbalancing.ApplySecurityGroupsToLoadBalancerInput) (
	*elasticloadbalancing.ApplySecurityGroupsToLoadBalancerOutput, error) {
	if len(in.SecurityGroups) == 0 || hasDuplicate(in.SecurityGroups) {
		return nil, invalidConfiguration("At least one security group must be specified, and each once")
	}
	return &elasticloadbalancing.ApplySecurityGroupsToLoadBalancerOutput{SecurityGroups: in.SecurityGroups},
		s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
			row, err := s.getClassic(c, in.LoadBalancerName)
			if err != nil {
				return err
			}
			if err := planGroups(c, &row.Value, in.SecurityGroups); err != nil {
				return err
			}
			s.planUpdate(c, row)
			return nil
		})
}

// AttachLoadBalancerToSubnets adds subnets to a load balancer.
func (s Classic) AttachLoadBalancerToSubnets(ctx context.Context,
	in *elasticloadbalancing.AttachLoadBalancerToSubnetsInput) (
	out *elasticloadbalancing.AttachLoadBalancerToSubnetsOutput, err error) {
	out = &elasticloadbalancing.AttachLoadBalancerToSubnetsOutput{}
	if len(in.Subnets) == 0 {
		return nil, invalid("Subnets: at least one subnet must be specified")
	}
	return out, s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
		row, err := s.getClassic(c, in.LoadBalancerName)
		if err != nil {
			return err
		}
		var more []zoneRequest
		for _, id := range in.Subnets {
			there := slices.ContainsFunc(row.Value.Zones, func(z record.LoadBalancerZone) bool { return z.SubnetID == id })
			if !there {
				more = append(more, zoneRequest{subnet: id})
			}
		}
		if err := s.planZones(c, &row.Value, more); err != nil {
			return err
		}
		if err := s.checkWeight(c, row.Value); err != nil {
			return err
		}
		out.Subnets = subnetsOf(row.Value)
		s.planUpdate(c, row)
		return nil
	})
}

func subnetsOf(b record.LoadBalancer) []string {
	all := []string{}
	for _, z := range b.Zones {
		all = append(all, z.SubnetID)
	}
	return all
}

// DetachLoadBalancerFromSubnets removes subnets from a load balancer.
func (s Classic) DetachLoadBalancerFromSubnets(ctx context.Context,
	in *elasticloadbalancing.DetachLoadBalancerFromSubnetsInput) (
	out *elasticloadbalancing.DetachLoadBalancerFromSubnetsOutput, err error) {
	out = &elasticloadbalancing.DetachLoadBalancerFromSubnetsOutput{}
	return out, s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
		row, err := s.getClassic(c, in.LoadBalancerName)
		if err != nil {
			return err
		}
		var kept, gone []record.LoadBalancerZone
		for _, z := range row.Value.Zones {
			if slices.Contains(in.Subnets, z.SubnetID) {
				gone = append(gone, z)
			} else {
				kept = append(kept, z)
			}
		}
		if len(kept) == 0 {
			return invalidConfiguration("A load balancer must be attached to at least one subnet")
		}
		if err := planRemoval(c, gone); err != nil {
			return err
		}
		row.Value.Zones = kept
		out.Subnets = subnetsOf(row.Value)
		s.planUpdate(c, row)
		return nil
	})
}

// AddTags adds tags to a load balancer.
func (s Classic) AddTags(ctx context.Context, in *elasticloadbalancing.AddTagsInput) (
	*elasticloadbalancing.AddTagsOutput, error) {
	if len(in.LoadBalancerNames) != 1 {
		return nil, invalid("LoadBalancerNames: exactly one load balancer must be specified")
	}
	_, err := s.modify(ctx, &in.LoadBalancerNames[0], func(b *record.LoadBalancer) (err error) {
		b.Tags, err = applyTags(ctx, b.Tags, classicTags(in.Tags))
		return err
	})
	return &elasticloadbalancing.AddTagsOutput{}, err
}

// RemoveTags removes tags from a load balancer.
func (s Classic) RemoveTags(ctx context.Context, in *elasticloadbalancing.RemoveTagsInput) (
	*elasticloadbalancing.RemoveTagsOutput, error) {
	if len(in.LoadBalancerNames) != 1 {
		return nil, invalid("LoadBalancerNames: exactly one load balancer must be specified")
	}
	var keys []string
	for _, key := range in.Tags {
		keys = append(keys, aws.ToString(key.Key))
	}
	_, err := s.modify(ctx, &in.LoadBalancerNames[0], func(b *record.LoadBalancer) (err error) {
		b.Tags, err = removeTags(ctx, b.Tags, keys)
		return err
	})
	return &elasticloadbalancing.RemoveTagsOutput{}, err
}

// DescribeTags describes the tags of load balancers, which must be named.
func (s Classic) DescribeTags(ctx context.Context, in *elasticloadbalancing.DescribeTagsInput) (
	*elasticloadbalancing.DescribeTagsOutput, error) {
	if len(in.LoadBalancerNames) > 20 {
		return nil, invalid("LoadBalancerNames: at most 20 load balancers may be specified")
	}
	out := &elasticloadbalancing.DescribeTagsOutput{TagDescriptions: []types.TagDescription{}}
	for _, name := range in.LoadBalancerNames {
		row, err := s.getClassic(ctx, &name)
		if err != nil {
			return nil, err
		}
		d := types.TagDescription{LoadBalancerName: &name, Tags: []types.Tag{}}
		for _, key := range slices.Sorted(maps.Keys(row.Value.Tags)) {
			d.Tags = append(d.Tags, types.Tag{Key: new(key), Value: new(row.Value.Tags[key])})
		}
		out.TagDescriptions = append(out.TagDescriptions, d)
	}
	return out, nil
}

// upper returns a protocol as the API shows it.
func upper(protocol *string) string { return strings.ToUpper(aws.ToString(protocol)) }
