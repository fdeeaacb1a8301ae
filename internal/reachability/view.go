package reachability

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/vpcrule"
)

// arn returns the ARN of a resource of EC2.
func (n *Network) arn(kind ec2types.ResourceType, id string) string {
	return "arn:aws:ec2:" + n.vpc.Region + ":" + n.vpc.Account + ":" + string(kind) + "/" + id
}

// component renders a resource of EC2.
func (n *Network) component(kind ec2types.ResourceType, id string) *ec2types.AnalysisComponent {
	return &ec2types.AnalysisComponent{Id: aws.String(id), Arn: aws.String(n.arn(kind, id))}
}

func (n *Network) vpcComponent() *ec2types.AnalysisComponent {
	return n.component(ec2types.ResourceTypeVpc, n.vpc.ID)
}

func (n *Network) eni(i *networkInterface) *ec2types.AnalysisComponent {
	return n.component(ec2types.ResourceTypeNetworkInterface, i.ID)
}

// step adds a component to the path.
func (w *walk) step(c ec2types.PathComponent) {
	c.SequenceNumber = aws.Int32(int32(len(w.steps) + 1))
	w.steps = append(w.steps, c)
}

// interfaceStep adds a network interface, with what it is attached to.
func (w *walk) interfaceStep(i *networkInterface) {
	c := ec2types.PathComponent{Component: w.eni(i), Vpc: w.vpcComponent(),
		Subnet: w.component(ec2types.ResourceTypeSubnet, i.SubnetID)}
	switch id := i.ShownInstanceID(); {
	case id != "":
		c.AttachedTo = w.component(ec2types.ResourceTypeInstance, id)
	case i.nat != "":
		c.AttachedTo = w.component(ec2types.ResourceTypeNatgateway, i.nat)
	case i.balancer != nil:
		c.AttachedTo = balancerComponent(i.balancer)
	}
	w.step(c)
}

// balancerSteps add a load balancer with its listener, and the target group.
func (w *walk) balancerSteps(l listener) {
	c := ec2types.PathComponent{Component: balancerComponent(l.balancer)}
	if l.route.Listener.ID != "" {
		c.ElasticLoadBalancerListener = &ec2types.AnalysisComponent{Id: aws.String(l.route.Listener.ID),
			Arn: aws.String(l.balancer.ListenerARN(l.route.Listener.ID))}
	}
	w.step(c)
	if l.group != nil {
		w.step(ec2types.PathComponent{Component: &ec2types.AnalysisComponent{Id: aws.String(l.group.ID),
			Arn: aws.String(l.group.ARN()), Name: aws.String(l.group.Name)}})
	}
}

func balancerComponent(b *loadBalancer) *ec2types.AnalysisComponent {
	return &ec2types.AnalysisComponent{Id: aws.String(b.ID), Arn: aws.String(b.ARN()), Name: aws.String(b.Name)}
}

// routeStep adds the route that a packet takes.
func (w *walk) routeStep(table string, r vpcrule.Route) {
	w.step(ec2types.PathComponent{Component: w.component(ec2types.ResourceTypeRouteTable, table),
		RouteTableRoute: w.routeView(r, ec2types.RouteStateActive)})
}

func (w *walk) routeView(r vpcrule.Route, state ec2types.RouteState) *ec2types.AnalysisRouteTableRoute {
	v := &ec2types.AnalysisRouteTableRoute{Origin: aws.String(string(r.Origin)), State: aws.String(string(state))}
	if strings.HasPrefix(r.Destination, "pl-") {
		v.DestinationPrefixListId = aws.String(r.Destination)
	} else {
		v.DestinationCidr = aws.String(r.Destination)
	}
	switch target := aws.String(r.Target); {
	case isResource(r.Target, "nat-"):
		v.NatGatewayId = target
	case isResource(r.Target, "eni-"):
		v.NetworkInterfaceId = target
		if i := w.interfaceNamed(r.Target); i != nil && i.ShownInstanceID() != "" {
			v.InstanceId = aws.String(i.ShownInstanceID())
		}
	case isResource(r.Target, "eigw-"):
		v.EgressOnlyInternetGatewayId = target
	default:
		v.GatewayId = target
	}
	return v
}

// problem adds what keeps the packet from its destination.
func (w *walk) problem(code string, more func(*ec2types.Explanation)) {
	e := ec2types.Explanation{ExplanationCode: aws.String(code), Vpc: w.vpcComponent()}
	more(&e)
	w.problems = append(w.problems, e)
}

// at returns what a problem at a network interface says of it.
func (w *walk) at(i *networkInterface, direction string) func(*ec2types.Explanation) {
	return func(e *ec2types.Explanation) {
		e.NetworkInterface, e.Direction = w.eni(i), aws.String(direction)
		e.Subnet = w.component(ec2types.ResourceTypeSubnet, i.SubnetID)
	}
}

// destination renders where the packet is to go.
func (w *walk) destination() *ec2types.AnalysisComponent {
	if i := w.owner(w.to.at); i != nil {
		return w.eni(i)
	}
	return nil
}

// ruleView renders a rule of a security group.
func ruleView(r record.SecurityGroupRule) *ec2types.AnalysisSecurityGroupRule {
	v := &ec2types.AnalysisSecurityGroupRule{Direction: aws.String(direction(r.Egress)),
		Protocol: aws.String(protocolName(r.Protocol))}
	if p := vpcrule.GroupTraffic(r).Ports; p != nil {
		v.PortRange = &ec2types.PortRange{From: aws.Int32(p.From), To: aws.Int32(p.To)}
	}
	switch {
	case r.GroupID != "":
		v.SecurityGroupId = aws.String(r.GroupID)
	case r.PrefixListID != "":
		v.PrefixListId = aws.String(r.PrefixListID)
	default:
		v.Cidr = aws.String(r.CIDRIPv4 + r.CIDRIPv6)
	}
	return v
}

// aclView renders a rule of a network ACL.
func aclView(r vpcrule.ACLRule) *ec2types.AnalysisAclRule {
	v := &ec2types.AnalysisAclRule{Cidr: aws.String(r.Block.String()), Egress: aws.Bool(r.Egress),
		Protocol: aws.String(protocolName(r.Protocol)), RuleAction: aws.String(string(r.Action)),
		RuleNumber: aws.Int32(r.Number)}
	if p := r.Traffic.Ports; p != nil {
		v.PortRange = &ec2types.PortRange{From: aws.Int32(p.From), To: aws.Int32(p.To)}
	}
	return v
}

// protocolName returns the name of the protocol of a rule, as analyses have it.
func protocolName(p string) string {
	switch p {
	case "-1":
		return "all"
	case "6":
		return "tcp"
	case "17":
		return "udp"
	case "1":
		return "icmp"
	}
	return p
}
