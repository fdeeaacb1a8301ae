// Package efs has the handlers of the CloudFormation resource types of Amazon EFS: AWS::EFS::*. Each is a client of
// EFS, signed as the caller or as the service role of the stack.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_EFS.html
package efs

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// Types are the resource types of EFS.
var Types = map[string]resource.Type{
	"AWS::EFS::AccessPoint": {Handler: accessPoints, Tagged: true},
	"AWS::EFS::FileSystem":  {Handler: fileSystems, Tagged: true, Refused: []string{"ReplicationConfiguration"}},
	"AWS::EFS::MountTarget": {Handler: mountTargets},
}

func newClient(c aws.Config) *efs.Client { return efs.NewFromConfig(c) }

func newTag(key, value string) types.Tag { return types.Tag{Key: &key, Value: &value} }

func tagMap(list []types.Tag) map[string]string {
	tags := make(map[string]string, len(list))
	for _, t := range list {
		tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return tags
}

// setTags returns the step that tags a resource, whose tags are in a property.
func setTags(property string) resource.Step[*efs.Client] {
	return resource.Step[*efs.Client]{
		Properties: []string{property}, Tags: true,
		Run: func(ctx context.Context, c *efs.Client, r *resource.Request) error {
			set, removed := r.TagChanges(property)
			if len(removed) > 0 {
				_, err := c.UntagResource(ctx, &efs.UntagResourceInput{ResourceId: &r.PhysicalID, TagKeys: removed})
				if err != nil {
					return err
				}
			}
			if len(set) == 0 {
				return nil
			}
			_, err := c.TagResource(ctx, &efs.TagResourceInput{
				ResourceId: &r.PhysicalID, Tags: resource.TagList(set, newTag),
			})
			return err
		},
	}
}

// stateOf returns how far a resource is.
func stateOf(state types.LifeCycleState, id *string) (resource.State, error) {
	switch state {
	case types.LifeCycleStateCreating:
		return resource.Creating, nil
	case types.LifeCycleStateDeleting:
		return resource.Deleting, nil
	case types.LifeCycleStateDeleted:
		return resource.Gone, nil
	case types.LifeCycleStateError:
		return resource.Creating, resource.Errorf(resource.NotStabilized,
			"%s is in the life cycle state error: coracle status tells why", aws.ToString(id))
	}
	return resource.Ready, nil
}

// mountTargets is the handler of AWS::EFS::MountTarget.
var mountTargets = resource.Note(resource.Table[*efs.Client, types.MountTargetDescription]{
	Client: newClient,
	Create: resource.Create((*efs.Client).CreateMountTarget, nil,
		func(out *efs.CreateMountTargetOutput) *string { return out.MountTargetId }),
	Find: func(ctx context.Context, c *efs.Client, r *resource.Request) (string, error) {
		pages := efs.NewDescribeMountTargetsPaginator(c, &efs.DescribeMountTargetsInput{
			FileSystemId: r.Pointer("FileSystemId"),
		})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return "", err
			}
			for _, m := range page.MountTargets {
				if aws.ToString(m.SubnetId) == r.Text("SubnetId") && m.LifeCycleState != types.LifeCycleStateDeleting {
					return aws.ToString(m.MountTargetId), nil
				}
			}
		}
		return "", resource.ErrNotFound
	},
	Describe: func(ctx context.Context, c *efs.Client, r *resource.Request) (*types.MountTargetDescription, error) {
		out, err := c.DescribeMountTargets(ctx, &efs.DescribeMountTargetsInput{MountTargetId: &r.PhysicalID})
		if err != nil {
			return nil, err
		}
		return &out.MountTargets[0], nil
	},
	State: func(live *types.MountTargetDescription) (resource.State, error) {
		return stateOf(live.LifeCycleState, live.MountTargetId)
	},
	Configure: []resource.Step[*efs.Client]{{
		Properties: []string{"SecurityGroups"}, Update: true,
		Run: func(ctx context.Context, c *efs.Client, r *resource.Request) error {
			_, err := c.ModifyMountTargetSecurityGroups(ctx, &efs.ModifyMountTargetSecurityGroupsInput{
				MountTargetId: &r.PhysicalID, SecurityGroups: r.Texts("SecurityGroups"),
			})
			return err
		},
	}},
	Delete: func(ctx context.Context, c *efs.Client, r *resource.Request) error {
		_, err := c.DeleteMountTarget(ctx, &efs.DeleteMountTargetInput{MountTargetId: &r.PhysicalID})
		return err
	},
	Slow: true,
	Attributes: func(_ *resource.Request, live *types.MountTargetDescription) map[string]any {
		return map[string]any{"Id": aws.ToString(live.MountTargetId), "IpAddress": aws.ToString(live.IpAddress)}
	},
	Properties: func(
		ctx context.Context, c *efs.Client, r *resource.Request, live *types.MountTargetDescription,
	) (map[string]any, error) {
		out, err := c.DescribeMountTargetSecurityGroups(ctx, &efs.DescribeMountTargetSecurityGroupsInput{
			MountTargetId: &r.PhysicalID,
		})
		if err != nil {
			return nil, err
		}
		groups := make([]any, 0, len(out.SecurityGroups))
		for _, g := range out.SecurityGroups {
			groups = append(groups, g)
		}
		all := map[string]any{
			"FileSystemId": aws.ToString(live.FileSystemId), "SubnetId": aws.ToString(live.SubnetId),
			"IpAddress": aws.ToString(live.IpAddress), "SecurityGroups": groups,
		}
		if live.Ipv6Address != nil {
			all["Ipv6Address"] = *live.Ipv6Address
		}
		return all, nil
	},
})
