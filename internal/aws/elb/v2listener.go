package elb

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/record"
)

// listenerHandlers returns the handlers of this file's operations and how each is authorized.
func (s V2) listenerHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateListener, func(
			ctx context.Context, action string, in *elasticloadbalancingv2.CreateListenerInput,
		) ([]wire.Target, error) {
			tags := v2Tags(in.Tags)
			t, err := s.targetOf(ctx, action, in.LoadBalancerArn, balancers, tags...)
			if err != nil {
				return nil, err
			}
			addListener(t, string(in.Protocol), in.SslPolicy, "")
			return withTagging([]wire.Target{t}, "listener", tags), nil
		}),
		wire.Handle(s.ModifyListener, func(
			ctx context.Context, action string, in *elasticloadbalancingv2.ModifyListenerInput,
		) ([]wire.Target, error) {
			t, err := s.targetOf(ctx, action, in.ListenerArn, listeners)
			if err != nil {
				return nil, err
			}
			var before record.Listener
			if row, i, err := s.getListener(ctx, in.ListenerArn); err == nil {
				before = row.Value.Listeners[i]
			}
			addListener(t, cmp.Or(string(in.Protocol), before.Protocol), in.SslPolicy, before.SSLPolicy)
			return []wire.Target{t}, nil
		}),
		wire.Handle(s.DeleteListener, func(
			ctx context.Context, action string, in *elasticloadbalancingv2.DeleteListenerInput,
		) ([]wire.Target, error) {
			return s.targets(ctx, action, in.ListenerArn, listeners)
		}),
		wire.Handle(s.DescribeListeners, wire.OnAll),
	}
}

// addListener adds the condition keys about a listener of a protocol, for which a request asks for a security policy,
// or leaves it the one that it has: of one with TLS there always is one.
func addListener(t wire.Target, protocol string, asked *string, has string) {
	t.Conditions["elasticloadbalancing:ListenerProtocol"] = []string{protocol}
	policy := aws.ToString(asked)
	if protocol == "HTTPS" || protocol == "TLS" {
		policy = cmp.Or(policy, has, defaultSSLPolicy)
	}
	if policy != "" {
		t.Conditions[securityPolicyKey] = []string{policy}
	}
}

// securityPolicyKey is the condition key about the security policies of listeners.
const securityPolicyKey = "elasticloadbalancing:SecurityPolicy"

// parseListener returns a listener with what a request says of it beside its actions.
func (s V2) parseListener(c *resource.Change, b record.LoadBalancer, l record.Listener, in listenerSettings) (
	record.Listener, error) {
	if in.protocol != "" {
		l.Protocol = string(in.protocol)
	}
	if in.port != nil {
		l.Port = *in.port
	}
	supported := []string{"TCP", "TLS", "UDP", "TCP_UDP"}
	if b.Kind == record.ApplicationLoadBalancer {
		supported = []string{"HTTP", "HTTPS"}
	}
	switch {
	case l.Protocol == "":
		return l, invalid("A listener protocol must be specified")
	case !slices.Contains(in.protocol.Values(), types.ProtocolEnum(l.Protocol)):
		return l, invalid("Listener protocol '%s' must be one of: HTTP, HTTPS, TCP, TLS, UDP, TCP_UDP, GENEVE, QUIC, "+
			"TCP_QUIC", l.Protocol)
	case !slices.Contains(supported, l.Protocol) && b.Kind == record.ApplicationLoadBalancer:
		return l, wire.Errorf("UnsupportedProtocol", "Listener protocol '%s' is not supported by Application Load "+
			"Balancers: it must be one of: %s", l.Protocol, strings.Join(supported, ", "))
	case !slices.Contains(supported, l.Protocol):
		return l, wire.Errorf("UnsupportedProtocol", "Listener protocol '%s' is not supported by coracle's Network Load "+
			"Balancers: it must be one of: %s", l.Protocol, strings.Join(supported, ", "))
	case l.Port == 0:
		return l, invalid("A listener port must be specified")
	case in.mutual != nil && aws.ToString(in.mutual.Mode) != "" && aws.ToString(in.mutual.Mode) != "off":
		return l, invalidConfiguration("coracle does not authenticate clients by certificates: mutual authentication must " +
			"be 'off'")
	}
	if err := checkRange("Listener port", l.Port, 1, 65535); err != nil {
		return l, err
	}
	return s.parseTLS(c, l, in)
}

// listenerSettings are those parts of a listener that a request has.
type listenerSettings struct {
	protocol     types.ProtocolEnum
	port         *int32
	certificates []types.Certificate
	policy       *string
	alpn         []string
	mutual       *types.MutualAuthenticationAttributes
}

