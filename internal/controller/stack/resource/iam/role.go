package iam

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

var role = entity{
	putInline: func(ctx context.Context, c *iam.Client, name, policy, document string) error {
		_, err := c.PutRolePolicy(ctx, &iam.PutRolePolicyInput{
			RoleName: &name, PolicyName: &policy, PolicyDocument: &document,
		})
		return err
	},
	deleteInline: func(ctx context.Context, c *iam.Client, name, policy string) error {
		_, err := c.DeleteRolePolicy(ctx, &iam.DeleteRolePolicyInput{RoleName: &name, PolicyName: &policy})
		return err
	},
	getInline: func(ctx context.Context, c *iam.Client, name, policy string) (*string, error) {
		out, err := c.GetRolePolicy(ctx, &iam.GetRolePolicyInput{RoleName: &name, PolicyName: &policy})
		if err != nil {
			return nil, err
		}
		return out.PolicyDocument, nil
	},
	listInline: func(ctx context.Context, c *iam.Client, name string) ([]string, error) {
		pages := iam.NewListRolePoliciesPaginator(c, &iam.ListRolePoliciesInput{RoleName: &name})
		return resource.ListAll(ctx, pages, func(page *iam.ListRolePoliciesOutput) []string { return page.PolicyNames })
	},
	attach: func(ctx context.Context, c *iam.Client, name, arn string) error {
		_, err := c.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: &name, PolicyArn: &arn})
		return err
	},
	detach: func(ctx context.Context, c *iam.Client, name, arn string) error {
		_, err := c.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: &name, PolicyArn: &arn})
		return err
	},
	listAttached: func(ctx context.Context, c *iam.Client, name string) ([]string, error) {
		pages := iam.NewListAttachedRolePoliciesPaginator(c, &iam.ListAttachedRolePoliciesInput{RoleName: &name})
		return resource.ListAll(ctx, pages, func(page *iam.ListAttachedRolePoliciesOutput) []string {
			return policyARNs(page.AttachedPolicies)
		})
	},
}

func policyARNs(list []types.AttachedPolicy) []string {
	arns := make([]string, len(list))
	for i, p := range list {
		arns[i] = aws.ToString(p.PolicyArn)
	}
	return arns
}

func getRole(ctx context.Context, c *iam.Client, name string) (*types.Role, error) {
	out, err := c.GetRole(ctx, &iam.GetRoleInput{RoleName: &name})
	if err != nil {
		return nil, err
	}
	return out.Role, nil
}

const defaultMaxSession = 3600 // seconds

// roles is the handler of AWS::IAM::Role.
var roles = resource.Handle(resource.Table[*iam.Client, types.Role]{
	Client: newClient,
	Create: func(ctx context.Context, c *iam.Client, r *resource.Request) (string, error) {
		out, err := c.CreateRole(ctx, &iam.CreateRoleInput{
			RoleName: aws.String(nameOf(r, "RoleName")), Path: r.Pointer("Path"), Description: r.Pointer("Description"),
			AssumeRolePolicyDocument: aws.String(resource.Text(r.Properties["AssumeRolePolicyDocument"])),
			MaxSessionDuration:       r.Int32("MaxSessionDuration"),
			PermissionsBoundary:      r.Pointer("PermissionsBoundary"), Tags: wantedTags(r),
		})
		if err != nil {
			return "", err
		}
		return aws.ToString(out.Role.RoleName), nil
	},
	Find: func(ctx context.Context, c *iam.Client, r *resource.Request) (string, error) {
		name := nameOf(r, "RoleName")
		live, err := getRole(ctx, c, name)
		if err != nil {
			return "", err
		}
		return ownedName(r, name, live.Tags)
	},
	Describe: func(ctx context.Context, c *iam.Client, r *resource.Request) (*types.Role, error) {
		return getRole(ctx, c, r.PhysicalID)
	},
	Configure: append(role.policySteps(),
		resource.Step[*iam.Client]{
			Properties: []string{"AssumeRolePolicyDocument"}, Update: true,
			Run: func(ctx context.Context, c *iam.Client, r *resource.Request) error {
				_, err := c.UpdateAssumeRolePolicy(ctx, &iam.UpdateAssumeRolePolicyInput{
					RoleName:       &r.PhysicalID,
					PolicyDocument: aws.String(resource.Text(r.Properties["AssumeRolePolicyDocument"])),
				})
				return err
			},
		},
		resource.Step[*iam.Client]{
			Properties: []string{"Description", "MaxSessionDuration"}, Update: true,
			Run: func(ctx context.Context, c *iam.Client, r *resource.Request) error {
				in := &iam.UpdateRoleInput{
					RoleName: &r.PhysicalID, Description: aws.String(r.Text("Description")),
					MaxSessionDuration: r.Int32("MaxSessionDuration"),
				}
				if in.MaxSessionDuration == nil {
					in.MaxSessionDuration = aws.Int32(defaultMaxSession)
				}
				_, err := c.UpdateRole(ctx, in)
				return err
			},
		},
		setBoundary(
			func(ctx context.Context, c *iam.Client, name, arn string) error {
				_, err := c.PutRolePermissionsBoundary(ctx, &iam.PutRolePermissionsBoundaryInput{
					RoleName: &name, PermissionsBoundary: &arn,
				})
				return err
			},
			func(ctx context.Context, c *iam.Client, name string) error {
				_, err := c.DeleteRolePermissionsBoundary(ctx,
					&iam.DeleteRolePermissionsBoundaryInput{RoleName: &name})
				return err
			},
		),
		setTags(
			func(ctx context.Context, c *iam.Client, name string, set map[string]string) error {
				_, err := c.TagRole(ctx, &iam.TagRoleInput{RoleName: &name, Tags: resource.TagList(set, newTag)})
				return err
			},
			func(ctx context.Context, c *iam.Client, name string, keys []string) error {
				_, err := c.UntagRole(ctx, &iam.UntagRoleInput{RoleName: &name, TagKeys: keys})
				return err
			},
		),
	),
	Delete: func(ctx context.Context, c *iam.Client, r *resource.Request) error {
		if err := role.clear(ctx, c, r); err != nil {
			return err
		}
		_, err := c.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: &r.PhysicalID})
		return err
	},
	Attributes: func(_ *resource.Request, live *types.Role) map[string]any {
		return map[string]any{"Arn": aws.ToString(live.Arn), "RoleId": aws.ToString(live.RoleId)}
	},
	Properties: func(ctx context.Context, c *iam.Client, r *resource.Request, live *types.Role) (map[string]any, error) {
		properties := resource.Encode(live, nil)
		properties["AssumeRolePolicyDocument"] = decodeDocument(live.AssumeRolePolicyDocument)
		return completeEntity(ctx, c, r, role, properties, live.PermissionsBoundary, live.Tags)
	},
})

// completeEntity adds to the properties of an entity what its description has in other terms.
func completeEntity(
	ctx context.Context, c *iam.Client, r *resource.Request, e entity, properties map[string]any,
	boundary *types.AttachedPermissionsBoundary, tags []types.Tag,
) (map[string]any, error) {
	delete(properties, "PermissionsBoundary")
	if boundary != nil {
		properties["PermissionsBoundary"] = aws.ToString(boundary.PermissionsBoundaryArn)
	}
	setLiveTags(r, properties, tags)
	return properties, e.describe(ctx, c, r.PhysicalID, properties)
}
