package elb

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// maxPolicies is the quota of policies of a load balancer.
const maxPolicies = 100

// policyHandlers returns the handlers of this file's operations and how each is authorized.
func (s Classic) policyHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateLoadBalancerPolicy, func(
			ctx context.Context, action string, in *elasticloadbalancing.CreateLoadBalancerPolicyInput,
		) ([]wire.Target, error) {
			t, err := s.onClassic(ctx, action, aws.ToString(in.LoadBalancerName))
			if aws.ToString(in.PolicyTypeName) == record.SSLNegotiationPolicy {
				for _, a := range in.PolicyAttributes {
					t.Conditions[securityPolicyKey] = append(t.Conditions[securityPolicyKey], aws.ToString(a.AttributeValue))
				}
			}
			return []wire.Target{t}, err
		}),
		wire.Handle(s.DeleteLoadBalancerPolicy, func(
			ctx context.Context, action string, in *elasticloadbalancing.DeleteLoadBalancerPolicyInput,
		) ([]wire.Target, error) {
			return s.onClassics(ctx, action, []string{aws.ToString(in.LoadBalancerName)})
		}),
		wire.Handle(s.DescribeLoadBalancerPolicies, wire.OnAll),
		wire.Handle(s.DescribeLoadBalancerPolicyTypes, wire.OnAll),
		wire.Handle(s.SetLoadBalancerPoliciesForBackendServer, func(
			ctx context.Context, action string, in *elasticloadbalancing.SetLoadBalancerPoliciesForBackendServerInput,
		) ([]wire.Target, error) {
			return s.onClassics(ctx, action, []string{aws.ToString(in.LoadBalancerName)})
		}),
		wire.Handle(s.SetLoadBalancerPoliciesOfListener, func(
			ctx context.Context, action string, in *elasticloadbalancing.SetLoadBalancerPoliciesOfListenerInput,
		) ([]wire.Target, error) {
			t, err := s.onClassic(ctx, action, aws.ToString(in.LoadBalancerName))
			if err == nil {
				t.Conditions[securityPolicyKey], err = s.policiesAsked(ctx, in)
			}
			return []wire.Target{t}, err
		}),
	}
}

// policiesAsked returns the security policies that a request gives to a listener by the names of policies: without any,
// the default one.
func (s Classic) policiesAsked(ctx context.Context, in *elasticloadbalancing.SetLoadBalancerPoliciesOfListenerInput) (
	all []string, err error) {
	row, err := s.balancers.Get(ctx, classicKey(ctx, in.LoadBalancerName))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, p := range row.Value.Classic.Policies {
		if p.Type == record.SSLNegotiationPolicy && slices.Contains(in.PolicyNames, p.Name) {
			all = append(all, p.Attributes[0].Value)
		}
	}
	if len(in.PolicyNames) == 0 {
		all = []string{defaultSSLPolicy}
	}
	return all, nil
}

func policyNotFound(name string) error {
	return wire.Errorf("PolicyNotFound", "There is no policy with name '%s' for the load balancer", name)
}

func hasPolicy(b record.LoadBalancer, name string) bool {
	return slices.ContainsFunc(b.Classic.Policies, func(p record.ClassicPolicy) bool { return p.Name == name })
}

// referencePolicy is the attribute that names a predefined security policy.
const referencePolicy = "Reference-Security-Policy"

// checkPolicyAttribute refuses an attribute that policies of the type do not have.
func checkPolicyAttribute(kind string, a record.PolicyAttribute) error {
	if kind == record.ProxyProtocolPolicy {
		if a.Name != "ProxyProtocol" || !strings.EqualFold(a.Value, "true") && !strings.EqualFold(a.Value, "false") {
			return invalidConfiguration("A policy of the type %s has the attribute ProxyProtocol, true or false, and not "+
				"%s=%s", kind, a.Name, a.Value)
		}
		return nil
	}
	if a.Name != referencePolicy {
		return invalidConfiguration("coracle has policies of the type %s with the attribute %s alone, and not %s", kind,
			referencePolicy, a.Name)
	}
	if _, known := balancing.SecurityPolicyNamed(a.Value); !known || strings.Contains(a.Value, "-TLS13-") {
		return invalidConfiguration("The security policy '%s' does not exist for Classic Load Balancers", a.Value)
	}
	return nil
}

