package elb

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// classicBalancers is the handler of AWS::ElasticLoadBalancing::LoadBalancer.
var classicBalancers = resource.Handle(resource.Table[*classic.Client, types.LoadBalancerDescription]{
	Client: func(c aws.Config) *classic.Client { return classic.NewFromConfig(c) },
	Create: createClassic,
	Find: func(ctx context.Context, c *classic.Client, r *resource.Request) (string, error) {
		name := nameOf(r, "LoadBalancerName")
		tags, err := classicTags(ctx, c, name)
		if err != nil {
			return "", err
		}
		if !r.Owns(tags) {
			return "", resource.ErrNotFound
		}
		return name, nil
	},
	Describe: describeClassic,
	Configure: []resource.Step[*classic.Client]{
		{Properties: []string{"AvailabilityZones", "HealthCheck", "Subnets"}, Update: true, Run: checkReplacement},
		{Properties: []string{"AvailabilityZones", "Subnets"}, Update: true, Run: setClassicSubnets},
		{
			Properties: []string{"SecurityGroups"}, Update: true,
			Run: func(ctx context.Context, c *classic.Client, r *resource.Request) error {
				groups := r.Texts("SecurityGroups")
				if len(groups) == 0 {
					live, err := describeClassic(ctx, c, r)
					if err != nil {
						return err
					}
					if groups, err = defaultGroup(ctx, r, live.VPCId); err != nil {
						return err
					}
				}
				_, err := c.ApplySecurityGroupsToLoadBalancer(ctx, &classic.ApplySecurityGroupsToLoadBalancerInput{
					LoadBalancerName: &r.PhysicalID, SecurityGroups: groups})
				return err
			},
		},
		{Properties: []string{"Listeners", "Policies"}, Run: setClassicListeners},
		{
			Properties: []string{"HealthCheck"},
			Run: func(ctx context.Context, c *classic.Client, r *resource.Request) error {
				in := &classic.ConfigureHealthCheckInput{LoadBalancerName: &r.PhysicalID}
				if err := resource.Decode(map[string]any{"HealthCheck": r.Properties["HealthCheck"]}, in, nil); err != nil {
					return err
				}
				_, err := c.ConfigureHealthCheck(ctx, in)
				return err
			},
		},
		{Properties: []string{"ConnectionDrainingPolicy", "ConnectionSettings", "CrossZone"}, Run: setClassicAttributes},
		{Properties: []string{"Instances"}, Run: setClassicInstances},
		{Properties: []string{"Tags"}, Tags: true, Run: setClassicTags},
	},
	Delete: func(ctx context.Context, c *classic.Client, r *resource.Request) error {
		_, err := c.DeleteLoadBalancer(ctx, &classic.DeleteLoadBalancerInput{LoadBalancerName: &r.PhysicalID})
		return err
	},
	Attributes: func(_ *resource.Request, live *types.LoadBalancerDescription) map[string]any {
		attributes := map[string]any{"DNSName": aws.ToString(live.DNSName)}
		for name, value := range map[string]*string{"CanonicalHostedZoneName": live.CanonicalHostedZoneName,
			"CanonicalHostedZoneNameID": live.CanonicalHostedZoneNameID} {
			if value != nil {
				attributes[name] = *value
			}
		}
		if g := live.SourceSecurityGroup; g != nil {
			name, owner := aws.ToString(g.GroupName), aws.ToString(g.OwnerAlias)
			attributes["SourceSecurityGroup.GroupName"], attributes["SourceSecurityGroup.OwnerAlias"] = name, owner
			attributes["SourceSecurityGroup"] = map[string]any{"GroupName": name, "OwnerAlias": owner}
		}
		return attributes
	},
	Properties: classicProperties,
})

func newClassicTag(key, value string) types.Tag { return types.Tag{Key: &key, Value: &value} }

func createClassic(ctx context.Context, c *classic.Client, r *resource.Request) (string, error) {
	name := nameOf(r, "LoadBalancerName")
	members := resource.Members{"Listeners.PolicyNames": resource.Left}
	create := resource.Create((*classic.Client).CreateLoadBalancer, members,
		func(*classic.CreateLoadBalancerOutput) *string { return &name },
		func(r *resource.Request, in *classic.CreateLoadBalancerInput) error {
			in.LoadBalancerName, in.Tags = &name, resource.TagList(r.Wanted("Tags"), newClassicTag)
			if aws.ToString(in.Scheme) == "internet-facing" {
				in.Scheme = nil // the API takes the other one alone
			}
			return nil
		})
	return create(ctx, c, r)
}

func describeClassic(ctx context.Context, c *classic.Client, r *resource.Request) (
	*types.LoadBalancerDescription, error) {
	out, err := c.DescribeLoadBalancers(ctx, &classic.DescribeLoadBalancersInput{
		LoadBalancerNames: []string{r.PhysicalID}})
	if err != nil {
		return nil, err
	}
	return &out.LoadBalancerDescriptions[0], nil
}

