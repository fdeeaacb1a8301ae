package nodegroup

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/aws/apierror"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// roleName returns the name of the node role, without its path.
func (g *group) roleName() string {
	return g.row.NodeRoleARN[strings.LastIndexByte(g.row.NodeRoleARN, '/')+1:]
}

// madeName returns the name of what EKS makes for the group.
func (g *group) madeName() string { return "eks-" + g.row.ID }

// ensureInstanceProfile gives the node role to the instances, by an instance profile of the group's own.
func (g *group) ensureInstanceProfile(ctx context.Context) error {
	name, role := g.madeName(), g.roleName()
	if g.state.InstanceProfile != "" {
		if _, err := record.InstanceProfiles(g.c.o.Store).Get(ctx, record.InstanceProfileKey(g.row.Account,
			name)); err != nil {
			if store.IgnoreNotFound(err) != nil {
				return err
			}
			return &problem{ekstypes.Issue{
				Code: ekstypes.NodegroupIssueCodeIamInstanceProfileNotFound,
				Message: ptr(
					"We couldn't find the IAM instance profile for your managed node group. You may be able to " +
						"recreate an instance profile with the same settings to recover."),
				ResourceIds: []string{name},
			}}
		}
		return nil
	}
	_, err := g.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: &name,
		Tags: []iamtypes.Tag{
			{Key: aws.String(clusterTag), Value: &g.row.Cluster}, {Key: aws.String(groupTag), Value: &g.row.Name},
		}})
	if err != nil && apierror.Code(err) != "EntityAlreadyExists" {
		return fmt.Errorf("create instance profile %s: %w", name, err)
	}
	crashProfile.Here()
	_, err = g.iam.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: &name,
		RoleName: &role})
	switch apierror.Code(err) {
	case "NoSuchEntity":
		return g.roleNotFound()
	case "LimitExceeded": // it has one: this one, from before
	default:
		if err != nil {
			return fmt.Errorf("give role %s to instance profile %s: %w", role, name, err)
		}
	}
	if err := g.checkProfileRole(ctx, name); err != nil {
		return err
	}
	g.state.InstanceProfile = name
	return g.saveState(ctx)
}

// checkProfileRole demands that the instance profile has the role which the creator of the group may pass. IAM gives it
// one by its name, and another role may have that name by now, with another path. While the profile has a role, nobody
// deletes that.
func (g *group) checkProfileRole(ctx context.Context, name string) error {
	out, err := g.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: &name})
	if err != nil {
		return fmt.Errorf("describe instance profile %s: %w", name, err)
	}
	for _, r := range out.InstanceProfile.Roles {
		if aws.ToString(r.Arn) == g.row.NodeRoleARN {
			return nil
		}
		_, err := g.iam.RemoveRoleFromInstanceProfile(ctx,
			&iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: &name, RoleName: r.RoleName})
		if err != nil && apierror.Code(err) != "NoSuchEntity" {
			return fmt.Errorf("take role %s from instance profile %s: %w", aws.ToString(r.Arn), name, err)
		}
	}
	return g.roleNotFound()
}

// roleNotFound reports that the node role is not there.
func (g *group) roleNotFound() error {
	return &problem{ekstypes.Issue{
		Code: ekstypes.NodegroupIssueCodeIamNodeRoleNotFound,
		Message: ptr(
			"We couldn't find the IAM role for your managed node group. You may be able to recreate an IAM role " +
				"with the same settings to recover."),
		ResourceIds: []string{g.row.NodeRoleARN},
	}}
}

// removeProfile takes the instance profile away.
func (g *group) removeProfile(ctx context.Context) error {
	name, role := g.madeName(), g.roleName()
	_, err := g.iam.RemoveRoleFromInstanceProfile(ctx,
		&iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: &name, RoleName: &role})
	if err != nil && apierror.Code(err) != "NoSuchEntity" {
		return fmt.Errorf("take role %s from instance profile %s: %w", role, name, err)
	}
	_, err = g.iam.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: &name})
	if err != nil && apierror.Code(err) != "NoSuchEntity" {
		return fmt.Errorf("delete instance profile %s: %w", name, err)
	}
	return nil
}
