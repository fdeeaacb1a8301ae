package elb

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// groupHandlers returns the handlers of this file's operations and how each is authorized.
func (s V2) groupHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateTargetGroup, func(
			ctx context.Context, action string, in *elasticloadbalancingv2.CreateTargetGroupInput,
		) ([]wire.Target, error) {
			tags := v2Tags(in.Tags)
			t := targetOfNew(ctx, action, "targetgroup/"+aws.ToString(in.Name)+"/*", tags)
			return withTagging([]wire.Target{t}, "", tags), nil
		}),
		wire.Handle(s.DescribeTargetGroups, wire.OnAll),
		wire.Handle(s.ModifyTargetGroup, func(
			ctx context.Context, action string, in *elasticloadbalancingv2.ModifyTargetGroupInput,
		) ([]wire.Target, error) {
			return s.targets(ctx, action, in.TargetGroupArn, groups)
		}),
		wire.Handle(s.DeleteTargetGroup, func(
			ctx context.Context, action string, in *elasticloadbalancingv2.DeleteTargetGroupInput,
		) ([]wire.Target, error) {
			return s.targets(ctx, action, in.TargetGroupArn, groups)
		}),
	}
}

// groupProtocols are those of target groups: of Application Load Balancers, and of Network Load Balancers.
var groupProtocols = []types.ProtocolEnum{types.ProtocolEnumHttp, types.ProtocolEnumHttps, types.ProtocolEnumTcp,
	types.ProtocolEnumUdp, types.ProtocolEnumTcpUdp}

// CreateTargetGroup creates a target group. It returns the one that has the name already if that was made with the same
// settings.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateTargetGroup.html
func (s V2) CreateTargetGroup(ctx context.Context, in *elasticloadbalancingv2.CreateTargetGroupInput) (
	*elasticloadbalancingv2.CreateTargetGroupOutput, error) {
	g, err := s.newGroup(ctx, in)
	if err != nil {
		return nil, err
	}
	made := g
	err = s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
		made = g
		if _, err := c.VPCs.GetRecord(c.Scope, in.VpcId); err != nil {
			return invalid("The VPC ID '%s' is not found", g.VPCID)
		}
		rows, err := s.groups.List(c, store.Prefix(g.Account, g.Region))
		if err != nil {
			return err
		}
		for _, row := range rows {
			if row.Value.Name == g.Name {
				if isSameGroup(row.Value, g) {
					made = row.Value
					return nil
				}
				return wire.Errorf("DuplicateTargetGroupName", "A target group with the same name '%s' exists, but with "+
					"different settings", g.Name)
			}
		}
		if len(rows) >= maxTargetGroups {
			return wire.Errorf("TooManyTargetGroups", "The maximum number of target groups, %d, has been reached",
				maxTargetGroups)
		}
		c.Add("targetgroup/"+g.Key(), func() store.Op { return s.groups.CreateOp(g.Key(), g) })
		return nil
	})
	if err != nil {
		return nil, err
	}
	all, err := s.listBalancers(ctx)
	return &elasticloadbalancingv2.CreateTargetGroupOutput{
		TargetGroups: []types.TargetGroup{s.describeGroup(made, all)}}, err
}

// isSameGroup reports whether a target group has the settings of one that is to be made.
func isSameGroup(g, asked record.TargetGroup) bool {
	return g.Protocol == asked.Protocol && g.Version == asked.Version && g.Port == asked.Port &&
		g.TargetType == asked.TargetType && g.VPCID == asked.VPCID && g.HealthCheck == asked.HealthCheck &&
		maps.Equal(g.Tags, asked.Tags)
}

