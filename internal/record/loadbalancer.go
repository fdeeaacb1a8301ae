package record

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/store"
)

// Kinds of load balancers.
const (
	ClassicLoadBalancer     = "classic"
	NetworkLoadBalancer     = "network"
	ApplicationLoadBalancer = "application"
)

// Schemes of load balancers.
const (
	SchemeInternetFacing = "internet-facing"
	SchemeInternal       = "internal"
)

// LoadBalancer is a Classic, Network or Application Load Balancer as its owner wants it. Its network interfaces, one in
// each of its subnets, are made and deleted in the transactions that make, change and delete it, and have its security
// groups and public addresses ([NetworkInterface]).
//
// Writer: internal/aws/elb.
type LoadBalancer struct {
	Account   string
	Region    string
	Kind      string // ClassicLoadBalancer, NetworkLoadBalancer or ApplicationLoadBalancer
	Name      string // unique among the load balancers of its API
	ID        string // 16 hexadecimal digits
	CreatedAt time.Time
	DNSName   string
	Scheme    string
	VPCID     string
	// Zones are its places, one for each Availability Zone, in the order of their names.
	Zones            []LoadBalancerZone
	SecurityGroupIDs []string `json:",omitempty"`
	// PrivateLinkUnfiltered is true for a Network Load Balancer whose security groups do not filter what comes through
	// AWS PrivateLink.
	PrivateLinkUnfiltered bool `json:",omitempty"`

	Listeners   []Listener            `json:",omitempty"`
	Attributes  map[string]string     `json:",omitempty"` // those that differ from the defaults
	Tags        map[string]string     `json:",omitempty"`
	Classic     *ClassicConfiguration `json:",omitempty"` // of a Classic Load Balancer
	Application *ApplicationSecrets   `json:",omitempty"` // of an Application Load Balancer
}

// LoadBalancerZone is the place of a load balancer in an Availability Zone.
type LoadBalancerZone struct {
	Name               string // "eu-west-1a"
	SubnetID           string
	NetworkInterfaceID string
	PrivateIP          string
	Fixed              bool   `json:",omitempty"` // whether its owner chose PrivateIP
	PublicIP           string `json:",omitempty"`
	AllocationID       string `json:",omitempty"` // of the elastic address that PublicIP is
}

// Listener is a port of a load balancer. A Classic Load Balancer leads connections to a port of its instances, others
// to a target group.
type Listener struct {
	ID       string `json:",omitempty"` // 16 hexadecimal digits; empty for those of Classic Load Balancers
	Protocol string
	Port     int32
	// InstanceProtocol and InstancePort are those of a Classic Load Balancer.
	InstanceProtocol string `json:",omitempty"`
	InstancePort     int32  `json:",omitempty"`
	// Policies are the names of policies of the Classic Load Balancer that apply to the listener.
	Policies []string `json:",omitempty"`
	// TargetGroup is the name of a target group of the same account and region, of a Network Load Balancer whose listener
	// leads to one.
	TargetGroup string `json:",omitempty"`
	// Actions are the default actions of an Application Load Balancer, for requests that meet no rule, or that of a
	// listener of a Network Load Balancer to several target groups. Rules are in the order of their priorities.
	Actions []ListenerAction `json:",omitempty"`
	Rules   []ListenerRule   `json:",omitempty"`
	// SSLPolicy is the name of the security policy of a listener for HTTPS, SSL or TLS.
	SSLPolicy  string `json:",omitempty"`
	ALPNPolicy string `json:",omitempty"`
	// Certificates are the ARNs of the certificates of a listener that terminates TLS. The first is the default.
	Certificates []string          `json:",omitempty"`
	Attributes   map[string]string `json:",omitempty"`
	Tags         map[string]string `json:",omitempty"`
}

// ClassicConfiguration is what only a Classic Load Balancer has.
type ClassicConfiguration struct {
	Instances   []RegisteredInstance `json:",omitempty"`
	HealthCheck HealthCheck
	Policies    []ClassicPolicy `json:",omitempty"`
	// BackendPolicies are the names of policies by port of the instances.
	BackendPolicies map[int32][]string `json:",omitempty"`
}

