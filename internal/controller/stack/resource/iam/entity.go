package iam

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// entity has the operations on the policies of roles, users or groups, which IAM has three times.
type entity struct {
	putInline    func(ctx context.Context, c *iam.Client, name, policy, document string) error
	deleteInline func(ctx context.Context, c *iam.Client, name, policy string) error
	getInline    func(ctx context.Context, c *iam.Client, name, policy string) (document *string, err error)
	listInline   func(ctx context.Context, c *iam.Client, name string) ([]string, error)
	attach       func(ctx context.Context, c *iam.Client, name, arn string) error
	detach       func(ctx context.Context, c *iam.Client, name, arn string) error
	listAttached func(ctx context.Context, c *iam.Client, name string) ([]string, error)
}

// inlineOf returns the inline policies of a property by their names.
func inlineOf(property any) map[string]any {
	policies := map[string]any{}
	for _, p := range resource.Objects(property) {
		policies[resource.Text(p["PolicyName"])] = p["PolicyDocument"]
	}
	return policies
}

// setInline gives an entity the inline policies of the property Policies, and takes those that it had there before.
func (e entity) setInline(ctx context.Context, c *iam.Client, r *resource.Request) error {
	wanted := inlineOf(r.Properties["Policies"])
	for _, p := range r.Objects("Policies") {
		name := resource.Text(p["PolicyName"])
		if err := e.putInline(ctx, c, r.PhysicalID, name, resource.Text(wanted[name])); err != nil {
			return err
		}
	}
	for name := range inlineOf(r.Previous["Policies"]) {
		if _, kept := wanted[name]; kept {
			continue
		}
		if err := e.deleteInline(ctx, c, r.PhysicalID, name); err != nil && !resource.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// setAttached attaches the managed policies of the property ManagedPolicyArns, and detaches those that were there
// before. It detaches first, as an entity can have only so many.
func (e entity) setAttached(ctx context.Context, c *iam.Client, r *resource.Request) error {
	wanted, had := r.Texts("ManagedPolicyArns"), resource.Texts(r.Previous["ManagedPolicyArns"])
	return changeList(wanted, had,
		func(arn string) error { return e.attach(ctx, c, r.PhysicalID, arn) },
		func(arn string) error { return e.detach(ctx, c, r.PhysicalID, arn) })
}

// changeList removes what is in a list no longer, and then adds all that is in it, which may be there already.
func changeList(wanted, had []string, add, remove func(string) error) error {
	for _, name := range had {
		if slices.Contains(wanted, name) {
			continue
		}
		if err := remove(name); err != nil && !resource.IsNotFound(err) {
			return err
		}
	}
	for _, name := range wanted {
		if err := add(name); err != nil {
			return err
		}
	}
	return nil
}

// clear takes the policies that the stack gave an entity, which is about to be deleted. Those of others stay, and keep
// IAM from deleting it.
func (e entity) clear(ctx context.Context, c *iam.Client, r *resource.Request) error {
	emptied := *r
	emptied.Properties, emptied.Previous = nil, r.Properties
	if err := e.setInline(ctx, c, &emptied); err != nil {
		return err
	}
	return e.setAttached(ctx, c, &emptied)
}

// describe adds the policies of an entity to its properties.
func (e entity) describe(ctx context.Context, c *iam.Client, name string, properties map[string]any) error {
	names, err := e.listInline(ctx, c, name)
	if err != nil {
		return err
	}
	var policies []any
	for _, policy := range names {
		document, err := e.getInline(ctx, c, name, policy)
		if err != nil {
			return err
		}
		policies = append(policies, map[string]any{"PolicyName": policy, "PolicyDocument": decodeDocument(document)})
	}
	if policies != nil {
		properties["Policies"] = policies
	}
	arns, err := e.listAttached(ctx, c, name)
	if err != nil {
		return err
	}
	if len(arns) > 0 {
		properties["ManagedPolicyArns"] = anyList(arns)
	}
	return nil
}

func anyList(texts []string) []any {
	list := make([]any, len(texts))
	for i, text := range texts {
		list[i] = text
	}
	return list
}

// policySteps returns the steps that apply the policies of an entity.
func (e entity) policySteps() []resource.Step[*iam.Client] {
	return []resource.Step[*iam.Client]{
		{Properties: []string{"Policies"}, Run: e.setInline},
		{Properties: []string{"ManagedPolicyArns"}, Run: e.setAttached},
	}
}

// entityPolicy returns the handler of AWS::IAM::RolePolicy and its like: one inline policy of one entity. property
// names the property that has the name of the entity.
func entityPolicy(e entity, property string) resource.Handler {
	names := func(r *resource.Request) (policy, name string) {
		if policy, name, ok := strings.Cut(r.PhysicalID, "|"); ok {
			return policy, name
		}
		return r.Text("PolicyName"), r.Text(property)
	}
	put := func(ctx context.Context, c *iam.Client, r *resource.Request) error {
		policy, name := names(r)
		return e.putInline(ctx, c, name, policy, resource.Text(r.Properties["PolicyDocument"]))
	}
	return resource.Claim(resource.Table[*iam.Client, string]{
		Client: newClient,
		Create: func(ctx context.Context, c *iam.Client, r *resource.Request) (string, error) {
			policy, name := names(r)
			if r.Properties["PolicyDocument"] == nil {
				return "", resource.Errorf(resource.InvalidRequest, "PolicyDocument must be specified")
			}
			return policy + "|" + name, put(ctx, c, r)
		},
		Describe: func(ctx context.Context, c *iam.Client, r *resource.Request) (*string, error) {
			policy, name := names(r)
			return e.getInline(ctx, c, name, policy)
		},
		Configure: []resource.Step[*iam.Client]{{Properties: []string{"PolicyDocument"}, Update: true, Run: put}},
		Delete: func(ctx context.Context, c *iam.Client, r *resource.Request) error {
			policy, name := names(r)
			return e.deleteInline(ctx, c, name, policy)
		},
		Properties: func(_ context.Context, _ *iam.Client, r *resource.Request, live *string) (map[string]any, error) {
			policy, name := names(r)
			return map[string]any{
				"PolicyName": policy, property: name, "PolicyDocument": decodeDocument(live),
			}, nil
		},
	}, func(r *resource.Request) (string, bool) {
		policy, name := names(r)
		return policy + "|" + name, false
	})
}

// setBoundary returns the step that sets or takes a permissions boundary.
func setBoundary(
	put func(context.Context, *iam.Client, string, string) error,
	remove func(context.Context, *iam.Client, string) error,
) resource.Step[*iam.Client] {
	return resource.Step[*iam.Client]{
		Properties: []string{"PermissionsBoundary"}, Update: true,
		Run: func(ctx context.Context, c *iam.Client, r *resource.Request) error {
			if arn := r.Text("PermissionsBoundary"); arn != "" {
				return put(ctx, c, r.PhysicalID, arn)
			}
			if err := remove(ctx, c, r.PhysicalID); err != nil && !resource.IsNotFound(err) {
				return err
			}
			return nil
		},
	}
}

// setTags returns the step that changes tags.
func setTags(
	tag func(ctx context.Context, c *iam.Client, id string, set map[string]string) error,
	untag func(ctx context.Context, c *iam.Client, id string, keys []string) error,
) resource.Step[*iam.Client] {
	return resource.Step[*iam.Client]{
		Properties: []string{"Tags"}, Tags: true,
		Run: func(ctx context.Context, c *iam.Client, r *resource.Request) error {
			set, removed := r.TagChanges("Tags")
			if len(removed) > 0 {
				if err := untag(ctx, c, r.PhysicalID, removed); err != nil {
					return err
				}
			}
			if len(set) == 0 {
				return nil
			}
			return tag(ctx, c, r.PhysicalID, set)
		},
	}
}

// lastPage returns the marker of the next page, nil after the last one.
func lastPage(truncated bool, marker *string) *string {
	if !truncated {
		return nil
	}
	return aws.String(aws.ToString(marker))
}
