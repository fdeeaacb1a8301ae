package elb

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// balancerDefaults are what attributes of load balancers are without a property: an update that leaves one out sets it.
// Cross-zone load balancing is on for Application Load Balancers alone.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_LoadBalancerAttribute.html
var balancerDefaults = map[string]string{
	"access_logs.s3.enabled": "false", "access_logs.s3.bucket": "", "access_logs.s3.prefix": "",
	"client_keep_alive.seconds":  "3600",
	"connection_logs.s3.enabled": "false", "connection_logs.s3.bucket": "", "connection_logs.s3.prefix": "",
	"deletion_protection.enabled":                              "false",
	"dns_record.client_routing_policy":                         "any_availability_zone",
	"health_check_logs.s3.enabled":                             "false",
	"health_check_logs.s3.bucket":                              "",
	"health_check_logs.s3.prefix":                              "",
	"idle_timeout.timeout_seconds":                             "60",
	"ipv6.deny_all_igw_traffic":                                "false",
	"load_balancing.cross_zone.enabled":                        "false",
	"routing.http.desync_mitigation_mode":                      "defensive",
	"routing.http.drop_invalid_header_fields.enabled":          "false",
	"routing.http.preserve_host_header.enabled":                "false",
	"routing.http.x_amzn_tls_version_and_cipher_suite.enabled": "false",
	"routing.http.xff_client_port.enabled":                     "false",
	"routing.http.xff_header_processing.mode":                  "append",
	"routing.http2.enabled":                                    "true",
	"waf.fail_open.enabled":                                    "false",
	"zonal_shift.config.enabled":                               "false",
}

// loadBalancers is the handler of AWS::ElasticLoadBalancingV2::LoadBalancer.
var loadBalancers = resource.Handle(resource.Table[*v2.Client, types.LoadBalancer]{
	Client: newClient,
	Create: resource.Create((*v2.Client).CreateLoadBalancer, nil,
		func(out *v2.CreateLoadBalancerOutput) *string { return out.LoadBalancers[0].LoadBalancerArn },
		func(r *resource.Request, in *v2.CreateLoadBalancerInput) error {
			in.Name, in.Tags = aws.String(nameOf(r, "Name")), resource.TagList(r.Wanted("Tags"), newTag)
			return nil
		}),
	Find: func(ctx context.Context, c *v2.Client, r *resource.Request) (string, error) {
		out, err := c.DescribeLoadBalancers(ctx, &v2.DescribeLoadBalancersInput{Names: []string{nameOf(r, "Name")}})
		if err != nil {
			return "", err
		}
		var arns []string
		for _, b := range out.LoadBalancers {
			arns = append(arns, aws.ToString(b.LoadBalancerArn))
		}
		return findOwned(ctx, c, r, arns)
	},
	Describe: func(ctx context.Context, c *v2.Client, r *resource.Request) (*types.LoadBalancer, error) {
		out, err := c.DescribeLoadBalancers(ctx, &v2.DescribeLoadBalancersInput{LoadBalancerArns: []string{r.PhysicalID}})
		if err != nil {
			return nil, err
		}
		return &out.LoadBalancers[0], nil
	},
	State: func(live *types.LoadBalancer) (resource.State, error) {
		if live.State == nil {
			return resource.Ready, nil
		}
		switch live.State.Code {
		case types.LoadBalancerStateEnumProvisioning:
			return resource.Creating, nil
		case types.LoadBalancerStateEnumFailed:
			return resource.Creating, resource.Errorf(resource.NotStabilized, "The load balancer %s has failed: %s",
				aws.ToString(live.LoadBalancerName), aws.ToString(live.State.Reason))
		}
		return resource.Ready, nil
	},
	Configure: []resource.Step[*v2.Client]{
		{Properties: []string{"LoadBalancerAttributes"}, Run: setBalancerAttributes},
		{Properties: []string{"SecurityGroups"}, Update: true, Run: setBalancerGroups},
		{Properties: []string{"Subnets", "SubnetMappings"}, Update: true, Run: setBalancerSubnets},
		{
			Properties: []string{"IpAddressType"}, Update: true,
			Run: func(ctx context.Context, c *v2.Client, r *resource.Request) error {
				kind := types.IpAddressType(r.Text("IpAddressType"))
				if kind == "" {
					kind = types.IpAddressTypeIpv4
				}
				_, err := c.SetIpAddressType(ctx, &v2.SetIpAddressTypeInput{LoadBalancerArn: &r.PhysicalID,
					IpAddressType: kind})
				return err
			},
		},
		setTags,
	},
	Delete: func(ctx context.Context, c *v2.Client, r *resource.Request) error {
		_, err := c.DeleteLoadBalancer(ctx, &v2.DeleteLoadBalancerInput{LoadBalancerArn: &r.PhysicalID})
		return err
	},
	Attributes: func(_ *resource.Request, live *types.LoadBalancer) map[string]any {
		attributes := map[string]any{
			"DNSName":              aws.ToString(live.DNSName),
			"LoadBalancerArn":      aws.ToString(live.LoadBalancerArn),
			"LoadBalancerFullName": fullName(aws.ToString(live.LoadBalancerArn), "loadbalancer"),
			"LoadBalancerName":     aws.ToString(live.LoadBalancerName),
			"SecurityGroups":       inOrder(live.SecurityGroups, nil),
		}
		if live.CanonicalHostedZoneId != nil {
			attributes["CanonicalHostedZoneID"] = *live.CanonicalHostedZoneId
		}
		return attributes
	},
	Properties: balancerProperties,
})

