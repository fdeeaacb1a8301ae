package elb

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// setClassicListeners makes the listeners and policies of a load balancer those of the properties. A listener whose
// ports or protocols change is made anew; so is a policy that changes, which nothing may use meanwhile.
func setClassicListeners(ctx context.Context, c *classic.Client, r *resource.Request) error {
	live, err := describeClassic(ctx, c, r)
	if err != nil {
		return err
	}
	var in classic.CreateLoadBalancerListenersInput
	if err := resource.Decode(map[string]any{"Listeners": r.Properties["Listeners"]}, &in,
		resource.Members{"Listeners.PolicyNames": resource.Left}); err != nil {
		return err
	}
	if err := replaceListeners(ctx, c, r, live, in.Listeners); err != nil {
		return err
	}
	if err := removePolicies(ctx, c, r, live); err != nil {
		return err
	}
	for _, p := range r.Objects("Policies") {
		if _, err := c.CreateLoadBalancerPolicy(ctx, &classic.CreateLoadBalancerPolicyInput{
			LoadBalancerName: &r.PhysicalID, PolicyName: aws.String(resource.Text(p["PolicyName"])),
			PolicyTypeName: aws.String(resource.Text(p["PolicyType"])), PolicyAttributes: policyAttributes(p),
		}); err != nil {
			return err
		}
	}
	return usePolicies(ctx, c, r, in.Listeners)
}

// replaceListeners deletes the listeners that are not wanted as they are, and creates those that are missing.
func replaceListeners(ctx context.Context, c *classic.Client, r *resource.Request,
	live *types.LoadBalancerDescription, wanted []types.Listener) error {
	find := func(port int32) *types.Listener {
		i := slices.IndexFunc(wanted, func(l types.Listener) bool { return l.LoadBalancerPort == port })
		if i < 0 {
			return nil
		}
		return &wanted[i]
	}
	var gone []int32
	there := map[int32]bool{}
	for _, d := range live.ListenerDescriptions {
		port := d.Listener.LoadBalancerPort
		l := find(port)
		if l == nil || !isSameListener(*d.Listener, *l) {
			gone = append(gone, port)
			continue
		}
		there[port] = true
		if certificate := aws.ToString(l.SSLCertificateId); certificate != aws.ToString(d.Listener.SSLCertificateId) {
			if _, err := c.SetLoadBalancerListenerSSLCertificate(ctx,
				&classic.SetLoadBalancerListenerSSLCertificateInput{LoadBalancerName: &r.PhysicalID, LoadBalancerPort: port,
					SSLCertificateId: &certificate}); err != nil {
				return err
			}
		}
	}
	if len(gone) > 0 {
		if _, err := c.DeleteLoadBalancerListeners(ctx, &classic.DeleteLoadBalancerListenersInput{
			LoadBalancerName: &r.PhysicalID, LoadBalancerPorts: gone}); err != nil {
			return err
		}
	}
	missing := slices.DeleteFunc(slices.Clone(wanted), func(l types.Listener) bool { return there[l.LoadBalancerPort] })
	if len(missing) == 0 {
		return nil
	}
	_, err := c.CreateLoadBalancerListeners(ctx, &classic.CreateLoadBalancerListenersInput{
		LoadBalancerName: &r.PhysicalID, Listeners: missing})
	return err
}

// isSameListener reports whether a listener has the ports and protocols of another.
func isSameListener(live, wanted types.Listener) bool {
	protocol := strings.ToUpper(aws.ToString(wanted.Protocol))
	instance := strings.ToUpper(aws.ToString(wanted.InstanceProtocol))
	if instance == "" { // the default of the API
		instance = map[string]string{"SSL": "TCP", "HTTPS": "HTTP"}[protocol]
		if instance == "" {
			instance = protocol
		}
	}
	return aws.ToString(live.Protocol) == protocol && aws.ToString(live.InstanceProtocol) == instance &&
		aws.ToInt32(live.InstancePort) == aws.ToInt32(wanted.InstancePort)
}

func policyAttributes(policy map[string]any) (all []types.PolicyAttribute) {
	for _, a := range resource.Objects(policy["Attributes"]) {
		all = append(all, types.PolicyAttribute{AttributeName: aws.String(resource.Text(a["Name"])),
			AttributeValue: aws.String(resource.Text(a["Value"]))})
	}
	return all
}

