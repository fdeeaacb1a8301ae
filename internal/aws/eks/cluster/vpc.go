package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/region"
	"github.com/coracle-eks/coracle/internal/store"
)

const (
	maxSecurityGroups    = 5
	maxPublicAccessCIDRs = 40
	anywhere4, anywhere6 = "0.0.0.0/0", "::/0"
)

// setVPCConfig gives a new cluster its VPC, subnets, security groups and endpoints.
func (s *Service) setVPCConfig(ctx context.Context, c *record.Cluster, in *types.VpcConfigRequest) error {
	if in == nil {
		in = &types.VpcConfigRequest{}
	}
	if err := checkEgress(c.Name, in.ControlPlaneEgressMode); err != nil {
		return err
	}
	var err error
	if c.VPCID, err = s.checkSubnets(ctx, c.Name, in.SubnetIds, "creation"); err != nil {
		return err
	}
	if err := s.checkSecurityGroups(ctx, c.Name, c.VPCID, in.SecurityGroupIds); err != nil {
		return err
	}
	c.SubnetIDs, c.SecurityGroupIDs = in.SubnetIds, in.SecurityGroupIds
	c.EndpointPublicAccess, c.EndpointPrivateAccess = true, false
	return setEndpointAccess(c, in)
}

// checkEgress refuses control planes that reach the internet through the customer's VPC.
// https://docs.aws.amazon.com/eks/latest/userguide/control-plane-egress.html
func checkEgress(cluster string, mode types.ControlPlaneEgressModeType) error {
	if mode == "" || mode == types.ControlPlaneEgressModeTypeAwsManaged {
		return nil
	}
	return exception.InvalidParameter(
		cluster, "controlPlaneEgressMode %s is not implemented by Coracle: use %s, the default", mode,
		types.ControlPlaneEgressModeTypeAwsManaged,
	)
}

// checkSubnets returns the VPC of the subnets. A cluster needs two of them, in different zones of one VPC. attempt is
// what they are for, "creation" or "update".
// https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
func (s *Service) checkSubnets(
	ctx context.Context, cluster string, ids []string, attempt string,
) (vpc string, err error) {
	at := resource.ScopeOf(ctx)
	zones := map[string]bool{}
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			return "", exception.InvalidParameter(cluster, "Subnet %s is specified more than once", id)
		}
		row, err := s.subnets.Get(ctx, record.EC2Key(at.Account, at.Region, id))
		if errors.Is(err, store.ErrNotFound) {
			return "", exception.About{Cluster: cluster}.EC2Failure(ctx, "The subnet ID '%s' does not exist", id)
		} else if err != nil {
			return "", err
		}
		if vpc != "" && row.Value.VPCID != vpc {
			return "", exception.InvalidParameter(
				cluster, "Subnets specified must be in the same VPC, but %s is in %s and %s is in %s", ids[0], vpc, id,
				row.Value.VPCID,
			)
		}
		vpc = row.Value.VPCID
		zones[row.Value.AvailabilityZone] = true
	}
	if len(zones) < 2 {
		return "", exception.InvalidParameter(cluster, "Subnets specified must be in at least two different AZs")
	}
	return vpc, checkZones(at.Region, cluster, zones, attempt)
}

// unsupportedZones are the IDs of the availability zones in which EKS has no control planes.
// https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html#network-requirements-subnets
var unsupportedZones = []string{"cac1-az3", "use1-az3", "usw1-az2"}

// checkZones refuses zones, by their names, in which EKS has no control planes.
func checkZones(regionCode, cluster string, zones map[string]bool, attempt string) error {
	var unsupported, valid []string
	in, _ := region.Get(regionCode)
	for _, z := range in.Zones {
		switch {
		case !slices.Contains(unsupportedZones, z.ID):
			valid = append(valid, z.Name)
		case zones[z.Name]:
			unsupported = append(unsupported, z.Name)
		}
	}
	if unsupported == nil {
		return nil
	}
	verb := map[string]string{"creation": "create", "update": "update"}[attempt]
	return &types.UnsupportedAvailabilityZoneException{
		ClusterName: new(cluster),
		ValidZones:  valid,
		Message: new(fmt.Sprintf(
			"Cannot %[1]s cluster '%[2]s' because EKS does not support creating control plane instances in %[3]s, the "+
				"targeted availability zone. Retry cluster %[5]s using control plane subnets that span at least two of "+
				"these availability zones: %[4]s. Note, post cluster %[5]s, you can run worker nodes in separate "+
				"subnets/availability zones from control plane subnets/availability zones passed during cluster %[5]s",
			verb, cluster, strings.Join(unsupported, ", "), strings.Join(valid, ", "), attempt,
		)),
	}
}

