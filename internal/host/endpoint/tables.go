package endpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/host/hostsfile"
	"github.com/coracle-eks/coracle/internal/host/network"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// tables are the tables of the records that this package reads.
type tables struct {
	clusters    store.Table[record.Cluster]
	planes      store.Table[record.ControlPlane]
	interfaces  store.Table[record.NetworkInterface]
	vpcs        store.Table[record.VPC]
	addresses   store.Table[record.Address]
	publicIPs   store.Table[record.PublicIP]
	endpoints   store.Table[record.VPCEndpoint]
	endpointsOf store.Index[record.VPCEndpoint] // interface endpoints, by VPC
	instances   store.Table[record.Instance]

	mountTargets store.Table[record.MountTarget]
	subnets      store.Table[record.Subnet]
	subnetsByVPC store.Index[record.Subnet]
	blocks       store.Table[record.AddressBlock]
	routeTables  store.Table[record.RouteTable]
	natGateways  store.Table[record.NATGateway]

	balancers     store.Table[record.LoadBalancer]
	targetHealths store.Table[record.TargetHealth]
}

func openTables(s *store.Store) tables {
	return tables{
		clusters: record.Clusters(s), planes: record.ControlPlanes(s), interfaces: record.NetworkInterfaces(s),
		vpcs:      record.VPCs(s),
		addresses: record.Addresses(s), publicIPs: record.PublicIPs(s), endpoints: record.VPCEndpoints(s),
		endpointsOf:  record.InterfaceEndpointsByVPC(s),
		instances:    record.Instances(s),
		mountTargets: record.MountTargets(s), subnets: record.Subnets(s),
		subnetsByVPC: record.SubnetsByVPC(s), blocks: record.AddressBlocks(s), routeTables: record.RouteTables(s),
		natGateways: record.NATGateways(s), balancers: record.LoadBalancers(s), targetHealths: record.TargetHealths(s),
	}
}

// Addresses of Amazon's resolver beside that in the range of the VPC.
// https://docs.aws.amazon.com/vpc/latest/userguide/AmazonDNS-concepts.html#AmazonDNS
var (
	linkLocalResolver  = netip.MustParseAddr("169.254.169.253")
	linkLocalResolver6 = netip.MustParseAddr("fd00:ec2::253")
)

// httpsPort is the port of API servers for clients.
const httpsPort = 443

// buildConfig returns the configuration of the process, and the names that the host has to resolve.
func (t tables) buildConfig(ctx context.Context, c *Controller) (config Config, hosts []hostsfile.Entry, err error) {
	clusters, err := t.clusters.List(ctx, "")
	if err != nil {
		return config, nil, err
	}
	config.Names = map[string][]netip.Addr{}
	private := map[string]map[string][]netip.Addr{} // by VPC: what its own private hosted zones say
	issuers := map[string]bool{}                    // by name: one for each region that has a cluster
	for _, row := range clusters {
		cluster := row.Value
		own, err := t.ofCluster(c, cluster)
		if err != nil {
			return config, nil, err
		}
		config.Forwards = append(config.Forwards, own.Forwards...)
		if own.Names == nil {
			continue
		}
		issuers[record.IssuerHost(cluster.Region)] = true
		config.Egresses = append(config.Egresses, own.Egresses...)
		for name, addresses := range own.Names {
			config.Names[name] = addresses
			for _, a := range addresses {
				hosts = append(hosts, hostsfile.Entry{Address: a, Name: Name(cluster)})
			}
		}
		if cluster.EndpointPrivateAccess {
			vpc := record.EC2Key(cluster.Account, cluster.Region, cluster.VPCID)
			if private[vpc] == nil {
				private[vpc] = map[string][]netip.Addr{}
			}
			private[vpc][strings.ToLower(Name(cluster))] = own.private
		}
	}
	for _, name := range slices.Sorted(maps.Keys(issuers)) {
		hosts = append(hosts, hostsfile.Entry{Address: c.o.API, Name: name})
	}
	if c.o.Namespace != nil {
		more, err := t.balancerNames(ctx, c, config.Names)
		if err != nil {
			return config, nil, err
		}
		hosts = append(hosts, more...)
		if config.Resolvers, err = t.resolvers(ctx, c, private); err != nil {
			return config, nil, err
		}
	}
	return config, hosts, nil
}