// RegisteredInstance is an instance of a Classic Load Balancer.
type RegisteredInstance struct {
	ID           string
	RegisteredAt time.Time
	// DeregisteredAt is the time of the deregistration: connections go on while they drain.
	DeregisteredAt time.Time `json:",omitzero"`
}

// ClassicPolicy is a policy of a Classic Load Balancer.
type ClassicPolicy struct {
	Name       string
	Type       string            // ProxyProtocolPolicy or SSLNegotiationPolicy
	Attributes []PolicyAttribute `json:",omitempty"`
}

// PolicyAttribute is an attribute of a [ClassicPolicy].
type PolicyAttribute struct{ Name, Value string }

// HealthCheck configures the health checks of targets.
type HealthCheck struct {
	Disabled           bool   `json:",omitempty"`
	Protocol           string // "TCP", "SSL", "HTTP", "HTTPS"
	Port               int32  `json:",omitempty"` // 0: the port of the traffic
	Path               string `json:",omitempty"`
	Matcher            string `json:",omitempty"` // "200-399"; of HTTP and HTTPS. "0-5" of gRPC
	Interval           int32  // seconds
	Timeout            int32  // seconds
	HealthyThreshold   int32
	UnhealthyThreshold int32
}

// LoadBalancerKey returns the key of a load balancer: the names of Classic Load Balancers and of the others do not
// meet.
func LoadBalancerKey(account, region, kind, name string) string {
	api := "v2"
	if kind == ClassicLoadBalancer {
		api = ClassicLoadBalancer
	}
	return store.Key(account, region, api, name)
}

// Key returns the load balancer's key.
func (b LoadBalancer) Key() string { return LoadBalancerKey(b.Account, b.Region, b.Kind, b.Name) }

// Namespace returns the name of the network namespace that its network interfaces are plugged into.
func (b LoadBalancer) Namespace() string { return "elb-" + b.ID }

// ARN returns the load balancer's Amazon Resource Name.
func (b LoadBalancer) ARN() string {
	if b.Kind == ClassicLoadBalancer {
		return LoadBalancingARN(b.Account, b.Region, "loadbalancer/"+b.Name)
	}
	return LoadBalancingARN(b.Account, b.Region, "loadbalancer/"+b.path())
}

// path returns how ARNs of the load balancer and what it has name it.
func (b LoadBalancer) path() string {
	if b.Kind == ApplicationLoadBalancer {
		return "app/" + b.Name + "/" + b.ID
	}
	return "net/" + b.Name + "/" + b.ID
}

// ListenerARN returns the Amazon Resource Name of a listener.
func (b LoadBalancer) ListenerARN(id string) string {
	return LoadBalancingARN(b.Account, b.Region, "listener/"+b.path()+"/"+id)
}

// LoadBalancingARN returns the Amazon Resource Name of a resource of Elastic Load Balancing.
func LoadBalancingARN(account, region, resource string) string {
	return "arn:aws:elasticloadbalancing:" + region + ":" + account + ":" + resource
}

// Attribute returns the value of an attribute; a default where none was set.
func (b LoadBalancer) Attribute(name, otherwise string) string {
	if value, ok := b.Attributes[name]; ok {
		return value
	}
	return otherwise
}

// CrossZone reports whether targets of all zones get traffic of each zone. Those of Application Load Balancers do.
func (b LoadBalancer) CrossZone() bool {
	return b.Kind == ApplicationLoadBalancer || b.Attribute("load_balancing.cross_zone.enabled", "false") == "true"
}

// InterfaceIDs returns the IDs of the load balancer's network interfaces.
func (b LoadBalancer) InterfaceIDs() []string {
	var all []string
	for _, z := range b.Zones {
		all = append(all, z.NetworkInterfaceID)
	}
	return all
}

// ConnectionDraining returns how long connections to a deregistered instance of a Classic Load Balancer go on.
func (b LoadBalancer) ConnectionDraining() time.Duration {
	seconds, _ := strconv.Atoi(b.Attribute("connection_draining", "0"))
	return time.Duration(seconds) * time.Second
}

