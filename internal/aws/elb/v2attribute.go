package elb

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/record"
)

// attributeHandlers returns the handlers of this file's operations and how each is authorized.
func (s V2) attributeHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeLoadBalancerAttributes, wire.OnAll),
		wire.Handle(s.DescribeTargetGroupAttributes, wire.OnAll),
		wire.Handle(s.DescribeListenerAttributes, wire.OnAll),
		wire.Handle(s.ModifyLoadBalancerAttributes, func(
			ctx context.Context, action string, in *elasticloadbalancingv2.ModifyLoadBalancerAttributesInput,
		) ([]wire.Target, error) {
			return s.targets(ctx, action, in.LoadBalancerArn, balancers)
		}),
		wire.Handle(s.ModifyTargetGroupAttributes, func(
			ctx context.Context, action string, in *elasticloadbalancingv2.ModifyTargetGroupAttributesInput,
		) ([]wire.Target, error) {
			return s.targets(ctx, action, in.TargetGroupArn, groups)
		}),
		wire.Handle(s.ModifyListenerAttributes, func(
			ctx context.Context, action string, in *elasticloadbalancingv2.ModifyListenerAttributesInput,
		) ([]wire.Target, error) {
			return s.targets(ctx, action, in.ListenerArn, listeners)
		}),
	}
}

// attribute is one that a resource has: its default, and what it may be.
type attribute struct {
	name, otherwise string
	check           func(value string) bool
}

func isOneOf(values ...string) func(string) bool {
	return func(v string) bool { return slices.Contains(values, v) }
}

var isBool = isOneOf("true", "false")

func isNumber(least, most int) func(string) bool {
	return func(v string) bool {
		n, err := strconv.Atoi(v)
		return err == nil && least <= n && n <= most
	}
}

func anything(string) bool { return true }

// balancerAttributes are those of load balancers, by kind.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_LoadBalancerAttribute.html
var balancerAttributes = map[string][]attribute{
	record.ApplicationLoadBalancer: {
		{"access_logs.s3.enabled", "false", isOneOf("false")}, // S3 is not served
		{"access_logs.s3.bucket", "", anything},
		{"access_logs.s3.prefix", "", anything},
		{"client_keep_alive.seconds", "3600", isNumber(60, 604800)},
		{"connection_logs.s3.enabled", "false", isOneOf("false")},
		{"connection_logs.s3.bucket", "", anything},
		{"connection_logs.s3.prefix", "", anything},
		{"deletion_protection.enabled", "false", isBool},
		{"health_check_logs.s3.enabled", "false", isOneOf("false")},
		{"health_check_logs.s3.bucket", "", anything},
		{"health_check_logs.s3.prefix", "", anything},
		{"idle_timeout.timeout_seconds", "60", isNumber(1, 4000)},
		{"ipv6.deny_all_igw_traffic", "false", isOneOf("false")},
		{"load_balancing.cross_zone.enabled", "true", isOneOf("true")},
		{"routing.http.desync_mitigation_mode", "defensive", isOneOf("monitor", "defensive", "strictest")},
		{"routing.http.drop_invalid_header_fields.enabled", "false", isBool},
		{"routing.http.preserve_host_header.enabled", "false", isBool},
		{"routing.http.x_amzn_tls_version_and_cipher_suite.enabled", "false", isBool},
		{"routing.http.xff_client_port.enabled", "false", isBool},
		{"routing.http.xff_header_processing.mode", "append", isOneOf("append", "preserve", "remove")},
		{"routing.http2.enabled", "true", isBool},
		{"waf.fail_open.enabled", "false", isBool}, // no load balancer has a web ACL
		{"zonal_shift.config.enabled", "false", isOneOf("false")},
	},
	record.NetworkLoadBalancer: {
		{"access_logs.s3.enabled", "false", isOneOf("false")},
		{"access_logs.s3.bucket", "", anything},
		{"access_logs.s3.prefix", "", anything},
		{"deletion_protection.enabled", "false", isBool},
		{"dns_record.client_routing_policy", "any_availability_zone", isOneOf("any_availability_zone")},
		{"ipv6.deny_all_igw_traffic", "false", isOneOf("false")},
		{"load_balancing.cross_zone.enabled", "false", isBool},
		{"zonal_shift.config.enabled", "false", isOneOf("false")},
	},
}

