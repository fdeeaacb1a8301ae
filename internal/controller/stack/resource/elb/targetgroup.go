package elb

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// groupDefaults are what attributes of target groups are without a property: an update that leaves one out sets it.
// What is not among them has no default that could be set.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_TargetGroupAttribute.html
var groupDefaults = map[string]string{
	"deregistration_delay.timeout_seconds":                                           "300",
	"deregistration_delay.connection_termination.enabled":                            "false",
	"load_balancing.algorithm.anomaly_mitigation":                                    "off",
	"load_balancing.algorithm.type":                                                  "round_robin",
	"load_balancing.cross_zone.enabled":                                              "use_load_balancer_configuration",
	"proxy_protocol_v2.enabled":                                                      "false",
	"slow_start.duration_seconds":                                                    "0",
	"stickiness.app_cookie.cookie_name":                                              "",
	"stickiness.app_cookie.duration_seconds":                                         "86400",
	"stickiness.enabled":                                                             "false",
	"stickiness.lb_cookie.duration_seconds":                                          "86400",
	"target_group_health.dns_failover.minimum_healthy_targets.count":                 "1",
	"target_group_health.dns_failover.minimum_healthy_targets.percentage":            "off",
	"target_group_health.unhealthy_state_routing.minimum_healthy_targets.count":      "1",
	"target_group_health.unhealthy_state_routing.minimum_healthy_targets.percentage": "off",
	"target_health_state.unhealthy.connection_termination.enabled":                   "true",
	"target_health_state.unhealthy.draining_interval_seconds":                        "0",
}

// healthCheck are the properties about health checks.
var healthCheck = []string{"HealthCheckEnabled", "HealthCheckIntervalSeconds", "HealthCheckPath", "HealthCheckPort",
	"HealthCheckProtocol", "HealthCheckTimeoutSeconds", "HealthyThresholdCount", "Matcher", "UnhealthyThresholdCount"}

// groupMembers are the members of target groups that have other names than properties.
var groupMembers = resource.Members{"Name": "TargetGroupName"}

// targetGroups is the handler of AWS::ElasticLoadBalancingV2::TargetGroup.
var targetGroups = resource.Handle(resource.Table[*v2.Client, types.TargetGroup]{
	Client: newClient,
	Create: resource.Create((*v2.Client).CreateTargetGroup, nil,
		func(out *v2.CreateTargetGroupOutput) *string { return out.TargetGroups[0].TargetGroupArn },
		func(r *resource.Request, in *v2.CreateTargetGroupInput) error {
			in.Name, in.Tags = aws.String(nameOf(r, "Name")), resource.TagList(r.Wanted("Tags"), newTag)
			return nil
		}),
	Find: func(ctx context.Context, c *v2.Client, r *resource.Request) (string, error) {
		out, err := c.DescribeTargetGroups(ctx, &v2.DescribeTargetGroupsInput{Names: []string{nameOf(r, "Name")}})
		if err != nil {
			return "", err
		}
		var arns []string
		for _, g := range out.TargetGroups {
			arns = append(arns, aws.ToString(g.TargetGroupArn))
		}
		return findOwned(ctx, c, r, arns)
	},
	Describe: describeGroup,
	Configure: []resource.Step[*v2.Client]{
		{
			Properties: []string{"TargetGroupAttributes"},
			Run: func(ctx context.Context, c *v2.Client, r *resource.Request) error {
				changes := attributeChanges(r, "TargetGroupAttributes", groupDefaults, newGroupAttribute)
				changes = slices.DeleteFunc(changes, func(a types.TargetGroupAttribute) bool { return *a.Value == "" })
				if len(changes) == 0 {
					return nil
				}
				_, err := c.ModifyTargetGroupAttributes(ctx, &v2.ModifyTargetGroupAttributesInput{
					TargetGroupArn: &r.PhysicalID, Attributes: changes})
				return err
			},
		},
		{Properties: healthCheck, Update: true, Run: setHealthCheck},
		{Properties: []string{"Targets"}, Run: setTargets},
		setTags,
	},
	Delete: func(ctx context.Context, c *v2.Client, r *resource.Request) error {
		_, err := c.DeleteTargetGroup(ctx, &v2.DeleteTargetGroupInput{TargetGroupArn: &r.PhysicalID})
		return err
	},
	Attributes: func(_ *resource.Request, live *types.TargetGroup) map[string]any {
		balancers := []any{}
		for _, arn := range live.LoadBalancerArns {
			balancers = append(balancers, arn)
		}
		arn := aws.ToString(live.TargetGroupArn)
		return map[string]any{
			"LoadBalancerArns": balancers, "TargetGroupArn": arn, "TargetGroupName": aws.ToString(live.TargetGroupName),
			"TargetGroupFullName": arn[strings.LastIndexByte(arn, ':')+1:],
		}
	},
	Properties: groupProperties,
})

