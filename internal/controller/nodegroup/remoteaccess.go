package nodegroup

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/apierror"
)

func (g *group) remoteName() string { return "eks-remoteAccess-" + g.row.ID }

// ensureRemoteAccess makes the security group through which nodes are reached by SSH: from the given groups, or from
// everywhere.
func (g *group) ensureRemoteAccess(ctx context.Context) error {
	access := g.row.RemoteAccess
	if access == nil || aws.ToString(access.Ec2SshKey) == "" || g.state.RemoteAccessGroup != "" {
		return nil
	}
	found, err := g.findRemoteAccess(ctx)
	if err != nil {
		return err
	}
	if found == nil {
		made, err := g.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
			GroupName:   ptr(g.remoteName()),
			Description: aws.String("Security group for all nodes in the nodeGroup to allow SSH access"),
			VpcId:       &g.cluster.VPCID,
			TagSpecifications: []ec2types.TagSpecification{{
				ResourceType: ec2types.ResourceTypeSecurityGroup, Tags: append(g.resourceTags(),
					ec2types.Tag{Key: aws.String("eks"), Value: ptr(g.remoteName())}),
			}},
		})
		if err != nil {
			return fmt.Errorf("create security group %s: %w", g.remoteName(), err)
		}
		crashRemoteAccess.Here()
		found = &ec2types.SecurityGroup{GroupId: made.GroupId}
	}
	permission := sshPermission(access.SourceSecurityGroups)
	if is := found.IpPermissions; len(is) != 1 || !isSamePermission(is[0], permission) {
		if len(is) > 0 { // somebody else has made a group of that name: what they let in must not reach the nodes
			_, err := g.ec2.RevokeSecurityGroupIngress(ctx,
				&ec2.RevokeSecurityGroupIngressInput{GroupId: found.GroupId, IpPermissions: is})
			if err != nil && apierror.Code(err) != "InvalidPermission.NotFound" {
				return fmt.Errorf("let nothing else into security group %s: %w", aws.ToString(found.GroupId), err)
			}
		}
		_, err := g.ec2.AuthorizeSecurityGroupIngress(ctx,
			&ec2.AuthorizeSecurityGroupIngressInput{GroupId: found.GroupId,
				IpPermissions: []ec2types.IpPermission{permission}})
		if err != nil && apierror.Code(err) != "InvalidPermission.Duplicate" {
			return fmt.Errorf("let SSH into security group %s: %w", aws.ToString(found.GroupId), err)
		}
	}
	g.state.RemoteAccessGroup = aws.ToString(found.GroupId)
	return g.saveState(ctx)
}

// sshPermission lets SSH in from security groups, or from everywhere when there are none.
func sshPermission(sources []string) ec2types.IpPermission {
	p := ec2types.IpPermission{IpProtocol: aws.String("tcp"), FromPort: aws.Int32(22), ToPort: aws.Int32(22)}
	for _, source := range sources {
		p.UserIdGroupPairs = append(p.UserIdGroupPairs, ec2types.UserIdGroupPair{GroupId: &source,
			Description: aws.String("Allows SSH access from this security group to the nodes in the nodeGroup")})
	}
	if len(sources) == 0 {
		p.IpRanges = []ec2types.IpRange{{CidrIp: aws.String("0.0.0.0/0"),
			Description: aws.String("Allows SSH access to the nodes in the nodeGroup")}}
	}
	return p
}

// isSamePermission reports whether two permissions let in the same, whatever their descriptions and order.
func isSamePermission(a, b ec2types.IpPermission) bool {
	sources := func(p ec2types.IpPermission) []string {
		all := []string{fmt.Sprint(aws.ToString(p.IpProtocol), " ", aws.ToInt32(p.FromPort), "-", aws.ToInt32(p.ToPort))}
		for _, r := range p.IpRanges {
			all = append(all, aws.ToString(r.CidrIp))
		}
		for _, r := range p.Ipv6Ranges {
			all = append(all, aws.ToString(r.CidrIpv6))
		}
		for _, l := range p.PrefixListIds {
			all = append(all, aws.ToString(l.PrefixListId))
		}
		for _, g := range p.UserIdGroupPairs {
			all = append(all, aws.ToString(g.GroupId))
		}
		slices.Sort(all)
		return all
	}
	return slices.Equal(sources(a), sources(b))
}

func (g *group) findRemoteAccess(ctx context.Context) (*ec2types.SecurityGroup, error) {
	out, err := g.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: []ec2types.Filter{
		{Name: aws.String("group-name"), Values: []string{g.remoteName()}},
		{Name: aws.String("vpc-id"), Values: []string{g.cluster.VPCID}},
	}})
	if err != nil {
		return nil, fmt.Errorf("find security group %s: %w", g.remoteName(), err)
	}
	if len(out.SecurityGroups) == 0 {
		return nil, nil
	}
	return &out.SecurityGroups[0], nil
}

// removeRemoteAccess takes the security group away, unless something of others holds it.
func (g *group) removeRemoteAccess(ctx context.Context) error {
	if g.row.RemoteAccess == nil {
		return nil
	}
	found, err := g.findRemoteAccess(ctx)
	if err != nil || found == nil {
		return err
	}
	_, err = g.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: found.GroupId})
	switch {
	case err == nil, apierror.Code(err) == "InvalidGroup.NotFound":
		return nil
	case slices.Contains([]string{"DependencyViolation", "CannotDelete", "InvalidGroup.InUse"}, apierror.Code(err)):
		return &problem{ekstypes.Issue{
			Code: ekstypes.NodegroupIssueCodeEc2SecurityGroupDeletionFailure,
			Message: ptr(
				"We could not delete the remote access security group for your managed node group. Remove any " +
					"dependencies from the security group. " + apierror.Message(err)),
			ResourceIds: []string{aws.ToString(found.GroupId)},
		}}
	}
	return fmt.Errorf("delete security group %s: %w", aws.ToString(found.GroupId), err)
}