// BackendPolicy returns the policy of that type that applies to a port of the instances.
func (c *ClassicConfiguration) BackendPolicy(port int32, kind string) (ClassicPolicy, bool) {
	for _, p := range c.Policies {
		if p.Type == kind && slices.Contains(c.BackendPolicies[port], p.Name) {
			return p, true
		}
	}
	return ClassicPolicy{}, false
}

// ProxyProtocolPolicy is the type of the policies by which instances are told the client's address.
const ProxyProtocolPolicy = "ProxyProtocolPolicyType"

// SSLNegotiationPolicy is the type of the policies that say which ciphers a listener offers.
const SSLNegotiationPolicy = "SSLNegotiationPolicyType"

// ProxyProtocol reports whether connections to a port of the instances begin with the client's address.
func (c *ClassicConfiguration) ProxyProtocol(port int32) bool {
	policy, ok := c.BackendPolicy(port, ProxyProtocolPolicy)
	return ok && slices.ContainsFunc(policy.Attributes, func(a PolicyAttribute) bool {
		return a.Name == "ProxyProtocol" && strings.EqualFold(a.Value, "true")
	})
}

// LoadBalancers returns the table of load balancers, by LoadBalancerKey.
func LoadBalancers(s *store.Store) store.Table[LoadBalancer] {
	return store.NewTable[LoadBalancer](s, "loadbalancers")
}

// LoadBalancersByVPC finds load balancers by the EC2Key of their VPC.
func LoadBalancersByVPC(s *store.Store) store.Index[LoadBalancer] {
	return store.NewIndex(LoadBalancers(s), "vpc", func(b LoadBalancer) string {
		return EC2Key(b.Account, b.Region, b.VPCID)
	})
}

// LoadBalancersBySigningKey finds Application Load Balancers by the ID of the key that signs identities.
func LoadBalancersBySigningKey(s *store.Store) store.Index[LoadBalancer] {
	return store.NewIndex(LoadBalancers(s), "signingkey", func(b LoadBalancer) string {
		if b.Application == nil {
			return ""
		}
		return b.Application.SigningKeyID
	})
}

// TargetGroup is a target group of Network or Application Load Balancers.
//
// Writer: internal/aws/elb.
type TargetGroup struct {
	Account     string
	Region      string
	Name        string
	ID          string // 16 hexadecimal digits
	CreatedAt   time.Time
	Protocol    string
	Version     string `json:",omitempty"` // "HTTP1", "HTTP2" or "GRPC"; of the protocols HTTP and HTTPS
	Port        int32
	TargetType  string // "instance", "ip" or "alb"
	VPCID       string
	HealthCheck HealthCheck
	Attributes  map[string]string `json:",omitempty"` // those that differ from the defaults
	Tags        map[string]string `json:",omitempty"`
	// LoadBalancer is the name of the load balancer whose listeners and rules lead to it: of one at most.
	LoadBalancer string   `json:",omitempty"`
	Targets      []Target `json:",omitempty"`
}

// Target is a target of a target group.
type Target struct {
	ID               string // of an instance, an address, or the ARN of an Application Load Balancer
	Port             int32
	AvailabilityZone string `json:",omitempty"` // as the registration said: "all", or that of an address
	RegisteredAt     time.Time
	// DeregisteredAt is the time of the deregistration: connections go on for the deregistration delay.
	DeregisteredAt time.Time `json:",omitzero"`
}

// TargetGroupKey returns the key of a target group.
func TargetGroupKey(account, region, name string) string { return store.Key(account, region, name) }

// Key returns the target group's key.
func (g TargetGroup) Key() string { return TargetGroupKey(g.Account, g.Region, g.Name) }

// ARN returns the target group's Amazon Resource Name.
func (g TargetGroup) ARN() string {
	return LoadBalancingARN(g.Account, g.Region, "targetgroup/"+g.Name+"/"+g.ID)
}