// CreateLoadBalancerPolicy creates a policy, of the PROXY protocol or about TLS. Those about cookies are not served.
func (s Classic) CreateLoadBalancerPolicy(ctx context.Context, in *elasticloadbalancing.CreateLoadBalancerPolicyInput) (
	*elasticloadbalancing.CreateLoadBalancerPolicyOutput, error) {
	policy := record.ClassicPolicy{Name: aws.ToString(in.PolicyName), Type: aws.ToString(in.PolicyTypeName)}
	if policy.Name == "" || strings.Trim(policy.Name, "-") == "" || len(policy.Name) > 255 {
		return nil, invalid("Policy name '%s' must have 1 to 255 characters", policy.Name)
	}
	if policy.Type != record.ProxyProtocolPolicy && policy.Type != record.SSLNegotiationPolicy {
		return nil, wire.Errorf("PolicyTypeNotFound", "Policy Type '%s' does not exist, or is not supported by coracle yet",
			policy.Type)
	}
	for _, a := range in.PolicyAttributes {
		attribute := record.PolicyAttribute{Name: aws.ToString(a.AttributeName), Value: aws.ToString(a.AttributeValue)}
		if err := checkPolicyAttribute(policy.Type, attribute); err != nil {
			return nil, err
		}
		policy.Attributes = append(policy.Attributes, attribute)
	}
	if len(policy.Attributes) != 1 {
		return nil, invalidConfiguration("A policy of the type %s has one attribute", policy.Type)
	}
	_, err := s.modify(ctx, in.LoadBalancerName, func(b *record.LoadBalancer) error {
		for _, p := range b.Classic.Policies {
			if p.Name != policy.Name {
				continue
			}
			if p.Type == policy.Type && slices.Equal(p.Attributes, policy.Attributes) {
				return nil
			}
			return wire.Errorf("DuplicatePolicyName", "A policy with name '%s' already exists for the load balancer",
				policy.Name)
		}
		if len(b.Classic.Policies) >= maxPolicies {
			return wire.Errorf("TooManyPolicies", "A load balancer has at most %d policies", maxPolicies)
		}
		b.Classic.Policies = append(b.Classic.Policies, policy)
		return nil
	})
	return &elasticloadbalancing.CreateLoadBalancerPolicyOutput{}, err
}

// DeleteLoadBalancerPolicy deletes a policy that nothing uses.
func (s Classic) DeleteLoadBalancerPolicy(ctx context.Context, in *elasticloadbalancing.DeleteLoadBalancerPolicyInput) (
	*elasticloadbalancing.DeleteLoadBalancerPolicyOutput, error) {
	name := aws.ToString(in.PolicyName)
	_, err := s.modify(ctx, in.LoadBalancerName, func(b *record.LoadBalancer) error {
		for port, names := range b.Classic.BackendPolicies {
			if slices.Contains(names, name) {
				return invalidConfiguration("The policy '%s' is in use by the instance port %d", name, port)
			}
		}
		for _, l := range b.Listeners {
			if slices.Contains(l.Policies, name) {
				return invalidConfiguration("The policy '%s' is in use by the listener on port %d", name, l.Port)
			}
		}
		b.Classic.Policies = slices.DeleteFunc(b.Classic.Policies,
			func(p record.ClassicPolicy) bool { return p.Name == name })
		return nil
	})
	return &elasticloadbalancing.DeleteLoadBalancerPolicyOutput{}, err
}

// DescribeLoadBalancerPolicies describes the policies of a load balancer; there are no sample policies.
func (s Classic) DescribeLoadBalancerPolicies(ctx context.Context,
	in *elasticloadbalancing.DescribeLoadBalancerPoliciesInput) (
	*elasticloadbalancing.DescribeLoadBalancerPoliciesOutput, error) {
	var policies []record.ClassicPolicy
	if in.LoadBalancerName != nil {
		row, err := s.getClassic(ctx, in.LoadBalancerName)
		if err != nil {
			return nil, err
		}
		policies = row.Value.Classic.Policies
	}
	out := &elasticloadbalancing.DescribeLoadBalancerPoliciesOutput{PolicyDescriptions: []types.PolicyDescription{}}
	for _, name := range in.PolicyNames {
		if !slices.ContainsFunc(policies, func(p record.ClassicPolicy) bool { return p.Name == name }) {
			return nil, policyNotFound(name)
		}
	}
	for _, p := range policies {
		if len(in.PolicyNames) > 0 && !slices.Contains(in.PolicyNames, p.Name) {
			continue
		}
		d := types.PolicyDescription{PolicyName: &p.Name, PolicyTypeName: &p.Type}
		for _, a := range p.Attributes {
			d.PolicyAttributeDescriptions = append(d.PolicyAttributeDescriptions, types.PolicyAttributeDescription{
				AttributeName: &a.Name, AttributeValue: &a.Value})
		}
		out.PolicyDescriptions = append(out.PolicyDescriptions, d)
	}
	return out, nil
}