func (s V2) newGroup(ctx context.Context, in *elasticloadbalancingv2.CreateTargetGroupInput) (
	g record.TargetGroup, err error) {
	at, name := placeOf(ctx), aws.ToString(in.Name)
	if err := checkName("Target group name", name); err != nil {
		return g, err
	}
	g = record.TargetGroup{Account: at.account, Region: at.region, Name: name, ID: newID(), CreatedAt: s.timestamp(),
		Protocol: string(in.Protocol), Port: aws.ToInt32(in.Port), TargetType: string(in.TargetType),
		VPCID: aws.ToString(in.VpcId)}
	switch in.TargetType {
	case "":
		g.TargetType = string(types.TargetTypeEnumInstance)
	case types.TargetTypeEnumInstance, types.TargetTypeEnumIp, types.TargetTypeEnumAlb:
	case types.TargetTypeEnumLambda:
		return g, invalidConfiguration("coracle has target groups of the types 'instance', 'ip' and 'alb', not '%s' yet",
			in.TargetType)
	default:
		return g, invalid("Target type '%s' must be one of: instance, ip, lambda, alb", in.TargetType)
	}
	switch {
	case in.Protocol == "":
		return g, invalid("A protocol must be specified")
	case !slices.Contains(in.Protocol.Values(), in.Protocol):
		return g, invalid("Protocol '%s' must be one of: HTTP, HTTPS, TCP, TLS, UDP, TCP_UDP, GENEVE", in.Protocol)
	case in.TargetType == types.TargetTypeEnumAlb && in.Protocol != types.ProtocolEnumTcp:
		return g, invalidConfiguration("Protocol '%s' is not supported for target groups with target type 'alb': it must be "+
			"TCP", in.Protocol)
	case !slices.Contains(groupProtocols, in.Protocol):
		return g, wire.Errorf("UnsupportedProtocol", "coracle has target groups with the protocols HTTP, HTTPS, TCP, UDP "+
			"and TCP_UDP, not %s yet", in.Protocol)
	case in.ProtocolVersion != nil && !isHTTP(g.Protocol):
		return g, invalidConfiguration("Protocol versions are for the protocols HTTP and HTTPS")
	case in.Port == nil:
		return g, invalid("A port must be specified")
	case g.VPCID == "":
		return g, invalid("A VPC ID must be specified")
	case in.IpAddressType == types.TargetGroupIpAddressTypeEnumIpv6:
		return g, invalidConfiguration("coracle has target groups with the IP address type 'ipv4' alone, not 'ipv6'")
	case in.TargetControlPort != nil:
		return g, invalidConfiguration("coracle has no target optimizer: create the target group without a target " +
			"control port")
	}
	if err := checkRange("Port", g.Port, 1, 65535); err != nil {
		return g, err
	}
	if isHTTP(g.Protocol) {
		if g.Version = aws.ToString(in.ProtocolVersion); g.Version == "" {
			g.Version = "HTTP1"
		}
		if !slices.Contains([]string{"HTTP1", "HTTP2", "GRPC"}, g.Version) {
			return g, invalid("Protocol version '%s' must be one of: HTTP1, HTTP2, GRPC", g.Version)
		}
	}
	g.HealthCheck = defaultHealthCheck(g, in.HealthCheckProtocol)
	g.HealthCheck, err = changeHealthCheck(g, checkSettings{
		enabled: in.HealthCheckEnabled, protocol: in.HealthCheckProtocol, port: in.HealthCheckPort,
		path: in.HealthCheckPath, matcher: in.Matcher, interval: in.HealthCheckIntervalSeconds,
		timeout: in.HealthCheckTimeoutSeconds, healthy: in.HealthyThresholdCount, unhealthy: in.UnhealthyThresholdCount,
	})
	if err != nil {
		return g, err
	}
	g.Tags, err = applyTags(ctx, nil, v2Tags(in.Tags))
	return g, err
}

// defaultHealthCheck returns the health check of a new target group.
func defaultHealthCheck(g record.TargetGroup, protocol types.ProtocolEnum) record.HealthCheck {
	h := record.HealthCheck{Protocol: "TCP", Interval: 30, Timeout: 10, HealthyThreshold: 5, UnhealthyThreshold: 2}
	switch {
	case g.Version == "GRPC":
		h.Protocol, h.Path, h.Matcher, h.Timeout = "HTTP", "/AWS.ALB/healthcheck", "12", 5
	case g.Version != "":
		h.Protocol, h.Path, h.Matcher, h.Timeout = "HTTP", "/", "200", 5
	case g.TargetType == "alb":
		h.Protocol, h.Path, h.Matcher, h.Timeout = "HTTP", "/", "200-399", 6
	case protocol == types.ProtocolEnumHttp || protocol == types.ProtocolEnumHttps:
		h.Path, h.Matcher, h.Timeout = "/", "200-399", 6
	}
	return h
}