func newGroupAttribute(key, value string) types.TargetGroupAttribute {
	return types.TargetGroupAttribute{Key: &key, Value: &value}
}

func describeGroup(ctx context.Context, c *v2.Client, r *resource.Request) (*types.TargetGroup, error) {
	out, err := c.DescribeTargetGroups(ctx, &v2.DescribeTargetGroupsInput{TargetGroupArns: []string{r.PhysicalID}})
	if err != nil {
		return nil, err
	}
	return &out.TargetGroups[0], nil
}

// setHealthCheck gives a target group the health checks of the properties, with the defaults for those left out.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateTargetGroup.html
func setHealthCheck(ctx context.Context, c *v2.Client, r *resource.Request) error {
	live, err := describeGroup(ctx, c, r)
	if err != nil {
		return err
	}
	application := live.Protocol == types.ProtocolEnumHttp || live.Protocol == types.ProtocolEnumHttps
	protocol := cmp.Or(r.Text("HealthCheckProtocol"), "TCP")
	if application || live.TargetType == types.TargetTypeEnumAlb {
		protocol = cmp.Or(r.Text("HealthCheckProtocol"), "HTTP")
	}
	in := &v2.ModifyTargetGroupInput{TargetGroupArn: &r.PhysicalID, HealthCheckProtocol: types.ProtocolEnum(protocol),
		HealthCheckPort: aws.String("traffic-port"), HealthCheckIntervalSeconds: aws.Int32(30),
		HealthyThresholdCount: aws.Int32(5), UnhealthyThresholdCount: aws.Int32(2)}
	switch {
	case aws.ToString(live.ProtocolVersion) == "GRPC":
		in.HealthCheckPath, in.HealthCheckTimeoutSeconds = aws.String("/AWS.ALB/healthcheck"), aws.Int32(5)
		in.Matcher = &types.Matcher{GrpcCode: aws.String("12")}
	case application:
		in.HealthCheckPath, in.HealthCheckTimeoutSeconds = aws.String("/"), aws.Int32(5)
		in.Matcher = &types.Matcher{HttpCode: aws.String("200")}
	case protocol == "TCP":
		in.HealthCheckTimeoutSeconds = aws.Int32(10)
	default:
		in.HealthCheckPath, in.HealthCheckTimeoutSeconds = aws.String("/"), aws.Int32(6)
		in.Matcher = &types.Matcher{HttpCode: aws.String("200-399")}
	}
	// With a short interval the timeout has to be shorter, too, which the service sees to.
	if interval := r.Int32("HealthCheckIntervalSeconds"); interval != nil &&
		*interval <= *in.HealthCheckTimeoutSeconds {
		in.HealthCheckTimeoutSeconds = nil
	}
	asked := map[string]any{}
	for _, name := range healthCheck {
		asked[name] = r.Properties[name]
	}
	if err := resource.Decode(asked, in, nil); err != nil {
		return err
	}
	_, err = c.ModifyTargetGroup(ctx, in)
	return err
}

