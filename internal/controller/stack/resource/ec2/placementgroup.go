package ec2

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// placementGroups have the physical IDs that Ref returns: their names.
var placementGroups = kind[types.PlacementGroup]{
	resource: types.ResourceTypePlacementGroup,
	list: func(ctx context.Context, c *ec2.Client, names []string, filters []types.Filter) (
		[]types.PlacementGroup, error) {
		out, err := c.DescribePlacementGroups(ctx, &ec2.DescribePlacementGroupsInput{GroupNames: names, Filters: filters})
		if err != nil {
			return nil, err
		}
		return out.PlacementGroups, nil
	},
	id: func(g *types.PlacementGroup) *string { return g.GroupName },
	gone: func(g *types.PlacementGroup) bool {
		return g.State == types.PlacementGroupStateDeleted || g.State == types.PlacementGroupStateDeleting
	},
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-placementgroup.html
var placementGroup = resource.Type{
	Tagged:    true,
	NameLimit: 255,
	Refused:   []string{"ParentGroupId"},
	Handler: resource.Handle(resource.Table[*ec2.Client, types.PlacementGroup]{
		Client: client,
		Create: resource.Create((*ec2.Client).CreatePlacementGroup, nil,
			func(out *ec2.CreatePlacementGroupOutput) *string { return out.PlacementGroup.GroupName },
			func(r *resource.Request, in *ec2.CreatePlacementGroupInput) error {
				in.GroupName, in.TagSpecifications = &r.Name, placementGroups.tags(r)
				return nil
			}),
		Find:     placementGroups.find,
		Describe: placementGroups.describe,
		State: func(g *types.PlacementGroup) (resource.State, error) {
			if g.State == types.PlacementGroupStatePending {
				return resource.Creating, nil
			}
			return resource.Ready, nil
		},
		Configure: []resource.Step[*ec2.Client]{{Properties: []string{"Tags"}, Tags: true,
			Run: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
				g, err := placementGroups.describe(ctx, c, r)
				if err != nil {
					return err
				}
				return changeTags(ctx, c, r, aws.ToString(g.GroupId))
			}}},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			_, err := c.DeletePlacementGroup(ctx, &ec2.DeletePlacementGroupInput{GroupName: &r.PhysicalID})
			return err
		},
		Attributes: func(_ *resource.Request, g *types.PlacementGroup) map[string]any {
			return map[string]any{"GroupName": aws.ToString(g.GroupName), "GroupId": aws.ToString(g.GroupId)}
		},
		Properties: func(_ context.Context, _ *ec2.Client, _ *resource.Request, g *types.PlacementGroup) (
			map[string]any, error) {
			return encode(g, nil, g.Tags, nil), nil
		},
	}),
}