// checkSettings are those parts of a health check that a request has.
type checkSettings struct {
	enabled                               *bool
	protocol                              types.ProtocolEnum
	port, path                            *string
	matcher                               *types.Matcher
	interval, timeout, healthy, unhealthy *int32
}

var matcherPattern = regexp.MustCompile(`^\d{1,3}(-\d{1,3})?(,\d{1,3}(-\d{1,3})?)*$`)

// checkMatcher refuses codes that are no list of numbers and ranges between two numbers.
func checkMatcher(what, codes string, least, most int) error {
	valid := matcherPattern.MatchString(codes)
	for part := range strings.SplitSeq(codes, ",") {
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		valid = valid && err1 == nil && err2 == nil && least <= first && first <= last && last <= most
	}
	if !valid {
		return invalid("Health check matcher %s code '%s' must be within %d-%d, of the form 200, 200,202 or 200-399", what,
			codes, least, most)
	}
	return nil
}

// changeMatcher changes which answers a health check accepts.
func changeMatcher(g record.TargetGroup, h *record.HealthCheck, in *types.Matcher) error {
	switch {
	case in == nil || in.HttpCode == nil && in.GrpcCode == nil:
		return nil
	case in.HttpCode != nil && in.GrpcCode != nil:
		return invalid("A matcher cannot have HTTP codes and gRPC codes")
	case h.Protocol == "TCP":
		return invalidConfiguration("Matchers are for health checks by HTTP and HTTPS")
	case (in.GrpcCode != nil) != (g.Version == "GRPC"):
		return invalidConfiguration("Matchers with gRPC codes are for target groups with the protocol version GRPC, and " +
			"those with HTTP codes for others")
	case in.GrpcCode != nil:
		h.Matcher = *in.GrpcCode
		return checkMatcher("gRPC", h.Matcher, 0, 99)
	}
	most := 599
	if g.Version != "" {
		most = 499
	}
	h.Matcher = *in.HttpCode
	return checkMatcher("HTTP", h.Matcher, 200, most)
}

// changeHealthCheck returns the health check of a target group with the settings of a request.
func changeHealthCheck(g record.TargetGroup, in checkSettings) (record.HealthCheck, error) {
	h := g.HealthCheck
	if in.enabled != nil && !*in.enabled {
		return h, invalidConfiguration("Health check enabled must be true for target groups with target type " +
			"'instance', 'ip' or 'alb'")
	}
	switch in.protocol {
	case "":
	case types.ProtocolEnumTcp, types.ProtocolEnumHttp, types.ProtocolEnumHttps:
		if g.Version != "" && in.protocol == types.ProtocolEnumTcp {
			return h, invalidConfiguration("Health check protocol 'TCP' is not supported for target groups with the protocol "+
				"%s", g.Protocol)
		}
		if g.TargetType == "alb" && in.protocol == types.ProtocolEnumTcp {
			return h, invalidConfiguration("Health check protocol 'TCP' is not supported for target groups with target type " +
				"'alb': it must be HTTP or HTTPS")
		}
		if h.Protocol == "TCP" && in.protocol != types.ProtocolEnumTcp && h.Path == "" {
			h.Path, h.Matcher = "/", "200-399"
		}
		if h.Protocol = string(in.protocol); h.Protocol == "TCP" {
			h.Path, h.Matcher = "", ""
		}
	default:
		return h, invalid("Health check protocol '%s' must be one of: TCP, HTTP, HTTPS", in.protocol)
	}
	if in.port != nil {
		if h.Port = 0; *in.port != "traffic-port" {
			n, err := strconv.ParseInt(*in.port, 10, 32)
			if err != nil || n < 1 || n > 65535 {
				return h, invalid("Health check port '%s' must be 'traffic-port' or a number between 1 and 65535", *in.port)
			}
			h.Port = int32(n)
		}
	}
	if in.path != nil {
		switch {
		case h.Protocol == "TCP":
			return h, invalidConfiguration("A health check path cannot be specified for the health check protocol TCP")
		case !strings.HasPrefix(*in.path, "/") || len(*in.path) > 1024 || strings.ContainsAny(*in.path, " \t\r\n"):
			return h, invalid("Health check path '%s' must begin with a '/' and have at most 1024 characters", *in.path)
		}
		h.Path = *in.path
	}
	if err := changeMatcher(g, &h, in.matcher); err != nil {
		return h, err
	}
	for _, n := range []struct {
		what        string
		in          *int32
		to          *int32
		least, most int32
	}{
		{"Health check interval", in.interval, &h.Interval, 5, 300},
		{"Health check timeout", in.timeout, &h.Timeout, 2, 120},
		{"Healthy threshold count", in.healthy, &h.HealthyThreshold, 2, 10},
		{"Unhealthy threshold count", in.unhealthy, &h.UnhealthyThreshold, 2, 10},
	} {
		if n.in == nil {
			continue
		}
		if err := checkRange(n.what, *n.in, n.least, n.most); err != nil {
			return h, err
		}
		*n.to = *n.in
	}
	if in.timeout == nil && h.Timeout >= h.Interval {
		h.Timeout = h.Interval - 1
	}
	if h.Timeout > h.Interval {
		return h, invalid("Health check timeout '%d' must be smaller than or equal to the interval '%d'", h.Timeout,
			h.Interval)
	}
	return h, nil
}