// defaultSSLPolicy is the security policy of those listeners whose creation names none.
const defaultSSLPolicy = "ELBSecurityPolicy-2016-08"

var alpnPolicies = []string{"HTTP1Only", "HTTP2Only", "HTTP2Optional", "HTTP2Preferred", "None"}

// parseTLS returns a listener with what a request says of TLS.
func (s V2) parseTLS(c *resource.Change, l record.Listener, in listenerSettings) (record.Listener, error) {
	if l.Protocol != "HTTPS" && l.Protocol != "TLS" {
		switch {
		case len(in.certificates) > 0:
			return l, invalid("Certificates are for HTTPS and TLS listeners, and not for %s", l.Protocol)
		case aws.ToString(in.policy) != "":
			return l, invalid("Security policies are for HTTPS and TLS listeners, and not for %s", l.Protocol)
		case len(in.alpn) > 0:
			return l, invalid("ALPN policies are for TLS listeners, and not for %s", l.Protocol)
		}
		l.Certificates, l.SSLPolicy, l.ALPNPolicy = nil, "", ""
		return l, nil
	}
	if aws.ToString(in.policy) != "" {
		l.SSLPolicy = *in.policy
	}
	if l.SSLPolicy == "" {
		l.SSLPolicy = defaultSSLPolicy
	}
	if _, known := balancing.SecurityPolicyNamed(l.SSLPolicy); !known {
		return l, wire.Errorf("SSLPolicyNotFound", "SSL policy '%s' not found", l.SSLPolicy)
	}
	switch {
	case len(in.alpn) == 0:
	case l.Protocol != "TLS":
		return l, invalid("ALPN policies are for TLS listeners, and not for %s", l.Protocol)
	case len(in.alpn) > 1:
		return l, invalid("One ALPN policy can be specified")
	case !slices.Contains(alpnPolicies, in.alpn[0]):
		return l, wire.Errorf("ALPNPolicyNotFound", "ALPN policy '%s' not found", in.alpn[0])
	default:
		l.ALPNPolicy = in.alpn[0]
	}
	switch {
	case len(in.certificates) > 1:
		return l, wire.Errorf("TooManyCertificates", "A listener has one default certificate: add others by "+
			"AddListenerCertificates")
	case len(in.certificates) == 0 && len(l.Certificates) == 0:
		return l, invalid("A certificate must be specified for %s listeners", l.Protocol)
	case len(in.certificates) == 0:
		return l, nil
	case in.certificates[0].IsDefault != nil:
		return l, invalid("Do not set IsDefault when specifying a certificate as an input")
	}
	arn := aws.ToString(in.certificates[0].CertificateArn)
	if err := s.requireCertificate(c, arn); err != nil {
		return l, err
	}
	l.Certificates = append([]string{arn}, slices.DeleteFunc(slices.Clone(l.Certificates[min(1, len(l.Certificates)):]),
		func(other string) bool { return other == arn })...)
	return l, nil
}

// checkPorts refuses a port that two listeners have.
func checkPorts(b record.LoadBalancer) error {
	type port struct {
		number int32
		udp    bool
	}
	seen := map[port]bool{}
	for _, l := range b.Listeners {
		ports := []port{{l.Port, l.Protocol == "UDP"}}
		if l.Protocol == "TCP_UDP" {
			ports = append(ports, port{l.Port, true})
		}
		for _, p := range ports {
			if seen[p] {
				return wire.Errorf("DuplicateListener", "A listener already exists on this port for this load balancer '%s'",
					b.ARN())
			}
			seen[p] = true
		}
	}
	return nil
}

// setActions gives a listener default actions.
func setActions(b record.LoadBalancer, l *record.Listener, actions []record.ListenerAction) {
	if a := actions[0]; b.Kind == record.NetworkLoadBalancer && len(a.Groups) == 1 && a.Groups[0].Weight == 1 &&
		!a.BySource {
		l.TargetGroup, l.Actions = a.Groups[0].Name, nil
		return
	}
	l.TargetGroup, l.Actions = "", actions
}

