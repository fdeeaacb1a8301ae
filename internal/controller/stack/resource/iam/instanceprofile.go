package iam

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

func getProfile(ctx context.Context, c *iam.Client, name string) (*types.InstanceProfile, error) {
	out, err := c.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: &name})
	if err != nil {
		return nil, err
	}
	return out.InstanceProfile, nil
}

// instanceProfiles is the handler of AWS::IAM::InstanceProfile.
var instanceProfiles = resource.Handle(resource.Table[*iam.Client, types.InstanceProfile]{
	Client: newClient,
	Create: func(ctx context.Context, c *iam.Client, r *resource.Request) (string, error) {
		out, err := c.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{
			InstanceProfileName: aws.String(nameOf(r, "InstanceProfileName")), Path: r.Pointer("Path"),
			Tags: resource.TagList(r.Wanted(""), newTag),
		})
		if err != nil {
			return "", err
		}
		return aws.ToString(out.InstanceProfile.InstanceProfileName), nil
	},
	Find: func(ctx context.Context, c *iam.Client, r *resource.Request) (string, error) {
		name := nameOf(r, "InstanceProfileName")
		live, err := getProfile(ctx, c, name)
		if err != nil {
			return "", err
		}
		return ownedName(r, name, live.Tags)
	},
	Describe: func(ctx context.Context, c *iam.Client, r *resource.Request) (*types.InstanceProfile, error) {
		return getProfile(ctx, c, r.PhysicalID)
	},
	Configure: []resource.Step[*iam.Client]{
		{Properties: []string{"Roles"}, Run: setProfileRoles},
		setTags(
			func(ctx context.Context, c *iam.Client, name string, set map[string]string) error {
				_, err := c.TagInstanceProfile(ctx, &iam.TagInstanceProfileInput{
					InstanceProfileName: &name, Tags: resource.TagList(set, newTag),
				})
				return err
			},
			func(ctx context.Context, c *iam.Client, name string, keys []string) error {
				_, err := c.UntagInstanceProfile(ctx, &iam.UntagInstanceProfileInput{
					InstanceProfileName: &name, TagKeys: keys,
				})
				return err
			},
		),
	},
	Delete: func(ctx context.Context, c *iam.Client, r *resource.Request) error {
		emptied := *r
		emptied.Properties = nil
		if err := setProfileRoles(ctx, c, &emptied); err != nil {
			return err
		}
		_, err := c.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: &r.PhysicalID})
		return err
	},
	Attributes: func(_ *resource.Request, live *types.InstanceProfile) map[string]any {
		return map[string]any{"Arn": aws.ToString(live.Arn)}
	},
	Properties: func(
		_ context.Context, _ *iam.Client, _ *resource.Request, live *types.InstanceProfile,
	) (map[string]any, error) {
		return map[string]any{
			"InstanceProfileName": aws.ToString(live.InstanceProfileName), "Path": aws.ToString(live.Path),
			"Roles": anyList(roleNames(live)),
		}, nil
	},
})

func roleNames(live *types.InstanceProfile) []string {
	var names []string
	for _, o := range live.Roles {
		names = append(names, aws.ToString(o.RoleName))
	}
	return names
}

// setProfileRoles makes the role of an instance profile the one that the property Roles names.
func setProfileRoles(ctx context.Context, c *iam.Client, r *resource.Request) error {
	live, err := getProfile(ctx, c, r.PhysicalID)
	if err != nil {
		return err
	}
	had := map[string]bool{}
	for _, name := range roleNames(live) {
		had[name] = true
	}
	return changeList(r.Texts("Roles"), roleNames(live),
		func(name string) error {
			if had[name] {
				return nil
			}
			_, err := c.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{
				InstanceProfileName: &r.PhysicalID, RoleName: &name,
			})
			return err
		},
		func(name string) error {
			_, err := c.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{
				InstanceProfileName: &r.PhysicalID, RoleName: &name,
			})
			return err
		})
}
