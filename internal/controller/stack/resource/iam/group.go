package iam

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

var group = entity{
	putInline: func(ctx context.Context, c *iam.Client, name, policy, document string) error {
		_, err := c.PutGroupPolicy(ctx, &iam.PutGroupPolicyInput{
			GroupName: &name, PolicyName: &policy, PolicyDocument: &document,
		})
		return err
	},
	deleteInline: func(ctx context.Context, c *iam.Client, name, policy string) error {
		_, err := c.DeleteGroupPolicy(ctx, &iam.DeleteGroupPolicyInput{GroupName: &name, PolicyName: &policy})
		return err
	},
	getInline: func(ctx context.Context, c *iam.Client, name, policy string) (*string, error) {
		out, err := c.GetGroupPolicy(ctx, &iam.GetGroupPolicyInput{GroupName: &name, PolicyName: &policy})
		if err != nil {
			return nil, err
		}
		return out.PolicyDocument, nil
	},
	listInline: func(ctx context.Context, c *iam.Client, name string) ([]string, error) {
		pages := iam.NewListGroupPoliciesPaginator(c, &iam.ListGroupPoliciesInput{GroupName: &name})
		return resource.ListAll(ctx, pages, func(page *iam.ListGroupPoliciesOutput) []string { return page.PolicyNames })
	},
	attach: func(ctx context.Context, c *iam.Client, name, arn string) error {
		_, err := c.AttachGroupPolicy(ctx, &iam.AttachGroupPolicyInput{GroupName: &name, PolicyArn: &arn})
		return err
	},
	detach: func(ctx context.Context, c *iam.Client, name, arn string) error {
		_, err := c.DetachGroupPolicy(ctx, &iam.DetachGroupPolicyInput{GroupName: &name, PolicyArn: &arn})
		return err
	},
	listAttached: func(ctx context.Context, c *iam.Client, name string) ([]string, error) {
		pages := iam.NewListAttachedGroupPoliciesPaginator(c, &iam.ListAttachedGroupPoliciesInput{GroupName: &name})
		return resource.ListAll(ctx, pages, func(page *iam.ListAttachedGroupPoliciesOutput) []string {
			return policyARNs(page.AttachedPolicies)
		})
	},
}

// before is what Progress has of what was there before: the members of the group, divided by slashes.
const before = "before"

// groups is the handler of AWS::IAM::Group. Groups have no tags.
var groups = resource.Claim(resource.Table[*iam.Client, types.Group]{
	Client: newClient,
	Create: func(ctx context.Context, c *iam.Client, r *resource.Request) (string, error) {
		out, err := c.CreateGroup(ctx, &iam.CreateGroupInput{
			GroupName: aws.String(nameOf(r, "GroupName")), Path: r.Pointer("Path"),
		})
		if err != nil {
			return "", err
		}
		return aws.ToString(out.Group.GroupName), nil
	},
	Describe: func(ctx context.Context, c *iam.Client, r *resource.Request) (*types.Group, error) {
		out, err := c.GetGroup(ctx, &iam.GetGroupInput{GroupName: &r.PhysicalID, MaxItems: aws.Int32(1)})
		if err != nil {
			return nil, err
		}
		return out.Group, nil
	},
	Configure: append(group.policySteps(), resource.Step[*iam.Client]{
		Properties: []string{"Path"}, Update: true,
		Run: func(ctx context.Context, c *iam.Client, r *resource.Request) error {
			_, err := c.UpdateGroup(ctx, &iam.UpdateGroupInput{
				GroupName: &r.PhysicalID, NewPath: aws.String(pathOf(r)),
			})
			return err
		},
	}),
	Delete: func(ctx context.Context, c *iam.Client, r *resource.Request) error {
		if err := group.clear(ctx, c, r); err != nil {
			return err
		}
		_, err := c.DeleteGroup(ctx, &iam.DeleteGroupInput{GroupName: &r.PhysicalID})
		return err
	},
	Attributes: func(_ *resource.Request, live *types.Group) map[string]any {
		return map[string]any{"Arn": aws.ToString(live.Arn)}
	},
	Properties: func(ctx context.Context, c *iam.Client, r *resource.Request, live *types.Group) (map[string]any, error) {
		properties := resource.Encode(live, nil)
		return properties, group.describe(ctx, c, r.PhysicalID, properties)
	},
}, func(r *resource.Request) (string, bool) {
	return nameOf(r, "GroupName"), r.Text("GroupName") == ""
})