// describeGroup returns a target group as the API shows it.
func (s V2) describeGroup(g record.TargetGroup, all []record.LoadBalancer) types.TargetGroup {
	h, port := g.HealthCheck, "traffic-port"
	if h.Port != 0 {
		port = strconv.Itoa(int(h.Port))
	}
	d := types.TargetGroup{
		TargetGroupArn: aws.String(g.ARN()), TargetGroupName: &g.Name, Protocol: types.ProtocolEnum(g.Protocol),
		Port: &g.Port, VpcId: &g.VPCID, TargetType: types.TargetTypeEnum(g.TargetType), LoadBalancerArns: []string{},
		IpAddressType:      types.TargetGroupIpAddressTypeEnumIpv4,
		HealthCheckEnabled: aws.Bool(true), HealthCheckPort: &port, HealthCheckProtocol: types.ProtocolEnum(h.Protocol),
		HealthCheckIntervalSeconds: &h.Interval, HealthCheckTimeoutSeconds: &h.Timeout,
		HealthyThresholdCount: &h.HealthyThreshold, UnhealthyThresholdCount: &h.UnhealthyThreshold,
	}
	if h.Path != "" {
		d.HealthCheckPath, d.Matcher = &h.Path, &types.Matcher{HttpCode: &h.Matcher}
	}
	if g.Version != "" {
		d.ProtocolVersion = &g.Version
	}
	if g.Version == "GRPC" {
		d.Matcher = &types.Matcher{GrpcCode: &h.Matcher}
	}
	for _, b := range all {
		if g.LoadBalancer != "" && b.Name == g.LoadBalancer {
			d.LoadBalancerArns = append(d.LoadBalancerArns, b.ARN())
		}
	}
	return d
}

