// Package elb serves Elastic Load Balancing: the API of Classic Load Balancers ([Classic]) and that of their successors
// ([V2]), which are two APIs under one name. Of the latter it has Application and Network Load Balancers.
//
// The API records what is wanted: [record.LoadBalancer], [record.TargetGroup]. A load balancer is made, changed and
// deleted in one transaction with its network interfaces. What listens there, and the health of targets, is the
// business of internal/host/balancer and internal/host/network; answers tell what these have observed
// ([record.TargetHealth], [record.LoadBalancerStatus]).
//
// https://docs.aws.amazon.com/elasticloadbalancing/2012-06-01/APIReference/Welcome.html
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/Welcome.html
package elb

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/aws/ec2/networkinterface"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Quotas of an account in a region.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html
// https://docs.aws.amazon.com/elasticloadbalancing/latest/network/load-balancer-limits.html
const (
	maxClassic             = 20
	maxClassicListeners    = 100
	maxApplication         = 50
	maxNetwork             = 50
	maxListeners           = 50
	maxTargetGroups        = 3000
	maxTargetsPerGroup     = 1000
	maxGroupsToApplication = 2 // that have one Application Load Balancer as their target
	maxInstancesOfClassic  = 1000
	maxTags                = 50
	// Those of an Application Load Balancer.
	maxRules             = 100 // without the default rules
	maxCertificates      = 25  // without the default certificates
	maxGroupsPerBalancer = 100
	maxGroupsPerAction   = 5
	maxConditionValues   = 5 // of a rule
	maxWildcards         = 6 // of a rule
	maxPriority          = 50000
)

// Bounds of Coracle's own. Each load balancer is a network namespace of the host, whatever region it is in. Each of its
// listeners leads to all targets of its target group, or to all instances, in every zone: what that takes of memory in
// the process that forwards and in the rules of routers is many times what is recorded.
const (
	maxOfAccount = 200  // load balancers of an account in all regions
	maxLed       = 3000 // targets of a load balancer, counted for each listener that leads to them
	maxLedGroups = 100  // target groups of a Network Load Balancer, counted likewise
)

// Options configures the service.
type Options struct {
	Store *store.Store
	// EC2 has the records of EC2, in which load balancers have their network interfaces.
	EC2 *resource.Records
	Now func() time.Time // time.Now unless set
}

// service is what both APIs share.
type service struct {
	store     *store.Store
	ec2       *resource.Records
	now       func() time.Time
	balancers store.Table[record.LoadBalancer]
	groups    store.Table[record.TargetGroup]
	leading   store.Index[record.TargetGroup] // to Application Load Balancers, by the ARNs of these
	healths   store.Table[record.TargetHealth]
	statuses  store.Table[record.LoadBalancerStatus]
	// certificates are ACM's, which listeners name; uses tell ACM that they do.
	certificates store.Table[record.Certificate]
	uses         store.Table[record.CertificateUse]
}

// Register serves the operations of both APIs.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_awselasticloadbalancing.html
func Register(mux *wire.Mux, o Options) {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &service{store: o.Store, ec2: o.EC2, now: o.Now, balancers: record.LoadBalancers(o.Store),
		groups: record.TargetGroups(o.Store), leading: record.TargetGroupsByApplication(o.Store),
		healths: record.TargetHealths(o.Store), statuses: record.LoadBalancerStatuses(o.Store),
		certificates: record.Certificates(o.Store), uses: record.CertificateUses(o.Store)}
	mux.Register(wire.ELB, Classic{s}.handlers()...)
	mux.Register(wire.ELBv2, V2{s}.handlers()...)
}

// place is an account and a region.
type place struct{ account, region string }

func placeOf(ctx context.Context) place {
	return place{account: wire.CallerFrom(ctx).Account, region: wire.RegionFrom(ctx)}
}

// timestamp returns the time of now as the APIs have it.
func (s *service) timestamp() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// newID returns 16 hexadecimal digits.
func newID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func invalid(format string, args ...any) error {
	return wire.Errorf("ValidationError", format, args...)
}

func invalidConfiguration(format string, args ...any) error {
	return wire.Errorf("InvalidConfigurationRequest", format, args...)
}

var namePattern = regexp.MustCompile(`^[a-zA-Z0-9-]+$`)

// checkName refuses what cannot be the name of a load balancer or target group.
func checkName(what, name string) error {
	switch {
	case name == "":
		return invalid("%s cannot be empty", what)
	case len(name) > 32:
		return invalid("%s '%s' cannot be longer than '32' characters", what, name)
	case !namePattern.MatchString(name):
		return invalid("%s '%s' can only contain characters that are alphanumeric characters and hyphens(-)", what, name)
	case strings.HasPrefix(name, "-"), strings.HasSuffix(name, "-"):
		return invalid("%s '%s' cannot begin or end with a hyphen(-)", what, name)
	}
	return nil
}

// tag is a tag of either API.
type tag struct{ key, value string }