// balancerNames adds the names of load balancers to those that the internet knows, and returns them for the host.
func (t tables) balancerNames(ctx context.Context, c *Controller, names map[string][]netip.Addr) (
	hosts []hostsfile.Entry, err error) {
	rows, err := t.balancers.List(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		own, err := c.balancer.Names(ctx, row.Value)
		if err != nil {
			return nil, err
		}
		for name, addresses := range own {
			names[name] = addresses
			for _, a := range addresses {
				hosts = append(hosts, hostsfile.Entry{Address: a, Name: name})
			}
		}
	}
	return hosts, nil
}

// localPort returns the address of the cluster's API server on the host.
func localPort(plane record.ControlPlane) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(plane.Port))
}

// clusterConfig is one cluster's part of the Config. Names is nil where machines have no network.
type clusterConfig struct {
	Config
	private []netip.Addr // of its network interfaces
}

// ofCluster returns the cluster's part of the Config, according to its endpoint access.
// https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html
//
// Whatever the access is, the cluster's network interfaces take connections, because the service "kubernetes" has their
// addresses. The access decides whether there is a public address as well, and what the name resolves to: with private
// access the VPC has a private hosted zone with the private addresses; without public access public DNS returns them,
// too.
func (t tables) ofCluster(c *Controller, cluster record.Cluster) (out clusterConfig, err error) {
	ctx := context.Background()
	row, err := t.planes.Get(ctx, cluster.Key())
	if errors.Is(err, store.ErrNotFound) || err == nil && (row.Value.ClusterID != cluster.ID ||
		row.Value.ServerPort == 0) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	plane := row.Value
	target := fmt.Sprintf("127.0.0.1:%d", plane.ServerPort)
	socket := c.ServerSocket(plane.ServerPort)
	out.Forwards = []Forward{{Listen: localPort(plane), Target: target}}
	if c.o.Namespace == nil {
		return out, nil
	}
	public, err := netip.ParseAddr(plane.PublicAddress)
	if err != nil {
		return out, fmt.Errorf("public address of cluster %s: %w", cluster.Name, err)
	}
	leg := c.o.Namespace(cluster.ID)
	for _, id := range plane.NetworkInterfaceIDs {
		eni, err := t.interfaces.Get(ctx, record.EC2Key(cluster.Account, cluster.Region, id))
		if errors.Is(err, store.ErrNotFound) {
			continue // the cluster is being deleted, or about to get others
		} else if err != nil {
			return out, err
		}
		for _, text := range slices.Concat(eni.Value.PrivateIPs[:min(1, len(eni.Value.PrivateIPs))],
			eni.Value.IPv6IPs) {
			a, err := netip.ParseAddr(text)
			if err != nil {
				return out, fmt.Errorf("address of %s: %w", id, err)
			}
			out.private = append(out.private, a)
			out.Forwards = append(out.Forwards, Forward{Namespace: leg, Listen: netip.AddrPortFrom(a, httpsPort),
				Target: target, Socket: socket})
		}
	}
	out.Egresses = []Egress{
		{Socket: c.EgressSocket(cluster.ID), Namespace: leg, DNS: netip.AddrPortFrom(linkLocalResolver, 53),
			Metrics: c.metrics(plane)},
		{Socket: c.ManagedEgressSocket(cluster.ID), Namespace: c.o.Namespace(network.InternetNamespace),
			Host: c.o.Webhooks},
	}
	known := out.private
	if cluster.EndpointPublicAccess {
		known = []netip.Addr{public}
		allow, err := cluster.PublicSources()
		if err != nil {
			return out, err
		}
		out.Forwards = append(out.Forwards, Forward{
			Namespace: c.o.Namespace(network.InternetNamespace), Listen: netip.AddrPortFrom(public, httpsPort),
			Target: target, Socket: socket, Allow: allow,
		})
	}
	out.Names = map[string][]netip.Addr{strings.ToLower(Name(cluster)): known}
	return out, nil
}

