package efs

import (
	"context"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// accessPoints is the handler of AWS::EFS::AccessPoint. All but its tags is fixed.
var accessPoints = resource.Handle(resource.Table[*efs.Client, types.AccessPointDescription]{
	Client: newClient,
	Create: resource.Create((*efs.Client).CreateAccessPoint, nil,
		func(out *efs.CreateAccessPointOutput) *string { return out.AccessPointId },
		func(r *resource.Request, in *efs.CreateAccessPointInput) error {
			in.Tags = resource.TagList(r.Wanted("AccessPointTags"), newTag)
			return nil
		}),
	Find: func(ctx context.Context, c *efs.Client, r *resource.Request) (string, error) {
		pages := efs.NewDescribeAccessPointsPaginator(c, &efs.DescribeAccessPointsInput{
			FileSystemId: r.Pointer("FileSystemId"),
		})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return "", err
			}
			for _, a := range page.AccessPoints {
				if r.Owns(tagMap(a.Tags)) && !isReplaced(r, aws.ToString(a.AccessPointId)) {
					return aws.ToString(a.AccessPointId), nil
				}
			}
		}
		return "", resource.ErrNotFound
	},
	Describe: func(ctx context.Context, c *efs.Client, r *resource.Request) (*types.AccessPointDescription, error) {
		out, err := c.DescribeAccessPoints(ctx, &efs.DescribeAccessPointsInput{AccessPointId: &r.PhysicalID})
		if err != nil {
			return nil, err
		}
		return &out.AccessPoints[0], nil
	},
	State: func(live *types.AccessPointDescription) (resource.State, error) {
		return stateOf(live.LifeCycleState, live.AccessPointId)
	},
	Configure: []resource.Step[*efs.Client]{setTags("AccessPointTags")},
	Delete: func(ctx context.Context, c *efs.Client, r *resource.Request) error {
		_, err := c.DeleteAccessPoint(ctx, &efs.DeleteAccessPointInput{AccessPointId: &r.PhysicalID})
		return err
	},
	Attributes: func(_ *resource.Request, live *types.AccessPointDescription) map[string]any {
		return map[string]any{
			"AccessPointId": aws.ToString(live.AccessPointId), "Arn": aws.ToString(live.AccessPointArn),
		}
	},
	Properties: accessPointProperties,
})

func accessPointProperties(
	_ context.Context, _ *efs.Client, r *resource.Request, live *types.AccessPointDescription,
) (map[string]any, error) {
	root := map[string]any{"Path": aws.ToString(live.RootDirectory.Path)}
	if c := live.RootDirectory.CreationInfo; c != nil {
		root["CreationInfo"] = map[string]any{
			"OwnerUid": number(*c.OwnerUid), "OwnerGid": number(*c.OwnerGid), "Permissions": aws.ToString(c.Permissions),
		}
	}
	all := map[string]any{"FileSystemId": aws.ToString(live.FileSystemId), "RootDirectory": root}
	if u := live.PosixUser; u != nil {
		user := map[string]any{"Uid": number(*u.Uid), "Gid": number(*u.Gid)}
		if len(u.SecondaryGids) > 0 {
			gids := make([]any, 0, len(u.SecondaryGids))
			for _, gid := range u.SecondaryGids {
				gids = append(gids, number(gid))
			}
			user["SecondaryGids"] = gids
		}
		all["PosixUser"] = user
	}
	if own := resource.TagObjects(r.LiveTags("AccessPointTags", tagMap(live.Tags))); own != nil {
		all["AccessPointTags"] = own
	}
	return all, nil
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