// applyTags adds tags to those of a resource.
func applyTags(ctx context.Context, tags map[string]string, more []tag) (map[string]string, error) {
	out := map[string]string{}
	for k, v := range tags {
		out[k] = v
	}
	seen := map[string]bool{}
	for _, t := range more {
		switch {
		case t.key == "" || len(t.key) > 128:
			return nil, invalid("Tag keys must have 1 to 128 characters")
		case len(t.value) > 256:
			return nil, invalid("Tag values must have at most 256 characters")
		case !wire.MaySetTag(ctx, t.key):
			return nil, invalid("Tag keys cannot begin with 'aws:': '%s'", t.key)
		case seen[t.key]:
			return nil, wire.Errorf("DuplicateTagKeys", "Tag keys must be unique: '%s' is given twice", t.key)
		}
		seen[t.key] = true
		out[t.key] = t.value
	}
	if wire.CountTags(out) > maxTags {
		return nil, wire.Errorf("TooManyTags", "The maximum number of tags, %d, was exceeded", maxTags)
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, nil
}

// removeTags removes tags from those of a resource, which are the caller's own to change.
func removeTags(ctx context.Context, tags map[string]string, keys []string) (map[string]string, error) {
	for _, key := range keys {
		if !wire.MaySetTag(ctx, key) {
			return nil, invalid("Tag keys cannot begin with 'aws:': '%s'", key)
		}
		delete(tags, key)
	}
	return tags, nil
}

// checkNew returns taken where the name of a new load balancer is, and full where there are most of its kind.
func (s *service) checkNew(ctx context.Context, b record.LoadBalancer, most int, taken, full error) error {
	rows, err := s.balancers.List(ctx, store.Prefix(b.Account, b.Region))
	if err != nil {
		return err
	}
	count := 0
	for _, row := range rows {
		if row.Key == b.Key() {
			return taken
		}
		if row.Value.Kind == b.Kind {
			count++
		}
	}
	switch {
	case count >= most:
		return full
	case s.balancers.Count(store.Prefix(b.Account)) >= maxOfAccount:
		return wire.Errorf("TooManyLoadBalancers", "Account %s has %d load balancers in all regions, which is the maximum",
			b.Account, maxOfAccount)
	}
	return nil
}

// checkLed refuses a load balancer whose listeners would lead to too many targets. changed is a target group as it is
// to be (optional).
func (s *service) checkLed(ctx context.Context, b record.LoadBalancer, changed *record.TargetGroup) error {
	led, sizes := 0, map[string]int{}
	if changed != nil {
		sizes[changed.Name] = len(changed.Targets)
	}
	for _, l := range b.Listeners {
		if b.Classic != nil {
			led += len(b.Classic.Instances)
			continue
		}
		for _, name := range l.TargetGroups() {
			if _, known := sizes[name]; !known {
				row, err := s.groups.Get(ctx, record.TargetGroupKey(b.Account, b.Region, name))
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					return err
				}
				sizes[name] = len(row.Value.Targets)
			}
			led += sizes[name]
		}
	}
	if led > maxLed {
		return wire.Errorf("TooManyTargets", "The listeners of load balancer '%s' would lead to %d targets together; the "+
			"maximum is %d", b.Name, led, maxLed)
	}
	return nil
}

// zoneRequest asks for a place of a load balancer.
type zoneRequest struct{ subnet, allocation, address string }

// planZones plans network interfaces in subnets, beside the places that the load balancer has. Its VPC is that of the
// first.
func (s *service) planZones(c *resource.Change, b *record.LoadBalancer, wanted []zoneRequest) error {
	for _, w := range wanted {
		subnet, err := c.Subnets.GetRecord(c.Scope, &w.subnet)
		if err != nil {
			return networkError(err)
		}
		if b.VPCID == "" {
			b.VPCID = subnet.VPCID
		}
		if subnet.VPCID != b.VPCID {
			return invalidConfiguration("All subnets must belong to the same VPC: '%s'", b.VPCID)
		}
		if slices.ContainsFunc(b.Zones, func(z record.LoadBalancerZone) bool { return z.Name == subnet.AvailabilityZone }) {
			return invalidConfiguration("A load balancer cannot be attached to multiple subnets in the same Availability "+
				"Zone: '%s'", subnet.AvailabilityZone)
		}
		if err := s.checkGateway(c, *b); err != nil {
			return err
		}
		z, err := s.planInterface(c, *b, subnet, w)
		if err != nil {
			return networkError(err)
		}
		b.Zones = append(b.Zones, z)
	}
	slices.SortFunc(b.Zones, func(x, y record.LoadBalancerZone) int { return cmp.Compare(x.Name, y.Name) })
	return nil
}

// checkGateway refuses a load balancer that is to face the internet in a VPC without a gateway.
func (s *service) checkGateway(c *resource.Change, b record.LoadBalancer) error {
	if b.Scheme != record.SchemeInternetFacing {
		return nil
	}
	attached, err := c.InternetGateways.HasMatch(c.Scope,
		func(g record.InternetGateway) bool { return g.VPCID == b.VPCID })
	if err != nil {
		return err
	}
	if !attached {
		return wire.Errorf("InvalidSubnet", "VPC %s has no internet gateway", b.VPCID)
	}
	return c.RequireUnchanged(b.VPCID) // those who detach the gateway hold the VPC
}