// resolvers returns the DNS servers of the VPCs that have one.
func (t tables) resolvers(
	ctx context.Context, c *Controller, private map[string]map[string][]netip.Addr,
) (all []Resolver, err error) {
	vpcs, err := t.vpcs.List(ctx, "")
	if err != nil {
		return nil, err
	}
	public, err := t.publicAddresses(ctx)
	if err != nil {
		return nil, err
	}
	services, err := t.interfaceEndpoints(ctx)
	if err != nil {
		return nil, err
	}
	named, err := t.resourceNames(ctx)
	if err != nil {
		return nil, err
	}
	fileSystems, err := t.fileSystems(ctx)
	if err != nil {
		return nil, err
	}
	for _, row := range vpcs {
		vpc := row.Value
		if !vpc.EnableDNSSupport || len(vpc.CIDRs) == 0 {
			continue
		}
		r := Resolver{
			Namespace:  c.o.Namespace(network.VPCNamespace(vpc.ID)),
			Region:     vpc.Region,
			API:        c.o.API,
			ForwardsS3: c.o.ForwardsS3,
			Records:    map[string][]netip.Addr{},
		}
		for _, a := range vpc.CIDRs {
			p, err := netip.ParsePrefix(a.CIDR)
			if err != nil {
				return nil, fmt.Errorf("range of %s: %w", vpc.ID, err)
			}
			r.CIDRs = append(r.CIDRs, p.Masked())
		}
		r.Addresses = []netip.Addr{r.CIDRs[0].Addr().Next().Next(), linkLocalResolver}
		if len(vpc.IPv6CIDRs) > 0 {
			r.Addresses = append(r.Addresses, linkLocalResolver6)
		}
		zones := []map[string][]netip.Addr{services[row.Key], named[row.Key]}
		if vpc.EnableDNSHostnames {
			r.Public = public[row.Key]
			zones = append(zones, private[row.Key])
			if names := fileSystems[row.Key]; names != nil {
				zones = append(zones, names.fixed)
				r.ZonalRecords, r.Subnets = names.zonal, names.subnets
			}
		}
		for _, zone := range zones {
			for name, addresses := range zone {
				r.Records[name] = addresses
			}
		}
		all = append(all, r)
	}
	return all, nil
}