// CreateListener creates a listener of a load balancer. It returns the one that has the port already if that was made
// with the same settings.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateListener.html
func (s V2) CreateListener(ctx context.Context, in *elasticloadbalancingv2.CreateListenerInput) (
	out *elasticloadbalancingv2.CreateListenerOutput, err error) {
	created := record.Listener{ID: newID()}
	if created.Tags, err = applyTags(ctx, nil, v2Tags(in.Tags)); err != nil {
		return nil, err
	}
	err = s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
		row, err := s.getBalancer(c, in.LoadBalancerArn)
		if err != nil {
			return err
		}
		b := &row.Value
		l, err := s.parseListener(c, *b, created, listenerSettings{protocol: in.Protocol, port: in.Port,
			certificates: in.Certificates, policy: in.SslPolicy, alpn: in.AlpnPolicy, mutual: in.MutualAuthentication})
		if err != nil {
			return err
		}
		if len(in.DefaultActions) == 0 {
			return invalid("A default action must be specified")
		}
		actions, err := s.parseActions(c, *b, l, in.DefaultActions, nil)
		if err != nil {
			return err
		}
		setActions(*b, &l, actions)
		for _, other := range b.Listeners {
			same := other
			same.ID, same.Rules, same.Attributes = l.ID, nil, nil
			same.Certificates = same.Certificates[:min(1, len(same.Certificates))]
			if sameListener(same, l) {
				out = &elasticloadbalancingv2.CreateListenerOutput{Listeners: []types.Listener{s.describeListener(c, *b, other)}}
				return nil
			}
		}
		if len(b.Listeners) >= maxListeners {
			return wire.Errorf("TooManyListeners", "The maximum number of listeners of a load balancer, %d, has been reached",
				maxListeners)
		}
		before := b.TargetGroups()
		b.Listeners = append(b.Listeners, l)
		if err := checkPorts(*b); err != nil {
			return err
		}
		if err := s.planUses(c, *b, before); err != nil {
			return err
		}
		if err := s.checkBounds(c, *b); err != nil {
			return err
		}
		out = &elasticloadbalancingv2.CreateListenerOutput{Listeners: []types.Listener{s.describeListener(c, *b, l)}}
		s.planUpdate(c, row)
		return nil
	})
	return out, err
}

// sameListener reports whether two listeners are one.
func sameListener(a, b record.Listener) bool {
	if len(a.Certificates) == 0 && len(b.Certificates) == 0 {
		a.Certificates, b.Certificates = nil, nil
	}
	return reflect.DeepEqual(a, b)
}

// arnsOf returns the ARNs of the target groups of a load balancer by their names.
func (s V2) arnsOf(ctx context.Context, b record.LoadBalancer, names []string) map[string]string {
	arns := map[string]string{}
	for _, name := range names {
		if g, err := s.groups.Get(ctx, record.TargetGroupKey(b.Account, b.Region, name)); err == nil {
			arns[name] = g.Value.ARN()
		}
	}
	return arns
}

// arnsOfActions returns the ARNs of the target groups of actions by their names.
func (s V2) arnsOfActions(ctx context.Context, b record.LoadBalancer, actions []record.ListenerAction,
) map[string]string {
	return s.arnsOf(ctx, b, record.Listener{Actions: actions}.TargetGroups())
}

// describeListener returns a listener as the API shows it.
func (s V2) describeListener(ctx context.Context, b record.LoadBalancer, l record.Listener) types.Listener {
	d := types.Listener{ListenerArn: aws.String(b.ListenerARN(l.ID)), LoadBalancerArn: aws.String(b.ARN()), Port: &l.Port,
		Protocol: types.ProtocolEnum(l.Protocol)}
	if l.SSLPolicy != "" {
		d.SslPolicy = &l.SSLPolicy
		if b.Kind == record.ApplicationLoadBalancer {
			d.MutualAuthentication = &types.MutualAuthenticationAttributes{Mode: aws.String("off")}
		}
	}
	if len(l.Certificates) > 0 {
		d.Certificates = []types.Certificate{{CertificateArn: &l.Certificates[0]}}
	}
	if l.ALPNPolicy != "" {
		d.AlpnPolicy = []string{l.ALPNPolicy}
	}
	actions := actionsOf(l)
	d.DefaultActions = s.describeActions(s.arnsOfActions(ctx, b, actions), actions)
	return d
}

// ModifyListener changes a listener. What the request leaves out stays.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_ModifyListener.html
func (s V2) ModifyListener(ctx context.Context, in *elasticloadbalancingv2.ModifyListenerInput) (
	out *elasticloadbalancingv2.ModifyListenerOutput, err error) {
	err = s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
		row, i, err := s.getListener(c, in.ListenerArn)
		if err != nil {
			return err
		}
		b := &row.Value
		before := b.TargetGroups()
		l, err := s.parseListener(c, *b, b.Listeners[i], listenerSettings{protocol: in.Protocol, port: in.Port,
			certificates: in.Certificates, policy: in.SslPolicy, alpn: in.AlpnPolicy, mutual: in.MutualAuthentication})
		if err != nil {
			return err
		}
		if len(in.DefaultActions) > 0 {
			actions, err := s.parseActions(c, *b, l, in.DefaultActions, l.Actions)
			if err != nil {
				return err
			}
			setActions(*b, &l, actions)
		}
		if l.Protocol != b.Listeners[i].Protocol { // what the listener has must fit the new one
			if err := s.checkProtocol(c, *b, l); err != nil {
				return err
			}
		}
		b.Listeners[i] = l
		if err := checkPorts(*b); err != nil {
			return err
		}
		if err := s.checkTargeted(c, *b); err != nil {
			return err
		}
		if err := s.planUses(c, *b, before); err != nil {
			return err
		}
		if err := s.checkBounds(c, *b); err != nil {
			return err
		}
		out = &elasticloadbalancingv2.ModifyListenerOutput{Listeners: []types.Listener{s.describeListener(c, *b, l)}}
		s.planUpdate(c, row)
		return nil
	})
	return out, err
}