// vendedLogs are the log types that CloudWatch Logs delivers in place of what attributes of load balancers enable.
var vendedLogs = map[string]string{"access_logs.s3.enabled": "ALB_ACCESS_LOGS or NLB_ACCESS_LOGS",
	"connection_logs.s3.enabled": "ALB_CONNECTION_LOGS"}

// healthAttributes are those of target groups about how many targets must be healthy.
var healthAttributes = []attribute{
	{"target_group_health.dns_failover.minimum_healthy_targets.count", "1", isOneOf("1")},
	{"target_group_health.dns_failover.minimum_healthy_targets.percentage", "off", isOneOf("off")},
	{"target_group_health.unhealthy_state_routing.minimum_healthy_targets.count", "1", isOneOf("1")},
	{"target_group_health.unhealthy_state_routing.minimum_healthy_targets.percentage", "off", isOneOf("off")},
}

// networkGroupAttributes are those of target groups of Network Load Balancers.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_TargetGroupAttribute.html
var networkGroupAttributes = slices.Concat([]attribute{
	{"deregistration_delay.timeout_seconds", "300", isNumber(0, 3600)},
	{"deregistration_delay.connection_termination.enabled", "false", isOneOf("false")},
	{"load_balancing.cross_zone.enabled", "use_load_balancer_configuration",
		isOneOf("true", "false", "use_load_balancer_configuration")},
	{"preserve_client_ip.enabled", "", isBool},
	{"proxy_protocol_v2.enabled", "false", isBool},
	{"stickiness.enabled", "false", isBool},
	{"stickiness.type", "source_ip", isOneOf("source_ip")},
	{"target_health_state.unhealthy.connection_termination.enabled", "true", isBool},
	{"target_health_state.unhealthy.draining_interval_seconds", "0", isNumber(0, 360000)},
}, healthAttributes)

// applicationGroupAttributes are those of target groups of Application Load Balancers.
var applicationGroupAttributes = slices.Concat([]attribute{
	{"deregistration_delay.timeout_seconds", "300", isNumber(0, 3600)},
	{"load_balancing.algorithm.anomaly_mitigation", "off", isOneOf("off")},
	{"load_balancing.algorithm.type", "round_robin",
		isOneOf("round_robin", "least_outstanding_requests", "weighted_random")},
	{"load_balancing.cross_zone.enabled", "use_load_balancer_configuration",
		isOneOf("true", "false", "use_load_balancer_configuration")},
	{"slow_start.duration_seconds", "0", func(v string) bool { return v == "0" || isNumber(30, 900)(v) }},
	{"stickiness.app_cookie.cookie_name", "", isCookieName},
	{"stickiness.app_cookie.duration_seconds", "86400", isNumber(1, 604800)},
	{"stickiness.enabled", "false", isBool},
	{"stickiness.lb_cookie.duration_seconds", "86400", isNumber(1, 604800)},
	{"stickiness.type", "lb_cookie", isOneOf("lb_cookie", "app_cookie")},
}, healthAttributes)

// isCookieName reports whether an application may have a cookie of that name for stickiness.
func isCookieName(v string) bool {
	return len(v) <= 256 && !strings.HasPrefix(v, "AWSALB") && !strings.ContainsAny(v, " \t\r\n;,=\"\\()<>@:/[]?{}")
}

func groupAttributes(g record.TargetGroup) []attribute {
	if isHTTP(g.Protocol) {
		return applicationGroupAttributes
	}
	return networkGroupAttributes
}

// listenerAttributes returns the attributes that a listener has.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_ListenerAttribute.html
func listenerAttributes(l record.Listener) (all []attribute) {
	switch {
	case l.Protocol == "TCP":
		return []attribute{{"tcp.idle_timeout.seconds", "350", isNumber(60, 6000)}}
	case !isHTTP(l.Protocol):
		return nil
	}
	if l.Protocol == "HTTPS" {
		for name := range balancing.RequestHeaders() {
			all = append(all, attribute{name, "", isHeaderName})
		}
	}
	all = append(all, attribute{"routing.http.response.server.enabled", "true", isBool})
	for name := range balancing.ResponseHeaders() {
		all = append(all, attribute{name, "", isHeaderValue})
	}
	slices.SortFunc(all, func(a, b attribute) int { return strings.Compare(a.name, b.name) })
	return all
}

func isHeaderName(v string) bool { return v == "" || headerName.MatchString(v) }

func isHeaderValue(v string) bool { return len(v) <= 4096 && !strings.ContainsAny(v, "\r\n\x00") }