func (s *Service) checkSecurityGroups(ctx context.Context, cluster, vpc string, ids []string) error {
	if len(ids) > maxSecurityGroups {
		return exception.InvalidParameter(
			cluster, "You can specify up to %d security groups, but %d were specified", maxSecurityGroups, len(ids),
		)
	}
	at := resource.ScopeOf(ctx)
	var strangers []string
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			return exception.InvalidParameter(cluster, "Security group %s is specified more than once", id)
		}
		row, err := s.securityGroups.Get(ctx, record.EC2Key(at.Account, at.Region, id))
		if errors.Is(err, store.ErrNotFound) {
			return exception.About{Cluster: cluster}.EC2Failure(ctx, "The security group '%s' does not exist", id)
		} else if err != nil {
			return err
		}
		if row.Value.VPCID != vpc {
			strangers = append(strangers, id)
		}
	}
	if len(strangers) > 0 {
		return exception.InvalidParameter(
			cluster,
			"Security Group(s) [%s] are not in the same VPC as the subnets. Please specify all security groups in the "+
				"same VPC as the subnets.",
			strings.Join(strangers, ", "),
		)
	}
	return nil
}

// setEndpointAccess changes what in says of the API server's endpoints.
// https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html
func setEndpointAccess(c *record.Cluster, in *types.VpcConfigRequest) error {
	if in.EndpointPublicAccess != nil {
		c.EndpointPublicAccess = *in.EndpointPublicAccess
	}
	if in.EndpointPrivateAccess != nil {
		c.EndpointPrivateAccess = *in.EndpointPrivateAccess
	}
	if !c.EndpointPublicAccess && !c.EndpointPrivateAccess {
		return exception.InvalidParameter(c.Name, "Private and public endpoint access cannot be false")
	}
	if len(in.PublicAccessCidrs) == 0 {
		return nil
	}
	if len(in.PublicAccessCidrs) > maxPublicAccessCIDRs {
		return exception.InvalidParameter(
			c.Name, "publicAccessCidrs can have up to %d CIDR blocks, but %d were specified", maxPublicAccessCIDRs,
			len(in.PublicAccessCidrs),
		)
	}
	var malformed, reserved, foreign []string
	for _, cidr := range in.PublicAccessCidrs {
		p, err := netip.ParsePrefix(cidr)
		switch {
		case err != nil || p != p.Masked():
			malformed = append(malformed, cidr)
		case p.Addr().Is6() && c.IPFamily != types.IpFamilyIpv6:
			foreign = append(foreign, cidr)
		case reservedForPrivateUse(p):
			reserved = append(reserved, cidr)
		}
	}
	switch {
	case malformed != nil:
		return exception.InvalidParameter(
			c.Name, "The following CIDRs are invalid in publicAccessCidrs: %s", exception.List(malformed),
		)
	case foreign != nil:
		return exception.InvalidParameter(
			c.Name, "The following IPv6 CIDRs are not allowed in publicAccessCidrs of a cluster with IP family ipv4: %s",
			exception.List(foreign),
		)
	case reserved != nil:
		return exception.InvalidParameter(
			c.Name, "The following CIDRs are not allowed in publicAccessCidrs: %s", exception.List(reserved),
		)
	}
	c.PublicAccessCIDRs = in.PublicAccessCidrs
	return nil
}

// reservedForPrivateUse reports whether no source on the internet can have an address in p.
func reservedForPrivateUse(p netip.Prefix) bool {
	a := p.Addr()
	return a.IsPrivate() || a.IsLoopback() || a.IsMulticast() || a.IsLinkLocalUnicast() ||
		a.IsUnspecified() && p.Bits() > 0 ||
		slices.ContainsFunc(documentation, func(d netip.Prefix) bool { return d.Overlaps(p) && p.Bits() >= d.Bits() })
}

// documentation are the blocks of examples, which EKS refuses as well: RFC 5737.
var documentation = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24")}

// publicAccessCIDRs returns the blocks that may use the public endpoint: all addresses unless the owner restricts them,
// none when there is no such endpoint.
func publicAccessCIDRs(c record.Cluster) []string {
	switch {
	case !c.EndpointPublicAccess:
		return []string{}
	case len(c.PublicAccessCIDRs) > 0:
		return c.PublicAccessCIDRs
	case c.IPFamily == types.IpFamilyIpv6:
		return []string{anywhere4, anywhere6}
	}
	return []string{anywhere4}
}