func (s *service) planInterface(c *resource.Change, b record.LoadBalancer, subnet record.Subnet, w zoneRequest) (
	z record.LoadBalancerZone, err error) {
	m := networkinterface.Managed{
		SubnetID: subnet.ID, Type: "load_balancer", RequesterID: "amazon-elb", Description: "ELB " + b.Name,
		SecurityGroupIDs: b.SecurityGroupIDs, Address: w.address, AllocationID: w.allocation,
		Public: b.Scheme == record.SchemeInternetFacing,
	}
	switch b.Kind {
	case record.NetworkLoadBalancer:
		m.Type, m.Description = "network_load_balancer", "ELB net/"+b.Name+"/"+b.ID
		m.Ungrouped = len(b.SecurityGroupIDs) == 0
	case record.ApplicationLoadBalancer:
		m.Description = "ELB app/" + b.Name + "/" + b.ID
	}
	ni, err := networkinterface.CreateManaged(c, m)
	if err != nil {
		return z, err
	}
	z = record.LoadBalancerZone{Name: subnet.AvailabilityZone, SubnetID: subnet.ID, NetworkInterfaceID: ni.ID,
		PrivateIP: ni.PrivateIPs[0], Fixed: w.address != "", PublicIP: ni.PublicIP}
	if w.allocation != "" {
		address, err := c.Addresses.GetRecord(c.Scope, &w.allocation)
		if err != nil {
			return z, err
		}
		z.PublicIP, z.AllocationID = address.PublicIP, address.ID
	}
	return z, nil
}

// planRemoval plans the deletion of network interfaces.
func planRemoval(c *resource.Change, zones []record.LoadBalancerZone) error {
	for _, z := range zones {
		_, err := c.NetworkInterfaces.Table.Get(c, c.Key(z.NetworkInterfaceID))
		if err == nil {
			_, err = networkinterface.Delete(c, z.NetworkInterfaceID)
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}

// planGroups gives the network interfaces of a load balancer other security groups.
func planGroups(c *resource.Change, b *record.LoadBalancer, groups []string) error {
	for _, z := range b.Zones {
		if err := networkinterface.SetManagedGroups(c, z.NetworkInterfaceID, groups); err != nil {
			return networkError(err)
		}
	}
	b.SecurityGroupIDs = groups
	return nil
}

// planUpdate plans the change of a load balancer's record.
func (s *service) planUpdate(c *resource.Change, row store.Row[record.LoadBalancer]) {
	c.Add("loadbalancer/"+row.Key, func() store.Op { return s.balancers.UpdateOp(row) })
}

// networkError returns the error of these APIs about what EC2 refuses.
func networkError(err error) error {
	var refused *wire.Error
	if !errors.As(err, &refused) {
		return err
	}
	switch refused.Code {
	case "InvalidSubnetID.NotFound", "InvalidSubnetId.Malformed", "InvalidSubnetID.Malformed":
		return wire.Errorf("SubnetNotFound", "%s", refused.Message)
	case "InvalidGroup.NotFound", "InvalidGroupId.Malformed", "InvalidSecurityGroupID.NotFound",
		"InvalidSecurityGroupId.Malformed":
		return wire.Errorf("InvalidSecurityGroup", "%s", refused.Message)
	case "InvalidParameter": // of groups of another VPC
		return invalidConfiguration("One or more security groups are invalid: %s", refused.Message)
	case "SecurityGroupsPerInterfaceLimitExceeded":
		return invalidConfiguration("%s", refused.Message)
	case "InsufficientFreeAddressesInSubnet", "InsufficientAddressCapacity", "NetworkInterfaceLimitExceeded":
		return wire.Errorf("InvalidSubnet", "Not enough IP space available: %s", refused.Message)
	case "InvalidAllocationID.NotFound", "InvalidAllocationID.Malformed":
		return wire.Errorf("AllocationIdNotFound", "%s", refused.Message)
	case "InvalidIPAddress.InUse", "Resource.AlreadyAssociated", "InvalidParameterValue":
		return invalidConfiguration("%s", refused.Message)
	}
	return err
}

// getInstance returns an instance that a request registers.
func (s *service) getInstance(sc resource.Scope, id string) (record.Instance, bool, error) {
	row, err := s.ec2.Instances.Find(sc, id)
	if errors.Is(err, store.ErrNotFound) {
		return record.Instance{}, false, nil
	}
	return row.Value, err == nil, err
}

// getHealth returns what was observed of the targets of a key.
func (s *service) getHealth(ctx context.Context, key, owner string) (map[string]record.TargetState, error) {
	row, err := s.healths.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Value.Owner != owner {
		return nil, nil
	}
	return row.Value.Targets, err
}

// checkRange refuses a number outside of a range.
func checkRange(what string, n, least, most int32) error {
	if n < least || n > most {
		return invalid("%s must be between '%d' and '%d', and is '%d'", what, least, most, n)
	}
	return nil
}
