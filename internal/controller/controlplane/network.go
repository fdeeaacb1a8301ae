package controlplane

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/apierror"
	"github.com/coracle-eks/coracle/internal/record"
)

// EC2 is the part of Amazon EC2 that a control plane needs; *ec2.Client implements it.
type EC2 interface {
	DescribeSubnets(context.Context, *ec2.DescribeSubnetsInput, ...func(*ec2.Options)) (*ec2.DescribeSubnetsOutput,
		error)

	DescribeSecurityGroups(context.Context, *ec2.DescribeSecurityGroupsInput,
		...func(*ec2.Options)) (*ec2.DescribeSecurityGroupsOutput, error)
	CreateSecurityGroup(context.Context, *ec2.CreateSecurityGroupInput,
		...func(*ec2.Options)) (*ec2.CreateSecurityGroupOutput, error)
	AuthorizeSecurityGroupIngress(context.Context, *ec2.AuthorizeSecurityGroupIngressInput,
		...func(*ec2.Options)) (*ec2.AuthorizeSecurityGroupIngressOutput, error)
	AuthorizeSecurityGroupEgress(context.Context, *ec2.AuthorizeSecurityGroupEgressInput,
		...func(*ec2.Options)) (*ec2.AuthorizeSecurityGroupEgressOutput, error)
	DeleteSecurityGroup(context.Context, *ec2.DeleteSecurityGroupInput,
		...func(*ec2.Options)) (*ec2.DeleteSecurityGroupOutput, error)

	DescribeNetworkInterfaces(context.Context, *ec2.DescribeNetworkInterfacesInput,
		...func(*ec2.Options)) (*ec2.DescribeNetworkInterfacesOutput, error)
	CreateNetworkInterface(context.Context, *ec2.CreateNetworkInterfaceInput,
		...func(*ec2.Options)) (*ec2.CreateNetworkInterfaceOutput, error)
	ModifyNetworkInterfaceAttribute(context.Context, *ec2.ModifyNetworkInterfaceAttributeInput,
		...func(*ec2.Options)) (*ec2.ModifyNetworkInterfaceAttributeOutput, error)
	DeleteNetworkInterface(context.Context, *ec2.DeleteNetworkInterfaceInput,
		...func(*ec2.Options)) (*ec2.DeleteNetworkInterfaceOutput, error)
}

// zones is in how many availability zones the control plane has a network interface.
const zones = 2

// SessionName is the name of the sessions of its service-linked role in which EKS calls EC2.
const SessionName = "AmazonEKS"

// earlierSessionName and earlierOwner are on the interfaces that earlier versions of Coracle created.
const (
	earlierSessionName = "EKS"
	earlierOwner       = "amazon-aws"
)

// clusterTag marks what EKS made for a cluster.
const clusterTag = "aws:eks:cluster-name"

// network is the cluster's presence in its VPC.
type network struct {
	securityGroup string
	interfaces    []ec2types.NetworkInterface // by subnet ID
}

// addresses returns the private addresses of the interfaces.
func (n network) addresses() []net.IP {
	var ips []net.IP
	for _, i := range n.interfaces {
		if ip := net.ParseIP(aws.ToString(i.PrivateIpAddress)); ip != nil {
			ips = append(ips, ip)
		}
		for _, v6 := range i.Ipv6Addresses {
			if ip := net.ParseIP(aws.ToString(v6.Ipv6Address)); ip != nil {
				ips = append(ips, ip)
			}
		}
	}
	return ips
}

func (n network) interfaceIDs() []string {
	var ids []string
	for _, i := range n.interfaces {
		ids = append(ids, aws.ToString(i.NetworkInterfaceId))
	}
	return ids
}

// ensureNetwork gives the cluster its security group and its network interfaces in its subnets. It
// finds what exists before it makes anything, so that a crash between a call and the record of
// its outcome leaves nothing behind.
func (c *Controller) ensureNetwork(ctx context.Context, cluster record.Cluster) (n network, err error) {
	client := c.o.EC2(cluster.Account, cluster.Region)
	if n.securityGroup, err = c.securityGroup(ctx, client, cluster); err != nil {
		return n, err
	}
	n.interfaces, err = c.interfaces(ctx, client, cluster, n.securityGroup)
	return n, err
}

