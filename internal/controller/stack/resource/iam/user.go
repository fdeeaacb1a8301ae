package iam

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

var user = entity{
	putInline: func(ctx context.Context, c *iam.Client, name, policy, document string) error {
		_, err := c.PutUserPolicy(ctx, &iam.PutUserPolicyInput{
			UserName: &name, PolicyName: &policy, PolicyDocument: &document,
		})
		return err
	},
	deleteInline: func(ctx context.Context, c *iam.Client, name, policy string) error {
		_, err := c.DeleteUserPolicy(ctx, &iam.DeleteUserPolicyInput{UserName: &name, PolicyName: &policy})
		return err
	},
	getInline: func(ctx context.Context, c *iam.Client, name, policy string) (*string, error) {
		out, err := c.GetUserPolicy(ctx, &iam.GetUserPolicyInput{UserName: &name, PolicyName: &policy})
		if err != nil {
			return nil, err
		}
		return out.PolicyDocument, nil
	},
	listInline: func(ctx context.Context, c *iam.Client, name string) ([]string, error) {
		pages := iam.NewListUserPoliciesPaginator(c, &iam.ListUserPoliciesInput{UserName: &name})
		return resource.ListAll(ctx, pages, func(page *iam.ListUserPoliciesOutput) []string { return page.PolicyNames })
	},
	attach: func(ctx context.Context, c *iam.Client, name, arn string) error {
		_, err := c.AttachUserPolicy(ctx, &iam.AttachUserPolicyInput{UserName: &name, PolicyArn: &arn})
		return err
	},
	detach: func(ctx context.Context, c *iam.Client, name, arn string) error {
		_, err := c.DetachUserPolicy(ctx, &iam.DetachUserPolicyInput{UserName: &name, PolicyArn: &arn})
		return err
	},
	listAttached: func(ctx context.Context, c *iam.Client, name string) ([]string, error) {
		pages := iam.NewListAttachedUserPoliciesPaginator(c, &iam.ListAttachedUserPoliciesInput{UserName: &name})
		return resource.ListAll(ctx, pages, func(page *iam.ListAttachedUserPoliciesOutput) []string {
			return policyARNs(page.AttachedPolicies)
		})
	},
}

func getUser(ctx context.Context, c *iam.Client, name string) (*types.User, error) {
	out, err := c.GetUser(ctx, &iam.GetUserInput{UserName: &name})
	if err != nil {
		return nil, err
	}
	return out.User, nil
}

func addToGroup(ctx context.Context, c *iam.Client, name, group string) error {
	_, err := c.AddUserToGroup(ctx, &iam.AddUserToGroupInput{UserName: &name, GroupName: &group})
	return err
}

func removeFromGroup(ctx context.Context, c *iam.Client, name, group string) error {
	_, err := c.RemoveUserFromGroup(ctx, &iam.RemoveUserFromGroupInput{UserName: &name, GroupName: &group})
	return err
}

// setGroups puts a user into the groups of the property Groups, and out of those that were there before.
func setGroups(ctx context.Context, c *iam.Client, r *resource.Request) error {
	return changeList(r.Texts("Groups"), resource.Texts(r.Previous["Groups"]),
		func(group string) error { return addToGroup(ctx, c, r.PhysicalID, group) },
		func(group string) error { return removeFromGroup(ctx, c, r.PhysicalID, group) })
}

// pathOf returns the path of an entity whose template may leave it out.
func pathOf(r *resource.Request) string {
	if path := r.Text("Path"); path != "" {
		return path
	}
	return "/"
}

// users is the handler of AWS::IAM::User.
var users = resource.Handle(resource.Table[*iam.Client, types.User]{
	Client: newClient,
	Create: func(ctx context.Context, c *iam.Client, r *resource.Request) (string, error) {
		out, err := c.CreateUser(ctx, &iam.CreateUserInput{
			UserName: aws.String(nameOf(r, "UserName")), Path: r.Pointer("Path"),
			PermissionsBoundary: r.Pointer("PermissionsBoundary"), Tags: wantedTags(r),
		})
		if err != nil {
			return "", err
		}
		return aws.ToString(out.User.UserName), nil
	},
	Find: func(ctx context.Context, c *iam.Client, r *resource.Request) (string, error) {
		name := nameOf(r, "UserName")
		live, err := getUser(ctx, c, name)
		if err != nil {
			return "", err
		}
		return ownedName(r, name, live.Tags)
	},
	Describe: func(ctx context.Context, c *iam.Client, r *resource.Request) (*types.User, error) {
		return getUser(ctx, c, r.PhysicalID)
	},
	Configure: append(user.policySteps(),
		resource.Step[*iam.Client]{Properties: []string{"Groups"}, Run: setGroups},
		resource.Step[*iam.Client]{
			Properties: []string{"Path"}, Update: true,
			Run: func(ctx context.Context, c *iam.Client, r *resource.Request) error {
				_, err := c.UpdateUser(ctx, &iam.UpdateUserInput{
					UserName: &r.PhysicalID, NewPath: aws.String(pathOf(r)),
				})
				return err
			},
		},
		setBoundary(
			func(ctx context.Context, c *iam.Client, name, arn string) error {
				_, err := c.PutUserPermissionsBoundary(ctx, &iam.PutUserPermissionsBoundaryInput{
					UserName: &name, PermissionsBoundary: &arn,
				})
				return err
			},
			func(ctx context.Context, c *iam.Client, name string) error {
				_, err := c.DeleteUserPermissionsBoundary(ctx,
					&iam.DeleteUserPermissionsBoundaryInput{UserName: &name})
				return err
			},
		),
		setTags(
			func(ctx context.Context, c *iam.Client, name string, set map[string]string) error {
				_, err := c.TagUser(ctx, &iam.TagUserInput{UserName: &name, Tags: resource.TagList(set, newTag)})
				return err
			},
			func(ctx context.Context, c *iam.Client, name string, keys []string) error {
				_, err := c.UntagUser(ctx, &iam.UntagUserInput{UserName: &name, TagKeys: keys})
				return err
			},
		),
	),
	Delete: func(ctx context.Context, c *iam.Client, r *resource.Request) error {
		if err := user.clear(ctx, c, r); err != nil {
			return err
		}
		for _, group := range r.Texts("Groups") {
			if err := removeFromGroup(ctx, c, r.PhysicalID, group); err != nil && !resource.IsNotFound(err) {
				return err
			}
		}
		_, err := c.DeleteUser(ctx, &iam.DeleteUserInput{UserName: &r.PhysicalID})
		return err
	},
	Attributes: func(_ *resource.Request, live *types.User) map[string]any {
		return map[string]any{"Arn": aws.ToString(live.Arn)}
	},
	Properties: func(ctx context.Context, c *iam.Client, r *resource.Request, live *types.User) (map[string]any, error) {
		properties := resource.Encode(live, nil)
		pages := iam.NewListGroupsForUserPaginator(c, &iam.ListGroupsForUserInput{UserName: &r.PhysicalID})
		groups, err := resource.ListAll(ctx, pages, func(page *iam.ListGroupsForUserOutput) []types.Group {
			return page.Groups
		})
		if err != nil {
			return nil, err
		}
		names := make([]any, len(groups))
		for i, g := range groups {
			names[i] = aws.ToString(g.GroupName)
		}
		if len(names) > 0 {
			properties["Groups"] = names
		}
		return completeEntity(ctx, c, r, user, properties, live.PermissionsBoundary, live.Tags)
	},
})