// checkProtocol refuses a protocol that does not fit the actions of a listener and of its rules.
func (s V2) checkProtocol(c *resource.Change, b record.LoadBalancer, l record.Listener) error {
	for _, arn := range s.arnsOf(c, b, l.TargetGroups()) {
		if _, err := s.checkGroup(c, b, l, arn); err != nil {
			return err
		}
	}
	actions := slices.Clone(l.Actions)
	for _, r := range l.Rules {
		actions = append(actions, r.Actions...)
	}
	for _, a := range actions {
		switch {
		case a.OIDC != nil && l.Protocol != "HTTPS":
			return invalidAction("Actions of the type 'authenticate-oidc' are for HTTPS listeners")
		case a.Redirect != nil && a.Redirect.Protocol == "HTTP" && l.Protocol == "HTTPS":
			return invalidAction("You cannot redirect from HTTPS to HTTP")
		}
	}
	return nil
}

// checkTargeted refuses a load balancer without a listener at a port at which it is a target.
func (s V2) checkTargeted(c *resource.Change, b record.LoadBalancer) error {
	rows, err := s.leading.List(c, b.ARN())
	if err != nil {
		return err
	}
	for _, row := range rows {
		if t, _ := row.Value.Application(); !listensAt(b, t.Port) {
			return wire.Errorf("ResourceInUse", "Listener port '%d' is in use by registered target '%s' and cannot be removed: "+
				"deregister it from the target group '%s'", t.Port, t.ID, row.Value.ARN())
		}
	}
	return nil
}

func listensAt(b record.LoadBalancer, port int32) bool {
	return slices.ContainsFunc(b.Listeners, func(l record.Listener) bool { return l.Port == port })
}

// DeleteListener deletes a listener.
func (s V2) DeleteListener(ctx context.Context, in *elasticloadbalancingv2.DeleteListenerInput) (
	*elasticloadbalancingv2.DeleteListenerOutput, error) {
	return &elasticloadbalancingv2.DeleteListenerOutput{}, s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
		row, i, err := s.getListener(c, in.ListenerArn)
		if err != nil {
			return err
		}
		before := row.Value.TargetGroups()
		row.Value.Listeners = slices.Delete(row.Value.Listeners, i, i+1)
		if err := s.checkTargeted(c, row.Value); err != nil {
			return err
		}
		if err := s.planUses(c, row.Value, before); err != nil {
			return err
		}
		s.planUpdate(c, row)
		return nil
	})
}

// DescribeListeners describes the listeners of a load balancer, or those that the request names.
func (s V2) DescribeListeners(ctx context.Context, in *elasticloadbalancingv2.DescribeListenersInput) (
	*elasticloadbalancingv2.DescribeListenersOutput, error) {
	if (in.LoadBalancerArn == nil) == (len(in.ListenerArns) == 0) {
		return nil, invalid("You must specify either listener ARNs or a load balancer ARN")
	}
	found := []types.Listener{}
	for _, arn := range in.ListenerArns {
		row, i, err := s.getListener(ctx, &arn)
		if err != nil {
			return nil, err
		}
		found = append(found, s.describeListener(ctx, row.Value, row.Value.Listeners[i]))
	}
	if in.LoadBalancerArn != nil {
		row, err := s.getBalancer(ctx, in.LoadBalancerArn)
		if err != nil {
			return nil, err
		}
		for _, l := range row.Value.Listeners {
			found = append(found, s.describeListener(ctx, row.Value, l))
		}
	}
	slices.SortFunc(found, func(a, b types.Listener) int {
		return strings.Compare(aws.ToString(a.ListenerArn), aws.ToString(b.ListenerArn))
	})
	page, next, err := wire.Page(ctx, found, in.PageSize, in.Marker,
		func(l types.Listener) string { return aws.ToString(l.ListenerArn) })
	return &elasticloadbalancingv2.DescribeListenersOutput{Listeners: page, NextMarker: next}, err
}