func classicTags(ctx context.Context, c *classic.Client, name string) (map[string]string, error) {
	out, err := c.DescribeTags(ctx, &classic.DescribeTagsInput{LoadBalancerNames: []string{name}})
	if err != nil {
		return nil, err
	}
	tags := map[string]string{}
	for _, d := range out.TagDescriptions {
		for _, t := range d.Tags {
			tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
		}
	}
	return tags, nil
}

func setClassicTags(ctx context.Context, c *classic.Client, r *resource.Request) error {
	set, removed := r.TagChanges("Tags")
	if len(removed) > 0 {
		in := &classic.RemoveTagsInput{LoadBalancerNames: []string{r.PhysicalID}}
		for _, key := range removed {
			in.Tags = append(in.Tags, types.TagKeyOnly{Key: &key})
		}
		if _, err := c.RemoveTags(ctx, in); err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	_, err := c.AddTags(ctx, &classic.AddTagsInput{LoadBalancerNames: []string{r.PhysicalID},
		Tags: resource.TagList(set, newClassicTag)})
	return err
}

// checkReplacement tells which updates a load balancer does not survive: those that give it a health check, zones or
// subnets where it had none, or take them away.
func checkReplacement(_ context.Context, _ *classic.Client, r *resource.Request) error {
	for _, name := range []string{"AvailabilityZones", "HealthCheck", "Subnets"} {
		if (r.Previous[name] == nil) != (r.Properties[name] == nil) {
			return resource.ErrReplace
		}
	}
	return nil
}

// setClassicSubnets puts a load balancer into the subnets of the property, or the default subnets of its zones.
func setClassicSubnets(ctx context.Context, c *classic.Client, r *resource.Request) error {
	wanted := r.Texts("Subnets")
	if zones := r.Texts("AvailabilityZones"); len(zones) > 0 {
		out, err := ec2.NewFromConfig(r.Config).DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{
			Filters: []ec2types.Filter{{Name: aws.String("default-for-az"), Values: []string{"true"}},
				{Name: aws.String("availability-zone"), Values: zones}}})
		if err != nil {
			return err
		}
		for _, s := range out.Subnets {
			wanted = append(wanted, aws.ToString(s.SubnetId))
		}
		if len(wanted) < len(zones) {
			return resource.Errorf(resource.InvalidRequest, "%s: not each of them is an Availability Zone with a default "+
				"subnet", strings.Join(zones, ", "))
		}
	}
	live, err := describeClassic(ctx, c, r)
	if err != nil {
		return err
	}
	isIn := func(list []string) func(string) bool {
		return func(id string) bool { return slices.Contains(list, id) }
	}
	added := slices.DeleteFunc(slices.Clone(wanted), isIn(live.Subnets))
	gone := slices.DeleteFunc(slices.Clone(live.Subnets), isIn(wanted))
	attach := func() error {
		if len(added) == 0 {
			return nil
		}
		_, err := c.AttachLoadBalancerToSubnets(ctx, &classic.AttachLoadBalancerToSubnetsInput{
			LoadBalancerName: &r.PhysicalID, Subnets: added})
		return err
	}
	if len(gone) == 0 {
		return attach()
	}
	detach := func() error {
		_, err := c.DetachLoadBalancerFromSubnets(ctx, &classic.DetachLoadBalancerFromSubnetsInput{
			LoadBalancerName: &r.PhysicalID, Subnets: gone})
		return err
	}
	// A zone has one subnet, so the old one goes first; but a load balancer has at least one.
	if len(gone) < len(live.Subnets) {
		if err := detach(); err != nil {
			return err
		}
		return attach()
	}
	if err := attach(); err != nil {
		return err
	}
	return detach()
}

// setClassicAttributes sets the attributes of the properties, with the defaults for those left out.
func setClassicAttributes(ctx context.Context, c *classic.Client, r *resource.Request) error {
	attributes := &types.LoadBalancerAttributes{
		ConnectionDraining:     &types.ConnectionDraining{},
		ConnectionSettings:     &types.ConnectionSettings{IdleTimeout: aws.Int32(60)},
		CrossZoneLoadBalancing: &types.CrossZoneLoadBalancing{Enabled: r.Text("CrossZone") == "true"},
	}
	for property, target := range map[string]any{"ConnectionDrainingPolicy": attributes.ConnectionDraining,
		"ConnectionSettings": attributes.ConnectionSettings} {
		if object, ok := r.Properties[property].(map[string]any); ok {
			if err := resource.Decode(object, target, nil); err != nil {
				return err
			}
		}
	}
	_, err := c.ModifyLoadBalancerAttributes(ctx, &classic.ModifyLoadBalancerAttributesInput{
		LoadBalancerName: &r.PhysicalID, LoadBalancerAttributes: attributes})
	return err
}