// applyAttributes returns attributes with those of a request.
func applyAttributes(known []attribute, of map[string]string, keys, values []string) (map[string]string, error) {
	out := map[string]string{}
	for k, v := range of {
		out[k] = v
	}
	seen := map[string]bool{}
	for i, key := range keys {
		at := slices.IndexFunc(known, func(a attribute) bool { return a.name == key })
		switch {
		case at < 0:
			return nil, invalid("The attribute key '%s' is not recognized, or not supported by coracle yet", key)
		case seen[key]:
			return nil, invalid("The attribute key '%s' is given twice", key)
		case vendedLogs[key] != "" && values[i] == "true":
			return nil, invalidConfiguration("Logs of load balancers are not stored in Amazon S3 by coracle. Leave '%s' at "+
				"false, and deliver logs of the type %s to a log group of CloudWatch Logs: with PutDeliverySource, "+
				"PutDeliveryDestination and CreateDelivery", key, vendedLogs[key])
		case !known[at].check(values[i]):
			return nil, invalidConfiguration("The value '%s' is not valid for the attribute '%s', or not supported by coracle "+
				"yet", values[i], key)
		}
		seen[key] = true
		out[key] = values[i]
	}
	return out, nil
}

func attributePairs[T any](list []T, pair func(T) (key, value *string)) (keys, values []string) {
	for _, a := range list {
		key, value := pair(a)
		keys, values = append(keys, aws.ToString(key)), append(values, strings.TrimSpace(aws.ToString(value)))
	}
	return keys, values
}

func viewAttributes[T any](known []attribute, of map[string]string, view func(key, value string) T) []T {
	all := make([]T, 0, len(known))
	for _, a := range known {
		value, ok := of[a.name]
		if !ok {
			value = a.otherwise
		}
		all = append(all, view(a.name, value))
	}
	return all
}

func viewBalancerAttributes(b record.LoadBalancer) []types.LoadBalancerAttribute {
	return viewAttributes(balancerAttributes[b.Kind], b.Attributes, func(key, value string) types.LoadBalancerAttribute {
		return types.LoadBalancerAttribute{Key: &key, Value: &value}
	})
}

// DescribeLoadBalancerAttributes returns the attributes of a load balancer.
func (s V2) DescribeLoadBalancerAttributes(ctx context.Context,
	in *elasticloadbalancingv2.DescribeLoadBalancerAttributesInput) (
	*elasticloadbalancingv2.DescribeLoadBalancerAttributesOutput, error) {
	row, err := s.getBalancer(ctx, in.LoadBalancerArn)
	if err != nil {
		return nil, err
	}
	return &elasticloadbalancingv2.DescribeLoadBalancerAttributesOutput{
		Attributes: viewBalancerAttributes(row.Value)}, nil
}

// ModifyLoadBalancerAttributes changes attributes of a load balancer.
func (s V2) ModifyLoadBalancerAttributes(ctx context.Context,
	in *elasticloadbalancingv2.ModifyLoadBalancerAttributesInput) (
	out *elasticloadbalancingv2.ModifyLoadBalancerAttributesOutput, err error) {
	names, values := attributePairs(in.Attributes,
		func(a types.LoadBalancerAttribute) (key, value *string) { return a.Key, a.Value })
	err = s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
		row, err := s.getBalancer(c, in.LoadBalancerArn)
		if err != nil {
			return err
		}
		known := balancerAttributes[row.Value.Kind]
		if row.Value.Attributes, err = applyAttributes(known, row.Value.Attributes, names, values); err != nil {
			return err
		}
		out = &elasticloadbalancingv2.ModifyLoadBalancerAttributesOutput{Attributes: viewBalancerAttributes(row.Value)}
		s.planUpdate(c, row)
		return nil
	})
	return out, err
}

func viewGroupAttributes(g record.TargetGroup) []types.TargetGroupAttribute {
	return viewAttributes(groupAttributes(g), g.Attributes, func(key, value string) types.TargetGroupAttribute {
		if key == "preserve_client_ip.enabled" && value == "" {
			value = strconv.FormatBool(balancing.PreservesClient(g))
		}
		return types.TargetGroupAttribute{Key: &key, Value: &value}
	})
}