// vpcConfig returns a cluster's resourcesVpcConfig.
func vpcConfig(c record.Cluster, cp record.ControlPlane) *types.VpcConfigResponse {
	return &types.VpcConfigResponse{
		VpcId:                  new(c.VPCID),
		SubnetIds:              c.SubnetIDs,
		SecurityGroupIds:       resource.OrEmpty(c.SecurityGroupIDs),
		ClusterSecurityGroupId: resource.OrNil(cp.ClusterSecurityGroupID),
		EndpointPublicAccess:   c.EndpointPublicAccess,
		EndpointPrivateAccess:  c.EndpointPrivateAccess,
		PublicAccessCidrs:      publicAccessCIDRs(c),
		ControlPlaneEgressMode: types.ControlPlaneEgressModeTypeAwsManaged,
	}
}

// vpcUpdate changes subnets and security groups. They stay in the cluster's VPC.
func (s *Service) vpcUpdate(
	ctx context.Context, c *record.Cluster, in *types.VpcConfigRequest,
) ([]types.UpdateParam, error) {
	var params []types.UpdateParam
	if in.SubnetIds != nil {
		vpc, err := s.checkSubnets(ctx, c.Name, in.SubnetIds, "update")
		if err != nil {
			return nil, err
		}
		if vpc != c.VPCID {
			return nil, exception.InvalidParameter(c.Name, "Specified subnets must belong to cluster's vpc %s", c.VPCID)
		}
		params = append(params, resource.UpdateParam(types.UpdateParamTypeSubnets, resource.JSON(in.SubnetIds)))
	}
	if in.SecurityGroupIds != nil {
		if err := s.checkSecurityGroups(ctx, c.Name, c.VPCID, in.SecurityGroupIds); err != nil {
			return nil, err
		}
		params = append(
			params, resource.UpdateParam(types.UpdateParamTypeSecurityGroups, resource.JSON(in.SecurityGroupIds)),
		)
	}
	if (in.SubnetIds == nil || sameSet(in.SubnetIds, c.SubnetIDs)) &&
		(in.SecurityGroupIds == nil || sameSet(in.SecurityGroupIds, c.SecurityGroupIDs)) {
		return nil, exception.InvalidParameter(
			c.Name, "Cluster is already at the desired configuration with subnets: %s and security groups: %s",
			exception.List(c.SubnetIDs), exception.List(c.SecurityGroupIDs),
		)
	}
	if in.SubnetIds != nil {
		c.SubnetIDs = in.SubnetIds
	}
	if in.SecurityGroupIds != nil {
		c.SecurityGroupIDs = in.SecurityGroupIds
	}
	return params, nil
}