// DescribeTargetGroups describes target groups.
func (s V2) DescribeTargetGroups(ctx context.Context, in *elasticloadbalancingv2.DescribeTargetGroupsInput) (
	*elasticloadbalancingv2.DescribeTargetGroupsOutput, error) {
	given := 0
	for _, there := range []bool{in.LoadBalancerArn != nil, len(in.Names) > 0, len(in.TargetGroupArns) > 0} {
		if there {
			given++
		}
	}
	if given > 1 {
		return nil, invalid("Only one of a load balancer ARN, target group names and target group ARNs can be specified")
	}
	at := placeOf(ctx)
	rows, err := s.groups.List(ctx, store.Prefix(at.account, at.region))
	if err != nil {
		return nil, err
	}
	var user *record.LoadBalancer
	if in.LoadBalancerArn != nil {
		b, err := s.getBalancer(ctx, in.LoadBalancerArn)
		if isNotFound(err) {
			return nil, loadBalancersNotFound([]string{*in.LoadBalancerArn})
		}
		if err != nil {
			return nil, err
		}
		user = &b.Value
	}
	var found []record.TargetGroup
	for _, row := range rows {
		g := row.Value
		if user != nil && g.LoadBalancer != user.Name || len(in.Names) > 0 && !slices.Contains(in.Names, g.Name) ||
			len(in.TargetGroupArns) > 0 && !slices.Contains(in.TargetGroupArns, g.ARN()) {
			continue
		}
		found = append(found, g)
	}
	wanted := slices.Compact(slices.Sorted(slices.Values(append(in.Names, in.TargetGroupArns...))))
	if len(wanted) > len(found) {
		return nil, groupNotFound()
	}
	page, next, err := wire.Page(ctx, found, in.PageSize, in.Marker, func(g record.TargetGroup) string { return g.Name })
	if err != nil {
		return nil, err
	}
	all, err := s.listBalancers(ctx)
	if err != nil {
		return nil, err
	}
	out := &elasticloadbalancingv2.DescribeTargetGroupsOutput{NextMarker: next, TargetGroups: []types.TargetGroup{}}
	for _, g := range page {
		out.TargetGroups = append(out.TargetGroups, s.describeGroup(g, all))
	}
	return out, nil
}

func groupNotFound() error {
	return wire.Errorf("TargetGroupNotFound", "One or more target groups not found")
}

// modifyGroup changes a target group.
func (s V2) modifyGroup(ctx context.Context, arn *string, change func(*record.TargetGroup) error) (
	record.TargetGroup, error) {
	found, err := s.getGroup(ctx, aws.ToString(arn))
	if err != nil {
		return record.TargetGroup{}, err
	}
	row, err := s.groups.Modify(ctx, found.Key, func(g *record.TargetGroup) error {
		if g.ID != found.Value.ID {
			return groupNotFound()
		}
		return change(g)
	})
	if errors.Is(err, store.ErrNotFound) {
		err = groupNotFound()
	}
	return row.Value, err
}

// ModifyTargetGroup changes the health checks of a target group.
func (s V2) ModifyTargetGroup(ctx context.Context, in *elasticloadbalancingv2.ModifyTargetGroupInput) (
	*elasticloadbalancingv2.ModifyTargetGroupOutput, error) {
	g, err := s.modifyGroup(ctx, in.TargetGroupArn, func(g *record.TargetGroup) (err error) {
		g.HealthCheck, err = changeHealthCheck(*g, checkSettings{
			enabled: in.HealthCheckEnabled, protocol: in.HealthCheckProtocol, port: in.HealthCheckPort,
			path: in.HealthCheckPath, matcher: in.Matcher, interval: in.HealthCheckIntervalSeconds,
			timeout: in.HealthCheckTimeoutSeconds, healthy: in.HealthyThresholdCount,
			unhealthy: in.UnhealthyThresholdCount,
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	all, err := s.listBalancers(ctx)
	return &elasticloadbalancingv2.ModifyTargetGroupOutput{
		TargetGroups: []types.TargetGroup{s.describeGroup(g, all)}}, err
}

// DeleteTargetGroup deletes a target group that no listener uses. It succeeds when there is none.
func (s V2) DeleteTargetGroup(ctx context.Context, in *elasticloadbalancingv2.DeleteTargetGroupInput) (
	*elasticloadbalancingv2.DeleteTargetGroupOutput, error) {
	return &elasticloadbalancingv2.DeleteTargetGroupOutput{}, s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
		row, err := s.getGroup(c, aws.ToString(in.TargetGroupArn))
		if isNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if row.Value.LoadBalancer != "" {
			return wire.Errorf("ResourceInUse", "Target group '%s' is currently in use by a listener or a rule",
				row.Value.ARN())
		}
		c.Add("targetgroup/"+row.Key, func() store.Op { return s.groups.DeleteOp(row) })
		return nil
	})
}
