package elb

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// listenerHandlers returns the handlers of this file's operations and how each is authorized.
func (s Classic) listenerHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateLoadBalancerListeners, func(
			ctx context.Context, action string, in *elasticloadbalancing.CreateLoadBalancerListenersInput,
		) ([]wire.Target, error) {
			t, err := s.onClassic(ctx, action, aws.ToString(in.LoadBalancerName))
			if err != nil {
				return nil, err
			}
			t.Conditions["elasticloadbalancing:ListenerProtocol"] = protocolsOf(in.Listeners)
			return []wire.Target{t}, nil
		}),
		wire.Handle(s.SetLoadBalancerListenerSSLCertificate, func(
			ctx context.Context, action string, in *elasticloadbalancing.SetLoadBalancerListenerSSLCertificateInput,
		) ([]wire.Target, error) {
			return s.onClassics(ctx, action, []string{aws.ToString(in.LoadBalancerName)})
		}),
		wire.Handle(s.DeleteLoadBalancerListeners, func(
			ctx context.Context, action string, in *elasticloadbalancing.DeleteLoadBalancerListenersInput,
		) ([]wire.Target, error) {
			return s.onClassics(ctx, action, []string{aws.ToString(in.LoadBalancerName)})
		}),
		wire.Handle(s.ConfigureHealthCheck, func(
			ctx context.Context, action string, in *elasticloadbalancing.ConfigureHealthCheckInput,
		) ([]wire.Target, error) {
			return s.onClassics(ctx, action, []string{aws.ToString(in.LoadBalancerName)})
		}),
	}
}

// protocolsOf returns the protocols of listeners as they are recorded.
func protocolsOf(listeners []types.Listener) (all []string) {
	for _, l := range listeners {
		all = append(all, upper(l.Protocol))
	}
	return all
}

var classicLayers = map[string]int{"TCP": 4, "SSL": 4, "HTTP": 7, "HTTPS": 7}

// addClassicListener adds a listener to a load balancer. One that is there already as it is asked for stays.
func addClassicListener(b *record.LoadBalancer, in types.Listener) error {
	l := record.Listener{Protocol: upper(in.Protocol), Port: in.LoadBalancerPort,
		InstanceProtocol: upper(in.InstanceProtocol), InstancePort: aws.ToInt32(in.InstancePort)}
	if l.InstanceProtocol == "" {
		l.InstanceProtocol = l.Protocol
		if l.Protocol == "SSL" {
			l.InstanceProtocol = "TCP"
		} else if l.Protocol == "HTTPS" {
			l.InstanceProtocol = "HTTP"
		}
	}
	for _, protocol := range []string{l.Protocol, l.InstanceProtocol} {
		if classicLayers[protocol] == 0 {
			return invalid("Protocol must be HTTP, HTTPS, TCP or SSL, and is '%s'", protocol)
		}
	}
	if classicLayers[l.Protocol] != classicLayers[l.InstanceProtocol] {
		return invalidConfiguration("The front-end protocol %s and the back-end protocol %s must be at the same layer",
			l.Protocol, l.InstanceProtocol)
	}
	if err := checkRange("Load Balancer port", l.Port, 1, 65535); err != nil {
		return err
	}
	if err := checkRange("Instance port", l.InstancePort, 1, 65535); err != nil {
		return err
	}
	switch encrypted, certificate := isEncrypted(l), aws.ToString(in.SSLCertificateId); {
	case encrypted && certificate == "":
		return invalid("Listener %d: an SSL certificate must be specified for the protocol %s", l.Port, l.Protocol)
	case !encrypted && certificate != "":
		return invalid("Listener %d: an SSL certificate is for the protocols HTTPS and SSL", l.Port)
	case encrypted:
		l.Certificates = []string{certificate}
	}
	for _, other := range b.Listeners {
		if other.Port != l.Port {
			continue
		}
		if other.Protocol == l.Protocol && other.InstancePort == l.InstancePort &&
			other.InstanceProtocol == l.InstanceProtocol && slices.Equal(other.Certificates, l.Certificates) {
			return nil
		}
		return wire.Errorf("DuplicateListener", "A listener already exists for %s with LoadBalancerPort %d, but with a "+
			"different InstancePort, Protocol, or SSLCertificateId", b.Name, l.Port)
	}
	if len(b.Listeners) >= maxClassicListeners {
		return invalidConfiguration("A load balancer has at most %d listeners", maxClassicListeners)
	}
	b.Listeners = append(b.Listeners, l)
	return nil
}

// isEncrypted reports whether TLS ends at a listener of a Classic Load Balancer.
func isEncrypted(l record.Listener) bool { return l.Protocol == "SSL" || l.Protocol == "HTTPS" }

// CreateLoadBalancerListeners adds listeners to a load balancer.
func (s Classic) CreateLoadBalancerListeners(ctx context.Context,
	in *elasticloadbalancing.CreateLoadBalancerListenersInput) (
	*elasticloadbalancing.CreateLoadBalancerListenersOutput, error) {
	if len(in.Listeners) == 0 {
		return nil, invalid("Listeners: at least one listener must be specified")
	}
	return &elasticloadbalancing.CreateLoadBalancerListenersOutput{}, s.apply(ctx, in.LoadBalancerName,
		func(c *resource.Change, b *record.LoadBalancer) error {
			for _, l := range in.Listeners {
				if err := addClassicListener(b, l); err != nil {
					return err
				}
				if l.SSLCertificateId == nil {
					continue
				}
				if err := s.requireCertificate(c, *l.SSLCertificateId); err != nil {
					return err
				}
			}
			return s.checkBounds(c, *b)
		})
}