// endpointUpdate changes the API server's endpoints.
func endpointUpdate(c *record.Cluster, in *types.VpcConfigRequest) ([]types.UpdateParam, error) {
	before := *c
	if err := setEndpointAccess(c, in); err != nil {
		return nil, err
	}
	was, is := publicAccessCIDRs(before), publicAccessCIDRs(*c)
	if before.EndpointPublicAccess == c.EndpointPublicAccess &&
		before.EndpointPrivateAccess == c.EndpointPrivateAccess &&
		sameSet(was, is) {
		return nil, exception.InvalidParameter(
			c.Name,
			"Cluster is already at the desired configuration with endpointPrivateAccess: %t , endpointPublicAccess: "+
				"%t, and Public Endpoint Restrictions: %s",
			c.EndpointPrivateAccess,
			c.EndpointPublicAccess,
			exception.List(is),
		)
	}
	return []types.UpdateParam{
		resource.UpdateParam(types.UpdateParamTypeEndpointPublicAccess, fmt.Sprint(c.EndpointPublicAccess)),
		resource.UpdateParam(types.UpdateParamTypeEndpointPrivateAccess, fmt.Sprint(c.EndpointPrivateAccess)),
		resource.UpdateParam(types.UpdateParamTypePublicAccessCidrs, resource.JSON(is)),
	}, nil
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

// vpcPrefixes returns the blocks of a VPC.
func (s *Service) vpcPrefixes(ctx context.Context, c record.Cluster) (v4, v6 []netip.Prefix, err error) {
	row, err := s.vpcs.Get(ctx, record.EC2Key(c.Account, c.Region, c.VPCID))
	if err != nil {
		return nil, nil, err
	}
	parse := func(list []record.CIDRAssociation) (out []netip.Prefix, err error) {
		for _, a := range list {
			p, err := netip.ParsePrefix(a.CIDR)
			if err != nil {
				return nil, fmt.Errorf("read the blocks of %s: %w", c.VPCID, err)
			}
			out = append(out, p)
		}
		return out, nil
	}
	if v4, err = parse(row.Value.CIDRs); err != nil {
		return nil, nil, err
	}
	v6, err = parse(row.Value.IPv6CIDRs)
	return v4, v6, err
}

// remoteNetwork checks the networks of hybrid nodes and their pods.
// https://docs.aws.amazon.com/eks/latest/userguide/hybrid-nodes-networking.html
func (s *Service) remoteNetwork(
	ctx context.Context, c record.Cluster, in *types.RemoteNetworkConfigRequest,
) (*types.RemoteNetworkConfigResponse, error) {
	if in == nil || len(in.RemoteNodeNetworks) == 0 && len(in.RemotePodNetworks) == 0 {
		return nil, nil
	}
	if len(in.RemoteNodeNetworks) == 0 {
		return nil, exception.InvalidParameter(
			c.Name, "remotePodNetworks can't be specified without remoteNodeNetworks",
		)
	}
	if len(in.RemoteNodeNetworks) > 1 || len(in.RemotePodNetworks) > 1 {
		return nil, exception.InvalidParameter(
			c.Name, "remoteNodeNetworks and remotePodNetworks can have one member each; put all blocks into its cidrs",
		)
	}
	if c.AuthenticationMode == types.AuthenticationModeConfigMap {
		return nil, exception.InvalidParameter(
			c.Name,
			"The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to use "+
				"remoteNetworkConfig",
		)
	}
	taken, _, err := s.vpcPrefixes(ctx, c)
	if err != nil {
		return nil, err
	}
	if c.ServiceIPv4CIDR != "" {
		taken = append(taken, netip.MustParsePrefix(c.ServiceIPv4CIDR))
	}
	var cidrs []string
	for _, n := range in.RemoteNodeNetworks {
		cidrs = append(cidrs, n.Cidrs...)
	}
	for _, n := range in.RemotePodNetworks {
		cidrs = append(cidrs, n.Cidrs...)
	}
	for _, cidr := range cidrs {
		p, err := netip.ParsePrefix(cidr)
		if err != nil || p != p.Masked() || !p.Addr().Is4() {
			return nil, exception.InvalidParameter(
				c.Name, "%s in remoteNetworkConfig is not a valid IPv4 CIDR block", cidr,
			)
		}
		if !withinRFC1918(p) && !netip.MustParsePrefix("100.64.0.0/10").Contains(p.Addr()) {
			return nil, exception.InvalidParameter(
				c.Name,
				"%s in remoteNetworkConfig must be within one of 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 or "+
					"100.64.0.0/10",
				cidr,
			)
		}
		for _, other := range taken {
			if p.Overlaps(other) {
				return nil, exception.InvalidParameter(
					c.Name,
					"%s in remoteNetworkConfig overlaps with %s, which the cluster's VPC, its services or another "+
						"remote network uses",
					cidr,
					other,
				)
			}
		}
		taken = append(taken, p)
	}
	return &types.RemoteNetworkConfigResponse{
		RemoteNodeNetworks: in.RemoteNodeNetworks,
		RemotePodNetworks:  in.RemotePodNetworks,
	}, nil
}

// networksOf returns a cluster's remoteNetworkConfig as it would be in a request.
func networksOf(r *types.RemoteNetworkConfigResponse) string {
	if r == nil {
		return resource.JSON(map[string]any{"remoteNodeNetworks": []string{}, "remotePodNetworks": []string{}})
	}
	nodes, pods := []map[string]any{}, []map[string]any{}
	for _, n := range r.RemoteNodeNetworks {
		nodes = append(nodes, map[string]any{"cidrs": n.Cidrs})
	}
	for _, n := range r.RemotePodNetworks {
		pods = append(pods, map[string]any{"cidrs": n.Cidrs})
	}
	return resource.JSON(map[string]any{"remoteNodeNetworks": nodes, "remotePodNetworks": pods})
}

// changesEgress reports whether a VPC request speaks of the control plane's way out.
func changesEgress(in *types.VpcConfigRequest) bool { return in.ControlPlaneEgressMode != "" }

// changesEndpoints reports whether a VPC request speaks of the API server's endpoints.
func changesEndpoints(in *types.VpcConfigRequest) bool {
	return in.EndpointPublicAccess != nil || in.EndpointPrivateAccess != nil || in.PublicAccessCidrs != nil
}

// changesSubnets reports whether a VPC request speaks of where the cluster's network interfaces stand.
func changesSubnets(in *types.VpcConfigRequest) bool {
	return in.SubnetIds != nil || in.SecurityGroupIds != nil
}