// memberships is the handler of AWS::IAM::UserToGroupAddition: users in a group. There is nothing in IAM that has the
// physical ID, which is the generated name.
//
// Create notes first which users are members: a creation that fails leaves them so.
type memberships struct{}

// Create is part of [resource.Handler].
func (memberships) Create(ctx context.Context, r *resource.Request) (resource.Result, error) {
	if _, noted := r.Progress[before]; !noted {
		members, err := membersOf(ctx, newClient(r.Config), r)
		if err != nil {
			return resource.Result{}, err
		}
		return resource.Result{
			Pending: time.Millisecond, Progress: map[string]string{before: strings.Join(members, "/")},
		}, nil
	}
	return memberships{}.set(ctx, r, r.Name)
}

// Update is part of [resource.Handler].
func (memberships) Update(ctx context.Context, r *resource.Request) (resource.Result, error) {
	return memberships{}.set(ctx, r, r.PhysicalID)
}

func (memberships) set(ctx context.Context, r *resource.Request, id string) (resource.Result, error) {
	c, out := newClient(r.Config), resource.Result{PhysicalID: id, Attributes: map[string]any{"Id": id}}
	name, users := r.Text("GroupName"), r.Texts("Users")
	former, had := resource.Text(r.Previous["GroupName"]), resource.Texts(r.Previous["Users"])
	if former != name {
		for _, user := range had {
			if err := removeFromGroup(ctx, c, user, former); err != nil && !resource.IsNotFound(err) {
				return out, err
			}
		}
		had = nil
	}
	return out, changeList(users, had,
		func(user string) error { return addToGroup(ctx, c, user, name) },
		func(user string) error { return removeFromGroup(ctx, c, user, name) })
}

// Delete is part of [resource.Handler].
func (memberships) Delete(ctx context.Context, r *resource.Request) (resource.Result, error) {
	c := newClient(r.Config)
	members := strings.Split(r.Creation[before], "/")
	for _, user := range r.Texts("Users") {
		if slices.Contains(members, user) {
			continue
		}
		if err := removeFromGroup(ctx, c, user, r.Text("GroupName")); err != nil && !resource.IsNotFound(err) {
			return resource.Result{}, err
		}
	}
	return resource.Result{}, nil
}

// Read is part of [resource.Handler].
func (memberships) Read(ctx context.Context, r *resource.Request) (properties, attributes map[string]any, err error) {
	members, err := membersOf(ctx, newClient(r.Config), r)
	switch {
	case resource.IsNotFound(err), err == nil && len(members) == 0:
		return nil, nil, resource.ErrNotFound
	case err != nil:
		return nil, nil, err
	}
	users := make([]any, len(members))
	for i, name := range members {
		users[i] = name
	}
	return map[string]any{"GroupName": r.Text("GroupName"), "Users": users}, map[string]any{"Id": r.PhysicalID}, nil
}

// membersOf returns the users of a request that are members of its group.
func membersOf(ctx context.Context, c *iam.Client, r *resource.Request) (members []string, err error) {
	wanted := r.Texts("Users")
	pages := iam.NewGetGroupPaginator(c, &iam.GetGroupInput{GroupName: r.Pointer("GroupName")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, u := range page.Users {
			if name := aws.ToString(u.UserName); slices.Contains(wanted, name) { // others are none of this resource
				members = append(members, name)
			}
		}
	}
	return members, nil
}

// Updatable returns the properties that the handler changes in place.
func (memberships) Updatable() []string {
	return []string{"GroupName", "Users"}
}