func (c *Controller) securityGroup(ctx context.Context, client EC2, cluster record.Cluster) (string, error) {
	group, err := findSecurityGroup(ctx, client, cluster)
	if err != nil {
		return "", err
	}
	if group == nil {
		name := fmt.Sprintf("eks-cluster-sg-%s-%d", cluster.Name, rand.Uint32())
		made, err := client.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
			GroupName: &name,
			Description: aws.String(
				"EKS created security group applied to ENI that is attached to EKS Control Plane master nodes, as " +
					"well as any managed workloads."),
			VpcId: &cluster.VPCID,
			TagSpecifications: []ec2types.TagSpecification{{
				ResourceType: ec2types.ResourceTypeSecurityGroup,
				Tags: []ec2types.Tag{
					{Key: aws.String("Name"), Value: &name},
					{Key: aws.String("kubernetes.io/cluster/" + cluster.Name), Value: aws.String("owned")},
					{Key: aws.String(clusterTag), Value: &cluster.Name},
				},
			}},
		})
		if err != nil {
			return "", fmt.Errorf("create security group %s: %w", name, err)
		}
		crashSecurityGroup.Here()
		group = &ec2types.SecurityGroup{GroupId: made.GroupId}
	}
	return *group.GroupId, allowMembers(ctx, client, group)
}

// allowMembers lets the members of a security group reach each other, in both directions: traffic of Elastic Fabric
// Adapters has no addresses that a rule for a CIDR could match.
func allowMembers(ctx context.Context, client EC2, group *ec2types.SecurityGroup) error {
	permissions := []ec2types.IpPermission{{
		IpProtocol: aws.String("-1"),
		UserIdGroupPairs: []ec2types.UserIdGroupPair{{
			GroupId:     group.GroupId,
			Description: aws.String("Allows EFA traffic, which is not matched by CIDR rules."),
		}},
	}}
	namesItself := func(permissions []ec2types.IpPermission) bool {
		return slices.ContainsFunc(permissions, func(p ec2types.IpPermission) bool {
			return slices.ContainsFunc(p.UserIdGroupPairs,
				func(g ec2types.UserIdGroupPair) bool { return aws.ToString(g.GroupId) == *group.GroupId })
		})
	}
	if !namesItself(group.IpPermissions) {
		_, err := client.AuthorizeSecurityGroupIngress(ctx,
			&ec2.AuthorizeSecurityGroupIngressInput{GroupId: group.GroupId, IpPermissions: permissions})
		if err != nil && apierror.Code(err) != "InvalidPermission.Duplicate" {
			return fmt.Errorf("allow traffic from members of security group %s: %w", *group.GroupId, err)
		}
	}
	if namesItself(group.IpPermissionsEgress) {
		return nil
	}
	_, err := client.AuthorizeSecurityGroupEgress(ctx,
		&ec2.AuthorizeSecurityGroupEgressInput{GroupId: group.GroupId, IpPermissions: permissions})
	if apierror.Code(err) == "RulesPerSecurityGroupLimitExceeded" {
		return nil // a group from before, whose rules are its users': its cluster worked without this one
	}
	if err != nil && apierror.Code(err) != "InvalidPermission.Duplicate" {
		return fmt.Errorf("allow traffic to members of security group %s: %w", *group.GroupId, err)
	}
	return nil
}

func findSecurityGroup(ctx context.Context, client EC2, cluster record.Cluster) (*ec2types.SecurityGroup, error) {
	out, err := client.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: []ec2types.Filter{
		newFilter("tag:"+clusterTag, cluster.Name),
		newFilter("vpc-id", cluster.VPCID),
	}})
	if err != nil {
		return nil, fmt.Errorf("find the cluster's security group: %w", err)
	}
	if len(out.SecurityGroups) == 0 {
		return nil, nil
	}
	return &out.SecurityGroups[0], nil
}

func (c *Controller) interfaces(ctx context.Context, client EC2, cluster record.Cluster,
	securityGroup string) ([]ec2types.NetworkInterface, error) {
	existing, err := findInterfaces(ctx, client, cluster)
	if err != nil {
		return nil, err
	}
	subnets, err := pickSubnets(ctx, client, cluster, existing)
	if err != nil {
		return nil, err
	}
	groups := append([]string{securityGroup}, cluster.SecurityGroupIDs...)
	var wanted []ec2types.NetworkInterface
	for _, subnet := range subnets {
		i := slices.IndexFunc(existing, func(e ec2types.NetworkInterface) bool {
			return aws.ToString(
				e.SubnetId) == subnet
		})
		if i < 0 {
			// Without a client token of its own: somebody else in the account could have created an interface with a
			// token that can be foreseen, which this call would return.
			in := &ec2.CreateNetworkInterfaceInput{
				SubnetId:    &subnet,
				Description: aws.String(interfaceDescription(cluster)),
				Groups:      groups,
			}
			if cluster.IPFamily == ekstypes.IpFamilyIpv6 { // its nodes are reached by IPv6
				in.Ipv6AddressCount = aws.Int32(1)
			}
			made, err := client.CreateNetworkInterface(ctx, in)
			if err != nil {
				return nil, fmt.Errorf("create the cluster's network interface in %s: %w", subnet, err)
			}
			crashInterface.Here()
			wanted = append(wanted, *made.NetworkInterface)
			continue
		}
		wanted = append(wanted, existing[i])
		existing = slices.Delete(existing, i, i+1)
		if sameGroups(wanted[len(wanted)-1], groups) {
			continue
		}
		_, err := client.ModifyNetworkInterfaceAttribute(ctx, &ec2.ModifyNetworkInterfaceAttributeInput{
			NetworkInterfaceId: wanted[len(wanted)-1].NetworkInterfaceId, Groups: groups,
		})
		if err != nil {
			return nil, fmt.Errorf("change the security groups of the cluster's network interface: %w", err)
		}
	}
	for _, left := range existing {
		if err := deleteInterface(ctx, client, left); err != nil {
			return nil, err
		}
	}
	return wanted, nil
}