// publicAddresses returns the private addresses by their public ones, by VPC.
func (t tables) publicAddresses(ctx context.Context) (map[string]map[netip.Addr]netip.Addr, error) {
	all := map[string]map[netip.Addr]netip.Addr{}
	add := func(account, region, eni, public, private string) error {
		row, err := t.interfaces.Get(ctx, record.EC2Key(account, region, eni))
		if errors.Is(err, store.ErrNotFound) {
			return nil
		} else if err != nil {
			return err
		}
		if private == "" && len(row.Value.PrivateIPs) > 0 {
			private = row.Value.PrivateIPs[0]
		}
		a, _ := netip.ParseAddr(public)
		b, _ := netip.ParseAddr(private)
		if !a.IsValid() || !b.IsValid() {
			return nil
		}
		vpc := record.EC2Key(account, region, row.Value.VPCID)
		if all[vpc] == nil {
			all[vpc] = map[netip.Addr]netip.Addr{}
		}
		all[vpc][a] = b
		return nil
	}
	elastic, err := t.addresses.List(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, row := range elastic {
		if a := row.Value; a.NetworkInterfaceID != "" {
			if err := add(a.Account, a.Region, a.NetworkInterfaceID, a.PublicIP, a.PrivateIPAddress); err != nil {
				return nil, err
			}
		}
	}
	lent, err := t.publicIPs.List(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, row := range lent {
		if p := row.Value; strings.HasPrefix(p.OwnerID, "eni-") {
			if err := add(p.Account, p.Region, p.OwnerID, store.Parts(row.Key)[0], ""); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// interfaceEndpoints returns the names of interface endpoints, by VPC.
// https://docs.aws.amazon.com/vpc/latest/privatelink/create-interface-endpoint.html
func (t tables) interfaceEndpoints(ctx context.Context) (map[string]map[string][]netip.Addr, error) {
	list, err := t.endpoints.List(ctx, "")
	if err != nil {
		return nil, err
	}
	all := map[string]map[string][]netip.Addr{}
	for _, row := range list {
		e := row.Value
		service, ok := strings.CutPrefix(e.ServiceName, "com.amazonaws."+e.Region+".")
		if e.Type != ec2types.VpcEndpointTypeInterface || !ok || service == "s3" {
			continue // S3 is not served
		}
		addresses, err := t.addressesOf(ctx, e.EC2Resource, e.NetworkInterfaceIDs)
		if err != nil {
			return nil, err
		}
		labels := strings.Split(service, ".") // com.amazonaws.eu-west-1.ecr.api is api.ecr.eu-west-1.amazonaws.com
		slices.Reverse(labels)
		domain := strings.Join(labels, ".") + "." + e.Region
		vpc := record.EC2Key(e.Account, e.Region, e.VPCID)
		if all[vpc] == nil {
			all[vpc] = map[string][]netip.Addr{}
		}
		all[vpc][e.ID+"."+domain+".vpce.amazonaws.com"] = addresses
		if e.PrivateDNSEnabled {
			if service == "ecr.dkr" {
				domain = "*." + domain
			}
			all[vpc][domain+".amazonaws.com"] = addresses
		}
	}
	return all, nil
}

func (t tables) addressesOf(ctx context.Context, of record.EC2Resource, interfaces []string) (
	all []netip.Addr, err error) {
	for _, id := range interfaces {
		row, err := t.interfaces.Get(ctx, record.EC2Key(of.Account, of.Region, id))
		if errors.Is(err, store.ErrNotFound) {
			continue
		} else if err != nil {
			return nil, err
		}
		for _, text := range slices.Concat(row.Value.PrivateIPs, row.Value.IPv6IPs) {
			if a, err := netip.ParseAddr(text); err == nil {
				all = append(all, a)
			}
		}
	}
	return all, nil
}

// resourceNames returns the names of instances that are named after their IDs and resolve by them, by VPC.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-naming.html
func (t tables) resourceNames(ctx context.Context) (map[string]map[string][]netip.Addr, error) {
	list, err := t.instances.List(ctx, "")
	if err != nil {
		return nil, err
	}
	wanted := map[string]record.Instance{} // by ID
	for _, row := range list {
		if i := row.Value; i.EnableResourceNameDNSARecord || i.EnableResourceNameDNSAAAARecord {
			wanted[i.ID] = i
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	interfaces, err := t.interfaces.List(ctx, "")
	if err != nil {
		return nil, err
	}
	all := map[string]map[string][]netip.Addr{}
	for _, row := range interfaces {
		eni := row.Value
		if eni.Attachment == nil || eni.Attachment.DeviceIndex != 0 {
			continue
		}
		i, ok := wanted[eni.Attachment.InstanceID]
		if !ok {
			continue
		}
		var texts []string
		if i.EnableResourceNameDNSARecord {
			texts = append(texts, eni.PrivateIPs[:min(1, len(eni.PrivateIPs))]...)
		}
		if i.EnableResourceNameDNSAAAARecord {
			texts = append(texts, eni.IPv6IPs[:min(1, len(eni.IPv6IPs))]...)
		}
		vpc := record.EC2Key(eni.Account, eni.Region, eni.VPCID)
		if all[vpc] == nil {
			all[vpc] = map[string][]netip.Addr{}
		}
		for _, text := range texts {
			if a, err := netip.ParseAddr(text); err == nil {
				name := i.ID + "." + privateDomain(i.Region)
				all[vpc][name] = append(all[vpc][name], a)
			}
		}
	}
	return all, nil
}