// SetLoadBalancerListenerSSLCertificate gives a listener with TLS another certificate.
func (s Classic) SetLoadBalancerListenerSSLCertificate(ctx context.Context,
	in *elasticloadbalancing.SetLoadBalancerListenerSSLCertificateInput) (
	*elasticloadbalancing.SetLoadBalancerListenerSSLCertificateOutput, error) {
	return &elasticloadbalancing.SetLoadBalancerListenerSSLCertificateOutput{}, s.apply(ctx, in.LoadBalancerName,
		func(c *resource.Change, b *record.LoadBalancer) error {
			i := slices.IndexFunc(b.Listeners, func(l record.Listener) bool { return l.Port == in.LoadBalancerPort })
			switch {
			case i < 0:
				return wire.Errorf("ListenerNotFound", "There is no listener on port %d for the load balancer",
					in.LoadBalancerPort)
			case !isEncrypted(b.Listeners[i]):
				return invalidConfiguration("The listener on port %d has no TLS, and so no certificate", in.LoadBalancerPort)
			}
			arn := aws.ToString(in.SSLCertificateId)
			b.Listeners[i].Certificates = []string{arn}
			return s.requireCertificate(c, arn)
		})
}

// DeleteLoadBalancerListeners removes listeners from a load balancer.
func (s Classic) DeleteLoadBalancerListeners(ctx context.Context,
	in *elasticloadbalancing.DeleteLoadBalancerListenersInput) (
	*elasticloadbalancing.DeleteLoadBalancerListenersOutput, error) {
	_, err := s.modify(ctx, in.LoadBalancerName, func(b *record.LoadBalancer) error {
		b.Listeners = slices.DeleteFunc(b.Listeners, func(l record.Listener) bool {
			return slices.Contains(in.LoadBalancerPorts, l.Port)
		})
		return nil
	})
	return &elasticloadbalancing.DeleteLoadBalancerListenersOutput{}, err
}

// ConfigureHealthCheck changes how instances are checked.
func (s Classic) ConfigureHealthCheck(ctx context.Context, in *elasticloadbalancing.ConfigureHealthCheckInput) (
	*elasticloadbalancing.ConfigureHealthCheckOutput, error) {
	wanted, err := parseHealthCheck(in.HealthCheck)
	if err != nil {
		return nil, err
	}
	_, err = s.modify(ctx, in.LoadBalancerName, func(b *record.LoadBalancer) error {
		b.Classic.HealthCheck = wanted
		return nil
	})
	return &elasticloadbalancing.ConfigureHealthCheckOutput{HealthCheck: describeHealthCheck(wanted)}, err
}

func parseHealthCheck(in *types.HealthCheck) (h record.HealthCheck, err error) {
	if in == nil {
		return h, invalid("HealthCheck must be specified")
	}
	protocol, rest, ok := strings.Cut(aws.ToString(in.Target), ":")
	h = record.HealthCheck{Protocol: strings.ToUpper(protocol), Interval: aws.ToInt32(in.Interval),
		Timeout: aws.ToInt32(in.Timeout), HealthyThreshold: aws.ToInt32(in.HealthyThreshold),
		UnhealthyThreshold: aws.ToInt32(in.UnhealthyThreshold)}
	if !ok || classicLayers[h.Protocol] == 0 {
		return h, invalid("HealthCheck Target must begin with one of: HTTP, TCP, HTTPS, SSL, as in TCP:80, and is '%s'",
			aws.ToString(in.Target))
	}
	port, path := rest, ""
	if i := strings.Index(rest, "/"); i >= 0 {
		port, path = rest[:i], rest[i:]
	}
	switch {
	case classicLayers[h.Protocol] == 7 && path == "":
		return h, invalid("HealthCheck HTTP Target must specify a port followed by a path that begins with a slash. e.g. " +
			"HTTP:80/ping/this/path")
	case classicLayers[h.Protocol] == 4 && path != "":
		return h, invalid("HealthCheck %s Target must specify a port alone: %s:80", h.Protocol, h.Protocol)
	case len(path) > 1024:
		return h, invalid("HealthCheck Target: the path has at most 1024 characters")
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil || number < 1 || number > 65535 {
		return h, invalid("HealthCheck Target port must be between 1 and 65535, and is '%s'", port)
	}
	h.Port, h.Path = int32(number), path
	for _, check := range []error{
		checkRange("HealthCheck Interval", h.Interval, 5, 300), checkRange("HealthCheck Timeout", h.Timeout, 2, 60),
		checkRange("HealthCheck HealthyThreshold", h.HealthyThreshold, 2, 10),
		checkRange("HealthCheck UnhealthyThreshold", h.UnhealthyThreshold, 2, 10),
	} {
		if check != nil {
			return h, check
		}
	}
	if h.Timeout >= h.Interval {
		return h, invalid("HealthCheck timeout must be less than interval")
	}
	return h, nil
}

func describeHealthCheck(h record.HealthCheck) *types.HealthCheck {
	return &types.HealthCheck{
		Target: aws.String(fmt.Sprintf("%s:%d%s", h.Protocol, h.Port, h.Path)), Interval: &h.Interval, Timeout: &h.Timeout,
		HealthyThreshold: &h.HealthyThreshold, UnhealthyThreshold: &h.UnhealthyThreshold,
	}
}