func interfaceDescription(cluster record.Cluster) string { return "Amazon EKS " + cluster.Name }

func sameGroups(i ec2types.NetworkInterface, groups []string) bool {
	var has []string
	for _, g := range i.Groups {
		has = append(has, aws.ToString(g.GroupId))
	}
	want := slices.Clone(groups)
	slices.Sort(has)
	slices.Sort(want)
	return slices.Equal(has, want)
}

// findInterfaces returns the interfaces that EKS created for the cluster. Whoever may create interfaces in the account
// chooses their description and the name of its own session; nobody but EKS gets one that is attached to what is in
// EKS's account.
func findInterfaces(ctx context.Context, client EC2, cluster record.Cluster) ([]ec2types.NetworkInterface, error) {
	out, err := client.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{Filters: []ec2types.Filter{
		newFilter("description", interfaceDescription(cluster)),
		newFilter("attachment.instance-owner-id", record.EKSAccount, earlierOwner),
		newFilter("requester-id", "*:"+SessionName, "*:"+earlierSessionName),
		newFilter("vpc-id", cluster.VPCID),
	}})
	if err != nil {
		return nil, fmt.Errorf("find the cluster's network interfaces: %w", err)
	}
	return out.NetworkInterfaces, nil
}

// pickSubnets chooses one subnet in each of the first zones, and stays with those that have an
// interface already.
func pickSubnets(ctx context.Context, client EC2, cluster record.Cluster, existing []ec2types.NetworkInterface) (
	[]string, error) {
	out, err := client.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: cluster.SubnetIDs})
	if err != nil {
		return nil, fmt.Errorf("describe the cluster's subnets: %w", err)
	}
	zone := map[string]string{}
	for _, s := range out.Subnets {
		zone[aws.ToString(s.SubnetId)] = aws.ToString(s.AvailabilityZone)
	}
	var candidates []string
	for _, e := range existing {
		if id := aws.ToString(e.SubnetId); slices.Contains(cluster.SubnetIDs, id) {
			candidates = append(candidates, id)
		}
	}
	slices.Sort(candidates)
	candidates = append(candidates, cluster.SubnetIDs...)
	var picked []string
	taken := map[string]bool{}
	for _, id := range candidates {
		if z, known := zone[id]; known && !taken[z] && len(picked) < zones {
			picked = append(picked, id)
			taken[z] = true
		}
	}
	if len(picked) == 0 {
		return nil, errors.New("none of the cluster's subnets exists")
	}
	slices.Sort(picked)
	return picked, nil
}

// removeNetwork removes what attach made. It is called until nothing is left.
func (c *Controller) removeNetwork(ctx context.Context, cluster record.Cluster) error {
	client := c.o.EC2(cluster.Account, cluster.Region)
	interfaces, err := findInterfaces(ctx, client, cluster)
	if err != nil {
		return err
	}
	for _, i := range interfaces {
		if err := deleteInterface(ctx, client, i); err != nil {
			return err
		}
		crashInterfaceDeleted.Here()
	}
	group, err := findSecurityGroup(ctx, client, cluster)
	if err != nil || group == nil {
		return err
	}
	_, err = client.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: group.GroupId})
	if err != nil && apierror.Code(err) != "InvalidGroup.NotFound" {
		return fmt.Errorf("delete the cluster's security group %s: %w", *group.GroupId, err)
	}
	return nil
}

func deleteInterface(ctx context.Context, client EC2, i ec2types.NetworkInterface) error {
	_, err := client.DeleteNetworkInterface(ctx,
		&ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: i.NetworkInterfaceId})
	if err != nil && apierror.Code(err) != "InvalidNetworkInterfaceID.NotFound" {
		return fmt.Errorf("delete the cluster's network interface %s: %w", aws.ToString(i.NetworkInterfaceId), err)
	}
	return nil
}

func newFilter(name string, values ...string) ec2types.Filter {
	return ec2types.Filter{Name: &name, Values: values}
}