// TargetGroupName returns the name in the Amazon Resource Name of a target group; false for what is none.
func TargetGroupName(arn string) (name string, ok bool) {
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) != 6 || parts[2] != "elasticloadbalancing" {
		return "", false
	}
	path := strings.Split(parts[5], "/")
	if len(path) != 3 || path[0] != "targetgroup" {
		return "", false
	}
	return path[1], true
}

// Attribute returns the value of an attribute; a default where none was set.
func (g TargetGroup) Attribute(name, otherwise string) string {
	if value, ok := g.Attributes[name]; ok {
		return value
	}
	return otherwise
}

// DeregistrationDelay returns how long connections to a deregistered target go on.
func (g TargetGroup) DeregistrationDelay() time.Duration {
	seconds, _ := strconv.Atoi(g.Attribute("deregistration_delay.timeout_seconds", "300"))
	return time.Duration(seconds) * time.Second
}

// TargetGroups returns the table of target groups, by TargetGroupKey.
func TargetGroups(s *store.Store) store.Table[TargetGroup] {
	return store.NewTable[TargetGroup](s, "targetgroups")
}

// TargetGroupsByApplication finds target groups of Network Load Balancers by the ARN of the Application Load Balancer
// that is their target.
func TargetGroupsByApplication(s *store.Store) store.Index[TargetGroup] {
	return store.NewIndex(TargetGroups(s), "application", func(g TargetGroup) string {
		t, _ := g.Application()
		return t.ID
	})
}

// Application returns the target of a target group that has an Application Load Balancer as its target; false without
// one. Those that were deregistered are none.
func (g TargetGroup) Application() (t Target, registered bool) {
	if g.TargetType != "alb" {
		return t, false
	}
	i := slices.IndexFunc(g.Targets, func(t Target) bool { return t.DeregisteredAt.IsZero() })
	if i < 0 {
		return t, false
	}
	return g.Targets[i], true
}

// TargetHealth is what was observed of the targets of a load balancer's Classic configuration or of a target group. No
// record: nothing yet.
//
// Writer: internal/host/balancer. It deletes the record when what has the targets has gone.
type TargetHealth struct {
	// Owner is the ID of the load balancer or target group: one of the same name later is another.
	Owner string
	// Targets are by TargetName. An Application Load Balancer is a target at each of its addresses.
	Targets map[string]TargetState
}

// States of targets, as Elastic Load Balancing v2 has them.
const (
	TargetInitial   = "initial"
	TargetHealthy   = "healthy"
	TargetUnhealthy = "unhealthy"
	TargetDraining  = "draining"
	TargetUnused    = "unused"
)

// TargetState is what was observed of a target.
type TargetState struct {
	RegisteredAt time.Time // of the registration that was observed
	State        string
	HealthySince time.Time `json:",omitzero"`  // of a healthy target
	Reason       string    `json:",omitempty"` // "Target.Timeout"
	Description  string    `json:",omitempty"`
}

// TargetHealths returns the table of what was observed of targets, by LoadBalancerKey and, with the prefix "group", by
// TargetGroupKey.
func TargetHealths(s *store.Store) store.Table[TargetHealth] {
	return store.NewTable[TargetHealth](s, "targethealths")
}

// TargetHealthKey returns the key of what was observed of the targets of a target group.
func (g TargetGroup) TargetHealthKey() string {
	return store.Key(g.Account, g.Region, "group", g.Name)
}

// LoadBalancerStatus is what was observed of a load balancer. No record: nothing yet.
//
// Writer: internal/host/balancer. It deletes the record when the load balancer has gone.
type LoadBalancerStatus struct {
	ID     string // of the load balancer
	Active bool   // its network interfaces are there, and what listens
	// Failure explains why it does not listen.
	Failure string `json:",omitempty"`
}

// LoadBalancerStatuses returns the table of what was observed of load balancers, by LoadBalancerKey.
func LoadBalancerStatuses(s *store.Store) store.Table[LoadBalancerStatus] {
	return store.NewTable[LoadBalancerStatus](s, "loadbalancerstatuses")
}