// setTargets registers the targets of the property and deregisters those that it had before. What others have
// registered stays.
func setTargets(ctx context.Context, c *v2.Client, r *resource.Request) error {
	wanted, err := targetsOf(r.Properties["Targets"])
	if err != nil {
		return err
	}
	had, err := targetsOf(r.Previous["Targets"])
	if err != nil {
		return err
	}
	live, err := describeGroup(ctx, c, r)
	if err != nil {
		return err
	}
	same := func(a, b types.TargetDescription) bool {
		port := func(t types.TargetDescription) int32 {
			if t.Port == nil {
				return aws.ToInt32(live.Port)
			}
			return *t.Port
		}
		return aws.ToString(a.Id) == aws.ToString(b.Id) && port(a) == port(b)
	}
	gone := slices.DeleteFunc(had, func(t types.TargetDescription) bool {
		return slices.ContainsFunc(wanted, func(w types.TargetDescription) bool { return same(t, w) })
	})
	if len(wanted) > 0 {
		if _, err := c.RegisterTargets(ctx, &v2.RegisterTargetsInput{TargetGroupArn: &r.PhysicalID,
			Targets: wanted}); err != nil {
			return err
		}
	}
	if len(gone) == 0 {
		return nil
	}
	for i := range gone {
		gone[i].AvailabilityZone = nil
	}
	_, err = c.DeregisterTargets(ctx, &v2.DeregisterTargetsInput{TargetGroupArn: &r.PhysicalID, Targets: gone})
	return err
}

func targetsOf(property any) ([]types.TargetDescription, error) {
	var in v2.RegisterTargetsInput
	err := resource.Decode(map[string]any{"Targets": property}, &in, nil)
	return in.Targets, err
}

func groupProperties(ctx context.Context, c *v2.Client, r *resource.Request, live *types.TargetGroup) (
	map[string]any, error) {
	p := without(resource.Encode(live, groupMembers), "LoadBalancerArns", "TargetGroupArn")
	if r.Properties["TargetGroupAttributes"] != nil {
		out, err := c.DescribeTargetGroupAttributes(ctx, &v2.DescribeTargetGroupAttributesInput{
			TargetGroupArn: &r.PhysicalID})
		if err != nil {
			return nil, err
		}
		if list := attributeObjects(r, "TargetGroupAttributes", out.Attributes,
			func(a types.TargetGroupAttribute) (key, value *string) { return a.Key, a.Value }); list != nil {
			p["TargetGroupAttributes"] = list
		}
	}
	if said := r.Properties["Targets"]; said != nil {
		list, err := registeredTargets(ctx, c, r)
		if err != nil {
			return nil, err
		}
		p["Targets"] = likeTemplate(list, said)
	}
	return p, putTags(ctx, c, r, p)
}

// registeredTargets returns the targets of a target group that do not leave it, those of the template first.
func registeredTargets(ctx context.Context, c *v2.Client, r *resource.Request) ([]any, error) {
	out, err := c.DescribeTargetHealth(ctx, &v2.DescribeTargetHealthInput{TargetGroupArn: &r.PhysicalID})
	if err != nil {
		return nil, err
	}
	live := slices.DeleteFunc(out.TargetHealthDescriptions, func(d types.TargetHealthDescription) bool {
		return d.TargetHealth.State == types.TargetHealthStateEnumDraining
	})
	rank := func(d types.TargetHealthDescription) int {
		said := r.Objects("Targets")
		i := slices.IndexFunc(said, func(t map[string]any) bool {
			return resource.Text(t["Id"]) == aws.ToString(d.Target.Id) &&
				(t["Port"] == nil || resource.Text(t["Port"]) == resource.Text(number(aws.ToInt32(d.Target.Port))))
		})
		if i < 0 {
			return len(said)
		}
		return i
	}
	slices.SortStableFunc(live, func(a, b types.TargetHealthDescription) int { return cmp.Compare(rank(a), rank(b)) })
	list := []any{}
	for _, d := range live {
		list = append(list, resource.Encode(d.Target, nil))
	}
	return list, nil
}