// DescribeLoadBalancerPolicyTypes describes the types of policies that can be created.
func (Classic) DescribeLoadBalancerPolicyTypes(_ context.Context,
	in *elasticloadbalancing.DescribeLoadBalancerPolicyTypesInput) (
	*elasticloadbalancing.DescribeLoadBalancerPolicyTypesOutput, error) {
	for _, name := range in.PolicyTypeNames {
		if name != record.ProxyProtocolPolicy && name != record.SSLNegotiationPolicy {
			return nil, wire.Errorf("PolicyTypeNotFound", "Policy Type '%s' does not exist, or is not supported by coracle "+
				"yet", name)
		}
	}
	describe := func(name, description, attribute, kind string) types.PolicyTypeDescription {
		return types.PolicyTypeDescription{PolicyTypeName: &name, Description: &description,
			PolicyAttributeTypeDescriptions: []types.PolicyAttributeTypeDescription{{AttributeName: &attribute,
				AttributeType: &kind, Cardinality: aws.String("ONE")}}}
	}
	all := []types.PolicyTypeDescription{
		describe(record.ProxyProtocolPolicy, "Policy that controls whether to include the IP address and port of the "+
			"originating request for TCP messages. This policy operates on TCP/SSL listeners only", "ProxyProtocol", "Boolean"),
		describe(record.SSLNegotiationPolicy, "Listener policy that defines the ciphers and protocols that will be accepted "+
			"by the load balancer. This policy can be associated only with HTTPS/SSL listeners.", referencePolicy, "String"),
	}
	return &elasticloadbalancing.DescribeLoadBalancerPolicyTypesOutput{PolicyTypeDescriptions: slices.DeleteFunc(all,
		func(d types.PolicyTypeDescription) bool {
			return len(in.PolicyTypeNames) > 0 && !slices.Contains(in.PolicyTypeNames, *d.PolicyTypeName)
		})}, nil
}

// SetLoadBalancerPoliciesForBackendServer replaces the policies of a port of the instances.
func (s Classic) SetLoadBalancerPoliciesForBackendServer(ctx context.Context,
	in *elasticloadbalancing.SetLoadBalancerPoliciesForBackendServerInput) (
	*elasticloadbalancing.SetLoadBalancerPoliciesForBackendServerOutput, error) {
	port := aws.ToInt32(in.InstancePort)
	if err := checkRange("Instance port", port, 1, 65535); err != nil {
		return nil, err
	}
	_, err := s.modify(ctx, in.LoadBalancerName, func(b *record.LoadBalancer) error {
		for _, name := range in.PolicyNames {
			p := slices.IndexFunc(b.Classic.Policies, func(p record.ClassicPolicy) bool { return p.Name == name })
			if p < 0 {
				return policyNotFound(name)
			}
			if b.Classic.Policies[p].Type != record.ProxyProtocolPolicy {
				return invalidConfiguration("The policy '%s' is for listeners, not for instances", name)
			}
		}
		used := slices.ContainsFunc(b.Listeners, func(l record.Listener) bool { return l.InstancePort == port })
		switch {
		case len(in.PolicyNames) == 0:
			delete(b.Classic.BackendPolicies, port)
			return nil
		case !used:
			return invalidConfiguration("No listener of the load balancer has the instance port %d", port)
		case b.Classic.BackendPolicies == nil:
			b.Classic.BackendPolicies = map[int32][]string{}
		}
		b.Classic.BackendPolicies[port] = in.PolicyNames
		return nil
	})
	return &elasticloadbalancing.SetLoadBalancerPoliciesForBackendServerOutput{}, err
}

// SetLoadBalancerPoliciesOfListener replaces the policies of a listener: the one that says which ciphers it offers.
func (s Classic) SetLoadBalancerPoliciesOfListener(ctx context.Context,
	in *elasticloadbalancing.SetLoadBalancerPoliciesOfListenerInput) (
	*elasticloadbalancing.SetLoadBalancerPoliciesOfListenerOutput, error) {
	_, err := s.modify(ctx, in.LoadBalancerName, func(b *record.LoadBalancer) error {
		i := slices.IndexFunc(b.Listeners, func(l record.Listener) bool { return l.Port == in.LoadBalancerPort })
		if i < 0 {
			return wire.Errorf("ListenerNotFound", "There is no listener on port %d for the load balancer",
				in.LoadBalancerPort)
		}
		l := &b.Listeners[i]
		l.SSLPolicy = ""
		for _, name := range in.PolicyNames {
			p := slices.IndexFunc(b.Classic.Policies, func(p record.ClassicPolicy) bool { return p.Name == name })
			switch {
			case p < 0:
				return policyNotFound(name)
			case b.Classic.Policies[p].Type != record.SSLNegotiationPolicy:
				return invalidConfiguration("The policy '%s' is for instances, not for listeners", name)
			case !isEncrypted(*l):
				return invalidConfiguration("The policy '%s' is for HTTPS and SSL listeners", name)
			case l.SSLPolicy != "":
				return invalidConfiguration("A listener has one policy of the type %s", record.SSLNegotiationPolicy)
			}
			l.SSLPolicy = b.Classic.Policies[p].Attributes[0].Value
		}
		l.Policies = in.PolicyNames
		return nil
	})
	return &elasticloadbalancing.SetLoadBalancerPoliciesOfListenerOutput{}, err
}