// removePolicies deletes the policies of the stack that are not wanted any more as they were, and has nothing use them.
func removePolicies(ctx context.Context, c *classic.Client, r *resource.Request,
	live *types.LoadBalancerDescription) error {
	wanted := map[string]map[string]any{}
	for _, p := range r.Objects("Policies") {
		wanted[resource.Text(p["PolicyName"])] = p
	}
	content := func(p map[string]any) any { return []any{p["PolicyType"], policyAttributes(p)} }
	var gone []string
	for _, p := range resource.Objects(r.Previous["Policies"]) {
		name := resource.Text(p["PolicyName"])
		if next, stays := wanted[name]; !stays || !reflect.DeepEqual(content(p), content(next)) {
			gone = append(gone, name)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	isGone := func(name string) bool { return slices.Contains(gone, name) }
	current, err := describeClassic(ctx, c, r)
	if err != nil {
		return err
	}
	for _, d := range current.ListenerDescriptions {
		if !slices.ContainsFunc(d.PolicyNames, isGone) {
			continue
		}
		if _, err := c.SetLoadBalancerPoliciesOfListener(ctx, &classic.SetLoadBalancerPoliciesOfListenerInput{
			LoadBalancerName: &r.PhysicalID, LoadBalancerPort: d.Listener.LoadBalancerPort,
			PolicyNames: slices.DeleteFunc(slices.Clone(d.PolicyNames), isGone)}); err != nil {
			return err
		}
	}
	for _, d := range current.BackendServerDescriptions {
		if !slices.ContainsFunc(d.PolicyNames, isGone) {
			continue
		}
		if err := setBackendPolicies(ctx, c, r, aws.ToInt32(d.InstancePort),
			slices.DeleteFunc(slices.Clone(d.PolicyNames), isGone)); err != nil {
			return err
		}
	}
	for _, name := range gone {
		if live.Policies == nil || !slices.Contains(live.Policies.OtherPolicies, name) {
			continue
		}
		if _, err := c.DeleteLoadBalancerPolicy(ctx, &classic.DeleteLoadBalancerPolicyInput{
			LoadBalancerName: &r.PhysicalID, PolicyName: &name}); err != nil {
			return err
		}
	}
	return nil
}

func setBackendPolicies(ctx context.Context, c *classic.Client, r *resource.Request, port int32, names []string) error {
	if names == nil {
		names = []string{}
	}
	_, err := c.SetLoadBalancerPoliciesForBackendServer(ctx, &classic.SetLoadBalancerPoliciesForBackendServerInput{
		LoadBalancerName: &r.PhysicalID, InstancePort: &port, PolicyNames: names})
	return err
}

// usePolicies has listeners and ports of instances use the policies that the properties say, and no others.
func usePolicies(ctx context.Context, c *classic.Client, r *resource.Request, wanted []types.Listener) error {
	live, err := describeClassic(ctx, c, r)
	if err != nil {
		return err
	}
	listeners, backends := map[int32][]string{}, map[int32][]string{}
	for _, l := range r.Objects("Listeners") {
		listeners[portOf(l["LoadBalancerPort"])] = resource.Texts(l["PolicyNames"])
	}
	add := func(to map[int32][]string, ports any, name string) {
		for _, port := range resource.Texts(ports) {
			if n := portOf(port); !slices.Contains(to[n], name) {
				to[n] = append(to[n], name)
			}
		}
	}
	for _, p := range r.Objects("Policies") {
		name := resource.Text(p["PolicyName"])
		add(listeners, p["LoadBalancerPorts"], name)
		add(backends, p["InstancePorts"], name)
	}
	same := func(a, b []string) bool {
		return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
	}
	for _, l := range wanted {
		names, had := listeners[l.LoadBalancerPort], []string(nil)
		for _, d := range live.ListenerDescriptions {
			if d.Listener.LoadBalancerPort == l.LoadBalancerPort {
				had = d.PolicyNames
			}
		}
		if same(names, had) {
			continue
		}
		if names == nil {
			names = []string{}
		}
		if _, err := c.SetLoadBalancerPoliciesOfListener(ctx, &classic.SetLoadBalancerPoliciesOfListenerInput{
			LoadBalancerName: &r.PhysicalID, LoadBalancerPort: l.LoadBalancerPort, PolicyNames: names}); err != nil {
			return err
		}
	}
	for _, d := range live.BackendServerDescriptions {
		if port := aws.ToInt32(d.InstancePort); len(backends[port]) == 0 && len(d.PolicyNames) > 0 {
			backends[port] = []string{}
		}
	}
	for port, names := range backends {
		had := []string(nil)
		for _, d := range live.BackendServerDescriptions {
			if aws.ToInt32(d.InstancePort) == port {
				had = d.PolicyNames
			}
		}
		if !same(names, had) {
			if err := setBackendPolicies(ctx, c, r, port, names); err != nil {
				return err
			}
		}
	}
	return nil
}

// livePolicies returns the policies of a load balancer that the property has, as it has them.
func livePolicies(ctx context.Context, c *classic.Client, r *resource.Request,
	live *types.LoadBalancerDescription) (any, error) {
	out, err := c.DescribeLoadBalancerPolicies(ctx, &classic.DescribeLoadBalancerPoliciesInput{
		LoadBalancerName: &r.PhysicalID})
	if err != nil {
		return nil, err
	}
	list := []any{}
	for _, said := range r.Objects("Policies") {
		name := resource.Text(said["PolicyName"])
		i := slices.IndexFunc(out.PolicyDescriptions,
			func(d types.PolicyDescription) bool { return aws.ToString(d.PolicyName) == name })
		if i < 0 {
			continue
		}
		attributes := []any{}
		for _, a := range out.PolicyDescriptions[i].PolicyAttributeDescriptions {
			attributes = append(attributes, map[string]any{"Name": aws.ToString(a.AttributeName),
				"Value": aws.ToString(a.AttributeValue)})
		}
		var listeners, instances []string
		for _, d := range live.ListenerDescriptions {
			if slices.Contains(d.PolicyNames, name) {
				listeners = append(listeners, resource.Text(number(d.Listener.LoadBalancerPort)))
			}
		}
		for _, d := range live.BackendServerDescriptions {
			if slices.Contains(d.PolicyNames, name) {
				instances = append(instances, resource.Text(number(aws.ToInt32(d.InstancePort))))
			}
		}
		list = append(list, map[string]any{
			"PolicyName": name, "PolicyType": aws.ToString(out.PolicyDescriptions[i].PolicyTypeName),
			"Attributes":        likeTemplate(attributes, said["Attributes"]),
			"LoadBalancerPorts": inOrder(listeners, resource.Texts(said["LoadBalancerPorts"])),
			"InstancePorts":     inOrder(instances, resource.Texts(said["InstancePorts"])),
		})
	}
	return list, nil
}