// setClassicInstances registers the instances of the property and deregisters those that it had before. What others
// have registered stays.
func setClassicInstances(ctx context.Context, c *classic.Client, r *resource.Request) error {
	live, err := describeClassic(ctx, c, r)
	if err != nil {
		return err
	}
	registered := map[string]bool{}
	for _, i := range live.Instances {
		registered[aws.ToString(i.InstanceId)] = true
	}
	wanted := r.Texts("Instances")
	var added, gone []types.Instance
	for _, id := range wanted {
		if !registered[id] {
			added = append(added, types.Instance{InstanceId: &id})
		}
	}
	for _, id := range resource.Texts(r.Previous["Instances"]) {
		if registered[id] && !slices.Contains(wanted, id) {
			gone = append(gone, types.Instance{InstanceId: &id})
		}
	}
	if len(added) > 0 {
		if _, err := c.RegisterInstancesWithLoadBalancer(ctx, &classic.RegisterInstancesWithLoadBalancerInput{
			LoadBalancerName: &r.PhysicalID, Instances: added}); err != nil {
			return err
		}
	}
	if len(gone) == 0 {
		return nil
	}
	_, err = c.DeregisterInstancesFromLoadBalancer(ctx, &classic.DeregisterInstancesFromLoadBalancerInput{
		LoadBalancerName: &r.PhysicalID, Instances: gone})
	return err
}

func classicProperties(ctx context.Context, c *classic.Client, r *resource.Request,
	live *types.LoadBalancerDescription) (map[string]any, error) {
	p := map[string]any{
		"LoadBalancerName": aws.ToString(live.LoadBalancerName), "Scheme": aws.ToString(live.Scheme),
		"SecurityGroups": inOrder(live.SecurityGroups, r.Texts("SecurityGroups")),
		"HealthCheck":    likeTemplate(resource.Encode(live.HealthCheck, nil), r.Properties["HealthCheck"]),
	}
	if r.Properties["AvailabilityZones"] != nil {
		p["AvailabilityZones"] = inOrder(live.AvailabilityZones, r.Texts("AvailabilityZones"))
	} else {
		p["Subnets"] = inOrder(live.Subnets, r.Texts("Subnets"))
	}
	p["Listeners"] = liveListeners(r, live)
	if said := r.Properties["Policies"]; said != nil {
		list, err := livePolicies(ctx, c, r, live)
		if err != nil {
			return nil, err
		}
		p["Policies"] = likeTemplate(list, said)
	}
	if r.Properties["Instances"] != nil {
		var ids []string
		for _, i := range live.Instances {
			ids = append(ids, aws.ToString(i.InstanceId))
		}
		p["Instances"] = inOrder(ids, r.Texts("Instances"))
	}
	out, err := c.DescribeLoadBalancerAttributes(ctx, &classic.DescribeLoadBalancerAttributesInput{
		LoadBalancerName: &r.PhysicalID})
	if err != nil {
		return nil, err
	}
	a := out.LoadBalancerAttributes
	draining := map[string]any{"Enabled": a.ConnectionDraining.Enabled}
	if a.ConnectionDraining.Enabled {
		draining["Timeout"] = number(aws.ToInt32(a.ConnectionDraining.Timeout))
	}
	p["ConnectionDrainingPolicy"] = draining
	p["ConnectionSettings"] = resource.Encode(a.ConnectionSettings, nil)
	p["CrossZone"] = a.CrossZoneLoadBalancing.Enabled
	tags, err := classicTags(ctx, c, r.PhysicalID)
	if err != nil {
		return nil, err
	}
	if own := resource.TagObjects(r.LiveTags("Tags", tags)); own != nil {
		p["Tags"] = own
	}
	return p, nil
}

// liveListeners returns the listeners of a load balancer as the property has them, in its order.
func liveListeners(r *resource.Request, live *types.LoadBalancerDescription) any {
	said := r.Objects("Listeners")
	at := func(port int32) int {
		i := slices.IndexFunc(said, func(l map[string]any) bool { return portOf(l["LoadBalancerPort"]) == port })
		if i < 0 {
			return len(said)
		}
		return i
	}
	all := slices.Clone(live.ListenerDescriptions)
	slices.SortStableFunc(all, func(a, b types.ListenerDescription) int {
		return cmp.Compare(at(a.Listener.LoadBalancerPort), at(b.Listener.LoadBalancerPort))
	})
	list := []any{}
	for _, d := range all {
		l := resource.Encode(d.Listener, nil)
		l["LoadBalancerPort"] = json.Number(strconv.Itoa(int(d.Listener.LoadBalancerPort)))
		// Policies of the property Policies may be for the listener, too.
		if i := at(d.Listener.LoadBalancerPort); i < len(said) {
			if named := resource.Texts(said[i]["PolicyNames"]); named != nil {
				var names []string
				for _, name := range d.PolicyNames {
					if slices.Contains(named, name) {
						names = append(names, name)
					}
				}
				l["PolicyNames"] = inOrder(names, named)
			}
			for _, name := range []string{"Protocol", "InstanceProtocol"} { // the API shows them in upper case
				if text := resource.Text(said[i][name]); strings.EqualFold(text, resource.Text(l[name])) {
					l[name] = text
				}
			}
		}
		list = append(list, l)
	}
	return likeTemplate(list, r.Properties["Listeners"])
}

func portOf(value any) int32 {
	n, _ := strconv.ParseInt(resource.Text(value), 10, 32)
	return int32(n)
}