func newBalancerAttribute(key, value string) types.LoadBalancerAttribute {
	return types.LoadBalancerAttribute{Key: &key, Value: &value}
}

func setBalancerAttributes(ctx context.Context, c *v2.Client, r *resource.Request) error {
	changes := attributeChanges(r, "LoadBalancerAttributes", balancerDefaults, newBalancerAttribute)
	if r.Text("Type") != string(types.LoadBalancerTypeEnumNetwork) {
		named := attributesOf(r.Properties["LoadBalancerAttributes"])
		for i := range changes {
			const crossZone = "load_balancing.cross_zone.enabled"
			if _, ok := named[crossZone]; *changes[i].Key == crossZone && !ok {
				changes[i].Value = aws.String("true")
			}
		}
	}
	for some := range slices.Chunk(changes, maxAttributes) {
		if _, err := c.ModifyLoadBalancerAttributes(ctx, &v2.ModifyLoadBalancerAttributesInput{
			LoadBalancerArn: &r.PhysicalID, Attributes: some}); err != nil {
			return err
		}
	}
	return nil
}

// setBalancerGroups gives a load balancer the security groups of the property. Without it, an Application Load Balancer
// has the default one of its VPC; a Network Load Balancer cannot lose those that it has, which the service says.
func setBalancerGroups(ctx context.Context, c *v2.Client, r *resource.Request) error {
	groups := r.Texts("SecurityGroups")
	if len(groups) == 0 && r.Text("Type") != string(types.LoadBalancerTypeEnumNetwork) {
		out, err := c.DescribeLoadBalancers(ctx, &v2.DescribeLoadBalancersInput{LoadBalancerArns: []string{r.PhysicalID}})
		if err != nil {
			return err
		}
		if groups, err = defaultGroup(ctx, r, out.LoadBalancers[0].VpcId); err != nil {
			return err
		}
	}
	if groups == nil {
		groups = []string{}
	}
	_, err := c.SetSecurityGroups(ctx, &v2.SetSecurityGroupsInput{LoadBalancerArn: &r.PhysicalID, SecurityGroups: groups})
	return err
}

func setBalancerSubnets(ctx context.Context, c *v2.Client, r *resource.Request) error {
	in := &v2.SetSubnetsInput{LoadBalancerArn: &r.PhysicalID}
	called := map[string]any{"Subnets": r.Properties["Subnets"], "SubnetMappings": r.Properties["SubnetMappings"]}
	if err := resource.Decode(called, in, nil); err != nil {
		return err
	}
	_, err := c.SetSubnets(ctx, in)
	return err
}

func balancerProperties(ctx context.Context, c *v2.Client, r *resource.Request, live *types.LoadBalancer) (
	map[string]any, error) {
	p := map[string]any{"Name": aws.ToString(live.LoadBalancerName), "Scheme": string(live.Scheme),
		"Type": string(live.Type), "IpAddressType": string(live.IpAddressType)}
	var subnets []string
	mappings := map[string]map[string]any{} // by subnet
	for _, zone := range live.AvailabilityZones {
		id := aws.ToString(zone.SubnetId)
		subnets, mappings[id] = append(subnets, id), map[string]any{"SubnetId": id}
		for _, a := range zone.LoadBalancerAddresses {
			for name, value := range map[string]*string{"AllocationId": a.AllocationId,
				"PrivateIPv4Address": a.PrivateIPv4Address} {
				if value != nil {
					mappings[id][name] = *value
				}
			}
		}
	}
	if r.Properties["SubnetMappings"] == nil {
		p["Subnets"] = inOrder(subnets, r.Texts("Subnets"))
	} else {
		var said []string
		for _, m := range r.Objects("SubnetMappings") {
			said = append(said, resource.Text(m["SubnetId"]))
		}
		var list []any
		for _, id := range inOrder(subnets, said) {
			list = append(list, mappings[resource.Text(id)])
		}
		p["SubnetMappings"] = likeTemplate(list, r.Properties["SubnetMappings"])
	}
	if len(live.SecurityGroups) > 0 {
		p["SecurityGroups"] = inOrder(live.SecurityGroups, r.Texts("SecurityGroups"))
	}
	out, err := c.DescribeLoadBalancerAttributes(ctx, &v2.DescribeLoadBalancerAttributesInput{
		LoadBalancerArn: &r.PhysicalID})
	if err != nil {
		return nil, err
	}
	if list := attributeObjects(r, "LoadBalancerAttributes", out.Attributes,
		func(a types.LoadBalancerAttribute) (key, value *string) { return a.Key, a.Value }); list != nil {
		p["LoadBalancerAttributes"] = list
	}
	return p, putTags(ctx, c, r, p)
}