// DescribeTargetGroupAttributes returns the attributes of a target group.
func (s V2) DescribeTargetGroupAttributes(ctx context.Context,
	in *elasticloadbalancingv2.DescribeTargetGroupAttributesInput) (
	*elasticloadbalancingv2.DescribeTargetGroupAttributesOutput, error) {
	row, err := s.getGroup(ctx, aws.ToString(in.TargetGroupArn))
	if err != nil {
		return nil, err
	}
	return &elasticloadbalancingv2.DescribeTargetGroupAttributesOutput{Attributes: viewGroupAttributes(row.Value)}, nil
}

// ModifyTargetGroupAttributes changes attributes of a target group.
func (s V2) ModifyTargetGroupAttributes(ctx context.Context,
	in *elasticloadbalancingv2.ModifyTargetGroupAttributesInput) (
	*elasticloadbalancingv2.ModifyTargetGroupAttributesOutput, error) {
	names, values := attributePairs(in.Attributes,
		func(a types.TargetGroupAttribute) (key, value *string) { return a.Key, a.Value })
	g, err := s.modifyGroup(ctx, in.TargetGroupArn, func(g *record.TargetGroup) (err error) {
		if g.TargetType == "alb" {
			return invalidConfiguration("The attributes of target groups with target type 'alb' cannot be modified")
		}
		if g.Attributes, err = applyAttributes(groupAttributes(*g), g.Attributes, names, values); err != nil {
			return err
		}
		if isHTTP(g.Protocol) {
			return checkApplicationGroup(*g)
		}
		if g.Protocol != "TCP" && (g.Attributes["preserve_client_ip.enabled"] == "false" ||
			g.Attributes["proxy_protocol_v2.enabled"] == "true") {
			return invalidConfiguration("Target groups with the protocol %s preserve client addresses, and have no PROXY "+
				"protocol", g.Protocol)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &elasticloadbalancingv2.ModifyTargetGroupAttributesOutput{Attributes: viewGroupAttributes(g)}, nil
}

// checkApplicationGroup refuses attributes that do not fit each other.
func checkApplicationGroup(g record.TargetGroup) error {
	algorithm := g.Attribute("load_balancing.algorithm.type", "round_robin")
	if algorithm != "round_robin" && g.Attribute("slow_start.duration_seconds", "0") != "0" {
		return invalidConfiguration("Slow start cannot be enabled with the load balancing algorithm '%s'", algorithm)
	}
	if g.Attribute("stickiness.enabled", "false") == "true" &&
		g.Attribute("stickiness.type", "lb_cookie") == "app_cookie" &&
		g.Attribute("stickiness.app_cookie.cookie_name", "") == "" {
		return invalidConfiguration("The attribute 'stickiness.app_cookie.cookie_name' must be specified for the " +
			"stickiness type 'app_cookie'")
	}
	return nil
}

func viewListenerAttributes(l record.Listener) []types.ListenerAttribute {
	return viewAttributes(listenerAttributes(l), l.Attributes, func(key, value string) types.ListenerAttribute {
		return types.ListenerAttribute{Key: &key, Value: &value}
	})
}

// DescribeListenerAttributes returns the attributes of a listener.
func (s V2) DescribeListenerAttributes(ctx context.Context,
	in *elasticloadbalancingv2.DescribeListenerAttributesInput) (
	*elasticloadbalancingv2.DescribeListenerAttributesOutput, error) {
	row, i, err := s.getListener(ctx, in.ListenerArn)
	if err != nil {
		return nil, err
	}
	return &elasticloadbalancingv2.DescribeListenerAttributesOutput{
		Attributes: viewListenerAttributes(row.Value.Listeners[i])}, nil
}

// ModifyListenerAttributes changes attributes of a listener.
func (s V2) ModifyListenerAttributes(ctx context.Context, in *elasticloadbalancingv2.ModifyListenerAttributesInput) (
	out *elasticloadbalancingv2.ModifyListenerAttributesOutput, err error) {
	names, values := attributePairs(in.Attributes,
		func(a types.ListenerAttribute) (key, value *string) { return a.Key, a.Value })
	err = s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
		row, i, err := s.getListener(c, in.ListenerArn)
		if err != nil {
			return err
		}
		l := &row.Value.Listeners[i]
		if l.Attributes, err = applyAttributes(listenerAttributes(*l), l.Attributes, names, values); err != nil {
			return err
		}
		if err := s.checkWeight(c, row.Value); err != nil {
			return err
		}
		out = &elasticloadbalancingv2.ModifyListenerAttributesOutput{Attributes: viewListenerAttributes(*l)}
		s.planUpdate(c, row)
		return nil
	})
	return out, err
}
